// A plain C entry for Python, on one thread.
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "../quant_matmul/quant_matmul.h"
#include "block_attention.h"

namespace block_attention {

#if defined(__x86_64__)
extern const Attention attention_avx512vnni, attention_avxvnni, attention_avx2;
#elif defined(__aarch64__)
extern const Attention attention_neon;
#endif

const Attention * attention_of(const char * variant) {
#if defined(__x86_64__)
    if (strcmp(variant, "avx2") == 0) {
        return &attention_avx2;
    }
    return strcmp(variant, "avxvnni") == 0 ? &attention_avxvnni : &attention_avx512vnni;  // the tile unit only multiplies
#elif defined(__aarch64__)
    (void)variant;
    return &attention_neon;
#else
    (void)variant;
    return nullptr;
#endif
}

}  // namespace block_attention

using namespace block_attention;

// q [m, heads, width]; k [cells, key_heads, width], v [cells, key_heads, value_width], in 16 bits or as blocks of 8 bits;
// mask [m, cells] in 16 bits; out [m, heads, value_width]. Gives 1 for a variant that there is not.
extern "C" __attribute__((visibility("default"))) int attention_attend(int variant, const float * q, const char * k, const char * v,
                                                                       const uint16_t * mask, float * out, int m, int heads, int key_heads,
                                                                       int cells, int width, int value_width, int eight_bits, float scale,
                                                                       float softcap) {
    int variants = 0;
    const quant::Kernels * const * const usable = quant::usable_kernels(&variants);
    if (variant >= variants) {
        return 1;
    }
    const Attention & attention = *attention_of(usable[variant]->name);
    const int group = heads / key_heads, segments = (cells + kSegment - 1) / kSegment;
    const int64_t key_bytes = eight_bits ? width / 32 * 34 : width * 2, value_bytes = eight_bits ? value_width / 32 * 34 : value_width * 2;
    const int64_t step = 2 + value_width;
    std::vector<float> workspace{}, partial{};
    std::vector<int32_t> seen{};
    workspace.resize(size_t(workspace_size()));
    partial.resize(size_t(segments * kRows * group * step));
    seen.resize(size_t(kRows) * size_t(cells + 1));
    for (int first = 0; first < m; first += kRows) {
        Job job = {};
        job.n_rows = m - first < kRows ? m - first : kRows;
        job.n_heads = group;
        job.width = width;
        job.value_width = value_width;
        job.scale = scale;
        job.softcap = softcap;
        for (int h = 0; h < group; ++h) {
            job.slope[h] = 1.0f;
        }
        for (int r = 0; r < job.n_rows; ++r) {
            bool biased = false;
            const uint16_t * const row = mask + int64_t(first + r) * cells;
            job.cells[r] = seen.data() + int64_t(r) * (cells + 1);
            job.n_cells[r] = attention.visible(row, cells, (int32_t *)job.cells[r], &biased);
            job.mask[r] = biased ? row : nullptr;
        }
        for (int head = 0; head < key_heads; ++head) {
            job.queries = {q + (int64_t(first) * heads + head * group) * width, int64_t(heads) * width, width};
            job.keys = {k + head * key_bytes, key_heads * key_bytes, eight_bits != 0};
            job.values = {v + head * value_bytes, key_heads * value_bytes, eight_bits != 0};
            for (job.segment = 0; job.segment < segments; ++job.segment) {
                job.partial = partial.data() + job.segment * kRows * group * step;
                attention.run(job, workspace.data());
            }
            for (int r = 0; r < job.n_rows; ++r) {
                for (int h = 0; h < group; ++h) {
                    attention.merge(partial.data() + (r * group + h) * step, kRows * group * step, (job.n_cells[r] + kSegment - 1) / kSegment,
                                    nullptr, out + ((int64_t(first) + r) * heads + head * group + h) * value_width, value_width);
                }
            }
        }
    }
    return 0;
}

// Products with weights, and attention.
#include <math.h>
#include <string.h>

#include "steps.h"

namespace accelerator {
namespace {

using block_attention::kRows;
using block_attention::kSegment;

// Tiles of a share: a few, so that a thread that is held up elsewhere leaves the rest to the others.
int64_t tiles_of_share(int64_t tiles, int threads) {
    const int64_t share = tiles / (threads * 16);
    return share < 1 ? 1 : share > 16 ? 16 : share;
}

}  // namespace

// Blocks of rows, split evenly.
void Steps::quantise(const Step & step, int thread, int threads) {
    const ggml_tensor * const source = step.tensor->src[1];
    const quant::Format & format = *quant::format_of(step.tensor->src[0]->type);
    const int64_t k = source->ne[0], blocks = k / format.block, all = blocks * row_count(source);
    const size_t size = quant::row_size(format, k);
    int64_t at = all * thread / threads;
    const int64_t last = all * (thread + 1) / threads;
    while (at < last) {
        const int64_t row = at / blocks, first = at % blocks;
        const int64_t until = last - at < blocks - first ? first + last - at : blocks;
        machine().quant->quantise(format, (const float *)row_of(source, row), step.room + size_t(row) * size, k, first, until);
        at += until - first;
    }
}

// Each thread reads one stretch of the weights from its beginning on, since memory reads ahead of who goes straight on (a
// twentieth faster than shares in turns), and helps the others when it is through.
void Steps::multiply(const Step & step, int thread, int threads) {
    const ggml_tensor * const t = step.tensor, * const weights = t->src[0];
    const quant::Format & format = *quant::format_of(weights->type);
    const int64_t k = weights->ne[0], n = weights->ne[1], rows = row_count(t), tiles = (n + quant::kTile - 1) / quant::kTile;
    const int64_t share = tiles_of_share(tiles, threads);
    const size_t size = quant::row_size(format, k);
    for (int i = 0; i < threads; ++i) {
        const int owner = (thread + i) % threads;
        const int64_t begin = tiles * owner / threads, end = tiles * (owner + 1) / threads;
        for (;;) {
            const int64_t first = begin + int64_t(step.next[owner].fetch_add(1, std::memory_order_relaxed)) * share;
            if (first >= end) {
                break;
            }
            const int64_t last = first + share < end ? first + share : end;
            for (int64_t r = 0; r < rows; r += quant::kMostRows) {
                const uint8_t * in[quant::kMostRows];
                float * out[quant::kMostRows];
                const int some = int(rows - r < quant::kMostRows ? rows - r : quant::kMostRows);
                for (int j = 0; j < some; ++j) {
                    in[j] = step.room + size_t(r + j) * size;
                    out[j] = (float *)row_of(t, r + j);
                }
                machine().quant->multiply(format, (const uint8_t *)weights->data, in, some, k, n, first, last, out);
            }
        }
    }
}

// A share is one expert: the rows that chose it are multiplied together.
void Steps::multiply_experts(const Step & step, int, int) {
    const ggml_tensor * const t = step.tensor, * const weights = t->src[0], * const source = t->src[1], * const ids = t->src[2];
    const quant::Format & format = *quant::format_of(weights->type);
    const int64_t k = weights->ne[0], n = weights->ne[1], tiles = (n + quant::kTile - 1) / quant::kTile;
    const size_t size = quant::row_size(format, k), expert_size = quant::packed_size(format, k, n);
    constexpr int64_t parts = 4;  // of an expert's tiles, for balance
    for (;;) {
        const int64_t share = step.next->fetch_add(1, std::memory_order_relaxed), expert = share / parts, part = share % parts;
        if (expert >= weights->ne[2]) {
            return;
        }
        const uint8_t * in[quant::kMostRows];
        float * out[quant::kMostRows];
        int some = 0;
        const auto flush = [&] {
            if (some) {
                machine().quant->multiply(format, (const uint8_t *)weights->data + size_t(expert) * expert_size, in, some, k, n,
                                          tiles * part / parts, tiles * (part + 1) / parts, out);
                some = 0;
            }
        };
        for (int64_t token = 0; token < ids->ne[1]; ++token) {
            for (int64_t choice = 0; choice < ids->ne[0]; ++choice) {
                int32_t id;
                memcpy(&id, (const char *)ids->data + choice * ids->nb[0] + token * ids->nb[1], 4);
                if (id != expert) {
                    continue;
                }
                in[some] = step.room + size_t(token * source->ne[1] + choice % source->ne[1]) * size;
                out[some] = (float *)((char *)t->data + choice * t->nb[1] + token * t->nb[2]);
                if (++some == quant::kMostRows) {
                    flush();
                }
            }
        }
        flush();
    }
}

// Weights that are not quantised.
void Steps::multiply_plain(const Step & step, int, int) {
    const ggml_tensor * const t = step.tensor, * const weights = t->src[0], * const source = t->src[1];
    const int64_t rows = row_count(t), k = weights->ne[0];
    constexpr int64_t share = 16;
    for (;;) {
        const int64_t first = int64_t(step.next->fetch_add(1, std::memory_order_relaxed)) * share;
        if (first >= t->ne[0]) {
            return;
        }
        const int64_t last = first + share < t->ne[0] ? first + share : t->ne[0];
        for (int64_t r = 0; r < rows; ++r) {
            const float * const x = (const float *)row_of(source, r);
            float * const y = (float *)row_of(t, r);
            for (int64_t o = first; o < last; ++o) {
                const char * const w = (const char *)weights->data + o * weights->nb[1];
                y[o] = weights->type == GGML_TYPE_F32   ? machine().rows->dot((const float *)w, x, k)
                       : weights->type == GGML_TYPE_F16 ? machine().rows->dot_half((const uint16_t *)w, x, k)
                                                        : machine().rows->dot_brain((const uint16_t *)w, x, k);
            }
        }
    }
}

// Lists the cells that each row sees.
void Steps::look(const Step & step, int thread, int threads) {
    const ggml_tensor * const t = step.tensor, * const mask = t->src[3];
    const Seen seen{mask, step.other, t->src[0]->ne[1], t->src[1]->ne[1]};
    for (int64_t r = seen.n_rows * thread / threads; r < seen.n_rows * (thread + 1) / threads; ++r) {
        bool biased = false;
        if (mask) {
            seen.counts()[r] = machine().attention->visible((const uint16_t *)((const char *)mask->data + r * mask->nb[1]),
                                                            seen.n_cells, seen.cells(r), &biased);
        } else {
            for (int64_t c = 0; c < seen.n_cells; ++c) {
                seen.cells(r)[c] = int32_t(c);
            }
            seen.counts()[r] = int32_t(seen.n_cells);
        }
        seen.biased()[r] = biased;
    }
}

// A share is a segment of the cells of up to kRows rows, for one key head.
void Steps::attend(const Step & step, int thread, int) {
    const ggml_tensor * const t = step.tensor, * const q = t->src[0], * const k = t->src[1], * const v = t->src[2];
    const Seen seen{t->src[3], step.other, q->ne[1], k->ne[1]};
    const int64_t groups = (seen.n_rows + kRows - 1) / kRows, segments = step.count, heads = q->ne[2] / k->ne[2];
    const float max_bias = parameter(t, 1), softcap = parameter(t, 2);
    const uint32_t power = 1u << uint32_t(floor(log2(double(q->ne[2]))));
    const float m0 = powf(2.0f, -max_bias / float(power)), m1 = powf(2.0f, -max_bias / 2.0f / float(power));
    float * const workspace = (float *)(step.room) + int64_t(thread) * block_attention::workspace_size();
    float * const results = (float *)(step.room) + step.stride;
    const int64_t width = 2 + v->ne[0];
    for (;;) {
        const int64_t share = step.next->fetch_add(1, std::memory_order_relaxed);
        if (share >= groups * k->ne[2] * segments) {
            return;
        }
        const int64_t segment = share % segments, head = share / segments % k->ne[2], group = share / segments / k->ne[2];
        const int64_t first = group * kRows;
        block_attention::Job job = {};
        job.n_rows = int(seen.n_rows - first < kRows ? seen.n_rows - first : kRows);
        int32_t most = 0;
        for (int r = 0; r < job.n_rows; ++r) {
            job.cells[r] = seen.cells(first + r);
            job.n_cells[r] = seen.counts()[first + r];
            most = job.n_cells[r] > most ? job.n_cells[r] : most;
            job.mask[r] = seen.biased()[first + r] ? (const uint16_t *)((const char *)seen.mask->data + (first + r) * seen.mask->nb[1]) : nullptr;
        }
        if (most <= segment * kSegment) {
            continue;
        }
        job.width = int(k->ne[0]);
        job.value_width = int(v->ne[0]);
        job.softcap = softcap;
        job.scale = parameter(t, 0);
        job.segment = int(segment);
        job.keys = {(const char *)k->data + head * k->nb[2], int64_t(k->nb[1]), k->type == GGML_TYPE_Q8_0};
        job.values = {(const char *)v->data + head * v->nb[2], int64_t(v->nb[1]), v->type == GGML_TYPE_Q8_0};
        job.n_heads = int(heads);
        for (int h = 0; h < heads; ++h) {
            const uint32_t all = uint32_t(head * heads + h);
            job.slope[h] = max_bias <= 0.0f ? 1.0f : all < power ? powf(m0, float(all + 1)) : powf(m1, float(2 * (all - power) + 1));
        }
        job.queries = {(const float *)((const char *)q->data + first * q->nb[1] + head * heads * q->nb[2]), int64_t(q->nb[1] / 4),
                       int64_t(q->nb[2] / 4)};
        // One segment's results of all rows and heads lie together: [segment][row][head].
        job.partial = results + ((group * k->ne[2] + head) * segments + segment) * kRows * heads * width;
        machine().attention->run(job, workspace);
    }
}

void Steps::merge(const Step & step, int thread, int threads) {
    const ggml_tensor * const t = step.tensor, * const q = t->src[0], * const k = t->src[1], * const v = t->src[2];
    const Seen seen{t->src[3], step.other, q->ne[1], k->ne[1]};
    const int64_t segments = step.count, heads = q->ne[2] / k->ne[2], width = 2 + v->ne[0], all = seen.n_rows * q->ne[2];
    const float * const results = (const float *)(step.room) + step.stride;
    const float * const sinks = t->src[4] ? (const float *)t->src[4]->data : nullptr;
    for (int64_t i = all * thread / threads; i < all * (thread + 1) / threads; ++i) {
        const int64_t row = i / q->ne[2], head = i % q->ne[2], group = row / kRows, key_head = head / heads;
        const float * const first = results + (group * k->ne[2] + key_head) * segments * kRows * heads * width +
                                    (row % kRows * heads + head % heads) * width;
        const int64_t seen_segments = (seen.counts()[row] + kSegment - 1) / kSegment;
        machine().attention->merge(first, kRows * heads * width, int(seen_segments), sinks ? sinks + head : nullptr,
                                   (float *)((char *)t->data + head * t->nb[1] + row * t->nb[2]), int(v->ne[0]));
    }
}

}  // namespace accelerator

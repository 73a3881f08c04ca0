// Plain C entries for Python. number: see `Number`. variant: as for `quant_multiply`, and there is one.
#include <string.h>

#include "../quant_matmul/quant_matmul.h"
#include "few_rows.h"

namespace few_rows {

#if defined(__x86_64__)
extern const FewRows few_rows_avx512vnni, few_rows_avxvnni, few_rows_avx2;
#elif defined(__aarch64__)
extern const FewRows few_rows_neon;
#endif

namespace {

const FewRows & fastest() {
#if defined(__x86_64__)
    static const FewRows * const found = [] {
        int n;
        const char * const name = quant::usable_kernels(&n)[0]->name;
        if (strcmp(name, "avx2") == 0) {
            return &few_rows_avx2;
        }
        return strcmp(name, "avxvnni") == 0 ? &few_rows_avxvnni : &few_rows_avx512vnni;
    }();
    return *found;
#elif defined(__aarch64__)
    return few_rows_neon;
#endif
}

}  // namespace
}  // namespace few_rows

using namespace few_rows;

#pragma GCC visibility push(default)
extern "C" {

// Of each of m rows.
void few_norm(int number, const char * x, const float * gain, char * y, int64_t n, int64_t m, float offset) {
    const int64_t bytes = n * (number == F32 ? 4 : 2);
    for (int64_t r = 0; r < m; ++r) {
        fastest().norm(Number(number), x + r * bytes, gain, y + r * bytes, n, offset);
    }
}

// gate_up [m, 2, n] → y [m, n].
void few_gated(int number, int gelu, const char * gate_up, char * y, int64_t n, int64_t m) {
    const int64_t bytes = n * (number == F32 ? 4 : 2);
    for (int64_t r = 0; r < m; ++r) {
        fastest().gated(Number(number), gelu != 0, gate_up + 2 * r * bytes, y + r * bytes, n);
    }
}

// rows [m, heads + 2 key_heads, head]; turns [m, head]; queries [key_heads, groups, m, head]; keys and values: the first row's
// cell of the first head.
void few_turn(int number, const char * rows, const float * turns, const float * gain, float offset, char * queries, char * keys,
              char * values, int64_t heads, int64_t key_heads, int64_t head, int64_t cells, int64_t m) {
    const int64_t bytes = head * (number == F32 ? 4 : 2);
    for (int64_t r = 0; r < m; ++r) {
        const Turn turn = {heads,   key_heads,          head, turns + r * head,  gain,                offset,
                           queries + r * bytes, m, keys + r * bytes, values + r * bytes, cells};
        fastest().turn(Number(number), rows + r * (heads + 2 * key_heads) * bytes, turn);
    }
}
}
#pragma GCC visibility pop

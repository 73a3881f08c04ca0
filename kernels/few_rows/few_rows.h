// What a decoder does between the products with the few rows of a decoding step, on numbers of 32 bits or the upper half of
// them (bf16): norms, gates, and the turning of heads by their positions. Sums are in 32 bits, and an output is rounded once.
#pragma once

#include <stdint.h>

namespace few_rows {

enum Number : int { F32 = 0, BF16 = 1 };

// The heads of one row: queries first, then keys, then values; `head` values each.
struct Turn {
    int64_t heads, key_heads, head;
    const float * turns;     // head/2 cosines, then as many sines
    const float * gain;      // [heads + key_heads, head]: each head that is turned goes through `norm` first; null for none
    float offset;
    char * queries;          // query h goes to h * rows * head
    int64_t rows;
    char * keys, * values;   // key head h goes to h * cells * head
    int64_t cells;
};

struct FewRows {
    // x / sqrt(sum of squares + offset) * gain, of one row.
    void (*norm)(Number number, const char * x, const float * gain, char * y, int64_t n, float offset);
    // silu(gate) * up, or with the tanh form of gelu; n gates, then n ups.
    void (*gated)(Number number, bool gelu, const char * gate_up, char * y, int64_t n);
    void (*turn)(Number number, const char * heads, const Turn & turn);
};

}  // namespace few_rows

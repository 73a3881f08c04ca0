// Intel's tile unit: sums of products of 16 outputs with up to 16 rows in one instruction.
//
// The packed tiles are already what the unit wants as its second operand. Instructions are written out: GCC before 13
// declares the configuration of the tiles too small and drops stores to it.
#pragma once

#include <stdint.h>
#include <string.h>

namespace amx {

// Tiles 0…3 hold sums, 4 and 5 activations, 6 and 7 weights. The even ones are of a first group of rows, the odd ones of a
// second.
struct alignas(64) Config {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t column_bytes[16] = {};
    uint8_t rows[16] = {};

    // `groups` of four weights of each row are multiplied at once.
    Config(int first_rows, int second_rows, int groups) {
        for (int t = 0; t < 8; ++t) {
            column_bytes[t] = uint16_t(t == 4 || t == 5 ? 4 * groups : 64);
            rows[t] = uint8_t(t >= 6 ? groups : t % 2 == 0 ? first_rows : second_rows);
        }
    }
};

inline void begin(const Config & config) {
    __asm__ volatile("ldtilecfg %0" : : "m"(config) : "memory");
}

inline void end() {
    __asm__ volatile("tilerelease" : : : "memory");
}

template <int tile> inline void clear() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(tile) : "memory");
}

template <int tile> inline void load(const void * p, int64_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(tile) : "memory");
}

// 64 bytes a row.
template <int tile> inline void store(int32_t * p) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(p), "r"(int64_t(64)), "i"(tile) : "memory");
}

// Adds signed activations times unsigned weights.
template <int sums, int activations, int weights> inline void dot() {
    __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(activations), "i"(weights) : "memory");
}

}  // namespace amx

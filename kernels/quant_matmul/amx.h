// Intel's tile unit: sums of products of 16 outputs with up to 16 rows in one instruction.
//
// The packed tiles are already what the unit wants as its second operand. Instructions are written out: GCC before 13
// declares the configuration of the tiles too small and drops stores to it.
#pragma once

#include <stdint.h>
#include <string.h>

namespace amx {

// Tiles 0…3 hold sums, 4 and 5 activations, 6 and 7 weights.
struct alignas(64) Config {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t column_bytes[16] = {};
    uint8_t rows[16] = {};

    Config(int activation_rows, int groups) {
        for (int t = 0; t < 8; ++t) {
            column_bytes[t] = uint16_t(t == 4 || t == 5 ? 4 * groups : 64);
            rows[t] = uint8_t(t >= 6 ? groups : activation_rows);
        }
    }
};

inline void begin(const Config & config) {
    __asm__ volatile("ldtilecfg %0" : : "m"(config) : "memory");
}

inline void end() {
    __asm__ volatile("tilerelease" : : : "memory");
}

// Sums `index` (0…3) of activations at x, a row every `stride` bytes, with weights at w; written to out, 64 bytes a row.
#define AMX_PRODUCT(index, a, b)                                                      \
    template <> inline void product<index>(const int8_t * x, int64_t stride, const uint8_t * w) { \
        __asm__ volatile("tilezero %%tmm" #index "\n\t"                               \
                         "tileloadd (%0,%1,1), %%tmm" #a "\n\t"                       \
                         "tileloadd (%2,%3,1), %%tmm" #b "\n\t"                       \
                         "tdpbsud %%tmm" #b ", %%tmm" #a ", %%tmm" #index             \
                         :                                                            \
                         : "r"(x), "r"(stride), "r"(w), "r"(int64_t(64))              \
                         : "memory");                                                 \
    }                                                                                 \
    template <> inline void keep<index>(int32_t * out) {                              \
        __asm__ volatile("tilestored %%tmm" #index ", (%0,%1,1)" : : "r"(out), "r"(int64_t(64)) : "memory"); \
    }

template <int index> void product(const int8_t * x, int64_t stride, const uint8_t * w);
template <int index> void keep(int32_t * out);
AMX_PRODUCT(0, 4, 6)
AMX_PRODUCT(1, 5, 7)
AMX_PRODUCT(2, 4, 6)
AMX_PRODUCT(3, 5, 7)
#undef AMX_PRODUCT

}  // namespace amx

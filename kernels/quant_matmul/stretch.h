// Products of a stretch of a tile with as many rows as registers hold the sums of.
#pragma once

#include <utility>

#include "blocks.h"

namespace quant {
namespace {

// Rows that are multiplied together: two sums of products each, and what they come to.
constexpr int kTogether = Simd::kTogether;

// Adds a pair of groups times four activations of each row.
template <int rows> inline void dot(I (&low)[rows], I (&high)[rows], Pair w, const int8_t * const (&x)[rows], int at, int behind) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
        low[r] = Simd::dot(low[r], w.low, x[r] + at);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
        high[r] = Simd::dot(high[r], w.high, x[r] + at + behind);
    }
}

template <int rows> inline void clear(I (&low)[rows], I (&high)[rows]) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
        low[r] = high[r] = Simd::zero();
    }
}

// Whether the sums of `high` are shifted and not its weights: so many lines against so many rows.
constexpr bool raises(bool four_bits, int lines, int rows) {
    return Simd::kTakesBytes && four_bits && rows < lines;
}

template <bool raised, int rows> inline void lower(I (&high)[rows]) {
    if constexpr (raised) {
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
            high[r] = Simd::sar<4>(high[r]);
        }
    }
}

template <int rows> inline void scale(I (&sums)[rows], const I (&low)[rows], I low_factor, const I (&high)[rows], I high_factor) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
        sums[r] = Simd::add_product(Simd::add_product(sums[r], low[r], low_factor), high[r], high_factor);
    }
}

template <bool five, int c, int rows>
inline void quarter_4k(const uint8_t * p, I scales, const int8_t * const (&x)[rows], I (&sums)[rows]) {
    constexpr bool raised = raises(!five, 8, rows);
    I low[rows], high[rows];
    clear(low, high);
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
        dot(low, high, pair_4k<five, c, raised>(p, g), x, 64 * c + 4 * g, 32);
    }
    lower<raised>(high);
    scale(sums, low, Simd::factor<(2 * c) % 4>(scales), high, Simd::factor<(2 * c + 1) % 4>(scales));
}

template <bool five, int rows> inline void block_4k(const uint8_t * p, const Row * row, int64_t b, F (&outputs)[rows]) {
    const int8_t * x[rows];
    I sums[rows];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
        x[r] = row[r].q + 256 * b;
        sums[r] = Simd::zero();
    }
    const Scales4k of(p);
    quarter_4k<five, 0>(p, of.scales[0], x, sums);
    quarter_4k<five, 1>(p, of.scales[0], x, sums);
    quarter_4k<five, 2>(p, of.scales[1], x, sums);
    quarter_4k<five, 3>(p, of.scales[1], x, sums);
    const Pairs4k minima(of.minima);
    const Halves4k halves(p);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
        const F term = term_4k(halves, sums[r], minima.times(row[r].sums32 + 8 * b), row[r].scale[b]);
        outputs[r] = Simd::addf(outputs[r], term);
    }
}

template <int half, int side, int rows>
inline void quarter_6k(const uint8_t * p, const I (&scales)[4], const int8_t * const (&x)[rows], I (&sums)[rows]) {
    I low[rows], high[rows];
    clear(low, high);
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
        dot(low, high, pair_6k<half, side>(p, g), x, 128 * half + 32 * side + 4 * g, 64);
    }
    const I first = scales[2 * half], second = scales[2 * half + 1];
    scale(sums, low, Simd::signed_factor<2 * side>(first), high, Simd::signed_factor<2 * side>(second));
    clear(low, high);
#pragma GCC unroll 4
    for (int g = 4; g < 8; ++g) {
        dot(low, high, pair_6k<half, side>(p, g), x, 128 * half + 32 * side + 4 * g, 64);
    }
    scale(sums, low, Simd::signed_factor<2 * side + 1>(first), high, Simd::signed_factor<2 * side + 1>(second));
}

template <int rows>
inline void block_6k(const uint8_t * p, const uint8_t * tail, const Row * row, int64_t b, F (&outputs)[rows]) {
    const Scales6k of(p);
    const Pairs6k pairs(of.scales);
    const int8_t * x[rows];
    I sums[rows];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
        x[r] = row[r].q + 256 * b;
        sums[r] = pairs.excess(row[r].sums16 + 16 * b);
    }
    quarter_6k<0, 0>(p, of.scales, x, sums);
    quarter_6k<0, 1>(p, of.scales, x, sums);
    quarter_6k<1, 0>(p, of.scales, x, sums);
    quarter_6k<1, 1>(p, of.scales, x, sums);
    const F d = Simd::halves(tail);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
        outputs[r] = Simd::addf(outputs[r], term_6k(d, sums[r], row[r].scale[b]));
    }
}

template <int type, int rows> constexpr bool raised_32 = raises(type == Q4_0 || type == Q4_1, 4, rows);

template <int type, int g, int rows>
inline void group_32(const uint8_t * p, const int8_t * const (&x)[rows], I (&low)[rows], I (&high)[rows]) {
    const Pair w = pair_32<type, g, raised_32<type, rows>>(p);
    if constexpr (type == Q8_0) {
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
            low[r] = Simd::dot_signed(low[r], w.low, x[r] + 4 * g);
            high[r] = Simd::dot_signed(high[r], w.high, x[r] + 4 * g + 16);
        }
    } else {
        dot(low, high, w, x, 4 * g, 16);
    }
}

template <int type, int rows>
inline void block_32(const uint8_t * p, const uint8_t * tail, const Row * row, int64_t b, F (&outputs)[rows]) {
    const int8_t * x[rows];
    I low[rows], high[rows];
    constexpr int excess = excess_of<type>();
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
        x[r] = row[r].q + 32 * b;
        low[r] = excess ? Simd::set(-excess * row[r].sum[b]) : Simd::zero();
        high[r] = Simd::zero();
    }
    group_32<type, 0>(p, x, low, high);
    group_32<type, 1>(p, x, low, high);
    group_32<type, 2>(p, x, low, high);
    group_32<type, 3>(p, x, low, high);
    lower<raised_32<type, rows>>(high);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
        outputs[r] = Simd::addf(outputs[r], term_32<type>(tail, Simd::add(low[r], high[r]), row[r], b));
    }
}

// Where a block lies: its lines, and what stands behind all lines of the tile.
struct Place {
    const uint8_t * p, * tail;
};

// Adds blocks [first, last), the first of which lies at `at`, to the outputs of some rows, which begin with block 0.
using Stretch = void (*)(const Format & format, Place at, const Row * row, int64_t first, int64_t last, float (*outputs)[W]);

template <int type, int rows>
void stretch(const Format & format, Place at, const Row * row, int64_t first, int64_t last, float (*outputs)[W]) {
    F sums[rows];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
        sums[r] = first ? Simd::loadf(outputs[r]) : Simd::setf(0);
    }
    const size_t step = size_t(format.planes) * 4 * kTile, tail_step = size_t(format.tail) * kTile;
    for (int64_t b = first; b < last; ++b, at.p += step, at.tail += tail_step) {
        if constexpr (type == Q4_K || type == Q5_K) {
            block_4k<type == Q5_K>(at.p, row, b, sums);
        } else if constexpr (type == Q6_K) {
            block_6k(at.p, at.tail, row, b, sums);
        } else {
            block_32<type>(at.p, at.tail, row, b, sums);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
        Simd::storef(outputs[r], sums[r]);
    }
}

// For 1…kTogether rows.
template <int type> struct Stretches {
    Stretch of[kTogether];

    template <int... rows> constexpr explicit Stretches(std::integer_sequence<int, rows...>) : of{stretch<type, rows + 1>...} {}
};

template <int type> constexpr Stretches<type> kStretches(std::make_integer_sequence<int, kTogether>{});

}  // namespace
}  // namespace quant

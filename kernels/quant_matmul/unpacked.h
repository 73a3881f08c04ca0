// Products of blocks of 256 with many rows, whose weights have been unpacked for all of them: see `unpack`.
//
// Line i holds weights 4i to 4i + 3 of each of W outputs. Weights come from the first cache, so that a sum for each row is all
// that registers have to hold.
#pragma once

#include "stretch.h"

namespace quant {
namespace {

// Rows that are multiplied together.
constexpr int kMany = Simd::kMany;

template <int lines, int rows>
inline void dot_lines(I (&sums)[rows], const uint8_t * w, const int8_t * const (&x)[rows], int first) {
#pragma GCC unroll 8
    for (int i = first; i < first + lines; ++i) {
        const I line = Simd::load(w + i * 4 * W);
#pragma GCC unroll 12
        for (int r = 0; r < rows; ++r) {
            sums[r] = Simd::dot(sums[r], line, x[r] + 4 * i);
        }
    }
}

// Adds the products with the lines that have scale number `index` of a block.
template <int type, int index, int rows>
inline void add_scaled(I (&sums)[rows], const uint8_t * w, const int8_t * const (&x)[rows], const I * scales) {
    constexpr int lines = type == Q6_K ? 4 : 8;
    I products[rows], factor;
    if constexpr (type == Q6_K) {
        factor = Simd::signed_factor<index % 4>(scales[index / 4]);
    } else {
        factor = Simd::factor<index % 4>(scales[index / 4]);
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; ++r) {
        products[r] = Simd::zero();
    }
    dot_lines<lines>(products, w, x, lines * index);
#pragma GCC unroll 12
    for (int r = 0; r < rows; ++r) {
        sums[r] = Simd::add_product(sums[r], products[r], factor);
    }
}

template <int type, int rows, int... indices>
inline void add_all(I (&sums)[rows], const uint8_t * w, const int8_t * const (&x)[rows], const I * scales,
                    std::integer_sequence<int, indices...>) {
    (add_scaled<type, indices>(sums, w, x, scales), ...);
}

// Adds one block to the outputs of some rows, which begin with block 0.
template <int type, int rows>
void unpacked_block(Place at, const uint8_t * w, const Row * row, int64_t b, float (*outputs)[W]) {
    const int8_t * x[rows];
    I sums[rows];
    for (int r = 0; r < rows; ++r) {
        x[r] = row[r].q + 256 * b;
    }
    const auto add = [&](int r, F term) { Simd::storef(outputs[r], Simd::addf(b ? Simd::loadf(outputs[r]) : Simd::setf(0), term)); };
    if constexpr (type == Q6_K) {
        const Scales6k of(at.p);
        const Pairs6k pairs(of.scales);
        for (int r = 0; r < rows; ++r) {
            sums[r] = pairs.excess(row[r].sums16 + 16 * b);
        }
        add_all<type>(sums, w, x, of.scales, std::make_integer_sequence<int, 16>{});
        const F d = Simd::halves(at.tail);
        for (int r = 0; r < rows; ++r) {
            add(r, term_6k(d, sums[r], row[r].scale[b]));
        }
    } else {
        const Scales4k of(at.p);
        for (int r = 0; r < rows; ++r) {
            sums[r] = Simd::zero();
        }
        add_all<type>(sums, w, x, of.scales, std::make_integer_sequence<int, 8>{});
        const Pairs4k minima(of.minima);
        const Halves4k halves(at.p);
        for (int r = 0; r < rows; ++r) {
            add(r, term_4k(halves, sums[r], minima.times(row[r].sums32 + 8 * b), row[r].scale[b]));
        }
    }
}

using UnpackedBlock = void (*)(Place at, const uint8_t * w, const Row * row, int64_t b, float (*outputs)[W]);

// For 1…kMany rows.
template <int type> struct UnpackedBlocks {
    UnpackedBlock of[kMany];

    template <int... rows> constexpr explicit UnpackedBlocks(std::integer_sequence<int, rows...>) : of{unpacked_block<type, rows + 1>...} {}
};

template <int type> constexpr UnpackedBlocks<type> kUnpackedBlocks(std::make_integer_sequence<int, kMany>{});

}  // namespace
}  // namespace quant

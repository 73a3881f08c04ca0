// Products of blocks with all rows of a call at once on the tile unit; the sums are the same integers.
#pragma once

#include "amx.h"
#include "blocks.h"

namespace quant {
namespace {

// Integer and float sums of all rows of a call, for W outputs.
struct Sums {
    alignas(64) int32_t products[kMostRows][W];
    alignas(64) float outputs[kMostRows][W];
};

inline void add_to(float * sum, F a) {
    Simd::storef(sum, Simd::addf(Simd::loadf(sum), a));
}

constexpr int kFewestRows = 12;  // fewer are multiplied faster without it

// Up to 32 rows are one or two equal groups, the second of which may repeat a row of the first.
struct Groups {
    int count, rows;
    int first(int group, int n) const { return group ? n - rows : 0; }
};

Groups groups_of(int n) {
    return n <= 16 ? Groups{1, n} : Groups{2, (n + 1) / 2};
}

bool on_tiles(const Batch & batch) {
    return batch.n >= kFewestRows && batch.stride;
}

// Adds factor * sum of products of each of `parts` parts of a block of 256, whose weights lie at `w` in dwords of 16 rows.
template <int parts> void tile_products(const uint8_t * w, const I * factors, const Batch & batch, int64_t b, Sums & sums) {
    constexpr int groups_of_four = 64 / parts, step = 4 * groups_of_four;
    alignas(64) int32_t part[4][16][16];
    const Groups groups = groups_of(batch.n);
    for (int g = 0; g < groups.count; ++g) {
        const int first = groups.first(g, batch.n), known = g ? 2 * groups.rows - batch.n : 0;
        const int8_t * const x = batch.rows[first].q + 256 * b;
        for (int j = 0; j < parts; j += 4) {
            amx::product<0>(x + j * step, batch.stride, w + j * groups_of_four * 64);
            amx::product<1>(x + (j + 1) * step, batch.stride, w + (j + 1) * groups_of_four * 64);
            amx::product<2>(x + (j + 2) * step, batch.stride, w + (j + 2) * groups_of_four * 64);
            amx::product<3>(x + (j + 3) * step, batch.stride, w + (j + 3) * groups_of_four * 64);
            amx::keep<0>(part[0][0]);
            amx::keep<1>(part[1][0]);
            amx::keep<2>(part[2][0]);
            amx::keep<3>(part[3][0]);
            for (int r = known; r < groups.rows; ++r) {
                I sum = Simd::load(sums.products[first + r]);
#pragma GCC unroll 4
                for (int i = 0; i < 4; ++i) {
                    sum = Simd::add_product(sum, Simd::load(part[i][r]), factors[j + i]);
                }
                Simd::store(sums.products[first + r], sum);
            }
        }
    }
}

// The plain sums of up to four blocks of 32.
void tile_blocks(const uint8_t * w, int blocks, const Batch & batch, int64_t b, int32_t (&part)[4][kMostRows][16]) {
    const Groups groups = groups_of(batch.n);
    for (int g = 0; g < groups.count; ++g) {
        const int first = groups.first(g, batch.n);
        const int8_t * const x = batch.rows[first].q + 32 * b;
        amx::product<0>(x, batch.stride, w);
        if (blocks > 1) {
            amx::product<1>(x + 32, batch.stride, w + 512);
        }
        if (blocks > 2) {
            amx::product<2>(x + 64, batch.stride, w + 1024);
        }
        if (blocks > 3) {
            amx::product<3>(x + 96, batch.stride, w + 1536);
            amx::keep<3>(part[3][first]);
        }
        if (blocks > 2) {
            amx::keep<2>(part[2][first]);
        }
        if (blocks > 1) {
            amx::keep<1>(part[1][first]);
        }
        amx::keep<0>(part[0][first]);
    }
}


template <bool five, int c> void store_4k(const uint8_t * p, uint8_t * w) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
        const Pair pair = pair_4k<five, c>(p, g);
        Simd::store(w + (16 * c + g) * 64, pair.low);
        Simd::store(w + (16 * c + 8 + g) * 64, pair.high);
    }
}

template <bool five> void tiles_4k(const uint8_t * p, const Batch & batch, int64_t b, Sums & sums) {
    const Scales4k of(p);
    alignas(64) uint8_t w[64 * 64];
    store_4k<five, 0>(p, w);
    store_4k<five, 1>(p, w);
    store_4k<five, 2>(p, w);
    store_4k<five, 3>(p, w);
    const I * const s = of.scales;
    const I factors[8] = {Simd::factor<0>(s[0]), Simd::factor<1>(s[0]), Simd::factor<2>(s[0]),
                          Simd::factor<3>(s[0]), Simd::factor<0>(s[1]), Simd::factor<1>(s[1]),
                          Simd::factor<2>(s[1]), Simd::factor<3>(s[1])};
    for (int r = 0; r < batch.n; ++r) {
        Simd::store(sums.products[r], Simd::zero());
    }
    tile_products<8>(w, factors, batch, b, sums);
    for (int r = 0; r < batch.n; ++r) {
        const Row & row = batch.rows[r];
        add_to(sums.outputs[r], term_4k(p, Simd::load(sums.products[r]), minima_4k(of.minima, row.sums32 + 8 * b), row.scale[b]));
    }
}

template <int half, int side> void store_6k(const uint8_t * p, uint8_t * w) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
        const Pair pair = pair_6k<half, side>(p, g);
        Simd::store(w + (32 * half + 8 * side + g) * 64, pair.low);
        Simd::store(w + (32 * half + 8 * side + 16 + g) * 64, pair.high);
    }
}

template <int dword> void signed_factors(I packed, I * factors) {
    factors[4 * dword] = Simd::signed_factor<0>(packed);
    factors[4 * dword + 1] = Simd::signed_factor<1>(packed);
    factors[4 * dword + 2] = Simd::signed_factor<2>(packed);
    factors[4 * dword + 3] = Simd::signed_factor<3>(packed);
}

inline void tiles_6k(const uint8_t * p, const uint8_t * tail, const Batch & batch, int64_t b, Sums & sums) {
    const Scales6k of(p);
    alignas(64) uint8_t w[64 * 64];
    store_6k<0, 0>(p, w);
    store_6k<0, 1>(p, w);
    store_6k<1, 0>(p, w);
    store_6k<1, 1>(p, w);
    I factors[16];
    signed_factors<0>(of.scales[0], factors);
    signed_factors<1>(of.scales[1], factors);
    signed_factors<2>(of.scales[2], factors);
    signed_factors<3>(of.scales[3], factors);
    for (int r = 0; r < batch.n; ++r) {
        Simd::store(sums.products[r], excess_6k(of.scales, batch.rows[r].sums16 + 16 * b));
    }
    tile_products<16>(w, factors, batch, b, sums);
    for (int r = 0; r < batch.n; ++r) {
        add_to(sums.outputs[r], term_6k(tail, Simd::load(sums.products[r]), batch.rows[r].scale[b]));
    }
}

template <int type, int g> void store_32(const uint8_t * p, uint8_t * w) {
    const Pair pair = pair_32<type, g>(p);
    Simd::store(w + g * 64, pair.low);
    Simd::store(w + (g + 4) * 64, pair.high);
}

// Up to four blocks.
template <int type> void tiles_32(const uint8_t * p, size_t step, const uint8_t * tail, size_t tail_step, int blocks,
                                  const Batch & batch, int64_t b, Sums & sums) {
    alignas(64) uint8_t w[4 * 512];
    alignas(64) int32_t part[4][kMostRows][16];
    for (int j = 0; j < blocks; ++j) {
        store_32<type, 0>(p + size_t(j) * step, w + j * 512);
        store_32<type, 1>(p + size_t(j) * step, w + j * 512);
        store_32<type, 2>(p + size_t(j) * step, w + j * 512);
        store_32<type, 3>(p + size_t(j) * step, w + j * 512);
    }
    tile_blocks(w, blocks, batch, b, part);
    for (int j = 0; j < blocks; ++j) {
        for (int r = 0; r < batch.n; ++r) {
            const Row & row = batch.rows[r];
            const I sum = Simd::sub(Simd::load(part[j][r]), Simd::set(excess_of<type>() * row.sum[b + j]));
            add_to(sums.outputs[r], term_32<type>(tail + size_t(j) * tail_step, sum, row, b + j));
        }
    }
}

}  // namespace
}  // namespace quant

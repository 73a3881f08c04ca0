// The kernels of one instruction set; compiled once for each, see `VARIANTS` in setup.py.
//
// An output is a chain of additions over the blocks of its row, first to last, each term made of exact integer sums:
//   acc += float(sum of scaled products) * (d * scale) [- float(sum of scaled minima) * (dmin * scale)]
// Nothing in it depends on how many rows are computed at once. Compiled without contraction to fused operations.
#include "quant_matmul.h"

#include "../variant.h"

#if defined(PARDEC_AMX)
#include "amx.h"
#include "simd_avx512.h"
#elif defined(PARDEC_AVX512VNNI)
#include "simd_avx512.h"
#elif defined(PARDEC_NEON)
#include "simd_neon.h"
#else
#include "simd_avx2.h"
#endif

namespace quant {
namespace {

constexpr int W = Simd::W;
using I = Simd::I;
using F = Simd::F;

// Integer and float sums of all rows of a call, for W outputs.
struct Sums {
    alignas(64) int32_t products[kMostRows][W];
    alignas(64) int32_t minima[kMostRows][W];
    alignas(64) float outputs[kMostRows][W];
};

struct Batch {
    const Row * rows;
    int n;
    int64_t stride;  // from one row to the next, where it is always the same; 0 otherwise
};

// Sums over n groups of four weights, for `rows` rows with their own sums: independent chains hide each other's latency.
template <int rows, int n, int from> void dots(I * sums, const I * w, const int8_t * const * x) {
#pragma GCC unroll 8
    for (int g = 0; g < n; ++g) {
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) {
            sums[r] = Simd::dot(sums[r], w[g], x[r] + 4 * (from + g));
        }
    }
}

// Rows are taken together as registers allow.
constexpr int kTogether = W == 16 ? 4 : 2;

template <class Body> void for_rows(int n, const Body & body) {
    int r = 0;
    for (; r + kTogether <= n; r += kTogether) {
        body.template operator()<kTogether>(r);
    }
    if constexpr (kTogether > 2) {
        if (r + 2 <= n) {
            body.template operator()<2>(r);
            r += 2;
        }
    }
    if (r < n) {
        body.template operator()<1>(r);
    }
}

template <int byte> I scale_of(I dword) {
    return Simd::bits(Simd::shr<8 * byte>(dword), 0xff);
}

template <int byte> I signed_scale_of(I dword) {
    return Simd::sar<24>(Simd::shl<24 - 8 * byte>(dword));
}

// Weights come from far away, and once: they are asked into the second cache so many bytes ahead.
constexpr size_t kAhead = 8192;

I load_ahead(const uint8_t * p) {
    __builtin_prefetch(p + kAhead, 0, 2);
    return Simd::load(p);
}

void add_to(int32_t * sum, I a) {
    Simd::store(sum, Simd::add(Simd::load(sum), a));
}

void add_to(float * sum, F a) {
    Simd::storef(sum, Simd::addf(Simd::loadf(sum), a));
}

// ---- All rows of a call at once on the tile unit; the sums are the same integers.

#if defined(PARDEC_AMX)

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

// Adds scale * sum of products of each of `parts` parts of a block of 256, whose weights lie at `w` in dwords of 16 rows.
template <int parts> void tile_products(const uint8_t * w, const I * scales, const Batch & batch, int64_t b, Sums & sums) {
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
                const I low = Simd::add(Simd::mul(Simd::load(part[0][r]), scales[j]), Simd::mul(Simd::load(part[1][r]), scales[j + 1]));
                const I high = Simd::add(Simd::mul(Simd::load(part[2][r]), scales[j + 2]), Simd::mul(Simd::load(part[3][r]), scales[j + 3]));
                add_to(sums.products[first + r], Simd::add(low, high));
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

#endif

// ---- Q4_K, Q5_K: 64 weights at a time, those of the low nibbles, then those of the high ones.

template <bool five, int c> void unpack_4k(const uint8_t * p, I (&low)[8], I (&high)[8]) {
    constexpr int first = five ? 12 : 4, up = c < 2 ? 4 - 2 * c : 0, down = c < 2 ? 0 : 2 * c - 4;
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
        const I q = load_ahead(p + (first + 8 * c + g) * 64);
        low[g] = Simd::bits(q, 0x0f0f0f0f);
        high[g] = Simd::bits(Simd::shr<4>(q), 0x0f0f0f0f);
        if constexpr (five) {  // bit 2c of each byte goes with the low nibble, the next one with the high nibble
            const I h = c ? Simd::load(p + (4 + g) * 64) : load_ahead(p + (4 + g) * 64);
            low[g] = Simd::either(low[g], Simd::bits(Simd::shr<down>(Simd::shl<up>(h)), 0x10101010));
            high[g] = Simd::either(high[g], Simd::bits(c < 2 ? Simd::shl<up ? up - 1 : 0>(h) : Simd::shr<down + 1>(h), 0x10101010));
        }
    }
}

template <bool five, int c> void chunk_4k(const uint8_t * p, I scales, const Batch & batch, int64_t b, Sums & sums) {
    I low[8], high[8];
    unpack_4k<five, c>(p, low, high);
    const I scale_low = scale_of<(2 * c) % 4>(scales), scale_high = scale_of<(2 * c + 1) % 4>(scales);
    for_rows(batch.n, [&]<int rows>(int r) {
        const int8_t * x[rows];
        I a[rows], e[rows];
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i) {
            x[i] = batch.rows[r + i].q + 256 * b + 64 * c;
            a[i] = e[i] = Simd::zero();
        }
        dots<rows, 8, 0>(a, low, x);
        dots<rows, 8, 8>(e, high, x);
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i) {
            add_to(sums.products[r + i], Simd::add(Simd::mul(a[i], scale_low), Simd::mul(e[i], scale_high)));
        }
    });
}

#if defined(PARDEC_AMX)
template <bool five, int c> void store_4k(const uint8_t * p, uint8_t * w) {
    I low[8], high[8];
    unpack_4k<five, c>(p, low, high);
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
        Simd::store(w + (16 * c + g) * 64, low[g]);
        Simd::store(w + (16 * c + 8 + g) * 64, high[g]);
    }
}
#endif

template <bool five> void block_4k(const uint8_t * p, const Batch & batch, int64_t b, Sums & sums) {
    // Six-bit scales and minima, the upper two bits of the last four in the top bits of the first four.
    const I s0 = Simd::load(p + 64), m0 = Simd::load(p + 128), both = Simd::load(p + 192);
    const I scales0 = Simd::bits(s0, 0x3f3f3f3f), minima0 = Simd::bits(m0, 0x3f3f3f3f);
    const I scales1 = Simd::either(Simd::bits(both, 0x0f0f0f0f), Simd::bits(Simd::shr<2>(s0), 0x30303030));
    const I minima1 = Simd::either(Simd::bits(Simd::shr<4>(both), 0x0f0f0f0f), Simd::bits(Simd::shr<2>(m0), 0x30303030));
    const I pairs[4] = {Simd::unsigned_pair<0>(minima0), Simd::unsigned_pair<1>(minima0), Simd::unsigned_pair<0>(minima1),
                        Simd::unsigned_pair<1>(minima1)};
    for (int r = 0; r < batch.n; ++r) {
        const int16_t * const s = batch.rows[r].sums32 + 8 * b;
        I sum = Simd::zero();
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            sum = Simd::dot_pairs(sum, pairs[i], s + 2 * i);
        }
        Simd::store(sums.minima[r], sum);
        Simd::store(sums.products[r], Simd::zero());
    }
#if defined(PARDEC_AMX)
    if (on_tiles(batch)) {
        alignas(64) uint8_t w[64 * 64];
        store_4k<five, 0>(p, w);
        store_4k<five, 1>(p, w);
        store_4k<five, 2>(p, w);
        store_4k<five, 3>(p, w);
        const I scales[8] = {scale_of<0>(scales0), scale_of<1>(scales0), scale_of<2>(scales0), scale_of<3>(scales0),
                             scale_of<0>(scales1), scale_of<1>(scales1), scale_of<2>(scales1), scale_of<3>(scales1)};
        tile_products<8>(w, scales, batch, b, sums);
    } else
#endif
    {
    chunk_4k<five, 0>(p, scales0, batch, b, sums);
    chunk_4k<five, 1>(p, scales0, batch, b, sums);
    chunk_4k<five, 2>(p, scales1, batch, b, sums);
    chunk_4k<five, 3>(p, scales1, batch, b, sums);
    }
    const I dm = Simd::load(p);
    const F d = Simd::low_half(dm), dmin = Simd::high_half(dm);
    for (int r = 0; r < batch.n; ++r) {
        const F x = Simd::setf(batch.rows[r].scale[b]);
        const F product = Simd::mulf(Simd::floats(Simd::load(sums.products[r])), Simd::mulf(d, x));
        const F minimum = Simd::mulf(Simd::floats(Simd::load(sums.minima[r])), Simd::mulf(dmin, x));
        add_to(sums.outputs[r], Simd::subf(product, minimum));
    }
}

// ---- Q6_K: 64 weights at a time, 32 of the low nibbles and the 32 of the high ones that lie 64 behind.

template <int half, int side> void unpack_6k(const uint8_t * p, I (&low)[8], I (&high)[8]) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
        const I q = load_ahead(p + (16 * half + 8 * side + g) * 64);
        const I h = side ? Simd::load(p + (32 + 8 * half + g) * 64) : load_ahead(p + (32 + 8 * half + g) * 64);
        low[g] = Simd::either(Simd::bits(q, 0x0f0f0f0f), Simd::bits(Simd::shl<4 - 2 * side>(h), 0x30303030));
        high[g] = Simd::either(Simd::bits(Simd::shr<4>(q), 0x0f0f0f0f), Simd::bits(Simd::shr<2 * side>(h), 0x30303030));
    }
}

template <int half, int side> void chunk_6k(const uint8_t * p, I scales0, I scales1, const Batch & batch, int64_t b, Sums & sums) {
    I low[8], high[8];
    unpack_6k<half, side>(p, low, high);
    const I s0 = signed_scale_of<2 * side>(scales0), s1 = signed_scale_of<2 * side + 1>(scales0);
    const I s2 = signed_scale_of<2 * side>(scales1), s3 = signed_scale_of<2 * side + 1>(scales1);
    for_rows(batch.n, [&]<int rows>(int r) {
        const int8_t * x[rows];
        I a[rows], e[rows], sum[rows];
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i) {
            x[i] = batch.rows[r + i].q + 256 * b + 128 * half + 32 * side;
            a[i] = e[i] = Simd::zero();
        }
        dots<rows, 4, 0>(a, low, x);
        dots<rows, 4, 4>(e, low + 4, x);
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i) {
            sum[i] = Simd::add(Simd::mul(a[i], s0), Simd::mul(e[i], s1));
            a[i] = e[i] = Simd::zero();
        }
        dots<rows, 4, 16>(a, high, x);
        dots<rows, 4, 20>(e, high + 4, x);
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i) {
            add_to(sums.products[r + i], Simd::add(sum[i], Simd::add(Simd::mul(a[i], s2), Simd::mul(e[i], s3))));
        }
    });
}

#if defined(PARDEC_AMX)
template <int half, int side> void store_6k(const uint8_t * p, uint8_t * w) {
    I low[8], high[8];
    unpack_6k<half, side>(p, low, high);
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
        Simd::store(w + (32 * half + 8 * side + g) * 64, low[g]);
        Simd::store(w + (32 * half + 8 * side + 16 + g) * 64, high[g]);
    }
}

template <int dword> void signed_scales(I packed, I * scales) {
    scales[4 * dword] = signed_scale_of<0>(packed);
    scales[4 * dword + 1] = signed_scale_of<1>(packed);
    scales[4 * dword + 2] = signed_scale_of<2>(packed);
    scales[4 * dword + 3] = signed_scale_of<3>(packed);
}
#endif

void block_6k(const uint8_t * p, const uint8_t * tail, const Batch & batch, int64_t b, Sums & sums) {
    const I scales[4] = {Simd::load(p + 48 * 64), Simd::load(p + 49 * 64), Simd::load(p + 50 * 64), Simd::load(p + 51 * 64)};
    I pairs[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        pairs[2 * i] = Simd::signed_pair<0>(scales[i]);
        pairs[2 * i + 1] = Simd::signed_pair<1>(scales[i]);
    }
    // Weights are stored 32 too high.
    for (int r = 0; r < batch.n; ++r) {
        const int16_t * const s = batch.rows[r].sums16 + 16 * b;
        I sum = Simd::zero();
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) {
            sum = Simd::dot_pairs(sum, pairs[i], s + 2 * i);
        }
        Simd::store(sums.products[r], Simd::sub(Simd::zero(), Simd::shl<5>(sum)));
    }
#if defined(PARDEC_AMX)
    if (on_tiles(batch)) {
        alignas(64) uint8_t w[64 * 64];
        store_6k<0, 0>(p, w);
        store_6k<0, 1>(p, w);
        store_6k<1, 0>(p, w);
        store_6k<1, 1>(p, w);
        I each[16];
        signed_scales<0>(scales[0], each);
        signed_scales<1>(scales[1], each);
        signed_scales<2>(scales[2], each);
        signed_scales<3>(scales[3], each);
        tile_products<16>(w, each, batch, b, sums);
    } else
#endif
    {
    chunk_6k<0, 0>(p, scales[0], scales[1], batch, b, sums);
    chunk_6k<0, 1>(p, scales[0], scales[1], batch, b, sums);
    chunk_6k<1, 0>(p, scales[2], scales[3], batch, b, sums);
    chunk_6k<1, 1>(p, scales[2], scales[3], batch, b, sums);
    }
    const F d = Simd::halves(tail);
    for (int r = 0; r < batch.n; ++r) {
        const F scale = Simd::mulf(d, Simd::setf(batch.rows[r].scale[b]));
        add_to(sums.outputs[r], Simd::mulf(Simd::floats(Simd::load(sums.products[r])), scale));
    }
}

// ---- Blocks of 32.

template <int type> void unpack_32(const uint8_t * p, I (&w)[8]) {
    if constexpr (type == Q8_0) {
#pragma GCC unroll 8
        for (int g = 0; g < 8; ++g) {
            w[g] = Simd::to_unsigned(load_ahead(p + 64 * g));
        }
    } else {
        constexpr int first = type == Q5_0 ? 1 : 0;
#pragma GCC unroll 4
        for (int g = 0; g < 4; ++g) {
            const I q = load_ahead(p + 64 * (first + g));
            w[g] = Simd::bits(q, 0x0f0f0f0f);
            w[g + 4] = Simd::bits(Simd::shr<4>(q), 0x0f0f0f0f);
        }
    }
    if constexpr (type == Q5_0) {
        const I h = load_ahead(p);
        w[0] = Simd::either(w[0], Simd::bits(Simd::shl<4>(h), 0x10101010));
        w[1] = Simd::either(w[1], Simd::bits(Simd::shl<3>(h), 0x10101010));
        w[2] = Simd::either(w[2], Simd::bits(Simd::shl<2>(h), 0x10101010));
        w[3] = Simd::either(w[3], Simd::bits(Simd::shl<1>(h), 0x10101010));
        w[4] = Simd::either(w[4], Simd::bits(h, 0x10101010));
        w[5] = Simd::either(w[5], Simd::bits(Simd::shr<1>(h), 0x10101010));
        w[6] = Simd::either(w[6], Simd::bits(Simd::shr<2>(h), 0x10101010));
        w[7] = Simd::either(w[7], Simd::bits(Simd::shr<3>(h), 0x10101010));
    }
}

// Scales of a block, and what Q4_1 adds.
template <int type> void scales_32(const uint8_t * tail, F & d, F & m) {
    m = Simd::setf(0);
    if constexpr (type == Q4_1) {
        const I dm = Simd::load(tail);
        d = Simd::low_half(dm);
        m = Simd::high_half(dm);
    } else {
        d = Simd::halves(tail);
    }
}

template <int type> constexpr int excess_of() {  // of the weights as they are stored
    return type == Q4_0 ? 8 : type == Q5_0 ? 16 : type == Q8_0 ? Simd::kOffset : 0;
}

template <int type> void take_32(I sum, F d, F m, const Row & row, int64_t b, float * output) {
    F term = Simd::mulf(Simd::floats(sum), Simd::mulf(d, Simd::setf(row.scale[b])));
    if constexpr (type == Q4_1) {
        term = Simd::addf(term, Simd::mulf(m, Simd::setf(row.scaled_sum[b])));
    }
    add_to(output, term);
}

#if defined(PARDEC_AMX)
// Up to four blocks on the tile unit.
template <int type> void blocks_32(const uint8_t * p, size_t step, const uint8_t * tail, size_t tail_step, int blocks,
                                   const Batch & batch, int64_t b, Sums & sums) {
    alignas(64) uint8_t w[4 * 512];
    alignas(64) int32_t part[4][kMostRows][16];
    for (int j = 0; j < blocks; ++j) {
        I one[8];
        unpack_32<type>(p + size_t(j) * step, one);
#pragma GCC unroll 8
        for (int g = 0; g < 8; ++g) {
            Simd::store(w + j * 512 + g * 64, one[g]);
        }
    }
    tile_blocks(w, blocks, batch, b, part);
    for (int j = 0; j < blocks; ++j) {
        F d, m;
        scales_32<type>(tail + size_t(j) * tail_step, d, m);
        for (int r = 0; r < batch.n; ++r) {
            const Row & row = batch.rows[r];
            const I sum = Simd::sub(Simd::load(part[j][r]), Simd::set(excess_of<type>() * row.sum[b + j]));
            take_32<type>(sum, d, m, row, b + j, sums.outputs[r]);
        }
    }
}
#endif

template <int type> void block_32(const uint8_t * p, const uint8_t * tail, const Batch & batch, int64_t b, Sums & sums) {
    I w[8];
    unpack_32<type>(p, w);
    F d, m;
    scales_32<type>(tail, d, m);
    constexpr int excess = excess_of<type>();
    for_rows(batch.n, [&]<int rows>(int r) {
        const int8_t * x[rows];
        I sum[rows];
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i) {
            const Row & row = batch.rows[r + i];
            x[i] = row.q + 32 * b;
            sum[i] = excess ? Simd::set(-excess * row.sum[b]) : Simd::zero();
        }
        if constexpr (type == Q8_0) {
#pragma GCC unroll 8
            for (int g = 0; g < 8; ++g) {
#pragma GCC unroll 4
                for (int i = 0; i < rows; ++i) {
                    sum[i] = Simd::dot_signed(sum[i], w[g], x[i] + 4 * g);
                }
            }
        } else {
            dots<rows, 8, 0>(sum, w, x);
        }
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i) {
            take_32<type>(sum[i], d, m, batch.rows[r + i], b, sums.outputs[r + i]);
        }
    });
}

template <int type> void multiply_type(const Format & format, const uint8_t * packed, const Batch & batch, int64_t k, int64_t n,
                                       int64_t first, int64_t last, float * const * ys) {
    const int64_t blocks = k / format.block;
    const size_t size = tile_size(format, k), step = size_t(format.planes) * 4 * kTile;
    Sums sums;
    for (int64_t tile = first; tile < last; ++tile) {
        for (int part = 0; part < kTile / W; ++part) {
            const int64_t start = tile * kTile + part * W;
            if (start >= n) {
                break;
            }
            const uint8_t * p = packed + size_t(tile) * size;
            const uint8_t * tail = p + size_t(blocks) * step + part * W * format.tail;
            p += part * W * 4;
            for (int r = 0; r < batch.n; ++r) {
                Simd::storef(sums.outputs[r], Simd::setf(0));
            }
            int64_t b = 0;
#if defined(PARDEC_AMX)
            if constexpr (type == Q4_0 || type == Q4_1 || type == Q5_0 || type == Q8_0) {
                const size_t tail_step = size_t(format.tail) * kTile;
                while (on_tiles(batch) && b < blocks) {
                    const int some = int(blocks - b < 4 ? blocks - b : 4);
                    blocks_32<type>(p, step, tail, tail_step, some, batch, b, sums);
                    b += some;
                    p += step * size_t(some);
                    tail += tail_step * size_t(some);
                }
            }
#endif
            for (; b < blocks; ++b, p += step, tail += format.tail * kTile) {
                if constexpr (type == Q4_K) {
                    block_4k<false>(p, batch, b, sums);
                } else if constexpr (type == Q5_K) {
                    block_4k<true>(p, batch, b, sums);
                } else if constexpr (type == Q6_K) {
                    block_6k(p, tail, batch, b, sums);
                } else {
                    block_32<type>(p, tail, batch, b, sums);
                }
            }
            const int64_t width = n - start < W ? n - start : W;
            for (int r = 0; r < batch.n; ++r) {
                if (width == W) {
                    Simd::storef(ys[r] + start, Simd::loadf(sums.outputs[r]));
                } else {
                    for (int64_t i = 0; i < width; ++i) {
                        ys[r][start + i] = sums.outputs[r][i];
                    }
                }
            }
        }
    }
}

void multiply(const Format & format, const uint8_t * packed, const uint8_t * const * rows, int n_rows, int64_t k, int64_t n,
              int64_t first, int64_t last, float * const * ys) {
    Row unpacked[kMostRows];
    for (int r = 0; r < n_rows; ++r) {
        unpacked[r] = row_at(format, rows[r], k);
    }
    Batch batch{unpacked, n_rows, n_rows > 1 ? rows[1] - rows[0] : 0};
    for (int r = 1; r < n_rows; ++r) {
        if (rows[r] - rows[r - 1] != batch.stride) {
            batch.stride = 0;
        }
    }
#if defined(PARDEC_AMX)
    struct Tiles {
        bool on;
        explicit Tiles(const Batch & some, int groups) : on(on_tiles(some)) {
            if (on) {
                amx::begin(amx::Config(groups_of(some.n).rows, groups));
            }
        }
        ~Tiles() {
            if (on) {
                amx::end();
            }
        }
    } const tiles(batch, format.type == Q6_K ? 4 : 8);
#endif
    switch (format.type) {
        case Q4_0:
            return multiply_type<Q4_0>(format, packed, batch, k, n, first, last, ys);
        case Q4_1:
            return multiply_type<Q4_1>(format, packed, batch, k, n, first, last, ys);
        case Q5_0:
            return multiply_type<Q5_0>(format, packed, batch, k, n, first, last, ys);
        case Q8_0:
            return multiply_type<Q8_0>(format, packed, batch, k, n, first, last, ys);
        case Q4_K:
            return multiply_type<Q4_K>(format, packed, batch, k, n, first, last, ys);
        case Q5_K:
            return multiply_type<Q5_K>(format, packed, batch, k, n, first, last, ys);
        case Q6_K:
            return multiply_type<Q6_K>(format, packed, batch, k, n, first, last, ys);
    }
}

// ---- Activations.

float half_to_float(uint16_t h) {
#if defined(__F16C__)
    return _cvtsh_ss(h);
#else
    __fp16 f;
    memcpy(&f, &h, 2);
    return f;
#endif
}

uint16_t float_to_half(float f) {
#if defined(__F16C__)
    return _cvtss_sh(f, 0);
#else
    const __fp16 h = f;
    uint16_t bits;
    memcpy(&bits, &h, 2);
    return bits;
#endif
}

// Nearest integer, ties to even, for |x| < 2^22: the sum's lowest bits are those of the integer.
int32_t nearest(float x) {
    const float shifted = x + 12582912.0f;
    int32_t bits;
    memcpy(&bits, &shifted, 4);
    return bits - 0x4b400000;
}

void quantise(const Format & format, const float * x, uint8_t * target, int64_t k, int64_t first, int64_t last) {
    const Row row = row_at(format, target, k);
    int8_t * const q = (int8_t *)row.q;
    for (int64_t b = first; b < last; ++b) {
        const float * const in = x + b * format.block;
        int8_t * const out = q + b * format.block;
        float highs[16], lows[16];
        for (int i = 0; i < 16; ++i) {
            highs[i] = lows[i] = in[i];
        }
        for (int j = 16; j < format.block; j += 16) {
            for (int i = 0; i < 16; ++i) {
                highs[i] = in[j + i] > highs[i] ? in[j + i] : highs[i];
                lows[i] = in[j + i] < lows[i] ? in[j + i] : lows[i];
            }
        }
        float high = highs[0], low = lows[0];
        for (int i = 1; i < 16; ++i) {
            high = highs[i] > high ? highs[i] : high;
            low = lows[i] < low ? lows[i] : low;
        }
        const float most = high > -low ? high : -low;
        float * const scale = (float *)row.scale + b;
        if (!format.eights_k) {
            const float d = most / 127.0f, inverse = most > 0 ? 127.0f / most : 0.0f;
            int32_t sum = 0;
            for (int i = 0; i < 32; ++i) {
                const int32_t v = nearest(in[i] * inverse);
                out[i] = int8_t(v);
                sum += v;
            }
            *scale = half_to_float(float_to_half(d));
            ((int32_t *)row.sum)[b] = sum;
            ((float *)row.scaled_sum)[b] = half_to_float(float_to_half(d * float(sum)));
            continue;
        }
        int16_t * const sums32 = (int16_t *)row.sums32 + 8 * b;
        int16_t * const sums16 = (int16_t *)row.sums16 + 16 * b;
        float extreme = high > -low ? high : low;
        if (high == -low) {  // the first of the two counts
            for (int i = 0; i < 256; ++i) {
                if (in[i] == high || in[i] == low) {
                    extreme = in[i];
                    break;
                }
            }
        }
        const float inverse = extreme != 0 ? -127.0f / extreme : 0.0f;
        for (int s = 0; s < 16; ++s) {
            int32_t sum = 0;
            for (int i = 16 * s; i < 16 * s + 16; ++i) {
                const int32_t v = nearest(in[i] * inverse);
                const int32_t bounded = v < 127 ? v : 127;
                out[i] = int8_t(bounded);
                sum += bounded;
            }
            sums16[s] = int16_t(sum);
        }
        for (int s = 0; s < 8; ++s) {
            sums32[s] = int16_t(sums16[2 * s] + sums16[2 * s + 1]);
        }
        *scale = extreme != 0 ? 1.0f / inverse : 0.0f;
    }
}

}  // namespace

extern const Kernels VARIANT_NAME(kernels);
const Kernels VARIANT_NAME(kernels) = {VARIANT_TEXT(VARIANT), quantise, multiply};

}  // namespace quant

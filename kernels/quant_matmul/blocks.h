// Blocks of one tile as lanes of a register: weights, two groups of four at a time, and scales. See `VARIANTS` in setup.py.
#pragma once

#include "quant_matmul.h"

#if defined(PARDEC_AMX) || defined(PARDEC_AVX512VNNI)
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

struct Batch {
    const Row * rows;
    int n;
    int64_t stride;  // from one row to the next, where it is always the same; 0 otherwise
};

// Weights come from far away, and once: they are asked into the second cache so many bytes ahead.
constexpr size_t kAhead = 8192;

// A load that stays where it is written, between the products: compilers gather the loads of a block in one place, and
// memory then has nothing to do while its products are computed (a fifth of the time of four rows).
inline I load_here(const uint8_t * p) {
    __builtin_prefetch(p + kAhead, 0, 2);
    I q = Simd::load(p);
    Simd::pin(q);
    return q;
}

// Groups of four weights of each row, from the low nibbles of a line and from the high ones.
struct Pair {
    I low, high;
};

// Four bits as they stand in their byte: as they are, or, which saves a shift, 16 times too large.
template <bool raised> inline I high_nibbles(I q) {
    if constexpr (raised) {
        return Simd::bits(q, 0xf0f0f0f0);
    } else {
        return Simd::bits(Simd::shr<4>(q), 0x0f0f0f0f);
    }
}

// ---- Q4_K, Q5_K. Of quarter c group g of 0…7, and the one that lies 32 weights behind.

template <bool five, int c, bool raised = false> inline Pair pair_4k(const uint8_t * p, int g) {
    constexpr int first = five ? 12 : 4, up = c < 2 ? 4 - 2 * c : 0, down = c < 2 ? 0 : 2 * c - 4;
    const I q = load_here(p + (first + 8 * c + g) * 64);
    Pair pair{Simd::bits(q, 0x0f0f0f0f), high_nibbles<raised>(q)};
    if constexpr (five) {  // bit 2c of each byte goes with the low nibble, the next one with the high nibble
        const I h = c ? Simd::load(p + (4 + g) * 64) : load_here(p + (4 + g) * 64);
        pair.low = Simd::either(pair.low, Simd::bits(Simd::shr<down>(Simd::shl<up>(h)), 0x10101010));
        pair.high = Simd::either(pair.high, Simd::bits(c < 2 ? Simd::shl<up ? up - 1 : 0>(h) : Simd::shr<down + 1>(h), 0x10101010));
    }
    return pair;
}

// Six-bit scales and minima, the upper two bits of the last four in the top bits of the first four.
struct Scales4k {
    I scales[2], minima[2];

    Scales4k() = default;
    explicit Scales4k(const uint8_t * p) {
        const I s = Simd::load(p + 64), m = Simd::load(p + 128), both = Simd::load(p + 192);
        scales[0] = Simd::bits(s, 0x3f3f3f3f);
        minima[0] = Simd::bits(m, 0x3f3f3f3f);
        scales[1] = Simd::either(Simd::bits(both, 0x0f0f0f0f), Simd::bits(Simd::shr<2>(s), 0x30303030));
        minima[1] = Simd::either(Simd::bits(Simd::shr<4>(both), 0x0f0f0f0f), Simd::bits(Simd::shr<2>(m), 0x30303030));
    }
};

// Minima as pairs of 16 bits.
struct Pairs4k {
    I pairs[4];

    Pairs4k() = default;
    explicit Pairs4k(const I (&minima)[2])
        : pairs{Simd::unsigned_pair<0>(minima[0]), Simd::unsigned_pair<1>(minima[0]), Simd::unsigned_pair<0>(minima[1]),
                Simd::unsigned_pair<1>(minima[1])} {}

    // The sum of all of them, each times the sum of its activations.
    I times(const int16_t * sums32) const {
        I sum = Simd::zero();
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            sum = Simd::dot_pairs(sum, pairs[i], sums32 + 2 * i);
        }
        return sum;
    }
};

struct Halves4k {
    F d, dmin;

    Halves4k() = default;
    explicit Halves4k(const uint8_t * p) : d(Simd::low_half(Simd::load(p))), dmin(Simd::high_half(Simd::load(p))) {}
};

// The output of a block; both sums are exact.
inline F term_4k(const Halves4k & of, I products, I minima, float scale) {
    const F x = Simd::setf(scale);
    return Simd::subf(Simd::mulf(Simd::floats(products), Simd::mulf(of.d, x)), Simd::mulf(Simd::floats(minima), Simd::mulf(of.dmin, x)));
}

// ---- Q6_K. Of 32 weights (a half of the block, one side of it) group g of 0…7, and the one that lies 64 weights behind.

template <int half, int side> inline Pair pair_6k(const uint8_t * p, int g) {
    const uint8_t * const lines = p + (4 + 24 * half) * 64;
    const I q = load_here(lines + (side ? 16 + g : 2 * g) * 64);
    const uint8_t * const upper = lines + (2 * g + 1) * 64;
    const I h = side ? Simd::load(upper) : load_here(upper);
    return {Simd::either(Simd::bits(q, 0x0f0f0f0f), Simd::bits(Simd::shl<4 - 2 * side>(h), 0x30303030)),
            Simd::either(high_nibbles<false>(q), Simd::bits(Simd::shr<2 * side>(h), 0x30303030))};
}

struct Scales6k {
    I scales[4];

    Scales6k() = default;
    explicit Scales6k(const uint8_t * p)
        : scales{Simd::load(p), Simd::load(p + 64), Simd::load(p + 128), Simd::load(p + 192)} {}
};

// Scales as pairs of 16 bits.
struct Pairs6k {
    I pairs[8];

    Pairs6k() = default;
    explicit Pairs6k(const I (&scales)[4]) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            pairs[2 * i] = Simd::signed_pair<0>(scales[i]);
            pairs[2 * i + 1] = Simd::signed_pair<1>(scales[i]);
        }
    }

    // What has to be added to the products: weights are stored 32 too high.
    I excess(const int16_t * sums16) const {
        I sum = Simd::zero();
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) {
            sum = Simd::dot_pairs(sum, pairs[i], sums16 + 2 * i);
        }
        return Simd::sub(Simd::zero(), Simd::shl<5>(sum));
    }
};

inline F term_6k(F d, I products, float scale) {
    return Simd::mulf(Simd::floats(products), Simd::mulf(d, Simd::setf(scale)));
}

// ---- Blocks of 32. Group g of 0…3, and the one that lies 16 weights behind.

template <int type, int g, bool raised = false> inline Pair pair_32(const uint8_t * p) {
    if constexpr (type == Q8_0) {
        return {Simd::to_unsigned(load_here(p + 64 * g)), Simd::to_unsigned(load_here(p + 64 * (g + 4)))};
    }
    const I q = load_here(p + 64 * (g + (type == Q5_0 ? 1 : 0)));
    Pair pair{Simd::bits(q, 0x0f0f0f0f), high_nibbles<raised>(q)};
    if constexpr (type == Q5_0) {
        const I h = g ? Simd::load(p) : load_here(p);
        pair.low = Simd::either(pair.low, Simd::bits(Simd::shl<4 - g>(h), 0x10101010));
        pair.high = Simd::either(pair.high, Simd::bits(Simd::shr<g>(h), 0x10101010));
    }
    return pair;
}

template <int type> constexpr int excess_of() {  // of the weights as they are stored
    return type == Q4_0 ? 8 : type == Q5_0 ? 16 : type == Q8_0 ? Simd::kOffset : 0;
}

template <int type> inline F term_32(const uint8_t * tail, I product, const Row & row, int64_t b) {
    if constexpr (type == Q4_1) {
        const I dm = Simd::load(tail);
        const F term = Simd::mulf(Simd::floats(product), Simd::mulf(Simd::low_half(dm), Simd::setf(row.scale[b])));
        return Simd::addf(term, Simd::mulf(Simd::high_half(dm), Simd::setf(row.scaled_sum[b])));
    } else {
        return Simd::mulf(Simd::floats(product), Simd::mulf(Simd::halves(tail), Simd::setf(row.scale[b])));
    }
}

// ---- All weights of a block as lines of W dwords, for many rows.

// Groups `line` and `line + behind`.
inline void keep(uint8_t * w, int line, int behind, Pair pair) {
    Simd::store(w + line * 4 * W, pair.low);
    Simd::store(w + (line + behind) * 4 * W, pair.high);
}

template <int type, int quarter> void unpack_quarter(const uint8_t * p, uint8_t * w) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
        if constexpr (type == Q6_K) {
            keep(w, 32 * (quarter / 2) + 8 * (quarter % 2) + g, 16, pair_6k<quarter / 2, quarter % 2>(p, g));
        } else {
            keep(w, 16 * quarter + g, 8, pair_4k<type == Q5_K, quarter>(p, g));
        }
    }
}

template <int type> void unpack(const uint8_t * p, uint8_t * w) {
    if constexpr (type == Q4_K || type == Q5_K || type == Q6_K) {
        unpack_quarter<type, 0>(p, w);
        unpack_quarter<type, 1>(p, w);
        unpack_quarter<type, 2>(p, w);
        unpack_quarter<type, 3>(p, w);
    } else {
        keep(w, 0, 4, pair_32<type, 0>(p));
        keep(w, 1, 4, pair_32<type, 1>(p));
        keep(w, 2, 4, pair_32<type, 2>(p));
        keep(w, 3, 4, pair_32<type, 3>(p));
    }
}

// Writes the outputs of W of the matrix' rows from `start` on, as far as it has so many.
inline void take(const float (*outputs)[W], int n_rows, int64_t start, int64_t n, float * const * ys) {
    for (int r = 0; r < n_rows; ++r) {
        if (n - start >= W) {
            Simd::storef(ys[r] + start, Simd::loadf(outputs[r]));
        } else {
            memcpy(ys[r] + start, outputs[r], size_t(n - start) * sizeof(float));
        }
    }
}

}  // namespace
}  // namespace quant

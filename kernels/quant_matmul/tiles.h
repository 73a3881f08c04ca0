// Products with all rows of a call at once on the tile unit; the sums are the same integers.
#pragma once

#include "amx.h"
#include "blocks.h"

namespace quant {
namespace {

// Whether it is faster than without: more rows than have their sums in registers. Blocks of 32 stop at each of their scales.
constexpr bool on_tiles(int type, const Batch & batch) {
    return batch.stride && batch.n > (type == Q4_K || type == Q5_K || type == Q6_K ? 8 : 15);
}

// The rows of a call in one or two groups of 16 at most.
struct Sixteens {
    int first, second;

    explicit Sixteens(int n) : first(n <= 16 ? n : (n + 1) / 2), second(n - first) {}
};

inline void add_to(float * sum, F a) {
    Simd::storef(sum, Simd::addf(Simd::loadf(sum), a));
}

// ---- Blocks of 256. Their scales are taken apart into digits, few enough bits each that weight times digit is a byte. So a
// block goes through the unit without a stop, once for each digit, and its sums are shifted and added.

template <bool five> struct Digits4k {
    static constexpr int kDigits = 2, kBits = 3;  // weights of up to 5 bits
    using Scales = Scales4k;

    // What is added when the products are there.
    struct Rest {
        Pairs4k minima;
        Halves4k of;

        Rest() = default;
        Rest(const Scales & scales, const uint8_t * p, const uint8_t *) : minima(scales.minima), of(p) {}

        F term(I products, const Row & row, int64_t b) const {
            return term_4k(of, products, minima.times(row.sums32 + 8 * b), row.scale[b]);
        }
    };

    // Lines 16 * quarter to 16 * quarter + 15, and no others: those of the block before are still to be multiplied.
    template <int quarter> static void prepare(const uint8_t * p, const Scales & scales, uint8_t (*w)[64 * 64]) {
        constexpr int byte = 2 * quarter % 4;
        const I low = Simd::twice<byte>(scales.scales[quarter / 2]), high = Simd::twice<byte + 1>(scales.scales[quarter / 2]);
        const I low0 = Simd::bits(low, 0x00070007), low1 = Simd::shr16<3>(low);
        const I high0 = Simd::bits(high, 0x00070007), high1 = Simd::shr16<3>(high);
#pragma GCC unroll 8
        for (int g = 0; g < 8; ++g) {
            const Pair pair = pair_4k<five, quarter>(p, g);
            const int at = (16 * quarter + g) * 64;
            Simd::store(w[0] + at, Simd::times16(pair.low, low0));
            Simd::store(w[1] + at, Simd::times16(pair.low, low1));
            Simd::store(w[0] + at + 8 * 64, Simd::times16(pair.high, high0));
            Simd::store(w[1] + at + 8 * 64, Simd::times16(pair.high, high1));
        }
    }
};

struct Digits6k {
    static constexpr int kDigits = 4, kBits = 2;  // weights of up to 7 bits
    using Scales = Scales6k;

    struct Rest {
        Pairs6k scales;
        F d;

        Rest() = default;
        Rest(const Scales & some, const uint8_t *, const uint8_t * tail) : d(Simd::halves(tail)) {
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i) {
                const I positive = Simd::abs8(some.scales[i]);
                scales.pairs[2 * i] = Simd::unsigned_pair<0>(positive);
                scales.pairs[2 * i + 1] = Simd::unsigned_pair<1>(positive);
            }
        }

        F term(I products, const Row & row, int64_t b) const {
            return term_6k(d, Simd::add(products, scales.excess(row.sums16 + 16 * b)), row.scale[b]);
        }
    };

    // A negative scale is taken as positive, and its weights, which stand 32 too high, as 64 minus themselves.
    struct Scale {
        I sign, up, digits[kDigits];

        explicit Scale(I twice) : sign(Simd::sar16<15>(twice)), up(Simd::bits(sign, 0x41414141)) {
            const I positive = Simd::abs16(twice);
            digits[0] = Simd::bits(positive, 0x00030003);
            digits[1] = Simd::bits(Simd::shr16<2>(positive), 0x00030003);
            digits[2] = Simd::bits(Simd::shr16<4>(positive), 0x00030003);
            digits[3] = Simd::shr16<6>(positive);
        }

        void store(I weights, uint8_t (*w)[64 * 64], int at) const {
            const I turned = Simd::add8(Simd::differ(weights, sign), up);
#pragma GCC unroll 4
            for (int i = 0; i < kDigits; ++i) {
                Simd::store(w[i] + at, Simd::times16(turned, digits[i]));
            }
        }
    };

    // Four groups of weights with one scale: of the low nibbles of a half of the block, or of the high ones.
    template <int half, bool high, int index> static void prepare_scale(const uint8_t * p, const Scales & scales, uint8_t (*w)[64 * 64]) {
        constexpr int side = index / 2;
        const Scale scale(Simd::signed_twice<index>(scales.scales[2 * half + high]));
#pragma GCC unroll 4
        for (int g = 4 * (index % 2); g < 4 * (index % 2) + 4; ++g) {
            const Pair pair = pair_6k<half, side>(p, g);
            scale.store(high ? pair.high : pair.low, w, (32 * half + 16 * high + 8 * side + g) * 64);
        }
    }

    template <int quarter> static void prepare(const uint8_t * p, const Scales & scales, uint8_t (*w)[64 * 64]) {
        prepare_scale<quarter / 2, quarter % 2, 0>(p, scales, w);
        prepare_scale<quarter / 2, quarter % 2, 1>(p, scales, w);
        prepare_scale<quarter / 2, quarter % 2, 2>(p, scales, w);
        prepare_scale<quarter / 2, quarter % 2, 3>(p, scales, w);
    }
};

// The blocks of a call on their way: one is prepared while the one before is multiplied and the sums of the one before that
// are added, a quarter of each in turn, so that no unit waits for another.
template <class Digits> class Blocks {
public:
    Blocks(const Format & format, const uint8_t * packed, const Batch & batch, int64_t k, int64_t n, float * const * ys)
        : packed_(packed), batch_(batch), groups_(batch.n), blocks_(k / 256), n_(n), size_(tile_size(format, k)),
          step_(size_t(format.planes) * 4 * kTile), tail_step_(size_t(format.tail) * kTile), ys_(ys) {}

    // Tiles [first, last).
    void run(int64_t first, int64_t last) {
        memset(outputs_, 0, sizeof(outputs_[0]) * size_t(batch_.n));
        amx::begin(amx::Config(groups_.first, groups_.second ? groups_.second : groups_.first, 16));
        const int64_t all = (last - first) * blocks_;
        Place prepared = place(first), multiplied = prepared, added = prepared;
        Rest * rests[3] = {&rests_[0], &rests_[1], &rests_[2]};  // of the same three blocks
        for (int64_t i = 0; i < all + 2; ++i) {
            const bool prepares = i < all, multiplies = i > 0 && i <= all, adds = i > 1;
            Scales scales;
            if (prepares) {
                scales = Scales(prepared.lines);
                *rests[0] = Rest(scales, prepared.lines, prepared.tail);
            }
            const int8_t * const x = batch_.rows[0].q + 256 * multiplied.b;
            quarter<0>(prepares, prepared, scales, multiplies, x, adds, *rests[2], added.b);
            quarter<1>(prepares, prepared, scales, multiplies, x, adds, *rests[2], added.b);
            quarter<2>(prepares, prepared, scales, multiplies, x, adds, *rests[2], added.b);
            quarter<3>(prepares, prepared, scales, multiplies, x, adds, *rests[2], added.b);
            if (adds && added.b == blocks_ - 1) {
                take(outputs_, batch_.n, added.tile * kTile, n_, ys_);
                memset(outputs_, 0, sizeof(outputs_[0]) * size_t(batch_.n));
            }
            added = multiplied;
            multiplied = prepared;
            prepared = prepared.b + 1 < blocks_ ? Place{prepared.lines + step_, prepared.tail + tail_step_, prepared.tile, prepared.b + 1}
                                                : place(prepared.tile + 1);
            Rest * const used = rests[2];
            rests[2] = rests[1];
            rests[1] = rests[0];
            rests[0] = used;
        }
        amx::end();
    }

private:
    using Scales = typename Digits::Scales;
    using Rest = typename Digits::Rest;

    // A block of a tile.
    struct Place {
        const uint8_t * lines, * tail;
        int64_t tile, b;
    };

    // The first of a tile.
    Place place(int64_t tile) const {
        const uint8_t * const lines = packed_ + size_t(tile) * size_;
        return {lines, lines + size_t(blocks_) * step_, tile, 0};
    }

    // The sums of digit d and a group of rows stand in tile d * kGroups + group.
    static constexpr int kGroups = 4 / Digits::kDigits;

    template <int q> void multiply(const int8_t * x) {
        amx::load<4>(x + 64 * q, batch_.stride);
        if (groups_.second) {
            amx::load<5>(x + 64 * q + groups_.first * batch_.stride, batch_.stride);
        }
        multiply_digit<q, 0>();
        multiply_digit<q, 1>();
        if constexpr (Digits::kDigits == 4) {
            multiply_digit<q, 2>();
            multiply_digit<q, 3>();
        }
    }

    template <int q, int digit> void multiply_digit() {
        constexpr int sums = digit * kGroups, weights = 6 + digit % 2;
        amx::load<weights>(weights_[digit] + 1024 * q, 64);
        if constexpr (q == 0) {
            amx::clear<sums>();
        }
        amx::dot<sums, 4, weights>();
        if constexpr (kGroups == 2) {
            if (groups_.second) {
                if constexpr (q == 0) {
                    amx::clear<sums + 1>();
                }
                amx::dot<sums + 1, 5, weights>();
            }
        }
    }

    template <int digit> void keep() {
        constexpr int sums = digit * kGroups;
        amx::store<sums>(sums_[digit][0]);
        if constexpr (kGroups == 2) {
            if (groups_.second) {
                amx::store<sums + 1>(sums_[digit][groups_.first]);
            }
        }
        if constexpr (digit + 1 < Digits::kDigits) {
            keep<digit + 1>();
        }
    }

    void add(int from, int until, const Rest & rest_there, int64_t b) {
        const Rest rest = rest_there;  // in registers
        for (int r = from; r < until; ++r) {
            I sum = Simd::load(sums_[0][r]);
            sum = Simd::add(sum, Simd::shl<Digits::kBits>(Simd::load(sums_[1][r])));
            if constexpr (Digits::kDigits == 4) {
                sum = Simd::add(sum, Simd::shl<2 * Digits::kBits>(Simd::load(sums_[2][r])));
                sum = Simd::add(sum, Simd::shl<3 * Digits::kBits>(Simd::load(sums_[3][r])));
            }
            add_to(outputs_[r], rest.term(sum, batch_.rows[r], b));
        }
    }

    template <int q> void quarter(bool prepares, const Place & prepared, const Scales & scales, bool multiplies, const int8_t * x,
                                  bool adds, const Rest & rest, int64_t b) {
        if (multiplies) {
            multiply<q>(x);
        }
        if (prepares) {
            Digits::template prepare<q>(prepared.lines, scales, weights_);
        }
        if (adds && q) {  // the last sums have just been stored: not at once
            add(batch_.n * (q - 1) / 3, batch_.n * q / 3, rest, b);
        }
        if constexpr (q == 3) {
            if (multiplies) {
                keep<0>();
            }
        }
    }

    const uint8_t * const packed_;
    const Batch batch_;
    const Sixteens groups_;
    const int64_t blocks_, n_;
    const size_t size_, step_, tail_step_;
    float * const * const ys_;
    Rest rests_[3];
    alignas(64) uint8_t weights_[Digits::kDigits][64 * 64];
    alignas(64) int32_t sums_[Digits::kDigits][kMostRows][16];
    alignas(64) float outputs_[kMostRows][16];
};

// ---- Blocks of 32, each with a scale of its own: four of them one after the other.

// Sums of one or two blocks, whose weights lie at `w`.
inline void multiply_32(const int8_t * x, const Batch & batch, const Sixteens & groups, const uint8_t * w, bool two,
                        int32_t (*sums)[kMostRows][16]) {
    const int64_t second = groups.first * batch.stride;
    amx::load<4>(x, batch.stride);
    amx::load<6>(w, 64);
    amx::clear<0>();
    amx::dot<0, 4, 6>();
    if (groups.second) {
        amx::load<5>(x + second, batch.stride);
        amx::clear<1>();
        amx::dot<1, 5, 6>();
    }
    if (two) {
        amx::load<4>(x + 32, batch.stride);
        amx::load<7>(w + 512, 64);
        amx::clear<2>();
        amx::dot<2, 4, 7>();
        if (groups.second) {
            amx::load<5>(x + second + 32, batch.stride);
            amx::clear<3>();
            amx::dot<3, 5, 7>();
            amx::store<3>(sums[1][groups.first]);
        }
        amx::store<2>(sums[1][0]);
    }
    if (groups.second) {
        amx::store<1>(sums[0][groups.first]);
    }
    amx::store<0>(sums[0][0]);
}

template <int type> void tiles_32(const Format & format, const uint8_t * packed, const Batch & batch, int64_t k, int64_t n,
                                  int64_t first, int64_t last, float * const * ys) {
    const int64_t blocks = k / 32;
    const size_t size = tile_size(format, k), step = size_t(format.planes) * 4 * kTile, tail_step = size_t(format.tail) * kTile;
    const Sixteens groups(batch.n);
    alignas(64) uint8_t w[4 * 512];
    alignas(64) int32_t sums[4][kMostRows][16];
    alignas(64) float outputs[kMostRows][16];
    amx::begin(amx::Config(groups.first, groups.second ? groups.second : groups.first, 8));
    for (int64_t tile = first; tile < last; ++tile) {
        const uint8_t * p = packed + size_t(tile) * size;
        const uint8_t * tail = p + size_t(blocks) * step;
        memset(outputs, 0, sizeof(outputs[0]) * size_t(batch.n));
        for (int64_t b = 0; b < blocks; b += 4) {
            const int some = int(blocks - b < 4 ? blocks - b : 4);
            for (int j = 0; j < some; ++j, p += step) {
                unpack<type>(p, w + j * 512);
            }
            const int8_t * const x = batch.rows[0].q + 32 * b;
            multiply_32(x, batch, groups, w, some > 1, sums);
            if (some > 2) {
                multiply_32(x + 64, batch, groups, w + 1024, some > 3, sums + 2);
            }
            for (int j = 0; j < some; ++j, tail += tail_step) {
                for (int r = 0; r < batch.n; ++r) {
                    const Row & row = batch.rows[r];
                    const I sum = Simd::sub(Simd::load(sums[j][r]), Simd::set(excess_of<type>() * row.sum[b + j]));
                    add_to(outputs[r], term_32<type>(tail, sum, row, b + j));
                }
            }
        }
        take(outputs, batch.n, tile * kTile, n, ys);
    }
    amx::end();
}

// Tiles [first, last) of a call whose rows are `on_tiles`.
template <int type> void multiply_on_tiles(const Format & format, const uint8_t * packed, const Batch & batch, int64_t k, int64_t n,
                                           int64_t first, int64_t last, float * const * ys) {
    if constexpr (type == Q6_K) {  // the sums of four digits take the tiles of both groups
        const Sixteens groups(batch.n);
        Blocks<Digits6k>(format, packed, {batch.rows, groups.first, batch.stride}, k, n, ys).run(first, last);
        if (groups.second) {
            const Batch second{batch.rows + groups.first, groups.second, batch.stride};
            Blocks<Digits6k>(format, packed, second, k, n, ys + groups.first).run(first, last);
        }
    } else if constexpr (type == Q4_K || type == Q5_K) {
        Blocks<Digits4k<type == Q5_K>>(format, packed, batch, k, n, ys).run(first, last);
    } else {
        tiles_32<type>(format, packed, batch, k, n, first, last, ys);
    }
}

}  // namespace
}  // namespace quant

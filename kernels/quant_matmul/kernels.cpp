// The kernels of one instruction set; compiled once for each, see `VARIANTS` in setup.py.
//
// An output is a chain of additions over the blocks of its row, first to last, each term made of exact integer sums:
//   acc += float(sum of scaled products) * (d * scale) [- float(sum of scaled minima) * (dmin * scale)]
// Nothing in it depends on how many rows are computed at once. Compiled without contraction to fused operations.
#include <bit>

#include "../variant.h"
#include "stretch.h"
#include "unpacked.h"

#if defined(PARDEC_AMX)
#include "tiles.h"
#endif

namespace quant {
namespace {

// Rows [0, n) in as few groups of nearly the same size as may be, of `most` at most.
struct Groups {
    int n, count;

    Groups(int rows, int most) : n(rows), count((rows + most - 1) / most) {}
    int first(int group) const { return n * group / count; }
    int size(int group) const { return first(group + 1) - first(group); }
};

// Weights of a stretch, when several groups of rows take it from the first cache, one after the other.
constexpr int kStretch = 1024;

// Whether each block is unpacked once for all groups of rows. Blocks of 32 are too small to come back to again and again.
constexpr bool unpacks(int type, int rows) {
    return kMany && (type == Q4_K || type == Q5_K || type == Q6_K) && rows > kTogether;
}

template <int type> void multiply_type(const Format & format, const uint8_t * packed, const Row * rows, int n_rows, int64_t k,
                                       int64_t n, int64_t first, int64_t last, float * const * ys) {
    const int64_t blocks = k / format.block;
    const size_t size = tile_size(format, k), step = size_t(format.planes) * 4 * kTile, tail_step = size_t(format.tail) * kTile;
    const bool many = unpacks(type, n_rows);
    const Groups groups(n_rows, many ? kMany : kTogether);
    const int64_t some = many ? 1 : groups.count == 1 ? blocks : kStretch / format.block;
    alignas(64) uint8_t weights[kMany ? 64 * 4 * W : 1];
    alignas(64) float outputs[kMostRows][W];
    for (int64_t tile = first; tile < last; ++tile) {
        for (int part = 0; part < kTile / W; ++part) {
            const int64_t start = tile * kTile + part * W;
            if (start >= n) {
                break;
            }
            const uint8_t * const lines = packed + size_t(tile) * size;
            Place at{lines + part * W * 4, lines + size_t(blocks) * step + part * W * format.tail};
            for (int64_t b = 0; b < blocks; b += some) {
                const int64_t until = blocks - b < some ? blocks : b + some;
                if constexpr (unpacks(type, kMostRows)) {
                    if (many) {
                        unpack<type>(at.p, weights);
                    }
                }
                for (int g = 0; g < groups.count; ++g) {
                    const int r = groups.first(g), together = groups.size(g);
                    if constexpr (unpacks(type, kMostRows)) {
                        if (many) {
                            kUnpackedBlocks<type>.of[together - 1](at, weights, rows + r, b, outputs + r);
                            continue;
                        }
                    }
                    kStretches<type>.of[together - 1](format, at, rows + r, b, until, outputs + r);
                }
                at = {at.p + step * size_t(some), at.tail + tail_step * size_t(some)};
            }
            take(outputs, n_rows, start, n, ys);
        }
    }
}

template <int type> void multiply_rows(const Format & format, const uint8_t * packed, const Batch & batch, int64_t k, int64_t n,
                                       int64_t first, int64_t last, float * const * ys) {
#if defined(PARDEC_AMX)
    if (on_tiles(type, batch)) {
        return multiply_on_tiles<type>(format, packed, batch, k, n, first, last, ys);
    }
#endif
    multiply_type<type>(format, packed, batch.rows, batch.n, k, n, first, last, ys);
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
    switch (format.type) {
        case Q4_0:
            return multiply_rows<Q4_0>(format, packed, batch, k, n, first, last, ys);
        case Q4_1:
            return multiply_rows<Q4_1>(format, packed, batch, k, n, first, last, ys);
        case Q5_0:
            return multiply_rows<Q5_0>(format, packed, batch, k, n, first, last, ys);
        case Q8_0:
            return multiply_rows<Q8_0>(format, packed, batch, k, n, first, last, ys);
        case Q4_K:
            return multiply_rows<Q4_K>(format, packed, batch, k, n, first, last, ys);
        case Q5_K:
            return multiply_rows<Q5_K>(format, packed, batch, k, n, first, last, ys);
        case Q6_K:
            return multiply_rows<Q6_K>(format, packed, batch, k, n, first, last, ys);
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

// x * inverse as the nearest integers, ties to even, 127 at most. For |x * inverse| < 2^22: adding 1.5 * 2^23 leaves the integer in
// the lowest bits.
template <int n> void round_all(const float * x, float inverse, int32_t (&values)[n]) {
    for (int i = 0; i < n; ++i) {
        const int32_t v = std::bit_cast<int32_t>(x[i] * inverse + 12582912.0f) - 0x4b400000;
        values[i] = v < 127 ? v : 127;
    }
}

void quantise(const Format & format, const float * x, uint8_t * target, int64_t k, int64_t first, int64_t last) {
    const Row row = row_at(format, target, k);
    int8_t * const q = (int8_t *)row.q;
    for (int64_t b = first; b < last; ++b) {
        const float * const in = x + b * format.block;
        int8_t * const out = q + b * format.block;
        F highs = Simd::loadf(in), lows = highs;
        for (int j = W; j < format.block; j += W) {
            highs = Simd::maxf(highs, Simd::loadf(in + j));
            lows = Simd::minf(lows, Simd::loadf(in + j));
        }
        const float high = Simd::highest(highs), low = Simd::lowest(lows);
        const float most = high > -low ? high : -low;
        float * const scale = (float *)row.scale + b;
        if (!format.eights_k) {
            const float d = most / 127.0f, inverse = most > 0 ? 127.0f / most : 0.0f;
            int32_t values[32], sum = 0;
            round_all(in, inverse, values);
            for (int i = 0; i < 32; ++i) {
                out[i] = int8_t(values[i]);
                sum += values[i];
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
        int32_t values[256];
        round_all(in, inverse, values);
        for (int i = 0; i < 256; ++i) {
            out[i] = int8_t(values[i]);
        }
        for (int s = 0; s < 16; ++s) {
            int32_t sum = 0;
            for (int i = 16 * s; i < 16 * s + 16; ++i) {
                sum += values[i];
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

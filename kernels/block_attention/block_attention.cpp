// Compiled once for each instruction set, see `VARIANTS` in setup.py.
#include "block_attention.h"

#include <math.h>

#include "../variant.h"
#include "../vectors.h"

namespace block_attention {
namespace {

using lanes::N;
using lanes::V;

constexpr int kParts = kChunk / N;

int32_t visible(const uint16_t * mask, int64_t n, int32_t * cells, bool * biased) {
    int32_t count = 0;
    bool any = false;
    for (int64_t c = 0; c < n; ++c) {
        cells[count] = int32_t(c);
        const bool seen = mask[c] != 0xfc00;
        count += seen;
        any |= seen && (mask[c] & 0x7fff);
    }
    *biased = any;
    return count;
}

// One cell's numbers, widened.
void widen(const Cache & cache, int64_t cell, int width, float * out) {
    const char * const p = cache.data + cell * cache.stride;
    if (!cache.eight_bits) {
        for (int d = 0; d < width; d += N) {
            lanes::store(out + d, lanes::load_half((const uint16_t *)p + d));
        }
        return;
    }
    for (int d = 0; d < width; d += 32) {
        const char * const block = p + d / 32 * 34;
        uint16_t bits;
        memcpy(&bits, block, 2);
        const float scale = lanes::half_to_float(bits);
        for (int i = 0; i < 32; ++i) {
            out[d + i] = scale * float((int8_t)block[2 + i]);
        }
    }
}

#if defined(__AVX512F__)
// 16 rows of 16 floats turned into 16 columns.
void transpose(const float * in, int64_t in_stride, float * out, int64_t out_stride) {
    __m512 a[16], b[16];
    for (int i = 0; i < 16; ++i) {
        a[i] = _mm512_loadu_ps(in + i * in_stride);
    }
    for (int i = 0; i < 8; ++i) {
        b[2 * i] = _mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]);
    }
    for (int i = 0; i < 4; ++i) {
        a[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(b[4 * i]), _mm512_castps_pd(b[4 * i + 2])));
        a[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(b[4 * i]), _mm512_castps_pd(b[4 * i + 2])));
        a[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(b[4 * i + 1]), _mm512_castps_pd(b[4 * i + 3])));
        a[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(b[4 * i + 1]), _mm512_castps_pd(b[4 * i + 3])));
    }
    for (int i = 0; i < 4; ++i) {
        b[i] = _mm512_shuffle_f32x4(a[i], a[4 + i], 0x88);
        b[4 + i] = _mm512_shuffle_f32x4(a[i], a[4 + i], 0xdd);
        b[8 + i] = _mm512_shuffle_f32x4(a[8 + i], a[12 + i], 0x88);
        b[12 + i] = _mm512_shuffle_f32x4(a[8 + i], a[12 + i], 0xdd);
    }
    for (int i = 0; i < 4; ++i) {
        _mm512_storeu_ps(out + i * out_stride, _mm512_shuffle_f32x4(b[i], b[8 + i], 0x88));
        _mm512_storeu_ps(out + (4 + i) * out_stride, _mm512_shuffle_f32x4(b[4 + i], b[12 + i], 0x88));
        _mm512_storeu_ps(out + (8 + i) * out_stride, _mm512_shuffle_f32x4(b[i], b[8 + i], 0xdd));
        _mm512_storeu_ps(out + (12 + i) * out_stride, _mm512_shuffle_f32x4(b[4 + i], b[12 + i], 0xdd));
    }
}
#else
void transpose(const float * in, int64_t in_stride, float * out, int64_t out_stride) {
    for (int i = 0; i < N; ++i) {
        for (int j = 0; j < N; ++j) {
            out[j * out_stride + i] = in[i * in_stride + j];
        }
    }
}
#endif

// keys: [width][kChunk], a column for each cell.
void read_keys(const Cache & cache, const int32_t * cells, int n, int width, float * keys) {
    alignas(64) float rows[N * kMostWidth];
    for (int part = 0; part < kParts; ++part) {
        for (int i = 0; i < N; ++i) {
            const int c = part * N + i;
            if (c < n) {
                widen(cache, cells[c], width, rows + i * width);
            } else {
                memset(rows + i * width, 0, size_t(width) * 4);
            }
        }
        for (int d = 0; d < width; d += N) {
            transpose(rows + d, width, keys + d * kChunk + part * N, kChunk);
        }
    }
}

void read_values(const Cache & cache, const int32_t * cells, int n, int width, float * values) {
    for (int c = 0; c < n; ++c) {
        widen(cache, cells[c], width, values + c * width);
    }
}

// Scores of `some` queries over a chunk.
template <int some> void scores(const float * const * q, const float * keys, int width, float * const * out) {
    V sums[some][kParts] = {};
    for (int d = 0; d < width; ++d) {
        V k[kParts];
        for (int part = 0; part < kParts; ++part) {
            k[part] = lanes::load(keys + d * kChunk + part * N);
        }
        for (int i = 0; i < some; ++i) {
            for (int part = 0; part < kParts; ++part) {
                sums[i][part] += k[part] * q[i][d];
            }
        }
    }
    for (int i = 0; i < some; ++i) {
        for (int part = 0; part < kParts; ++part) {
            lanes::store(out[i] + part * N, sums[i][part]);
        }
    }
}

// values = values * keep + sum over cells of weight * value, `wide` vectors from `at` on.
template <int wide> void weigh(const float * weights, const float * values, int n, int width, float keep, float * out) {
    V sums[wide];
    for (int j = 0; j < wide; ++j) {
        sums[j] = lanes::load(out + j * N) * keep;
    }
    for (int c = 0; c < n; ++c) {
        for (int j = 0; j < wide; ++j) {
            sums[j] += lanes::load(values + c * width + j * N) * weights[c];
        }
    }
    for (int j = 0; j < wide; ++j) {
        lanes::store(out + j * N, sums[j]);
    }
}

// What a row's first `n` scores of a chunk add to its result.
void take(const Job & job, int row, int head, int from, int n, float * s, const float * values, float * result) {
    const V neg = lanes::set(-INFINITY);
    V x[kParts];
    for (int part = 0; part < kParts; ++part) {
        x[part] = lanes::load(s + part * N) * job.scale;
        if (job.softcap != 0.0f) {
            const V e = lanes::exponential(x[part] * (2.0f / job.softcap));
            x[part] = job.softcap * (1.0f - 2.0f / (e + 1.0f));
        }
        lanes::store(s + part * N, x[part]);
    }
    if (job.mask[row]) {
        for (int c = 0; c < n; ++c) {
            s[c] += job.slope[head] * lanes::half_to_float(job.mask[row][job.cells[row][from + c]]);
        }
    }
    for (int c = n; c < kChunk; ++c) {
        s[c] = -INFINITY;
    }
    V most = neg;
    for (int part = 0; part < kParts; ++part) {
        x[part] = lanes::load(s + part * N);
        most = lanes::larger(x[part], most);
    }
    const float before = result[0], highest = lanes::largest(most);
    const float now = highest > before ? highest : before;
    float keep[N] = {before - now};
    lanes::store(keep, lanes::exponential(lanes::load(keep)));
    const float factor = before == -INFINITY ? 0.0f : keep[0];
    V sum = {};
    for (int part = 0; part < kParts; ++part) {
        const V weight = lanes::exponential(x[part] - now);
        lanes::store(s + part * N, weight);
        sum += weight;
    }
    result[0] = now;
    result[1] = result[1] * factor + lanes::sum(sum);
    float * out = result + 2;
    int j = 0;
    for (; j + 8 * N <= job.value_width; j += 8 * N) {
        weigh<8>(s, values + j, n, job.value_width, factor, out + j);
    }
    for (; j + 4 * N <= job.value_width; j += 4 * N) {
        weigh<4>(s, values + j, n, job.value_width, factor, out + j);
    }
    for (; j < job.value_width; j += N) {
        weigh<1>(s, values + j, n, job.value_width, factor, out + j);
    }
}

void run(const Job & job, float * workspace) {
    float * const keys = workspace;
    float * const values = keys + kMostWidth * kChunk;
    float * const all_scores = values + kMostWidth * kChunk;
    const int64_t step = 2 + job.value_width;
    for (int i = 0; i < job.n_rows * job.n_heads; ++i) {
        float * const result = job.partial + i * step;
        result[0] = -INFINITY;
        memset(result + 1, 0, size_t(step - 1) * 4);
    }
    for (int from = job.segment * kSegment; from < (job.segment + 1) * kSegment; from += kChunk) {
        // Rows that see the same cells here are served by one reading.
        int row = 0;
        while (row < job.n_rows) {
            const int left = job.n_cells[row] - from;
            if (left <= 0) {
                ++row;
                continue;
            }
            const int n = left < kChunk ? left : kChunk;
            const int32_t * const cells = job.cells[row] + from;
            int last = row + 1;
            while (last < job.n_rows && (job.n_cells[last] - from >= kChunk ? kChunk : job.n_cells[last] - from) == n &&
                   memcmp(job.cells[last] + from, cells, size_t(n) * 4) == 0) {
                ++last;
            }
            read_keys(job.keys, cells, n, job.width, keys);
            read_values(job.values, cells, n, job.value_width, values);
            const int queries = (last - row) * job.n_heads;
            const float * q[4];
            float * s[4];
            for (int i = 0; i < queries; i += 4) {
                const int some = queries - i < 4 ? queries - i : 4;
                for (int j = 0; j < some; ++j) {
                    q[j] = job.queries.q + (row + (i + j) / job.n_heads) * job.queries.row_stride +
                           (i + j) % job.n_heads * job.queries.head_stride;
                    s[j] = all_scores + (i + j) * kChunk;
                }
                switch (some) {
                    case 1:
                        scores<1>(q, keys, job.width, s);
                        break;
                    case 2:
                        scores<2>(q, keys, job.width, s);
                        break;
                    case 3:
                        scores<3>(q, keys, job.width, s);
                        break;
                    default:
                        scores<4>(q, keys, job.width, s);
                }
            }
            for (int i = 0; i < queries; ++i) {
                const int r = row + i / job.n_heads, h = i % job.n_heads;
                take(job, r, h, from, n, all_scores + i * kChunk, values, job.partial + (r * job.n_heads + h) * step);
            }
            row = last;
        }
    }
}

void merge(const float * partial, int64_t step, int segments, const float * sink, float * out, int width) {
    float most = sink ? *sink : -INFINITY;
    for (int s = 0; s < segments; ++s) {
        const float highest = partial[s * step];
        most = highest > most ? highest : most;
    }
    float sum = sink ? expf(*sink - most) : 0.0f;
    memset(out, 0, size_t(width) * 4);
    for (int s = 0; s < segments; ++s) {
        const float * const p = partial + s * step;
        if (p[0] == -INFINITY) {
            continue;
        }
        const float weight = expf(p[0] - most);
        sum += p[1] * weight;
        for (int d = 0; d < width; d += N) {
            lanes::store(out + d, lanes::load(out + d) + lanes::load(p + 2 + d) * weight);
        }
    }
    const float factor = sum > 0.0f ? 1.0f / sum : 0.0f;
    for (int d = 0; d < width; d += N) {
        lanes::store(out + d, lanes::load(out + d) * factor);
    }
}

}  // namespace

extern const Attention VARIANT_NAME(attention);
const Attention VARIANT_NAME(attention) = {visible, run, merge};

}  // namespace block_attention

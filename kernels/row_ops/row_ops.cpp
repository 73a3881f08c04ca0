// Compiled once for each instruction set, see `VARIANTS` in setup.py.
#include "row_ops.h"

#include <math.h>

#include "../variant.h"
#include "../vectors.h"

namespace row_ops {
namespace {

using lanes::N;
using lanes::V;

// The last, incomplete lanes of a row, with zeros behind.
V load_some(const float * p, int64_t n) {
    float lane[N] = {};
    memcpy(lane, p, size_t(n) * 4);
    return lanes::load(lane);
}

void store_some(float * p, V a, int64_t n) {
    float lane[N];
    lanes::store(lane, a);
    memcpy(p, lane, size_t(n) * 4);
}

template <class Body> void each(float * y, int64_t n, const Body & body) {
    int64_t i = 0;
    for (; i + N <= n; i += N) {
        lanes::store(y + i, body(i, N));
    }
    if (i < n) {
        store_some(y + i, body(i, n - i), n - i);
    }
}

V at(const float * p, int64_t i, int64_t some) {
    return some == N ? lanes::load(p + i) : load_some(p + i, some);
}

template <class Body> float total(int64_t n, const Body & body) {
    V sums[4] = {};
    int64_t i = 0;
    for (; i + 4 * N <= n; i += 4 * N) {
        for (int j = 0; j < 4; ++j) {
            sums[j] += body(i + j * N, N);
        }
    }
    for (; i + N <= n; i += N) {
        sums[0] += body(i, N);
    }
    if (i < n) {
        sums[1] += body(i, n - i);
    }
    return lanes::sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

void rms_norm(const float * x, const float * weight, float * y, int64_t n, float eps) {
    const float squares = total(n, [&](int64_t i, int64_t some) {
        const V a = at(x, i, some);
        return a * a;
    });
    const float factor = 1.0f / sqrtf(squares / float(n) + eps);
    if (weight) {
        each(y, n, [&](int64_t i, int64_t some) { return at(x, i, some) * factor * at(weight, i, some); });
    } else {
        each(y, n, [&](int64_t i, int64_t some) { return at(x, i, some) * factor; });
    }
}

void norm(const float * x, float * y, int64_t n, float eps) {
    const float mean = total(n, [&](int64_t i, int64_t some) { return at(x, i, some); }) / float(n);
    each(y, n, [&](int64_t i, int64_t some) { return at(x, i, some) - mean; });
    const float squares = total(n, [&](int64_t i, int64_t some) {
        const V a = at(y, i, some);
        return a * a;
    });
    const float factor = 1.0f / sqrtf(squares / float(n) + eps);
    each(y, n, [&](int64_t i, int64_t some) { return at(y, i, some) * factor; });
}

template <class Op> void combine(const float * a, const float * b, float * y, int64_t n, int64_t n_b, const Op & op) {
    if (n_b == 1) {
        const V same = lanes::set(b[0]);
        return each(y, n, [&](int64_t i, int64_t some) { return op(at(a, i, some), same); });
    }
    for (int64_t from = 0; from < n; from += n_b) {
        each(y + from, n_b, [&](int64_t i, int64_t some) { return op(at(a + from, i, some), at(b, i, some)); });
    }
}

void binary(Binary kind, const float * a, const float * b, float * y, int64_t n, int64_t n_b) {
    switch (kind) {
        case Binary::add:
            return combine(a, b, y, n, n_b, [](V p, V q) { return p + q; });
        case Binary::subtract:
            return combine(a, b, y, n, n_b, [](V p, V q) { return p - q; });
        case Binary::multiply:
            return combine(a, b, y, n, n_b, [](V p, V q) { return p * q; });
        case Binary::divide:
            return combine(a, b, y, n, n_b, [](V p, V q) { return p / q; });
    }
}

V sigmoid(V x) {
    return 1.0f / (1.0f + lanes::exponential(-x));
}

V apply(Unary kind, V x) {
    switch (kind) {
        case Unary::silu:
            return x * sigmoid(x);
        case Unary::gelu:  // x/2 · (1 + tanh u) = x · sigmoid(2u)
            return x * sigmoid(1.59576912f * x * (1.0f + 0.044715f * x * x));
        case Unary::gelu_quick:
            return x * sigmoid(1.702f * x);
        case Unary::gelu_exact: {
            V y;
            for (int i = 0; i < N; ++i) {
                y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
            }
            return y;
        }
        case Unary::relu:
            return lanes::larger(x, V{});
        case Unary::sigmoid:
            return sigmoid(x);
        case Unary::tanh:
            return 2.0f * sigmoid(2.0f * x) - 1.0f;
    }
    return x;
}

void unary(Unary kind, const float * x, float * y, int64_t n) {
    each(y, n, [&](int64_t i, int64_t some) { return apply(kind, at(x, i, some)); });
}

void gated(Unary kind, const float * x, const float * gate, float * y, int64_t n) {
    each(y, n, [&](int64_t i, int64_t some) { return apply(kind, at(x, i, some)) * at(gate, i, some); });
}

void scale(const float * x, float * y, int64_t n, float factor, float bias) {
    each(y, n, [&](int64_t i, int64_t some) { return at(x, i, some) * factor + bias; });
}

void rotate(const float * x, const float * turns, float * y, int64_t n, int64_t n_dims, bool split) {
    const int64_t pairs = n_dims / 2, step = split ? 1 : 2, other = split ? pairs : 1;
    for (int64_t p = 0; p < pairs; ++p) {
        const float a = x[p * step], b = x[p * step + other], cosine = turns[2 * p], sine = turns[2 * p + 1];
        y[p * step] = a * cosine - b * sine;
        y[p * step + other] = a * sine + b * cosine;
    }
    if (n > n_dims) {
        memmove(y + n_dims, x + n_dims, size_t(n - n_dims) * 4);
    }
}

void softmax(const float * x, float * y, int64_t n, float factor) {
    V most = lanes::set(-INFINITY);
    for (int64_t i = 0; i < n; ++i) {
        most[i % N] = x[i] > most[i % N] ? x[i] : most[i % N];
    }
    const float highest = lanes::largest(most) * factor;
    each(y, n, [&](int64_t i, int64_t some) { return lanes::exponential(at(x, i, some) * factor - highest); });
    const float sum = total(n, [&](int64_t i, int64_t some) { return at(y, i, some); });
    each(y, n, [&](int64_t i, int64_t some) { return at(y, i, some) / sum; });
}

void to_half(const float * x, uint16_t * y, int64_t n) {
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        _mm_storeu_si128((__m128i *)(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
    }
#endif
    for (; i < n; ++i) {
        y[i] = lanes::float_to_half(x[i]);
    }
}

void from_half(const uint16_t * x, float * y, int64_t n) {
    int64_t i = 0;
    for (; i + N <= n; i += N) {
        lanes::store(y + i, lanes::load_half(x + i));
    }
    for (; i < n; ++i) {
        y[i] = lanes::half_to_float(x[i]);
    }
}

float dot(const float * w, const float * x, int64_t n) {
    return total(n, [&](int64_t i, int64_t some) { return at(w, i, some) * at(x, i, some); });
}

float dot_half(const uint16_t * w, const float * x, int64_t n) {
    return total(n, [&](int64_t i, int64_t some) {
        uint16_t part[N] = {};
        memcpy(part, w + i, size_t(some) * 2);
        return lanes::load_half(part) * at(x, i, some);
    });
}

float dot_brain(const uint16_t * w, const float * x, int64_t n) {
    return total(n, [&](int64_t i, int64_t some) {
        lanes::VI wide = {};
        for (int64_t j = 0; j < some; ++j) {
            wide[j] = int32_t(uint32_t(w[i + j]) << 16);
        }
        V a;
        memcpy(&a, &wide, sizeof(a));
        return a * at(x, i, some);
    });
}

}  // namespace

extern const RowOps VARIANT_NAME(row_ops);
const RowOps VARIANT_NAME(row_ops) = {rms_norm, norm, binary, unary, gated, scale, rotate, softmax, to_half, from_half, dot, dot_half, dot_brain};

}  // namespace row_ops

// Compiled once for each instruction set, see `VARIANTS` in setup.py.
#include "few_rows.h"

#include <math.h>

#include "../variant.h"
#include "../vectors.h"

namespace few_rows {
namespace {

using lanes::N;
using lanes::V;
using lanes::VI;

V as_floats(VI a) {
    V b;
    memcpy(&b, &a, sizeof(b));
    return b;
}

// Numbers of one kind in memory.
struct Floats {
    static constexpr int64_t size = 4;
    static float get(const char * p, int64_t i) {
        float a;
        memcpy(&a, p + i * size, size);
        return a;
    }
    static void put(char * p, int64_t i, float a) { memcpy(p + i * size, &a, size); }
    static V load(const char * p) {
        V a;
        memcpy(&a, p, sizeof(a));
        return a;
    }
    static void store(char * p, V a) { memcpy(p, &a, sizeof(a)); }
};

struct Brains {
    static constexpr int64_t size = 2;
    static float get(const char * p, int64_t i) {
        uint16_t half;
        memcpy(&half, p + i * size, size);
        const uint32_t bits = uint32_t(half) << 16;
        float a;
        memcpy(&a, &bits, 4);
        return a;
    }
    static void put(char * p, int64_t i, float a) {
        uint32_t bits;
        memcpy(&bits, &a, 4);
        const uint16_t half = a == a ? uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16) : uint16_t(0x7fc0);
        memcpy(p + i * size, &half, size);
    }
    typedef uint16_t Halves __attribute__((vector_size(32)));
    static V load(const char * p) {
        Halves halves;
        memcpy(&halves, p, sizeof(halves));
        return as_floats(__builtin_convertvector(halves, VI) << 16);
    }
    static void store(char * p, V a) {
        typedef uint32_t Words __attribute__((vector_size(64)));
        Words bits;
        memcpy(&bits, &a, sizeof(bits));
        bits = a == a ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : Words{} + 0x7fc0;
        const Halves halves = __builtin_convertvector(bits, Halves);
        memcpy(p, &halves, sizeof(halves));
    }
};

template <class Kind> void norm(const char * x, const float * gain, char * y, int64_t n, float offset) {
    V sums = {};
    float rest = 0.0f;
    int64_t i = 0;
    for (; i + N <= n; i += N) {
        const V a = Kind::load(x + i * Kind::size);
        sums += a * a;
    }
    for (; i < n; ++i) {
        rest += Kind::get(x, i) * Kind::get(x, i);
    }
    const float factor = 1.0f / sqrtf(lanes::sum(sums) + rest + offset);
    for (i = 0; i + N <= n; i += N) {
        Kind::store(y + i * Kind::size, Kind::load(x + i * Kind::size) * factor * lanes::load(gain + i));
    }
    for (; i < n; ++i) {
        Kind::put(y, i, Kind::get(x, i) * factor * gain[i]);
    }
}

V sigmoid(V x) {
    return 1.0f / (1.0f + lanes::exponential(-x));
}

V gate_of(bool gelu, V x) {
    return x * sigmoid(gelu ? 1.59576912f * x * (1.0f + 0.044715f * x * x) : x);  // x/2 · (1 + tanh u) = x · sigmoid(2u)
}

template <class Kind> void gated(bool gelu, const char * gate_up, char * y, int64_t n) {
    const char * const ups = gate_up + n * Kind::size;
    int64_t i = 0;
    for (; i + N <= n; i += N) {
        Kind::store(y + i * Kind::size, gate_of(gelu, Kind::load(gate_up + i * Kind::size)) * Kind::load(ups + i * Kind::size));
    }
    for (; i < n; ++i) {
        Kind::put(y, i, gate_of(gelu, lanes::set(Kind::get(gate_up, i)))[0] * Kind::get(ups, i));
    }
}

template <class Kind> void turn_head(const char * x, const Turn & turn, char * y) {
    const int64_t half = turn.head / 2;
    const float * const cosines = turn.turns, * const sines = turn.turns + half;
    float lane[2 * N];
    for (int64_t i = 0; i < half; i += N) {
        const int64_t some = half - i < N ? half - i : N;
        V a, b, cosine, sine;
        if (some == N) {
            a = Kind::load(x + i * Kind::size);
            b = Kind::load(x + (half + i) * Kind::size);
            cosine = lanes::load(cosines + i);
            sine = lanes::load(sines + i);
        } else {
            a = b = cosine = sine = V{};
            for (int64_t j = 0; j < some; ++j) {
                a[j] = Kind::get(x, i + j);
                b[j] = Kind::get(x, half + i + j);
                cosine[j] = cosines[i + j];
                sine[j] = sines[i + j];
            }
        }
        const V first = a * cosine - b * sine, second = b * cosine + a * sine;
        if (some == N) {
            Kind::store(y + i * Kind::size, first);
            Kind::store(y + (half + i) * Kind::size, second);
        } else {
            lanes::store(lane, first);
            lanes::store(lane + N, second);
            for (int64_t j = 0; j < some; ++j) {
                Kind::put(y, i + j, lane[j]);
                Kind::put(y, half + i + j, lane[N + j]);
            }
        }
    }
}

template <class Kind> void turn(const char * heads, const Turn & turn) {
    const int64_t bytes = turn.head * Kind::size, n_turned = turn.heads + turn.key_heads;
    for (int64_t h = 0; h < n_turned; ++h) {
        char * const out = h < turn.heads ? turn.queries + h * turn.rows * bytes : turn.keys + (h - turn.heads) * turn.cells * bytes;
        const char * from = heads + h * bytes;
        if (turn.gain) {
            norm<Kind>(from, turn.gain + h * turn.head, out, turn.head, turn.offset);
            from = out;
        }
        turn_head<Kind>(from, turn, out);
    }
    for (int64_t h = 0; h < turn.key_heads; ++h) {
        memcpy(turn.values + h * turn.cells * bytes, heads + (n_turned + h) * bytes, size_t(bytes));
    }
}

void norm_any(Number number, const char * x, const float * gain, char * y, int64_t n, float offset) {
    (number == F32 ? norm<Floats> : norm<Brains>)(x, gain, y, n, offset);
}

void gated_any(Number number, bool gelu, const char * gate_up, char * y, int64_t n) {
    (number == F32 ? gated<Floats> : gated<Brains>)(gelu, gate_up, y, n);
}

void turn_any(Number number, const char * heads, const Turn & of) {
    (number == F32 ? turn<Floats> : turn<Brains>)(heads, of);
}

}  // namespace

extern const FewRows VARIANT_NAME(few_rows);
const FewRows VARIANT_NAME(few_rows) = {norm_any, gated_any, turn_any};

}  // namespace few_rows

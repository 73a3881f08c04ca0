// 16 floats at a time, whatever the width of the machine's registers.
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace lanes {

constexpr int N = 16;
typedef float V __attribute__((vector_size(64)));
typedef int32_t VI __attribute__((vector_size(64)));

inline V load(const float * p) {
    V a;
    memcpy(&a, p, sizeof(a));
    return a;
}

inline void store(float * p, V a) {
    memcpy(p, &a, sizeof(a));
}

inline V set(float a) {
    return a - V{};
}

// Sum and largest of the lanes, always in the same order.
inline float sum(V a) {
    float lane[N];
    store(lane, a);
    for (int width = N / 2; width; width /= 2) {
        for (int i = 0; i < width; ++i) {
            lane[i] += lane[i + width];
        }
    }
    return lane[0];
}

inline V larger(V a, V b) {
    return a > b ? a : b;
}

inline float largest(V a) {
    float lane[N];
    store(lane, a);
    for (int width = N / 2; width; width /= 2) {
        for (int i = 0; i < width; ++i) {
            lane[i] = lane[i] > lane[i + width] ? lane[i] : lane[i + width];
        }
    }
    return lane[0];
}

// e^x, within two units of the last place; 0 below -87, where a result would be denormal.
inline V exponential(V x) {
    const V bounded = larger(x < set(88.0f) ? x : set(88.0f), set(-88.0f));
    const V shifted = bounded * 1.44269504f + 12582912.0f;  // the lowest bits are those of the nearest integer
    const V n = shifted - 12582912.0f;
    const V r = (bounded - n * 0.693145751953125f) - n * 1.42860682030941723212e-6f;
    V p = set(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    VI bits;
    memcpy(&bits, &shifted, sizeof(bits));
    bits = ((bits - 0x4b400000) + 127) << 23;
    V power;
    memcpy(&power, &bits, sizeof(power));
    return x < set(-87.0f) ? V{} : p * power;
}

inline float half_to_float(uint16_t h) {
#if defined(__F16C__)
    return _cvtsh_ss(h);
#else
    __fp16 f;
    memcpy(&f, &h, 2);
    return f;
#endif
}

inline uint16_t float_to_half(float f) {
#if defined(__F16C__)
    return _cvtss_sh(f, 0);
#else
    const __fp16 h = f;
    uint16_t bits;
    memcpy(&bits, &h, 2);
    return bits;
#endif
}

inline V load_half(const uint16_t * p) {
#if defined(__AVX512F__)
    return (V)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__F16C__)
    float lane[N];
    _mm256_storeu_ps(lane, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)));
    _mm256_storeu_ps(lane + 8, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8))));
    return load(lane);
#else
    V a;
    for (int i = 0; i < N; ++i) {
        a[i] = half_to_float(p[i]);
    }
    return a;
#endif
}

}  // namespace lanes

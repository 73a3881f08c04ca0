// 8 lanes of AVX2, with VNNI where the compiler is told that there is AVX-VNNI.
#pragma once

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

struct Simd {
    static constexpr int W = 8;
    static constexpr int kTogether = 6;  // rows whose sums fit into the registers
#ifdef __AVXVNNI__
    static constexpr int kOffset = 128;
#else
    static constexpr int kOffset = 0;
#endif
    static constexpr int kMany = 12;  // rows with unpacked weights
    static constexpr bool kTakesBytes = false;  // `dot` takes weights of eight bits
    using I = __m256i;
    using F = __m256;

    static I load(const void * p) { return _mm256_loadu_si256((const __m256i *)p); }
    // What is in it has to be there now.
    static void pin(I & a) { __asm__ volatile("" : "+x"(a)); }
    static void store(void * p, I a) { _mm256_storeu_si256((__m256i *)p, a); }
    static I zero() { return _mm256_setzero_si256(); }
    static I set(int32_t a) { return _mm256_set1_epi32(a); }
    static I bits(I a, uint32_t mask) { return _mm256_and_si256(a, _mm256_set1_epi32(int32_t(mask))); }
    static I either(I a, I b) { return _mm256_or_si256(a, b); }
    template <int n> static I shr(I a) { return _mm256_srli_epi32(a, n); }
    template <int n> static I shl(I a) { return _mm256_slli_epi32(a, n); }
    template <int n> static I sar(I a) { return _mm256_srai_epi32(a, n); }
    static I add(I a, I b) { return _mm256_add_epi32(a, b); }
    static I sub(I a, I b) { return _mm256_sub_epi32(a, b); }
    // sum + a · scale; a scale is a byte of a dword.
    template <int byte> static I factor(I scales) { return bits(shr<8 * byte>(scales), 0xff); }
    template <int byte> static I signed_factor(I scales) { return sar<24>(shl<24 - 8 * byte>(scales)); }
    static I add_product(I sum, I a, I factor) { return add(sum, _mm256_mullo_epi32(a, factor)); }

    static I word(const void * p) {
        int32_t a;
        memcpy(&a, p, 4);
        return _mm256_set1_epi32(a);
    }
#ifdef __AVXVNNI__
    static I dot(I sum, I w, const int8_t * x) { return _mm256_dpbusd_avx_epi32(sum, w, word(x)); }
    // Signed weights become unsigned ones that are kOffset too high.
    static I to_unsigned(I w) { return _mm256_xor_si256(w, _mm256_set1_epi8(-128)); }
    static I dot_signed(I sum, I w, const int8_t * x) { return dot(sum, w, x); }
    static I dot_pairs(I sum, I a, const int16_t * x) { return _mm256_dpwssd_avx_epi32(sum, a, word(x)); }
#else
    // No pair saturates: weights of a product with an unsigned side have 6 bits at most.
    static I dot(I sum, I w, const int8_t * x) {
        return add(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(w, word(x)), _mm256_set1_epi16(1)));
    }
    static I to_unsigned(I w) { return w; }
    // |w|·(x with the sign of w): 128·127·2 stays below 2^15.
    static I dot_signed(I sum, I w, const int8_t * x) {
        const I pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(word(x), w));
        return add(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    static I dot_pairs(I sum, I a, const int16_t * x) { return add(sum, _mm256_madd_epi16(a, word(x))); }
#endif
    template <int half> static I unsigned_pair(I a) {
        return _mm256_shuffle_epi8(a, each(0x80008000u | 2 * half | (2 * half + 1) << 16, 0x00010001));
    }
    template <int half> static I signed_pair(I a) {
        return _mm256_srai_epi16(_mm256_shuffle_epi8(a, each(0x00800080u | 2 * half << 8 | (2 * half + 1) << 24, 0x01000100)), 8);
    }

    static F floats(I a) { return _mm256_cvtepi32_ps(a); }
    static F loadf(const float * p) { return _mm256_loadu_ps(p); }
    static void storef(float * p, F a) { _mm256_storeu_ps(p, a); }
    static F setf(float a) { return _mm256_set1_ps(a); }
    static F addf(F a, F b) { return _mm256_add_ps(a, b); }
    static F subf(F a, F b) { return _mm256_sub_ps(a, b); }
    static F mulf(F a, F b) { return _mm256_mul_ps(a, b); }
    static F maxf(F a, F b) { return _mm256_max_ps(a, b); }
    static F minf(F a, F b) { return _mm256_min_ps(a, b); }
    static float highest(F a) {
        a = maxf(a, _mm256_permute2f128_ps(a, a, 1));
        a = maxf(a, _mm256_permute_ps(a, 0x4e));
        return _mm256_cvtss_f32(maxf(a, _mm256_permute_ps(a, 0xb1)));
    }
    static float lowest(F a) {
        a = minf(a, _mm256_permute2f128_ps(a, a, 1));
        a = minf(a, _mm256_permute_ps(a, 0x4e));
        return _mm256_cvtss_f32(minf(a, _mm256_permute_ps(a, 0xb1)));
    }
    static F halves(const void * p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
    static F low_half(I a) {
        const I packed = _mm256_packus_epi32(bits(a, 0xffff), zero());
        return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
    }
    static F high_half(I a) { return low_half(_mm256_srli_epi32(a, 16)); }

private:
    // For a shuffle: where each byte of a lane comes from, 0x80 for none. The bytes of `own` are those of the lane itself.
    static I each(uint32_t from, uint32_t own) {
        return _mm256_broadcastsi128_si256(
            _mm_setr_epi32(int32_t(from), int32_t(from + 4 * own), int32_t(from + 8 * own), int32_t(from + 12 * own)));
    }
};

// 16 lanes of AVX-512 with VNNI.
#pragma once

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

struct Simd {
    static constexpr int W = 16;
    static constexpr int kTogether = 8;  // rows whose sums fit into the registers
    static constexpr int kOffset = 128;  // what `dot_signed` adds to each weight
    static constexpr int kMany = 0;  // rows with unpacked weights: never, a line is unpacked as quickly as it is loaded
    static constexpr bool kTakesBytes = true;  // `dot` takes weights of eight bits
    using I = __m512i;
    using F = __m512;

    static I load(const void * p) { return _mm512_loadu_si512(p); }
    // What is in it has to be there now.
    static void pin(I & a) { __asm__ volatile("" : "+v"(a)); }
    static void store(void * p, I a) { _mm512_storeu_si512(p, a); }
    static I zero() { return _mm512_setzero_si512(); }
    static I set(int32_t a) { return _mm512_set1_epi32(a); }
    static I bits(I a, uint32_t mask) { return _mm512_and_si512(a, _mm512_set1_epi32(int32_t(mask))); }
    static I either(I a, I b) { return _mm512_or_si512(a, b); }
    template <int n> static I shr(I a) { return _mm512_srli_epi32(a, n); }
    template <int n> static I shl(I a) { return _mm512_slli_epi32(a, n); }
    template <int n> static I sar(I a) { return _mm512_srai_epi32(a, n); }
    static I add(I a, I b) { return _mm512_add_epi32(a, b); }
    static I sub(I a, I b) { return _mm512_sub_epi32(a, b); }
    // sum + a · scale for |a| < 2^23 and scales of 8 bits, in two quick instructions: a multiplication of 32 bits takes three
    // times as long. a is split into a lowest byte and the rest, which the factors weigh with scale and 256 · scale. A scale
    // is a byte of a dword.
    template <int byte> static I factor(I scales) {
        return _mm512_shuffle_epi8(scales, each(0x00808000u | byte | byte << 24, 0x01000001));
    }
    template <int byte> static I signed_factor(I scales) {
        const I both = _mm512_shuffle_epi8(scales, each(0x00800080u | byte << 8 | byte << 24, 0x01000100));
        return _mm512_srav_epi16(both, _mm512_set1_epi32(8));
    }
    static I add_product(I sum, I a, I factor) {
        return _mm512_dpwssd_epi32(sum, _mm512_shuffle_epi8(a, each(0x02018000, 0x01010001)), factor);
    }

    static I word(const void * p) {
        int32_t a;
        memcpy(&a, p, 4);
        return _mm512_set1_epi32(a);
    }
    // Sums of four products of unsigned and signed bytes. Compilers spend a second instruction on the broadcast.
    static I dot(I sum, I w, const int8_t * x) {
        __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*(const int8_t(*)[4])x));
        return sum;
    }
    // Signed weights become unsigned ones that are kOffset too high.
    static I to_unsigned(I w) { return _mm512_xor_si512(w, _mm512_set1_epi8(-128)); }
    static I dot_signed(I sum, I w, const int8_t * x) { return dot(sum, w, x); }
    // Sums of two products of 16-bit integers.
    static I dot_pairs(I sum, I a, const int16_t * x) { return _mm512_dpwssd_epi32(sum, a, word(x)); }
    // Bytes 0 and 1 (or 2 and 3) of each lane as 16-bit integers.
    template <int half> static I unsigned_pair(I a) {
        return _mm512_shuffle_epi8(a, each(0x80008000u | 2 * half | (2 * half + 1) << 16, 0x00010001));
    }
    template <int half> static I signed_pair(I a) {
        return _mm512_srai_epi16(_mm512_shuffle_epi8(a, each(0x00800080u | 2 * half << 8 | (2 * half + 1) << 24, 0x01000100)), 8);
    }

    // For the tile unit: bytes of each lane as 16-bit integers, twice, and what is done with those.
    template <int byte> static I twice(I a) { return _mm512_shuffle_epi8(a, each(0x80008000u | byte | byte << 16, 0x00010001)); }
    template <int byte> static I signed_twice(I a) {
        return sar16<8>(_mm512_shuffle_epi8(a, each(0x00800080u | byte << 8 | byte << 24, 0x01000100)));
    }
    template <int n> static I shr16(I a) { return _mm512_srli_epi16(a, n); }
    template <int n> static I sar16(I a) { return _mm512_srai_epi16(a, n); }
    static I abs8(I a) { return _mm512_abs_epi8(a); }
    static I abs16(I a) { return _mm512_abs_epi16(a); }
    static I times16(I a, I b) { return _mm512_mullo_epi16(a, b); }
    static I differ(I a, I b) { return _mm512_xor_si512(a, b); }
    static I add8(I a, I b) { return _mm512_add_epi8(a, b); }

    static F floats(I a) { return _mm512_cvtepi32_ps(a); }
    static F loadf(const float * p) { return _mm512_loadu_ps(p); }
    static void storef(float * p, F a) { _mm512_storeu_ps(p, a); }
    static F setf(float a) { return _mm512_set1_ps(a); }
    static F addf(F a, F b) { return _mm512_add_ps(a, b); }
    static F subf(F a, F b) { return _mm512_sub_ps(a, b); }
    static F mulf(F a, F b) { return _mm512_mul_ps(a, b); }
    static F maxf(F a, F b) { return _mm512_max_ps(a, b); }
    static F minf(F a, F b) { return _mm512_min_ps(a, b); }
    static float highest(F a) { return _mm512_reduce_max_ps(a); }
    static float lowest(F a) { return _mm512_reduce_min_ps(a); }
    static F halves(const void * p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
    static F low_half(I a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)); }
    static F high_half(I a) { return low_half(_mm512_srli_epi32(a, 16)); }

private:
    // For a shuffle: where each byte of a lane comes from, 0x80 for none. The bytes of `own` are those of the lane itself.
    static I each(uint32_t from, uint32_t own) {
        return _mm512_broadcast_i32x4(
            _mm_setr_epi32(int32_t(from), int32_t(from + 4 * own), int32_t(from + 8 * own), int32_t(from + 12 * own)));
    }
};

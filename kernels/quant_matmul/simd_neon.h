// 4 lanes of Arm's dot-product instructions.
#pragma once

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

struct Simd {
    static constexpr int W = 4;
    static constexpr int kTogether = 4;  // rows whose sums fit into the registers
    static constexpr int kOffset = 0;
    static constexpr int kMany = 0;  // rows with unpacked weights
    static constexpr bool kTakesBytes = false;  // `dot` takes weights of eight bits
    using I = int32x4_t;
    using F = float32x4_t;

    static I load(const void * p) { return vreinterpretq_s32_u8(vld1q_u8((const uint8_t *)p)); }
    // What is in it has to be there now.
    static void pin(I & a) { __asm__ volatile("" : "+w"(a)); }
    static void store(void * p, I a) { vst1q_u8((uint8_t *)p, vreinterpretq_u8_s32(a)); }
    static I zero() { return vdupq_n_s32(0); }
    static I set(int32_t a) { return vdupq_n_s32(a); }
    static I bits(I a, uint32_t mask) { return vandq_s32(a, vdupq_n_s32(int32_t(mask))); }
    static I either(I a, I b) { return vorrq_s32(a, b); }
    template <int n> static I shr(I a) {
        if constexpr (n == 0) {
            return a;
        } else {
            return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a), n));
        }
    }
    template <int n> static I shl(I a) { return vshlq_n_s32(a, n); }
    template <int n> static I sar(I a) {
        if constexpr (n == 0) {
            return a;
        } else {
            return vshrq_n_s32(a, n);
        }
    }
    static I add(I a, I b) { return vaddq_s32(a, b); }
    static I sub(I a, I b) { return vsubq_s32(a, b); }
    // sum + a · scale; a scale is a byte of a dword.
    template <int byte> static I factor(I scales) { return bits(shr<8 * byte>(scales), 0xff); }
    template <int byte> static I signed_factor(I scales) { return sar<24>(shl<24 - 8 * byte>(scales)); }
    static I add_product(I sum, I a, I factor) { return add(sum, vmulq_s32(a, factor)); }

    static I word(const void * p) {
        int32_t a;
        memcpy(&a, p, 4);
        return vdupq_n_s32(a);
    }
    // Weights with an unsigned side have 6 bits at most: as signed bytes they are the same numbers.
    static I dot(I sum, I w, const int8_t * x) {
        return vdotq_s32(sum, vreinterpretq_s8_s32(w), vreinterpretq_s8_s32(word(x)));
    }
    static I to_unsigned(I w) { return w; }
    static I dot_signed(I sum, I w, const int8_t * x) { return dot(sum, w, x); }
    static I dot_pairs(I sum, I a, const int16_t * x) {
        const int16x8_t p = vreinterpretq_s16_s32(a), q = vreinterpretq_s16_s32(word(x));
        const int32x4_t low = vmull_s16(vget_low_s16(p), vget_low_s16(q)), high = vmull_high_s16(p, q);
        return vaddq_s32(sum, vpaddq_s32(low, high));
    }
    template <int half> static I unsigned_pair(I a) {
        const I moved = half ? shr<16>(a) : bits(a, 0xffff);
        return either(bits(moved, 0xff), shl<8>(bits(moved, 0xff00)));
    }
    template <int half> static I signed_pair(I a) {
        const int16x8_t up = vreinterpretq_s16_s32(shl<8>(unsigned_pair<half>(a)));
        return vreinterpretq_s32_s16(vshrq_n_s16(up, 8));
    }

    static F floats(I a) { return vcvtq_f32_s32(a); }
    static F loadf(const float * p) { return vld1q_f32(p); }
    static void storef(float * p, F a) { vst1q_f32(p, a); }
    static F setf(float a) { return vdupq_n_f32(a); }
    static F addf(F a, F b) { return vaddq_f32(a, b); }
    static F subf(F a, F b) { return vsubq_f32(a, b); }
    static F mulf(F a, F b) { return vmulq_f32(a, b); }
    static F maxf(F a, F b) { return vmaxq_f32(a, b); }
    static F minf(F a, F b) { return vminq_f32(a, b); }
    static float highest(F a) { return vmaxvq_f32(a); }
    static float lowest(F a) { return vminvq_f32(a); }
    static F halves(const void * p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)p))); }
    static F low_half(I a) { return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(vreinterpretq_u32_s32(a)))); }
    static F high_half(I a) { return low_half(shr<16>(a)); }
};

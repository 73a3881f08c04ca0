// What a transformer does to each row of activations by itself. n: values of a row. Every row is computed in the same way
// whatever the number of rows, for a row is all that these functions see.
#pragma once

#include <stdint.h>

namespace row_ops {

enum class Binary { add, subtract, multiply, divide };
enum class Unary { silu, gelu, gelu_exact, gelu_quick, relu, sigmoid, tanh };

struct RowOps {
    // x / sqrt(mean of squares + eps), times `weight` where there is one.
    void (*rms_norm)(const float * x, const float * weight, float * y, int64_t n, float eps);
    // (x - mean) / sqrt(variance + eps)
    void (*norm)(const float * x, float * y, int64_t n, float eps);
    // b repeats every n_b values.
    void (*binary)(Binary kind, const float * a, const float * b, float * y, int64_t n, int64_t n_b);
    void (*unary)(Unary kind, const float * x, float * y, int64_t n);
    // unary(x) * gate
    void (*gated)(Unary kind, const float * x, const float * gate, float * y, int64_t n);
    // x * scale + bias
    void (*scale)(const float * x, float * y, int64_t n, float scale, float bias);
    // Rotates pairs of the first n_dims values, neighbours or (split) halves apart; the others are copied.
    // turns: cosine and sine of each pair.
    void (*rotate)(const float * x, const float * turns, float * y, int64_t n, int64_t n_dims, bool split);
    void (*softmax)(const float * x, float * y, int64_t n, float scale);
    void (*to_half)(const float * x, uint16_t * y, int64_t n);
    void (*from_half)(const uint16_t * x, float * y, int64_t n);
    // Sums of products with weights in 32 bits, in 16 bits, and in the upper half of 32 bits.
    float (*dot)(const float * w, const float * x, int64_t n);
    float (*dot_half)(const uint16_t * w, const float * x, int64_t n);
    float (*dot_brain)(const uint16_t * w, const float * x, int64_t n);
};

}  // namespace row_ops

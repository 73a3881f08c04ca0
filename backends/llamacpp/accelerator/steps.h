// What the steps of a plan do.
#pragma once

#include "plan.h"

namespace accelerator {

struct Steps {
    static void rms_norm(const Step &, int thread, int threads);
    static void rms_norm_weighted(const Step &, int thread, int threads);
    static void norm(const Step &, int thread, int threads);
    static void binary(const Step &, int thread, int threads);
    static void unary(const Step &, int thread, int threads);
    static void gated(const Step &, int thread, int threads);
    static void scale(const Step &, int thread, int threads);
    static void softmax(const Step &, int thread, int threads);
    static void copy(const Step &, int thread, int threads);
    static void get_rows(const Step &, int thread, int threads);
    static void set_rows(const Step &, int thread, int threads);
    static void make_turns(const Step &, int thread, int threads);
    static void rotate(const Step &, int thread, int threads);
    static void quantise(const Step &, int thread, int threads);
    static void multiply(const Step &, int thread, int threads);
    static void multiply_experts(const Step &, int thread, int threads);
    static void multiply_plain(const Step &, int thread, int threads);
    static void look(const Step &, int thread, int threads);
    static void attend(const Step &, int thread, int threads);
    static void merge(const Step &, int thread, int threads);
};

inline float parameter(const ggml_tensor * t, int i) {
    float value;
    memcpy(&value, t->op_params + i, 4);
    return value;
}

}  // namespace accelerator

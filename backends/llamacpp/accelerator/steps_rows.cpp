// Operations that see one row at a time.
#include <math.h>
#include <string.h>

#include "steps.h"

namespace accelerator {
namespace {

struct Share {
    int64_t first, last;
};

Share share_of(int64_t n, int thread, int threads) {
    return {n * thread / threads, n * (thread + 1) / threads};
}

// Calls body(row, first, last) with this thread's share: whole rows, or pieces of them where there are too few.
template <class Body> void pieces(const ggml_tensor * t, int64_t width, int thread, int threads, const Body & body) {
    const int64_t rows = row_count(t);
    if (rows >= threads) {
        const Share share = share_of(rows, thread, threads);
        for (int64_t r = share.first; r < share.last; ++r) {
            body(r, 0, width);
        }
        return;
    }
    const int64_t blocks = (width + 63) / 64;
    const Share share = share_of(blocks, thread, threads);
    const int64_t first = share.first * 64, last = share.last * 64 < width ? share.last * 64 : width;
    if (first < last) {
        for (int64_t r = 0; r < rows; ++r) {
            body(r, first, last);
        }
    }
}

// Row `i` of `t`, in a tensor that repeats along its dimensions.
char * repeated_row(const ggml_tensor * t, int64_t i, const ggml_tensor * source) {
    const int64_t i1 = i % t->ne[1], i2 = i / t->ne[1] % t->ne[2], i3 = i / t->ne[1] / t->ne[2];
    return (char *)source->data + i1 % source->ne[1] * source->nb[1] + i2 % source->ne[2] * source->nb[2] +
           i3 % source->ne[3] * source->nb[3];
}

int64_t integer_at(const char * p, ggml_type type) {
    if (type == GGML_TYPE_I64) {
        int64_t i;
        memcpy(&i, p, 8);
        return i;
    }
    int32_t i;
    memcpy(&i, p, 4);
    return i;
}

// Floats → a row of any type that ggml can write.
void write_row(ggml_type type, const float * x, char * y, int64_t n) {
    if (type == GGML_TYPE_F32) {
        memcpy(y, x, size_t(n) * 4);
    } else if (type == GGML_TYPE_F16) {
        machine().rows->to_half(x, (uint16_t *)y, n);
    } else {
        ggml.ggml_get_type_traits(type)->from_float_ref(x, y, n);
    }
}

row_ops::Unary unary_of(int op) {
    switch (op) {
        case GGML_UNARY_OP_TANH:
            return row_ops::Unary::tanh;
        case GGML_UNARY_OP_RELU:
            return row_ops::Unary::relu;
        case GGML_UNARY_OP_SIGMOID:
            return row_ops::Unary::sigmoid;
        case GGML_UNARY_OP_GELU:
            return row_ops::Unary::gelu;
        case GGML_UNARY_OP_GELU_QUICK:
            return row_ops::Unary::gelu_quick;
        case GGML_UNARY_OP_GELU_ERF:
            return row_ops::Unary::gelu_exact;
        default:
            return row_ops::Unary::silu;
    }
}

row_ops::Unary gate_of(int op) {
    switch (op) {
        case GGML_GLU_OP_REGLU:
            return row_ops::Unary::relu;
        case GGML_GLU_OP_GEGLU:
            return row_ops::Unary::gelu;
        case GGML_GLU_OP_GEGLU_ERF:
            return row_ops::Unary::gelu_exact;
        case GGML_GLU_OP_GEGLU_QUICK:
            return row_ops::Unary::gelu_quick;
        default:
            return row_ops::Unary::silu;
    }
}

// YaRN (Peng et al. 2023): how far a pair is from extrapolation to interpolation.
float ramp(float low, float high, int64_t pair) {
    const float y = (float(pair) - low) / (high - low > 0.001f ? high - low : 0.001f);
    return 1.0f - (y < 0.0f ? 0.0f : y > 1.0f ? 1.0f : y);
}

float corrected_dim(int n_dims, int n_ctx, float n_turns, float base) {
    return float(n_dims) * logf(float(n_ctx) / (n_turns * 2.0f * float(M_PI))) / (2.0f * logf(base));
}

}  // namespace

void Steps::rms_norm(const Step & step, int thread, int threads) {
    const ggml_tensor * const t = step.tensor;
    const Share share = share_of(row_count(t), thread, threads);
    for (int64_t r = share.first; r < share.last; ++r) {
        machine().rows->rms_norm((const float *)row_of(t->src[0], r), nullptr, (float *)row_of(t, r), t->ne[0], parameter(t, 0));
    }
}

// A normalisation and the product with its weights, which is the next node: the same thread has the same rows of both.
void Steps::rms_norm_weighted(const Step & step, int thread, int threads) {
    const ggml_tensor * const t = step.tensor, * const normed = t->src[0];
    const Share share = share_of(row_count(t), thread, threads);
    for (int64_t r = share.first; r < share.last; ++r) {
        float * const y = (float *)row_of(normed, r);
        machine().rows->rms_norm((const float *)row_of(normed->src[0], r), nullptr, y, t->ne[0], parameter(normed, 0));
        machine().rows->binary(row_ops::Binary::multiply, y, (const float *)t->src[1]->data, (float *)row_of(t, r), t->ne[0],
                               t->ne[0]);
    }
}

void Steps::norm(const Step & step, int thread, int threads) {
    const ggml_tensor * const t = step.tensor;
    const Share share = share_of(row_count(t), thread, threads);
    for (int64_t r = share.first; r < share.last; ++r) {
        machine().rows->norm((const float *)row_of(t->src[0], r), (float *)row_of(t, r), t->ne[0], parameter(t, 0));
    }
}

void Steps::binary(const Step & step, int thread, int threads) {
    const ggml_tensor * const t = step.tensor;
    const auto kind = t->op == GGML_OP_ADD   ? row_ops::Binary::add
                      : t->op == GGML_OP_SUB ? row_ops::Binary::subtract
                      : t->op == GGML_OP_MUL ? row_ops::Binary::multiply
                                             : row_ops::Binary::divide;
    const int64_t width = t->src[1]->ne[0];
    const bool whole = width == t->ne[0];
    pieces(t, t->ne[0], thread, whole ? threads : 1, [&](int64_t r, int64_t first, int64_t last) {
        if (!whole && thread) {
            return;
        }
        const float * const a = (const float *)row_of(t->src[0], r) + first;
        const float * const b = (const float *)repeated_row(t, r, t->src[1]) + (whole ? first : 0);
        machine().rows->binary(kind, a, b, (float *)row_of(t, r) + first, last - first, whole ? last - first : width);
    });
}

void Steps::unary(const Step & step, int thread, int threads) {
    const ggml_tensor * const t = step.tensor;
    pieces(t, t->ne[0], thread, threads, [&](int64_t r, int64_t first, int64_t last) {
        machine().rows->unary(unary_of(t->op_params[0]), (const float *)row_of(t->src[0], r) + first, (float *)row_of(t, r) + first,
                              last - first);
    });
}

void Steps::gated(const Step & step, int thread, int threads) {
    const ggml_tensor * const t = step.tensor;
    const int64_t width = t->ne[0];
    const bool swapped = t->op_params[1];
    pieces(t, width, thread, threads, [&](int64_t r, int64_t first, int64_t last) {
        const float * x = (const float *)row_of(t->src[0], r), * gate;
        if (t->src[1]) {
            gate = (const float *)row_of(t->src[1], r);
        } else {
            gate = x + (swapped ? 0 : width);
            x += swapped ? width : 0;
        }
        machine().rows->gated(gate_of(t->op_params[0]), x + first, gate + first, (float *)row_of(t, r) + first, last - first);
    });
}

void Steps::scale(const Step & step, int thread, int threads) {
    const ggml_tensor * const t = step.tensor;
    pieces(t, t->ne[0], thread, threads, [&](int64_t r, int64_t first, int64_t last) {
        machine().rows->scale((const float *)row_of(t->src[0], r) + first, (float *)row_of(t, r) + first, last - first,
                              parameter(t, 0), parameter(t, 1));
    });
}

void Steps::softmax(const Step & step, int thread, int threads) {
    const ggml_tensor * const t = step.tensor;
    const Share share = share_of(row_count(t), thread, threads);
    for (int64_t r = share.first; r < share.last; ++r) {
        machine().rows->softmax((const float *)row_of(t->src[0], r), (float *)row_of(t, r), t->ne[0], parameter(t, 0));
    }
}

void Steps::copy(const Step & step, int thread, int threads) {
    const ggml_tensor * const t = step.tensor, * const source = t->src[0];
    const size_t bytes = source->type == GGML_TYPE_F32 || source->type == GGML_TYPE_I32 ? 4 : 2;
    const Share share = share_of(row_count(source), thread, threads);
    for (int64_t r = share.first; r < share.last; ++r) {
        const char * const from = row_of(source, r);
        char * const to = row_of(t, r);
        if (source->type != t->type) {
            write_row(t->type, (const float *)from, to, t->ne[0]);
        } else if (source->nb[0] == bytes) {
            memcpy(to, from, size_t(t->ne[0]) * bytes);
        } else {
            for (int64_t i = 0; i < t->ne[0]; ++i) {
                memcpy(to + i * bytes, from + i * source->nb[0], bytes);
            }
        }
    }
}

void Steps::get_rows(const Step & step, int thread, int threads) {
    const ggml_tensor * const t = step.tensor, * const source = t->src[0], * const ids = t->src[1];
    const Share share = share_of(row_count(t), thread, threads);
    for (int64_t r = share.first; r < share.last; ++r) {
        const int64_t i0 = r % ids->ne[0], i1 = r / ids->ne[0] % ids->ne[1], i2 = r / ids->ne[0] / ids->ne[1];
        const int64_t row = integer_at((const char *)ids->data + i0 * ids->nb[0] + i1 * ids->nb[1] + i2 * ids->nb[2], ids->type);
        const char * const from = (const char *)source->data + row * source->nb[1] + i1 * source->nb[2] + i2 * source->nb[3];
        float * const to = (float *)row_of(t, r);
        if (source->type == GGML_TYPE_F32) {
            memcpy(to, from, size_t(t->ne[0]) * 4);
        } else {
            ggml.ggml_get_type_traits(source->type)->to_float(from, to, t->ne[0]);
        }
    }
}

void Steps::set_rows(const Step & step, int thread, int threads) {
    const ggml_tensor * const t = step.tensor, * const source = t->src[0], * const ids = t->src[1];
    const Share share = share_of(row_count(source), thread, threads);
    for (int64_t r = share.first; r < share.last; ++r) {
        const int64_t i1 = r % source->ne[1], i2 = r / source->ne[1] % source->ne[2], i3 = r / source->ne[1] / source->ne[2];
        const char * const id = (const char *)ids->data + i1 * ids->nb[0] + i2 % ids->ne[1] * ids->nb[1] + i3 % ids->ne[2] * ids->nb[2];
        char * const to = (char *)t->data + integer_at(id, ids->type) * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3];
        write_row(t->type, (const float *)row_of(source, r), to, source->ne[0]);
    }
}

// Cosine and sine of each pair for each position; the first rotation makes them for all layers.
void Steps::make_turns(const Step & step, int thread, int threads) {
    const ggml_tensor * const t = step.tensor;
    const int n_dims = t->op_params[1], n_ctx = t->op_params[4];
    const float base = parameter(t, 5), scale = parameter(t, 6), extrapolation = parameter(t, 7), magnitude = parameter(t, 8);
    const float * const factors = t->src[2] ? (const float *)t->src[2]->data : nullptr;
    const float step_of_theta = powf(base, -2.0f / float(n_dims));
    float low = 0, high = 0, amplitude = magnitude;
    if (extrapolation != 0.0f) {
        low = fmaxf(0.0f, floorf(corrected_dim(n_dims, n_ctx, parameter(t, 9), base)));
        high = fminf(float(n_dims - 1), ceilf(corrected_dim(n_dims, n_ctx, parameter(t, 10), base)));
        amplitude *= 1.0f + 0.1f * logf(1.0f / scale);
    }
    const Share share = share_of(t->ne[2], thread, threads);
    for (int64_t row = share.first; row < share.last; ++row) {
        float * const turns = (float *)step.other + row * n_dims;
        float theta = float(((const int32_t *)t->src[1]->data)[row]);
        for (int pair = 0; pair < n_dims / 2; ++pair) {
            const float plain = factors ? theta / factors[pair] : theta;
            float turned = scale * plain;
            if (extrapolation != 0.0f) {
                const float mix = ramp(low, high, pair) * extrapolation;
                turned = turned * (1.0f - mix) + plain * mix;
            }
            turns[2 * pair] = cosf(turned) * amplitude;
            turns[2 * pair + 1] = sinf(turned) * amplitude;
            theta *= step_of_theta;
        }
    }
}

void Steps::rotate(const Step & step, int thread, int threads) {
    const ggml_tensor * const t = step.tensor;
    const int64_t n_dims = t->op_params[1];
    const bool split = t->op_params[2] == GGML_ROPE_TYPE_NEOX;
    const Share share = share_of(row_count(t), thread, threads);
    for (int64_t r = share.first; r < share.last; ++r) {
        const float * const turns = (const float *)step.other + r / t->ne[1] % t->ne[2] * n_dims;
        machine().rows->rotate((const float *)row_of(t->src[0], r), turns, (float *)row_of(t, r), t->ne[0], n_dims, split);
    }
}

}  // namespace accelerator

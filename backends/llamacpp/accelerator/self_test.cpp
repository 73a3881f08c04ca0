// A small product on these kernels and on ggml's own: the numbers must agree, and the times are told.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <chrono>

#include "plan.h"

namespace accelerator {
ggml_backend_buffer_type_t packed_buffer_type();
ggml_backend_t new_backend();

namespace {

constexpr int64_t kWidth = 2048;
constexpr int kMostRows = 8;
constexpr int kTimes = 7;

struct Bytes {
    uint8_t * data = nullptr;
    explicit Bytes(size_t size) : data((uint8_t *)aligned_alloc(64, (size + 63) / 64 * 64)) {}
    ~Bytes() { free(data); }
};

// Blocks of Q4_K with sensible scales, the same every time.
void fill_weights(uint8_t * blocks, size_t size) {
    uint32_t state = 1;
    for (size_t i = 0; i < size; ++i) {
        state = state * 1664525u + 1013904223u;
        blocks[i] = uint8_t(state >> 24);
    }
    for (size_t b = 0; b + 144 <= size; b += 144) {
        const uint16_t d = 0x1400, dmin = 0x1c00;  // 2^-10 and 2^-8
        memcpy(blocks + b, &d, 2);
        memcpy(blocks + b + 2, &dmin, 2);
    }
}

double now() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void set_threads(ggml_backend_t backend, int threads) {
    const ggml_backend_reg_t reg = ggml.ggml_backend_dev_backend_reg(ggml.ggml_backend_get_device(backend));
    void * const found = ggml.ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    if (found) {
        ((void (*)(ggml_backend_t, int))found)(backend, threads);
    }
}

// One backend's product of `rows` rows: the shortest of some times, in milliseconds; negative without memory.
double measure(ggml_backend_t backend, ggml_backend_buffer_type_t weights_type, const uint8_t * blocks, const float * x, float * y, int rows) {
    ggml_context * const context = ggml.ggml_init({1 << 20, nullptr, true});
    if (!context) {
        return -1;
    }
    ggml_tensor * const w = ggml.ggml_new_tensor_2d(context, GGML_TYPE_Q4_K, kWidth, kWidth);
    ggml_tensor * const in = ggml.ggml_new_tensor_2d(context, GGML_TYPE_F32, kWidth, rows);
    ggml_tensor * const out = ggml.ggml_mul_mat(context, w, in);
    const size_t in_bytes = size_t(kWidth) * size_t(rows) * 4;
    const ggml_backend_buffer_t weights = ggml.ggml_backend_buft_alloc_buffer(weights_type, ggml.ggml_nbytes(w));
    const ggml_backend_buffer_t values = ggml.ggml_backend_buft_alloc_buffer(ggml.ggml_backend_cpu_buffer_type(), 2 * in_bytes);
    double best = -1;
    if (weights && values) {
        ggml.ggml_backend_buffer_set_usage(weights, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        char * const base = (char *)ggml.ggml_backend_buffer_get_base(values);
        ggml.ggml_backend_tensor_alloc(weights, w, ggml.ggml_backend_buffer_get_base(weights));
        ggml.ggml_backend_tensor_alloc(values, in, base);
        ggml.ggml_backend_tensor_alloc(values, out, base + in_bytes);
        ggml.ggml_backend_tensor_set(w, blocks, 0, ggml.ggml_nbytes(w));
        memcpy(base, x, in_bytes);
        ggml_cgraph * const graph = ggml.ggml_new_graph(context);
        ggml.ggml_build_forward_expand(graph, out);
        for (int i = 0; i < kTimes; ++i) {
            const double start = now();
            if (ggml.ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) {
                best = -1;
                break;
            }
            const double took = now() - start;
            best = best < 0 || took < best ? took : best;
        }
        memcpy(y, base + in_bytes, in_bytes);
    }
    if (weights) {
        ggml.ggml_backend_buffer_free(weights);
    }
    if (values) {
        ggml.ggml_backend_buffer_free(values);
    }
    ggml.ggml_free(context);
    return best;
}

}  // namespace
}  // namespace accelerator

using namespace accelerator;

// 0 when the numbers agree with ggml's and every row is the same whichever rows are beside it; times in milliseconds of a
// product of 1 and of 8 rows, ours and ggml's. Otherwise writes why not.
extern "C" __attribute__((visibility("default"))) int accelerator_self_test(int threads, double * times, char * why, size_t room) {
    const size_t blocks_size = size_t(kWidth) * kWidth / 256 * 144;
    const Bytes blocks(blocks_size), x(size_t(kWidth) * kMostRows * 4), mine(size_t(kWidth) * kMostRows * 4),
        single(size_t(kWidth) * kMostRows * 4), theirs(size_t(kWidth) * kMostRows * 4);
    const ggml_backend_t own = new_backend(), stock = ggml.ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr);
    snprintf(why, room, "there was no memory for their self-test");
    int failed = 1;
    if (blocks.data && x.data && mine.data && single.data && theirs.data && stock) {
        fill_weights(blocks.data, blocks_size);
        for (int64_t i = 0; i < kWidth * kMostRows; ++i) {
            ((float *)x.data)[i] = sinf(float(i) * 0.37f) * (1.0f + float(i % 7));
        }
        set_threads(stock, threads);
        set_threads(own, threads);
        const float * const in = (const float *)x.data;
        times[0] = measure(own, packed_buffer_type(), blocks.data, in, (float *)single.data, 1);
        times[1] = measure(own, packed_buffer_type(), blocks.data, in, (float *)mine.data, kMostRows);
        times[2] = measure(stock, ggml.ggml_backend_cpu_buffer_type(), blocks.data, in, (float *)theirs.data, 1);
        times[3] = measure(stock, ggml.ggml_backend_cpu_buffer_type(), blocks.data, in, (float *)theirs.data, kMostRows);
        double error = 0, size = 0;
        for (int64_t i = 0; i < kWidth * kMostRows; ++i) {
            const double a = ((const float *)mine.data)[i], b = ((const float *)theirs.data)[i];
            error += (a - b) * (a - b);
            size += b * b;
        }
        if (times[0] > 0 && times[1] > 0 && times[2] > 0 && times[3] > 0) {
            failed = !(size > 0 && error <= 1e-6 * size) || memcmp(single.data, mine.data, size_t(kWidth) * 4) != 0;
            snprintf(why, room, failed ? "their self-test gave other numbers than ggml" : "");
        }
    }
    ggml.ggml_backend_free(own);
    if (stock) {
        ggml.ggml_backend_free(stock);
    }
    return failed;
}

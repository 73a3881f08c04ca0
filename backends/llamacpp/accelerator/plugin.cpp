// The backend: two devices of type ACCEL. The first computes, in the CPU's own buffers, so that nothing is copied between it
// and the CPU backend; the second stands for the buffers that hold packed weights.
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <atomic>
#include <thread>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "plan.h"

namespace row_ops {
#if defined(__x86_64__)
extern const RowOps row_ops_avx512vnni, row_ops_avxvnni, row_ops_avx2;
#elif defined(__aarch64__)
extern const RowOps row_ops_neon;
#endif
}
namespace block_attention {
#if defined(__x86_64__)
extern const Attention attention_avx512vnni, attention_avxvnni, attention_avx2;
#elif defined(__aarch64__)
extern const Attention attention_neon;
#endif
}

namespace accelerator {

Ggml ggml;

const Machine & machine() {
    static const Machine found = [] {
        int count = 0;
        const quant::Kernels * const * const usable = quant::usable_kernels(&count);
        Machine m = {};
        if (!count) {
            return m;
        }
        m.quant = usable[0];
#if defined(__x86_64__)
        const struct {
            const char * name;
            const row_ops::RowOps * rows;
            const block_attention::Attention * attention;
        } all[] = {{"amx", &row_ops::row_ops_avx512vnni, &block_attention::attention_avx512vnni},
                   {"avx512vnni", &row_ops::row_ops_avx512vnni, &block_attention::attention_avx512vnni},
                   {"avxvnni", &row_ops::row_ops_avxvnni, &block_attention::attention_avxvnni},
                   {"avx2", &row_ops::row_ops_avx2, &block_attention::attention_avx2}};
        for (const auto & one : all) {
            if (strcmp(one.name, m.quant->name) == 0) {
                m.rows = one.rows;
                m.attention = one.attention;
            }
        }
#elif defined(__aarch64__)
        m.rows = &row_ops::row_ops_neon;
        m.attention = &block_attention::attention_neon;
#endif
        return m;
    }();
    return found;
}

namespace {

// Off for models and contexts that are to run on ggml's own kernels.
std::atomic<bool> enabled{false};

struct Backend {
    Plan plan;
    int threads = 1;
};

extern ggml_backend_reg registry;
extern ggml_backend_device devices[2];
extern ggml_backend_buffer_type packed_buffers;

// ---- Buffers of packed weights.

const quant::Format * packed_format(const ggml_tensor * t) {
    const quant::Format * const format = quant::format_of(t->type);
    const bool rows = format && t->ne[3] == 1 && t->ne[0] > 0 && t->ne[0] % format->block == 0 && t->ne[1] > 0;
    return rows && t->nb[1] == size_t(t->ne[0] / format->block) * format->bytes && t->nb[2] == t->nb[1] * size_t(t->ne[1]) ? format : nullptr;
}

size_t matrix_bytes(const ggml_tensor * t, const quant::Format & format) {
    return quant::packed_size(format, t->ne[0], t->ne[1]);
}

constexpr size_t kPage = size_t(2) << 20;

const char * buffers_name(ggml_backend_buffer_type_t) {
    return "CPU_TILES";
}

// Memory of one buffer. Its pages are made by a thread of its own while the first weights are still read: the system clears
// each of them before.
struct Pages {
    uint8_t * data;
    std::thread maker;

    explicit Pages(size_t size) : data((uint8_t *)aligned_alloc(kPage, (size + kPage - 1) / kPage * kPage + kPage)) {
#if defined(__linux__)
        if (data) {
            constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE; an older kernel refuses, which does no harm
            madvise(data, size, MADV_HUGEPAGE);  // weights are streamed: each small page would cost a look-up
            maker = std::thread([this, size] { madvise(data, size, kPopulateWrite); });
        }
#endif
    }
    ~Pages() {
        if (maker.joinable()) {
            maker.join();
        }
        free(data);
    }
};

void free_buffer(ggml_backend_buffer_t buffer) {
    delete (Pages *)buffer->context;
}

void * buffer_base(ggml_backend_buffer_t buffer) {
    return ((Pages *)buffer->context)->data;
}

void clear_buffer(ggml_backend_buffer_t buffer, uint8_t value) {
    memset(buffer_base(buffer), value, buffer->size);
}

// Whole tensors alone: a tile mixes 16 rows.
void set_tensor(ggml_backend_buffer_t, ggml_tensor * t, const void * data, size_t offset, size_t size) {
    const quant::Format * const format = packed_format(t);
    if (!format || offset || size != ggml.ggml_nbytes(t)) {
        abort();  // `supports_op` lets no other tensor in, and llama.cpp loads tensors whole
    }
    const int64_t tiles = (t->ne[1] + quant::kTile - 1) / quant::kTile;
    for (int64_t matrix = 0; matrix < t->ne[2]; ++matrix) {
        const uint8_t * const source = (const uint8_t *)data + size_t(matrix) * t->nb[2];
        uint8_t * const target = (uint8_t *)t->data + size_t(matrix) * matrix_bytes(t, *format);
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 8)
#endif
        for (int64_t tile = 0; tile < tiles; ++tile) {
            quant::pack(*format, source, target, t->ne[0], t->ne[1], tile, tile + 1);
        }
    }
}

void get_tensor(ggml_backend_buffer_t, const ggml_tensor * t, void * data, size_t offset, size_t size) {
    const quant::Format * const format = packed_format(t);
    const size_t all = ggml.ggml_nbytes(t);
    uint8_t * const whole = format ? (uint8_t *)malloc(all) : nullptr;
    if (!whole) {
        abort();
    }
    for (int64_t matrix = 0; matrix < t->ne[2]; ++matrix) {
        quant::unpack(*format, (const uint8_t *)t->data + size_t(matrix) * matrix_bytes(t, *format), whole + size_t(matrix) * t->nb[2],
                      t->ne[0], t->ne[1]);
    }
    memcpy(data, whole + offset, size);
    free(whole);
}

void memset_tensor(ggml_backend_buffer_t, ggml_tensor * t, uint8_t value, size_t, size_t) {
    const quant::Format * const format = packed_format(t);
    if (format) {
        memset(t->data, value, size_t(t->ne[2]) * matrix_bytes(t, *format));
    }
}

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
    Pages * const pages = new Pages(size);
    if (!pages->data) {
        delete pages;
        return nullptr;
    }
    ggml_backend_buffer_i functions = {};
    functions.free_buffer = free_buffer;
    functions.get_base = buffer_base;
    functions.memset_tensor = memset_tensor;
    functions.set_tensor = set_tensor;
    functions.get_tensor = get_tensor;
    functions.clear = clear_buffer;
    return ggml.ggml_backend_buffer_init(type, functions, pages, size);
}

size_t alignment(ggml_backend_buffer_type_t) {
    return 64;
}

size_t alloc_size(ggml_backend_buffer_type_t, const ggml_tensor * t) {
    const quant::Format * const format = packed_format(t);
    const size_t plain = ggml.ggml_nbytes(t);
    const size_t packed = format ? size_t(t->ne[2]) * matrix_bytes(t, *format) : 0;
    return packed > plain ? packed : plain;
}

bool is_host(ggml_backend_buffer_type_t) {
    return false;
}

// ---- The backend.

const char * backend_name(ggml_backend_t backend) {
    return backend->device->iface.get_name(backend->device);
}

void free_backend(ggml_backend_t backend) {
    delete (Backend *)backend->context;
    delete backend;
}

ggml_status compute(ggml_backend_t backend, ggml_cgraph * graph) {
    Backend & mine = *(Backend *)backend->context;
    if (!mine.plan.make(graph, mine.threads)) {
        return GGML_STATUS_ALLOC_FAILED;
    }
    mine.plan.run();
    return GGML_STATUS_SUCCESS;
}

void set_threads(ggml_backend_t backend, int threads) {
    ((Backend *)backend->context)->threads = threads < 1 ? 1 : threads;
}

// ---- The devices.

const char * device_name(ggml_backend_dev_t device) {
    return device == &devices[0] ? "TILES" : "TILES_WEIGHTS";
}

const char * device_description(ggml_backend_dev_t) {
    return machine().quant ? machine().quant->name : "";
}

void device_memory(ggml_backend_dev_t, size_t * free, size_t * total) {
    *free = *total = 0;
}

ggml_backend_dev_type device_type(ggml_backend_dev_t) {
    return GGML_BACKEND_DEVICE_TYPE_ACCEL;
}

void device_props(ggml_backend_dev_t device, ggml_backend_dev_props * props) {
    *props = {};
    props->name = device_name(device);
    props->description = device_description(device);
    props->type = device_type(device);
}

ggml_backend_t init_backend(ggml_backend_dev_t device, const char *) {
    static uint8_t guid[16] = {0x5f, 0x21, 0x93, 0xc0, 0x77, 0x0e, 0x4d, 0x18, 0xa3, 0x52, 0x6b, 0xd9, 0x14, 0xee, 0x80, 0x3a};
    ggml_backend * const backend = new ggml_backend();
    backend->guid = &guid;
    backend->iface.get_name = backend_name;
    backend->iface.free = free_backend;
    backend->iface.graph_compute = compute;
    backend->device = device;
    backend->context = new Backend;
    return backend;
}

ggml_backend_buffer_type_t device_buffers(ggml_backend_dev_t device) {
    return device == &devices[0] ? ggml.ggml_backend_cpu_buffer_type() : &packed_buffers;
}

bool supports_op(ggml_backend_dev_t device, const ggml_tensor * op) {
    if (!enabled.load(std::memory_order_relaxed)) {
        return false;
    }
    if (device == &devices[0]) {
        return can_run(op);
    }
    // Asked while a model is loaded, to find weights that are worth packing.
    const bool product = op->op == GGML_OP_MUL_MAT || op->op == GGML_OP_MUL_MAT_ID;
    return product && op->src[0]->buffer && packed_format(op->src[0]) && (op->op == GGML_OP_MUL_MAT_ID || op->src[0]->ne[2] == 1) && can_run(op);
}

bool supports_buft(ggml_backend_dev_t, ggml_backend_buffer_type_t type) {
    return type == &packed_buffers || ggml.ggml_backend_buft_is_host(type);
}

// ---- The registry.

const char * registry_name(ggml_backend_reg_t) {
    return "TILES";
}

size_t device_count(ggml_backend_reg_t) {
    return 2;
}

ggml_backend_dev_t device_at(ggml_backend_reg_t, size_t index) {
    return &devices[index];
}

void * proc_address(ggml_backend_reg_t, const char * name) {
    return strcmp(name, "ggml_backend_set_n_threads") == 0 ? (void *)set_threads : nullptr;
}

constexpr ggml_backend_device_i kDevice = {device_name, device_description, device_memory, device_type, device_props, init_backend,
                                           device_buffers, nullptr, nullptr, supports_op, supports_buft, nullptr, {}};
ggml_backend_device devices[2] = {{kDevice, &registry, nullptr}, {kDevice, &registry, nullptr}};
ggml_backend_buffer_type packed_buffers = {{buffers_name, alloc_buffer, alignment, nullptr, alloc_size, is_host}, &devices[1], nullptr};
ggml_backend_reg registry = {GGML_BACKEND_API_VERSION, {registry_name, device_count, device_at, proc_address}, nullptr};

}  // namespace

ggml_backend_buffer_type_t packed_buffer_type() {
    return &packed_buffers;
}

ggml_backend_t new_backend() {
    return init_backend(&devices[0], nullptr);
}

bool is_packed(const ggml_tensor * tensor) {
    const ggml_backend_buffer * const buffer = tensor->view_src ? tensor->view_src->buffer : tensor->buffer;
    return buffer && buffer->buft == &packed_buffers;
}

}  // namespace accelerator

using namespace accelerator;

extern "C" {

__attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init(void) {
    return machine().quant && ggml.ggml_version ? &registry : nullptr;
}

// Whether models and contexts that are made from now on, and graphs that are split, use these kernels.
__attribute__((visibility("default"))) void accelerator_enable(int on) {
    enabled.store(on != 0);
}

__attribute__((visibility("default"))) const char * accelerator_variant(void) {
    return machine().quant ? machine().quant->name : "";
}
}

// What the plug-in needs of ggml 0.25: names and layouts of its public C interface, and of the tables that a backend hands
// over. `bind` (binding.cpp) compares them with the library that is loaded; nothing else may be assumed about it.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GGML_MAX_DIMS 4
#define GGML_MAX_SRC 10

extern "C" {

enum ggml_type : int {
    GGML_TYPE_F32 = 0, GGML_TYPE_F16 = 1, GGML_TYPE_Q4_0 = 2, GGML_TYPE_Q8_0 = 8, GGML_TYPE_Q4_K = 12, GGML_TYPE_I32 = 26,
    GGML_TYPE_I64 = 27, GGML_TYPE_BF16 = 30,
};

enum ggml_op : int {
    GGML_OP_NONE = 0, GGML_OP_DUP = 1, GGML_OP_ADD = 2, GGML_OP_SUB = 6, GGML_OP_MUL = 7, GGML_OP_DIV = 8, GGML_OP_NORM = 24,
    GGML_OP_RMS_NORM = 25, GGML_OP_MUL_MAT = 29, GGML_OP_MUL_MAT_ID = 30, GGML_OP_SCALE = 32, GGML_OP_CPY = 34,
    GGML_OP_CONT = 35, GGML_OP_RESHAPE = 36, GGML_OP_VIEW = 37, GGML_OP_PERMUTE = 38, GGML_OP_TRANSPOSE = 39,
    GGML_OP_GET_ROWS = 40, GGML_OP_SET_ROWS = 42, GGML_OP_SOFT_MAX = 46, GGML_OP_ROPE = 48, GGML_OP_FLASH_ATTN_EXT = 74,
    GGML_OP_UNARY = 91, GGML_OP_GLU = 100,
};

enum ggml_unary_op : int {
    GGML_UNARY_OP_TANH = 4, GGML_UNARY_OP_RELU = 6, GGML_UNARY_OP_SIGMOID = 7, GGML_UNARY_OP_GELU = 8,
    GGML_UNARY_OP_GELU_QUICK = 9, GGML_UNARY_OP_SILU = 10, GGML_UNARY_OP_GELU_ERF = 16,
};

enum ggml_glu_op : int {
    GGML_GLU_OP_REGLU = 0, GGML_GLU_OP_GEGLU = 1, GGML_GLU_OP_SWIGLU = 2, GGML_GLU_OP_GEGLU_ERF = 4, GGML_GLU_OP_GEGLU_QUICK = 5,
};

enum { GGML_TENSOR_FLAG_COMPUTE = 16 };
enum { GGML_ROPE_TYPE_NORMAL = 0, GGML_ROPE_TYPE_NEOX = 2 };
enum ggml_status : int { GGML_STATUS_ALLOC_FAILED = -2, GGML_STATUS_FAILED = -1, GGML_STATUS_SUCCESS = 0 };
enum ggml_backend_dev_type : int { GGML_BACKEND_DEVICE_TYPE_CPU = 0, GGML_BACKEND_DEVICE_TYPE_ACCEL = 3 };
enum ggml_backend_buffer_usage : int { GGML_BACKEND_BUFFER_USAGE_WEIGHTS = 1 };

struct ggml_backend_buffer;
struct ggml_tensor {
    ggml_type type;
    ggml_backend_buffer * buffer;
    int64_t ne[GGML_MAX_DIMS];
    size_t nb[GGML_MAX_DIMS];
    ggml_op op;
    int32_t op_params[16];
    int32_t flags;
    ggml_tensor * src[GGML_MAX_SRC];
    ggml_tensor * view_src;
    size_t view_offs;
    void * data;
    char name[64];
    void * extra;
    char padding[8];
};

struct ggml_cgraph;
struct ggml_context;
struct ggml_init_params {
    size_t mem_size;
    void * mem_buffer;
    bool no_alloc;
};
struct ggml_type_traits {
    const char * type_name;
    int64_t blck_size;
    int64_t blck_size_interleave;
    size_t type_size;
    bool is_quantized;
    void (*to_float)(const void * x, float * y, int64_t k);
    void (*from_float_ref)(const float * x, void * y, int64_t k);
};

// ---- The tables of a backend (API version 2).

#define GGML_BACKEND_API_VERSION 2

typedef struct ggml_backend_buffer_type * ggml_backend_buffer_type_t;
typedef struct ggml_backend_buffer * ggml_backend_buffer_t;
typedef struct ggml_backend * ggml_backend_t;
typedef struct ggml_backend_device * ggml_backend_dev_t;
typedef struct ggml_backend_reg * ggml_backend_reg_t;

struct ggml_backend_buffer_type_i {
    const char * (*get_name)(ggml_backend_buffer_type_t);
    ggml_backend_buffer_t (*alloc_buffer)(ggml_backend_buffer_type_t, size_t);
    size_t (*get_alignment)(ggml_backend_buffer_type_t);
    size_t (*get_max_size)(ggml_backend_buffer_type_t);
    size_t (*get_alloc_size)(ggml_backend_buffer_type_t, const ggml_tensor *);
    bool (*is_host)(ggml_backend_buffer_type_t);
};
struct ggml_backend_buffer_type {
    ggml_backend_buffer_type_i iface;
    ggml_backend_dev_t device;
    void * context;
};

struct ggml_backend_buffer_i {
    void (*free_buffer)(ggml_backend_buffer_t);
    void * (*get_base)(ggml_backend_buffer_t);
    ggml_status (*init_tensor)(ggml_backend_buffer_t, ggml_tensor *);
    void (*memset_tensor)(ggml_backend_buffer_t, ggml_tensor *, uint8_t, size_t, size_t);
    void (*set_tensor)(ggml_backend_buffer_t, ggml_tensor *, const void *, size_t, size_t);
    void (*get_tensor)(ggml_backend_buffer_t, const ggml_tensor *, void *, size_t, size_t);
    void (*set_tensor_2d)(ggml_backend_buffer_t, ggml_tensor *, const void *, size_t, size_t, size_t, size_t, size_t);
    void (*get_tensor_2d)(ggml_backend_buffer_t, const ggml_tensor *, void *, size_t, size_t, size_t, size_t, size_t);
    bool (*cpy_tensor)(ggml_backend_buffer_t, const ggml_tensor *, ggml_tensor *);
    void (*clear)(ggml_backend_buffer_t, uint8_t);
    void (*reset)(ggml_backend_buffer_t);
};
struct ggml_backend_buffer {
    ggml_backend_buffer_i iface;
    ggml_backend_buffer_type_t buft;
    void * context;
    size_t size;
    ggml_backend_buffer_usage usage;
};

struct ggml_backend_i {
    const char * (*get_name)(ggml_backend_t);
    void (*free)(ggml_backend_t);
    void * not_provided[10];  // asynchronous access, synchronisation and plans
    ggml_status (*graph_compute)(ggml_backend_t, ggml_cgraph *);
    void * not_provided_either[3];  // events, reordering
};
struct ggml_backend {
    uint8_t (*guid)[16];
    ggml_backend_i iface;
    ggml_backend_dev_t device;
    void * context;
};

struct ggml_backend_dev_props {
    const char * name;
    const char * description;
    size_t memory_free;
    size_t memory_total;
    ggml_backend_dev_type type;
    const char * device_id;
    struct {
        bool async, host_buffer, buffer_from_host_ptr, events, mmap_support;
    } caps;
};
struct ggml_backend_device_i {
    const char * (*get_name)(ggml_backend_dev_t);
    const char * (*get_description)(ggml_backend_dev_t);
    void (*get_memory)(ggml_backend_dev_t, size_t *, size_t *);
    ggml_backend_dev_type (*get_type)(ggml_backend_dev_t);
    void (*get_props)(ggml_backend_dev_t, ggml_backend_dev_props *);
    ggml_backend_t (*init_backend)(ggml_backend_dev_t, const char *);
    ggml_backend_buffer_type_t (*get_buffer_type)(ggml_backend_dev_t);
    ggml_backend_buffer_type_t (*get_host_buffer_type)(ggml_backend_dev_t);
    ggml_backend_buffer_t (*buffer_from_host_ptr)(ggml_backend_dev_t, void *, size_t, size_t);
    bool (*supports_op)(ggml_backend_dev_t, const ggml_tensor *);
    bool (*supports_buft)(ggml_backend_dev_t, ggml_backend_buffer_type_t);
    bool (*offload_op)(ggml_backend_dev_t, const ggml_tensor *);
    void * no_events[3];
};
struct ggml_backend_device {
    ggml_backend_device_i iface;
    ggml_backend_reg_t reg;
    void * context;
};

struct ggml_backend_reg_i {
    const char * (*get_name)(ggml_backend_reg_t);
    size_t (*get_device_count)(ggml_backend_reg_t);
    ggml_backend_dev_t (*get_device)(ggml_backend_reg_t, size_t);
    void * (*get_proc_address)(ggml_backend_reg_t, const char *);
};
struct ggml_backend_reg {
    int api_version;
    ggml_backend_reg_i iface;
    void * context;
};
}

// The functions of the loaded library, found by `bind`.
#define GGML_FUNCTIONS(X)                                                                                  \
    X(const char *, ggml_version, (void))                                                                  \
    X(const char *, ggml_op_name, (ggml_op))                                                               \
    X(const char *, ggml_unary_op_name, (ggml_unary_op))                                                   \
    X(const char *, ggml_glu_op_name, (ggml_glu_op))                                                       \
    X(const char *, ggml_type_name, (ggml_type))                                                           \
    X(size_t, ggml_nbytes, (const ggml_tensor *))                                                          \
    X(size_t, ggml_tensor_overhead, (void))                                                                \
    X(const ggml_type_traits *, ggml_get_type_traits, (ggml_type))                                         \
    X(ggml_context *, ggml_init, (ggml_init_params))                                                       \
    X(void, ggml_free, (ggml_context *))                                                                   \
    X(ggml_tensor *, ggml_new_tensor_2d, (ggml_context *, ggml_type, int64_t, int64_t))                    \
    X(ggml_tensor *, ggml_mul_mat, (ggml_context *, ggml_tensor *, ggml_tensor *))                         \
    X(ggml_cgraph *, ggml_new_graph, (ggml_context *))                                                     \
    X(void, ggml_build_forward_expand, (ggml_cgraph *, ggml_tensor *))                                     \
    X(int, ggml_graph_n_nodes, (ggml_cgraph *))                                                            \
    X(ggml_tensor *, ggml_graph_node, (ggml_cgraph *, int))                                                \
    X(ggml_backend_buffer_type_t, ggml_backend_cpu_buffer_type, (void))                                    \
    X(bool, ggml_backend_buft_is_host, (ggml_backend_buffer_type_t))                                       \
    X(ggml_backend_buffer_t, ggml_backend_buffer_init,                                                     \
      (ggml_backend_buffer_type_t, ggml_backend_buffer_i, void *, size_t))                                 \
    X(void, ggml_backend_buffer_free, (ggml_backend_buffer_t))                                             \
    X(void, ggml_backend_buffer_set_usage, (ggml_backend_buffer_t, ggml_backend_buffer_usage))             \
    X(ggml_backend_buffer_t, ggml_backend_buft_alloc_buffer, (ggml_backend_buffer_type_t, size_t))         \
    X(void *, ggml_backend_buffer_get_base, (ggml_backend_buffer_t))                                       \
    X(ggml_status, ggml_backend_tensor_alloc, (ggml_backend_buffer_t, ggml_tensor *, void *))              \
    X(void, ggml_backend_tensor_set, (ggml_tensor *, const void *, size_t, size_t))                        \
    X(ggml_backend_t, ggml_backend_init_by_type, (ggml_backend_dev_type, const char *))                    \
    X(ggml_backend_dev_t, ggml_backend_get_device, (ggml_backend_t))                                       \
    X(ggml_backend_reg_t, ggml_backend_dev_backend_reg, (ggml_backend_dev_t))                              \
    X(void *, ggml_backend_reg_get_proc_address, (ggml_backend_reg_t, const char *))                       \
    X(ggml_status, ggml_backend_graph_compute, (ggml_backend_t, ggml_cgraph *))                            \
    X(void, ggml_backend_free, (ggml_backend_t))

namespace accelerator {

struct Ggml {
#define X(result, name, arguments) result(*name) arguments;
    GGML_FUNCTIONS(X)
#undef X
};
extern Ggml ggml;

}  // namespace accelerator

// Finds ggml's functions in the library that is loaded, and checks that its tables are the ones of ggml_api.h.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "plan.h"

namespace accelerator {
namespace {

struct Name {
    int value;
    const char * name;
};

constexpr Name kOps[] = {
    {GGML_OP_NONE, "NONE"}, {GGML_OP_DUP, "DUP"}, {GGML_OP_ADD, "ADD"}, {GGML_OP_SUB, "SUB"}, {GGML_OP_MUL, "MUL"},
    {GGML_OP_DIV, "DIV"}, {GGML_OP_NORM, "NORM"}, {GGML_OP_RMS_NORM, "RMS_NORM"}, {GGML_OP_MUL_MAT, "MUL_MAT"},
    {GGML_OP_MUL_MAT_ID, "MUL_MAT_ID"}, {GGML_OP_SCALE, "SCALE"}, {GGML_OP_CPY, "CPY"}, {GGML_OP_CONT, "CONT"},
    {GGML_OP_RESHAPE, "RESHAPE"}, {GGML_OP_VIEW, "VIEW"}, {GGML_OP_PERMUTE, "PERMUTE"}, {GGML_OP_TRANSPOSE, "TRANSPOSE"},
    {GGML_OP_GET_ROWS, "GET_ROWS"}, {GGML_OP_SET_ROWS, "SET_ROWS"}, {GGML_OP_SOFT_MAX, "SOFT_MAX"}, {GGML_OP_ROPE, "ROPE"},
    {GGML_OP_FLASH_ATTN_EXT, "FLASH_ATTN_EXT"}, {GGML_OP_UNARY, "UNARY"}, {GGML_OP_GLU, "GLU"},
};
constexpr Name kUnary[] = {
    {GGML_UNARY_OP_TANH, "TANH"}, {GGML_UNARY_OP_RELU, "RELU"}, {GGML_UNARY_OP_SIGMOID, "SIGMOID"}, {GGML_UNARY_OP_GELU, "GELU"},
    {GGML_UNARY_OP_GELU_QUICK, "GELU_QUICK"}, {GGML_UNARY_OP_SILU, "SILU"}, {GGML_UNARY_OP_GELU_ERF, "GELU_ERF"},
};
constexpr Name kGlu[] = {
    {GGML_GLU_OP_REGLU, "REGLU"}, {GGML_GLU_OP_GEGLU, "GEGLU"}, {GGML_GLU_OP_SWIGLU, "SWIGLU"},
    {GGML_GLU_OP_GEGLU_ERF, "GEGLU_ERF"}, {GGML_GLU_OP_GEGLU_QUICK, "GEGLU_QUICK"},
};
constexpr Name kTypes[] = {
    {GGML_TYPE_F32, "f32"}, {GGML_TYPE_F16, "f16"}, {GGML_TYPE_BF16, "bf16"}, {GGML_TYPE_I32, "i32"}, {GGML_TYPE_I64, "i64"},
    {quant::Q4_0, "q4_0"}, {quant::Q4_1, "q4_1"}, {quant::Q5_0, "q5_0"}, {quant::Q8_0, "q8_0"}, {quant::Q4_K, "q4_K"},
    {quant::Q5_K, "q5_K"}, {quant::Q6_K, "q6_K"},
};

template <size_t n, class Function> const char * mismatch(const Name (&names)[n], const Function & name_of) {
    for (const Name & expected : names) {
        const char * const found = name_of(expected.value);
        if (!found || strcmp(found, expected.name) != 0) {
            return expected.name;
        }
    }
    return nullptr;
}

// A tensor that ggml makes, read through our declaration.
bool same_layout() {
    constexpr size_t kObject = 32;  // ggml's own record in front of a tensor
    if (ggml.ggml_tensor_overhead() != sizeof(ggml_tensor) + kObject) {
        return false;
    }
    ggml_context * const context = ggml.ggml_init({1 << 16, nullptr, true});
    if (!context) {
        return false;
    }
    ggml_tensor * const w = ggml.ggml_new_tensor_2d(context, GGML_TYPE_Q4_K, 512, 3);
    ggml_tensor * const x = ggml.ggml_new_tensor_2d(context, GGML_TYPE_F32, 512, 5);
    const ggml_tensor * const y = ggml.ggml_mul_mat(context, w, x);
    const bool same = w->type == GGML_TYPE_Q4_K && w->ne[0] == 512 && w->ne[1] == 3 && w->ne[2] == 1 && w->nb[1] == 288 &&
                      w->nb[2] == 864 && !w->buffer && !w->data && y->op == GGML_OP_MUL_MAT && y->src[0] == w && y->src[1] == x &&
                      !y->src[2] && !y->view_src && y->ne[0] == 3 && y->ne[1] == 5 && y->nb[1] == 12;
    ggml.ggml_free(context);
    return same;
}

}  // namespace
}  // namespace accelerator

using namespace accelerator;

// library: what dlopen gave for the library that the functions are reachable from. Gives 0, or writes why not.
extern "C" __attribute__((visibility("default"))) int accelerator_bind(void * library, const char * version, char * why, size_t room) {
#define X(result, name, arguments)                                                      \
    ggml.name = (result(*) arguments)dlsym(library, #name);                             \
    if (!ggml.name) {                                                                   \
        snprintf(why, room, "the library of llama.cpp has no function %s", #name);      \
        ggml = {};                                                                      \
        return 1;                                                                       \
    }
    GGML_FUNCTIONS(X)
#undef X
    const char * const found = ggml.ggml_version();
    const char * wrong = nullptr;
    if (strcmp(found, version) != 0) {
        snprintf(why, room, "they were made for ggml %s, and %s is loaded", version, found);
    } else if ((wrong = mismatch(kOps, [](int i) { return ggml.ggml_op_name(ggml_op(i)); })) ||
               (wrong = mismatch(kUnary, [](int i) { return ggml.ggml_unary_op_name(ggml_unary_op(i)); })) ||
               (wrong = mismatch(kGlu, [](int i) { return ggml.ggml_glu_op_name(ggml_glu_op(i)); })) ||
               (wrong = mismatch(kTypes, [](int i) { return ggml.ggml_type_name(ggml_type(i)); }))) {
        snprintf(why, room, "ggml's number of %s is another one than expected", wrong);
    } else if (!same_layout()) {
        snprintf(why, room, "ggml's tensors are laid out differently than expected");
    } else {
        return 0;
    }
    ggml = {};
    return 1;
}

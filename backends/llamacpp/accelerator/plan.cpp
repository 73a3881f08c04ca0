#include "plan.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "steps.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace accelerator {
namespace {

constexpr size_t kAlignment = 64;
constexpr int kMostCounters = 8192;

bool contiguous_rows(const ggml_tensor * t, size_t size) {
    return t->nb[0] == size;
}

bool floats(const ggml_tensor * t) {
    return t && t->type == GGML_TYPE_F32 && contiguous_rows(t, 4);
}

bool same_shape(const ggml_tensor * a, const ggml_tensor * b) {
    return memcmp(a->ne, b->ne, sizeof(a->ne)) == 0;
}

bool repeats(const ggml_tensor * part, const ggml_tensor * whole) {
    for (int i = 0; i < GGML_MAX_DIMS; ++i) {
        if (part->ne[i] == 0 || whole->ne[i] % part->ne[i]) {
            return false;
        }
    }
    return true;
}

bool is_weight(const ggml_tensor * t) {
    const ggml_backend_buffer * const buffer = t->view_src ? t->view_src->buffer : t->buffer;
    return buffer && buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

bool cached(const ggml_tensor * t) {
    return (t->type == GGML_TYPE_F16 && t->nb[0] == 2) || (t->type == GGML_TYPE_Q8_0 && t->nb[0] == 34 && t->ne[0] % 32 == 0);
}

bool can_attend(const ggml_tensor * t) {
    const ggml_tensor * const q = t->src[0], * const k = t->src[1], * const v = t->src[2], * const mask = t->src[3];
    if (!floats(q) || !cached(k) || !cached(v) || !floats(t) || q->ne[3] != 1 || k->ne[3] != 1 || v->ne[3] != 1) {
        return false;
    }
    if (k->ne[2] == 0 || k->ne[2] != v->ne[2] || q->ne[2] % k->ne[2] || q->ne[2] / k->ne[2] > block_attention::kMostHeads) {
        return false;
    }
    if (k->ne[0] % 16 || v->ne[0] % 16 || k->ne[0] > block_attention::kMostWidth || v->ne[0] > block_attention::kMostWidth) {
        return false;
    }
    return !mask || (mask->type == GGML_TYPE_F16 && mask->nb[0] == 2 && mask->ne[2] == 1 && mask->ne[3] == 1 && mask->ne[1] >= q->ne[1]);
}

bool can_multiply(const ggml_tensor * t) {
    const ggml_tensor * const w = t->src[0], * const x = t->src[1];
    if (!floats(x) || !floats(t) || t->op_params[1]) {  // a hint that the weights are something else
        return false;
    }
    if (t->op == GGML_OP_MUL_MAT_ID) {
        return is_packed(w) && w->ne[3] == 1 && x->ne[3] == 1 && t->src[2]->type == GGML_TYPE_I32;
    }
    if (w->ne[2] != 1 || w->ne[3] != 1) {
        return false;
    }
    if (is_packed(w)) {
        return true;
    }
    const bool plain = (w->type == GGML_TYPE_F32 && w->nb[0] == 4) || ((w->type == GGML_TYPE_F16 || w->type == GGML_TYPE_BF16) && w->nb[0] == 2);
    return plain && is_weight(w);
}

#if defined(__x86_64__)
void pause() {
    _mm_pause();
}
#else
void pause() {
    __asm__ volatile("yield");
}
#endif

// All threads of a team meet here. One that waits for long lets others have the core.
struct Meeting {
    alignas(64) std::atomic<int> arrived{0};
    alignas(64) std::atomic<int> round{0};

    void wait(int threads) {
        const int now = round.load(std::memory_order_relaxed);
        if (arrived.fetch_add(1, std::memory_order_acq_rel) == threads - 1) {
            arrived.store(0, std::memory_order_relaxed);
            round.store(now + 1, std::memory_order_release);
            return;
        }
        for (int spins = 0; round.load(std::memory_order_acquire) == now; ++spins) {
            if (spins < 4000) {
                pause();
            } else {
                sched_yield();
            }
        }
    }
};

}  // namespace

Room::~Room() {
    free(data_);
}

uint8_t * Room::at_least(size_t bytes) {
    if (bytes > size_) {
        free(data_);
        size_ = (bytes + bytes / 4 + kAlignment) / kAlignment * kAlignment;
        data_ = (uint8_t *)aligned_alloc(kAlignment, size_);
        if (!data_) {
            size_ = 0;
        }
    }
    return data_;
}

bool can_run(const ggml_tensor * t) {
    const ggml_tensor * const a = t->src[0], * const b = t->src[1];
    for (const ggml_tensor * source : t->src) {
        // Packed weights mean something to products alone.
        if (source && is_packed(source) && !(source == a && (t->op == GGML_OP_MUL_MAT || t->op == GGML_OP_MUL_MAT_ID))) {
            return false;
        }
    }
    switch (t->op) {
        case GGML_OP_NONE:
        case GGML_OP_RESHAPE:
        case GGML_OP_VIEW:
        case GGML_OP_PERMUTE:
        case GGML_OP_TRANSPOSE:
            return true;
        case GGML_OP_ADD:
        case GGML_OP_SUB:
        case GGML_OP_MUL:
        case GGML_OP_DIV:
            return floats(a) && floats(b) && floats(t) && same_shape(a, t) && repeats(b, t);
        case GGML_OP_NORM:
        case GGML_OP_RMS_NORM:
        case GGML_OP_SCALE:
            return floats(a) && floats(t);
        case GGML_OP_SOFT_MAX:
            return floats(a) && floats(t) && !b && !t->src[2] && parameter(t, 1) == 0.0f;
        case GGML_OP_UNARY:
            switch (t->op_params[0]) {
                case GGML_UNARY_OP_TANH:
                case GGML_UNARY_OP_RELU:
                case GGML_UNARY_OP_SIGMOID:
                case GGML_UNARY_OP_GELU:
                case GGML_UNARY_OP_GELU_QUICK:
                case GGML_UNARY_OP_SILU:
                case GGML_UNARY_OP_GELU_ERF:
                    return floats(a) && floats(t);
                default:
                    return false;
            }
        case GGML_OP_GLU:
            switch (t->op_params[0]) {
                case GGML_GLU_OP_REGLU:
                case GGML_GLU_OP_GEGLU:
                case GGML_GLU_OP_SWIGLU:
                case GGML_GLU_OP_GEGLU_ERF:
                case GGML_GLU_OP_GEGLU_QUICK:
                    return floats(a) && floats(t) && (!b || floats(b));
                default:
                    return false;
            }
        case GGML_OP_ROPE:
            return floats(a) && floats(t) && b->type == GGML_TYPE_I32 && a->ne[3] == 1 && t->op_params[15] == 0 &&
                   (t->op_params[2] == GGML_ROPE_TYPE_NORMAL || t->op_params[2] == GGML_ROPE_TYPE_NEOX);
        case GGML_OP_GET_ROWS:
            return floats(t) && b->type == GGML_TYPE_I32 && (a->type == GGML_TYPE_F32 || ggml.ggml_get_type_traits(a->type)->to_float);
        case GGML_OP_SET_ROWS:
            return floats(a) && (b->type == GGML_TYPE_I64 || b->type == GGML_TYPE_I32) &&
                   (t->type == GGML_TYPE_F32 || t->type == GGML_TYPE_F16 || ggml.ggml_get_type_traits(t->type)->from_float_ref);
        case GGML_OP_CPY:
        case GGML_OP_CONT:
        case GGML_OP_DUP:
            if (!same_shape(a, t) || a->ne[0] == 0) {
                return false;
            }
            if (a->type == t->type) {
                const size_t bytes = a->type == GGML_TYPE_F32 || a->type == GGML_TYPE_I32 ? 4 : a->type == GGML_TYPE_F16 ? 2 : 0;
                return bytes && t->nb[0] == bytes;
            }
            return floats(a) && t->type == GGML_TYPE_F16 && t->nb[0] == 2;
        case GGML_OP_MUL_MAT:
        case GGML_OP_MUL_MAT_ID:
            return can_multiply(t);
        case GGML_OP_FLASH_ATTN_EXT:
            return can_attend(t);
        default:
            return false;
    }
}

Step & Plan::step(void (*run)(const Step &, int, int), ggml_tensor * tensor) {
    steps_.push_back({run, tensor, false, &counters_[used_counters_], nullptr, nullptr, 0, 0});
    used_counters_ += size_t(threads_);
    return steps_.back();
}

void Plan::reads(const void * data, size_t bytes) {
    step_reads_.push_back({(const char *)data, (const char *)data + bytes});
}

void Plan::reads(const ggml_tensor * tensor) {
    if (!is_weight(tensor)) {
        reads(tensor->data, ggml.ggml_nbytes(tensor));
    }
}

void Plan::writes(const void * data, size_t bytes) {
    step_writes_.push_back({(const char *)data, (const char *)data + bytes});
}

// The newest step waits if it reads what others write, or writes what others read or write, since the last wait.
void Plan::settle() {
    const auto meet = [](const std::vector<Range> & some, const std::vector<Range> & others) {
        for (const Range & a : some) {
            for (const Range & b : others) {
                if (a.begin < b.end && b.begin < a.end) {
                    return true;
                }
            }
        }
        return false;
    };
    if (meet(step_reads_, written_) || meet(step_writes_, written_) || meet(step_writes_, read_)) {
        steps_.back().waits = true;
        read_.clear();
        written_.clear();
    }
    read_.insert(read_.end(), step_reads_.begin(), step_reads_.end());
    written_.insert(written_.end(), step_writes_.begin(), step_writes_.end());
    step_reads_.clear();
    step_writes_.clear();
}

uint8_t * Plan::quantised(const ggml_tensor * source, const quant::Format & format) {
    for (const Quantised & known : quantised_) {
        if (known.source == source && known.eights_k == format.eights_k) {
            return known.room;
        }
    }
    const int index = next_row_room_++ % 4;
    const size_t bytes = quant::row_size(format, source->ne[0]) * size_t(row_count(source));
    // What the room held is lost. It does not move while earlier steps use it: `make` has made it large enough.
    uint8_t * const room = rows_[index].at_least(bytes);
    for (size_t i = 0; i < quantised_.size(); ++i) {
        if (quantised_[i].room == room) {
            quantised_.erase(quantised_.begin() + long(i));
            break;
        }
    }
    quantised_.push_back({source, format.eights_k, room});
    return room;
}

bool Plan::product(ggml_tensor * node) {
    const ggml_tensor * const source = node->src[1];
    if (!is_packed(node->src[0])) {
        step(Steps::multiply_plain, node);
        reads(source);
        writes(node->data, ggml.ggml_nbytes(node));
        settle();
        return true;
    }
    const quant::Format & format = *quant::format_of(node->src[0]->type);
    const int rooms = next_row_room_;
    uint8_t * const room = quantised(source, format);
    const size_t bytes = quant::row_size(format, source->ne[0]) * size_t(row_count(source));
    if (next_row_room_ != rooms) {
        step(Steps::quantise, node).room = room;
        reads(source);
        writes(room, bytes);
        settle();
    }
    step(node->op == GGML_OP_MUL_MAT ? Steps::multiply : Steps::multiply_experts, node).room = room;
    reads(room, bytes);
    if (node->op == GGML_OP_MUL_MAT_ID) {
        reads(node->src[2]);
    }
    writes(node->data, ggml.ggml_nbytes(node));
    settle();
    return true;
}

bool Plan::rotation(ggml_tensor * node) {
    uint8_t * room = nullptr;
    for (const Turns & known : turns_) {
        if (known.positions == node->src[1] && known.factors == node->src[2] && memcmp(known.params, node->op_params, 64) == 0) {
            room = known.room;
        }
    }
    const size_t bytes = size_t(node->op_params[1]) * size_t(node->ne[2]) * 4;
    if (!room) {
        if (turn_rooms_.size() == turns_.size()) {
            turn_rooms_.emplace_back();
        }
        room = turn_rooms_[turns_.size()].at_least(bytes);
        if (!room) {
            return false;
        }
        Turns turns = {node->src[1], node->src[2], {}, room};
        memcpy(turns.params, node->op_params, 64);
        turns_.push_back(turns);
        step(Steps::make_turns, node).other = room;
        reads(node->src[1]);
        writes(room, bytes);
        settle();
    }
    step(Steps::rotate, node).other = room;
    reads(node->src[0]);
    reads(room, bytes);
    writes(node->data, ggml.ggml_nbytes(node));
    settle();
    return true;
}

bool Plan::attention(ggml_tensor * node) {
    const ggml_tensor * const q = node->src[0], * const k = node->src[1], * const v = node->src[2], * const mask = node->src[3];
    const int64_t rows = q->ne[1], cells = k->ne[1], segments = (cells + block_attention::kSegment - 1) / block_attention::kSegment;
    const size_t bytes = Seen::size(rows, cells + 1);
    uint8_t * room = nullptr;
    for (const Seen & known : seen_) {
        if (known.mask == mask && known.n_rows == rows && known.n_cells == cells) {
            room = known.room;
        }
    }
    if (!room) {
        if (seen_rooms_.size() == seen_.size()) {
            seen_rooms_.emplace_back();
        }
        room = seen_rooms_[seen_.size()].at_least(bytes);
        if (!room) {
            return false;
        }
        seen_.push_back({mask, room, rows, cells});
        step(Steps::look, node).other = room;
        if (mask) {
            reads(mask);
        }
        writes(room, bytes);
        settle();
    }
    const int64_t groups = (rows + block_attention::kRows - 1) / block_attention::kRows;
    const size_t working = size_t(threads_) * block_attention::workspace_size();
    const size_t results = size_t(groups * segments * block_attention::kRows * q->ne[2]) * size_t(2 + v->ne[0]);
    uint8_t * const at = results_.at_least((working + results) * 4);
    if (!at) {
        return false;
    }
    for (const bool merging : {false, true}) {
        Step & added = step(merging ? Steps::merge : Steps::attend, node);
        added.room = at;
        added.other = room;
        added.count = segments;
        added.stride = int64_t(working);
        reads(room, bytes);
        if (merging) {
            reads(at, (working + results) * 4);
            writes(node->data, ggml.ggml_nbytes(node));
        } else {
            reads(q);
            reads(k);
            reads(v);
            writes(at, (working + results) * 4);
        }
        settle();
    }
    return true;
}

bool Plan::add(ggml_tensor * node) {
    switch (node->op) {
        case GGML_OP_MUL_MAT:
        case GGML_OP_MUL_MAT_ID:
            return product(node);
        case GGML_OP_ROPE:
            return rotation(node);
        case GGML_OP_FLASH_ATTN_EXT:
            return attention(node);
        case GGML_OP_RMS_NORM:
            step(Steps::rms_norm, node);
            break;
        case GGML_OP_NORM:
            step(Steps::norm, node);
            break;
        case GGML_OP_ADD:
        case GGML_OP_SUB:
        case GGML_OP_MUL:
        case GGML_OP_DIV:
            step(Steps::binary, node);
            break;
        case GGML_OP_UNARY:
            step(Steps::unary, node);
            break;
        case GGML_OP_GLU:
            step(Steps::gated, node);
            break;
        case GGML_OP_SCALE:
            step(Steps::scale, node);
            break;
        case GGML_OP_SOFT_MAX:
            step(Steps::softmax, node);
            break;
        case GGML_OP_GET_ROWS:
            step(Steps::get_rows, node);
            break;
        case GGML_OP_SET_ROWS:
            step(Steps::set_rows, node);
            break;
        default:
            step(Steps::copy, node);
    }
    for (const ggml_tensor * source : node->src) {
        // The rows that a cache already holds are not read by writing new ones.
        if (source && !(node->op == GGML_OP_SET_ROWS && source == node->src[2])) {
            reads(source);
        }
    }
    writes(node->data, ggml.ggml_nbytes(node));
    settle();
    return true;
}

bool Plan::make(ggml_cgraph * graph, int threads) {
    threads_ = threads;
    steps_.clear();
    read_.clear();
    written_.clear();
    quantised_.clear();
    turns_.clear();
    seen_.clear();
    used_counters_ = 0;
    next_row_room_ = 0;
    const int n = ggml.ggml_graph_n_nodes(graph);
    const size_t counters = size_t(n) * 3 * size_t(threads);
    if (counters_.size() < counters) {
        counters_ = std::vector<std::atomic<int>>(counters);
    }
    // Rooms must not move once a step knows them: they are made large enough for the largest use before.
    size_t rows = 0, results = 0;
    for (int i = 0; i < n; ++i) {
        const ggml_tensor * const node = ggml.ggml_graph_node(graph, i);
        if ((node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID) && is_packed(node->src[0])) {
            const size_t needed = quant::row_size(*quant::format_of(node->src[0]->type), node->src[1]->ne[0]) * size_t(row_count(node->src[1]));
            rows = needed > rows ? needed : rows;
        } else if (node->op == GGML_OP_FLASH_ATTN_EXT) {
            const int64_t groups = (node->src[0]->ne[1] + block_attention::kRows - 1) / block_attention::kRows;
            const int64_t segments = (node->src[1]->ne[1] + block_attention::kSegment - 1) / block_attention::kSegment;
            const size_t needed = (size_t(threads) * block_attention::workspace_size() +
                                   size_t(groups * segments * block_attention::kRows * node->src[0]->ne[2]) * size_t(2 + node->src[2]->ne[0])) * 4;
            results = needed > results ? needed : results;
        }
    }
    for (Room & room : rows_) {
        if (rows && !room.at_least(rows)) {
            return false;
        }
    }
    if (results && !results_.at_least(results)) {
        return false;
    }
    for (int i = 0; i < n; ++i) {
        ggml_tensor * const node = ggml.ggml_graph_node(graph, i);
        if (!(node->flags & GGML_TENSOR_FLAG_COMPUTE) || node->op == GGML_OP_NONE || node->op == GGML_OP_RESHAPE ||
            node->op == GGML_OP_VIEW || node->op == GGML_OP_PERMUTE || node->op == GGML_OP_TRANSPOSE ||
            row_count(node) == 0 || node->ne[0] == 0) {
            continue;
        }
        ggml_tensor * const next = i + 1 < n ? ggml.ggml_graph_node(graph, i + 1) : nullptr;
        if (node->op == GGML_OP_RMS_NORM && next && next->op == GGML_OP_MUL && next->src[0] == node && row_count(next->src[1]) == 1 &&
            next->src[1]->ne[0] == next->ne[0] && (next->flags & GGML_TENSOR_FLAG_COMPUTE)) {
            step(Steps::rms_norm_weighted, next);
            reads(node->src[0]);
            reads(next->src[1]);
            writes(node->data, ggml.ggml_nbytes(node));
            writes(next->data, ggml.ggml_nbytes(next));
            settle();
            ++i;
        } else if (!add(node)) {
            return false;
        }
    }
    for (size_t i = 0; i < used_counters_; ++i) {
        counters_[i].store(0, std::memory_order_relaxed);
    }
    return true;
}

void Plan::run() {
    Meeting meeting;
#ifdef _OPENMP
#pragma omp parallel num_threads(threads_)
#endif
    {
#ifdef _OPENMP
        const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
#else
        const int thread = 0, threads = 1;
#endif
        for (const Step & step : steps_) {
            if (step.waits && threads > 1) {
                meeting.wait(threads);
            }
            step.run(step, thread, threads);
        }
    }
}

}  // namespace accelerator

// A graph of ggml as a list of steps that one team of threads walks through together.
#pragma once

#include <atomic>
#include <deque>
#include <vector>

#include "../../../kernels/block_attention/block_attention.h"
#include "../../../kernels/quant_matmul/quant_matmul.h"
#include "../../../kernels/row_ops/row_ops.h"
#include "ggml_api.h"

namespace accelerator {

// The kernels of this processor; null pointers where there are none.
struct Machine {
    const quant::Kernels * quant;
    const row_ops::RowOps * rows;
    const block_attention::Attention * attention;
};
const Machine & machine();

// Bytes that keep their place while the plan that uses them runs.
class Room {
public:
    ~Room();
    uint8_t * at_least(size_t bytes);  // null without memory

private:
    uint8_t * data_ = nullptr;
    size_t size_ = 0;
};

struct Team;

// One thread's share of one operation.
struct Step {
    void (*run)(const Step & step, int thread, int threads);
    ggml_tensor * tensor;
    bool waits;             // for all threads to finish the steps before
    std::atomic<int> * next; // shares that are handed out to whoever comes, a counter for each thread
    uint8_t * room;         // quantised rows, or the results of attention
    uint8_t * other;        // turns of rotations, or the cells that rows see
    int64_t count;          // cells, segments
    int64_t stride;
};

// What rows of a mask see, for all layers that share it.
struct Seen {
    const ggml_tensor * mask;
    uint8_t * room;
    int64_t n_rows, n_cells;
    int32_t * cells(int64_t row) const { return (int32_t *)room + row * n_cells; }
    int32_t * counts() const { return (int32_t *)room + n_rows * n_cells; }
    int32_t * biased() const { return counts() + n_rows; }
    static size_t size(int64_t rows, int64_t cells) { return size_t(rows * cells + 2 * rows) * 4; }
};

class Plan {
public:
    // False without memory.
    bool make(ggml_cgraph * graph, int threads);
    void run();

private:
    struct Range {
        const char * begin;
        const char * end;
    };
    struct Quantised {
        const ggml_tensor * source;
        bool eights_k;
        uint8_t * room;
    };
    struct Turns {
        const ggml_tensor * positions;
        const ggml_tensor * factors;
        int32_t params[16];
        uint8_t * room;
    };

    bool add(ggml_tensor * node);
    bool product(ggml_tensor * node);
    bool experts(ggml_tensor * node);
    bool rotation(ggml_tensor * node);
    bool attention(ggml_tensor * node);
    uint8_t * quantised(const ggml_tensor * source, const quant::Format & format);
    Step & step(void (*run)(const Step &, int, int), ggml_tensor * tensor);
    void reads(const void * data, size_t bytes);
    void reads(const ggml_tensor * tensor);
    void writes(const void * data, size_t bytes);
    void settle();

    int threads_ = 1;
    std::vector<Step> steps_;
    std::vector<std::atomic<int>> counters_;
    size_t used_counters_ = 0;
    std::vector<Range> read_, written_;          // since the last wait
    std::vector<Range> step_reads_, step_writes_;  // of the step being added
    std::vector<Quantised> quantised_;
    std::vector<Turns> turns_;
    std::vector<Seen> seen_;
    Room rows_[4], results_;
    std::deque<Room> turn_rooms_, seen_rooms_;  // one for each entry of turns_ and seen_
    int next_row_room_ = 0;
};

// Whether a plan can hold this operation.
bool can_run(const ggml_tensor * op);
// Whether a tensor's bytes are packed weights.
bool is_packed(const ggml_tensor * tensor);

// Rows of a tensor, and where row `i` begins.
inline int64_t row_count(const ggml_tensor * t) {
    return t->ne[1] * t->ne[2] * t->ne[3];
}
inline char * row_of(const ggml_tensor * t, int64_t i) {
    const int64_t i1 = i % t->ne[1], i2 = i / t->ne[1] % t->ne[2], i3 = i / t->ne[1] / t->ne[2];
    return (char *)t->data + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3];
}

}  // namespace accelerator

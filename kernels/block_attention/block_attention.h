// Attention of a few rows over a cache of keys and values, with rows that do not depend on each other.
//
// A row sees some cells of the cache. Those are listed in the order of the cells and cut into chunks of kChunk and segments
// of kSegment, counted along the row's own list: where a sum is split hangs on nothing but what the row sees. A chunk that
// several rows share is read and widened once. Segments are merged in order (Dao et al. 2023, "Flash-Decoding").
#pragma once

#include <stdint.h>

namespace block_attention {

constexpr int kChunk = 32;
constexpr int kSegment = 512;
constexpr int kRows = 8;       // rows of a unit of work
constexpr int kMostHeads = 16; // query heads of a unit of work
constexpr int kMostWidth = 512;

// One head's keys or values: cell c begins at data + c * stride.
struct Cache {
    const char * data;
    int64_t stride;
    bool eight_bits;  // blocks of 32 signed bytes behind a 16-bit scale; 16-bit numbers otherwise
};

struct Queries {
    const float * q;     // the first value
    int64_t row_stride;  // in floats
    int64_t head_stride;
};

struct Job {
    int n_rows;                 // at most kRows
    int n_heads;                // query heads on this key head, at most kMostHeads
    int width, value_width;     // multiples of 16, at most kMostWidth
    float scale;
    float softcap;              // 0 for none
    Queries queries;
    Cache keys, values;
    const int32_t * cells[kRows];    // what each row sees, ascending
    const uint16_t * mask[kRows];    // added to the scores, by cell, times `slope` of the head; null when nothing is
    int32_t n_cells[kRows];
    float slope[kMostHeads];
    int segment;
    float * partial;            // results of row r and head h at (r * n_heads + h) * (2 + value_width): largest, sum, values
};

struct Attention {
    // Cells of a row of the mask that are not -infinity; gives how many. *biased: whether one is not 0.
    int32_t (*visible)(const uint16_t * mask, int64_t n, int32_t * cells, bool * biased);
    void (*run)(const Job & job, float * workspace);
    // Segments in order → one row of `width` values. step: floats from one segment's result to the next.
    // sink: a score that takes part without a value, null for none.
    void (*merge)(const float * partial, int64_t step, int segments, const float * sink, float * out, int width);
};

// Floats that `run` needs beside its results.
constexpr int64_t workspace_size() {
    return kMostWidth * kChunk * 2 + int64_t(kRows) * kMostHeads * (kMostWidth + kChunk);
}

}  // namespace block_attention

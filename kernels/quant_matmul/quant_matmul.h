// Products of block-quantised weights with a few rows of activations: y = W·x for GGUF blocks.
//
// Weights are packed once, without loss, into tiles of 16 output rows: byte i of a row's dword d stands at
// tile[line of d][row][i], so that one 64-byte load feeds 16 rows. Activations are quantised to 8 bits, row by row, as llama.cpp
// does for the same block type. Every output is computed in the same way whatever the number of rows.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace quant {

// GGUF's numbers of the block types.
enum Type : int { Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q8_0 = 8, Q4_K = 12, Q5_K = 13, Q6_K = 14 };

constexpr int kTile = 16;      // output rows of a tile
constexpr int kMostRows = 32;  // activation rows of one call of `multiply`

struct Format {
    int type;
    int block;       // weights of a block
    int bytes;       // bytes of a block in a file
    int planes;      // dwords of a block that are interleaved over the rows of a tile
    int tail;        // bytes of a block and a row that stand behind all interleaved dwords of the tile: scales
    bool eights_k;   // activations in blocks of 256 (otherwise of 32)
};

// nullptr for a type that is not known.
const Format * format_of(int type);

// Bytes of one tile of `k` weights a row, and of a matrix of `n` such rows.
size_t tile_size(const Format & format, int64_t k);
size_t packed_size(const Format & format, int64_t k, int64_t n);

// Tiles [first, last) of a matrix [n, k] at `source`, as in a file; rows beyond `n` become zeros.
void pack(const Format & format, const uint8_t * source, uint8_t * packed, int64_t k, int64_t n, int64_t first, int64_t last);

// The inverse of `pack`, for all tiles.
void unpack(const Format & format, const uint8_t * packed, uint8_t * target, int64_t k, int64_t n);

// A quantised row of activations: k signed bytes, then for each block of `Format::block` weights
//   256: a float scale; 8 sums of 32 bytes, then 16 sums of 16, as 16-bit integers
//    32: a float scale; the sum of its 32 bytes as a 32-bit integer; scale times sum, rounded to 16 bits, as a float
struct Row {
    const int8_t * q;
    const float * scale;
    const int16_t * sums32;
    const int16_t * sums16;
    const int32_t * sum;
    const float * scaled_sum;
};
size_t row_size(const Format & format, int64_t k);
Row row_at(const Format & format, const uint8_t * row, int64_t k);

// One set of kernels, built for one instruction set.
struct Kernels {
    const char * name;
    // Blocks [first, last) of a row.
    void (*quantise)(const Format & format, const float * x, uint8_t * row, int64_t k, int64_t first, int64_t last);
    // Tiles [first, last) of n_rows (at most kMostRows) products; ys[r][o] is output o of row r.
    void (*multiply)(const Format & format, const uint8_t * packed, const uint8_t * const * rows, int n_rows, int64_t k,
                     int64_t n, int64_t first, int64_t last, float * const * ys);
};

// The kernels that this processor can run, fastest first; `count` of them.
const Kernels * const * usable_kernels(int * count);

}  // namespace quant

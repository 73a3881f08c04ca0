// Layouts: the seven block types, their tiles and quantised rows.
#include "quant_matmul.h"

#include <string.h>

namespace quant {
namespace {

// A block in a file → its interleaved dwords and the tail; `back` turns it round.
struct Field {
    int offset;   // in the file's block
    int bytes;
};

constexpr Format kFormats[] = {
    {Q4_0, 32, 18, 4, 2, false},  {Q4_1, 32, 20, 4, 4, false},    {Q5_0, 32, 22, 5, 2, false},  {Q8_0, 32, 34, 8, 2, false},
    {Q4_K, 256, 144, 36, 0, true}, {Q5_K, 256, 176, 44, 0, true}, {Q6_K, 256, 210, 52, 2, true},
};

// Where the interleaved dwords and the tail lie in the file's block.
Field body_of(const Format & format) {
    switch (format.type) {
        case Q4_0:
        case Q8_0:
        case Q5_0:
            return {2, format.planes * 4};
        case Q4_1:
            return {4, format.planes * 4};
        default:
            return {0, format.planes * 4};
    }
}

Field tail_of(const Format & format) {
    return {format.type == Q6_K ? 208 : 0, format.tail};
}

// Bit k of the high bits of 32 weights → bit 8·(k % 4) + k / 4: one shift then gives those of four consecutive weights.
uint32_t spread(uint32_t bits) {
    uint32_t out = 0;
    for (int k = 0; k < 32; ++k) {
        out |= (bits >> k & 1) << (8 * (k % 4) + k / 4);
    }
    return out;
}

uint32_t gather(uint32_t bits) {
    uint32_t out = 0;
    for (int k = 0; k < 32; ++k) {
        out |= (bits >> (8 * (k % 4) + k / 4) & 1) << k;
    }
    return out;
}

// The line of a tile in which dword d of a block stands. Of Q6_K scales come first, then what is used together, as one goes
// straight on: for each half 8 times the low bits of a group of weights and the high bits of four, and the other low bits.
constexpr int line_of(int type, int d) {
    if (type != Q6_K) {
        return d;
    }
    if (d >= 48) {
        return d - 48;
    }
    const int half = d < 32 ? d / 16 : (d - 32) / 8, g = d % 8, first = 4 + 24 * half;
    return d >= 32 ? first + 2 * g + 1 : d % 16 < 8 ? first + 2 * g : first + 16 + g;
}

size_t padded(size_t bytes) {
    return (bytes + 63) & ~size_t(63);
}

}  // namespace

const Format * format_of(int type) {
    for (const Format & format : kFormats) {
        if (format.type == type) {
            return &format;
        }
    }
    return nullptr;
}

size_t tile_size(const Format & format, int64_t k) {
    return padded(size_t(k / format.block) * kTile * (format.planes * 4 + format.tail));
}

size_t packed_size(const Format & format, int64_t k, int64_t n) {
    return size_t((n + kTile - 1) / kTile) * tile_size(format, k);
}

namespace {

// One tile, row by row: in a file the rows of a tile lie one behind the other.
template <int type, int block_bytes, int body_offset, int planes, int tail_offset, int tail_bytes, bool spreads>
void pack_tile(const uint8_t * source, uint8_t * out, int64_t blocks, int64_t rows) {
    uint8_t * const tails = out + size_t(blocks) * planes * 4 * kTile;
    for (int64_t row = 0; row < kTile; ++row) {
        uint32_t * dwords = (uint32_t *)out + row;
        uint8_t * tail = tails + row * tail_bytes;
        for (int64_t b = 0; b < blocks; ++b, dwords += planes * kTile, tail += kTile * tail_bytes) {
            uint32_t words[planes] = {};
            if (row < rows) {
                memcpy(words, source + body_offset, sizeof(words));
                memcpy(tail, source + tail_offset, tail_bytes);
                source += block_bytes;
            } else {
                memset(tail, 0, tail_bytes);
            }
            if (spreads) {
                words[0] = spread(words[0]);
            }
            // Unrolled, so that places are constants.
#pragma GCC unroll 52
            for (int d = 0; d < planes; ++d) {
                dwords[line_of(type, d) * kTile] = words[d];
            }
        }
    }
}

template <int type, int block_bytes, int body_offset, int planes, int tail_offset, int tail_bytes, bool spreads>
bool pack_type(int wanted, const uint8_t * source, uint8_t * packed, size_t size, int64_t blocks, int64_t n, int64_t first, int64_t last) {
    if (type != wanted) {
        return false;
    }
    const size_t row_bytes = size_t(blocks) * block_bytes;
    for (int64_t tile = first; tile < last; ++tile) {
        pack_tile<type, block_bytes, body_offset, planes, tail_offset, tail_bytes, spreads>(
            source + size_t(tile * kTile) * row_bytes, packed + size_t(tile) * size, blocks, n - tile * kTile);
    }
    return true;
}

}  // namespace

void pack(const Format & format, const uint8_t * source, uint8_t * packed, int64_t k, int64_t n, int64_t first, int64_t last) {
    const int64_t blocks = k / format.block;
    const size_t size = tile_size(format, k);
    const auto with = [&](auto pack_one) { return pack_one(format.type, source, packed, size, blocks, n, first, last); };
    // Bytes of a block; where the dwords begin and how many there are; where the tail is and its bytes.
    with(pack_type<Q4_0, 18, 2, 4, 0, 2, false>) || with(pack_type<Q4_1, 20, 4, 4, 0, 4, false>) ||
        with(pack_type<Q5_0, 22, 2, 5, 0, 2, true>) || with(pack_type<Q8_0, 34, 2, 8, 0, 2, false>) ||
        with(pack_type<Q4_K, 144, 0, 36, 0, 0, false>) || with(pack_type<Q5_K, 176, 0, 44, 0, 0, false>) ||
        with(pack_type<Q6_K, 210, 0, 52, 208, 2, false>);
}

void unpack(const Format & format, const uint8_t * packed, uint8_t * target, int64_t k, int64_t n) {
    const int64_t blocks = k / format.block;
    const Field body = body_of(format), tail = tail_of(format);
    const size_t size = tile_size(format, k), row_bytes = size_t(blocks) * format.bytes;
    for (int64_t index = 0; index < n; ++index) {
        const int64_t row = index % kTile;
        const uint8_t * const tile = packed + size_t(index / kTile) * size;
        const uint8_t * const tails = tile + size_t(blocks) * format.planes * 4 * kTile;
        for (int64_t b = 0; b < blocks; ++b) {
            uint8_t * const block = target + size_t(index) * row_bytes + size_t(b) * format.bytes;
            const uint32_t * const dwords = (const uint32_t *)(tile + size_t(b) * format.planes * 4 * kTile);
            uint32_t words[52];
            for (int d = 0; d < format.planes; ++d) {
                words[d] = dwords[line_of(format.type, d) * kTile + row];
            }
            if (format.type == Q5_0) {
                words[0] = gather(words[0]);
            }
            memcpy(block + body.offset, words, body.bytes);
            memcpy(block + tail.offset, tails + (size_t(b) * kTile + row) * tail.bytes, tail.bytes);
        }
    }
}

size_t row_size(const Format & format, int64_t k) {
    return padded(size_t(k) + size_t(k / format.block) * (format.eights_k ? 4 + 16 + 32 : 12));
}

Row row_at(const Format & format, const uint8_t * row, int64_t k) {
    const int64_t blocks = k / format.block;
    const float * const scale = (const float *)(row + k);
    const int16_t * const sums = (const int16_t *)(scale + blocks);
    const int32_t * const sum = (const int32_t *)(scale + blocks);
    return {(const int8_t *)row, scale, sums, sums + 8 * blocks, sum, (const float *)(sum + blocks)};
}

}  // namespace quant

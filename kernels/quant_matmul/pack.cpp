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

void pack(const Format & format, const uint8_t * source, uint8_t * packed, int64_t k, int64_t n, int64_t first, int64_t last) {
    const int64_t blocks = k / format.block;
    const Field body = body_of(format), tail = tail_of(format);
    const size_t size = tile_size(format, k), row_bytes = size_t(blocks) * format.bytes;
    for (int64_t tile = first; tile < last; ++tile) {
        uint8_t * const out = packed + size_t(tile) * size;
        uint8_t * const tails = out + size_t(blocks) * format.planes * 4 * kTile;
        for (int64_t b = 0; b < blocks; ++b) {
            uint32_t * const dwords = (uint32_t *)(out + size_t(b) * format.planes * 4 * kTile);
            for (int row = 0; row < kTile; ++row) {
                const int64_t index = tile * kTile + row;
                if (index >= n) {
                    for (int d = 0; d < format.planes; ++d) {
                        dwords[d * kTile + row] = 0;
                    }
                    memset(tails + (size_t(b) * kTile + row) * tail.bytes, 0, tail.bytes);
                    continue;
                }
                const uint8_t * const block = source + size_t(index) * row_bytes + size_t(b) * format.bytes;
                uint32_t words[52];
                memcpy(words, block + body.offset, body.bytes);
                if (format.type == Q5_0) {
                    words[0] = spread(words[0]);
                }
                for (int d = 0; d < format.planes; ++d) {
                    dwords[d * kTile + row] = words[d];
                }
                memcpy(tails + (size_t(b) * kTile + row) * tail.bytes, block + tail.offset, tail.bytes);
            }
        }
    }
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
                words[d] = dwords[d * kTile + row];
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

// Which of the built kernels this processor can run, and plain C entries for Python.
#include "quant_matmul.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

namespace quant {

#if defined(__x86_64__)
extern const Kernels kernels_amx, kernels_avx512vnni, kernels_avxvnni, kernels_avx2;
#elif defined(__aarch64__)
extern const Kernels kernels_neon;
#endif

namespace {

#if defined(__x86_64__)

bool has_avx_vnni() {
    unsigned a = 7, b = 0, c = 1, d = 0;  // leaf 7, subleaf 1: bit 4 of eax
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return a >> 4 & 1;
}

// The tile unit's state is large: Linux wants to be asked before a process may use it.
bool may_use_tiles() {
#if defined(__linux__)
    unsigned a = 7, b = 0, c = 0, d = 0;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    constexpr unsigned kTilesAndBytes = 3u << 24;
    constexpr long kAskFor = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
    return (d & kTilesAndBytes) == kTilesAndBytes && syscall(SYS_arch_prctl, kAskFor, kTileData) == 0;
#else
    return false;
#endif
}

int find(const Kernels ** found) {
    int n = 0;
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni") && avx2) {
        if (may_use_tiles()) {
            found[n++] = &kernels_amx;
        }
        found[n++] = &kernels_avx512vnni;
    }
    if (avx2 && has_avx_vnni()) {
        found[n++] = &kernels_avxvnni;
    }
    if (avx2) {
        found[n++] = &kernels_avx2;
    }
    return n;
}

#elif defined(__aarch64__)

#if defined(__linux__)
#include <sys/auxv.h>
bool has_dot_products() {
    return getauxval(AT_HWCAP) & (1ul << 20);  // HWCAP_ASIMDDP
}
#else
bool has_dot_products() {
    return true;  // every Apple processor of this architecture
}
#endif

int find(const Kernels ** found) {
    if (!has_dot_products()) {
        return 0;
    }
    found[0] = &kernels_neon;
    return 1;
}

#else

int find(const Kernels **) {
    return 0;
}

#endif

}  // namespace

const Kernels * const * usable_kernels(int * count) {
    static const Kernels * found[4];
    static const int n = find(found);
    *count = n;
    return found;
}

}  // namespace quant

using namespace quant;

#pragma GCC visibility push(default)
extern "C" {

int quant_variants(void) {
    int n;
    usable_kernels(&n);
    return n;
}

const char * quant_variant_name(int variant) {
    int n;
    const Kernels * const * kernels = usable_kernels(&n);
    return variant < n ? kernels[variant]->name : "";
}

int64_t quant_packed_size(int type, int64_t k, int64_t n) {
    const Format * const format = format_of(type);
    return format && k > 0 && n > 0 && k % format->block == 0 ? int64_t(packed_size(*format, k, n)) : -1;
}

void quant_pack(int type, const uint8_t * source, uint8_t * packed, int64_t k, int64_t n) {
    pack(*format_of(type), source, packed, k, n, 0, (n + kTile - 1) / kTile);
}

void quant_unpack(int type, const uint8_t * packed, uint8_t * target, int64_t k, int64_t n) {
    unpack(*format_of(type), packed, target, k, n);
}

// y [m, n] = x [m, k] · Wᵀ. 0 on success, 1 without memory.
int quant_multiply(int variant, int type, const uint8_t * packed, const float * x, float * y, int64_t k, int64_t n, int64_t m,
                   int threads) {
    int count;
    const Kernels & kernels = *usable_kernels(&count)[variant];
    const Format & format = *format_of(type);
    const size_t size = row_size(format, k);
    uint8_t * const rows = (uint8_t *)aligned_alloc(64, size * size_t(m) + 64 - (size * size_t(m)) % 64);
    if (!rows) {
        return 1;
    }
    const int64_t tiles = (n + kTile - 1) / kTile;
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
#endif
    {
#ifdef _OPENMP
#pragma omp for
#endif
        for (int64_t r = 0; r < m; ++r) {
            kernels.quantise(format, x + r * k, rows + size_t(r) * size, k, 0, k / format.block);
        }
#ifdef _OPENMP
#pragma omp for
#endif
        for (int64_t tile = 0; tile < tiles; ++tile) {
            for (int64_t r = 0; r < m; r += kMostRows) {
                const uint8_t * in[kMostRows];
                float * out[kMostRows];
                const int some = int(m - r < kMostRows ? m - r : kMostRows);
                for (int i = 0; i < some; ++i) {
                    in[i] = rows + size_t(r + i) * size;
                    out[i] = y + (r + i) * n;
                }
                kernels.multiply(format, packed, in, some, k, n, tile, tile + 1, out);
            }
        }
    }
    (void)threads;
    free(rows);
    return 0;
}
}
#pragma GCC visibility pop

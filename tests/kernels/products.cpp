// Reads blocks and rows on standard input, writes their products: what test_quant_matmul_arm.py runs on another processor.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <vector>

extern "C" {
int64_t quant_packed_size(int type, int64_t k, int64_t n);
void quant_pack(int type, const uint8_t * source, uint8_t * packed, int64_t k, int64_t n);
int quant_multiply(int variant, int type, const uint8_t * packed, const float * x, float * y, int64_t k, int64_t n, int64_t m,
                   int threads);
int quant_variants(void);
}

int main(int, char ** argv) {
    const int type = atoi(argv[1]);
    const int64_t k = atoll(argv[2]), n = atoll(argv[3]), m = atoll(argv[4]), bytes = atoll(argv[5]);
    std::vector<uint8_t> blocks(size_t(n * bytes)), packed(size_t(quant_packed_size(type, k, n)));
    std::vector<float> x(size_t(m * k)), y(size_t(m * n));
    if (quant_variants() != 1 || fread(blocks.data(), 1, blocks.size(), stdin) != blocks.size() ||
        fread(x.data(), 4, x.size(), stdin) != x.size()) {
        return 1;
    }
    quant_pack(type, blocks.data(), packed.data(), k, n);
    if (quant_multiply(0, type, packed.data(), x.data(), y.data(), k, n, m, 1)) {
        return 1;
    }
    return fwrite(y.data(), 4, y.size(), stdout) != y.size();
}

// The name of the instruction set that a file is compiled for.
#pragma once

#if defined(PARDEC_AMX)
#define VARIANT amx
#elif defined(PARDEC_AVX512VNNI)
#define VARIANT avx512vnni
#elif defined(PARDEC_AVXVNNI)
#define VARIANT avxvnni
#elif defined(PARDEC_AVX2)
#define VARIANT avx2
#elif defined(PARDEC_NEON)
#define VARIANT neon
#endif

#define VARIANT_TEXT_(x) #x
#define VARIANT_TEXT(x) VARIANT_TEXT_(x)
#define VARIANT_JOIN_(a, b) a##_##b
#define VARIANT_JOIN(a, b) VARIANT_JOIN_(a, b)
#define VARIANT_NAME(base) VARIANT_JOIN(base, VARIANT)

/* XXH3 with AVX-512; see hash_avx2.c for why not BMI2. */
#include "base/cpu.h"

#ifdef CPU_X86

#include <immintrin.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "keys/hash_variant.h"
#include "keys/split.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))),       \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq")
#endif

#define HASH_VARIANT   hash_avx512
#define HASH_NAME      "avx512"
#define HASH_AVAILABLE cpu_has_avx512
#define XXH_VECTOR     XXH_AVX512
#include "keys/hash_body.h"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int hash_avx512_is_empty;
#endif

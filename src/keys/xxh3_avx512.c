/* SPDX-License-Identifier: MIT */
/* XXH3 with AVX-512. BMI2 is off, for the reason given in xxh3_avx2.c. */
#include "base/variant.h"

#ifdef CPU_X86

#include <immintrin.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "keys/split.h"
#include "keys/xxh3.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))),        \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq")
#endif

#define XXH3_VARIANT   xxh3_avx512
#define XXH3_NAME      "avx512"
#define XXH3_AVAILABLE cpu_has_avx512
#define XXH_VECTOR     XXH_AVX512
#include "keys/xxh3_body.h"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int hash_avx512_is_empty;
#endif

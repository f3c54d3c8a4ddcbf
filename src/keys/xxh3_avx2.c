/* SPDX-License-Identifier: MIT */
/* XXH3 with AVX2. BMI2 is off: gcc would use its multiplication, which costs a twentieth. */
#include "base/variant.h"

#ifdef CPU_X86

#include <immintrin.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "keys/split.h"
#include "keys/xxh3.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

#define XXH3_VARIANT   xxh3_avx2
#define XXH3_NAME      "avx2"
#define XXH3_AVAILABLE cpu_has_avx2
#define XXH_VECTOR     XXH_AVX2
#include "keys/xxh3_body.h"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int hash_avx2_is_empty;
#endif

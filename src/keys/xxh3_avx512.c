/* SPDX-License-Identifier: MIT */
/* XXH3 with AVX-512. BMI2 is off, for the reason given in xxh3_avx2.c. */
#include "base/variant.h"

#ifdef CPU_X86

#define XXH3_VARIANT   xxh3_avx512
#define XXH3_NAME      "avx512"
#define XXH3_AVAILABLE cpu_has_avx512
#define XXH3_TARGET    "avx512f,avx512bw,avx512vl,avx512dq"
#define XXH_VECTOR     XXH_AVX512
#include "keys/xxh3_body.h"

#else
typedef int hash_avx512_is_empty;
#endif

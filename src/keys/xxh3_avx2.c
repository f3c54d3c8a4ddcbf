/* SPDX-License-Identifier: MIT */
/* XXH3 with AVX2. BMI2 is off: gcc would use its multiplication, which costs a twentieth. */
#include "base/variant.h"

#ifdef CPU_X86

#define XXH3_VARIANT   xxh3_avx2
#define XXH3_NAME      "avx2"
#define XXH3_AVAILABLE cpu_has_avx2
#define XXH3_TARGET    "avx2"
#define XXH_VECTOR     XXH_AVX2
#include "keys/xxh3_body.h"

#else
typedef int hash_avx2_is_empty;
#endif

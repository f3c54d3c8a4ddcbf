/* SPDX-License-Identifier: MIT */
/* Queries with the instructions POPCNT, TZCNT and PDEP. */
#include "base/ahead.h"
#include "kind/counted/parts.h"

#ifdef CPU_X86

#include <immintrin.h>

#define QUERY         query_bmi2
#define TARGET        __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define COUNT_ONES(x) ((unsigned)__builtin_popcountll(x))
#define SELECT(x, i)  ((unsigned)__builtin_ctzll(_pdep_u64((uint64_t)1 << (i), x)))
#include "kind/counted/query_body.h"

const struct counted_variant counted_bmi2 = {{"bmi2", cpu_has_avx2}, query_bmi2};

#endif

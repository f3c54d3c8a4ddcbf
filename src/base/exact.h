/* SPDX-License-Identifier: MIT
 * Arithmetic with the same result to the last bit on every machine. The functions of doubles, on
 * which sizes of filters depend, use + - * / and sqrt only; the build forbids fused multiply-add.
 */
#ifndef BASE_EXACT_H
#define BASE_EXACT_H

#include <float.h>
#include <stdint.h>

#if FLT_EVAL_METHOD < 0 || FLT_EVAL_METHOD > 1
#error "doubles are computed with more digits than they have; on i386, use -msse2 -mfpmath=sse"
#endif

/* The natural logarithm of x > 0, to about one unit in the last place. */
double exact_log(double x);

/* e^x for x <= 0. */
double exact_exp_negative(double x);

/* x^n for a whole number n >= 0, by squaring. */
double exact_power(double x, double n);

/* ---- Both halves of a 64 x 64 -> 128 bit product, with and without compiler support. */

static inline uint64_t mul_wide(uint64_t a, uint64_t b, uint64_t *low)
{
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 uint128;
    uint128 product = (uint128)a * b;
    *low = (uint64_t)product;
    return (uint64_t)(product >> 64);
#else
    uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    uint64_t mid = ah * bl + (al * bl >> 32);
    uint64_t mid2 = al * bh + (uint32_t)mid;
    *low = a * b;
    return ah * bh + (mid >> 32) + (mid2 >> 32);
#endif
}

/* floor(a * b / 2^64). If a is a uniform 64-bit hash, the result is a uniform integer below b. */
static inline uint64_t mul_high(uint64_t a, uint64_t b)
{
    uint64_t low;
    return mul_wide(a, b, &low);
}

/* Both halves folded into one word: every bit of the result depends on every bit of a. */
static inline uint64_t mul_fold(uint64_t a, uint64_t b)
{
    uint64_t low, high = mul_wide(a, b, &low);
    return high ^ low;
}

#endif

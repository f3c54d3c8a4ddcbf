/* SPDX-License-Identifier: MIT */
/* Ribbon queries with AVX2: four columns in a register, eight at a time. */
#include "kind/ribbon/key.h"

#ifdef CPU_X86

#include <immintrin.h>

#define AVX2        __attribute__((target("avx2,bmi,bmi2")))
#define AVX2_INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2")))

/* Bytes whose sum has the parity of x: looks up the parity of each nibble. */
AVX2_INLINE __m256i parities(__m256i x)
{
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i odd =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0));
    __m256i folded = _mm256_xor_si256(x, _mm256_srli_epi16(x, 4));
    return _mm256_shuffle_epi8(odd, _mm256_and_si256(folded, low));
}

/* One bit for each of the columns in `lanes`, at most four: the parity of the selected bits at a
 * and b. */
AVX2_INLINE unsigned odd_columns(const uint8_t *a, const uint8_t *b, __m256i low, __m256i high,
                                 __m256i lanes)
{
    __m256i x =
        _mm256_and_si256(_mm256_maskload_epi64((const long long *)(const void *)a, lanes), low);
    __m256i y =
        _mm256_and_si256(_mm256_maskload_epi64((const long long *)(const void *)b, lanes), high);
    __m256i sum = _mm256_sad_epu8(parities(_mm256_xor_si256(x, y)), _mm256_setzero_si256());
    return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_slli_epi64(sum, 63)));
}

/* No load goes past the last column: with four or more columns, the last registers overlap
 * (avx512.c). With more than 16 columns, stops early: a mispredicted branch costs less than the
 * other columns. */
AVX2_INLINE bool agrees_avx2(const uint8_t *a, const uint8_t *b, uint64_t low, uint64_t high,
                             uint32_t fingerprint, unsigned columns, unsigned most)
{
    __m256i lows = _mm256_set1_epi64x((long long)low);
    __m256i highs = _mm256_set1_epi64x((long long)high);
    __m256i lanes =
        _mm256_cmpgt_epi64(_mm256_set1_epi64x((long long)columns), _mm256_setr_epi64x(0, 1, 2, 3));
    unsigned last = columns < 4 ? 0 : columns - 4;
    uint32_t odd = 0;
#pragma GCC unroll 8
    for (unsigned j = 0; j < most; j += 4) {
        if (most > 16 && j % 8 == 0 && (j >= columns || _bzhi_u32(odd ^ fingerprint, j) != 0))
            break;
        unsigned at = j < last ? j : last;
        odd |= odd_columns(a + 8 * at, b + 8 * at, lows, highs, lanes) << at;
    }
    return _bzhi_u32(odd ^ fingerprint, columns) == 0;
}

#define ANSWER answer_avx2
#define TARGET AVX2
#define AGREES agrees_avx2
#include "kind/ribbon/answer_body.h"

const struct ribbon_variant ribbon_avx2 = {
    {"avx2", cpu_has_avx2}, ribbon_aim_plain, answer_avx2,
    ribbon_derive_plain,    ribbon_add_plain, ribbon_solve_plain};

#endif

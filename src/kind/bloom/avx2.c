/* SPDX-License-Identifier: MIT
 * Bloom queries and insertions with AVX2: handles seven probes at a time: those of one word, each
 * in 32 bits. Probe i begins at bit i of byte i of the word. A shuffle fetches its two bytes and a
 * shift moves it to the lowest bits. The probe selects one of the line's 16 words of 32 bits, which
 * fill two registers.
 */
#include "kind/bloom/probe.h"

#ifdef CPU_X86

#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2")))

TARGET BLOOM_INLINE __m256i look_up(const uint8_t *line, __m256i probe)
{
    __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)line);
    __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(line + 32));
    __m256i index = _mm256_srli_epi32(probe, 5); /* the permutation uses the low three bits */
    low = _mm256_permutevar8x32_epi32(low, index);
    high = _mm256_permutevar8x32_epi32(high, index);
    __m256i top = _mm256_slli_epi32(probe, 31 - 8);
    return _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high),
                                                _mm256_castsi256_ps(top)));
}

TARGET BLOOM_INLINE bool test_line(const uint8_t *line, uint64_t hash, unsigned first, unsigned end)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i bytes =
        _mm256_setr_epi8(0, 1, -1, -1, 1, 2, -1, -1, 2, 3, -1, -1, 3, 4, -1, -1, /* probes 0 to 3 */
                         4, 5, -1, -1, 5, 6, -1, -1, 6, 7, -1, -1, -1, -1, -1, -1);
    __m256i missing = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (unsigned t = 0; t < WORDS; t++) {
        unsigned from = bloom_probes(t, first), to = bloom_probes(t, end);
        if (from == to)
            continue;
        __m256i word = _mm256_set1_epi64x((long long)bloom_word(hash, t));
        __m256i probe = _mm256_srlv_epi32(_mm256_shuffle_epi8(word, bytes), lane);
        __m256i in_use = _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)from), lane),
                                             _mm256_cmpgt_epi32(_mm256_set1_epi32((int)to), lane));
        __m256i bit = _mm256_sllv_epi32(_mm256_srli_epi32(in_use, 31),
                                        _mm256_and_si256(probe, _mm256_set1_epi32(31)));
        missing = _mm256_or_si256(missing, _mm256_andnot_si256(look_up(line, probe), bit));
    }
    return _mm256_testz_si256(missing, missing);
}

/* A line, or bits to be set in one. */
typedef struct {
    __m256i low, high;
} line_bits;

TARGET BLOOM_INLINE line_bits load_line(const void *line)
{
    const __m256i *half = line;
    return (line_bits){_mm256_load_si256(half), _mm256_load_si256(half + 1)};
}

TARGET BLOOM_INLINE line_bits or_lines(line_bits x, line_bits y)
{
    return (line_bits){_mm256_or_si256(x.low, y.low), _mm256_or_si256(x.high, y.high)};
}

/* Returns whether all bits were already set. */
TARGET BLOOM_INLINE bool set_line(uint8_t *line, line_bits bits)
{
    line_bits before = load_line(line), after = or_lines(before, bits);
    __m256i *half = (__m256i *)(void *)line;
    _mm256_store_si256(half, after.low);
    _mm256_store_si256(half + 1, after.high);
    return _mm256_testc_si256(before.low, bits.low) & _mm256_testc_si256(before.high, bits.high);
}

#include "kind/bloom/body.h"

const struct bloom_variant bloom_avx2 = {{"avx2", cpu_has_avx2},
                                         .test_first = test_first,
                                         .test_second = test_second,
                                         .insert = insert,
                                         .test_insert = test_insert};

#endif

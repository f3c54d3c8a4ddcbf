/* SPDX-License-Identifier: MIT */
/* Bloom queries and insertions with wide vectors. */
#include "kind/bloom/probe.h"

#ifdef CPU_X86

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

/*
 * AVX2: handles seven probes at a time: those of one word, each in 32 bits. Probe i begins at bit i
 * of byte i of the word. A shuffle fetches its two bytes and a shift moves it to the lowest bits.
 * The probe selects one of the line's 16 words of 32 bits, which fill two registers.
 */
#define TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2")))

TARGET_AVX2 INLINE __m256i look_up(const uint8_t *line, __m256i probe)
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

TARGET_AVX2 INLINE bool test_avx2(const uint8_t *line, uint64_t hash, unsigned first, unsigned end)
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
} bits_avx2;

TARGET_AVX2 INLINE bits_avx2 load_avx2(const void *line)
{
    const __m256i *half = line;
    return (bits_avx2){_mm256_load_si256(half), _mm256_load_si256(half + 1)};
}

TARGET_AVX2 INLINE bits_avx2 or_avx2(bits_avx2 x, bits_avx2 y)
{
    return (bits_avx2){_mm256_or_si256(x.low, y.low), _mm256_or_si256(x.high, y.high)};
}

/* Returns whether all bits were already set. */
TARGET_AVX2 INLINE bool set_line_avx2(uint8_t *line, bits_avx2 bits)
{
    bits_avx2 before = load_avx2(line), after = or_avx2(before, bits);
    __m256i *half = (__m256i *)(void *)line;
    _mm256_store_si256(half, after.low);
    _mm256_store_si256(half + 1, after.high);
    return _mm256_testc_si256(before.low, bits.low) & _mm256_testc_si256(before.high, bits.high);
}

#define VARIANT avx2
#define TARGET  TARGET_AVX2
#include "kind/bloom/set_body.h"
#include "kind/bloom/body.h"

const struct bloom_variant bloom_avx2 = {
    {"avx2", cpu_has_avx2}, test_first_avx2, test_second_avx2, insert_avx2, test_insert_avx2};

/*
 * AVX-512 with VBMI: handles all probes at a time, each in a byte. The line is one register of 64
 * bytes; one permutation looks up the probes' bytes. An instruction that extracts unaligned bytes
 * of the words is used twice: for a probe's upper six bits, the byte in the line, and for its lower
 * three bits, the bit in that byte.
 */
#define TARGET_AVX512                                                                              \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi,bmi2")))

/* Where each byte's probe begins in its word; the eighth is unused. */
#define BEGINS 0, 9, 18, 27, 36, 45, 54, 63
#define POWERS 1, 2, 4, 8, 16, 32, 64, -128

TARGET_AVX512 INLINE bool test_avx512(const uint8_t *line, uint64_t hash, unsigned first,
                                      unsigned end)
{
    const __m256i begins = _mm256_setr_epi8(BEGINS, BEGINS, BEGINS, BEGINS);
    const __m256i powers = _mm256_setr_epi8(POWERS, POWERS, POWERS, POWERS);
    uint64_t word[WORDS];
    uint32_t in_use = 0;
#pragma GCC unroll 4
    for (unsigned t = 0; t < WORDS; t++) {
        unsigned from = bloom_probes(t, first), to = bloom_probes(t, end);
        word[t] = from < to ? bloom_word(hash, t) : 0;
        in_use |= ((1U << to) - (1U << from)) << 8 * t;
    }
    __m256i words = _mm256_setr_epi64x((long long)word[0], (long long)word[1], (long long)word[2],
                                       (long long)word[3]);
    __m256i bit = _mm256_multishift_epi64_epi8(begins, words);
    __m256i byte =
        _mm256_multishift_epi64_epi8(_mm256_add_epi8(begins, _mm256_set1_epi8(3)), words);
    __m512i bytes = _mm512_permutexvar_epi8(_mm512_castsi256_si512(byte), _mm512_loadu_si512(line));
    bit = _mm256_shuffle_epi8(powers, _mm256_and_si256(bit, _mm256_set1_epi8(7)));
    __mmask32 missing = _mm256_testn_epi8_mask(_mm512_castsi512_si256(bytes), bit);
    return (missing & in_use) == 0;
}

/* Returns whether all bits were already set. */
TARGET_AVX512 INLINE bool set_line_avx512(uint8_t *line, __m512i bits)
{
    __m512i before = _mm512_load_si512(line), missing = _mm512_andnot_si512(before, bits);
    _mm512_store_si512(line, _mm512_or_si512(before, bits));
    return _mm512_test_epi64_mask(missing, missing) == 0;
}

typedef __m512i bits_avx512;
#define load_avx512 _mm512_load_si512
#define or_avx512   _mm512_or_si512

#define VARIANT avx512
#define TARGET  TARGET_AVX512
#include "kind/bloom/set_body.h"
#include "kind/bloom/body.h"

const struct bloom_variant bloom_avx512 = {{"avx512", cpu_has_avx512_bits},
                                           test_first_avx512,
                                           test_second_avx512,
                                           insert_avx512,
                                           test_insert_avx512};

#endif

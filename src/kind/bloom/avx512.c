/* SPDX-License-Identifier: MIT
 * Bloom queries and insertions with AVX-512 and VBMI: handles all probes at a time, each in a byte.
 * The line is one register of 64 bytes; one permutation looks up the probes' bytes. An instruction
 * that extracts unaligned bytes of the words is used twice: for a probe's upper six bits, the byte
 * in the line, and for its lower three bits, the bit in that byte.
 */
#include "kind/bloom/probe.h"

#ifdef CPU_X86

#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi,bmi2")))

/* Where each byte's probe begins in its word; the eighth is unused. */
#define BEGINS 0, 9, 18, 27, 36, 45, 54, 63
#define POWERS 1, 2, 4, 8, 16, 32, 64, -128

TARGET BLOOM_INLINE bool test_line(const uint8_t *line, uint64_t hash, unsigned first, unsigned end)
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
TARGET BLOOM_INLINE bool set_line(uint8_t *line, __m512i bits)
{
    __m512i before = _mm512_load_si512(line), missing = _mm512_andnot_si512(before, bits);
    _mm512_store_si512(line, _mm512_or_si512(before, bits));
    return _mm512_test_epi64_mask(missing, missing) == 0;
}

typedef __m512i line_bits;
#define load_line _mm512_load_si512
#define or_lines  _mm512_or_si512

#include "kind/bloom/body.h"

const struct bloom_variant bloom_avx512 = {{"avx512", cpu_has_avx512_bits},
                                           .test_first = test_first,
                                           .test_second = test_second,
                                           .insert = insert,
                                           .test_insert = test_insert};

#endif

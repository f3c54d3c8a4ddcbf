/*
 * Bloom queries with wide vectors. A line of 512 bits is one AVX-512 register of 8 words, so the seven
 * probes that come from one 64-bit word of a key's hash are looked up with one permutation of it. (Bits
 * are not set this way: making a register with k bits at computed places costs more than k plain stores.)
 */
#include "bloom_probe.h"

#ifdef BLOOM_X86

#include <immintrin.h>

#include "cpu.h"

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,bmi2")))
#define AVX512_INLINE static inline __attribute__((always_inline, target("avx512f,avx512bw,avx512dq,bmi2")))

enum { WORDS = (BLOOM_MAX_K + PROBES_IN_WORD - 1) / PROBES_IN_WORD };

/* Lane i: where probe i of a word begins in it. The eighth lane is never looked at. */
AVX512_INLINE __m512i probe_shifts(void)
{
    return _mm512_setr_epi64(0, 9, 18, 27, 36, 45, 54, 63);
}

/* What is the same for all keys of a filter: which lanes of word t are probes, and which of them go to
 * the second line. */
struct lanes {
    unsigned words;
    __mmask8 used[WORDS], second[WORDS];
};

static struct lanes lanes_of(const struct bloom *bloom)
{
    struct lanes l = {.words = (bloom->k + PROBES_IN_WORD - 1) / PROBES_IN_WORD};
    for (unsigned i = 0; i < bloom->k; i++) {
        __mmask8 lane = (__mmask8)(1U << i % PROBES_IN_WORD);
        l.used[i / PROBES_IN_WORD] |= lane;
        if (bloom->lines == 2 && i >= bloom->k / 2)
            l.second[i / PROBES_IN_WORD] |= lane;
    }
    return l;
}

AVX512_INLINE void query(const struct bloom *bloom, const uint8_t *data, uint64_t first_page,
                         const uint64_t *hash, size_t n, uint64_t *present, unsigned lines)
{
    struct lanes l = lanes_of(bloom);
    bloom_prefetch_first(bloom, data, first_page, hash, n, lines);
    for (size_t i = 0; i < n; i++) {
        bloom_prefetch_ahead(bloom, data, first_page, hash, i, n, lines);
        struct bloom_place place = bloom_place(bloom, first_page, hash[i], lines);
        __m512i a = _mm512_loadu_si512(data + place.a);
        __m512i b = lines == 2 ? _mm512_loadu_si512(data + place.b) : a;
        unsigned all = 1;
        for (unsigned t = 0; t < l.words; t++) {
            __m512i word = _mm512_set1_epi64((long long)bloom_word(hash[i], t));
            __m512i probe = _mm512_srlv_epi64(word, probe_shifts());
            __m512i index = _mm512_srli_epi64(probe, 6);
            __m512i bits = _mm512_permutexvar_epi64(index, a);
            if (lines == 2)
                bits = _mm512_mask_permutexvar_epi64(bits, l.second[t], index, b);
            bits = _mm512_rorv_epi64(bits, probe);
            __mmask8 set = _mm512_test_epi64_mask(bits, _mm512_set1_epi64(1));
            all &= (set & l.used[t]) == l.used[t];
        }
        present[i / 64] |= (uint64_t)all << i % 64;
    }
}

AVX512 static void query_avx512(const struct bloom *bloom, const uint8_t *data,
                                uint64_t first_page, const uint64_t *hash, size_t n,
                                uint64_t *present)
{
    if (bloom->lines == 1)
        query(bloom, data, first_page, hash, n, present, 1);
    else
        query(bloom, data, first_page, hash, n, present, 2);
}

const struct bloom_variant bloom_avx512 = {"avx512", query_avx512, cpu_has_avx512};

#endif

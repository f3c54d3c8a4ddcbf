/* Ribbon queries and solving with wide vectors: a register of 512 bits takes 8 columns at once, and the
 * parity of each is the low bit of its population count. */
#include "ribbon_key.h"

#ifdef CPU_X86

#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,avx512vpopcntdq,bmi2")))

AVX512 static void answer_avx512(const uint8_t *data, const struct ribbon_probe *probe, size_t n,
                                 uint64_t *present)
{
    const __m512i one = _mm512_set1_epi64(1);
    for (size_t i = 0; i < n; i++) {
        const struct ribbon_probe *p = &probe[i];
        const uint8_t *a = data + p->low, *b = data + p->high;
        uint64_t c_low = p->coefficients << p->offset;
        uint64_t c_high = p->coefficients >> 1 >> (63 - p->offset);
        __m512i low = _mm512_set1_epi64((long long)c_low);
        __m512i high = _mm512_set1_epi64((long long)c_high);
        uint64_t same = 1;
        for (unsigned j = 0; j < p->columns && same; j += 8) {
            unsigned left = p->columns - j;
            __mmask8 lanes = (__mmask8)(left < 8 ? (1U << left) - 1 : 0xff);
            __m512i both = _mm512_xor_epi64(
                _mm512_and_epi64(_mm512_maskz_loadu_epi64(lanes, a + 8 * j), low),
                _mm512_and_epi64(_mm512_maskz_loadu_epi64(lanes, b + 8 * j), high));
            unsigned odd = _mm512_test_epi64_mask(_mm512_popcnt_epi64(both), one);
            same = ((odd ^ p->fingerprint >> j) & lanes) == 0;
        }
        present[p->key / 64] |= same << p->key % 64;
    }
}

#define AVX512_INLINE                                                                              \
    static inline __attribute__((                                                                  \
        always_inline, target("avx512f,avx512dq,avx512vl,avx512vpopcntdq,bmi2")))

/* With the number of registers known to the compiler, the columns stay in them. */
AVX512_INLINE void solve(const uint64_t *coefficients, const uint32_t *bits, unsigned columns,
                         uint64_t *s, unsigned registers)
{
    const __m512i one = _mm512_set1_epi64(1);
    __m512i column[4];
    for (unsigned v = 0; v < registers; v++) {
        unsigned left = columns - 8 * v;
        column[v] = _mm512_maskz_loadu_epi64((__mmask8)(left < 8 ? (1U << left) - 1 : 0xff),
                                             s + 8 * v);
    }
    for (unsigned slot = RIBBON_WIDTH; slot-- > 0;) {
        __m512i c = _mm512_set1_epi64((long long)coefficients[slot]);
        for (unsigned v = 0; v < registers; v++) {
            __m512i shifted = _mm512_add_epi64(column[v], column[v]);
            unsigned odd =
                _mm512_test_epi64_mask(_mm512_popcnt_epi64(_mm512_and_epi64(shifted, c)), one);
            __mmask8 set = (__mmask8)(odd ^ bits[slot] >> 8 * v);
            column[v] = _mm512_mask_or_epi64(shifted, set, shifted, one);
        }
    }
    for (unsigned v = 0; v < registers; v++) {
        unsigned left = columns - 8 * v;
        _mm512_mask_storeu_epi64(s + 8 * v, (__mmask8)(left < 8 ? (1U << left) - 1 : 0xff),
                                 column[v]);
    }
}

AVX512 static void solve_avx512(const uint64_t *coefficients, const uint32_t *bits,
                                unsigned columns, uint64_t *s)
{
    if (columns <= 8)
        solve(coefficients, bits, columns, s, 1);
    else if (columns <= 16)
        solve(coefficients, bits, columns, s, 2);
    else if (columns <= 24)
        solve(coefficients, bits, columns, s, 3);
    else
        solve(coefficients, bits, columns, s, 4);
}

const struct ribbon_variant ribbon_avx512 = {
    {"avx512", cpu_has_avx512_bits}, answer_avx512, solve_avx512};

#endif

/* HighwayHash with AVX2: a register holds four lanes. */
#include "base/cpu.h"

#ifdef CPU_X86

#include <immintrin.h>

#include "keys/highway_variant.h"

#define AVX2        __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((always_inline, target("avx2")))

struct state {
    __m256i a, b, mul_a, mul_b;
};

AVX2_INLINE __m256i load(const void *p)
{
    return _mm256_loadu_si256(p);
}

AVX2_INLINE __m256i swap_halves(__m256i x)
{
    return _mm256_shuffle_epi32(x, 0xb1);
}

/* Each half of x is two words: bytes 0 to 7 are the first word, 8 to 15 the second. */
AVX2_INLINE __m256i zip(__m256i x)
{
    return _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                      3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7)));
}

AVX2_INLINE void update(struct state *s, __m256i packet)
{
    s->b = _mm256_add_epi64(s->b, _mm256_add_epi64(s->mul_a, packet));
    s->mul_a = _mm256_xor_si256(s->mul_a, _mm256_mul_epu32(s->b, _mm256_srli_epi64(s->a, 32)));
    s->a = _mm256_add_epi64(s->a, s->mul_b);
    s->mul_b = _mm256_xor_si256(s->mul_b, _mm256_mul_epu32(s->a, _mm256_srli_epi64(s->b, 32)));
    s->a = _mm256_add_epi64(s->a, zip(s->b));
    s->b = _mm256_add_epi64(s->b, zip(s->a));
}

AVX2_INLINE void update_rest(struct state *s, const char *data, unsigned n)
{
    char packet[HIGHWAY_PACKET];
    highway_rest(data, n, packet);
    s->a = _mm256_add_epi64(s->a, _mm256_set1_epi64x((long long)((uint64_t)n << 32 | n)));
    s->b = _mm256_or_si256(_mm256_sll_epi32(s->b, _mm_cvtsi32_si128((int)n)),
                           _mm256_srl_epi32(s->b, _mm_cvtsi32_si128((int)(32 - n))));
    update(s, load(packet));
}

AVX2 static void one(const char *data, size_t len, uint64_t *out, size_t stride)
{
    struct state s = {.mul_a = load(highway_begin0), .mul_b = load(highway_begin1)};
    s.a = _mm256_xor_si256(s.mul_a, load(highway_key));
    s.b = _mm256_xor_si256(s.mul_b, swap_halves(load(highway_key)));
    for (; len >= HIGHWAY_PACKET; len -= HIGHWAY_PACKET, data += HIGHWAY_PACKET)
        update(&s, load(data));
    if (len > 0)
        update_rest(&s, data, (unsigned)len);
    for (unsigned i = 0; i < HIGHWAY_LAST; i++)
        update(&s, swap_halves(_mm256_permute4x64_epi64(s.a, 0x4e)));
    __m128i a = _mm256_castsi256_si128(_mm256_add_epi64(s.a, s.mul_a));
    __m128i b = _mm256_extracti128_si256(_mm256_add_epi64(s.b, s.mul_b), 1);
    __m128i sum = _mm_add_epi64(a, b);
    _mm_storel_epi64((void *)out, sum);
    _mm_storel_epi64((void *)(out + stride), _mm_unpackhi_epi64(sum, sum));
}

const struct highway_variant highway_avx2 = {{"avx2", cpu_has_avx2}, one};

#else
typedef int highway_avx2_is_empty;
#endif

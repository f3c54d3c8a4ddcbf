/* SPDX-License-Identifier: MIT */
#include "keys/split.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/ahead.h"
#include "base/bytes.h"
#include "base/variant.h"

#ifdef CPU_X86
#include <immintrin.h>
#endif
#ifdef CPU_NEON
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline, unused)) /* on some machines */

/* Takes the next bit without testing whether there is one: a branch for each bit would depend on
 * the data and be mispredicted. Entries stored for missing bits are overwritten by the next block's
 * entries, or are not counted. The number of bits is tested after four and then after each eight;
 * with lines of 16 bytes or more, the second test is rare. */
INLINE size_t store_bits(const char **next, uint64_t bits, const char *p)
{
    const uint64_t top = UINT64_C(1) << 63; /* zero has no set bit to find */
    size_t n = (size_t)__builtin_popcountll(bits);
    for (size_t i = 0; i < 4; i++, bits &= bits - 1)
        next[i] = p + 1 + __builtin_ctzll(bits | top);
    for (size_t done = 4; done < n; done += 8)
        for (size_t i = done; i < done + 8; i++, bits &= bits - 1)
            next[i] = p + 1 + __builtin_ctzll(bits | top);
    return n;
}

/* Bit i of the result: the exclusive or of bits 0 to i. */
INLINE uint64_t xor_of_lower(uint64_t bits)
{
    bits ^= bits << 1; /* a loop of these stays a loop, at a third of the speed */
    bits ^= bits << 2;
    bits ^= bits << 4;
    bits ^= bits << 8;
    bits ^= bits << 16;
    return bits ^ bits << 32;
}

/* Stores the places of the first two bits, and returns the others. */
INLINE uint64_t store_two(uint32_t *place, uint64_t bits, uint32_t at)
{
    const uint64_t top = UINT64_C(1) << 63;
    place[0] = at + (uint32_t)__builtin_ctzll(bits | top);
    bits &= bits - 1;
    place[1] = at + (uint32_t)__builtin_ctzll(bits | top);
    return bits & (bits - 1);
}

/* Stores the place of each set bit i, at + i, and returns where the next one goes; may write up to
 * SPLIT_SLACK entries. Up to `usual` bits, 2 or 8, no branch depends on the data. */
INLINE uint32_t *store_places(uint32_t *place, uint64_t bits, uint32_t at, size_t usual)
{
    size_t n = (size_t)__builtin_popcountll(bits);
    bits = store_two(place, bits, at);
    if (usual > 2) {
        bits = store_two(place + 2, bits, at);
        bits = store_two(place + 4, bits, at);
        bits = store_two(place + 6, bits, at);
    }
    for (size_t done = usual; done < n; done += 2)
        bits = store_two(place + done, bits, at);
    return place + n;
}

/* Where the next entries of split_csv() go. */
struct csv_places {
    uint32_t *place, *end;
};

/* --- Any CPU: eight bytes at a time --- */

/* Bit i is set if byte i of the eight equals the repeated one. */
INLINE uint64_t matches8(const char *p, uint64_t repeated)
{
    const uint64_t low7 = UINT64_C(0x7f7f7f7f7f7f7f7f);
    uint64_t x = get_le64(p) ^ repeated;
    /* The top bit of each byte: the byte is not zero. The sum of seven bits and 0x7f does not
     * carry. */
    uint64_t other = ((x & low7) + low7) | x;
    /* The product gathers the top bits of bytes 0 to 7 in the top byte: byte i has its neighbours'
     * bits beside its own, and no two sums collide. */
    return ((~other >> 7 & UINT64_C(0x0101010101010101)) * UINT64_C(0x0102040810204080)) >> 56;
}

INLINE uint64_t matches_plain(const char *p, char c)
{
    uint64_t repeated = UINT64_C(0x0101010101010101) * (unsigned char)c, bits = 0;
    for (unsigned i = 0; i < 64; i += 8)
        bits |= matches8(p + i, repeated) << i;
    return bits;
}

/* Without a popcount instruction, finding the last bit is faster. */
INLINE size_t store_each(const char **next, uint64_t bits, const char *p)
{
    size_t n = 0;
    for (; bits; bits &= bits - 1)
        next[n++] = p + 1 + __builtin_ctzll(bits);
    return n;
}

#define SPLIT    split_plain
#define CSV_ENDS csv_ends_plain
#define CSV_BARE csv_bare_plain
#define CSV_CUT  csv_cut_plain
#define TARGET
#define MATCHES matches_plain
#define STORE   store_each
#include "keys/split_body.h"
#include "keys/csv_body.h"

#ifdef CPU_X86

/* --- SSE2, part of every such CPU --- */

INLINE uint64_t matches_sse2(const char *p, char c)
{
    const __m128i wanted = _mm_set1_epi8(c);
    uint64_t bits = 0;
    for (unsigned i = 0; i < 64; i += 16) {
        __m128i part = _mm_loadu_si128((const __m128i *)(const void *)(p + i));
        bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(part, wanted)) << i;
    }
    return bits;
}

#define SPLIT    split_sse2
#define CSV_ENDS csv_ends_sse2
#define CSV_BARE csv_bare_sse2
#define CSV_CUT  csv_cut_sse2
#define TARGET
#define MATCHES matches_sse2
#define STORE   store_each
#include "keys/split_body.h"
#include "keys/csv_body.h"

/* --- AVX2 --- */

#define TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))

TARGET_AVX2 INLINE uint64_t matches_avx2(const char *p, char c)
{
    const __m256i wanted = _mm256_set1_epi8(c);
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)p);
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(p + 32));
    uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, wanted));
    uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(b, wanted));
    return low | (uint64_t)high << 32;
}

#define SPLIT    split_avx2
#define CSV_ENDS csv_ends_avx2
#define CSV_BARE csv_bare_avx2
#define CSV_CUT  csv_cut_avx2
#define TARGET   TARGET_AVX2
#define MATCHES  matches_avx2
#define STORE    store_bits
#include "keys/split_body.h"
#include "keys/csv_body.h"

/* --- AVX-512 with VBMI2, which packs the bit numbers in one step --- */

#define TARGET_VBMI2                                                                               \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,bmi,bmi2,popcnt")))

TARGET_VBMI2 INLINE uint64_t matches_avx512(const char *p, char c)
{
    return _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(p), _mm512_set1_epi8(c));
}

/* Stores p + 1 + x for each of the eight bytes x. */
TARGET_VBMI2 INLINE void store8(const char **next, __m128i bytes, __m512i behind)
{
    _mm512_storeu_si512(next, _mm512_add_epi64(behind, _mm512_cvtepu8_epi64(bytes)));
}

TARGET_VBMI2 INLINE size_t store_packed(const char **next, uint64_t bits, const char *p)
{
    const __m512i numbers = _mm512_set_epi8(
        63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41,
        40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18,
        17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i behind = _mm512_set1_epi64((long long)(uintptr_t)(p + 1));
    __m512i packed = _mm512_maskz_compress_epi8(bits, numbers);
    size_t n = (size_t)__builtin_popcountll(bits);
    store8(next, _mm512_castsi512_si128(packed), behind);
    if (n > 8) {
        unsigned char byte[64 + 8];
        _mm512_storeu_si512(byte, packed);
        for (size_t done = 8; done < n; done += 8)
            store8(next + done, _mm_loadl_epi64((const __m128i *)(const void *)(byte + done)),
                   behind);
    }
    return n;
}

#define SPLIT    split_vbmi2
#define CSV_ENDS csv_ends_vbmi2
#define CSV_BARE csv_bare_vbmi2
#define CSV_CUT  csv_cut_vbmi2
#define TARGET   TARGET_VBMI2
#define MATCHES  matches_avx512
#define STORE    store_packed
#include "keys/split_body.h"
#include "keys/csv_body.h"

#endif

#ifdef CPU_NEON

/* --- NEON --- */

/* Keeps one bit of each byte that matches, a different one in each of eight neighbours; then adds
 * neighbours until eight bytes have become one. */
INLINE uint64_t matches_neon(const char *p, char c)
{
    static const uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t weight = vld1q_u8(weights), wanted = vdupq_n_u8((uint8_t)c);
    uint8x16_t part[4];
    for (unsigned i = 0; i < 4; i++)
        part[i] = vandq_u8(vceqq_u8(vld1q_u8((const uint8_t *)p + 16 * i), wanted), weight);
    uint8x16_t sum = vpaddq_u8(vpaddq_u8(part[0], part[1]), vpaddq_u8(part[2], part[3]));
    sum = vpaddq_u8(sum, sum);
    return vgetq_lane_u64(vreinterpretq_u64_u8(sum), 0);
}

#define SPLIT    split_neon
#define CSV_ENDS csv_ends_neon
#define CSV_BARE csv_bare_neon
#define CSV_CUT  csv_cut_neon
#define TARGET
#define MATCHES matches_neon
#define STORE   store_bits
#include "keys/split_body.h"
#include "keys/csv_body.h"

#endif

/* --- The choice --- */

struct split_variant {
    struct variant variant;
    size_t (*split)(const char *p, size_t len, char terminator, const char **next, size_t max,
                    size_t *scanned);
    void (*csv_ends)(const char *p, size_t len, bool *inside, size_t from, size_t *first,
                     size_t *last);
    size_t (*csv_cut)(struct csv_scan *scan, const char *p, size_t len, char delimiter,
                      uint32_t *place, uint32_t *end);
};

#ifdef CPU_X86
static const struct split_variant vbmi2 = {
    {"avx512vbmi2", cpu_has_avx512_bits}, split_vbmi2, csv_ends_vbmi2, csv_cut_vbmi2};
static const struct split_variant avx2 = {
    {"avx2", cpu_has_avx2}, split_avx2, csv_ends_avx2, csv_cut_avx2};
static const struct split_variant sse2 = {{"sse2", NULL}, split_sse2, csv_ends_sse2, csv_cut_sse2};
#endif
#ifdef CPU_NEON
static const struct split_variant neon = {
    {"neon", cpu_has_neon}, split_neon, csv_ends_neon, csv_cut_neon};
#endif
static const struct split_variant plain_variant = {
    {"plain", NULL}, split_plain, csv_ends_plain, csv_cut_plain};

struct variants split_variants = {{
#ifdef CPU_X86
                                      &vbmi2.variant,
                                      &avx2.variant,
                                      &sse2.variant,
#endif
#ifdef CPU_NEON
                                      &neon.variant,
#endif
                                      &plain_variant.variant,
                                  },
                                  NULL};

size_t split(const char *p, size_t len, char terminator, const char **next, size_t max,
             size_t *scanned)
{
    const struct split_variant *v = (const void *)variant_in_use(&split_variants);
    return v->split(p, len, terminator, next, max, scanned);
}

void split_csv_ends(const char *p, size_t len, bool *inside, size_t from, size_t *first,
                    size_t *last)
{
    const struct split_variant *v = (const void *)variant_in_use(&split_variants);
    v->csv_ends(p, len, inside, from, first, last);
}

size_t split_csv(struct csv_scan *scan, const char *p, size_t len, char delimiter, uint32_t *place,
                 uint32_t *end)
{
    const struct split_variant *v = (const void *)variant_in_use(&split_variants);
    return v->csv_cut(scan, p, len, delimiter, place, end);
}

/* SPDX-License-Identifier: MIT */
/* Ribbon kernels with AVX-512. For queries and solving, a register of 512 bits holds 8 columns; the
 * parity of each is the low bit of its population count. */
#include "kind/ribbon/key.h"

#ifdef CPU_X86

#include <immintrin.h>
#include <string.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,bmi2")))

#define AVX512_INLINE                                                                              \
    static inline __attribute__((                                                                  \
        always_inline, target("avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,bmi2")))

AVX512_INLINE __m512i mix(__m512i x)
{
    const __m512i mul = _mm512_set1_epi64((long long)0xd6e8feb86659fd93);
    x = _mm512_mullo_epi64(_mm512_xor_epi64(x, _mm512_srli_epi64(x, 32)), mul);
    x = _mm512_mullo_epi64(_mm512_xor_epi64(x, _mm512_srli_epi64(x, 32)), mul);
    return _mm512_xor_epi64(x, _mm512_srli_epi64(x, 32));
}

/* floor(x * by / 2^64), by < 2^32. The product of the lower halves contributes only its carry. */
AVX512_INLINE __m512i mul_high_by(__m512i x, __m512i by)
{
    __m512i carry = _mm512_srli_epi64(_mm512_mul_epu32(x, by), 32);
    __m512i upper = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), by);
    return _mm512_srli_epi64(_mm512_add_epi64(upper, carry), 32);
}

AVX512_INLINE __m512i coefficients_of(__m512i x)
{
    __m512i c = mix(_mm512_xor_epi64(x, _mm512_set1_epi64((long long)0x5bd1e9955bd1e995)));
    return _mm512_or_epi64(c, _mm512_set1_epi64(1));
}

AVX512_INLINE __m512i fingerprints_of(__m512i x)
{
    __m512i y = _mm512_mullo_epi64(x, _mm512_set1_epi64((long long)0xc28f82822b650bed));
    return _mm512_xor_epi64(_mm512_srli_epi64(y, 32), _mm512_srli_epi64(y, 7));
}

AVX512_INLINE void store_low(uint32_t *to, __m512i x)
{
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi64_epi32(x));
}

/* One bit for each of the columns in `lanes`, at most `most` or eight: the parity of the selected
 * bits. */
AVX512_INLINE uint32_t odd_columns(const void *columns, __mmask8 lanes, unsigned most,
                                   __m512i selected)
{
    __m512i x = most <= 4 ? _mm512_zextsi256_si512(_mm256_maskz_loadu_epi64(lanes, columns))
                          : _mm512_maskz_loadu_epi64(lanes, columns);
    __m512i count = _mm512_popcnt_epi64(_mm512_and_epi64(x, selected));
    return _mm512_test_epi64_mask(count, _mm512_set1_epi64(1));
}

/* A masked load also waits for cache lines that its mask excludes. So no load goes past the last
 * column. If the columns do not fill a register, the load for b ends at the last column. If they
 * need more than one register, the last two overlap. */
AVX512_INLINE bool agrees_avx512(const uint8_t *a, const uint8_t *b, uint64_t low, uint64_t high,
                                 uint32_t fingerprint, unsigned columns, unsigned most)
{
    __m512i lows = _mm512_set1_epi64((long long)low), highs = _mm512_set1_epi64((long long)high);
    uint32_t all = _bzhi_u32(UINT32_MAX, columns), odd = 0;
    __mmask8 lanes = (__mmask8)all;
    if (most <= 8) {
        unsigned unused = most - columns;
        const void *end = ahead_of(b, -(size_t)8 * unused);
        odd = odd_columns(a, lanes, most, lows) ^
              odd_columns(end, (__mmask8)(lanes << unused), most, highs) >> unused;
        return ((odd ^ fingerprint) & all) == 0;
    }
    unsigned last = columns < 8 ? 0 : columns - 8;
#pragma GCC unroll 8
    for (unsigned j = 0; j < most; j += 8) {
        unsigned at = j < last ? j : last;
        odd |= (odd_columns(a + 8 * at, lanes, most, lows) ^
                odd_columns(b + 8 * at, lanes, most, highs))
               << at;
    }
    return ((odd ^ fingerprint) & all) == 0;
}

#define ANSWER answer_avx512
#define TARGET AVX512
#define AGREES agrees_avx512
#include "kind/ribbon/answer_body.h"

/* `registers` is a constant, so that the columns stay in registers. No step from one slot to the
 * next uses a mask register; that would take as long as all other work. */
AVX512_INLINE void solve(const uint64_t *coefficients, const uint32_t *bits, unsigned columns,
                         uint64_t *s, unsigned registers)
{
    const __m512i one = _mm512_set1_epi64(1), lane = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    __m512i column[4];
#pragma GCC unroll 8
    for (unsigned v = 0; v < registers; v++) {
        unsigned left = columns - 8 * v;
        column[v] =
            _mm512_maskz_loadu_epi64((__mmask8)(left < 8 ? (1U << left) - 1 : 0xff), s + 8 * v);
    }
    for (unsigned slot = RIBBON_WIDTH; slot-- > 0;) {
        __m512i c = _mm512_set1_epi64((long long)coefficients[slot]);
#pragma GCC unroll 8
        for (unsigned v = 0; v < registers; v++) {
            __m512i right = _mm512_srlv_epi64(_mm512_set1_epi64(bits[slot] >> 8 * v), lane);
            __m512i shifted = _mm512_add_epi64(column[v], column[v]);
            __m512i count = _mm512_popcnt_epi64(_mm512_and_epi64(shifted, c));
            /* (count ^ right) & one */
            __m512i bit = _mm512_ternarylogic_epi64(count, right, one, 0x28);
            column[v] = _mm512_or_epi64(shifted, bit);
        }
    }
#pragma GCC unroll 8
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

AVX512 static void derive_avx512(const uint64_t *x, size_t n, uint64_t starts,
                                 struct ribbon_equations *e)
{
    const __m512i by = _mm512_set1_epi64((long long)starts);
    for (size_t i = 0; i < n; i += 8) {
        __m512i h = _mm512_loadu_si512(x + i);
        _mm512_storeu_si512(e->coefficients + i, coefficients_of(h));
        store_low(e->start + i, mul_high_by(h, by));
        store_low(e->fingerprint + i, fingerprints_of(h));
    }
}

/* The directory entries (ribbon.h) of eight partitions: word[i] holds the i-th 64-bit words. */
struct entries {
    __m512i word[RIBBON_ENTRY / 8];
};

AVX512_INLINE __m512i load_two(const uint8_t *low, const uint8_t *high)
{
    return _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)low)),
        _mm256_loadu_si256((const __m256i *)(const void *)high), 1);
}

AVX512_INLINE struct entries load_entries(const struct ribbon_source *s, const uint64_t *hash)
{
    const __m512i even = _mm512_set_epi64(13, 12, 5, 4, 9, 8, 1, 0);
    const __m512i odd = _mm512_set_epi64(15, 14, 7, 6, 11, 10, 3, 2);
    const uint8_t *directory = s->data + s->len - ribbon_directory_len(&s->ribbon), *at[8];
    for (unsigned i = 0; i < 8; i++)
        at[i] = directory + (hash[i] >> 1 >> (63 - s->ribbon.bits)) * RIBBON_ENTRY;
    __m512i a = load_two(at[0], at[4]), b = load_two(at[1], at[5]);
    __m512i c = load_two(at[2], at[6]), d = load_two(at[3], at[7]);
    __m512i ab02 = _mm512_unpacklo_epi64(a, b), ab13 = _mm512_unpackhi_epi64(a, b);
    __m512i cd02 = _mm512_unpacklo_epi64(c, d), cd13 = _mm512_unpackhi_epi64(c, d);
    return (struct entries){
        {_mm512_permutex2var_epi64(ab02, even, cd02), _mm512_permutex2var_epi64(ab13, even, cd13),
         _mm512_permutex2var_epi64(ab02, odd, cd02), _mm512_permutex2var_epi64(ab13, odd, cd13)}};
}

/* Bytes of thresholds for this many segments. */
AVX512_INLINE __m512i thresholds_len(__m512i segments)
{
    return _mm512_srli_epi64(_mm512_add_epi64(segments, _mm512_set1_epi64(7)), 3);
}

/* The steps of ribbon_aim_plain. In a valid file, tables have so few segments that all factors fit
 * 32 bits. Keys of other tables get no probe. */
AVX512 static unsigned aim_avx512(const struct ribbon_source *s, const uint64_t *hash,
                                  struct ribbon_probes *p)
{
    const struct ribbon *r = &s->ribbon;
    const __m512i low_half = _mm512_set1_epi64(UINT32_MAX), byte = _mm512_set1_epi64(0xff);
    const __m512i end = _mm512_set1_epi64((long long)s->len), seven = _mm512_set1_epi64(7);
    const struct entries e = load_entries(s, hash);
    __m512i at = e.word[0], last = _mm512_srli_epi64(e.word[3], 32); /* seed, zero */
    __m512i segments0 = _mm512_and_epi64(e.word[1], low_half);
    __m512i segments1 = _mm512_srli_epi64(e.word[1], 32);
    __m512i segments2 = _mm512_and_epi64(e.word[2], low_half);
    __m512i listed = _mm512_srli_epi64(e.word[2], 32);
    __m512i all = _mm512_or_epi64(_mm512_or_epi64(segments0, segments1), segments2);
    __mmask8 known = _mm512_test_epi64_mask(segments0, segments0);
    known &= _mm512_cmplt_epu64_mask(all, _mm512_set1_epi64(2 * RIBBON_MAX_SEGMENTS));
    known &= _mm512_cmple_epu64_mask(at, end);

    __m512i h = _mm512_loadu_si512(hash);
    __m512i x = _mm512_rolv_epi64(h, _mm512_set1_epi64(r->bits));
    __m512i seed = _mm512_and_epi64(last, byte);
    __mmask8 seeded = _mm512_test_epi64_mask(seed, seed);
    if (seeded != 0) {
        __m512i number = _mm512_slli_epi64(seed, 3);
        __m512i step = _mm512_set1_epi64((long long)0x9e3779b97f4a7c15);
        __m512i other = mix(_mm512_add_epi64(x, _mm512_mullo_epi64(number, step)));
        x = _mm512_mask_mov_epi64(x, seeded, other);
    }
    __m512i starts =
        _mm512_sub_epi64(_mm512_slli_epi64(segments0, 6), _mm512_set1_epi64(RIBBON_WIDTH - 1));
    __m512i start = mul_high_by(x, starts), segment = _mm512_srli_epi64(start, 6);
    __m512i narrow = segments0;
    if (r->wide != 0) {
        __m512i part = _mm512_set1_epi64((long long)(((uint64_t)1 << 32) - r->wide));
        narrow = _mm512_srli_epi64(_mm512_mul_epu32(starts, part), 38);
    }
    __m512i columns = _mm512_set1_epi64(r->columns);
    __m512i words = _mm512_mul_epu32(segment, columns);
    __mmask8 wide = _mm512_cmpge_epu64_mask(segment, narrow);
    words = _mm512_mask_add_epi64(words, wide, words, _mm512_sub_epi64(segment, narrow));
    columns = _mm512_mask_add_epi64(columns, wide, columns, _mm512_set1_epi64(1));

    __m512i head = _mm512_add_epi64(thresholds_len(segments0), thresholds_len(segments1));
    head = _mm512_add_epi64(_mm512_add_epi64(head, thresholds_len(segments2)), seven);
    head = _mm512_add_epi64(_mm512_andnot_epi64(seven, head), _mm512_slli_epi64(listed, 3));
    __m512i low = _mm512_add_epi64(_mm512_add_epi64(at, head), _mm512_slli_epi64(words, 3));
    __m512i len = _mm512_slli_epi64(columns, 3);
    __mmask8 in_two = _mm512_test_epi64_mask(start, _mm512_set1_epi64(RIBBON_WIDTH - 1));
    __m512i high = _mm512_mask_add_epi64(low, in_two, low, len);
    __m512i threshold = _mm512_add_epi64(at, _mm512_srli_epi64(start, 9));
    /* Thresholds come before the segments. */
    known &= _mm512_cmple_epu64_mask(_mm512_add_epi64(high, len), end);

    _mm512_storeu_si512(p->low, low);
    _mm512_storeu_si512(p->high, high);
    _mm512_storeu_si512(p->threshold, threshold);
    __m512i c = coefficients_of(x);
    __m512i offset = _mm512_and_epi64(start, _mm512_set1_epi64(RIBBON_WIDTH - 1));
    __m512i rest = _mm512_sub_epi64(_mm512_set1_epi64(RIBBON_WIDTH), offset);
    _mm512_storeu_si512(p->in_first, _mm512_sllv_epi64(c, offset));
    _mm512_storeu_si512(p->in_next, _mm512_srlv_epi64(c, rest)); /* 0 for a shift by 64 */
    store_low(p->start, start);
    store_low(p->fingerprint, fingerprints_of(x));
    store_low(p->columns, columns);
    return known;
}

/* Elimination slot by slot. Up to 32 equations that are not yet a row are processed together, each
 * in one lane. A slot has a word of 32 bits: bit i is the coefficient of equation i at this slot. A
 * register holds the words of BLOCK slots. WINDOW registers hold all coefficients of equations that
 * start in the first register. `right` holds the words for the bits of the right side. At each
 * slot, the row is added to all equations with a coefficient there. If the slot has no row, the
 * lowest of these equations becomes the row. So a step takes the same time for one equation as for
 * 32. The only data-dependent branch tests whether the slot has a row, and the result stays the
 * same for long runs of slots. */
enum { BLOCK = 16, WINDOW = RIBBON_WIDTH / BLOCK + 1, RIGHT = RIBBON_MAX_COLUMNS / BLOCK };

struct lanes {
    __m512i word[WINDOW], right[RIGHT];
    uint32_t unused; /* lanes */
};

/* Coefficients from slot `offset` of the first register on, as one mask for each register. */
struct masks {
    __mmask16 word[WINDOW], right[RIGHT];
};

AVX512_INLINE struct masks masks_of(uint64_t c, uint32_t bits, unsigned offset)
{
    struct masks m;
    uint64_t low = ribbon_in_first(c, offset), high = ribbon_in_next(c, offset);
    memcpy(m.word, &low, sizeof low);
    m.word[WINDOW - 1] = (__mmask16)high;
    memcpy(m.right, &bits, sizeof bits);
    return m;
}

/* Adds the row to the lanes in `mask`. */
AVX512_INLINE void add_row(struct lanes *l, unsigned rights, __m512i mask, uint64_t c,
                           uint32_t bits, unsigned offset)
{
    struct masks m = masks_of(c, bits, offset);
#pragma GCC unroll 8
    for (unsigned v = 0; v < WINDOW; v++)
        l->word[v] = _mm512_mask_xor_epi32(l->word[v], m.word[v], l->word[v], mask);
#pragma GCC unroll 8
    for (unsigned v = 0; v < rights; v++)
        l->right[v] = _mm512_mask_xor_epi32(l->right[v], m.right[v], l->right[v], mask);
}

/* Puts an equation into an unused lane, which is all zero. */
AVX512_INLINE void take_lane(struct lanes *l, unsigned rights, uint64_t c, uint32_t bits,
                             unsigned offset)
{
    __m512i lane = _mm512_set1_epi32((int)(l->unused & -l->unused));
    l->unused &= l->unused - 1;
    add_row(l, rights, lane, c, bits, offset);
}

/* Makes the lowest lane in `mask`, if there is one, a row and adds it to all lanes in the mask.
 * That includes the lane itself, which becomes zero. Returns the lane. */
AVX512_INLINE __m512i make_row(struct lanes *l, unsigned rights, __m512i mask, uint64_t *c,
                               uint32_t *bits, unsigned offset)
{
    __m512i lane = _mm512_and_epi32(mask, _mm512_sub_epi32(_mm512_setzero_si512(), mask));
    __mmask16 set[WINDOW];
    uint32_t right = 0;
#pragma GCC unroll 8
    for (unsigned v = 0; v < WINDOW; v++) {
        set[v] = _mm512_test_epi32_mask(l->word[v], lane);
        l->word[v] = _mm512_mask_xor_epi32(l->word[v], set[v], l->word[v], mask);
    }
#pragma GCC unroll 8
    for (unsigned v = 0; v < rights; v++) {
        __mmask16 k = _mm512_test_epi32_mask(l->right[v], lane);
        l->right[v] = _mm512_mask_xor_epi32(l->right[v], k, l->right[v], mask);
        right |= (uint32_t)k << BLOCK * v;
    }
    uint64_t low =
        _mm512_kunpackd(_mm512_kunpackw(set[3], set[2]), _mm512_kunpackw(set[1], set[0]));
    *c = low >> offset | (uint64_t)set[4] << 1 << (63 - offset);
    *bits = right;
    return lane;
}

/* The slots of a block that have a row, as bits. */
AVX512_INLINE unsigned rows_of(const uint64_t *c)
{
    __m512i a = _mm512_loadu_si512(c), b = _mm512_loadu_si512(c + 8);
    return _mm512_test_epi64_mask(a, a) | (unsigned)_mm512_test_epi64_mask(b, b) << 8;
}

/* Processes one block. Returns the lanes that became rows. */
AVX512_INLINE uint32_t do_block(struct lanes *l, unsigned rights, uint64_t *c, uint32_t *bits)
{
    unsigned rows = rows_of(c);
    __m512i ended = _mm512_setzero_si512(), number = _mm512_setzero_si512();
    for (unsigned i = 0; i < BLOCK; i++) {
        __m512i mask = _mm512_permutexvar_epi32(number, l->word[0]);
        if (rows >> i & 1)
            add_row(l, rights, mask, c[i], bits[i], i);
        else
            ended = _mm512_or_epi32(ended, make_row(l, rights, mask, &c[i], &bits[i], i));
        number = _mm512_add_epi32(number, _mm512_set1_epi32(1));
    }
    return (uint32_t)_mm512_cvtsi512_si32(ended);
}

/* Takes equations from e[i] on while lanes are free, and runs until each of them is a row or zero.
 * Returns the index of the first equation not taken, or 0 if one became zero. */
AVX512_INLINE size_t run_lanes(const struct ribbon_rows *to, unsigned rights,
                               const struct ribbon_equations *e, size_t i, size_t n)
{
    struct lanes l = {.unused = UINT32_MAX};
    bool busy = true;
    for (uint64_t base = e->start[i] / BLOCK * BLOCK; busy; base += BLOCK) {
        for (; i < n && e->start[i] < base + BLOCK && l.unused != 0; i++)
            take_lane(&l, rights, e->coefficients[i], e->fingerprint[i],
                      (unsigned)(e->start[i] - base));
        if (i < n && e->start[i] < base + BLOCK)
            n = i;
        l.unused |= do_block(&l, rights, to->coefficients + base, to->bits + base);
        __m512i any = _mm512_setzero_si512();
#pragma GCC unroll 8
        for (unsigned v = 0; v < WINDOW - 1; v++) {
            l.word[v] = l.word[v + 1];
            any = _mm512_or_epi32(any, l.word[v]);
        }
        l.word[WINDOW - 1] = _mm512_setzero_si512();
        busy = i < n || _mm512_test_epi32_mask(any, any) != 0;
    }
    return l.unused == UINT32_MAX ? i : 0;
}

/* Blocks that the equations of a bucket reach, from the bucket's first block on. */
enum { BLOCKS = (RIBBON_BUCKET + RIBBON_WIDTH) / BLOCK };

AVX512_INLINE bool add(const struct ribbon_rows *to, unsigned rights,
                       const struct ribbon_equations *e, size_t n)
{
    unsigned before[BLOCKS];
    uint64_t first = e->start[0] / RIBBON_BUCKET * RIBBON_BUCKET;
    for (unsigned b = 0; b < BLOCKS; b++)
        before[b] = rows_of(to->coefficients + first + BLOCK * b);
    for (size_t i = 0; i < n;) {
        i = run_lanes(to, rights, e, i, n);
        if (i == 0)
            break;
        if (i == n)
            return true;
    }
    for (unsigned b = 0; b < BLOCKS; b++)
        for (unsigned i = 0; i < BLOCK; i++)
            if ((before[b] >> i & 1) == 0)
                to->coefficients[first + BLOCK * b + i] = to->bits[first + BLOCK * b + i] = 0;
    return false;
}

AVX512 static bool add_avx512(const struct ribbon_rows *rows, unsigned columns,
                              const struct ribbon_equations *e, size_t n)
{
    return n == 0 || (columns <= BLOCK ? add(rows, 1, e, n) : add(rows, 2, e, n));
}

const struct ribbon_variant ribbon_avx512 = {{"avx512", cpu_has_avx512_bits},
                                             aim_avx512,
                                             answer_avx512,
                                             derive_avx512,
                                             add_avx512,
                                             solve_avx512};

#endif

#include "kind/bloom/bloom.h"

#include "base/bytes.h"
#include "kind/bloom/probe.h"
#include <string.h>

#define ONE_BIT(i) [i] = {[(i) / 64] = UINT64_C(1) << (i) % 64}
#define ONE_BIT_8(i)                                                                               \
    ONE_BIT(i), ONE_BIT(i + 1), ONE_BIT(i + 2), ONE_BIT(i + 3), ONE_BIT(i + 4), ONE_BIT(i + 5),    \
        ONE_BIT(i + 6), ONE_BIT(i + 7)
#define ONE_BIT_64(i)                                                                              \
    ONE_BIT_8(i), ONE_BIT_8(i + 8), ONE_BIT_8(i + 16), ONE_BIT_8(i + 24), ONE_BIT_8(i + 32),       \
        ONE_BIT_8(i + 40), ONE_BIT_8(i + 48), ONE_BIT_8(i + 56)

_Alignas(BLOOM_LINE) const uint64_t bloom_one_bit[512][8] = {
    ONE_BIT_64(0),   ONE_BIT_64(64),  ONE_BIT_64(128), ONE_BIT_64(192),
    ONE_BIT_64(256), ONE_BIT_64(320), ONE_BIT_64(384), ONE_BIT_64(448)};

static inline unsigned test_bit(const uint8_t *line, uint64_t probe)
{
    return (unsigned)(get_le64(line + (probe >> 6 & 7) * 8) >> (probe & 63)) & 1;
}

/* Sets the bit; returns its old value. */
static inline unsigned set_bit(uint8_t *line, uint64_t probe)
{
    uint8_t *at = line + (probe >> 6 & 7) * 8;
    uint64_t word = get_le64(at);
    put_le64(at, word | (uint64_t)1 << (probe & 63));
    return (unsigned)(word >> (probe & 63)) & 1;
}

#define INLINE BLOOM_INLINE

INLINE void find_words(uint64_t hash, unsigned k, uint64_t word[WORDS])
{
#pragma GCC unroll 4
    for (unsigned t = 0; t < WORDS; t++)
        word[t] = t * PROBES_IN_WORD < k ? bloom_word(hash, t) : 0;
}

/* Interleaves the probes of all words. If two probes hit the same 64 bits of a line, the second
 * waits for the store of the first; interleaving makes this rarer for adjacent probes. */
#define FOR_EACH_PROBE(i, k)                                                                       \
    _Pragma("GCC unroll 7") for (unsigned j = 0; j < PROBES_IN_WORD; j++)                          \
        _Pragma("GCC unroll 4") for (unsigned t = 0, i; t < WORDS;                                 \
                                     t++) if ((i = t * PROBES_IN_WORD + j) < (k))

INLINE bool test_all(const uint8_t *a, const uint8_t *b, uint64_t hash, unsigned k, unsigned lines)
{
    uint64_t word[WORDS];
    unsigned all = 1;
    find_words(hash, k, word);
    FOR_EACH_PROBE(i, k)
    all &= test_bit(i < k / lines ? a : b, word[t] >> PROBE_BITS * j);
    return all;
}

/* Returns whether all bits were already set. */
INLINE bool set_all(uint8_t *a, uint8_t *b, uint64_t hash, unsigned k, unsigned lines)
{
    uint64_t word[WORDS];
    unsigned all = 1;
    find_words(hash, k, word);
    FOR_EACH_PROBE(i, k)
    all &= set_bit(i < k / lines ? a : b, word[t] >> PROBE_BITS * j);
    return all;
}

#define QUERY         query_plain
#define INSERT        insert_plain
#define TEST_INSERT   test_insert_plain
#define INSERT_CACHED insert_cached_plain
#define TARGET
#define TEST test_all
#define SET  set_all
#include "kind/bloom/body.h"

static const struct bloom_variant plain = {
    {"plain", NULL}, query_plain, insert_plain, test_insert_plain, insert_cached_plain};

struct variants bloom_variants = {{
#ifdef CPU_X86
                                      &bloom_avx512.variant,
                                      &bloom_avx2.variant,
#endif
#ifdef CPU_NEON
                                      &bloom_neon.variant,
#endif
                                      &plain.variant,
                                  },
                                  NULL};

void bloom_query(const struct bloom *bloom, const uint8_t *data, uint64_t first_page,
                 const uint64_t *hash, size_t n, uint64_t *present)
{
    const struct bloom_variant *v = (const void *)variant_in_use(&bloom_variants);
    v->query(bloom, data, first_page, hash, n, present);
}

void bloom_insert(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                  const uint64_t *hash, size_t n)
{
    const struct bloom_variant *v = (const void *)variant_in_use(&bloom_variants);
    v->insert(bloom, data, first_page, hash, n, NULL);
}

void bloom_test_insert(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                       const uint64_t *hash, size_t n, uint64_t *present)
{
    const struct bloom_variant *v = (const void *)variant_in_use(&bloom_variants);
    v->test_insert(bloom, data, first_page, hash, n, present);
}

void bloom_insert_cached(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                         const uint64_t *hash, size_t n, uint64_t *present)
{
    const struct bloom_variant *v = (const void *)variant_in_use(&bloom_variants);
    v->insert_cached(bloom, data, first_page, hash, n, present);
}

void bloom_fold(const struct bloom *from, const uint8_t *data, const struct bloom *to,
                uint64_t first, uint64_t n, uint8_t *pages)
{
    uint64_t q = from->pages / to->pages;
    const uint8_t *in = data + first * q * BLOOM_PAGE;
    for (uint64_t page = 0; page < n; page++)
        for (uint64_t i = 0; i < q; i++, in += BLOOM_PAGE)
            for (size_t byte = 0; byte < BLOOM_PAGE; byte++)
                pages[page * BLOOM_PAGE + byte] |= in[byte];
}

struct bloom bloom_of(const struct layer *layer)
{
    return (struct bloom){.pages = layer->geometry[0],
                          .k = (unsigned)layer->geometry[1],
                          .lines = (unsigned)layer->geometry[2]};
}

void bloom_to(const struct bloom *bloom, struct layer *layer)
{
    layer->kind = &kind_bloom;
    layer->geometry[0] = bloom->pages;
    layer->geometry[1] = bloom->k;
    layer->geometry[2] = bloom->lines;
    layer->geometry[3] = 0;
    layer->data_len = bloom->pages * BLOOM_PAGE;
}

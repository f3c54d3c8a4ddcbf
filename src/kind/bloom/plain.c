/* SPDX-License-Identifier: MIT */
/* Bloom queries and insertions in plain C. The other variants must give the same bits. */
#include "base/bytes.h"
#include "kind/bloom/probe.h"

#define TARGET
#define OWN_SET_KEY

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

BLOOM_INLINE void find_words(uint64_t hash, unsigned k, uint64_t word[WORDS])
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

BLOOM_INLINE bool test_line(const uint8_t *line, uint64_t hash, unsigned first, unsigned end)
{
    uint64_t word[WORDS];
    unsigned all = 1;
    find_words(hash, end, word);
    FOR_EACH_PROBE(i, end)
    all &= i < first || test_bit(line, word[t] >> PROBE_BITS * j);
    return all;
}

BLOOM_INLINE bool set_key(uint8_t *a, uint8_t *b, uint64_t hash, unsigned k, unsigned lines)
{
    uint64_t word[WORDS];
    unsigned all = 1;
    find_words(hash, k, word);
    FOR_EACH_PROBE(i, k)
    all &= set_bit(i < k / lines ? a : b, word[t] >> PROBE_BITS * j);
    return all;
}

#include "kind/bloom/body.h"

const struct bloom_variant bloom_plain = {{"plain", NULL},
                                          .test_first = test_first,
                                          .test_second = test_second,
                                          .insert = insert,
                                          .test_insert = test_insert};

/* SPDX-License-Identifier: MIT
 * Queries and insertions for one instruction set. Included once by the file of each variant, with
 *
 *     TARGET                               attributes of functions: the instructions they may use
 *     test_line(line, hash, first, end)    are probes [first, end) of a hash set in a line?
 *
 * and, to set a key's bits a whole line at a time,
 *
 *     line_bits                            a type for 512 bits
 *     load_line(p), or_lines(x, y)         of that type; p is aligned to a line
 *     set_line(line, bits)                 sets bits in a line; were all of them set already?
 *
 * or, with OWN_SET_KEY, a set_key of its own.
 */

#ifndef OWN_SET_KEY
/* Sets all k probes of a hash in its lines at a and b; were all of them set already? */
TARGET BLOOM_INLINE bool set_key(uint8_t *a, uint8_t *b, uint64_t hash, unsigned k, unsigned lines)
{
    uint8_t *line[2] = {a, b};
    bool all = true;
#pragma GCC unroll 2
    for (unsigned l = 0; l < lines; l++) {
        unsigned first = k / lines * l, end = k / lines * (l + 1), word = first / PROBES_IN_WORD;
        uint64_t probes = bloom_word(hash, word) >> first % PROBES_IN_WORD * PROBE_BITS;
        line_bits bits = load_line(bloom_one_bit[probes & BLOOM_PROBE]);
#pragma GCC unroll 28
        for (unsigned i = first + 1; i < end; i++) {
            probes =
                i % PROBES_IN_WORD ? probes >> PROBE_BITS : bloom_word(hash, i / PROBES_IN_WORD);
            bits = or_lines(bits, load_line(bloom_one_bit[probes & BLOOM_PROBE]));
        }
        all &= set_line(line[l], bits);
    }
    return all;
}
#endif

#define TEST(i, first, end) (uint64_t) test_line(now.line[i], now.hash[i], first, end) << (i)
#define TEST_FIRST_LINES(k, lines)                                                                 \
    if ((now.keys & next.keys) == UINT64_MAX) { /* the usual case */                               \
        for (unsigned i = 0; i < 64; i++) {                                                        \
            bloom_fetch_first(&next, i);                                                           \
            yes |= TEST(i, 0, (k) / (lines));                                                      \
        }                                                                                          \
        return yes;                                                                                \
    }                                                                                              \
    for (uint64_t keys = now.keys; keys != 0; keys &= keys - 1) {                                  \
        unsigned i = (unsigned)__builtin_ctzll(keys);                                              \
        yes |= TEST(i, 0, (k) / (lines));                                                          \
        if (next.keys != 0)                                                                        \
            bloom_fetch_next(&next);                                                               \
    }

/* Tests the first lines of a step's keys, and fetches those of the next step meanwhile. */
TARGET static uint64_t test_first(struct bloom_step now, struct bloom_step next)
{
    uint64_t yes = 0;
    BLOOM_WITH_CONSTANTS(TEST_FIRST_LINES, now.bloom.k, now.bloom.lines)
    while (next.keys != 0)
        bloom_fetch_next(&next);
    return yes;
}

#define TEST_SECOND_LINES(k, lines)                                                                \
    for (uint64_t keys = now.keys; keys != 0; keys &= keys - 1) {                                  \
        unsigned i = (unsigned)__builtin_ctzll(keys);                                              \
        yes |= TEST(i, (k) / 2, k);                                                                \
    }

/* Tests the second lines of a step's keys. */
TARGET static uint64_t test_second(struct bloom_step now)
{
    uint64_t yes = 0;
    BLOOM_WITH_CONSTANTS(TEST_SECOND_LINES, now.bloom.k, now.bloom.lines)
    return yes;
}

#define SET_LINES(k, lines)                                                                        \
    bloom_prefetch_first(bloom, data, first_page, hash, n, lines);                                 \
    for (size_t i = 0; i < n;) {                                                                   \
        size_t word = i / 64;                                                                      \
        uint64_t yes = 0;                                                                          \
        for (size_t end = n - i < 64 ? n : i + 64; i < end; i++) {                                 \
            bloom_prefetch_ahead(bloom, data, first_page, hash, i, n, lines);                      \
            struct bloom_place at = bloom_place(bloom, first_page, hash[i], lines);                \
            yes |= (uint64_t)set_key(data + at.a, data + at.b, hash[i], k, lines) << i % 64;       \
        }                                                                                          \
        if (present != NULL)                                                                       \
            present[word] |= yes;                                                                  \
    }

TARGET static void test_insert(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                               const uint64_t *hash, size_t n, uint64_t *present){
    BLOOM_WITH_CONSTANTS(SET_LINES, bloom->k, bloom->lines)}

TARGET static void insert(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                          const uint64_t *hash, size_t n, uint64_t *present)
{
    present = NULL;
    BLOOM_WITH_CONSTANTS(SET_LINES, bloom->k, bloom->lines)
}

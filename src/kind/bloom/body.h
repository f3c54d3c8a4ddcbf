/* SPDX-License-Identifier: MIT
 * Queries and insertions for one instruction set. Included once for each VARIANT, which has
 *
 *     NAME(test)(a, b, hash, k, lines)    are all k probes of a hash set in its lines at a and b?
 *     NAME(set)(a, b, hash, k, lines)     the same, and sets them
 */

/* Applies ASK to the lines of every key, and TAKE to the results of 64 keys, a bit each. */
#define FOR_EACH_KEY(ASK, TAKE, k, lines)                                                          \
    bloom_prefetch_first(bloom, data, first_page, hash, n, lines);                                 \
    for (size_t i = 0; i < n;) {                                                                   \
        size_t word = i / 64;                                                                      \
        uint64_t yes = 0;                                                                          \
        for (size_t end = n - i < 64 ? n : i + 64; i < end; i++) {                                 \
            bloom_prefetch_ahead(bloom, data, first_page, hash, i, n, lines);                      \
            struct bloom_place place = bloom_place(bloom, first_page, hash[i], lines);             \
            yes |= (uint64_t)ASK(data + place.a, data + place.b, hash[i], k, lines) << i % 64;     \
        }                                                                                          \
        TAKE(word, yes)                                                                            \
    }

#define TO_PRESENT(word, yes)                                                                      \
    if (present != NULL)                                                                           \
        present[word] |= yes;

/* Tests the keys whose bits are set, of up to 64. */
TARGET BLOOM_INLINE uint64_t NAME(test_both)(const struct bloom *bloom, const uint8_t *data,
                                             uint64_t first_page, const uint64_t *hash,
                                             uint64_t bits, unsigned k)
{
    uint64_t yes = 0;
    for (; bits != 0; bits &= bits - 1) {
        unsigned i = (unsigned)__builtin_ctzll(bits);
        struct bloom_place place = bloom_place(bloom, first_page, hash[i], 2);
        yes |= (uint64_t)NAME(test)(data + place.a, data + place.b, hash[i], k, 2) << i;
    }
    return yes;
}

/* With two lines, hardly any absent key has all its bits in the first. So the second is fetched for
 * those that do, and tested after the first lines of the next 64 keys. */
#define QUERY_KEYS(k, lines)                                                                       \
    if ((lines) == 1) {                                                                            \
        FOR_EACH_KEY(NAME(test), TO_PRESENT, k, 1)                                                 \
    } else {                                                                                       \
        const unsigned probes = k;                                                                 \
        uint64_t before = 0;                                                                       \
        FOR_EACH_KEY(NAME(test), TO_SECOND, probes / 2, 1)                                         \
        if (n > 0)                                                                                 \
            present[(n - 1) / 64] |= NAME(test_both)(bloom, data, first_page,                      \
                                                     hash + (n - 1) / 64 * 64, before, probes);    \
    }

#define TO_SECOND(word, yes)                                                                       \
    bloom_prefetch_second(bloom, data, first_page, hash + 64 * word, yes);                         \
    if (word > 0)                                                                                  \
        present[word - 1] |=                                                                       \
            NAME(test_both)(bloom, data, first_page, hash + 64 * (word - 1), before, probes);      \
    before = yes;

TARGET static void NAME(query)(const struct bloom *bloom, const uint8_t *data, uint64_t first_page,
                               const uint64_t *hash, size_t n, uint64_t *present){
    BLOOM_WITH_CONSTANTS(QUERY_KEYS, bloom->k, bloom->lines)}

#define BODY(k, lines) FOR_EACH_KEY(NAME(set), TO_PRESENT, k, lines)

TARGET static void NAME(test_insert)(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                                     const uint64_t *hash, size_t n, uint64_t *present){
    BLOOM_WITH_CONSTANTS(BODY, bloom->k, bloom->lines)}

TARGET static void NAME(insert)(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                                const uint64_t *hash, size_t n, uint64_t *present)
{
    present = NULL;
    BLOOM_WITH_CONSTANTS(BODY, bloom->k, bloom->lines)
}

#undef BODY
#undef FOR_EACH_KEY
#undef TO_PRESENT
#undef QUERY_KEYS
#undef TO_SECOND
#undef VARIANT
#undef TARGET

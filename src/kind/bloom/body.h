/*
 * Queries and insertions for one instruction set. Included once for each variant, with these
 * macros:
 *
 *     QUERY, INSERT, TEST_INSERT    names of the functions
 *     TARGET    their attributes: the instructions they may use
 *     TEST(a, b, hash, k, lines)    are all k probes of a hash set in its lines at a and b?
 *     SET(a, b, hash, k, lines)     the same, and sets them
 */

/* Applies ASK to the lines of every key, and sets bit i of present if the result is true. */
#define FOR_EACH_KEY(ASK, k, lines)                                                                \
    bloom_prefetch_first(bloom, data, first_page, hash, n, lines);                                 \
    for (size_t i = 0; i < n;) {                                                                   \
        size_t word = i / 64;                                                                      \
        uint64_t yes = 0;                                                                          \
        for (size_t end = n - i < 64 ? n : i + 64; i < end; i++) {                                 \
            bloom_prefetch_ahead(bloom, data, first_page, hash, i, n, lines);                      \
            struct bloom_place place = bloom_place(bloom, first_page, hash[i], lines);             \
            yes |= (uint64_t)ASK(data + place.a, data + place.b, hash[i], k, lines) << i % 64;     \
        }                                                                                          \
        if (present != NULL)                                                                       \
            present[word] |= yes;                                                                  \
    }

TARGET static void QUERY(const struct bloom *bloom, const uint8_t *data, uint64_t first_page,
                         const uint64_t *hash, size_t n, uint64_t *present){
#define BODY(k, lines) FOR_EACH_KEY(TEST, k, lines)
    BLOOM_WITH_CONSTANTS(BODY, bloom->k, bloom->lines)
#undef BODY
}

#define BODY(k, lines) FOR_EACH_KEY(SET, k, lines)

TARGET
    static void TEST_INSERT(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                            const uint64_t *hash, size_t n,
                            uint64_t *present){BLOOM_WITH_CONSTANTS(BODY, bloom->k, bloom->lines)}

TARGET static void INSERT(const struct bloom *bloom, uint8_t *data, uint64_t first_page,
                          const uint64_t *hash, size_t n, uint64_t *present)
{
    present = NULL;
    BLOOM_WITH_CONSTANTS(BODY, bloom->k, bloom->lines)
}

#undef BODY
#undef FOR_EACH_KEY
#undef QUERY
#undef INSERT
#undef TEST_INSERT
#undef TARGET
#undef TEST
#undef SET

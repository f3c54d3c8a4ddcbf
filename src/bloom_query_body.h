/*
 * The query for one instruction set: included once a variant, with
 *
 *     QUERY     the function's name
 *     TARGET    its attributes: what it may run on
 *     TEST(a, b, hash, k, lines)    whether all k probes of a hash are set in its lines, at a and b
 */

TARGET static void QUERY(const struct bloom *bloom, const uint8_t *data, uint64_t first_page,
                         const uint64_t *hash, size_t n, uint64_t *present)
{
#define BODY(k, lines)                                                                             \
    bloom_prefetch_first(bloom, data, first_page, hash, n, lines);                                 \
    for (size_t i = 0; i < n;) {                                                                   \
        uint64_t *to = &present[i / 64], bits = 0;                                                 \
        for (size_t end = n - i < 64 ? n : i + 64; i < end; i++) {                                 \
            bloom_prefetch_ahead(bloom, data, first_page, hash, i, n, lines);                      \
            struct bloom_place place = bloom_place(bloom, first_page, hash[i], lines);             \
            bits |= (uint64_t)TEST(data + place.a, data + place.b, hash[i], k, lines) << i % 64;   \
        }                                                                                          \
        *to |= bits;                                                                               \
    }
    BLOOM_WITH_CONSTANTS(BODY, bloom->k, bloom->lines)
#undef BODY
}

#undef QUERY
#undef TARGET
#undef TEST

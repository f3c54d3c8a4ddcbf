/* SPDX-License-Identifier: MIT
 * Queries for one instruction set. Included once for each variant, with these macros:
 *
 *     QUERY             the name of the function
 *     TARGET            its attributes: the instructions it may use
 *     COUNT_ONES(x)     the number of ones of a word
 *     SELECT(x, i)      the position of the one with index i, from 0, of a word that has it
 *
 * A key takes up to three dependent reads: the directory, which is small and mostly cached; the
 * bits of its bucket; and the remainders of the bucket, if it has entries. All keys of a batch do
 * one step before the next, and each step prefetches what the next one reads. Keys in large blocks
 * are left to counted_has.
 */

#define LONGEST ((COUNTED_BUCKETS + COUNTED_ENTRIES) / 8) /* bytes of the bits */
#define LINEAR  8                                         /* entries that are all compared */

TARGET static void QUERY(const struct counted_set *set, const uint64_t *hash, size_t n,
                         uint64_t *present)
{
    const struct counted c = set->counted;
    const uint8_t *data = set->data;
    uint64_t v[COUNTED_BATCH], begin[COUNTED_BATCH], end[COUNTED_BATCH];
    uint16_t key[COUNTED_BATCH], run[COUNTED_BATCH];
    size_t left = 0, in_bucket = 0;

    for (size_t i = 0; i < n; i++) {
        v[i] = counted_fingerprint(&c, hash[i]);
        uint64_t block = v[i] >> c.low >> COUNTED_BUCKET_BITS, group = block / COUNTED_BLOCKS;
        ahead_fetch(data + group * COUNTED_LINE);
        begin[i] = group * COUNTED_LINE;
        run[i] = (uint16_t)(block - group * COUNTED_BLOCKS);
    }
    for (size_t i = 0; i < n; i++) {
        /* v is at most counted_top, so this line is in the directory. */
        const uint8_t *line = data + begin[i];
        unsigned slot = run[i];
        uint64_t base = get_le64(line);
        uint32_t ends = get_le32(line + 6 + 2 * slot);
        uint64_t low = slot > 0 ? ends & 0xffff : 0, high = ends >> 16;
        struct counted_block where = {base + low + set->directory_len,
                                      base + high + set->directory_len, false};
        if (__builtin_expect(base >= COUNTED_LARGE, 0))
            where = counted_find_block(set, v[i] >> c.low >> COUNTED_BUCKET_BITS);
        begin[left] = where.begin;
        end[left] = where.end;
        key[left] = (uint16_t)i;
        /* The bucket bits up to this offset are read without bounds checks. Reads of remainders are
         * checked. */
        if (where.large || where.begin >= set->len || where.begin + LONGEST + 8 > set->len ||
            where.end - where.begin > COUNTED_LONGEST) {
            present[i / 64] |= (uint64_t)counted_has(set, v[i]) << i % 64;
            continue;
        }
        unsigned bucket = v[i] >> c.low & (COUNTED_BUCKETS - 1);
        ahead_fetch(data + begin[left]);
        /* About 128 + 110 bits for 128 buckets. */
        ahead_fetch(data + begin[left] + bucket * 238 / 1024 + 8);
        left += where.begin < where.end;
    }
    for (size_t k = 0; k < left; k++) {
        size_t i = key[k];
        const uint8_t *bits = data + begin[k];
        unsigned before = v[i] >> c.low & (COUNTED_BUCKETS - 1), skip = before;
        /* Find the 1 bit that ends the previous bucket. Four words are mostly enough. */
        uint64_t word0 = get_le64(bits), word1 = get_le64(bits + 8), word2 = get_le64(bits + 16);
        unsigned ones0 = COUNT_ONES(word0), ones1 = ones0 + COUNT_ONES(word1);
        unsigned ones2 = ones1 + COUNT_ONES(word2);
        unsigned w =
            (unsigned)(ones0 < before) + (unsigned)(ones1 < before) + (unsigned)(ones2 < before);
        skip -= w == 0 ? 0 : w == 1 ? ones0 : w == 2 ? ones1 : ones2;
        uint64_t word = get_le64(bits + 8 * w);
        while (COUNT_ONES(word) < skip && w < LONGEST / 8 - 1) {
            skip -= COUNT_ONES(word);
            word = get_le64(bits + 8 * ++w);
        }
        unsigned at = 64 * w;
        if (skip > 0)
            at = COUNT_ONES(word) < skip ? 8 * LONGEST : at + SELECT(word, skip - 1) + 1;
        uint64_t rest = at < 8 * LONGEST ? get_le64(bits + at / 8) >> (at & 7) : 0;
        unsigned first = at - before, entries = 0;
        while (__builtin_expect(rest == 0, 0) && at < 8 * LONGEST) {
            unsigned some = 64 - (at & 7);
            entries += some;
            at += some;
            rest = at < 8 * LONGEST ? get_le64(bits + at / 8) : 0;
        }
        if (__builtin_expect(rest == 0, 0))
            continue; /* not valid */
        entries += (unsigned)__builtin_ctzll(rest);
        uint64_t bit = 8 * end[k] - (uint64_t)(first + entries) * c.low;
        ahead_fetch(ahead_of(data, (size_t)(bit / 8)));
        begin[in_bucket] = bit;
        run[in_bucket] = (uint16_t)entries;
        key[in_bucket] = (uint16_t)i;
        in_bucket += entries > 0;
    }
    uint64_t mask = counted_mask(c.low);
    for (size_t k = 0; k < in_bucket; k++) {
        size_t i = key[k];
        uint64_t wanted = v[i] & mask, bit = begin[k];
        unsigned entries = run[k];
        bool found = false;
        if (__builtin_expect(entries > LINEAR, 0)) {
            bit += (uint64_t)counted_find(set, bit, entries, c.low, wanted) * c.low;
            entries = 1;
        }
        for (unsigned e = 0; e < entries; e++, bit += c.low)
            found |= counted_bits(set, bit, c.low) == wanted;
        present[i / 64] |= (uint64_t)found << i % 64;
    }
}

#undef LONGEST
#undef LINEAR
#undef QUERY
#undef TARGET
#undef COUNT_ONES
#undef SELECT

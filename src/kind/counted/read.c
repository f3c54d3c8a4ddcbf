/* SPDX-License-Identifier: MIT */
/* Reads entries of a counted set. Everything is validated: the data may be hostile. */
#include <stdlib.h>
#include <string.h>

#include "kind/counted/parts.h"

static bool not_valid(struct err *err)
{
    return fail(err, "the data of a counted set is not valid");
}

bool counted_room(struct counted_entries *e, size_t more, struct err *err)
{
    if (e->at != NULL && e->room - e->n > more)
        return true;
    struct counted_entry *at = realloc(e->at, (e->n + more + 1) * sizeof *at);
    if (at == NULL)
        return fail(err, "out of memory");
    e->at = at;
    e->room = e->n + more + 1;
    return true;
}

/* Reads the fingerprints of a block that has some. False: it is not valid. */
static bool read_values(const struct counted_set *set, uint64_t number,
                        const struct counted_block *b, struct counted_entry *e)
{
    const struct counted *c = &set->counted;
    const uint64_t first = counted_block_first(c, number);
    const uint64_t last_bucket = counted_last_bucket(c) - number * COUNTED_BUCKETS;
    const unsigned low = c->low, n = b->n, marks = COUNTED_BUCKETS + n;
    unsigned i = 0;
    for (unsigned at = 0; at < marks; at += 64) {
        uint64_t zeros = ~get_le64(set->data + b->begin + at / 8);
        zeros &= counted_mask(marks - at < 64 ? marks - at : 64);
        for (; zeros != 0; zeros &= zeros - 1, i++) {
            uint64_t bucket = at + (unsigned)__builtin_ctzll(zeros) - i;
            if (bucket >= COUNTED_BUCKETS || bucket > last_bucket || i == n)
                return false;
            e[i].value = first + (bucket << low);
        }
    }
    if (i < n)
        return false;
    uint64_t bit = 8 * b->begin + marks, previous = 0;
    bool ascend = true;
    for (i = 0; i < n; i++, bit += low) {
        e[i].value |= counted_bits(set->data, bit, low);
        ascend &= i == 0 || e[i].value > previous;
        previous = e[i].value;
    }
    return ascend;
}

/* Appends the entries of a block that are in [first, last]. */
static bool read_block(const struct counted_set *set, uint64_t number, uint64_t first,
                       uint64_t last, struct counted_entries *to, struct counted_sums *read,
                       struct err *err)
{
    struct counted_block b;
    if (!counted_find_block(set, number, &b))
        return not_valid(err);
    if (b.n == 0)
        return true;
    if (!counted_room(to, b.n, err))
        return false;
    struct counted_entry *e = to->at + to->n;
    if (!read_values(set, number, &b, e) || !counted_get_counts(set, &b, e))
        return not_valid(err);
    size_t from = 0, end = b.n;
    while (from < end && e[from].value < first)
        from++;
    while (end > from && e[end - 1].value > last)
        end--;
    if (from > 0)
        memmove(e, e + from, (end - from) * sizeof *e);
    for (size_t i = 0; i < end - from; i++) {
        read->total += e[i].count;
        if (read->total < e[i].count)
            return not_valid(err);
    }
    read->entries += end - from;
    to->n += end - from;
    return true;
}

bool counted_read_range(const struct counted_set *set, uint64_t first, uint64_t last, unsigned drop,
                        struct counted_entries *to, struct counted_sums *read, struct err *err)
{
    const struct counted *c = &set->counted;
    uint64_t top = counted_top(c), end = counted_block_of(c, last < top ? last : top);
    for (uint64_t block = counted_block_of(c, first); block <= end; block++) {
        size_t before = to->n;
        if (!read_block(set, block, first, last, to, read, err))
            return false;
        if (drop > 0)
            counted_narrow(to, before, drop);
    }
    return true;
}

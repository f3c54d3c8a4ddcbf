/* SPDX-License-Identifier: MIT */
/* Reads a counted set as a stream. Everything is validated: the data may be hostile. */
#include "kind/counted/parts.h"
#include "kind/counted/stream.h"

static bool not_valid(struct err *err)
{
    return fail(err, "the data of a counted set is not valid");
}

/* Appends an entry if it is in the range. False: it is not in order, its count is 0, or the total
 * does not fit 64 bits. */
COUNTED_INLINE bool take(struct counted_reader *r, size_t *n, uint64_t v, uint64_t count)
{
    bool good = (v > r->previous || !r->any) && count <= UINT64_MAX - r->total && count > 0;
    bool in_range = v >= r->first && v <= r->last;
    r->any = true;
    r->previous = v;
    r->total += in_range ? count : 0;
    r->entries += in_range;
    r->value[*n] = v;
    r->count[*n] = count;
    *n += in_range;
    return good;
}

/* Reads the fingerprints of a block that is not large. Returns their number, more than
 * COUNTED_ENTRIES if the block is not valid. */
static size_t read_block(const struct counted_set *set, uint64_t block, uint64_t begin,
                         uint64_t end, uint64_t *value)
{
    const struct counted *c = &set->counted;
    unsigned buckets = counted_block_buckets(c, block), low = c->low;
    uint64_t first = counted_block_first(c, block);
    size_t n = 0;
    unsigned ones = 0;
    for (unsigned w = 0; ones < buckets; w++) {
        if (w == (COUNTED_BUCKETS + COUNTED_ENTRIES) / 64)
            return SIZE_MAX;
        uint64_t zeros = ~counted_load(set, begin + 8 * w);
        for (; zeros != 0; zeros &= zeros - 1) {
            size_t bucket = 64 * w + (unsigned)__builtin_ctzll(zeros) - n;
            if (bucket >= buckets || n == COUNTED_ENTRIES)
                break;
            value[n++] = first + ((uint64_t)bucket << low);
        }
        ones = 64 * (w + 1) - (unsigned)n;
        if (zeros != 0 && ones < buckets)
            return SIZE_MAX;
    }
    if (buckets + n + n * low > 8 * (end - begin))
        return SIZE_MAX;
    uint64_t bit = 8 * end, mask = counted_mask(low);
    if (low <= 57 && end < set->fast) {
        for (size_t i = 0; i < n; i++) {
            bit -= low;
            value[i] |= get_le64(set->data + bit / 8) >> (bit & 7) & mask;
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            bit -= low;
            value[i] |= counted_bits(set, bit, low);
        }
    }
    return n;
}

/* Appends the entries of a block that is not large to the run. */
static bool read_entries(struct counted_reader *r, uint64_t block, uint64_t begin, uint64_t end,
                         size_t *filled)
{
    const struct counted_set *set = r->set;
    const struct counted *c = &set->counted;
    uint64_t *value = r->value + *filled, *count = r->count + *filled;
    size_t n = read_block(set, block, begin, end, value);
    if (n > COUNTED_ENTRIES || n == 0)
        return false;
    unsigned buckets = counted_block_buckets(c, block);
    uint64_t remainders = 8 * end - n * c->low, behind = 8 * begin + buckets + n;
    bool good = true;
    if (counted_block_len(c, buckets, n) == end - begin) {
        for (size_t i = 0; i < n; i++)
            count[i] = 1;
    } else {
        behind = counted_get_counts(set, behind, remainders, n, count);
        if (behind == 0 || remainders - behind > 7)
            return false;
    }
    if (counted_bits(set, behind, (unsigned)(remainders - behind)) != 0)
        return false;
    if (value[0] < r->first || value[n - 1] > r->last) {
        for (size_t i = 0; i < n; i++)
            good &= take(r, filled, value[i], count[i]);
    } else {
        uint64_t previous = r->previous, total = r->total;
        good = !r->any || value[0] > previous;
        for (size_t i = 0; i < n; i++) {
            good &= (i == 0 || value[i] > value[i - 1]) & (count[i] <= UINT64_MAX - total);
            total += count[i];
        }
        r->any = true;
        r->previous = value[n - 1];
        r->total = total;
        r->entries += n;
        *filled += n;
    }
    return good && r->previous <= counted_top(c);
}

static bool read_large(struct counted_reader *r, size_t *filled)
{
    const struct counted_set *set = r->set;
    const struct counted *c = &set->counted;
    uint64_t block = r->block - 1, first = counted_block_first(c, block);
    uint64_t width = (uint64_t)counted_block_buckets(c, block) - 1;
    uint64_t most = width << c->low | counted_mask(c->low);
    unsigned wide = counted_wide(c), size = wide + r->large_counts;
    bool good = true;
    while (r->large_at < r->large_end && *filled < COUNTED_RUN && good) {
        uint64_t v = counted_load(set, r->large_at) & counted_mask(8 * wide);
        uint64_t less = counted_load(set, r->large_at + wide) & counted_mask(8 * r->large_counts);
        good = v <= most && v <= counted_top(c) - first && less < UINT64_MAX &&
               take(r, filled, first + v, less + 1);
        r->large_at = first + v < r->last ? r->large_at + size : r->large_end;
    }
    return good;
}

/* Skips the entries of a large block that are before the range, by binary search: the block may
 * span many ranges. */
static void skip_large(struct counted_reader *r, unsigned size)
{
    const struct counted_set *set = r->set;
    uint64_t first = counted_block_first(&set->counted, r->block - 1);
    uint64_t n = (r->large_end - r->large_at) / size;
    unsigned wide = counted_wide(&set->counted);
    while (r->first > first && n > 0) {
        uint64_t half = n / 2, at = r->large_at + half * size;
        if ((counted_load(set, at) & counted_mask(8 * wide)) < r->first - first) {
            r->large_at = at + size;
            n -= half + 1;
        } else {
            n = half;
        }
    }
}

/* Starts to read the large block in bytes [begin, end). */
static bool begin_large_block(struct counted_reader *r, uint64_t begin, uint64_t end)
{
    r->large_counts = r->set->data[begin];
    unsigned size = counted_wide(&r->set->counted) + r->large_counts;
    r->large_at = begin + 1;
    r->large_end = end;
    if (r->large_counts > 8 || (end - r->large_at) % size != 0 ||
        (end - r->large_at) / size <= COUNTED_ENTRIES)
        return false;
    skip_large(r, size);
    return true;
}

/* Finds where the group of the next block begins. Groups must follow one another without gaps. So
 * no byte is read for two blocks, and the time is proportional to the data. */
static bool enter_group(struct counted_reader *r)
{
    const struct counted_set *set = r->set;
    uint64_t group = r->block / COUNTED_BLOCKS, base = counted_load(set, group * COUNTED_LINE);
    uint64_t begin = (base & ~COUNTED_LARGE) + set->directory_len;
    unsigned blocks = counted_group_blocks(&set->counted, group);
    uint64_t expected = group == 0 ? set->directory_len : r->group_end;
    if (begin > set->len || (expected != 0 && begin != expected))
        return false;
    if (base & COUNTED_LARGE)
        begin += 8 * blocks;
    r->block_end = begin;
    return begin <= set->len;
}

/* Reads the next block. */
static bool read_next(struct counted_reader *r, size_t *filled)
{
    const struct counted_set *set = r->set;
    uint64_t block = r->block;
    if ((r->group_end == 0 || block % COUNTED_BLOCKS == 0) && !enter_group(r))
        return false;
    struct counted_block where = counted_find_block(set, block);
    /* A range may begin in the middle of a group. */
    if (r->group_end == 0)
        r->block_end = where.begin;
    if (where.begin != r->block_end || where.end < where.begin || where.end > set->len)
        return false;
    r->block_end = r->group_end = where.end;
    r->block++;
    if (where.begin == where.end)
        return !where.large;
    return where.large ? begin_large_block(r, where.begin, where.end)
                       : read_entries(r, block, where.begin, where.end, filled);
}

static bool next(struct counted_stream *stream, struct counted_run *run, struct err *err)
{
    struct counted_reader *r = (struct counted_reader *)stream;
    size_t filled = 0;
    bool good = true;
    while (good && filled + COUNTED_ENTRIES <= COUNTED_RUN) {
        if (r->large_at < r->large_end)
            good = read_large(r, &filled);
        else if (r->block <= r->last_block)
            good = read_next(r, &filled);
        else
            break;
    }
    if (!good)
        r->last_block = r->large_end = 0;
    *run = (struct counted_run){.value = r->value, .count = r->count, .n = good ? filled : 0};
    return good || not_valid(err);
}

void counted_read_range(struct counted_reader *r, const struct counted_set *set, uint64_t first,
                        uint64_t last)
{
    const struct counted *c = &set->counted;
    uint64_t top = counted_top(c);
    unsigned shift = c->low + COUNTED_BUCKET_BITS;
    r->stream.next = next;
    r->set = set;
    r->first = first;
    r->last = last < top ? last : top;
    r->block = shift < 64 ? first >> shift : 0;
    r->last_block = shift < 64 ? r->last >> shift : 0;
    r->group_end = r->block_end = r->large_at = r->large_end = 0;
    r->large_counts = 0;
    r->previous = r->entries = r->total = 0;
    r->any = false;
    if (first > r->last) {
        r->block = 1;
        r->last_block = 0;
    }
}

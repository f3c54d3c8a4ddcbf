/* Geometry and directory of counted sets. */
#include "kind/counted/counted.h"

#include <math.h>

#include "kind/counted/parts.h"
#include "kind/kind.h"

struct counted counted_of(const struct layer *layer)
{
    const uint64_t *g = layer->geometry;
    return (struct counted){
        .bits = (unsigned)g[0], .low = (unsigned)g[1], .entries = g[2], .total = g[3]};
}

void counted_to(const struct counted *c, struct layer *layer)
{
    layer->geometry[0] = c->bits;
    layer->geometry[1] = c->low;
    layer->geometry[2] = c->entries;
    layer->geometry[3] = c->total;
}

void counted_design(struct counted *c, uint64_t entries)
{
    uint64_t most = (entries > 0 ? entries : 1) * 7 / 4;
    c->low = 0;
    while (c->low < 63 && counted_last_bucket(c) >= most)
        c->low++;
}

bool counted_check(const struct layer *layer, struct err *err)
{
    const uint64_t *g = layer->geometry;
    if (g[0] < 1 || g[0] > 64 || g[1] > 63)
        return fail(err, "its number of fingerprint bits is out of range");
    struct counted c = counted_of(layer);
    if (layer->data_len >= COUNTED_MAX_LEN || counted_directory_len(&c) > layer->data_len)
        return fail(err, "its directory does not fit its length");
    /* An entry takes at least one bit, so a byte holds at most 8. */
    if (c.entries > COUNTED_MAX_ENTRIES || c.entries > c.total ||
        (c.entries > 0 && c.entries - 1 > counted_top(&c)) || c.entries / 8 > layer->data_len ||
        (c.entries == 0 && c.total != 0))
        return fail(err, "its number of keys is out of range");
    return true;
}

double counted_fpr(const struct counted *c)
{
    return ldexp((double)c->entries, -(int)c->bits);
}

uint64_t counted_expected_len(const struct counted *c, uint64_t entries)
{
    struct counted design = *c;
    counted_design(&design, entries);
    double n = (double)entries, buckets = (double)counted_last_bucket(&design) + 1;
    double blocks = (double)counted_blocks(&design), bits = n * (1 + design.low) + buckets;
    return counted_directory_len(&design) + (uint64_t)((bits + 3.5 * blocks) / 8 + 0.5);
}

struct counted_set counted_set(const struct counted *c, const uint8_t *data, uint64_t len)
{
    return (struct counted_set){.counted = *c,
                                .data = data,
                                .len = len,
                                .fast = len >= 8 ? len - 7 : 0,
                                .directory_len = counted_directory_len(c)};
}

uint64_t counted_load_end(const struct counted_set *set, uint64_t at)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < 8; i++)
        if (at < set->len && i < set->len - at)
            v |= (uint64_t)set->data[at + i] << 8 * i;
    return v;
}

struct counted_block counted_find_block(const struct counted_set *set, uint64_t block)
{
    uint64_t line = block / COUNTED_BLOCKS * COUNTED_LINE, begin = 0, end;
    unsigned slot = (unsigned)(block % COUNTED_BLOCKS);
    uint64_t base = counted_load(set, line), ends = line + 8;
    bool large = base & COUNTED_LARGE;
    base = (base & ~COUNTED_LARGE) + set->directory_len;
    if (large) {
        unsigned blocks = counted_group_blocks(&set->counted, block / COUNTED_BLOCKS);
        begin = slot > 0 ? counted_load(set, base + 8 * (slot - 1)) : 8 * blocks;
        end = counted_load(set, base + 8 * slot);
        large = end & COUNTED_LARGE;
    } else {
        if (slot > 0)
            begin = counted_load(set, ends + 2 * (slot - 1)) & 0xffff;
        end = counted_load(set, ends + 2 * slot) & 0xffff;
    }
    return (struct counted_block){.begin = base + (begin & ~COUNTED_LARGE),
                                  .end = base + (end & ~COUNTED_LARGE),
                                  .large = large};
}

/* Validates the line of a group. *begin, *end: where the group begins and ends, counted from the
 * first group; for a large group, *end is the end of its table. */
static bool check_line(const struct counted_set *set, uint64_t group, uint64_t *begin,
                       uint64_t *end)
{
    uint64_t line = group * COUNTED_LINE, base = counted_load(set, line), room;
    unsigned blocks = counted_group_blocks(&set->counted, group), last = 0;
    bool large = base & COUNTED_LARGE;
    *begin = base & ~COUNTED_LARGE;
    room = set->len - set->directory_len;
    if (*begin > room)
        return false;
    for (unsigned i = 0; i < blocks; i++) {
        unsigned at = counted_load(set, line + 8 + 2 * i) & 0xffff;
        if (at < last || (large && at != 0))
            return false;
        last = at;
    }
    if (large)
        last = 8 * blocks;
    *end = *begin + last;
    return last <= room - *begin;
}

/* Where a group ends. `begin` and `end` are from check_line. */
static uint64_t group_end(const struct counted_set *set, uint64_t group, uint64_t begin,
                          uint64_t end)
{
    if (!(counted_load(set, group * COUNTED_LINE) & COUNTED_LARGE))
        return end;
    return begin + (counted_load(set, set->directory_len + end - 8) & ~COUNTED_LARGE);
}

bool counted_check_directory(const struct counted_set *set, struct err *err)
{
    uint64_t groups = counted_groups(&set->counted), expected = 0, begin, end;
    for (uint64_t group = 0; group < groups; group++) {
        if (!check_line(set, group, &begin, &end) || begin != expected)
            return fail(err, "line %llu of its directory is not valid", (unsigned long long)group);
        expected = group_end(set, group, begin, end);
        if (expected < end || expected > set->len - set->directory_len)
            return fail(err, "the table of group %llu is not valid", (unsigned long long)group);
    }
    return expected == set->len - set->directory_len ||
           fail(err, "its groups do not end where its data does");
}

bool counted_check_page(const struct counted_set *set, uint64_t page, struct err *err)
{
    uint64_t per_page = 4096 / COUNTED_LINE, groups = counted_groups(&set->counted);
    uint64_t group = page * per_page, previous = 0, begin, end;
    for (unsigned i = 0; i < per_page && group < groups; i++, group++) {
        if (!check_line(set, group, &begin, &end) || begin < previous || (group == 0 && begin != 0))
            return fail(err, "line %llu of its directory is not valid", (unsigned long long)group);
        previous = end;
    }
    return true;
}

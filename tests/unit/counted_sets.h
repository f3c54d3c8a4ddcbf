/* SPDX-License-Identifier: MIT */
/* Counted sets for tests: entries in plain arrays, and sets made of them. */
#ifndef COUNTED_SETS_H
#define COUNTED_SETS_H

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "counted_make.h"
#include "kind/kind.h"
#include "random.h"

/* Entries in ascending order; free() both. */
struct entries {
    uint64_t *value, *count;
    size_t n;
};

enum counts { ALL_ONE, FEW, GEOMETRIC, ZIPF, MANY, ONE_HUGE, ALL_EQUAL, COUNTS };

static inline uint64_t draw_count(enum counts counts, size_t i, size_t n)
{
    uint64_t count, random = draw();
    switch (counts) {
    case FEW:
        return 1 + (random % 100 < 3);
    case GEOMETRIC:
        return 1 + (unsigned)__builtin_ctzll(random | (uint64_t)1 << 63);
    case ZIPF:
        count = (((uint64_t)1 << 50) - 1) / ((random >> 14) + 1);
        return count > 0 ? count : 1;
    case MANY:
        return 1 + random / n;
    case ONE_HUGE:
        return i == n / 2 ? UINT64_MAX - n + 1 : 1;
    case ALL_EQUAL:
        return 1000;
    default:
        return 1;
    }
}

static inline int compare_hashes(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* n random values of at most `most`, fewer if some are equal. */
static inline struct entries draw_entries(size_t n, uint64_t most, enum counts counts)
{
    struct entries e = {malloc((n + 1) * 8), malloc((n + 1) * 8), 0};
    for (size_t i = 0; i < n; i++)
        e.value[i] = most < UINT64_MAX ? draw() % (most + 1) : draw();
    qsort(e.value, n, 8, compare_hashes);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || e.value[i] != e.value[i - 1])
            e.value[e.n++] = e.value[i];
    for (size_t i = 0; i < e.n; i++)
        e.count[i] = draw_count(counts, i, e.n);
    return e;
}

static inline void free_entries(struct entries *e)
{
    free(e->value);
    free(e->count);
}

/* The count of a value. */
static inline uint64_t count_in(const struct entries *e, uint64_t v)
{
    const uint64_t *at = bsearch(&v, e->value, e->n, 8, compare_hashes);
    return at != NULL ? e->count[at - e->value] : 0;
}

/* The same as an array; free(at). */
static inline struct counted_entries array_of(const struct entries *e)
{
    struct counted_entries a = {malloc((e->n + 1) * sizeof *a.at), e->n, e->n + 1};
    for (size_t i = 0; i < e->n; i++)
        a.at[i] = (struct counted_entry){e->value[i], e->count[i]};
    return a;
}

static inline struct counted_memory make_set(const struct counted *design, const struct entries *e)
{
    struct counted_entries a = array_of(e);
    struct counted_memory made = {.data = NULL};
    struct err err;
    MUST(counted_make(&made, design, a.at, a.n, &err));
    free(a.at);
    return made;
}

/* The set in memory of exactly its length: sanitizers see all reads outside. */
static inline struct counted_set open_set(struct counted_memory *m)
{
    m->data = realloc(m->data, m->len);
    return counted_set(&m->counted, m->data, m->len);
}

static inline bool check_set(const struct counted_set *set, struct err *err)
{
    struct layer layer = {.data_len = set->len};
    counted_to(&set->counted, &layer);
    bool ok = counted_check(&layer, err);
    for (uint64_t page = 0; ok && page * 4096 < set->directory_len; page++)
        ok = counted_check_page(set, page, err);
    return ok;
}

static inline bool same_entries(const struct entries *a, const struct counted_entries *b)
{
    size_t same = 0;
    while (same < a->n && same < b->n && a->value[same] == b->at[same].value &&
           a->count[same] == b->at[same].count)
        same++;
    return same == a->n && same == b->n;
}

/* Does a set hold these entries, and no others? */
static inline bool holds(const struct counted_set *set, const struct entries *e)
{
    struct counted_entries got;
    struct counted_sums read;
    struct err err;
    bool ok = counted_read(set, &got, &read, &err) && same_entries(e, &got) &&
              read.entries == set->counted.entries && read.total == set->counted.total;
    free(got.at);
    return ok;
}

/* Why its entries cannot be read; "" if they can. */
static inline const char *refusal(const struct counted_set *set)
{
    static struct err err;
    struct counted_entries got;
    struct counted_sums read;
    err.text[0] = '\0';
    if (counted_read(set, &got, &read, &err))
        err.text[0] = '\0';
    free(got.at);
    return err.text;
}

#endif

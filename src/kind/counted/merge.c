/* SPDX-License-Identifier: MIT */
/* Merges arrays of entries. */
#include "kind/counted/parts.h"

void counted_narrow(struct counted_entries *e, size_t from, unsigned drop)
{
    size_t n = from;
    for (size_t i = from; i < e->n; i++) {
        struct counted_entry now = {e->at[i].value >> drop, e->at[i].count};
        if (n > 0 && e->at[n - 1].value == now.value)
            now.count += e->at[--n].count;
        e->at[n++] = now;
    }
    e->n = n;
}

/* Combines the counts a and b of a fingerprint. One of them may be 0 (absent), not both. Returns 0
 * if the fingerprint is not in the result. */
COUNTED_INLINE uint64_t combined(enum counts_op op, uint64_t a, uint64_t b)
{
    switch (op) {
    case COUNTS_ADD:
        return a + b;
    case COUNTS_MAX:
        return a > b ? a : b;
    case COUNTS_DISTINCT:
        return 1;
    case COUNTS_INTERSECT:
        return a < b ? a : b;
    case COUNTS_SUBTRACT:
        return (a - b) & -(uint64_t)(a > b);
    case COUNTS_EXCEPT:
        return a & -(uint64_t)(b == 0);
    }
    return 0;
}

/* Branches on the values could not be predicted, so there are none. */
COUNTED_INLINE void merge(enum counts_op op, const struct counted_entries *a,
                          const struct counted_entries *b, struct counted_entries *to,
                          struct counted_seen *seen)
{
    struct counts_seen s = seen->counts;
    size_t i = 0, j = 0, n = 0;
    bool too_many = false;
    /* Behind an array is what no entry is above; it is told from an entry by its number. */
    a->at[a->n] = b->at[b->n] = (struct counted_entry){UINT64_MAX, 0};
    while (i < a->n || j < b->n) {
        const struct counted_entry of_a = a->at[i], of_b = b->at[j];
        bool in_a = (i < a->n) & (of_a.value <= of_b.value);
        bool in_b = (j < b->n) & (of_b.value <= of_a.value);
        uint64_t count_a = of_a.count & -(uint64_t)in_a, count_b = of_b.count & -(uint64_t)in_b;
        uint64_t count = combined(op, count_a, count_b);
        bool over = op == COUNTS_ADD && count < count_a;
        count |= -(uint64_t)over;
        to->at[n] = (struct counted_entry){in_a ? of_a.value : of_b.value, count};
        n += count > 0;
        i += in_a;
        j += in_b;
        s.both += in_a & in_b;
        s.total_a += count_a;
        s.total_b += count_b;
        s.total_smaller += count_a < count_b ? count_a : count_b;
        s.lacking += count_a < count_b;
        s.total_made += count;
        too_many |= over | (s.total_made < count);
    }
    s.a += i;
    s.b += j;
    s.made += n;
    to->n = n;
    seen->counts = s;
    seen->too_many |= too_many;
}

bool counted_merge(enum counts_op op, struct counted_entries *a, struct counted_entries *b,
                   struct counted_entries *room, struct counted_seen *seen, struct err *err)
{
    room->n = 0;
    if (!counted_room(room, a->n + b->n, err) || !counted_room(a, 0, err) ||
        !counted_room(b, 0, err))
        return false;
    if (op == COUNTS_ADD) /* the usual one, with its constant */
        merge(COUNTS_ADD, a, b, room, seen);
    else
        merge(op, a, b, room, seen);
    if (room->n > COUNTED_CROWD)
        return kind_crowded(COUNTED_CROWD, err);
    counted_swap(a, room);
    return true;
}

void counted_alone(enum counts_op op, struct counted_entries *e, struct counted_seen *seen)
{
    struct counts_seen *s = &seen->counts;
    for (size_t i = 0; i < e->n; i++) {
        s->total_a += e->at[i].count;
        if (op == COUNTS_DISTINCT)
            e->at[i].count = 1;
        s->total_made += e->at[i].count;
        seen->too_many |= s->total_made < e->at[i].count;
    }
    s->a += e->n;
    s->made += e->n;
}

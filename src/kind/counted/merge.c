/* SPDX-License-Identifier: MIT */
/* Streams over other streams. */
#include "kind/counted/stream.h"

#include "kind/counted/parts.h"

static bool too_many(struct err *err)
{
    return fail(err, "the sum of the counts would be 2^64 or more");
}

/* Reads the next run if the current one is used up. Sets `ended` at the end of the stream. */
static bool refill(struct counted_rest *r, struct err *err)
{
    if (r->at < r->run.n || r->ended)
        return true;
    r->at = r->run.n = 0;
    if (!counted_next(r->stream, &r->run, err))
        return false;
    r->ended = r->run.n == 0;
    return true;
}

/* Combines the counts a and b of a fingerprint. One of them may be 0 (absent), not both. Returns 0
 * if the fingerprint is not in the result. Sets *too_many if the count does not fit 64 bits. */
COUNTED_INLINE uint64_t combine(enum counts_op op, uint64_t a, uint64_t b, bool *too_many)
{
    switch (op) {
    case COUNTS_ADD:
        *too_many |= a + b < a;
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

/* Merges until an input run is used up or the output is full. Branches on the values could not be
 * predicted, so there are none. */
COUNTED_INLINE bool merge_both(struct counted_merge *m, enum counts_op op, size_t *filled)
{
    const struct counted_run a = m->a.run, b = m->b.run;
    struct counts_seen seen = m->seen;
    size_t i = m->a.at, j = m->b.at, n = *filled;
    bool too_many = false;
    while (i < a.n && j < b.n && n < COUNTED_RUN) {
        uint64_t of_a = a.value[i], of_b = b.value[j];
        bool in_a = of_a <= of_b, in_b = of_b <= of_a;
        uint64_t count_a = a.count[i] & -(uint64_t)in_a, count_b = b.count[j] & -(uint64_t)in_b;
        uint64_t v = in_a ? of_a : of_b, count = combine(op, count_a, count_b, &too_many);
        m->value[n] = v;
        m->count[n] = count;
        n += count > 0;
        i += in_a;
        j += in_b;
        seen.both += in_a & in_b;
        seen.total_a += count_a;
        seen.total_b += count_b;
        seen.total_smaller += count_a < count_b ? count_a : count_b;
        seen.lacking += count_a < count_b;
        seen.made += count > 0;
        seen.total_made += count;
        too_many |= seen.total_made < count;
    }
    seen.a += i - m->a.at;
    seen.b += j - m->b.at;
    m->seen = seen;
    m->a.at = i;
    m->b.at = j;
    *filled = n;
    return !too_many;
}

/* Merges the rest of one stream when the other has ended. */
static bool merge_rest(struct counted_merge *m, struct counted_rest *r, bool is_a, size_t *filled)
{
    size_t n = *filled, at = r->at;
    bool too_many = false;
    for (; at < r->run.n && n < COUNTED_RUN; at++) {
        uint64_t v = r->run.value[at], given = r->run.count[at];
        uint64_t count = combine(m->op, is_a ? given : 0, is_a ? 0 : given, &too_many);
        m->value[n] = v;
        m->count[n] = count;
        n += count > 0;
        *(is_a ? &m->seen.total_a : &m->seen.total_b) += given;
        m->seen.lacking += !is_a;
        m->seen.made += count > 0;
        m->seen.total_made += count;
        too_many |= m->seen.total_made < count;
    }
    *(is_a ? &m->seen.a : &m->seen.b) += at - r->at;
    r->at = at;
    *filled = n;
    return !too_many;
}

static bool merge_op(struct counted_merge *m, size_t *filled)
{
    switch (m->op) {
    case COUNTS_ADD:
        return merge_both(m, COUNTS_ADD, filled);
    case COUNTS_MAX:
        return merge_both(m, COUNTS_MAX, filled);
    case COUNTS_DISTINCT:
        return merge_both(m, COUNTS_DISTINCT, filled);
    case COUNTS_INTERSECT:
        return merge_both(m, COUNTS_INTERSECT, filled);
    case COUNTS_SUBTRACT:
        return merge_both(m, COUNTS_SUBTRACT, filled);
    case COUNTS_EXCEPT:
        return merge_both(m, COUNTS_EXCEPT, filled);
    }
    return true;
}

static bool next_merged(struct counted_stream *stream, struct counted_run *run, struct err *err)
{
    struct counted_merge *m = (struct counted_merge *)stream;
    size_t n = 0;
    *run = (struct counted_run){.n = 0};
    while (n < COUNTED_RUN) {
        if (!refill(&m->a, err) || !refill(&m->b, err))
            return false;
        if (m->a.ended && m->b.ended)
            break;
        bool ok = m->a.ended   ? merge_rest(m, &m->b, false, &n)
                  : m->b.ended ? merge_rest(m, &m->a, true, &n)
                               : merge_op(m, &n);
        if (!ok)
            return too_many(err);
    }
    *run = (struct counted_run){.value = m->value, .count = m->count, .n = n};
    return true;
}

void counted_merge(struct counted_merge *m, enum counts_op op, struct counted_stream *a,
                   struct counted_stream *b)
{
    m->stream.next = next_merged;
    m->op = op;
    m->a = (struct counted_rest){.stream = a};
    m->b = (struct counted_rest){.stream = b, .ended = b == NULL};
    m->seen = (struct counts_seen){0};
}

/* Narrows entries of the run, as many as fit into the output. */
static bool narrow_run(struct counted_narrow *m, size_t *filled)
{
    struct counted_rest *from = &m->from;
    size_t n = *filled, left = from->run.n - from->at, room = COUNTED_RUN - n;
    size_t end = from->at + (left < room ? left : room);
    uint64_t value = m->value_so_far, count = m->count_so_far;
    bool too_large = false;
    for (size_t i = from->at; i < end; i++) {
        uint64_t v = from->run.value[i] >> m->drop;
        bool same = count > 0 && v == value;
        m->value[n] = value;
        m->count[n] = count;
        n += count > 0 && !same;
        uint64_t before = same ? count : 0;
        count = before + from->run.count[i];
        too_large |= count < before;
        value = v;
    }
    m->value_so_far = value;
    m->count_so_far = count;
    from->at = end;
    *filled = n;
    return !too_large;
}

static bool next_narrow(struct counted_stream *stream, struct counted_run *run, struct err *err)
{
    struct counted_narrow *m = (struct counted_narrow *)stream;
    size_t n = 0;
    *run = (struct counted_run){.n = 0};
    while (n < COUNTED_RUN) {
        if (!refill(&m->from, err))
            return false;
        if (m->from.ended)
            break;
        if (!narrow_run(m, &n))
            return too_many(err);
    }
    if (n < COUNTED_RUN && m->count_so_far > 0) {
        m->value[n] = m->value_so_far;
        m->count[n++] = m->count_so_far;
        m->count_so_far = 0;
    }
    *run = (struct counted_run){.value = m->value, .count = m->count, .n = n};
    return true;
}

void counted_narrow(struct counted_narrow *m, struct counted_stream *from, unsigned drop)
{
    m->stream.next = next_narrow;
    m->from = (struct counted_rest){.stream = from};
    m->drop = drop;
    m->value_so_far = m->count_so_far = 0;
}

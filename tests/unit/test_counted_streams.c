/* SPDX-License-Identifier: MIT */
/* Streams of counted sets: ranges, and what is made of two. Compared with plain arrays.
 * tags: portable */
#include "counted_sets.h"
#include "kind/counted/stream.h"

/* The same as a merge, one value at a time. */
static uint64_t expected_count(enum counts_op op, uint64_t a, uint64_t b)
{
    uint64_t most = a > b ? a : b, least = a < b ? a : b;
    switch (op) {
    case COUNTS_ADD:
        return a + b;
    case COUNTS_MAX:
        return most;
    case COUNTS_DISTINCT:
        return 1;
    case COUNTS_INTERSECT:
        return least;
    case COUNTS_SUBTRACT:
        return a - least;
    case COUNTS_EXCEPT:
        return b == 0 ? a : 0;
    }
    return 0;
}

static struct entries expected_merge(enum counts_op op, const struct entries *a,
                                     const struct entries *b, struct counts_seen *seen)
{
    struct entries e = {malloc((a->n + b->n + 1) * 8), malloc((a->n + b->n + 1) * 8), 0};
    *seen = (struct counts_seen){.a = a->n, .b = b->n};
    size_t n = a->n + b->n;
    memcpy(e.value, a->value, a->n * 8);
    if (b->n > 0)
        memcpy(e.value + a->n, b->value, b->n * 8);
    qsort(e.value, n, 8, compare_hashes);
    uint64_t previous = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t v = e.value[i], of_a = count_in(a, v), of_b = count_in(b, v);
        if (i > 0 && v == previous)
            continue;
        previous = v;
        seen->total_a += of_a;
        seen->total_b += of_b;
        seen->both += of_a > 0 && of_b > 0;
        seen->total_smaller += of_a < of_b ? of_a : of_b;
        seen->lacking += of_a < of_b;
        e.value[e.n] = v;
        e.count[e.n] = expected_count(op, of_a, of_b);
        seen->total_made += e.count[e.n];
        e.n += e.count[e.n] > 0;
    }
    seen->made = e.n;
    return e;
}

/* About a half of b's are in a too. */
static struct entries half_of(const struct entries *a, size_t n, uint64_t top, enum counts counts)
{
    struct entries b = draw_entries(n, top, counts);
    for (size_t i = 0; i < b.n && a->n > 0; i += 2)
        b.value[i] = a->value[draw() % a->n];
    qsort(b.value, b.n, 8, compare_hashes);
    n = b.n;
    b.n = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || b.value[i] != b.value[b.n - 1])
            b.value[b.n++] = b.value[i];
    return b;
}

static void check_merge(const struct entries *a, const struct entries *b, unsigned bits)
{
    static struct counted_reader ra, rb;
    static struct counted_merge m;
    struct counted c = {.bits = bits};
    struct counted_memory ma = make_set(&c, a), mb = make_set(&c, b);
    struct counted_set sa = open_set(&ma), sb = open_set(&mb);
    for (enum counts_op op = COUNTS_ADD; op <= COUNTS_EXCEPT; op++) {
        struct counts_seen seen;
        struct entries want = expected_merge(op, a, b, &seen), got;
        struct err err;
        counted_read(&ra, &sa);
        counted_read(&rb, &sb);
        counted_merge(&m, op, &ra.stream, &rb.stream);
        MUST(take_all(&m.stream, a->n + b->n, &got, &err));
        CHECK(same_entries(&want, &got));
        CHECK(memcmp(&seen, &m.seen, sizeof seen) == 0);
        free_entries(&want);
        free_entries(&got);
    }
    free(ma.data);
    free(mb.data);
}

TEST(merges_are_those_of_arrays)
{
    static const size_t sizes[] = {0, 1, 50, 2000, 5000};
    static const enum counts counts[] = {ALL_ONE, FEW, GEOMETRIC, ZIPF};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    random_restart(1);
    for (unsigned i = 0; i < SIZES * SIZES; i++) {
        const struct counted c = {.bits = i % 3 == 0 ? 64 : i % 3 == 1 ? 12 : 20};
        struct entries a = draw_entries(sizes[i % SIZES], counted_top(&c), counts[i % 4]);
        struct entries b = half_of(&a, sizes[i / SIZES], counted_top(&c), counts[i / 4 % 4]);
        check_merge(&a, &b, c.bits);
        free_entries(&a);
        free_entries(&b);
    }
}

TEST(counts_that_do_not_fit_are_refused)
{
    static struct counted_array a, b;
    static struct counted_merge m;
    static struct counted_narrow mapped;
    uint64_t value[] = {6, 7}, large[] = {1, UINT64_MAX - 7}, small[] = {1, 5}, more[] = {2, 5};
    struct entries got;
    struct err err;
    for (unsigned i = 0; i < 2; i++) {
        counted_array(&a, value, large, 2);
        counted_array(&b, value, i == 0 ? small : more, 2);
        counted_merge(&m, COUNTS_ADD, &a.stream, &b.stream);
        CHECK(take_all(&m.stream, 2, &got, &err) == (i == 0));
        if (i == 0)
            CHECK(got.n == 2 && got.count[1] == UINT64_MAX - 2 && got.count[0] == 2);
        else
            CHECK_STR(err.text, "the sum of the counts would be 2^64 or more");
        free_entries(&got);
    }
    large[0] = 8;
    counted_array(&a, value, large, 2);
    counted_narrow(&mapped, &a.stream, 1);
    CHECK(!take_all(&mapped.stream, 2, &got, &err));
    CHECK_STR(err.text, "the sum of the counts would be 2^64 or more");
    free_entries(&got);
}

TEST(ranges_begin_and_end_anywhere)
{
    static struct counted_reader r;
    random_restart(2);
    for (unsigned kind = 0; kind < 3; kind++) {
        struct counted c = {.bits = kind == 1 ? 13 : 64};
        struct entries e =
            draw_entries(6000, kind == 2 ? 1 << 14 : counted_top(&c), kind == 0 ? ZIPF : FEW);
        struct counted_memory m = make_set(&c, &e);
        struct counted_set set = open_set(&m);
        for (unsigned i = 0; i < 200; i++) {
            uint64_t first = e.value[draw() % e.n] + draw() % 3 - 1, last = draw(), top;
            top = counted_top(&c);
            last = i % 3 == 0 ? e.value[draw() % e.n] : top < UINT64_MAX ? last % (top + 1) : last;
            size_t from = 0, to;
            while (from < e.n && e.value[from] < first)
                from++;
            for (to = from; to < e.n && e.value[to] <= last; to++)
                ;
            struct entries want = {e.value + from, e.count + from, to - from}, got;
            struct err err;
            counted_read_range(&r, &set, first, last);
            MUST(take_all(&r.stream, e.n, &got, &err));
            CHECK(same_entries(&want, &got));
            free_entries(&got);
        }
        free(m.data);
        free_entries(&e);
    }
}

static void check_narrow(struct counted_stream *s, const struct entries *from, unsigned drop)
{
    struct entries want = {malloc((from->n + 1) * 8), malloc((from->n + 1) * 8), 0}, got;
    struct err err;
    for (size_t i = 0; i < from->n; i++) {
        uint64_t v = from->value[i] >> drop;
        if (want.n == 0 || want.value[want.n - 1] != v) {
            want.value[want.n] = v;
            want.count[want.n++] = 0;
        }
        want.count[want.n - 1] += from->count[i];
    }
    MUST(take_all(s, from->n, &got, &err));
    CHECK(same_entries(&want, &got));
    free_entries(&want);
    free_entries(&got);
}

TEST(equal_fingerprints_are_one_entry)
{
    static const size_t sizes[] = {0, 1, 1023, 1024, 1025, 5000};
    static struct counted_array a;
    static struct counted_narrow m, twice;
    random_restart(3);
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct entries e = draw_entries(sizes[s], UINT64_MAX, GEOMETRIC);
        for (unsigned drop = 0; drop <= 63; drop += 7) {
            counted_array(&a, e.value, e.count, e.n);
            counted_narrow(&m, &a.stream, drop);
            check_narrow(&m.stream, &e, drop);
        }
        counted_array(&a, e.value, e.count, e.n);
        counted_narrow(&m, &a.stream, 50);
        counted_narrow(&twice, &m.stream, 3);
        check_narrow(&twice.stream, &e, 53);
        /* Hashes may repeat. */
        for (size_t i = 3; i < e.n; i += 3)
            e.value[i] = e.value[i - 1];
        counted_array(&a, e.value, e.count, e.n);
        counted_narrow(&m, &a.stream, 47);
        check_narrow(&m.stream, &e, 47);
        free_entries(&e);
    }
}

/* A set of narrower fingerprints is the one that hashes would have made. */
TEST(narrowed_sets_have_the_same_bytes)
{
    static struct counted_array a;
    static struct counted_narrow m, n;
    static struct counted_reader r;
    random_restart(4);
    struct entries e = draw_entries(10000, UINT64_MAX, FEW);
    const struct counted wide = {.bits = 37}, narrow = {.bits = 25};
    struct counted_memory full, direct, derived;
    struct err err;
    counted_array(&a, e.value, e.count, e.n);
    counted_narrow(&m, &a.stream, 64 - 37);
    MUST(counted_make(&full, &wide, 10000, &m.stream, &err));
    counted_array(&a, e.value, e.count, e.n);
    counted_narrow(&m, &a.stream, 64 - 25);
    MUST(counted_make(&direct, &narrow, 10000, &m.stream, &err));
    struct counted_set set = open_set(&full);
    counted_read(&r, &set);
    counted_narrow(&n, &r.stream, 12);
    MUST(counted_make(&derived, &narrow, 10000, &n.stream, &err));
    CHECK(direct.len == derived.len && memcmp(direct.data, derived.data, direct.len) == 0);
    CHECK(full.len > direct.len);
    CHECK(memcmp(&direct.counted, &derived.counted, sizeof derived.counted) == 0);
    free(full.data);
    free(direct.data);
    free(derived.data);
    free_entries(&e);
}

/* What cannot be read does not become an end. */
TEST(damage_goes_through_merges)
{
    static struct counted_reader ra, rb;
    static struct counted_merge m;
    random_restart(5);
    struct counted c = {.bits = 64};
    struct entries e = draw_entries(5000, UINT64_MAX, ALL_ONE), got;
    struct counted_memory good = make_set(&c, &e), bad = make_set(&c, &e);
    /* The second group does not follow the first. */
    bad.data[COUNTED_LINE]++;
    struct counted_set sa = open_set(&good), sb = open_set(&bad);
    for (unsigned i = 0; i < 2; i++) {
        struct err err;
        counted_read(&ra, i == 0 ? &sa : &sb);
        counted_read(&rb, i == 0 ? &sb : &sa);
        counted_merge(&m, COUNTS_ADD, &ra.stream, &rb.stream);
        CHECK(!take_all(&m.stream, 10000, &got, &err));
        CHECK_STR(err.text, "the data of a counted set is not valid");
        free_entries(&got);
    }
    free(good.data);
    free(bad.data);
    free_entries(&e);
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(merges_are_those_of_arrays);
    RUN(counts_that_do_not_fit_are_refused);
    RUN(ranges_begin_and_end_anywhere);
    RUN(equal_fingerprints_are_one_entry);
    RUN(narrowed_sets_have_the_same_bytes);
    RUN(damage_goes_through_merges);
    return check_done();
}

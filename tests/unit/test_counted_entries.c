/* SPDX-License-Identifier: MIT */
/* Entries of counted sets: ranges, and what is made of two. Compared with a model.
 * tags: portable */
#include "counted_sets.h"
#include "faulty.h"

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

static void check_merge(const struct entries *a, const struct entries *b)
{
    for (enum counts_op op = COUNTS_ADD; op <= COUNTS_EXCEPT; op++) {
        struct counted_entries got = array_of(a), other = array_of(b), room = {0};
        struct counted_seen seen = {.too_many = false};
        struct counts_seen want_seen;
        struct entries want = expected_merge(op, a, b, &want_seen);
        struct err err;
        MUST(counted_merge(op, &got, &other, &room, &seen, &err));
        CHECK(same_entries(&want, &got));
        CHECK(memcmp(&want_seen, &seen.counts, sizeof want_seen) == 0 && !seen.too_many);
        free_entries(&want);
        free(got.at);
        free(other.at);
        free(room.at);
    }
}

TEST(merges_are_those_of_the_model)
{
    static const size_t sizes[] = {0, 1, 50, 2000, 5000};
    static const enum counts counts[] = {ALL_ONE, FEW, GEOMETRIC, ZIPF};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    random_restart(1);
    for (unsigned i = 0; i < SIZES * SIZES; i++) {
        const struct counted c = {.bits = i % 3 == 0 ? 64 : i % 3 == 1 ? 12 : 20};
        struct entries a = draw_entries(sizes[i % SIZES], counted_top(&c), counts[i % 4]);
        struct entries b = half_of(&a, sizes[i / SIZES], counted_top(&c), counts[i / 4 % 4]);
        /* The largest fingerprint is none that stands for an end. */
        if (i % 2 == 0 && a.n > 0)
            a.value[a.n - 1] = counted_top(&c);
        if (i % 4 == 0 && b.n > 0)
            b.value[b.n - 1] = counted_top(&c);
        check_merge(&a, &b);
        free_entries(&a);
        free_entries(&b);
    }
}

TEST(counts_that_do_not_fit_are_told)
{
    uint64_t value[] = {6, 7}, large[] = {1, UINT64_MAX - 7}, small[] = {1, 5}, more[] = {1, 9};
    const struct entries of_large = {value, large, 2}, of_small = {value, small, 2};
    const struct entries of_more = {value, more, 2};
    struct err err;
    for (unsigned i = 0; i < 3; i++) {
        struct counted_entries a = array_of(&of_large), b = array_of(i == 2 ? &of_more : &of_small);
        struct counted_entries room = {0};
        struct counted_seen seen = {.counts.total_made = i == 1 ? 5 : 0};
        MUST(counted_merge(COUNTS_ADD, &a, &b, &room, &seen, &err));
        CHECK(seen.too_many == (i > 0));
        CHECK(a.at[0].count == 2 && a.at[1].count == UINT64_MAX - (i == 2 ? 0 : 2));
        free(a.at);
        free(b.at);
        free(room.at);
    }
    for (unsigned i = 0; i < 2; i++) {
        large[0] = 7 + i;
        struct counted_memory m = make_set(&(struct counted){.bits = 20}, &of_large);
        struct counted_set set = open_set(&m);
        struct counted_entries a = {0};
        struct counted_sums read = {0};
        CHECK(counted_read_range(&set, 0, UINT64_MAX, 1, &a, &read, &err) == (i == 0));
        if (i == 0)
            CHECK(a.n == 1 && a.at[0].count == UINT64_MAX);
        else
            CHECK_STR(err.text, "the data of a counted set is not valid");
        free(a.at);
        free(m.data);
    }
}

/* Of three arrays that are to grow, one does not. */
TEST(a_merge_without_memory_is_told)
{
    bool failed = true;
    for (long n = 0; failed; n++) {
        struct counted_entries a = {0}, b = {0}, room = {0};
        struct counted_seen seen = {0};
        struct err err = {.text = ""};
        faulty_begin(n);
        bool ok = counted_merge(COUNTS_ADD, &a, &b, &room, &seen, &err);
        failed = faulty_end();
        CHECK(ok != failed);
        CHECK_STR(err.text, failed ? "out of memory" : "");
        free(a.at);
        free(b.at);
        free(room.at);
    }
}

TEST(ranges_begin_and_end_anywhere)
{
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
            struct entries want = {e.value + from, e.count + from, to - from};
            struct counted_entries got = {0};
            struct counted_sums read = {0};
            uint64_t total = 0;
            struct err err;
            MUST(counted_read_range(&set, first, last, 0, &got, &read, &err));
            CHECK(same_entries(&want, &got));
            for (size_t k = 0; k < want.n; k++)
                total += want.count[k];
            CHECK(read.entries == want.n && read.total == total);
            free(got.at);
        }
        free(m.data);
        free_entries(&e);
    }
}

/* Entries with `drop` bits fewer; values may repeat. */
static struct entries narrowed(const struct entries *from, unsigned drop)
{
    struct entries want = {malloc((from->n + 1) * 8), malloc((from->n + 1) * 8), 0};
    for (size_t i = 0; i < from->n; i++) {
        uint64_t v = from->value[i] >> drop;
        if (want.n == 0 || want.value[want.n - 1] != v) {
            want.value[want.n] = v;
            want.count[want.n++] = 0;
        }
        want.count[want.n - 1] += from->count[i];
    }
    return want;
}

static void check_narrow(const struct entries *from, unsigned drop)
{
    struct entries want = narrowed(from, drop);
    struct counted_entries whole = array_of(from), parts = {array_of(from).at, 0, from->n + 1};
    counted_narrow(&whole, 0, drop);
    CHECK(same_entries(&want, &whole));
    /* A part behind another, whose last entry may be joined with the next. */
    for (size_t at = 0, some; at < from->n; at += some) {
        const size_t n = parts.n;
        some = from->n - at < 700 ? from->n - at : 700;
        for (size_t i = 0; i < some; i++)
            parts.at[parts.n++] = (struct counted_entry){from->value[at + i], from->count[at + i]};
        counted_narrow(&parts, n, drop);
    }
    CHECK(same_entries(&want, &parts));
    free_entries(&want);
    free(whole.at);
    free(parts.at);
}

TEST(equal_fingerprints_are_one_entry)
{
    static const size_t sizes[] = {0, 1, 1023, 1024, 1025, 5000};
    random_restart(3);
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct entries e = draw_entries(sizes[s], UINT64_MAX, GEOMETRIC);
        for (unsigned drop = 0; drop <= 63; drop += 7)
            check_narrow(&e, drop);
        /* Hashes may repeat. */
        for (size_t i = 3; i < e.n; i += 3)
            e.value[i] = e.value[i - 1];
        check_narrow(&e, 47);
        free_entries(&e);
    }
}

/* A set of narrower fingerprints is the one that hashes would have made. */
TEST(narrowed_sets_have_the_same_bytes)
{
    random_restart(4);
    struct entries e = draw_entries(10000, UINT64_MAX, FEW);
    const struct counted wide = {.bits = 37}, narrow = {.bits = 25};
    struct entries of_wide = narrowed(&e, 64 - 37), of_narrow = narrowed(&e, 64 - 25);
    struct counted_memory full = make_set(&wide, &of_wide), direct = make_set(&narrow, &of_narrow);
    struct counted_memory derived;
    struct counted_set set = open_set(&full);
    struct counted_entries got = {0};
    struct counted_sums read = {0};
    struct err err;
    MUST(counted_read_range(&set, 0, UINT64_MAX, 12, &got, &read, &err));
    CHECK(got.n < of_wide.n && read.entries == of_wide.n);
    MUST(counted_make(&derived, &narrow, got.at, got.n, &err));
    CHECK(direct.len == derived.len && memcmp(direct.data, derived.data, direct.len) == 0);
    CHECK(full.len > direct.len);
    CHECK(memcmp(&direct.counted, &derived.counted, sizeof derived.counted) == 0);
    free(got.at);
    free(full.data);
    free(direct.data);
    free(derived.data);
    free_entries(&of_wide);
    free_entries(&of_narrow);
    free_entries(&e);
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(merges_are_those_of_the_model);
    RUN(counts_that_do_not_fit_are_told);
    RUN(a_merge_without_memory_is_told);
    RUN(ranges_begin_and_end_anywhere);
    RUN(equal_fingerprints_are_one_entry);
    RUN(narrowed_sets_have_the_same_bytes);
    return check_done();
}

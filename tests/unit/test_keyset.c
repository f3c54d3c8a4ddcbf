/* SPDX-License-Identifier: MIT
 * Key sets against sorting: whatever the hashes, the memory and the number of threads, the same
 * ones come back, each in its place.
 *
 * Nothing here depends on chance.
 */
#include "base/parallel.h"
#include "check.h"
#include "faulty.h"
#include "keys/keyset.h"
#include "keys/keyset_parts.h"
#include "random.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

struct list {
    uint64_t *hash;
    size_t n;
};

static struct list list_new(size_t n)
{
    struct list list = {malloc((n + 1) * sizeof(uint64_t)), n};
    if (list.hash == NULL)
        exit(1);
    return list;
}

/* By digits of 16 bits, the lowest first. */
static void sort(struct list *list)
{
    enum { DIGITS = 1 << 16 };
    struct list other = list_new(list->n);
    size_t *at = malloc(DIGITS * sizeof *at);
    if (at == NULL)
        exit(1);
    for (unsigned shift = 0; shift < 64; shift += 16) {
        size_t sum = 0;
        memset(at, 0, DIGITS * sizeof *at);
        for (size_t i = 0; i < list->n; i++)
            at[list->hash[i] >> shift & 0xffff]++;
        for (size_t d = 0; d < DIGITS; d++) {
            size_t count = at[d];
            at[d] = sum;
            sum += count;
        }
        for (size_t i = 0; i < list->n; i++)
            other.hash[at[list->hash[i] >> shift & 0xffff]++] = list->hash[i];
        uint64_t *sorted = other.hash;
        other.hash = list->hash;
        list->hash = sorted;
    }
    free(other.hash);
    free(at);
}

static struct list copy_of(const struct list *list)
{
    struct list copy = list_new(list->n);
    memcpy(copy.hash, list->hash, list->n * sizeof *list->hash);
    return copy;
}

/* sort -u */
static struct list unique_of(const struct list *list)
{
    struct list unique = copy_of(list);
    size_t n = 0;
    sort(&unique);
    for (size_t i = 0; i < unique.n; i++)
        if (n == 0 || unique.hash[n - 1] != unique.hash[i])
            unique.hash[n++] = unique.hash[i];
    unique.n = n;
    return unique;
}

static bool equal(const struct list *a, const struct list *b)
{
    return a->n == b->n && memcmp(a->hash, b->hash, a->n * sizeof *a->hash) == 0;
}

/* Patterns of hashes. */

static uint64_t make_random(size_t i, size_t n)
{
    (void)i;
    (void)n;
    return draw();
}

static uint64_t make_equal(size_t i, size_t n)
{
    (void)i;
    (void)n;
    return 0x123456789abcdef0;
}

static uint64_t make_zero(size_t i, size_t n)
{
    (void)i;
    (void)n;
    return 0;
}

static uint64_t make_sequential(size_t i, size_t n)
{
    (void)n;
    return i;
}

static uint64_t make_last(size_t i, size_t n)
{
    (void)n;
    return UINT64_MAX - i / 2;
}

static uint64_t make_one_partition(size_t i, size_t n)
{
    (void)i;
    (void)n;
    return (uint64_t)0x5a << (64 - KEYSET_BITS) | draw() >> KEYSET_BITS;
}

static uint64_t make_crowd(size_t i, size_t n)
{
    (void)i;
    (void)n;
    return (uint64_t)0x12345 << 44 | draw() >> 20;
}

/* Evenly spread over the whole space, both ends included, each twice. */
static uint64_t make_even(size_t i, size_t n)
{
    return i % (n / 2) * (UINT64_MAX / (n / 2 - 1));
}

static uint64_t make_repeats(size_t i, size_t n)
{
    (void)i;
    (void)n;
    uint64_t which = draw() % 1000;
    return random_at(which);
}

/* Half of them one and the same, the others random. */
static uint64_t make_favourite(size_t i, size_t n)
{
    (void)n;
    return i % 2 ? UINT64_MAX : draw();
}

/* Neighbours at the seams between partitions. */
static uint64_t make_seams(size_t i, size_t n)
{
    (void)n;
    uint64_t seam = (uint64_t)(i % KEYSET_PARTITIONS) << (64 - KEYSET_BITS);
    return seam + draw() % 5 - 2;
}

static const struct pattern {
    const char *name;
    uint64_t (*make)(size_t i, size_t n);
    bool crowds; /* nearly all are in one partition */
} patterns[] = {
    {"random", make_random, false},
    {"all equal", make_equal, true},
    {"all zero", make_zero, true},
    {"sequential", make_sequential, true},
    {"at the end of the space", make_last, true},
    {"one partition", make_one_partition, true},
    {"even", make_even, false},
    {"a crowd", make_crowd, true},
    {"a thousand, repeated", make_repeats, false},
    {"half of them one", make_favourite, false},
    {"at the seams", make_seams, false},
};

enum { N_PATTERNS = sizeof patterns / sizeof *patterns };

static struct list make(size_t pattern, size_t n)
{
    struct list list = list_new(n);
    random_restart(0);
    for (size_t i = 0; i < n; i++)
        list.hash[i] = patterns[pattern].make(i, n);
    if (pattern == 0 && n >= 4) {
        list.hash[n / 2] = 0;
        list.hash[n / 3] = UINT64_MAX;
        list.hash[n - 1] = 0;
    }
    return list;
}

/* Every so many of them are tried: fewer where a sanitizer makes it slow. */
static size_t every(size_t step)
{
    return check_is_brief() ? 4 * step : step;
}

/* So many hashes, or all of them with FULL=1. */
static size_t of_all(size_t n, size_t all)
{
    return check_is_full() ? all : n;
}

/* Puts from all workers at once, in pieces of odd sizes. */

struct putting {
    struct keyset *ks;
    const struct list *h;
    atomic_bool failed;
};

enum { PIECE = 777 };

static void put_piece(void *ctx, unsigned worker, uint64_t i)
{
    struct putting *p = ctx;
    struct err err;
    size_t first = (size_t)i * PIECE, left = p->h->n - first;
    if (!keyset_put(p->ks, worker, p->h->hash + first, left < PIECE ? left : PIECE, &err) &&
        !atomic_exchange(&p->failed, true))
        printf("# %s\n", err.text);
}

static bool put_all(struct keyset *ks, unsigned workers, const struct list *h)
{
    struct putting p = {.ks = ks, .h = h};
    parallel_for(workers, (h->n + PIECE - 1) / PIECE, put_piece, &p);
    return !p.failed;
}

static struct keyset *set_of(const struct list *h, const struct keyset_spec *spec)
{
    struct err err;
    struct keyset *ks = keyset_new(spec, &err);
    if (ks == NULL || !put_all(ks, spec->workers, h))
        exit(1);
    return ks;
}

/* ---- Visits without order. */

struct visited {
    struct list got[KEYSET_PARTITIONS];
    size_t room[KEYSET_PARTITIONS];
    bool begun[KEYSET_PARTITIONS], ended[KEYSET_PARTITIONS];
    unsigned worker[KEYSET_PARTITIONS], workers;
    atomic_int wrong;
};

static bool visit(void *ctx, unsigned worker, unsigned p, const uint64_t *hash, size_t n,
                  struct err *err)
{
    struct visited *v = ctx;
    (void)err;
    if (p >= KEYSET_PARTITIONS || worker >= v->workers || v->ended[p] ||
        (v->begun[p] && v->worker[p] != worker)) {
        v->wrong++;
        return false;
    }
    struct list *got = &v->got[p];
    v->begun[p] = true;
    v->worker[p] = worker;
    v->ended[p] = n == 0;
    if (v->room[p] - got->n < n) {
        v->room[p] = 2 * got->n + n;
        got->hash = realloc(got->hash, v->room[p] * sizeof *got->hash);
        if (got->hash == NULL)
            exit(1);
    }
    for (size_t i = 0; i < n; i++) {
        v->wrong += hash[i] >> (64 - KEYSET_BITS) != p;
        got->hash[got->n++] = hash[i];
    }
    return true;
}

/* A visit must give all hashes, as often as they were put. `want` is sorted. */
static bool visit_gives(struct keyset *ks, unsigned workers, const struct list *want)
{
    struct visited *v = calloc(1, sizeof *v);
    struct err err;
    if (v == NULL)
        exit(1);
    v->workers = workers;
    bool ok = keyset_visit(ks, visit, v, &err);
    struct list all = list_new(want->n);
    all.n = 0;
    for (unsigned p = 0; p < KEYSET_PARTITIONS; p++) {
        v->wrong += !v->ended[p] || v->got[p].n > want->n - all.n;
        for (size_t i = 0; v->wrong == 0 && i < v->got[p].n; i++)
            all.hash[all.n++] = v->got[p].hash[i];
        free(v->got[p].hash);
    }
    sort(&all);
    ok = ok && v->wrong == 0 && equal(&all, want);
    if (!ok)
        printf("# %d wrong, %zu hashes, want %zu\n", (int)v->wrong, all.n, want->n);
    free(all.hash);
    free(v);
    return ok;
}

/* ---- Sorted visits. */

struct sorted {
    const struct list *want;
    unsigned bits;
    size_t n, part;
    uint64_t next;
    bool wrong, lacks;
};

static uint64_t prefix_of(uint64_t hash, unsigned bits)
{
    return hash >> 1 >> (63 - bits);
}

static bool visit_sorted(void *ctx, const struct keyset_range *range, struct err *err)
{
    struct sorted *s = ctx;
    (void)err;
    s->wrong |= range->n > s->want->n - s->n ||
                prefix_of(range->first, s->bits) != prefix_of(range->last, s->bits) ||
                range->first != s->next || range->last < range->first ||
                (s->part > 0 && range->n > s->part);
    for (size_t i = 0; i < range->n && !s->wrong; i++)
        s->wrong = range->hash[i] != s->want->hash[s->n++] || range->hash[i] < range->first ||
                   range->hash[i] > range->last;
    s->next = range->last + 1;
    s->lacks |= range->had_repeats;
    return !s->wrong;
}

static void never_gives_up(void *ctx)
{
    struct sorted *s = ctx;
    s->wrong = true;
}

/* For a set with one visitor. */
static bool sorted_gives(struct keyset *ks, unsigned bits, size_t part, const struct list *want,
                         size_t n_put)
{
    struct err err = {.text = ""};
    struct sorted s = {.want = want, .bits = bits, .part = part};
    bool ok = keyset_visit_sorted(ks, bits, visit_sorted, never_gives_up, &s, &err) && !s.wrong &&
              s.n == want->n && s.next == 0 && s.lacks == (want->n < n_put);
    if (!ok)
        printf("# %u bits: %zu hashes, want %zu; %s\n", bits, s.n, want->n, err.text);
    return ok;
}

/* ---- All ways to ask a set, in any order and repeatedly. */

/* The bytes of a set in scratch files. */
static uint64_t scratch_of(const struct keyset *ks)
{
    uint64_t len = 0;
    for (unsigned w = 0; w < ks->spec.workers; w++)
        len += ks->workers[w].scratch_len;
    return len;
}

static void check_set(size_t pattern, size_t n, unsigned workers, uint64_t memory, bool to_scratch)
{
    struct err err;
    struct list h = make(pattern, n), want = unique_of(&h), all = copy_of(&h);
    struct keyset_spec spec = {
        .workers = workers, .visitors = 1, .memory = memory, .scratch_dir = "/tmp"};
    struct keyset *ks = set_of(&h, &spec);
    uint64_t n_distinct = 0;
    sort(&all);
    bool ok = (scratch_of(ks) > 0) == to_scratch && visit_gives(ks, workers, &all) &&
              keyset_count(ks, &n_distinct, &err) && n_distinct == want.n &&
              visit_gives(ks, workers, &all);
    for (unsigned bits = to_scratch ? KEYSET_BITS : 0; bits <= 13; bits += 5)
        ok = ok && sorted_gives(ks, bits, 0, &want, h.n);
    CHECK(ok);
    if (!ok)
        printf("# %s, n %zu, workers %u, memory %llu, scratch %llu\n", patterns[pattern].name, n,
               workers, (unsigned long long)memory, (unsigned long long)scratch_of(ks));
    keyset_free(ks);
    free(h.hash);
    free(want.hash);
    free(all.hash);
}

TEST(all_in_memory)
{
    static const unsigned workers[] = {1, 2, 3, 8};
    for (size_t p = 0; p < N_PATTERNS; p++)
        for (size_t w = 0; w < 4; w += every(1))
            check_set(p, of_all(8000, 30000), workers[w], 64 << 20, false);
}

TEST(few_hashes)
{
    static const size_t counts[] = {0, 1, 2, 511, 512, 513};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        check_set(0, counts[c], 2, keyset_min_memory(2), false);
        check_set(1, counts[c], 2, keyset_min_memory(2), false);
    }
}

/* More than the least memory holds, 262144 hashes a worker. */
TEST(most_in_scratch)
{
    const size_t n = of_all(300000, 450000);
    for (size_t p = 0; p < N_PATTERNS; p++)
        for (unsigned workers = 1; workers <= 2; workers++)
            if (!patterns[p].crowds)
                check_set(p, n * workers, workers, keyset_min_memory(workers), true);
}

/* Hashes of one partition: to be sorted, they need twice their own memory, which must then be given
 * back. */
TEST(crowded_hashes)
{
    for (size_t p = 0; p < N_PATTERNS; p++)
        if (patterns[p].crowds)
            check_set(p, 400000, 1, 8 << 20, false);
}

/* All in one partition, all different. The memory that the error names suffices; a quarter less
 * does not. */
TEST(too_crowded_hashes)
{
    for (unsigned counts = 0; counts < 2; counts++) {
        struct err err;
        struct keyset_spec spec = {.workers = 2,
                                   .counts = counts,
                                   .memory = keyset_min_memory(2),
                                   .others = 5 << 20,
                                   .scratch_dir = "/tmp"};
        struct list h = list_new(600000);
        uint64_t n = 0;
        double mib = 0;
        for (size_t i = 0; i < h.n; i++)
            h.hash[i] = (uint64_t)7 << 56 | i;
        struct keyset *ks = set_of(&h, &spec);
        CHECK(!keyset_count(ks, &n, &err));
        const char *named = strstr(err.text, "--memory ");
        CHECK(named != NULL && sscanf(named, "--memory %lf MiB would do", &mib) == 1);
        CHECK(strstr(err.text, " 600000 keys ") != NULL && strstr(err.text, "--secret") != NULL);
        keyset_free(ks);
        uint64_t memory = (uint64_t)(mib * (1 << 20)) - spec.others;
        for (unsigned enough = 0; enough < 2; enough++) {
            spec.memory = enough ? memory : memory / 4 * 3;
            ks = set_of(&h, &spec);
            CHECK(keyset_count(ks, &n, &err) == enough && (!enough || n == h.n));
            struct list all = copy_of(&h);
            CHECK(visit_gives(ks, 2, &all)); /* without order it needs no memory */
            free(all.hash);
            keyset_free(ks);
        }
        free(h.hash);
    }
}

/* By fewer bits and by more than the set's own partitions have. */
TEST(sorted_parts)
{
    enum { PART = 20000 };
    struct list h = make(0, of_all(1500000, 6000000)), want = unique_of(&h);
    for (unsigned bits = 4; bits <= 13; bits += 3) {
        struct keyset_spec spec = {.workers = 1,
                                   .memory =
                                       keyset_min_memory(1) + keyset_part_memory(h.n / 16, false),
                                   .scratch_dir = "/tmp",
                                   .part = PART};
        struct keyset *ks = set_of(&h, &spec);
        CHECK(sorted_gives(ks, bits, PART, &want, h.n));
        keyset_free(ks);
    }
    free(h.hash);
    free(want.hash);
}

/* ---- Counting. */

static bool append(void *ctx, const struct keyset_range *r, struct err *err)
{
    struct list *got = ctx;
    (void)err;
    memcpy(got->hash + got->n, r->hash, 2 * r->n * sizeof *r->hash);
    got->n += 2 * r->n;
    return true;
}

static bool take_any(void *ctx, const struct keyset_range *range, struct err *err)
{
    (void)ctx, (void)range, (void)err;
    return true;
}

static void ignore(void *ctx)
{
    (void)ctx;
}

/* uniq -c, with the number of further ones behind each */
static struct list count_repeats(struct list *h)
{
    struct list counted = list_new(2 * h->n);
    counted.n = 0;
    sort(h);
    for (size_t i = 0; i < h->n; i++)
        if (i > 0 && h->hash[i] == h->hash[i - 1]) {
            counted.hash[counted.n - 1]++;
        } else {
            counted.hash[counted.n++] = h->hash[i];
            counted.hash[counted.n++] = 0;
        }
    return counted;
}

static void check_counted(struct list *h, unsigned workers, uint64_t memory)
{
    struct err err;
    struct keyset_spec spec = {
        .workers = workers, .visitors = 1, .counts = true, .memory = memory, .scratch_dir = "/tmp"};
    struct keyset *ks = set_of(h, &spec);
    struct list got = list_new(2 * h->n), want = count_repeats(h);
    uint64_t n = 0;
    got.n = 0;
    CHECK(keyset_count(ks, &n, &err) && n == want.n / 2);
    CHECK(keyset_visit_sorted(ks, KEYSET_BITS, append, ignore, &got, &err));
    CHECK(scratch_of(ks) > 0);
    CHECK(equal(&got, &want));
    keyset_free(ks);
    free(got.hash);
    free(want.hash);
}

/* However many are equal: there may be more repeats than memory holds. */
TEST(repeats_are_counted)
{
    for (size_t p = 0; p < N_PATTERNS; p += every(1)) {
        struct list h = make(p, of_all(300000, 1200000));
        bool ample = patterns[p].crowds && patterns[p].make != make_equal;
        check_counted(&h, 1, ample ? keyset_part_memory(h.n, true) / 8 * 7 : keyset_min_memory(1));
        for (size_t i = 1; i < h.n; i++)
            h.hash[i] = i % 8 ? h.hash[1] : h.hash[i];
        check_counted(&h, 2, keyset_min_memory(2));
        free(h.hash);
    }
}

/* ---- Failures. */

struct failing {
    atomic_bool waits, given_up;
};

/* Worker 1 fails while worker 0 waits for its turn. */
static bool visit_failing(void *ctx, const struct keyset_range *range, struct err *err)
{
    struct failing *f = ctx;
    atomic_bool *event = range->worker == 0 ? &f->given_up : &f->waits;
    if (range->worker == 0)
        f->waits = true;
    while (!*event)
        sched_yield();
    return fail(err, range->worker == 0 ? "given up" : "the cause");
}

static void give_up(void *ctx)
{
    ((struct failing *)ctx)->given_up = true;
}

TEST(the_first_failure_is_reported)
{
    struct list h = make(0, 10000);
    struct err err;
    struct failing f = {false, false};
    struct keyset_spec spec = {
        .workers = 2, .memory = keyset_min_memory(2), .scratch_dir = "/tmp", .part = 1000};
    struct keyset *ks = set_of(&h, &spec);
    CHECK(!keyset_visit_sorted(ks, 7, visit_failing, give_up, &f, &err));
    CHECK_STR(err.text, "the cause");
    keyset_free(ks);
    free(h.hash);
}

static bool refuse_first(void *ctx, const struct keyset_range *range, struct err *err)
{
    (void)ctx;
    return range->first > 0 || fail(err, "the first");
}

/* Nor of the parts of a range is any forgotten. */
TEST(a_part_that_fails_is_reported)
{
    struct list h = make(0, 10000);
    struct err err = {.text = ""};
    struct keyset_spec spec = {
        .workers = 1, .memory = keyset_min_memory(1), .scratch_dir = "/tmp", .part = 1000};
    struct keyset *ks = set_of(&h, &spec);
    CHECK(!keyset_visit_sorted(ks, 0, refuse_first, ignore, NULL, &err));
    CHECK_STR(err.text, "the first");
    keyset_free(ks);
    free(h.hash);
}

static bool stop_visit(void *ctx, unsigned worker, unsigned partition, const uint64_t *hash,
                       size_t n, struct err *err)
{
    atomic_int *left = ctx;
    (void)worker, (void)partition, (void)hash, (void)n;
    return atomic_fetch_sub(left, 1) > 0 || fail(err, "enough");
}

TEST(a_visit_ends_with_the_first_false)
{
    struct list h = make(0, 10000);
    for (unsigned workers = 1; workers <= 4; workers += 3) {
        struct err err = {.text = ""};
        struct keyset_spec spec = {
            .workers = workers, .memory = keyset_min_memory(workers), .scratch_dir = "/tmp"};
        struct keyset *ks = set_of(&h, &spec);
        for (int n = 20; n <= 21; n++) { /* with the hashes of a partition, and at its end */
            atomic_int left = n;
            CHECK(!keyset_visit(ks, stop_visit, &left, &err));
            CHECK_STR(err.text, "enough");
            /* Each worker may have been in a visit of its own. */
            CHECK(left < 0 && left >= -(int)workers);
        }
        keyset_free(ks);
    }
    free(h.hash);
}

TEST(scratch_that_cannot_be_had_is_an_error)
{
    struct list h = make(0, 700000);
    struct err err = {.text = ""};
    struct keyset_spec spec = {
        .workers = 1, .memory = keyset_min_memory(1), .scratch_dir = "/nonexistent/dir"};
    struct keyset *ks = keyset_new(&spec, &err);
    CHECK(ks != NULL);
    CHECK(!keyset_put(ks, 0, h.hash, h.n, &err));
    CHECK(strstr(err.text, "/nonexistent/dir") != NULL);
    CHECK(strstr(err.text, "No such file or directory") != NULL);
    keyset_free(ks);
    free(h.hash);
}

/* Whichever write fails: one for each partition, and one for the table behind them. */
TEST(scratch_that_cannot_be_written_is_an_error)
{
    struct list h = make(0, 10000);
    struct keyset_spec spec = {.workers = 1, .memory = keyset_min_memory(1), .scratch_dir = "/tmp"};
    for (unsigned i = 0; i <= KEYSET_PARTITIONS + 1; i += i < KEYSET_PARTITIONS ? 64 : 1) {
        struct err err = {.text = ""};
        struct keyset *ks = set_of(&h, &spec);
        faulty_begin(i);
        bool ok = keyset_spill_all(ks, &err);
        CHECK(faulty_end() == (i <= KEYSET_PARTITIONS));
        CHECK(ok == (i > KEYSET_PARTITIONS));
        CHECK_STR(err.text, ok ? "" : check_errno("cannot write 'scratch file'", ENOSPC));
        keyset_free(ks);
    }
    free(h.hash);
}

/* Nor where hashes that fit must make room for their own sorting. */
TEST(a_visit_without_the_scratch_that_it_needs_is_an_error)
{
    for (size_t p = 0; p < N_PATTERNS; p++) {
        if (!patterns[p].crowds)
            continue;
        struct list h = make(p, 400000);
        struct err err = {.text = ""};
        struct keyset_spec spec = {
            .workers = 1, .visitors = 1, .memory = 8 << 20, .scratch_dir = "/nonexistent/dir"};
        struct keyset *ks = set_of(&h, &spec);
        uint64_t n;
        CHECK(!keyset_count(ks, &n, &err));
        CHECK(strstr(err.text, "/nonexistent/dir") != NULL);
        keyset_free(ks);
        free(h.hash);
    }
}

TEST(scratch_that_cannot_be_read_is_an_error)
{
    struct list h = make(0, 700000);
    struct err err = {.text = ""};
    struct keyset_spec spec = {.workers = 1, .memory = keyset_min_memory(1), .scratch_dir = "/tmp"};
    struct keyset *ks = set_of(&h, &spec);
    struct worker *worker = &ks->workers[0];
    uint64_t n;
    CHECK(scratch_of(ks) > 0);
    /* The table of runs is behind them: the first begins at the end of the file now. */
    CHECK(pwrite(worker->scratch, &worker->scratch_len, sizeof worker->scratch_len,
                 (off_t)worker->last_spill) == sizeof worker->scratch_len);
    for (unsigned i = 0; i < 2; i++) {
        CHECK(!keyset_count(ks, &n, &err));
        CHECK_STR(err.text, "cannot read scratch file: it ends early");
        err.text[0] = '\0';
        CHECK(!keyset_visit_sorted(ks, KEYSET_BITS, take_any, ignore, NULL, &err));
        CHECK_STR(err.text, "cannot read scratch file: it ends early");
        CHECK(ftruncate(worker->scratch, 100) == 0);
    }
    int folder = open("/tmp", O_RDONLY);
    CHECK(folder >= 0 && dup2(folder, worker->scratch) >= 0);
    CHECK(!keyset_count(ks, &n, &err));
    CHECK_STR(err.text, "cannot read scratch file: Is a directory");
    close(folder);
    keyset_free(ks);
    free(h.hash);
}

/* ---- Memory. */

/* Bytes of this process's memory that no file backs. */
static uint64_t anonymous_memory(void)
{
    unsigned long long pages = 0, resident = 0, shared = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f != NULL && fscanf(f, "%llu %llu %llu", &pages, &resident, &shared) == 3);
    if (f != NULL)
        fclose(f);
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

struct taken {
    pthread_mutex_t lock;
    uint64_t most;
};

static bool visit_measuring(void *ctx, const struct keyset_range *range, struct err *err)
{
    struct taken *t = ctx;
    (void)err;
    if (prefix_of(range->last, 12) % 16 != 15)
        return true;
    pthread_mutex_lock(&t->lock);
    uint64_t now = anonymous_memory();
    if (now > t->most)
        t->most = now;
    pthread_mutex_unlock(&t->lock);
    return true;
}

/* The most that is taken is taken while sorted hashes are visited. */
static uint64_t memory_for(uint64_t n, bool crowd, unsigned workers, uint64_t memory)
{
    enum { AT_ONCE = 1000 };
    uint64_t before = anonymous_memory(), hash[AT_ONCE];
    struct taken taken = {PTHREAD_MUTEX_INITIALIZER, 0};
    struct err err;
    struct keyset_spec spec = {.workers = workers, .memory = memory, .scratch_dir = "/tmp"};
    struct keyset *ks = keyset_new(&spec, &err);
    bool ok = ks != NULL;
    for (uint64_t i = 0; ok && i < n; i += AT_ONCE) {
        for (unsigned j = 0; j < AT_ONCE; j++)
            hash[j] = random_at(i + j) >> (crowd ? KEYSET_BITS : 0);
        ok = keyset_put(ks, (unsigned)(i / AT_ONCE) % workers, hash, AT_ONCE, &err);
    }
    taken.most = anonymous_memory();
    CHECK(ok && keyset_visit_sorted(ks, crowd ? 12 : 8, visit_measuring, ignore, &taken, &err));
    keyset_free(ks);
    return taken.most - before;
}

/* Whatever the number of hashes, and of workers; and if those of one partition take it all. */
TEST(no_more_memory_is_taken_than_is_given)
{
    static const struct {
        uint64_t n;
        bool crowd;
        unsigned workers;
        uint64_t memory;
    } cases[] = {
        {30000000, false, 1, 4 << 20},
        {16000000, false, 16, 64 << 20},
        {16000000, false, 2, 64 << 20},
        {7000000, true, 2, 64 << 20},
    };
    if (getenv("SANITIZER") != NULL)
        return; /* it takes memory itself */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t n = check_is_full() ? cases[i].n : cases[i].n / 2;
        uint64_t taken = memory_for(n, cases[i].crowd, cases[i].workers, cases[i].memory);
        CHECK(taken <= cases[i].memory);
        if (taken > cases[i].memory)
            printf("# case %zu: memory %llu, taken %llu\n", i, (unsigned long long)cases[i].memory,
                   (unsigned long long)taken);
    }
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(no_more_memory_is_taken_than_is_given); /* first: none is left over from others */
    RUN(all_in_memory);
    RUN(few_hashes);
    RUN(most_in_scratch);
    RUN(crowded_hashes);
    RUN(too_crowded_hashes);
    RUN(sorted_parts);
    RUN(repeats_are_counted);
    RUN(the_first_failure_is_reported);
    RUN(a_part_that_fails_is_reported);
    RUN(a_visit_ends_with_the_first_false);
    RUN(scratch_that_cannot_be_had_is_an_error);
    RUN(scratch_that_cannot_be_written_is_an_error);
    RUN(a_visit_without_the_scratch_that_it_needs_is_an_error);
    RUN(scratch_that_cannot_be_read_is_an_error);
    return check_done();
}

/*
 * Key sets against sorting: whatever the hashes, their lanes, the memory and the number of threads,
 * the same distinct ones come back, each in its place.
 *
 * Nothing here depends on chance.
 *
 * tags: slow threads
 */
#include "base/parallel.h"
#include "check.h"
#include "keys/keyset.h"
#include "random.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* Lane l of hash i is hash[i * lanes + l], or, of those in a keyset, hash[i * keyset_lanes(lanes) +
 * l]. */
struct list {
    uint64_t *hash;
    size_t n;
    unsigned lanes;
};

static size_t bytes_of(const struct list *list, size_t n)
{
    return n * list->lanes * sizeof *list->hash;
}

static struct list list_new(size_t n, unsigned lanes)
{
    struct list list = {NULL, n, lanes};
    list.hash = malloc(bytes_of(&list, n + 1));
    if (list.hash == NULL)
        exit(1);
    return list;
}

static uint64_t *hash_at(const struct list *list, size_t i)
{
    return list->hash + i * list->lanes;
}

/* By digits of 16 bits of one lane, the lowest first. */
static void sort_by_lane(struct list *list, unsigned lane)
{
    enum { DIGITS = 1 << 16 };
    struct list other = list_new(list->n, list->lanes);
    size_t *at = malloc(DIGITS * sizeof *at);
    if (at == NULL)
        exit(1);
    for (unsigned shift = 0; shift < 64; shift += 16) {
        size_t sum = 0;
        memset(at, 0, DIGITS * sizeof *at);
        for (size_t i = 0; i < list->n; i++)
            at[hash_at(list, i)[lane] >> shift & 0xffff]++;
        for (size_t d = 0; d < DIGITS; d++) {
            size_t count = at[d];
            at[d] = sum;
            sum += count;
        }
        for (size_t i = 0; i < list->n; i++) {
            const uint64_t *from = hash_at(list, i);
            uint64_t *to = hash_at(&other, at[from[lane] >> shift & 0xffff]++);
            for (unsigned l = 0; l < list->lanes; l++)
                to[l] = from[l];
        }
        uint64_t *sorted = other.hash;
        other.hash = list->hash;
        list->hash = sorted;
    }
    free(other.hash);
    free(at);
}

static void sort(struct list *list)
{
    for (unsigned lane = list->lanes; lane-- > 0;)
        sort_by_lane(list, lane);
}

/* sort -u */
static void sort_unique(struct list *list)
{
    size_t n = 0, one = bytes_of(list, 1);
    sort(list);
    for (size_t i = 0; i < list->n; i++)
        if (n == 0 || memcmp(hash_at(list, n - 1), hash_at(list, i), one) != 0)
            memmove(hash_at(list, n++), hash_at(list, i), one);
    list->n = n;
}

static struct list copy_of(const struct list *list)
{
    struct list copy = list_new(list->n, list->lanes);
    memcpy(copy.hash, list->hash, bytes_of(list, list->n));
    return copy;
}

static bool equal(const struct list *a, const struct list *b)
{
    return a->n == b->n && memcmp(a->hash, b->hash, bytes_of(a, a->n)) == 0;
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

/* So close together that scratch files have them sorted. */
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
} patterns[] = {
    {"random", make_random},
    {"all equal", make_equal},
    {"all zero", make_zero},
    {"sequential", make_sequential},
    {"at the end of the space", make_last},
    {"one partition", make_one_partition},
    {"even", make_even},
    {"a crowd", make_crowd},
    {"a thousand, repeated", make_repeats},
    {"half of them one", make_favourite},
    {"at the seams", make_seams},
};

enum { N_PATTERNS = sizeof patterns / sizeof *patterns, CROWD = 7 };

/* What the lanes of a hash are. */
enum shape {
    ONE,           /* one lane, by the pattern */
    SECOND_SAME,   /* the second follows from the first: no two differ in the second alone */
    SECOND_VARIES, /* the second is one of a few */
    FIRST_EQUAL,   /* the second is by the pattern, the first always the same */
    N_SHAPES,
    /* 14 lanes: the first is by the pattern, others follow from it; or the last is, and others are
     * the same. */
    MANY_SAME = N_SHAPES,
    MANY_EQUAL
};

static unsigned lanes_of(enum shape shape)
{
    return shape == ONE ? 1 : shape < N_SHAPES ? 2 : HASH_LANES;
}

static void shape_hash(enum shape shape, uint64_t hash, size_t i, uint64_t *to)
{
    if (shape >= N_SHAPES)
        for (unsigned l = 0; l < HASH_LANES; l++)
            to[l] = shape == MANY_SAME ? hash ^ l : l + 1 == HASH_LANES ? hash : 0x1122334455667788;
    else
        to[0] = shape == FIRST_EQUAL ? 0x8877665544332211 : hash;
    if (shape == SECOND_SAME)
        to[1] = random_at(hash);
    else if (shape == SECOND_VARIES)
        to[1] = i % 3 << 62;
    else if (shape == FIRST_EQUAL)
        to[1] = hash;
}

static struct list make(const struct pattern *pattern, enum shape shape, size_t n)
{
    struct list list = list_new(n, lanes_of(shape));
    random_restart(0);
    for (size_t i = 0; i < n; i++)
        shape_hash(shape, pattern->make(i, n), i, hash_at(&list, i));
    if (pattern->make == make_random && n >= 4) {
        memset(hash_at(&list, n / 2), 0, bytes_of(&list, 1));
        memset(hash_at(&list, n / 3), 0xff, bytes_of(&list, 1));
        memset(hash_at(&list, n - 1), 0, bytes_of(&list, 1));
    }
    return list;
}

/* Every so many of them are tried: fewer where a sanitizer makes it slow. */
static size_t every(size_t step)
{
    return check_is_brief() ? 8 * step : step;
}

/* So many hashes, or all of them with FULL=1. */
static size_t of_all(size_t n, size_t all)
{
    return check_is_full() ? all : n;
}

/* Valgrind, ThreadSanitizer and emulators take 50 times as long. What they leave out,
 * AddressSanitizer does not. */
static bool is_brief(void)
{
    const char *sanitizer = getenv("SANITIZER");
    return check_is_brief() && strcmp(sanitizer, "address") != 0;
}

static unsigned fewer(unsigned workers)
{
    return check_is_brief() ? workers - 1 : workers;
}

/* Puts from all workers at once, in pieces of odd sizes. */

struct putting {
    struct keyset *ks;
    const struct list *h;
    atomic_bool failed;
};

enum { PIECE = 777 };

static bool put_some(struct keyset *ks, unsigned worker, const struct list *h, size_t first,
                     size_t n, struct err *err)
{
    uint64_t lane[HASH_LANES][PIECE];
    for (size_t done = 0, some; done < n; done += some) {
        some = n - done < PIECE ? n - done : PIECE;
        for (size_t i = 0; i < some; i++)
            for (unsigned l = 0; l < h->lanes; l++)
                lane[l][i] = hash_at(h, first + done + i)[l];
        if (!keyset_put(ks, worker, (struct hashes){lane[0], PIECE, NULL}, some, err))
            return false;
    }
    return true;
}

static void put_piece(void *ctx, unsigned worker, uint64_t i)
{
    struct putting *p = ctx;
    struct err err;
    size_t first = (size_t)i * PIECE, left = p->h->n - first;
    if (!put_some(p->ks, worker, p->h, first, left < PIECE ? left : PIECE, &err)) {
        if (!atomic_exchange(&p->failed, true))
            printf("# %s\n", err.text);
    }
}

static bool put_all(struct keyset *ks, unsigned workers, const struct list *h)
{
    struct putting p = {.ks = ks, .h = h};
    parallel_for(workers, (h->n + PIECE - 1) / PIECE, put_piece, &p);
    return !p.failed;
}

/* Visits. */

struct visited {
    struct list got[KEYSET_PARTITIONS];
    size_t room[KEYSET_PARTITIONS];
    uint64_t next[KEYSET_PARTITIONS]; /* first hash that has not been covered */
    bool begun[KEYSET_PARTITIONS], ended[KEYSET_PARTITIONS];
    unsigned worker[KEYSET_PARTITIONS], workers, lanes;
    size_t n;
    atomic_int wrong;
    atomic_bool lacks; /* repeats were left out */
};

static void take_piece(struct visited *v, unsigned p, const struct keyset_range *r,
                       const struct keyset_piece *piece)
{
    struct list *got = &v->got[p];
    got->lanes = v->lanes;
    if (v->room[p] - got->n < piece->n) {
        v->room[p] = 2 * got->n + piece->n;
        got->hash = realloc(got->hash, bytes_of(got, v->room[p]));
        if (got->hash == NULL)
            exit(1);
    }
    for (size_t i = 0; i < piece->n; i++) {
        const uint64_t *hash = piece->hash + i * keyset_lanes(v->lanes);
        v->wrong += hash[0] < r->first || hash[0] > r->last;
        memcpy(hash_at(got, got->n++), hash, bytes_of(got, 1));
    }
}

/* With more lanes, one value may take several ranges. */
static bool follows(const struct visited *v, unsigned p, const struct keyset_range *r)
{
    return !v->ended[p] && r->worker == v->worker[p] &&
           (r->first == v->next[p] ||
            (v->lanes > 1 && r->first == r->last && r->last + 1 == v->next[p]));
}

static bool visit(void *ctx, const struct keyset_range *r, struct err *err)
{
    struct visited *v = ctx;
    unsigned p = (unsigned)r->partition;
    uint64_t begin = (uint64_t)p << (64 - KEYSET_BITS);
    uint64_t end = begin + (((uint64_t)1 << (64 - KEYSET_BITS)) - 1);
    (void)err;
    if (p >= KEYSET_PARTITIONS || r->worker >= v->workers) {
        v->wrong++;
        return false;
    }
    v->wrong += v->begun[p] ? !follows(v, p, r) : r->first != begin;
    v->wrong += r->last < r->first || r->last > end || (r->ends_partition && r->last != end);
    v->wrong += v->lanes == 1 && r->last == end && !r->ends_partition;
    v->begun[p] = true;
    v->ended[p] = r->ends_partition;
    v->next[p] = r->last + 1;
    v->worker[p] = r->worker;
    if (r->had_repeats)
        v->lacks = true;
    for (size_t i = 0; i < r->n_pieces; i++)
        take_piece(v, p, r, &r->piece[i]);
    return true;
}

/* What visits give must be `want`, in all and everywhere, and of the n hashes that were put none
 * may be left out unsaid. */
static bool visit_gives(struct keyset *ks, unsigned workers, const struct list *want, size_t n)
{
    struct visited *v = calloc(1, sizeof *v);
    struct err err;
    if (v == NULL)
        exit(1);
    v->workers = workers;
    v->lanes = want->lanes;
    bool ok = keyset_visit(ks, visit, v, &err);
    size_t n_all = 0;
    for (unsigned p = 0; p < KEYSET_PARTITIONS; p++) {
        v->wrong += !v->ended[p];
        n_all += v->got[p].n;
    }
    v->wrong += v->lacks != (n_all < n);
    struct list all = list_new(n_all, want->lanes);
    all.n = 0;
    for (unsigned p = 0; p < KEYSET_PARTITIONS; p++) {
        if (v->got[p].n > 0)
            memcpy(hash_at(&all, all.n), v->got[p].hash, bytes_of(&all, v->got[p].n));
        all.n += v->got[p].n;
        free(v->got[p].hash);
    }
    sort_unique(&all);
    ok = ok && v->wrong == 0 && equal(&all, want);
    if (!ok)
        printf("# %d ranges wrong, %zu distinct hashes, want %zu\n", (int)v->wrong, all.n, want->n);
    free(all.hash);
    free(v);
    return ok;
}

static struct keyset *set_for(const struct list *h, unsigned workers, uint64_t memory)
{
    struct err ignored;
    struct keyset_spec spec = {
        .workers = workers, .lanes = h->lanes, .memory = memory, .scratch_dir = "/tmp"};
    return keyset_new(&spec, &ignored);
}

static bool set_holds(const struct list *h, unsigned workers, uint64_t memory, bool to_scratch)
{
    struct err err;
    struct keyset *ks = set_for(h, workers, memory);
    if (ks == NULL)
        return false;
    uint64_t n_distinct = 0;
    struct list want = copy_of(h);
    sort_unique(&want);
    bool ok = put_all(ks, workers, h) && keyset_finish(ks, &n_distinct, &err);
    if (!ok || n_distinct != want.n)
        printf("# counted %llu, want %zu\n", (unsigned long long)n_distinct, want.n);
    ok = ok && n_distinct == want.n && visit_gives(ks, workers, &want, h->n) &&
         visit_gives(ks, workers, &want, h->n);
    if ((keyset_scratch(ks) > 0) != to_scratch) {
        printf("# scratch: %llu bytes\n", (unsigned long long)keyset_scratch(ks));
        ok = false;
    }
    keyset_free(ks);
    free(want.hash);
    return ok;
}

static void check_shape(size_t pattern, enum shape shape, size_t n, unsigned workers,
                        uint64_t memory, bool to_scratch)
{
    struct list h = make(&patterns[pattern], shape, n);
    bool holds = set_holds(&h, workers, memory, to_scratch);
    CHECK(holds);
    if (!holds)
        printf("# %s, shape %d, n %zu, workers %u, memory %llu\n", patterns[pattern].name,
               (int)shape, n, workers, (unsigned long long)memory);
    free(h.hash);
}

static void check_set(size_t pattern, size_t n, unsigned workers, uint64_t memory, bool to_scratch)
{
    for (enum shape shape = 0; shape < N_SHAPES; shape++)
        check_shape(pattern, shape, n, workers, memory, to_scratch);
}

static const unsigned some_workers[] = {1, 2, 3, 8};
enum { N_WORKERS = sizeof some_workers / sizeof *some_workers };

TEST(all_in_memory)
{
    for (size_t p = 0; p < N_PATTERNS; p++)
        for (size_t w = is_brief() ? N_WORKERS - 2 : 0; w < N_WORKERS; w++)
            check_set(p, is_brief() ? 3000 : of_all(8000, 30000), some_workers[w], 64 << 20, false);
}

/* More hashes or patterns would take long. */
TEST(many_lanes)
{
    for (enum shape shape = MANY_SAME; shape <= MANY_EQUAL; shape++) {
        for (size_t p = 0; p < N_PATTERNS; p++)
            check_shape(p, shape, 3000, 2, 64 << 20, false);
        /* Where all lanes but the last are equal, there is a pass for each 6 of their bits. */
        for (size_t p = 0; p < (shape == MANY_SAME ? N_PATTERNS
                                : is_brief()       ? 0
                                                   : 1);
             p += every(3))
            check_shape(p, shape, of_all(shape == MANY_SAME ? 24000 : 12000, 60000), 1,
                        keyset_min_memory(1), true);
    }
}

TEST(few_hashes)
{
    static const size_t counts[] = {0, 1, 2, 511, 512, 513};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        check_set(0, counts[c], 2, keyset_min_memory(2), false);
        check_set(1, counts[c], 2, keyset_min_memory(2), false);
    }
}

/* More than the least memory holds, 262144 lanes a worker, of the kinds that need much room and of
 * those that need little. */
TEST(most_in_scratch)
{
    const size_t n = of_all(300000, 450000);
    for (size_t p = 0; p < N_PATTERNS; p += every(1)) {
        bool all = check_is_full() || (p == 0 && !is_brief());
        for (enum shape shape = all ? ONE : p % 2; shape < N_SHAPES; shape += all ? 1 : 2)
            check_shape(p, shape, n, 1, keyset_min_memory(1), true);
    }
    for (unsigned workers = 2; workers <= fewer(3); workers++)
        for (size_t p = 0; p < N_PATTERNS; p += every(5)) {
            check_shape(p, ONE, n * workers, workers, keyset_min_memory(workers), true);
            check_shape(p, SECOND_VARIES, n * workers, workers, keyset_min_memory(workers), true);
        }
}

/* Partitions that are larger than what is looked through at once, most of them in scratch, are read
 * part by part. */
enum { LARGE = 6000000 };

TEST(large_partitions)
{
    size_t n = of_all(LARGE / 2, LARGE);
    if (is_brief()) {
        check_shape(0, SECOND_SAME, n / 4, 1, keyset_min_memory(1), true);
        return;
    }
    for (unsigned workers = 1; workers <= fewer(2); workers++) {
        check_shape(0, ONE, n / workers, workers, keyset_min_memory(workers), true);
        if (workers > 1 && !check_is_full())
            break;
        check_shape(0, SECOND_SAME, n / 4, workers, keyset_min_memory(workers), true);
        check_shape(0, FIRST_EQUAL, n / 4, workers, keyset_min_memory(workers), true);
        check_shape(CROWD, ONE, n / 2, workers, keyset_min_memory(workers), true);
    }
}

static bool append(void *ctx, const struct keyset_range *r, struct err *err)
{
    struct list *got = ctx;
    (void)err;
    memcpy(hash_at(got, got->n), r->piece->hash, bytes_of(got, r->piece->n));
    got->n += r->piece->n;
    return true;
}

static void ignore(void *ctx)
{
    (void)ctx;
}

/* uniq -c, with the number of further ones in the second lane */
static struct list count_repeats(const struct list *sorted)
{
    struct list counted = list_new(sorted->n, 2);
    counted.n = 0;
    for (size_t i = 0; i < sorted->n; i++)
        if (i > 0 && sorted->hash[i] == sorted->hash[i - 1]) {
            hash_at(&counted, counted.n - 1)[1]++;
        } else {
            hash_at(&counted, counted.n)[0] = sorted->hash[i];
            hash_at(&counted, counted.n++)[1] = 0;
        }
    return counted;
}

static void check_counted(struct list *h, unsigned workers)
{
    struct err err;
    struct keyset_spec spec = {.workers = workers,
                               .visitors = 1,
                               .lanes = 2,
                               .counts = true,
                               .memory = keyset_min_memory(workers),
                               .scratch_dir = "/tmp"};
    struct keyset *ks = keyset_new(&spec, &err);
    struct list got = list_new(h->n, 2);
    uint64_t n = 0;
    got.n = 0;
    CHECK(ks != NULL && put_all(ks, workers, h) && keyset_finish(ks, &n, &err));
    CHECK(keyset_visit_sorted(ks, KEYSET_BITS, append, ignore, &got, &err));
    CHECK(keyset_scratch(ks) > 0);
    sort(h);
    struct list want = count_repeats(h);
    CHECK(n == want.n && equal(&got, &want));
    keyset_free(ks);
    free(got.hash);
    free(want.hash);
}

/* However many are equal, and however many others share their partition with them. */
TEST(repeats_are_counted)
{
    for (size_t p = 0; p < N_PATTERNS; p += every(1)) {
        struct list h = make(&patterns[p], ONE, of_all(300000, 1200000));
        check_counted(&h, 1 + p % 2);
        for (size_t i = 1; i < h.n; i += 2)
            h.hash[i] = h.hash[1];
        check_counted(&h, 1);
        free(h.hash);
    }
}

/* How often the hashes, all in one partition, go to scratch. */
static double times_written(const struct list *h)
{
    struct err err;
    struct keyset_spec spec = {
        .workers = 1, .memory = keyset_min_memory(1), .scratch_dir = "/tmp", .lanes = 1};
    struct keyset *ks = keyset_new(&spec, &err);
    uint64_t n = 0;
    CHECK(ks != NULL && put_all(ks, 1, h) && keyset_finish(ks, &n, &err) && n == h->n);
    double bytes = (double)keyset_scratch(ks);
    keyset_free(ks);
    return bytes / (double)bytes_of(h, h->n);
}

/* Hashes with long common prefixes are split many times, and yet are not written each time: once
 * when memory is full, and once or twice to split them. */
TEST(crowded_hashes_are_not_written_at_each_split)
{
    const uint64_t trunk = 0x5555555555555555;
    struct list h = list_new(400000, 1);
    for (size_t i = 0; i < h.n; i++) /* at each bit one leaves the others */
        h.hash[i] = i < 36 ? trunk ^ (uint64_t)1 << (55 - i) : ((trunk >> 20 << 20) + i);
    CHECK(times_written(&h) < 3);
    for (size_t i = 0; i < h.n; i++) /* the first ones, of which a sample is taken, mislead */
        h.hash[i] = i < 100000 ? trunk + i : (trunk >> 56 << 56 | random_at(i) >> 8);
    CHECK(times_written(&h) < 4);
    free(h.hash);
}

struct sorted {
    const struct list *want;
    size_t n;
    uint64_t partition;
    bool wrong, lacks;
};

static bool visit_sorted(void *ctx, const struct keyset_range *range, struct err *err)
{
    struct sorted *s = ctx;
    (void)err;
    const struct keyset_piece *part = range->piece;
    s->wrong |=
        range->n_pieces != 1 || part->n > s->want->n - s->n || range->partition != s->partition;
    for (size_t i = 0; i < part->n && !s->wrong; i++)
        s->wrong = memcmp(part->hash + i * keyset_lanes(s->want->lanes), hash_at(s->want, s->n++),
                          bytes_of(s->want, 1)) != 0;
    s->lacks |= range->had_repeats;
    s->partition += range->ends_partition;
    return !s->wrong;
}

static void never_gives_up(void *ctx)
{
    struct sorted *s = ctx;
    s->wrong = true;
}

/* By fewer bits and by more than the set's own partitions have. */
static void check_sorted_parts(enum shape shape, size_t n)
{
    enum { PART = 50000 };
    struct list h = make(&patterns[0], shape, n), want = copy_of(&h);
    sort_unique(&want);
    for (unsigned bits = 7; bits <= 13; bits += 3) {
        struct err err;
        struct keyset_spec spec = {.workers = 1,
                                   .lanes = h.lanes,
                                   .memory =
                                       keyset_min_memory(1) + keyset_part_memory(PART, h.lanes),
                                   .scratch_dir = "/tmp",
                                   .part = PART};
        struct keyset *ks = keyset_new(&spec, &err);
        struct sorted s = {.want = &want};
        CHECK(ks != NULL && put_all(ks, 1, &h));
        CHECK(keyset_visit_sorted(ks, bits, visit_sorted, never_gives_up, &s, &err));
        CHECK(!s.wrong && s.n == want.n && s.partition == (uint64_t)1 << bits);
        CHECK(s.lacks == (want.n < h.n));
        CHECK(keyset_scratch(ks) > 0);
        keyset_free(ks);
    }
    free(h.hash);
    free(want.hash);
}

TEST(sorted_parts_of_large_partitions)
{
    if (is_brief()) {
        check_sorted_parts(SECOND_SAME, LARGE / 8);
        return;
    }
    const size_t n = of_all(LARGE / 2, LARGE);
    check_sorted_parts(ONE, n);
    for (enum shape shape = SECOND_SAME; shape < N_SHAPES; shape++)
        check_sorted_parts(shape, n / 4);
    check_sorted_parts(MANY_SAME, n / 32);
}

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
    struct list h = make(&patterns[0], ONE, 10000);
    struct err err;
    struct failing f = {false, false};
    struct keyset_spec spec = {.workers = 2,
                               .lanes = h.lanes,
                               .memory = keyset_min_memory(2) + keyset_part_memory(1000, h.lanes),
                               .scratch_dir = "/tmp",
                               .part = 1000};
    struct keyset *ks = keyset_new(&spec, &err);
    CHECK(ks != NULL && put_all(ks, 2, &h));
    CHECK(!keyset_visit_sorted(ks, 7, visit_failing, give_up, &f, &err));
    CHECK_STR(err.text, "the cause");
    keyset_free(ks);
    free(h.hash);
}

static bool stop_visit(void *ctx, const struct keyset_range *range, struct err *err)
{
    atomic_int *left = ctx;
    (void)range;
    return atomic_fetch_sub(left, 1) > 0 || fail(err, "enough");
}

TEST(a_visit_ends_with_the_first_false)
{
    struct list h = make(&patterns[0], ONE, 10000);
    for (unsigned workers = 1; workers <= 4; workers += 3) {
        struct err err = {{0}};
        struct keyset_spec spec = {
            .workers = workers, .memory = keyset_min_memory(workers), .scratch_dir = "/tmp"};
        struct keyset *ks = keyset_new(&spec, &err);
        uint64_t n;
        CHECK(ks != NULL && put_all(ks, workers, &h) && keyset_finish(ks, &n, &err));
        atomic_int left = 20;
        CHECK(!keyset_visit(ks, stop_visit, &left, &err));
        CHECK_STR(err.text, "enough");
        /* Each worker may have been in a visit of its own. */
        CHECK(left < 0 && left >= -(int)workers);
        keyset_free(ks);
    }
    free(h.hash);
}

TEST(scratch_that_cannot_be_had_is_an_error)
{
    struct list h = make(&patterns[0], ONE, 700000);
    struct err err = {{0}};
    struct keyset_spec spec = {
        .workers = 1, .memory = keyset_min_memory(1), .scratch_dir = "/nonexistent/dir"};
    struct keyset *ks = keyset_new(&spec, &err);
    CHECK(ks != NULL);
    CHECK(!keyset_put(ks, 0, hashes_of(h.hash), h.n, &err));
    CHECK(strstr(err.text, "/nonexistent/dir") != NULL);
    CHECK(strstr(err.text, "No such file or directory") != NULL);
    keyset_free(ks);
    free(h.hash);
}

/* Draining. */

struct drained {
    pthread_mutex_t lock;
    struct list got;
    size_t room, calls, wrong;
};

static void drain(void *ctx, unsigned partition, struct hashes hashes, size_t n)
{
    struct drained *d = ctx;
    pthread_mutex_lock(&d->lock);
    d->calls++;
    for (size_t i = 0; i < n; i++) {
        d->wrong += hashes.lane0[i] >> (64 - KEYSET_BITS) != partition || d->got.n == d->room;
        if (d->got.n == d->room)
            break;
        for (unsigned l = 0; l < d->got.lanes; l++)
            hash_at(&d->got, d->got.n)[l] = hashes_lane(hashes, l)[i];
        d->got.n++;
    }
    pthread_mutex_unlock(&d->lock);
}

static void check_drained(size_t pattern, enum shape shape, unsigned workers)
{
    size_t n = (shape < N_SHAPES ? of_all(300000, 450000) : 50000) * workers;
    struct list h = make(&patterns[pattern], shape, n);
    struct drained d = {PTHREAD_MUTEX_INITIALIZER, list_new(h.n, h.lanes), h.n, 0, 0};
    struct err err;
    struct keyset_spec spec = {.workers = workers,
                               .lanes = h.lanes,
                               .memory = keyset_min_memory(workers),
                               .scratch_dir = "/nonexistent",
                               .drain = drain,
                               .ctx = &d};
    d.got.n = 0;
    struct keyset *ks = keyset_new(&spec, &err);
    CHECK(ks != NULL && put_all(ks, workers, &h));
    CHECK(keyset_drain_all(ks, &err));
    CHECK(d.calls > 0 && d.wrong == 0);
    CHECK(keyset_scratch(ks) == 0);
    sort(&h);
    sort(&d.got);
    CHECK(equal(&d.got, &h));
    size_t before = d.calls;
    CHECK(keyset_drain_all(ks, &err));
    CHECK(d.calls == before);
    keyset_free(ks);
    free(h.hash);
    free(d.got.hash);
}

TEST(what_is_drained_is_what_was_put)
{
    for (size_t p = 0; p < N_PATTERNS; p += every(2))
        for (unsigned workers = 1; workers <= fewer(3); workers++)
            check_drained(p, ONE, workers);
    for (enum shape shape = SECOND_SAME; shape < N_SHAPES; shape += is_brief() ? 2 : 1)
        check_drained(0, shape, fewer(2));
    check_drained(0, MANY_SAME, fewer(2));
}

/* However the workers share them. */
static void check_fits(size_t pattern, enum shape shape, unsigned workers, bool alone)
{
    struct drained d = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct err err;
    unsigned lanes = lanes_of(shape);
    struct keyset_spec spec = {.workers = workers,
                               .lanes = lanes,
                               .memory = keyset_min_memory(workers),
                               .scratch_dir = "/tmp",
                               .drain = drain,
                               .ctx = &d};
    struct list h = make(&patterns[pattern], shape, keyset_fits(&spec));
    CHECK(h.n >= 100000 / keyset_lanes(lanes));
    struct keyset *ks = keyset_new(&spec, &err);
    CHECK(ks != NULL &&
          (alone ? put_some(ks, workers - 1, &h, 0, h.n, &err) : put_all(ks, workers, &h)));
    CHECK(d.calls == 0);
    uint64_t n = 0;
    CHECK(keyset_finish(ks, &n, &err));
    struct list want = copy_of(&h);
    sort_unique(&want);
    CHECK(n == want.n && visit_gives(ks, workers, &want, h.n));
    keyset_free(ks);
    free(h.hash);
    free(want.hash);
}

TEST(as_many_as_fit_are_not_drained)
{
    for (size_t p = 0; p < N_PATTERNS; p += every(check_is_full() ? 3 : 5))
        for (enum shape shape = 0; shape < N_SHAPES; shape++)
            for (unsigned workers = is_brief() ? 3 : 1; workers <= 3; workers += 2) {
                check_fits(p, shape, workers, false);
                check_fits(p, shape, workers, true);
            }
    check_fits(0, MANY_SAME, 3, false);
}

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

/* Nothing is given back before the end, so what is taken then is the most. */
static uint64_t memory_for(uint64_t n, unsigned lanes, unsigned workers, uint64_t memory)
{
    enum { AT_ONCE = 1000 };
    uint64_t before = anonymous_memory(), n_distinct, hash[AT_ONCE];
    struct err err;
    struct keyset_spec spec = {
        .workers = workers, .lanes = lanes, .memory = memory, .scratch_dir = "/tmp"};
    struct keyset *ks = keyset_new(&spec, &err);
    bool ok = ks != NULL;
    for (uint64_t i = 0; ok && i < n; i += AT_ONCE) {
        for (unsigned j = 0; j < AT_ONCE; j++)
            hash[j] = random_at(i + j);
        ok = keyset_put(ks, (unsigned)(i / AT_ONCE) % workers, (struct hashes){hash, 0, NULL},
                        AT_ONCE, &err);
    }
    CHECK(ok && keyset_finish(ks, &n_distinct, &err) && n_distinct == n);
    CHECK(keyset_scratch(ks) > 0);
    uint64_t after = anonymous_memory();
    keyset_free(ks);
    return after - before;
}

/* Whatever the number of hashes, and of workers. */
TEST(no_more_memory_is_taken_than_is_given)
{
    static const struct {
        uint64_t n;
        unsigned lanes, workers;
        uint64_t memory;
    } cases[] = {
        {30000000, 1, 1, 4 << 20}, {16000000, 1, 16, 64 << 20}, {16000000, 1, 2, 64 << 20},
        {8000000, 2, 1, 4 << 20},  {8000000, 2, 16, 64 << 20},  {1000000, HASH_LANES, 2, 64 << 20},
    };
    if (getenv("SANITIZER") != NULL)
        return; /* it takes memory itself */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t n = check_is_full() ? cases[i].n : cases[i].n / 2;
        uint64_t taken = memory_for(n, cases[i].lanes, cases[i].workers, cases[i].memory);
        CHECK(taken <= cases[i].memory);
        if (taken > cases[i].memory)
            printf("# %u lanes, %u workers, memory %llu, taken %llu\n", cases[i].lanes,
                   cases[i].workers, (unsigned long long)cases[i].memory,
                   (unsigned long long)taken);
    }
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(no_more_memory_is_taken_than_is_given); /* first: none is left over from others */
    RUN(all_in_memory);
    RUN(many_lanes);
    RUN(few_hashes);
    RUN(most_in_scratch);
    RUN(large_partitions);
    RUN(repeats_are_counted);
    RUN(crowded_hashes_are_not_written_at_each_split);
    RUN(sorted_parts_of_large_partitions);
    RUN(the_first_failure_is_reported);
    RUN(a_visit_ends_with_the_first_false);
    RUN(scratch_that_cannot_be_had_is_an_error);
    RUN(what_is_drained_is_what_was_put);
    RUN(as_many_as_fit_are_not_drained);
    return check_done();
}

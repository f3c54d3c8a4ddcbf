/* SPDX-License-Identifier: MIT */
/* Layers of counted sets as files get them, by all threads: of keysets, and of other layers. Their
 * bytes are those that one thread makes in memory. */
#include <malloc.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/bytes.h"
#include "child.h"
#include "counted_sets.h"
#include "faulty.h"
#include "keys/keyset.h"
#include "kind/counted/layer.h"
#include "file/format.h"
#include "file/header.h"

/* A file with one layer. */
struct made {
    struct header header;
    int fd;
    uint8_t *data;
};

static void begin(struct made *m, unsigned bits)
{
    m->header =
        (struct header){.epoch = 1, .hash = hash_usual(), .fpr_design = 0.01, .n_layers = 1};
    m->header.layers[0] = (struct layer){.kind = &kind_counted, .data_len = 1};
    counted_to(&(struct counted){.bits = bits}, &m->header.layers[0]);
    format_place(&m->header);
    m->fd = memfd_create("counted", MFD_CLOEXEC);
    m->data = NULL;
    CHECK(m->fd >= 0);
}

static struct target target_of(struct made *m, unsigned threads)
{
    return header_target(&m->header, 0, m->fd, "test", threads);
}

static void end(struct made *m)
{
    free(m->data);
    close(m->fd);
}

/* Does the file have the set, padding of zeroes, and its checksums? */
static void check_file(struct made *m, const struct counted_memory *want)
{
    const struct layer *layer = &m->header.layers[0];
    struct counted c = counted_of(layer);
    CHECK(memcmp(&c, &want->counted, sizeof c) == 0);
    CHECK(layer->data_len == want->len);
    m->data = malloc((size_t)layer->data_len);
    CHECK(pread(m->fd, m->data, want->len, (off_t)layer->data_off) == (ssize_t)want->len);
    CHECK(memcmp(m->data, want->data, want->len) == 0);
    size_t padding = (size_t)(layer->sums_off - layer->data_off - layer->data_len);
    uint8_t behind[8] = {0};
    CHECK(padding < 8 &&
          pread(m->fd, behind, padding, (off_t)(layer->data_off + want->len)) == (ssize_t)padding);
    CHECK(get_le64(behind) == 0);
    uint64_t seed = format_layer_seed(&m->header, 0), wrong = 0;
    for (uint64_t page = 0; page < layer_pages(layer); page++) {
        uint8_t sum[4];
        CHECK(pread(m->fd, sum, sizeof sum, (off_t)(layer->sums_off + 4 * page)) == 4);
        wrong += get_le32(sum) != layer_page_sum(seed, page, want->data + page * LAYER_PAGE,
                                                 layer_page_len(layer, page));
    }
    CHECK(wrong == 0);
}

/* ---- Of keysets. */

/* The set of all hashes. */
static struct counted_memory expected(const struct entries *hashes, unsigned bits)
{
    struct counted design = {.bits = bits};
    struct counted_entries e = array_of(hashes);
    struct counted_memory made = {.data = NULL};
    struct err err;
    counted_narrow(&e, 0, 64 - bits);
    MUST(counted_make(&made, &design, e.at, e.n, &err));
    free(e.at);
    return made;
}

/* Builds a layer of hashes that come in an order of their own, parts of `part`. With `counts`, each
 * is put as often as its count says. The keyset may have `more` memory than it needs. */
static bool build(struct made *m, const struct entries *hashes, unsigned bits, unsigned threads,
                  size_t part, bool counts, uint64_t more, struct census *census, struct err *err)
{
    uint64_t each = keyset_part_memory(part, counts);
    struct keyset_spec spec = {.workers = threads,
                               .counts = counts,
                               .memory = keyset_min_memory(threads) + threads * each + more,
                               .part = part,
                               .scratch_dir = "/tmp"};
    struct keyset *keys = keyset_new(&spec, err);
    bool ok = keys != NULL;
    size_t at = 0;
    for (size_t i = 0; ok && i < hashes->n; i++) {
        at = (at + 7919) % hashes->n;
        for (uint64_t c = counts ? hashes->count[at] : 1; ok && c > 0; c--)
            ok = keyset_put(keys, (unsigned)((i + c) % threads), &hashes->value[at], 1, err);
    }
    begin(m, bits);
    struct target target = target_of(m, threads);
    target.n = hashes->n;
    ok = ok && counted_build(&target, keys, census, err);
    keyset_free(keys);
    return ok;
}

static void check_built(const struct entries *hashes, unsigned bits, unsigned threads, size_t part,
                        bool random, bool counts)
{
    struct made m;
    struct census census;
    struct err err;
    MUST(build(&m, hashes, bits, threads, part, counts, 0, &census, &err));
    struct counted_memory want = expected(hashes, bits);
    check_file(&m, &want);
    CHECK(census.fpr == ldexp((double)want.counted.entries, -(int)bits));
    CHECK(census.n_exact == (bits == 64));
    /* Three times the width of the interval that holds in 95 % of cases. */
    double n = (double)hashes->n, width = census.n_high - census.n_low;
    CHECK(!random || census.n_at_least || fabs(census.n - n) <= 1.5 * width + 1);
    free(want.data);
    end(&m);
}

static void check_build(const struct entries *hashes, unsigned bits, unsigned threads, size_t part,
                        bool random)
{
    check_built(hashes, bits, threads, part, random, false);
    for (size_t i = 0; i < hashes->n; i++)
        hashes->count[i] = 1 + i % 3;
    check_built(hashes, bits, threads, part, random, true);
    for (size_t i = 0; i < hashes->n; i++)
        hashes->count[i] = 1;
}

TEST(hashes_in_parts_are_the_set_of_all)
{
    static const size_t sizes[] = {0, 1, 2, 5000, 40011}, parts[] = {1000, 3000, 1 << 17};
    static const unsigned widths[] = {64, 33, 20, 14};
    random_restart(1);
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (unsigned p = 0; p < sizeof parts / sizeof *parts; p++) {
            struct entries e = draw_entries(sizes[s], UINT64_MAX, ALL_ONE);
            check_build(&e, widths[(s + p) % 4], 1 + (s + p) % 3, parts[p], true);
            free_entries(&e);
        }
}

/* Fewer fingerprints than chance makes: `low` was guessed for more. */
TEST(the_number_of_fingerprints_may_be_any)
{
    random_restart(2);
    struct entries e = draw_entries(30000, UINT64_MAX, ALL_ONE);
    for (size_t i = 0; i < e.n; i++)
        e.value[i] = (e.value[i] & ~(uint64_t)0xffff00) | (i & 0xffff) << 8;
    for (size_t i = 1; i < e.n; i++)
        if (i % 8 != 0)
            e.value[i] = e.value[i - 1] + 1;
    check_build(&e, 44, 2, 1000, false);
    free_entries(&e);
}

/* Chosen keys: all in few blocks, and parts in which none ends; or of one fingerprint, split among
 * parts. */
TEST(crowded_hashes_are_kept_for_the_next_part)
{
    random_restart(3);
    for (unsigned shift = 8; shift <= 48; shift += 8) {
        struct entries e = draw_entries(20000, UINT64_MAX >> shift, ALL_ONE);
        for (size_t i = 0; i < e.n; i++)
            e.value[i] += 0x123456789abcdef0;
        check_build(&e, 64, 3, 1000, false);
        check_build(&e, 24, 2, 1000, false);
        free_entries(&e);
    }
}

TEST(repeats_are_found_where_none_are_presumed)
{
    random_restart(4);
    for (unsigned repeats = 0; repeats < 2; repeats++) {
        struct keyset_spec spec = {
            .workers = 2, .memory = (uint64_t)64 << 20, .part = 1000, .scratch_dir = "/tmp"};
        struct err err;
        struct keyset *keys = keyset_new(&spec, &err);
        MUST(keys != NULL);
        uint64_t hash = 0;
        for (unsigned i = 0; i < 9000; i++) {
            hash = i < 8999 || repeats == 0 ? draw() : hash;
            MUST(keyset_put(keys, i % 2, &hash, 1, &err));
        }
        struct made m;
        struct census census;
        begin(&m, 40);
        struct target target = target_of(&m, 2);
        target.n = 9000;
        target.presumed = true;
        CHECK(counted_build(&target, keys, &census, &err) == (repeats == 0));
        keyset_free(keys);
        end(&m);
    }
}

/* ---- Of other layers. */

enum { MOST = 5 };

struct inputs {
    struct counted_memory memory[MOST];
    struct layer layer[MOST];
    const struct layer *layers[MOST];
    const uint8_t *data[MOST];
    unsigned n;
};

static void open_inputs(struct inputs *in)
{
    for (unsigned i = 0; i < in->n; i++) {
        in->layer[i] = (struct layer){.kind = &kind_counted, .data_len = in->memory[i].len};
        counted_to(&in->memory[i].counted, &in->layer[i]);
        in->layers[i] = &in->layer[i];
        in->data[i] = in->memory[i].data;
    }
}

static void free_inputs(struct inputs *in)
{
    for (unsigned i = 0; i < in->n; i++)
        free(in->memory[i].data);
}

static int compare_entries(const void *a, const void *b)
{
    return compare_hashes(a, b);
}

/* The count of what combine makes of counts[0..n), by what kind.h says. */
static uint64_t combined(enum counts_op op, const uint64_t *counts, unsigned n)
{
    uint64_t result = counts[0], others = 0;
    bool in_others = false;
    for (unsigned i = 1; i < n; i++) {
        others += counts[i];
        in_others |= counts[i] > 0;
        if (op == COUNTS_MAX)
            result = counts[i] > result ? counts[i] : result;
        if (op == COUNTS_INTERSECT)
            result = counts[i] < result ? counts[i] : result;
    }
    if (op == COUNTS_ADD)
        return result + others;
    if (op == COUNTS_DISTINCT)
        return result + others > 0;
    if (op == COUNTS_SUBTRACT)
        return result > others ? result - others : 0;
    return op == COUNTS_EXCEPT && in_others ? 0 : result;
}

/* Entries with `drop` bits fewer. */
static struct entries narrowed(const struct entries *e, unsigned drop)
{
    struct entries got = {malloc((e->n + 1) * 8), malloc((e->n + 1) * 8), 0};
    for (size_t i = 0; i < e->n; i++) {
        bool same = got.n > 0 && got.value[got.n - 1] == e->value[i] >> drop;
        got.n += !same;
        got.value[got.n - 1] = e->value[i] >> drop;
        got.count[got.n - 1] = e->count[i] + (same ? got.count[got.n - 1] : 0);
    }
    return got;
}

static struct entries expected_entries(enum counts_op op, const struct entries *e, unsigned n,
                                       struct counts_seen *seen)
{
    size_t all = 0, distinct = 0;
    for (unsigned i = 0; i < n; i++)
        all += e[i].n;
    struct entries want = {malloc((all + 1) * 8), malloc((all + 1) * 8), 0};
    for (unsigned i = 0; i < n; i++) {
        memcpy(want.value + distinct, e[i].value, e[i].n * 8);
        distinct += e[i].n;
    }
    qsort(want.value, all, 8, compare_entries);
    *seen = (struct counts_seen){.a = e[0].n};
    for (size_t i = 0; i < all; i++) {
        uint64_t v = want.value[i], counts[MOST];
        if (i + 1 < all && want.value[i + 1] == v)
            continue;
        for (unsigned k = 0; k < n; k++)
            counts[k] = count_in(&e[k], v);
        want.value[want.n] = v;
        want.count[want.n] = combined(op, counts, n);
        seen->total_made += want.count[want.n];
        want.n += want.count[want.n] > 0;
    }
    seen->made = want.n;
    return want;
}

/* Sets of e[0..n), of `bits` bits each, combined to one of bits `to`, with and without a target. */
static void check_combine(enum counts_op op, const struct entries *e, const unsigned *bits,
                          unsigned n, unsigned to, unsigned threads)
{
    struct inputs in = {.n = n};
    struct entries narrow[MOST];
    struct counts_seen want_seen, seen, dry;
    struct err err;
    for (unsigned i = 0; i < n; i++) {
        in.memory[i] = make_set(&(struct counted){.bits = bits[i]}, &e[i]);
        narrow[i] = narrowed(&e[i], bits[i] - to);
    }
    open_inputs(&in);
    struct entries entries = expected_entries(op, narrow, n, &want_seen);
    struct counted_memory want = make_set(&(struct counted){.bits = to}, &entries);
    struct made m;
    begin(&m, to);
    struct target target = target_of(&m, threads);
    MUST(counted_combine(op, in.layers, in.data, n, &target, threads, &seen, &err));
    check_file(&m, &want);
    CHECK(seen.made == want_seen.made && seen.total_made == want_seen.total_made);
    uint64_t total_a = 0;
    for (size_t i = 0; i < narrow[0].n; i++)
        total_a += narrow[0].count[i];
    CHECK(n > 2 || seen.total_a == total_a);
    if (n <= 2)
        CHECK(seen.a == narrow[0].n && seen.b == (n == 2 ? narrow[1].n : 0));
    MUST(counted_combine(op, in.layers, in.data, n, NULL, threads, &dry, &err));
    unsigned narrowest = 64;
    for (unsigned i = 0; i < n; i++)
        narrowest = bits[i] < narrowest ? bits[i] : narrowest;
    if (to == narrowest)
        CHECK(memcmp(&dry, &seen, sizeof dry) == 0);
    for (unsigned i = 0; i < n; i++)
        free_entries(&narrow[i]);
    free_entries(&entries);
    free(want.data);
    free_inputs(&in);
    end(&m);
}

/* About half of the values of each set are in the first too. */
static struct entries draw_related(const struct entries *first, unsigned first_bits, size_t n,
                                   unsigned bits, enum counts counts)
{
    uint64_t top = UINT64_MAX >> (64 - bits);
    struct entries e = draw_entries(n, top, counts);
    for (size_t i = 0; i < e.n && first->n > 0; i += 2) {
        uint64_t v = first->value[draw() % first->n];
        e.value[i] = bits < first_bits ? v >> (first_bits - bits) : v << (bits - first_bits);
    }
    qsort(e.value, e.n, 8, compare_entries);
    n = e.n;
    e.n = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || e.value[i] != e.value[e.n - 1])
            e.value[e.n++] = e.value[i];
    return e;
}

TEST(layers_are_combined_as_arrays_are)
{
    static const size_t sizes[] = {60000, 300, 0, 7000, 1};
    static const unsigned widths[][MOST] = {
        {64, 64, 64, 64, 64}, {30, 30, 30, 30, 30}, {30, 24, 64, 33, 27}, {22, 40, 23, 26, 64}};
    random_restart(5);
    for (enum counts_op op = COUNTS_ADD; op <= COUNTS_EXCEPT; op++)
        for (unsigned round = 0; round < 8; round++) {
            unsigned n = 1 + (op + round) % MOST, to = 64;
            const unsigned *bits = widths[round % 4];
            struct entries e[MOST];
            for (unsigned i = 0; i < n; i++) {
                to = bits[i] < to ? bits[i] : to;
                e[i] = i == 0 ? draw_entries(sizes[round / 4], UINT64_MAX >> (64 - bits[0]), ZIPF)
                              : draw_related(&e[0], bits[0], sizes[(i + round) % 5], bits[i],
                                             (i + round) % 2 == 0 ? FEW : ZIPF);
                for (size_t j = 0; j < e[i].n; j++)
                    e[i].count[j] = e[i].count[j] % 1000 + 1;
            }
            if (round == 6)
                to -= 3;
            check_combine(op, e, bits, n, to, 1 + round % 3);
            for (unsigned i = 0; i < n; i++)
                free_entries(&e[i]);
        }
}

/* A batch leaves most parts of the first set as they are; with and without room for more keys. */
TEST(what_a_batch_does_not_touch_is_kept)
{
    static const unsigned bits[] = {64, 64};
    static const size_t sizes[] = {60000, 37440};
    random_restart(9);
    for (enum counts_op op = COUNTS_ADD; op <= COUNTS_EXCEPT; op++)
        for (unsigned s = 0; s < 2; s++) {
            struct entries a = draw_entries(sizes[s], UINT64_MAX, FEW);
            struct entries b = draw_related(&a, 64, 40, 64, FEW);
            struct entries e[] = {a, b};
            check_combine(op, e, bits, 2, 64, 1 + s);
            free_entries(&a);
            free_entries(&b);
        }
}

/* Values of which some are crowded: n in a block, and a few hundred in each of some others. */
static struct entries draw_crowds(size_t n, size_t others, enum counts counts)
{
    struct entries e = draw_entries(others + n, UINT64_MAX, counts);
    for (size_t i = 0; i < e.n; i++)
        if (i < n)
            e.value[i] = (e.value[i] >> 30) + ((uint64_t)0x765 << 52);
        else if (i % 4 < 2)
            e.value[i] = (e.value[i] >> 35) + ((e.value[i] & 7) << 60) + ((uint64_t)1 << 58);
    qsort(e.value, e.n, 8, compare_entries);
    size_t all = e.n;
    e.n = 0;
    for (size_t i = 0; i < all; i++)
        if (i == 0 || e.value[i] != e.value[e.n - 1])
            e.value[e.n++] = e.value[i];
    for (size_t i = 0; i < e.n; i++)
        e.count[i] = e.count[i] % ((uint64_t)1 << 40) + 1;
    return e;
}

TEST(crowded_layers_are_combined_as_arrays_are)
{
    static const unsigned bits[] = {64, 64};
    random_restart(7);
    for (enum counts_op op = COUNTS_ADD; op <= COUNTS_EXCEPT; op++) {
        struct entries e[] = {draw_crowds(30000, 40000, op % 2 == 0 ? ALL_ONE : ZIPF),
                              draw_crowds(400, 9000, ZIPF)};
        memcpy(e[1].value, e[0].value, 2000 * 8);
        qsort(e[1].value, e[1].n, 8, compare_entries);
        check_combine(op, e, bits, 2, 64, 1 + op % 3);
        check_combine(op, e, bits, 1, 40, 1 + op % 3);
        free_entries(&e[0]);
        free_entries(&e[1]);
    }
}

/* What is taken away may have any sum; what is kept may not. */
TEST(only_sums_that_are_kept_must_fit)
{
    static const unsigned bits[] = {40, 40, 40, 40};
    uint64_t value[] = {7, 1000, (uint64_t)1 << 39}, few[] = {5, 5, 6},
             half[] = {UINT64_MAX / 2, 1, 2};
    const struct entries a = {value, few, 3}, b = {value, half, 3};
    struct inputs in = {.n = 4};
    struct counts_seen seen;
    struct err err = {.text = ""};
    for (unsigned i = 0; i < 4; i++)
        in.memory[i] = make_set(&(struct counted){.bits = bits[i]}, i == 0 ? &a : &b);
    open_inputs(&in);
    MUST(counted_combine(COUNTS_SUBTRACT, in.layers, in.data, 4, NULL, 1, &seen, &err));
    CHECK(seen.made == 1 && seen.total_made == 2);
    MUST(counted_combine(COUNTS_EXCEPT, in.layers, in.data, 4, NULL, 1, &seen, &err));
    CHECK(seen.made == 0);
    MUST(counted_combine(COUNTS_DISTINCT, in.layers, in.data, 4, NULL, 1, &seen, &err));
    CHECK(seen.made == 3 && seen.total_made == 3);
    CHECK(!counted_combine(COUNTS_ADD, in.layers, in.data, 4, NULL, 1, &seen, &err));
    CHECK_STR(err.text, "the sum of the counts would be 2^64 or more");
    free_inputs(&in);
}

/* ---- Memory. All hashes are in one block. */

struct crowd {
    struct entries entries;
    struct inputs in;
};

static void limit_memory(uint64_t more)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f != NULL && fscanf(f, "%lu", &pages) == 1);
    fclose(f);
    uint64_t bytes = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) + more;
    CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes}) == 0);
}

/* Is it done, or refused since a block has too many? */
static void check_crowd(bool ok, bool fits, const struct err *err)
{
    CHECK(ok == fits);
    CHECK_STR(err->text,
              fits ? ""
                   : "the hashes of more than 65535 keys are too close together: such "
                     "keys were chosen to do harm; a filter made with --secret takes them");
}

static int build_crowd(void *ctx)
{
    const struct crowd *crowd = ctx;
    struct made m;
    struct census census;
    struct err err = {.text = ""};
    uint64_t sorting = keyset_part_memory(crowd->entries.n, false);
    limit_memory(keyset_min_memory(1) + keyset_part_memory(COUNTED_PART, false) + sorting +
                 counted_build_memory());
    bool ok = build(&m, &crowd->entries, 64, 1, COUNTED_PART, false, sorting, &census, &err);
    check_crowd(ok, crowd->entries.n <= COUNTED_CROWD, &err);
    return check_ok ? 0 : 1;
}

static int combine_crowds(void *ctx)
{
    const struct crowd *crowd = ctx;
    struct made m;
    struct counts_seen seen;
    struct err err = {.text = ""};
    begin(&m, 64);
    struct target target = target_of(&m, 1);
    limit_memory(counted_build_memory());
    bool ok =
        counted_combine(COUNTS_ADD, crowd->in.layers, crowd->in.data, 2, &target, 1, &seen, &err);
    check_crowd(ok, crowd->entries.n <= COUNTED_CROWD / 2, &err);
    return check_ok ? 0 : 1;
}

/* Two sets without common keys. Of the first size, their union fits; of the second, each set alone;
 * of the third, none. */
TEST(memory_is_bounded_if_hashes_are_crowded)
{
    static const size_t sizes[] = {COUNTED_CROWD / 2, COUNTED_CROWD, 1000000};
    random_restart(8);
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct crowd crowd = {.entries = draw_entries(sizes[s], UINT64_MAX >> 24, ALL_ONE),
                              .in = {.n = 2}};
        CHECK(in_child(build_crowd, &crowd) == 0);
        for (unsigned i = 0; i < 2; i++) {
            if (crowd.entries.n > COUNTED_CROWD)
                crowd.entries.n = COUNTED_CROWD;
            for (size_t j = 0; j < crowd.entries.n; j++)
                crowd.entries.value[j] = 2 * (crowd.entries.value[j] / 2) + i;
            crowd.in.memory[i] = make_set(&(struct counted){.bits = 64}, &crowd.entries);
        }
        open_inputs(&crowd.in);
        CHECK(in_child(combine_crowds, &crowd) == 0);
        free_inputs(&crowd.in);
        free_entries(&crowd.entries);
    }
}

/* Two sets have most of their keys in common, so a stretch of their union is two slices, of which
 * each has a crowd of one of them. */
TEST(a_crowd_in_two_slices_is_refused)
{
    enum { CROWD = 40000 };
    struct counted of_union, of_all;
    struct inputs in = {.n = 2};
    struct counts_seen seen;
    struct err err = {.text = ""};
    struct made m;
    size_t common = 100000;
    do {
        common += 1000;
        of_union = of_all = (struct counted){.bits = 64};
        counted_design(&of_union, common + 2 * CROWD);
        counted_design(&of_all, 2 * (common + CROWD));
    } while (of_all.low == of_union.low);
    const uint64_t slice = (uint64_t)COUNTED_STRETCH << COUNTED_BUCKET_BITS << of_all.low;
    random_restart(10);
    struct entries all = draw_entries(common + 2 * CROWD, UINT64_MAX, ALL_ONE);
    for (unsigned i = 0; i < 2; i++) {
        struct entries e = {malloc(all.n * 8), malloc(all.n * 8), common + CROWD};
        memcpy(e.value, all.value, common * 8);
        memcpy(e.count, all.count, all.n * 8);
        for (size_t j = 0; j < CROWD; j++)
            e.value[common + j] = i * slice + j;
        qsort(e.value, e.n, 8, compare_entries);
        in.memory[i] = make_set(&(struct counted){.bits = 64}, &e);
        free_entries(&e);
    }
    open_inputs(&in);
    begin(&m, 64);
    struct target target = target_of(&m, 1);
    bool ok = counted_combine(COUNTS_ADD, in.layers, in.data, 2, &target, 1, &seen, &err);
    check_crowd(ok, false, &err);
    free_entries(&all);
    free_inputs(&in);
    end(&m);
}

/* One of several inputs, and whatever is wrong with it. */
static void check_refused(const struct entries *a, const struct entries *b, unsigned threads,
                          void (*spoil)(struct inputs *in), const char *why)
{
    struct inputs in = {.n = 2};
    struct counts_seen seen;
    struct err err = {.text = ""};
    in.memory[0] = make_set(&(struct counted){.bits = 40}, a);
    in.memory[1] = make_set(&(struct counted){.bits = 40}, b);
    spoil(&in);
    open_inputs(&in);
    struct made m;
    begin(&m, 40);
    struct target target = target_of(&m, threads);
    CHECK(!counted_combine(COUNTS_ADD, in.layers, in.data, 2, &target, threads, &seen, &err));
    CHECK_STR(err.text, why);
    free_inputs(&in);
    end(&m);
}

static void spoil_nothing(struct inputs *in)
{
    (void)in;
}

static void spoil_entries(struct inputs *in)
{
    in->memory[1].counted.entries--;
}

static void spoil_total(struct inputs *in)
{
    in->memory[1].counted.total++;
}

static void spoil_directory(struct inputs *in)
{
    in->memory[1].data[COUNTED_LINE * 5 + 3]++;
}

static void spoil_first_total(struct inputs *in)
{
    in->memory[0].counted.total = 0;
}

static void spoil_end(struct inputs *in)
{
    in->memory[1].data = realloc(in->memory[1].data, in->memory[1].len + 1);
    in->memory[1].data[in->memory[1].len++] = 0;
}

static void spoil_block(struct inputs *in)
{
    memset(in->memory[1].data + in->memory[1].len / 2, 0, 3000);
}

static void spoil_slack(struct inputs *in)
{
    in->memory[1].data[in->memory[1].len - 3] = 1;
}

TEST(damage_and_counts_that_do_not_fit_are_refused)
{
    static const char damaged[] = "the data of a counted set is not valid";
    random_restart(6);
    struct entries a = draw_entries(100000, UINT64_MAX >> 24, ALL_ONE);
    struct entries b = draw_entries(90000, UINT64_MAX >> 24, ALL_ONE);
    for (unsigned threads = 1; threads <= 3; threads += 2) {
        check_refused(&a, &b, threads, spoil_entries, "its directory is not that of its keys");
        check_refused(&a, &b, threads, spoil_total, damaged);
        check_refused(&a, &b, threads, spoil_block, damaged);
        check_refused(&a, &b, threads, spoil_directory, "line 5 of its directory is not valid");
        check_refused(&a, &b, threads, spoil_end, "its blocks do not end where its data does");
        check_refused(&a, &b, threads, spoil_slack, "its blocks do not end where its data does");
    }
    /* A batch, beside which most of the other set is copied. */
    struct entries few = draw_entries(20, UINT64_MAX >> 24, ALL_ONE);
    check_refused(&a, &few, 1, spoil_first_total, damaged);
    free_entries(&few);
    /* In parts of which none has too many. */
    a.count[0] = UINT64_MAX / 2 - 10;
    b.count[b.n - 1] = UINT64_MAX / 2 - 10;
    check_refused(&a, &b, 3, spoil_nothing, "the sum of the counts would be 2^64 or more");
    free_entries(&a);
    free_entries(&b);
}

TEST(a_layer_that_was_given_up_takes_no_part)
{
    struct made m;
    struct err why, err = {.text = ""};
    struct counted_layer l;
    begin(&m, 40);
    struct target target = target_of(&m, 1);
    counted_layer_begin(&l, &target, &(struct counted){.bits = 40, .low = 20});
    fail(&why, "for this reason");
    counted_layer_give_up(&l, &why);
    CHECK(!counted_layer_part(&l, 0, 1, NULL, 0, &err));
    CHECK_STR(err.text, "for this reason");
    counted_layer_free(&l);
    end(&m);
}

TEST(blocks_that_are_not_valid_are_not_copied)
{
    struct made m;
    struct err err = {.text = ""};
    struct counted_layer l;
    random_restart(11);
    struct entries e = draw_entries(1000, UINT64_MAX >> 24, ALL_ONE);
    struct counted_memory memory = make_set(&(struct counted){.bits = 40}, &e);
    struct counted_set set = open_set(&memory);
    memset(memory.data, 0xff, set.directory_len);
    begin(&m, 40);
    struct target target = target_of(&m, 1);
    counted_layer_begin(&l, &target, &memory.counted);
    CHECK(!counted_layer_copy(&l, 0, 1, &set, &err));
    CHECK_STR(err.text, "the data of a counted set is not valid");
    counted_layer_free(&l);
    end(&m);
    free(memory.data);
    free_entries(&e);
}

TEST(a_layer_is_not_longer_than_its_addresses)
{
    struct made m;
    struct err err = {.text = ""};
    struct counted_layer l;
    begin(&m, 40);
    struct target target = target_of(&m, 1);
    counted_layer_begin(&l, &target, &(struct counted){.bits = 40, .low = 20});
    l.at = COUNTED_MAX_LEN - COUNTED_SLACK + 1 - counted_directory_len(&l.counted);
    CHECK(!counted_layer_end(&l, &err));
    CHECK_STR(err.text, "a counted set of more than 256 TiB");
    counted_layer_free(&l);
    end(&m);
}

/* The batch itself is small, and all that it adds to. */
TEST(counts_of_what_a_batch_does_not_touch_must_fit_with_it)
{
    random_restart(11);
    struct entries a = draw_entries(60000, UINT64_MAX >> 24, ALL_ONE);
    struct entries b = {a.value + a.n - 40, a.count + a.n - 40, 40};
    a.count[0] = UINT64_MAX - a.n - 38;
    check_refused(&a, &b, 1, spoil_nothing, "the sum of the counts would be 2^64 or more");
    free_entries(&a);
}

/* ---- Failures: of all writes and arrays that grow, each fails once. */

static bool says_why(const struct err *err)
{
    return strcmp(err->text, check_errno("cannot write 'test'", ENOSPC)) == 0 ||
           strcmp(err->text, "out of memory") == 0;
}

/* Built twice, since `low` was guessed for more fingerprints. */
TEST(failures_to_build_are_told)
{
    bool failed = true;
    random_restart(12);
    struct entries e = draw_entries(6000, UINT64_MAX, ALL_ONE);
    for (size_t i = 1; i < e.n; i++)
        if (i % 8 != 0)
            e.value[i] = e.value[i - 1] + 1;
    for (long n = 0; failed; n++) {
        struct made m;
        struct census census;
        struct err err = {.text = ""};
        faulty_begin(n);
        bool ok = build(&m, &e, 44, 1, 1000, false, 0, &census, &err);
        failed = faulty_end();
        CHECK(ok != failed && says_why(&err) == failed);
        end(&m);
    }
    free_entries(&e);
}

/* n values, most of which are in the last quarter of a quarter of all. */
static struct entries draw_uneven(size_t n)
{
    struct entries e = draw_entries(n, UINT64_MAX, FEW);
    for (size_t i = 0; i < e.n; i++)
        if (i % 8 > 0)
            e.value[i] |= (uint64_t)3 << 60;
    qsort(e.value, e.n, 8, compare_entries);
    return e;
}

/* A stretch of the result is made of four slices, of which the last one is large. */
TEST(failures_to_combine_are_told)
{
    bool failed = true;
    random_restart(13);
    struct entries a = draw_uneven(6000), b = draw_uneven(30000);
    struct inputs in = {.n = 2};
    in.memory[0] = make_set(&(struct counted){.bits = 64}, &a);
    in.memory[1] = make_set(&(struct counted){.bits = 64}, &b);
    open_inputs(&in);
    for (long n = 0; failed; n++) {
        struct made m;
        struct counts_seen seen;
        struct err err = {.text = ""};
        begin(&m, 64);
        struct target target = target_of(&m, 1);
        faulty_begin(n);
        bool ok = counted_combine(COUNTS_EXCEPT, in.layers, in.data, 2, &target, 1, &seen, &err);
        failed = faulty_end();
        CHECK(ok != failed && says_why(&err) == failed);
        end(&m);
    }
    free_inputs(&in);
    free_entries(&a);
    free_entries(&b);
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    /* First, while there is no memory that was freed and could be taken again. */
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, 1 << 17);
#endif
    if (getenv("SANITIZER") != NULL)
        SKIP(memory_is_bounded_if_hashes_are_crowded, "a checker takes more");
    else
        RUN(memory_is_bounded_if_hashes_are_crowded);
    RUN(hashes_in_parts_are_the_set_of_all);
    RUN(the_number_of_fingerprints_may_be_any);
    RUN(crowded_hashes_are_kept_for_the_next_part);
    RUN(repeats_are_found_where_none_are_presumed);
    RUN(layers_are_combined_as_arrays_are);
    RUN(what_a_batch_does_not_touch_is_kept);
    RUN(crowded_layers_are_combined_as_arrays_are);
    RUN(only_sums_that_are_kept_must_fit);
    RUN(damage_and_counts_that_do_not_fit_are_refused);
    RUN(a_crowd_in_two_slices_is_refused);
    RUN(a_layer_that_was_given_up_takes_no_part);
    RUN(blocks_that_are_not_valid_are_not_copied);
    RUN(a_layer_is_not_longer_than_its_addresses);
    RUN(counts_of_what_a_batch_does_not_touch_must_fit_with_it);
    RUN(failures_to_build_are_told);
    RUN(failures_to_combine_are_told);
    return check_done();
}

/* SPDX-License-Identifier: MIT */
/* tags: computing portable */
#include "check.h"
#include "kind/kind.h"
#include "kind/overlap.h"
#include "kind/table.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Keys that are in both sets, in a alone and in b alone. */
struct keys {
    unsigned both, a, b;
};

enum { FIGURES = 4 };

static const char *const names[FIGURES] = {"a", "b", "any", "both"};

static const struct figure *figure(const struct overlap *o, unsigned i)
{
    const struct figure *of[FIGURES] = {&o->a, &o->b, &o->any, &o->both};
    return of[i];
}

static void truth(const struct keys *k, double of[FIGURES])
{
    struct overlap o;
    overlap_exact(k->a + k->both, k->b + k->both, k->both, &o);
    for (unsigned i = 0; i < FIGURES; i++)
        of[i] = figure(&o, i)->value;
}

/* What came of a number of runs, for each figure. */
struct runs {
    unsigned covered[FIGURES];               /* intervals that held the truth */
    double width[FIGURES], squares[FIGURES]; /* sums: of the intervals, and of squares of errors */
};

/* Intervals that held the truth in so many of `runs`: in 94 to 97 of 100, and beyond that by chance
 * but for one time in 10^5, 4.4 sigma. `discrete`: there may be more, and no fewer than 92.5. */
static void check_coverage(const char *what, const struct runs *r, unsigned runs, bool discrete)
{
    double sigma = sqrt(0.95 * 0.05 * runs), least = discrete ? 0.925 : 0.94;
    for (unsigned i = 0; i < FIGURES; i++) {
        bool ok = r->covered[i] >= least * runs - 4.4 * sigma &&
                  (discrete || r->covered[i] <= 0.97 * runs + 4.4 * sigma);
        if (!ok)
            printf("# %s, %s: %u of %u\n", what, names[i], r->covered[i], runs);
        CHECK(ok);
    }
}

/* Intervals are no wider than the errors call for, but for half a key at either end. Their mean
 * width of 3.92 deviations may be off by a quarter. */
static void check_width(const char *what, const struct runs *r, unsigned runs)
{
    for (unsigned i = 0; i < FIGURES; i++) {
        double width = r->width[i] / runs, deviation = sqrt(r->squares[i] / runs);
        bool ok = !(deviation > 1e-9) || width <= 1.25 * 3.92 * deviation + 2;
        if (!ok)
            printf("# %s, %s: %g wide for a deviation of %g\n", what, names[i], width, deviation);
        CHECK(ok);
    }
}

static void check_runs(const char *what, const struct runs *r, unsigned runs, bool discrete)
{
    check_coverage(what, r, runs, discrete);
    check_width(what, r, runs);
}

static void count(const struct overlap *o, const double is[FIGURES], struct runs *r)
{
    for (unsigned i = 0; i < FIGURES; i++) {
        const struct figure *f = figure(o, i);
        r->covered[i] += f->low <= is[i] && is[i] <= f->high;
        r->width[i] += f->high - f->low;
        r->squares[i] += (f->value - is[i]) * (f->value - is[i]);
    }
}

TEST(exact_figures)
{
    struct overlap o;
    overlap_exact(10, 5, 3, &o);
    CHECK(o.a.value == 10 && o.b.value == 5 && o.any.value == 12 && o.both.value == 3);
    CHECK(o.both.low == 3 && o.both.high == 3);
    overlap_exact(0, 0, 0, &o);
    CHECK(o.any.value == 0);
}

/* ---- Fingerprints. */

static void put(uint8_t *cells, unsigned bits, unsigned n, uint8_t set)
{
    for (unsigned i = 0; i < n; i++)
        cells[draw() >> (64 - bits)] |= set;
}

static bool fingerprints(uint8_t *cells, unsigned bits, const struct keys *k, struct overlap *o)
{
    uint64_t has[4] = {0};
    memset(cells, 0, (size_t)1 << bits);
    put(cells, bits, k->both, 3);
    put(cells, bits, k->a, 1);
    put(cells, bits, k->b, 2);
    for (size_t i = 0; i < (size_t)1 << bits; i++)
        has[cells[i]]++;
    return overlap_fingerprints(has[1] + has[3], has[2] + has[3], has[3], bits, o);
}

/* 64 keys leave 23.4 of 64 values free on average, and in 0.07 % of the runs fewer than 16, which
 * is refused: 0.35 times in 500 runs, and more than 5 times twice in a million. */
static void check_fingerprints(unsigned bits, struct keys k, unsigned runs, bool discrete)
{
    enum { MOST_REFUSED = 5 };
    unsigned refused = 0;
    uint8_t *cells = malloc((size_t)1 << bits);
    struct runs r = {0};
    double is[FIGURES];
    char what[80];
    truth(&k, is);
    random_restart(bits);
    for (unsigned run = 0; run < runs; run++) {
        struct overlap o;
        if (fingerprints(cells, bits, &k, &o))
            count(&o, is, &r);
        else
            refused++;
    }
    snprintf(what, sizeof what, "%u bits, %u+%u+%u", bits, k.a, k.both, k.b);
    check_runs(what, &r, runs - refused, discrete);
    CHECK(refused <= MOST_REFUSED);
    free(cells);
}

TEST(fingerprints_are_covered)
{
    enum { RUNS = 500 };
    check_fingerprints(12, (struct keys){1000, 1000, 500}, RUNS, false);
    check_fingerprints(12, (struct keys){300, 2000, 1000}, RUNS, false);
    check_fingerprints(12, (struct keys){1500, 20, 3000}, RUNS, false);
    check_fingerprints(10, (struct keys){900, 900, 900}, RUNS, false);
}

TEST(few_fingerprints_are_covered)
{
    enum { RUNS = 500 };
    check_fingerprints(12, (struct keys){100, 100, 50}, RUNS, true);
    check_fingerprints(12, (struct keys){0, 100, 100}, RUNS, true);
    check_fingerprints(12, (struct keys){20, 20, 20}, RUNS, true);
    check_fingerprints(12, (struct keys){100, 0, 0}, RUNS, true);
    check_fingerprints(12, (struct keys){50, 5, 100}, RUNS, true);
}

/* Narrow ones: of 64 to 1024 values, from a tenth to twice as many keys. */
TEST(narrow_fingerprints_are_covered)
{
    enum { RUNS = 500 };
    check_fingerprints(6, (struct keys){6, 6, 7}, RUNS, true);
    check_fingerprints(6, (struct keys){20, 20, 24}, RUNS, true);
    check_fingerprints(8, (struct keys){68, 3, 4}, RUNS, true);
    check_fingerprints(8, (struct keys){138, 7, 8}, RUNS, true);
    check_fingerprints(8, (struct keys){12, 115, 128}, RUNS, true);
    check_fingerprints(8, (struct keys){128, 128, 128}, RUNS, true);
    check_fingerprints(10, (struct keys){15, 7, 8}, RUNS, true);
    check_fingerprints(10, (struct keys){500, 1500, 40}, RUNS, true);
}

/* A few keys beside so many that some of the few have the fingerprints of others. */
TEST(few_beside_many_are_covered)
{
    enum { RUNS = 500 };
    check_fingerprints(6, (struct keys){1, 1, 43}, RUNS, true);
    check_fingerprints(8, (struct keys){13, 13, 230}, RUNS, true);
    check_fingerprints(8, (struct keys){5, 246, 5}, RUNS, true);
    check_fingerprints(8, (struct keys){10, 10, 492}, RUNS, true);
    check_fingerprints(10, (struct keys){41, 1966, 41}, RUNS, true);
}

TEST(wide_fingerprints_are_as_good_as_exact)
{
    struct overlap o;
    CHECK(overlap_fingerprints(1000, 500, 300, 50, &o));
    CHECK(o.a.low == 1000 && o.a.high == 1000 && o.any.high == 1200);
    CHECK(o.both.low == 300 && o.both.value == 300 && o.both.high == 300);
}

TEST(full_sets_are_refused)
{
    struct overlap o;
    CHECK(!overlap_fingerprints(256, 250, 250, 8, &o));
    CHECK(overlap_fingerprints(240, 230, 230, 8, &o));
}

TEST(empty_sets)
{
    struct overlap o;
    CHECK(overlap_fingerprints(0, 0, 0, 20, &o));
    CHECK(o.any.high == 0 && o.both.high == 0);
}

/* Two keys in both of two sets of four, of 13 bits each, some of which are those of two keys: the
 * numbers of keys are certain. */
TEST(certain_numbers)
{
    struct pair_census pair;
    struct overlap o;
    CHECK(overlap_cells(5751, 13, (const double[3]){50, 50, 77}, &pair));
    overlap_estimate(&pair, &o);
    CHECK(o.any.low == 6 && o.any.high == 6 && o.both.low == 2 && o.both.high == 2);
}

/* ---- Bloom filters. */

struct bloom_pair {
    struct layer layer[2];
    uint8_t *data[2];
};

static void add(struct bloom_pair *p, unsigned which, const uint64_t *hash, unsigned n)
{
    const struct layer *layer = &p->layer[which];
    for (unsigned i = 0; i < n; i += LAYER_BATCH) {
        uint64_t present[LAYER_BATCH / 64] = {0};
        unsigned left = n - i < LAYER_BATCH ? n - i : LAYER_BATCH;
        layer->kind->add(layer, p->data[which], (struct hashes){hash + i, LAYER_BATCH, NULL}, left,
                         present);
    }
}

static void fill(struct bloom_pair *p, const struct keys *k, uint64_t *hash)
{
    for (unsigned i = 0; i < 2; i++)
        memset(p->data[i], 0, p->layer[i].data_len);
    for (unsigned i = 0; i < k->both + k->a + k->b; i++)
        hash[i] = draw();
    add(p, 0, hash, k->both + k->a);
    add(p, 1, hash, k->both);
    add(p, 1, hash + k->both + k->a, k->b);
}

/* Two filters, the second `times` smaller than the first. */
static bool pair_new(struct bloom_pair *p, const struct layer *layer, unsigned times)
{
    struct err err;
    bool ok = true;
    for (unsigned i = 0; i < 2; i++) {
        p->layer[i] = *layer;
        uint64_t small = layer->geometry[0] / times, units = i == 0 ? small * times : small;
        p->layer[i].data_len = layer->data_len / layer->geometry[0] * units;
        p->layer[i].geometry[0] = units;
        ok &= layer->kind->check(&p->layer[i], &err);
        p->data[i] = aligned_alloc(LAYER_PAGE, (size_t)layer_pages(&p->layer[i]) * LAYER_PAGE);
        ok &= p->data[i] != NULL;
    }
    return ok;
}

static struct layer bloom_for(uint64_t capacity, double fpr)
{
    struct layer layer = {0};
    CHECK(kind_usual()->sizing->size(capacity, fpr, &layer));
    return layer;
}

static void check_pairs(const char *what, const struct layer *like, unsigned times, struct keys k,
                        unsigned runs, bool discrete)
{
    struct bloom_pair p;
    struct runs r = {0};
    uint64_t *hash = malloc((k.both + k.a + k.b + LAYER_BATCH) * sizeof *hash);
    double is[FIGURES];
    CHECK(pair_new(&p, like, times));
    truth(&k, is);
    random_restart(k.both + k.a + k.b);
    for (unsigned run = 0; run < runs; run++) {
        const struct layer *layer[2] = {&p.layer[0], &p.layer[1]};
        const uint8_t *data[2] = {p.data[0], p.data[1]};
        struct pair_census pair;
        struct overlap o;
        fill(&p, &k, hash);
        CHECK(like->kind->table->alike(layer[0], layer[1]) && table_pair(layer, data, 1, &pair));
        overlap_estimate(&pair, &o);
        count(&o, is, &r);
    }
    check_runs(what, &r, runs, discrete);
    free(p.data[0]);
    free(p.data[1]);
    free(hash);
}

TEST(bloom_filters_are_covered)
{
    enum { RUNS = 500 };
    struct layer layer = bloom_for(20000, 0.01);
    check_pairs("bloom at 0.01", &layer, 1, (struct keys){2000, 4000, 8000}, RUNS, false);
    layer = bloom_for(5000, 1e-5);
    check_pairs("bloom at 1e-5", &layer, 1, (struct keys){1000, 3000, 500}, RUNS, false);
    layer = bloom_for(5000, 0.001);
    check_pairs("overfull bloom", &layer, 1, (struct keys){300, 5000, 5000}, RUNS, false);
    layer = bloom_for(15000, 0.001);
    check_pairs("folded bloom", &layer, 3, (struct keys){1000, 3000, 2000}, RUNS, false);
}

/* Their intervals have whole ends. */
TEST(small_bloom_filters_are_covered)
{
    enum { RUNS = 1000 };
    static const double fpr[] = {0.1, 1e-6};
    for (unsigned i = 0; i < sizeof fpr / sizeof *fpr; i++) {
        struct layer layer = bloom_for(100, fpr[i]);
        check_pairs("small bloom, half shared", &layer, 1, (struct keys){50, 50, 50}, RUNS, true);
        check_pairs("small bloom, few shared", &layer, 1, (struct keys){10, 90, 90}, RUNS, true);
        check_pairs("small bloom, more keys", &layer, 1, (struct keys){150, 50, 250}, RUNS, true);
    }
}

/* Of a kind that has k bits of m for a key. */
static void put_cells(uint8_t *cell, unsigned m, unsigned k, unsigned n, uint8_t set)
{
    for (unsigned i = 0; i < n * k; i++)
        cell[draw() % m] |= set;
}

TEST(tables_of_bits_are_covered)
{
    enum { M = 9000, K = 5, RUNS = 500 };
    static const struct keys k = {300, 700, 400};
    struct runs r = {0};
    double is[FIGURES];
    truth(&k, is);
    random_restart(M);
    for (unsigned run = 0; run < RUNS; run++) {
        uint8_t cell[M] = {0};
        double set[3] = {0};
        struct pair_census pair;
        struct overlap o;
        put_cells(cell, M, K, k.both, 3);
        put_cells(cell, M, K, k.a, 1);
        put_cells(cell, M, K, k.b, 2);
        for (unsigned i = 0; i < M; i++) {
            set[0] += cell[i] & 1;
            set[1] += cell[i] >> 1;
            set[2] += cell[i] != 0;
        }
        CHECK(overlap_cells(M, K, set, &pair));
        overlap_estimate(&pair, &o);
        count(&o, is, &r);
    }
    check_runs("a table of bits", &r, RUNS, false);
}

/* A filter and a copy of it: the numbers of keys are estimates, but the ratios
 * only by the keys that a full table may hide. */
static void check_equal(unsigned n)
{
    struct bloom_pair p;
    uint64_t hash[2000 + LAYER_BATCH];
    struct pair_census pair;
    struct overlap o;
    struct layer like = bloom_for(n, 0.001);
    CHECK(pair_new(&p, &like, 1));
    fill(&p, &(struct keys){n, 0, 0}, hash);
    const struct layer *layer[2] = {&p.layer[0], &p.layer[1]};
    const uint8_t *data[2] = {p.data[0], p.data[1]};
    CHECK(table_pair(layer, data, 3, &pair));
    overlap_estimate(&pair, &o);
    CHECK(fabs(o.both.value - o.a.value) < 1e-6 && fabs(o.both.high - o.a.high) < 1e-3);
    for (unsigned i = 0; i < 2; i++)
        memset(p.data[i], 0xff, (size_t)p.layer[i].data_len);
    CHECK(!table_pair(layer, data, 1, &pair));
    free(p.data[0]);
    free(p.data[1]);
}

TEST(equal_filters)
{
    check_equal(2000);
    check_equal(100);
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(exact_figures);
    RUN(fingerprints_are_covered);
    RUN(few_fingerprints_are_covered);
    RUN(narrow_fingerprints_are_covered);
    RUN(few_beside_many_are_covered);
    RUN(wide_fingerprints_are_as_good_as_exact);
    RUN(full_sets_are_refused);
    RUN(empty_sets);
    RUN(certain_numbers);
    RUN(bloom_filters_are_covered);
    RUN(small_bloom_filters_are_covered);
    RUN(tables_of_bits_are_covered);
    RUN(equal_filters);
    return check_done();
}

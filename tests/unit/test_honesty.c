/* SPDX-License-Identifier: MIT
 * The numbers that stats prints, against the truth, at loads from a twentieth of the capacity to
 * twelve times it: intervals of the number of keys, keys dropped, the FPR, and the comparison of
 * counters and bits. Filters are in memory, and keys are hashes.
 *
 * tags: computing slow
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "kind/bloom/bloom.h"
#include "random.h"
#include "file/chain.h"
#include "file/header.h"
#include "file/session.h"
#include "write/advance.h"
#include "write/writer.h"

enum { LOADS = 5, RATES = 4 };

/* Filters of each design; 300 with FULL=1. Under a sanitizer fewer, which are there for the
 * sanitizer. */
static unsigned runs = 100;

static const double loads[LOADS] = {0.05, 0.5, 1, 3, 12};
static const double rates[RATES] = {0.1, 0.01, 1e-3, 1e-4};

/* What was found at one load of filters of one design. */
struct tally {
    unsigned covered, alarms;
    bool shared;                   /* layers share keys, so fewer are lost than are taken to be */
    bool at_least;                 /* with so high a rate, `dropped` is a lower bound */
    double dropped, lost, squares; /* keys; and the sum of squares of lost - dropped */
    double expected, hits;         /* of absent keys */
};

/* A filter in memory, and the hashes that were given to it. */
struct subject {
    struct filter filter;
    struct layers layers;
    struct writer writer;
    struct add_state state;
    double lost; /* distinct keys that were taken for present when they came */
};

static uint64_t capacity; /* of a filter, or a layer, of one page */

static bool open_subject(struct subject *s, const struct header *like)
{
    const struct add_options options = {.threads = 1, .max_fpr = 1};
    struct header h = *like;
    struct err err;
    format_place(&h);
    s->lost = 0;
    s->state = (struct add_state){0};
    if (!did(filter_open_memory(&s->filter, &h, &err) &&
                 writer_begin(&s->writer, &s->filter, &options, &s->state, &err),
             err.text))
        return false;
    s->layers = filter_layers(&s->filter);
    return true;
}

static void close_subject(struct subject *s)
{
    struct err err;
    MUST(writer_end(&s->writer, false, &err));
    filter_close(&s->filter);
}

/* Gives it keys [from, to) of the series, of which those from `fresh` on are new to it. */
static void give(struct subject *s, uint64_t series, uint64_t from, uint64_t to, uint64_t fresh)
{
    enum { MOST = 1 << 12 };
    struct err err;
    while (from < to) {
        uint64_t hash[MOST], known[MOST / 64] = {0};
        size_t done, n = to - from < MOST ? (size_t)(to - from) : MOST;
        for (size_t i = 0; i < n; i++)
            hash[i] = random_at((series << 32) + from + i);
        MUST(writer_add(&s->writer, hashes_of(hash), known, n, &done, &err) == ADD_OK);
        for (size_t i = 0; i < n; i++)
            s->lost += from + i >= fresh && (known[i / 64] >> i % 64 & 1);
        from += n;
    }
}

static void rotate(struct subject *s)
{
    struct err err;
    MUST(advance(&s->writer.session, 1, &err));
}

/* Absent keys, of another series. */
static double ask(struct subject *s, unsigned n)
{
    static uint64_t next = (uint64_t)1 << 63;
    double hits = 0;
    for (unsigned at = 0; at < n; at += LAYER_BATCH) {
        uint64_t hash[LAYER_BATCH], present[LAYER_BATCH / 64];
        struct err err;
        for (unsigned i = 0; i < LAYER_BATCH; i++)
            hash[i] = random_at(next++);
        MUST(filter_query(&s->filter, hashes_of(hash), LAYER_BATCH, present, &err));
        for (unsigned w = 0; w < LAYER_BATCH / 64; w++)
            hits += __builtin_popcountll(present[w]);
    }
    return hits;
}

enum { ASKED = 4 * LAYER_BATCH };

/* The header with the counters of now. */
static struct header header_of(const struct subject *s)
{
    struct header h = s->filter.header;
    h.counters = s->writer.session.counters;
    return h;
}

static void look(struct subject *s, double n, struct tally *t)
{
    struct census layer[FORMAT_MAX_LAYERS], all;
    struct header h = header_of(s);
    double n_bits, n_counted;
    layers_census_each(s->layers, 1, layer);
    layers_census_whole(&h, layer, &all);
    t->covered += all.n_low <= n && n <= all.n_high;
    t->alarms += !layers_counters_agree(&h, &h.counters, layer, &n_bits, &n_counted);
    double given, dropped;
    chain_given(&h, &h.counters, &given, &dropped);
    bool at_least;
    dropped = layers_dropped(dropped, h.counters.keys_added, &all, &at_least);
    t->at_least |= at_least;
    t->dropped += dropped;
    t->lost += s->lost;
    t->squares += (s->lost - dropped) * (s->lost - dropped);
    t->expected += ASKED * all.fpr;
    t->hits += ask(s, ASKED);
}

static void show(const char *what, double p, double load, const struct tally *t)
{
    printf("# %-9s p %-6g load %-5g: %u of %u hold n, dropped %.0f, lost %.0f, "
           "%.0f absent keys present, %.0f expected, %u alarms\n",
           what, p, load, t->covered, runs, t->dropped, t->lost, t->hits, t->expected, t->alarms);
}

/* Of `runs` intervals, 95 % less 4 standard deviations. */
static double fewest_covered(void)
{
    return 0.95 * runs - 4 * sqrt(0.95 * 0.05 * runs);
}

/* Intervals that are two-sided hold n in 95 % of the runs: fewer than 95 % less 4 deviations of a
 * binomial number come once in 30000 tallies. */
static bool covers(const struct tally *t)
{
    return t->covered >= fewest_covered();
}

/* The sum of what was lost is within 5 deviations, as the runs themselves spread, of the sum of
 * what stats says, and the formula's half percent; and so are the absent keys present, in a number
 * that is binomial. A few more where there are next to none. A ring's FPR is that of independent
 * generations: a bound, some 10 % too high if they share keys. */
static bool is_honest(const struct tally *t)
{
    double slack = 5 + 5 * sqrt(t->squares) + 0.005 * t->dropped;
    double excess = t->dropped - t->lost;
    double chance = 5 + 5 * sqrt(t->expected);
    double least = t->shared ? 0.8 * t->expected : t->expected;
    return (excess >= -slack || t->at_least) && (excess <= slack || t->shared) && t->alarms == 0 &&
           t->hits <= t->expected + chance && t->hits >= least - chance;
}

static void start(struct header *h, struct bloom *bloom, double p)
{
    const struct key_rule rule = {0};
    capacity = bloom_capacity(1, p, bloom);
    header_begin(h, &rule, false);
}

static void one_layer(struct header *h, const struct bloom *bloom, uint64_t n, double p)
{
    h->n_design = n;
    h->fpr_design = p;
    h->n_layers = 1;
    h->layers[0] = (struct layer){.n_design = n, .fpr_design = p};
    bloom_to(bloom, &h->layers[0]);
}

static uint64_t keys_at(unsigned load)
{
    return (uint64_t)(loads[load] * (double)capacity);
}

static struct tally tally[RATES][LOADS];
static unsigned all_covered, all_of;
static uint64_t series;

/* What was found at the first n_loads loads; then forgets it. */
static void judge_all(const char *what, unsigned n_loads)
{
    unsigned covered = 0, of = RATES * n_loads * runs;
    for (unsigned r = 0; r < RATES; r++)
        for (unsigned l = 0; l < n_loads; l++) {
            const struct tally *t = &tally[r][l];
            bool ok = covers(t) && is_honest(t);
            CHECK(ok);
            if (!ok)
                show(what, rates[r], loads[l], t);
            covered += t->covered;
        }
    printf("# %s: %.2f %% of %u intervals hold n\n", what, 100.0 * covered / of, of);
    all_covered += covered;
    all_of += of;
    memset(tally, 0, sizeof tally);
}

TEST(fixed)
{
    for (unsigned r = 0; r < RATES; r++) {
        struct header h;
        struct bloom bloom;
        start(&h, &bloom, rates[r]);
        one_layer(&h, &bloom, capacity, rates[r]);
        for (unsigned run = 0; run < runs; run++, series++) {
            struct subject s;
            CHECK(open_subject(&s, &h));
            for (unsigned l = 0; l < LOADS; l++) {
                give(&s, series, l == 0 ? 0 : keys_at(l - 1), keys_at(l), 0);
                look(&s, (double)keys_at(l), &tally[r][l]);
            }
            close_subject(&s);
        }
    }
    judge_all("fixed", LOADS);
}

TEST(growing)
{
    for (unsigned r = 0; r < RATES; r++) {
        struct header h;
        struct bloom bloom;
        struct err err;
        start(&h, &bloom, rates[r]);
        MUST(chain_start_growing(&h, kind_usual(), capacity, rates[r], true, &err));
        for (unsigned run = 0; run < runs; run++, series++) {
            struct subject s;
            CHECK(open_subject(&s, &h));
            for (unsigned l = 0; l < LOADS; l++) {
                give(&s, series, l == 0 ? 0 : keys_at(l - 1), keys_at(l), 0);
                look(&s, (double)keys_at(l), &tally[r][l]);
            }
            close_subject(&s);
        }
    }
    judge_all("growing", LOADS);
}

/* Each generation gets as many keys, and each begins `step` keys behind the one before. */
static void fill_ring(struct subject *s, unsigned generations, uint64_t each, uint64_t step)
{
    uint64_t begin = 0, seen = 0;
    for (unsigned i = 0; i <= generations; i++, begin += step) {
        if (i > 0)
            rotate(s);
        give(s, series, begin, begin + each, seen);
        seen = begin + each;
    }
}

/* A ring at one load. One half of the keys of a generation come again in the next one, or none. */
static void try_ring(const struct header *h, unsigned generations, unsigned load, bool shared,
                     struct tally *t)
{
    uint64_t each = keys_at(load), step = shared ? each - each / 2 : each;
    t->shared = shared;
    for (unsigned run = 0; run < runs; run++, series++) {
        struct subject s;
        CHECK(open_subject(&s, h));
        fill_ring(&s, generations, each, step);
        look(&s, (double)(each + generations * step), t);
        close_subject(&s);
    }
}

/* Up to so many of the loads. */
static void try_rings(const char *name, unsigned generations, unsigned n_loads, bool shared)
{
    for (unsigned r = 0; r < RATES; r++) {
        struct header h;
        struct bloom bloom;
        struct err err;
        start(&h, &bloom, rates[r] / (generations + 1));
        MUST(chain_start_ring(&h, kind_usual(), generations, capacity * generations, rates[r],
                              &err));
        for (unsigned l = 0; l < n_loads; l++)
            try_ring(&h, generations, l, shared, &tally[r][l]);
    }
    judge_all(name, n_loads);
}

TEST(ring_with_shared_keys)
{
    try_rings("ring", 2, 4, true);
}

/* With all eight layers full the union of their bits has two clear bits in a line. */
TEST(ring_of_a_week)
{
    try_rings("week", 7, 3, false);
}

/* The same 1000 keys in four generations: the FPR is that of independent ones, a bound. */
TEST(the_same_keys_in_every_generation)
{
    struct header h;
    struct bloom bloom;
    struct err err;
    struct subject s;
    struct census all, layer;
    start(&h, &bloom, 0.01);
    MUST(chain_start_ring(&h, kind_usual(), 3, 3000, 0.1, &err));
    CHECK(open_subject(&s, &h));
    fill_ring(&s, 3, 1000, 0);
    layers_census_all(s.layers, 1, &all);
    layers_census(s.layers, 0, 1, &layer);
    /* The layers are the same, bit for bit. */
    CHECK(isnan(all.n) && all.n_low > 970 && all.n_low <= 1000 && all.n_high >= 4000);
    CHECK(all.fpr >= layer.fpr);
    CHECK(fabs(all.fpr / (1 - pow(1 - layer.fpr, s.layers.header->n_layers)) - 1) < 1e-9);
    close_subject(&s);
}

/* Two layers that share half of their keys, as a merge leaves them: their numbers are bounds. */
TEST(layers_side_by_side)
{
    enum { KEYS = 3000 };
    struct bloom bloom = {4, 6, 1};
    struct header h;
    const struct key_rule rule = {0};
    header_begin(&h, &rule, false);
    one_layer(&h, &bloom, KEYS, 0.1);
    h.layers[1] = h.layers[0];
    h.n_layers = 2;
    h.n_design = 2 * KEYS;
    for (unsigned run = 0; run < runs; run++, series++) {
        struct subject s;
        struct census all;
        CHECK(open_subject(&s, &h));
        for (unsigned i = 0; i < 2 * KEYS; i++) {
            uint64_t hash = random_at((series << 32) + i / 2 + i % 2 * (KEYS / 2)), present = 0;
            const struct layer *l = &s.layers.header->layers[i % 2];
            l->kind->add(l, s.layers.data[i % 2], hashes_of(&hash), 1, &present);
        }
        layers_census_all(s.layers, 1, &all);
        CHECK(isnan(all.n) && all.n_low <= KEYS * 3 / 2 && KEYS * 3 / 2 <= all.n_high);
        CHECK(all.n_low > 0.9 * KEYS && all.n_high < 2.2 * KEYS);
        close_subject(&s);
    }
}

/* A page of bits that are lost, in one of ten pages, and one in which all are set, both with the
 * checksums that they should have: the counters tell. The chance that they do not is nil. */
TEST(lost_bits_are_noticed)
{
    enum { PAGES = 10 };
    struct bloom bloom = {PAGES, 9, 1};
    struct header h;
    struct subject s;
    struct census layer;
    const struct key_rule rule = {0};
    double n_bits, n_counted;
    struct layer layer_of_all;
    bloom_to(&bloom, &layer_of_all);
    uint64_t n = (uint64_t)layer_n_at(&layer_of_all, 1e-3);
    header_begin(&h, &rule, false);
    one_layer(&h, &bloom, n, 1e-3);
    CHECK(open_subject(&s, &h));
    give(&s, series++, 0, n, 0);
    const struct header now = header_of(&s);
    layers_census(s.layers, 0, 1, &layer);
    CHECK(layers_counters_agree(&now, &now.counters, &layer, &n_bits, &n_counted) && n_bits > 0);
    for (int byte = 0; byte < 256; byte += 255) {
        uint8_t *page = s.layers.data[0] + BLOOM_PAGE, before[BLOOM_PAGE];
        memcpy(before, page, BLOOM_PAGE);
        memset(page, byte, BLOOM_PAGE);
        layers_census(s.layers, 0, 1, &layer);
        CHECK(!layers_counters_agree(&now, &now.counters, &layer, &n_bits, &n_counted));
        memcpy(page, before, BLOOM_PAGE);
    }
    close_subject(&s);
}

TEST(all_together)
{
    printf("# %.2f %% of %u\n", 100.0 * all_covered / all_of, all_of);
    CHECK(all_covered >= 0.94 * all_of);
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    if (check_is_full())
        runs = 300;
    else if (check_is_brief())
        runs = 20;
    RUN(fixed);
    RUN(growing);
    RUN(ring_with_shared_keys);
    RUN(ring_of_a_week);
    if (runs >= 100)
        RUN(all_together);
    RUN(the_same_keys_in_every_generation);
    RUN(layers_side_by_side);
    RUN(lost_bits_are_noticed);
    return check_done();
}

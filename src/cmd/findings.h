/*
 * What `seen stats` finds out about one filter: from its header, its pages and its bits, and from
 * the answers to keys that were never added.
 *
 *     struct wanted wanted = {.keyopt = KEYOPT_DEFAULT, .measure = 1000000};
 *     struct findings found;
 *     if (!findings_gather(&found, store, &wanted)) ...      // and has said why
 *     figures_report(&report, &found);                       // figures.h
 */
#ifndef CMD_FINDINGS_H
#define CMD_FINDINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "cmd/keyopt.h"
#include "cmd/report.h"
#include "cmd/trial.h"
#include "kind/kind.h"
#include "kind/layout.h"
#include "store/filter.h"
#include "store/format.h"
#include "store/store.h"

/* Findings that need more than reading the filter. */
struct wanted {
    struct keyopt keyopt; /* threads; how to read `negatives`; the --secret to check */
    uint64_t measure;     /* random keys to ask; 0: none */
    char *negatives;      /* a file of keys to ask; NULL: none */
};

/* The most facts that are kept of a layout. */
enum { FACTS = 8 };

/* What was found out about one filter. */
struct findings {
    struct store *store;
    const struct header *header;
    const struct filter *file; /* NULL: the store is not a file, so it has no pages to check */
    unsigned shards;           /* 1: the filter is not sharded */
    enum filter_health health;
    struct census all, layer[FORMAT_MAX_LAYERS];
    struct occupancy lines; /* the sum over all layers that have lines */
    double lines_p;         /* probability of this chi-square with random keys; 1: no data */
    uint64_t damaged;       /* pages */
    struct trial random, negatives; /* keys 0: not wanted */
    bool counters_known;
    bool consistent; /* counters agree with bits; true if counters are unknown */
    double n_bits;   /* about what counters.n_keys should be, by the bits; NAN: cannot be told */
    /* For a filter of another program's layout. */
    const struct layout *layout; /* NULL: none */
    char spec[LAYOUT_TEXT];
    struct layout_facts {
        unsigned n;
        struct field field[FACTS];
        char name[FACTS][NUM_TEXT], value[FACTS][NUM_TEXT];
    } facts;
};

/* Reads the whole filter and queries the wanted keys. Prints why it fails. The findings point into
 * the store. */
bool findings_gather(struct findings *found, struct store *store, struct wanted *wanted);

#endif

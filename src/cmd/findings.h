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

/* What of a filter takes more than reading it. */
struct wanted {
    struct keyopt keyopt; /* threads for all; how to read `negatives`; --secret: it is checked */
    uint64_t measure;     /* random keys to ask; 0: none */
    char *negatives;      /* a file of keys to ask; NULL: none */
};

/* Facts of a layout, at most. */
enum { FACTS = 8 };

/* What was found out about one filter. */
struct findings {
    struct store *store;
    const struct header *header;
    const struct filter *file; /* NULL: the store is none, and has no pages to be checked */
    unsigned shards;           /* 1: it is whole */
    enum filter_health health;
    struct census all, layer[FORMAT_MAX_LAYERS];
    struct occupancy lines; /* of all layers that have any */
    double lines_p;         /* the chance that random keys leave them so; 1: nothing to compare */
    uint64_t damaged;       /* pages */
    struct trial random, negatives; /* without keys: not wanted */
    bool counters_known;
    bool consistent; /* counters and bits; true if counters are unknown */
    double n_bits;   /* keys that the counters should have counted */
    /* Of another program's layout. */
    const struct layout *layout; /* NULL: none */
    char spec[LAYOUT_TEXT];
    struct layout_facts {
        unsigned n;
        struct field field[FACTS];
        char name[FACTS][NUM_TEXT], value[FACTS][NUM_TEXT];
    } facts;
};

/* Reads all of the filter, and asks what is wanted. Says itself what fails. What was found points
 * into the store. */
bool findings_gather(struct findings *found, struct store *store, struct wanted *wanted);

#endif

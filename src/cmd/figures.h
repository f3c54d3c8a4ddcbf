/*
 * What `seen stats` finds out about one filter, from its header, its pages and its bits; and its
 * figures: each with its name in text and in JSON, its form, and its source.
 *
 *     struct findings found;
 *     if (!findings_gather(&found, store, &keyopt)) ...      // and has said why
 *     figures_report(&report, &found);
 */
#ifndef CMD_FIGURES_H
#define CMD_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "cmd/keyopt.h"
#include "cmd/report.h"
#include "kind/kind.h"
#include "kind/layout.h"
#include "store/filter.h"
#include "store/format.h"
#include "store/store.h"

/* The most facts that are kept of a layout. */
enum { FACTS = 8 };

/* What was found out about one filter. */
struct findings {
    struct store *store;
    const struct header *header;
    bool is_file;    /* else it has no pages to check */
    unsigned shards; /* 1: the filter is not sharded */
    enum filter_health health;
    struct census all, layer[FORMAT_MAX_LAYERS];
    uint64_t damaged; /* pages */
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

/* Reads the whole filter, with keyopt->threads, and checks the secret that --secret gave. Prints
 * why it fails. The findings point into the store. */
bool findings_gather(struct findings *found, struct store *store, struct keyopt *keyopt);

/* Adds what a person asks for, at most 12 rows; or all findings. To a report that has begun. */
void figures_brief(struct report *r, const struct findings *found);
void figures_report(struct report *r, const struct findings *found);

#endif

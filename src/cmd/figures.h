/* SPDX-License-Identifier: MIT
 * What `seen stats` finds out about one filter, from its header, its pages and its bits.
 *
 *     struct figures f;
 *     if (!figures_read(&f, store, &keyopt)) ...             // and has said why
 */
#ifndef CMD_FIGURES_H
#define CMD_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "cmd/keyopt.h"
#include "keys/reading.h"
#include "kind/kind.h"
#include "foreign/layout.h"
#include "file/filter.h"
#include "file/format.h"
#include "file/secret.h"
#include "store/store.h"

/* The most facts that are kept of a layout. */
enum { FIGURES_FACTS = 8 };

struct figures {
    struct store *store;
    const struct header *header;
    bool is_file;    /* else it has no pages to check */
    unsigned shards; /* 1: the filter is not sharded */
    enum filter_health health;
    struct census all, layer[FORMAT_MAX_LAYERS];
    uint64_t damaged;    /* pages */
    bool counters_known; /* of a clean file: they include only sessions that ended well */
    bool consistent;     /* counters agree with bits; true if counters are unknown */
    double n_bits,
        n_counted; /* keys in all layers, by the bits and by the counters; NAN: unknown */
    char seed[NUM_TEXT], secret_id[SECRET_ID_TEXT];
    char prep[64]; /* the longest is " --trim --ignore-case --hex --digest sha256"; empty: none */
    char reading[READING_TEXT]; /* empty: unknown */
    /* For a filter of another program's layout. */
    const struct layout *layout; /* NULL: none */
    char spec[LAYOUT_TEXT];
    unsigned n_facts;
    struct {
        char name[NUM_TEXT], value[NUM_TEXT];
    } fact[FIGURES_FACTS];
};

/* Reads the whole filter, with keyopt->threads, and checks the secret that --secret gave. Prints
 * why it fails. The figures point into the store. */
bool figures_read(struct figures *f, struct store *store, struct keyopt *keyopt);

#endif

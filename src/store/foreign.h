/*
 * Filters of other programs (kind/layout.h) as filter files.
 *
 *     struct layout_filter filter;
 *     layout->read(&spec, &in, &filter, bits, &err);
 *     foreign_header(&filter, &rule, reproducible, &header);
 *     foreign_write(&header, bits, &newfile, name, threads, &err);       // but does not commit it
 *
 *     foreign_filter(&header, &filter, &err);                            // and back
 *     layout->write(&filter, data, &sink, &err);
 */
#ifndef STORE_FOREIGN_H
#define STORE_FOREIGN_H

#include <stdbool.h>

#include "base/err.h"
#include "keys/batch.h"
#include "kind/layout.h"
#include "store/format.h"
#include "store/newfile.h"

/* The preparation of a filter's keys, as the rule has it but for the layout's encoding; and their
 * hash. Fails if the encoding is not for digests. */
bool foreign_rule(const struct layout_filter *filter, struct key_rule *rule, struct err *err);

/* Gives a header the layers of such a filter, placed, its policy, capacity and rate. */
void foreign_layers(const struct layout_filter *filter, struct header *h);

/* The header of such a filter, placed. The rule gives the preparation of keys; hash, seed
 * and encoding are the layout's. Counters are those of an empty filter. */
void foreign_header(const struct layout_filter *filter, const struct key_rule *rule,
                    bool reproducible, struct header *h);

/* What a filter file of a layout is for the other program, with `n_added` as counted since. Fails
 * with a predicate if it is of no layout: "is of no other program's layout". */
bool foreign_filter(const struct header *h, struct layout_filter *filter, struct err *err);

/* Writes the file. Sets the counters and what is noted of closed layers, by the bits; the keys of
 * layers with exact_capacity are the filter's (n_closed). */
bool foreign_write(struct header *h, const struct layout_filter *filter,
                   const struct layout_bits *bits, struct newfile *file, const char *name,
                   unsigned threads, struct census *census, struct err *err);

#endif

/*
 * Converts filters of other programs (kind/layout.h) to filter files and back.
 *
 *     struct layout_filter filter;
 *     layout->read(&spec, &in, &filter, bits, &err);
 *     foreign_header(&filter, &rule, reproducible, &header);
 *     foreign_write(&header, &filter, bits, &newfile, name, threads, &census, &err);  // no header
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

/* Sets the rule's hash, seed and key encoding to the layout's; the rest of the preparation stays.
 * Fails if the rule asks for digests and the layout has an encoding. */
bool foreign_rule(const struct layout_filter *filter, struct key_rule *rule, struct err *err);

/* Sets a header's layers, policy, capacity and rate to the filter's, and places the layers. */
void foreign_layers(const struct layout_filter *filter, struct header *h);

/* Makes the header of such a filter, with its layers placed. The rule gives the preparation of
 * keys; hash, seed and encoding are the layout's. Counters are those of an empty filter. */
void foreign_header(const struct layout_filter *filter, const struct key_rule *rule,
                    bool reproducible, struct header *h);

/* Describes a filter file of a layout for the other program; n_added is the header's current
 * keys_added. If the file has no layout, fails with a predicate: "is of no other program's layout".
 */
bool foreign_filter(const struct header *h, struct layout_filter *filter, struct err *err);

/* Writes the layers of the file. Sets the counters and what follows from them, from the bits if
 * the other program does not count keys. */
bool foreign_write(struct header *h, const struct layout_filter *filter,
                   const struct layout_bits *bits, struct newfile *file, const char *name,
                   unsigned threads, struct census *census, struct err *err);

#endif

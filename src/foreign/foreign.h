/* SPDX-License-Identifier: MIT
 * Converts filters of other programs (kind/foreign.h) to filter files and back.
 *
 *     struct layout_filter filter;
 *     layout->read(&spec, &in, &filter, bits, &err);
 *     header_begin_foreign(&header, &filter, &rule, reproducible);
 *     foreign_write(&header, &filter, bits, &newfile, name, threads, &census, &err);  // no header
 *
 *     foreign_filter(&header, &filter, &err);                            // and back
 *     layout->write(&filter, data, &sink, &err);
 */
#ifndef FOREIGN_FOREIGN_H
#define FOREIGN_FOREIGN_H

#include <stdbool.h>

#include "base/err.h"
#include "foreign/layout.h"
#include "file/format.h"
#include "file/newfile.h"

/* Describes a filter file of a layout for the other program; n_added is the header's current
 * keys_added. If the file has no layout, fails with a predicate: "does not have the layout of
 * another program".
 */
bool foreign_filter(const struct header *h, struct layout_filter *filter, struct err *err);

/* Writes the layers of the file. Sets the counters and what follows from them, from the bits if
 * the other program does not count keys. */
bool foreign_write(struct header *h, const struct layout_filter *filter,
                   const struct layout_bits *bits, struct newfile *file, const char *name,
                   unsigned threads, struct census *census, struct err *err);

#endif

/* SPDX-License-Identifier: MIT
 * Converts filters of other programs (kind/foreign.h) to filter files and back.
 *
 *     struct layout_filter filter;
 *     layout->read(&spec, &in, &filter, bits, &err);
 *     header_begin_foreign(&header, &filter, &rule, reproducible);
 *     ... write the layers, by FROM_FOREIGN (write/assembly.h) ...
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

/* Describes a filter file of a layout for the other program; n_added is the header's current
 * keys_added. If the file has no layout, fails with a predicate: "does not have the layout of
 * another program".
 */
bool foreign_filter(const struct header *h, struct layout_filter *filter, struct err *err);

#endif

/*
 * Few keys, asked of a filter that may be large: the pages that decide about them are read, not
 * mapped. A page in the page cache takes 2 us to read and no memory. To map it takes 3 to 7 us, and
 * the kernel maps up to 2 MiB around it, all of which counts as memory of the process.
 */
#ifndef STORE_FILTER_FEW_H
#define STORE_FILTER_FEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys/hash.h"
#include "store/filter.h"

/* More keys than this are asked in the mapping: with them it takes less time. */
enum { FILTER_FEW = 128 };

/* Sets bit i of present when key i is in any layer, as filter_query does. Any number of threads may
 * ask at once. False: filter_query has to answer, in the mapping. In some layer several pages
 * decide about a key, or a page cannot be read or does not match its checksum. */
bool filter_few_query(const struct filter *f, struct hashes keys, size_t n, uint64_t *present);

#endif

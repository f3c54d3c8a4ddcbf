/*
 * Queries for few keys in a filter that may be large. The pages that decide about them are read,
 * not mapped. Reading a page from the page cache takes 2 us and no memory. Mapping it takes 3 to
 * 7 us, and the kernel maps up to 2 MiB around it, which counts as memory of the process.
 */
#ifndef STORE_FILTER_FEW_H
#define STORE_FILTER_FEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys/hash.h"
#include "store/filter.h"

/* For more keys than this, the mapping is faster. */
enum { FILTER_FEW = 128 };

/* Sets bit i of present when key i is in any layer, as filter_query does. Any number of threads may
 * ask at once. False: the query must use the mapping, because in some layer several pages decide
 * about a key, or because a page cannot be read or does not match its checksum. */
bool filter_few_query(const struct filter *f, struct hashes keys, size_t n, uint64_t *present);

#endif

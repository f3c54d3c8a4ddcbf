/*
 * A filter in memory, for one run of one process, as a store.
 */
#ifndef STORE_MEMORY_H
#define STORE_MEMORY_H

#include "store/format.h"
#include "store/store.h"

/* Makes the filter of that header, with no keys in it; NULL: see err. */
struct store *memory_open(const struct header *h, struct err *err);

/* For tests: closes the newest layer and begins another, as a writer does when that is full. */
bool memory_advance(struct store *s, struct err *err);

#endif

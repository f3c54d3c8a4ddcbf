/*
 * A store (store.h) whose filter lives in the memory of one process and ends with it.
 */
#ifndef STORE_MEMORY_H
#define STORE_MEMORY_H

#include "store/format.h"
#include "store/store.h"

/* Makes an empty filter with this header. NULL: see err. */
struct store *memory_open(const struct header *h, struct err *err);

/* For tests: closes the newest layer and begins another, as a full layer makes a writer do. */
bool memory_advance(struct store *s, struct err *err);

#endif

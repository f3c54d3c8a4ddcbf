/*
 * A filter in memory, for one run of one process.
 */
#ifndef STORE_MEMORY_H
#define STORE_MEMORY_H

#include <stdbool.h>

#include "base/err.h"
#include "store/filter.h"

enum { MEMORY_PATH = 40 };

/* Makes the filter of that header, with no keys in it, and opens it for writing. `path` becomes its
 * path, by which only this process can open it. It is gone when the process ends. */
bool memory_open(struct filter *f, char path[MEMORY_PATH], struct header *h, struct err *err);

#endif

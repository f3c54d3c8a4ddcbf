/*
 * Filters without keys: what `create --empty`, `dedup --create` and `dedup` without a file begin
 * with.
 */
#ifndef STORE_EMPTY_H
#define STORE_EMPTY_H

#include <stdbool.h>

#include "base/err.h"
#include "keys/batch.h"
#include "kind/bloom/bloom.h"
#include "store/filter.h"

/* A clean header, without layers yet, for keys that are prepared by that rule. The file's id is
 * random, and the times are now. */
void empty_header(struct header *h, const struct key_rule *rule);

/* Gives it one layer of that size. */
void empty_fixed(struct header *h, const struct bloom *bloom, uint64_t n, double p);

/* Writes the whole file: h, whose layers are set but need not be placed, and the layers. */
bool empty_write(int fd, struct header *h, const char *name, struct err *err);

/* Makes it at `path`, unless something is there by then: that is no failure. */
bool empty_create(const char *path, struct header *h, struct err *err);

enum { EMPTY_PATH = 40 };

/* Makes it in memory and opens it for writing. `path` becomes its path, by which only this process
 * can open it. It is gone when the process ends. */
bool empty_open_in_memory(struct filter *f, char path[EMPTY_PATH], struct header *h,
                          struct err *err);

#endif

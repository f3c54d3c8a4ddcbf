/*
 * Makes a filter of the keys of a set that counts, without the keys: from their hashes, which the
 * set must have kept whole. The result is what the same records would have made.
 *
 *     if (!derive_check(&from, &err)) ...
 *     ... filter_build_begin(&b, &err), with the rule of `from` ...
 *     if (!derive_put(&b, &from, &n_put, &err)) ...
 *     ... filter_build_write(&b, n_put, &file, name, &err) ...
 */
#ifndef STORE_DERIVE_H
#define STORE_DERIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/filter.h"
#include "store/filter_build.h"

/* Is it such a set? If not, says what would be needed. */
bool derive_check(const struct filter *from, struct err *err);

/* Gives the build all hashes. *records is how many records they came from, as the set has it. */
bool derive_put(struct filter_build *b, const struct filter *from, uint64_t *records,
                struct err *err);

#endif

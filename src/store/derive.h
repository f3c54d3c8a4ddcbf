/*
 * Makes a filter from a counted set, without the original keys: the set must have kept their whole
 * 64-bit hashes. The result is the same as if built from the original records.
 *
 *     if (!derive_check(&from, &err)) ...
 *     ... filter_build_begin(&b, &err), with the rule of `from` ...
 *     if (!derive_put(&b, &from, &n_put, &err)) ...
 *     ... filter_build_write(&b, n_put, &err) ...
 */
#ifndef STORE_DERIVE_H
#define STORE_DERIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/filter.h"
#include "store/filter_build.h"

/* Is `from` a counted set with whole hashes? If not, the error says what is needed. */
bool derive_check(const struct filter *from, struct err *err);

/* Puts all hashes into the build. Sets *records to the set's count of records. */
bool derive_put(struct filter_build *b, const struct filter *from, uint64_t *records,
                struct err *err);

#endif

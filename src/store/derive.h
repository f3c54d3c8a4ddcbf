/*
 * Makes a filter from a counted set, without the original keys: the set must have kept their whole
 * 64-bit hashes. The result is the same as if built from the original records.
 *
 *     struct derive d = {0};
 *     if (!derive_open(&d, path, &file, &err) || !derive_check_sound(&d, threads, &err)) ...
 *     ... filter_build_begin(&b, &err), with the key preparation of derive_header(&d) ...
 *     if (!derive_put(&d, &b, &n_put, &err)) ...
 *     ... filter_build_write(&b, n_put, &err) ...
 *     derive_close(&d);                                // in any case
 */
#ifndef STORE_DERIVE_H
#define STORE_DERIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/filter.h"
#include "store/filter_build.h"
#include "store/newfile.h"

struct derive {
    struct filter from;
    bool is_open;
};

/* Opens a counted set. It must have whole hashes; if not, the error says what is needed. It may be
 * the file that `file` replaces, whose writers are then locked out until the commit. */
bool derive_open(struct derive *d, const char *path, struct newfile *file, struct err *err);

const struct header *derive_header(const struct derive *d);

/* Checks all of its pages. */
bool derive_check_sound(struct derive *d, unsigned threads, struct err *err);

/* Puts all hashes into the build. Sets *records to the set's count of records. */
bool derive_put(const struct derive *d, struct filter_build *b, uint64_t *records, struct err *err);

void derive_close(struct derive *d);

#endif

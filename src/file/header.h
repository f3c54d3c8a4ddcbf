/* SPDX-License-Identifier: MIT
 * The header of a new file: its keys, as they are prepared and hashed, and how it is written. Its
 * layers come from a design (design.h) or from other filters.
 *
 *     header_begin(&h, &rule, reproducible);             // or header_begin_like(&h, &other, ...)
 *     ... h.layers, h.n_layers, the rates ...
 *     format_place(&h);
 *     header_reserve(&h, &newfile, &err) && ... each layer by header_target(&h, i, ...) ...
 *     header_write(&h, newfile.fd, path, &err) && newfile_commit(&newfile, &err);
 *
 * assembly.h does these steps.
 */
#ifndef FILE_HEADER_H
#define FILE_HEADER_H

#include <stdbool.h>

#include "base/err.h"
#include "kind/target.h"
#include "file/format.h"
#include "file/newfile.h"

struct filter;   /* file/filter.h */
struct key_rule; /* keys/rule.h */

/* Makes a clean header, without layers yet, for keys prepared and hashed by `rule`. The file's id
 * is random and the times are now; in reproducible files they are zero. */
void header_begin(struct header *h, const struct key_rule *rule, bool reproducible);

/* The same for the keys of another filter. */
void header_begin_like(struct header *h, const struct header *other, bool reproducible);

/* To be called for each further filter whose keys go into the new one. The key length stays known
 * only if it is the same in all. */
void header_join_keys(struct header *h, const struct header *other);

/* Gives the new filter the profile of all keys of n filters, if each has one. */
void header_join_profiles(struct header *h, const struct filter *in, unsigned n);

/* For a filter that has not all of these keys. */
void header_forget_profile(struct header *h);

/* Adds what keys look like that were added to a filter: it had `before` keys and has `now`. A
 * profile begins with PROFILE_LEAST sampled keys, and half of the filter's. */
void header_learn(struct header *h, const struct profile *p, uint64_t before, uint64_t now);

/* Do two filters agree in all fields that decide how keys are prepared and hashed? If not, the
 * error names the fields that differ ("hash seed, --hex"). */
bool header_same_keys(const struct header *a, const struct header *b, struct err *err);

/* The same; the error is a sentence that names both filters, which "cannot be `done`", and for each
 * option the one that has it. */
bool header_check_same(const struct header *a, const char *a_path, const struct header *b,
                       const char *b_path, const char *done, struct err *err);

/* ---- Writing the file. */

/* The target of layer i of a file whose layers are placed (format_place). */
struct target header_target(struct header *h, unsigned i, int fd, const char *name,
                            unsigned threads);

/* Allocates the file for a placed header, all zero, with a hole for a lone sparse layer. */
bool header_reserve(const struct header *h, struct newfile *file, struct err *err);

/* Writes the header and truncates the file to its length. */
bool header_write(const struct header *h, int fd, const char *name, struct err *err);

#endif

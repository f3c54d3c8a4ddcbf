/* SPDX-License-Identifier: MIT
 * Checks the pages of an open filter against their checksums: those that a query needs, each once,
 * or all. Beside writers a page that does not match is damaged only if no writer has marked it.
 */
#ifndef FILE_PAGES_H
#define FILE_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "file/filter.h"

/* Checks the pages of a layer that a query of these keys reads, each once while the file is open,
 * against their checksums. For callers that access the layer directly; call it first. Touched pages
 * have no valid checksum and pass. n is at most LAYER_BATCH. Any number of threads may call it at
 * once. */
bool pages_verify(struct filter *f, unsigned layer, struct hashes keys, size_t n, struct err *err);

/* For a writer, whose own changes hide an overwritten file. pages_distrust: pages that were found
 * sound some time ago are checked again at their next use. pages_check_used, for the end: checks
 * all pages that were used. */
void pages_distrust(struct filter *f);
bool pages_check_used(struct filter *f, struct err *err);

/* For a writer in its turn: checks a page, marked or not, whose checksum must be up to date. */
bool pages_check_one(const struct filter *f, unsigned layer, uint64_t page, struct err *err);

/* From now on no page counts as checked. */
void pages_forget(struct filter *f);

/* Makes the checksum of a page that a writer has changed. */
void pages_renew_sum(const struct filter *f, unsigned layer, uint64_t page);

/* A damaged page, its offset in the file, and why: "does not match its checksum", say. */
typedef void pages_damage(void *ctx, unsigned layer, uint64_t page, uint64_t offset,
                          const char *why);

/* Checks every page of every layer: its checksum and, if that matches, its contents. Calls
 * `damaged`, unless NULL, for each damaged page, one call at a time, in any order. Touched pages
 * that do not match are counted in *unchecked. Returns the number of damaged pages. Reports
 * progress if the caller has begun it (progress.h). */
uint64_t pages_check_all(const struct filter *f, unsigned threads, uint64_t *unchecked,
                         pages_damage *damaged, void *ctx);

/* Fails if a page of the file is damaged. To be called before the file is converted to another.
 * Reads the header again if a writer has changed it meanwhile. */
bool pages_check_sound(struct filter *f, unsigned threads, struct err *err);

#endif

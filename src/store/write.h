/* Writing the parts of a new filter file that are the same for all kinds of layers. */
#ifndef STORE_WRITE_H
#define STORE_WRITE_H

#include "store/format.h"

/* Writes the checksums of pages [first, first + n) of the layer, whose bytes are at `pages` (NULL:
 * all zero). */
bool build_page_sums(const struct build_target *target, const uint8_t *pages, uint64_t first,
                     uint64_t n, struct err *err);

/* Writes those of a layer that is all zero. */
bool build_zero_sums(const struct build_target *target, struct err *err);

/* Writes those of a layer whose data has been written, which it reads back. */
bool build_sums(const struct build_target *target, struct err *err);

/* Writes a layer's data, as `data` has it, and its checksums. */
bool build_copy(const struct build_target *target, const uint8_t *data, struct err *err);

/* Gives the header of a new file what tells it from others: a random id and the time. Reproducible
 * files have neither. */
void build_stamp(struct header *header, bool reproducible);

/* Writes the header, where it belongs in this kind of file, and cuts the file to its length. */
bool build_header(const struct header *header, int fd, const char *name, struct err *err);

#endif

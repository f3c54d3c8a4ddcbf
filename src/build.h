/* Writing the parts of a new filter file that are the same for all kinds of layers. */
#ifndef BUILD_H
#define BUILD_H

#include "format.h"

/* Makes the checksums of a layer whose data has been written. */
bool build_sums(const struct build_target *target, struct err *err);

/* Writes a layer's data, as `data` has it, and its checksums. */
bool build_copy(const struct build_target *target, const uint8_t *data, struct err *err);

/* Writes the header, where it belongs in this kind of file, and cuts the file to its length. */
bool build_header(const struct header *header, int fd, const char *name, struct err *err);

#endif

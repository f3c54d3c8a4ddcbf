/* SPDX-License-Identifier: MIT
 * Reads the header of an open file from its two slots, one of which a writer may be writing.
 */
#ifndef FILE_SLOT_H
#define FILE_SLOT_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"
#include "file/format.h"

/* The error is a predicate, as with format_decode. *slot_damaged: one of the two slots is. */
bool slot_read(int fd, struct header *h, bool *slot_damaged, struct err *err);

struct slot_state {
    struct header header;
    bool slot_damaged, settled;
    struct stat status;
};

/* Reads the header, and the status that belongs to it; it is not needed if the header says that the
 * file is being written. The last writer writes to the file even after it has marked
 * it clean. Only its lock tells when it is done: until then, the state is not settled. */
bool slot_read_state(int fd, const char *path, struct slot_state *now, struct err *err);

#endif

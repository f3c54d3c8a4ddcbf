/* SPDX-License-Identifier: MIT */
/* For fuzz targets: bytes as a file or a pipe. */
#ifndef SOURCE_H
#define SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "must.h"

enum { SOURCE_MOST = 60000 /* fits in a pipe without a reader */ };

/* A descriptor from which the bytes can be read. */
static inline int source_of(const void *data, size_t size, bool through_pipe)
{
    int fds[2];
    if (through_pipe) {
        MUST(pipe(fds) == 0);
    } else {
        fds[0] = fds[1] = memfd_create("fuzz", 0);
        MUST(fds[0] >= 0);
    }
    MUST(write(fds[1], data, size) == (ssize_t)size);
    if (through_pipe)
        close(fds[1]);
    return fds[0];
}

#endif

/* SPDX-License-Identifier: MIT
 * What record.c has to know of the calls that calls.c stands before. All is without effect unless
 * RECORD_DIR and RECORD_LOG are set.
 */
#ifndef RECORD_H
#define RECORD_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

static inline void *next(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (f == NULL)
        abort();
    return f;
}

/* The C library's own function, by the name that it has with 64-bit offsets. */
#define NEXT(function, name) (*(__typeof__(function) **)&(void *){next(name)})

/* A call that may change the directory comes; until it has ended no other one is made, by any
 * process. What the others below tell is recorded between both. */
void record_begin(const char *call);
bool record_is_on(void);
void record_end(void);

void record_open(int fd, int flags);
void record_close(int fd);
bool record_knows(int fd); /* is it an open file of the directory? */
void record_range(int fd, off_t off, ssize_t len);
void record_output(const void *data, ssize_t len);
/* A file or the directory was synced, or could not be. */
void record_sync(int fd, bool ok);

/* A mapping is made read-only, so that record.c sees what is written. */
void record_map(void *at, size_t len, int fd);
void record_unmap(void *at);

#endif

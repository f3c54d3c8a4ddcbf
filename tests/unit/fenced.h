/* SPDX-License-Identifier: MIT
 * Copies of bytes with an unmapped page behind them: a read of more ends the test, without a
 * sanitizer, too.
 */
#ifndef FENCED_H
#define FENCED_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The bytes of the pages that hold len bytes. */
static inline size_t fenced_room(size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (len + page - 1) / page * page;
}

/* Ends the process if there is no memory. */
static inline uint8_t *fenced_copy(const void *from, size_t len)
{
    size_t room = fenced_room(len);
    uint8_t *p = mmap(NULL, room + fenced_room(1), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || (room > 0 && mprotect(p, room, PROT_READ | PROT_WRITE) != 0))
        abort();
    return len > 0 ? memcpy(p + room - len, from, len) : p + room;
}

static inline void fenced_free(uint8_t *p, size_t len)
{
    munmap(p + len - fenced_room(len), fenced_room(len) + fenced_room(1));
}

#endif

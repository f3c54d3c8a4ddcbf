/* SPDX-License-Identifier: MIT */
#include "keys/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "port/port.h"
#include "base/bytes.h"
#include "base/sig.h"

/* A signal may be taken by a thread other than the one that waits for input. The waiting thread
 * notices it within this time. The same holds for input_stop. */
enum { STOP_POLL_MS = 100 };

bool source_fail_memory(const struct source *src, struct err *err)
{
    return fail(err, "out of memory for a long record in '%s'", src->name);
}

bool source_fail_read(const struct source *src, struct err *err)
{
    return fail_errno(err, "cannot read '%s'", src->name);
}

void source_count(const struct source *src, size_t n)
{
    atomic_fetch_add_explicit(src->done, n, memory_order_relaxed);
}

size_t source_read(const struct source *src, void *to, size_t capacity, bool wait,
                   enum source_end *end, struct err *why)
{
    while (*end == SOURCE_GOES_ON) {
        if (src->most != 0 && *src->done > src->most) {
            fail(why, "'%s' goes on after %" PRIu64 " bytes, more than its contents take",
                 src->name, src->most);
            *end = SOURCE_BROKEN;
            return 0;
        }
        bool ready = port_wait_input(src->fd, wait ? STOP_POLL_MS : 0);
        if (*src->stopped || sig_caught()) {
            *end = SOURCE_STOPPED;
        } else if (ready) {
            ssize_t n = read(src->fd, to, capacity);
            if (n > 0) {
                source_count(src, (size_t)n);
                return (size_t)n;
            }
            if (n == 0) {
                *end = SOURCE_ENDED;
            } else if (errno != EINTR && errno != EAGAIN) {
                *end = SOURCE_BROKEN;
                source_fail_read(src, why);
            }
        } else if (!wait) {
            return 0;
        }
    }
    return 0;
}

/* ---- Chunks. */

enum { ALIGN = 4096 };

/* A larger buffer was made for a very long record: it is freed after it, and there is one at a
 * time. Those of usual chunks, even if doubled once, are smaller. */
enum { KEPT = 2 << 20 };

/* The turn of a chunk is polled: reading so much takes about as long. */
enum { TURN_POLL_NS = 500 * 1000 };

static void wipe(struct chunk *chunk)
{
    if (chunk->secret && chunk->filled > 0)
        port_wipe(chunk->buffer, chunk->filled);
    chunk->filled = 0;
}

void chunk_free(struct chunk *chunk)
{
    wipe(chunk);
    free(chunk->buffer);
    chunk->buffer = NULL;
    chunk->buffer_len = 0;
}

void chunk_wipe(struct chunk *chunk)
{
    if (chunk->buffer_len > KEPT)
        chunk_free(chunk);
    else
        wipe(chunk);
}

/* Gives the chunk a buffer of `len` bytes, which begins with the first `keep` of the old one. */
static bool resize(struct chunk *chunk, size_t len, size_t keep)
{
    void *buffer;
    if (posix_memalign(&buffer, ALIGN, len) != 0)
        return false;
    if (keep)
        memcpy(buffer, chunk->buffer, keep);
    size_t filled = chunk->filled;
    chunk_free(chunk);
    chunk->filled = filled;
    chunk->buffer = buffer;
    chunk->buffer_len = len;
    return true;
}

bool chunk_fit(struct chunk *chunk, size_t len)
{
    if (chunk->buffer_len >= len && chunk->buffer_len / 8 <= len)
        return true;
    chunk_free(chunk);
    return resize(chunk, len, 0);
}

bool chunk_grow(struct chunk *chunk, const struct source *src)
{
    size_t len = chunk->buffer_len;
    size_t enough = src->chunk_len + CHUNK_OVERLAP + ALIGN; /* besides the longest record */
    size_t longer = len <= SIZE_MAX / 2 ? 2 * len : SIZE_MAX;
    if (src->longest < SIZE_MAX - enough && longer > src->longest + enough)
        longer = src->longest + enough;
    while (longer > KEPT && *src->finished < chunk->seq && !*src->stopped)
        nanosleep(&(struct timespec){.tv_nsec = TURN_POLL_NS}, NULL);
    return longer > len && resize(chunk, longer, len);
}

size_t chunk_last_start(const struct chunk *chunk, const struct source *src, size_t begin,
                        size_t end)
{
    const char *t = bytes_last(chunk->buffer + begin, src->terminator, end - begin);
    return t != NULL ? (size_t)(t - chunk->buffer) + 1 : begin;
}

bool chunk_too_long(struct chunk *chunk, const struct source *src, size_t start, size_t end)
{
    if (end - start <= src->longest)
        return false;
    chunk->too_long = end - start;
    return true;
}

void chunk_set(struct chunk *chunk, size_t begin, size_t end)
{
    chunk->data = chunk->buffer + begin;
    chunk->len = end - begin;
}

/* SPDX-License-Identifier: MIT */
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "port/port.h"
#include "base/bits.h"
#include "base/disk.h"
#include "base/say.h"

/* Records of at most WIDEST bytes are copied as whole vectors, selected or not. The end of the
 * output then advances only past selected records, so no branch depends on the data. If half the
 * keys of a query are present, this is up to a third faster than a branch. */
enum { WIDEST = 128 };

/* An empty buffer that is larger was made for a very long record, and is freed. Output of a chunk
 * of the input, 512 KiB with short labels, stays far below this. */
enum { KEPT = 8 << 20 };

static bool grow_output(struct output *o, size_t more)
{
    if (o->room - o->len >= more)
        return true;
    size_t room = o->room ? o->room : 4096;
    while (room - o->len < more)
        room *= 2;
    char *data = o->secret ? malloc(room) : realloc(o->data, room);
    if (data == NULL)
        return false;
    if (o->secret && o->data != NULL) {
        size_t len = o->len;
        memcpy(data, o->data, len);
        output_free(o);
        o->len = len;
    }
    o->data = data;
    o->room = room;
    return true;
}

bool output_bytes(struct output *o, const char *data, size_t len)
{
    if (!grow_output(o, len))
        return false;
    memcpy(o->data + o->len, data, len);
    o->len += len;
    return true;
}

static inline size_t length(const char *const *record, size_t i)
{
    return (size_t)(record[i + 1] - record[i]);
}

/* With a constant width, this compiles to a few vector moves. */
static inline __attribute__((always_inline)) char *
copy_width(char *to, const char *const *record, size_t n, const uint64_t *selected, size_t width)
{
    for (size_t i = 0; i < n; i++) {
        memcpy(to, record[i], width);
        to += length(record, i) & -(size_t)bit_of(selected, i);
    }
    return to;
}

static char *copy_any(char *to, const char *const *record, size_t from, size_t n,
                      const uint64_t *selected)
{
    for (size_t i = from; i < n; i++)
        if (bit_of(selected, i)) {
            memcpy(to, record[i], length(record, i));
            to += length(record, i);
        }
    return to;
}

bool output_select(struct output *o, const char *const *record, size_t n, const uint64_t *selected,
                   const char *limit)
{
    if (!grow_output(o, (size_t)(record[n] - record[0]) + WIDEST))
        return false;
    size_t longest = 0, safe = n;
    for (size_t i = 0; i < n; i++)
        longest = length(record, i) > longest ? length(record, i) : longest;
    while (safe > 0 && limit - record[safe - 1] < WIDEST)
        safe--;
    char *to = o->data + o->len;
    if (longest <= 16)
        to = copy_width(to, record, safe, selected, 16);
    else if (longest <= 32)
        to = copy_width(to, record, safe, selected, 32);
    else if (longest <= 64)
        to = copy_width(to, record, safe, selected, 64);
    else if (longest <= WIDEST)
        to = copy_width(to, record, safe, selected, WIDEST);
    else
        safe = 0;
    to = copy_any(to, record, safe, n, selected);
    o->len = (size_t)(to - o->data);
    return true;
}

bool output_terminate(struct output *o, char terminator)
{
    return o->len == 0 || o->data[o->len - 1] == terminator || output_bytes(o, &terminator, 1);
}

void output_empty(struct output *o)
{
    if (o->secret && o->data != NULL) {
        size_t used = o->len + WIDEST; /* vector copies may write past the end */
        port_wipe(o->data, used < o->room ? used : o->room);
    }
    o->len = 0;
    if (o->room > KEPT) {
        free(o->data);
        o->data = NULL;
        o->room = 0;
    }
}

void output_free(struct output *o)
{
    output_empty(o);
    free(o->data);
}

bool output_write_bytes(const char *data, size_t len, size_t *written)
{
    for (*written = 0; *written < len;) {
        ssize_t n = write(STDOUT_FILENO, data + *written, len - *written);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int why = errno;
            if (why != EPIPE)
                say_error("cannot write standard output: %s", strerror(why));
            errno = why;
            return false;
        }
        *written += (size_t)n;
    }
    return true;
}

bool output_write(struct output *o)
{
    size_t written;
    if (!output_write_bytes(o->data, o->len, &written))
        return false;
    output_empty(o);
    return true;
}

static bool same_open_file(int a, int b)
{
    struct stat one, other;
    return fstat(a, &one) == 0 && fstat(b, &other) == 0 && S_ISREG(one.st_mode) &&
           disk_same_file(&one, &other);
}

bool output_is_apart(int fd, const char *name, struct err *err)
{
    return fd < 0 || !same_open_file(fd, STDOUT_FILENO) ||
           fail(err, "'%s' is also standard output", name);
}

bool output_is_none_of(char *const *path, size_t n, struct err *err)
{
    struct stat one, other;
    bool prints = fstat(STDOUT_FILENO, &other) == 0 && S_ISREG(other.st_mode);
    for (size_t i = 0; prints && i < n; i++)
        if (stat(path[i], &one) == 0 && disk_same_file(&one, &other))
            return fail(err, "'%s' is also standard output", path[i]);
    return true;
}

bool output_spares(int fd, const char *name, struct err *err)
{
    if (!same_open_file(fd, STDERR_FILENO))
        return output_is_apart(fd, name, err);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDERR_FILENO);
        close(null);
    }
    return fail(err, "'%s' is also standard error", name);
}

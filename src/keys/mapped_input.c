#include "keys/mapped_input.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mapped.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* since Linux 5.14; older kernels refuse it, then files are read */
#endif

enum {
    /* On a page fault, Linux maps this many bytes around the page, if they are in memory. To fault
     * in the first page of each such piece takes two thirds of the time for all pages. */
    FAULT_AROUND = 64 << 10,
    /* Or it maps the whole folio that holds the page, up to this size. */
    LARGEST_FOLIO = 2 << 20,
};

struct mapped_input {
    struct mapped file;
    _Atomic unsigned users;
    atomic_bool reported; /* an error was reported: it shrank, or could not be read */
    char name[];
};

struct mapped_input *mapped_input_open(const struct source *src, size_t size)
{
    size_t name_size = strlen(src->name) + 1;
    struct mapped_input *m = calloc(1, sizeof *m + name_size);
    if (m == NULL || !mapped_open(&m->file, src->fd, size)) {
        free(m);
        return NULL;
    }
    memcpy(m->name, src->name, name_size);
    m->users = 1;
    return m;
}

void mapped_input_leave(struct mapped_input *m)
{
    if (m == NULL || --m->users > 0)
        return;
    mapped_close(&m->file);
    free(m);
}

const char *mapped_input_name(const struct mapped_input *m)
{
    return m->name;
}

bool mapped_input_first_report(struct mapped_input *m)
{
    return !atomic_exchange(&m->reported, true);
}

bool mapped_input_sound(const struct chunk *chunk)
{
    struct mapped_input *m = chunk->mapped;
    if (m == NULL || mapped_whole(&m->file, chunk->used_to))
        return true;
    m->file.lost = true;
    return false;
}

/* Releases the memory of the chunk's part, and of what was mapped with the byte before it. A page
 * that another chunk still uses is faulted in again. */
void mapped_input_let_go(struct chunk *chunk)
{
    struct mapped_input *m = chunk->mapped;
    if (m == NULL)
        return;
    size_t begin = chunk->used_from / LARGEST_FOLIO * LARGEST_FOLIO;
    size_t end = (chunk->used_to + FAULT_AROUND - 1) / FAULT_AROUND * FAULT_AROUND;
    size_t len = m->file.len;
    madvise(m->file.data + begin, (end < len ? end : len) - begin, MADV_DONTNEED);
    mapped_input_leave(m);
    chunk->mapped = NULL;
}

/* Brings bytes [from, to) into memory, or most of them. False: an error. */
static bool populate(const struct mapped_input *m, size_t from, size_t to)
{
    for (size_t at = from / FAULT_AROUND * FAULT_AROUND; at < to; at += FAULT_AROUND)
        if (madvise(m->file.data + at, 1, MADV_POPULATE_READ) != 0)
            return false;
    return true;
}

bool mapped_input_chunk(struct mapped_input *m, const struct source *src, size_t from,
                        size_t range, bool is_first, struct chunk *chunk)
{
    const struct mapped *file = &m->file;
    size_t before = !is_first;
    size_t next = file->len - from < range ? file->len : from + range;
    if (file->lost || !populate(m, from - before, next))
        return false;

    const char *p = file->data + from, *last = file->data + next - 1;
    const char *end = file->data + file->len;
    const char *begin = p, *stop = p;
    if (before) {
        const char *t = memchr(p - 1, src->terminator, (size_t)(last - p) + 1);
        begin = t ? t + 1 : NULL;
    }
    if (begin != NULL) {
        const char *t = memchr(last, src->terminator, (size_t)(end - last));
        stop = t ? t + 1 : end;
    }
    chunk->data = begin ? begin : p;
    chunk->len = (size_t)(stop - chunk->data);
    chunk->mapped = m;
    m->users++;
    chunk->used_from = from - before;
    chunk->used_to = begin ? (size_t)(stop - file->data) : next;
    source_count(src, next - from);
    return true;
}

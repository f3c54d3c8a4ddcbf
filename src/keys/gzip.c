/* SPDX-License-Identifier: MIT */
#include "keys/gzip.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "port/port.h"

enum {
    RAW_LEN = 64 << 10, /* compressed bytes read at a time */
    TELLING = 4,        /* bytes that tell whether it is gzip */
};

bool gzip_like(const unsigned char *p, size_t n)
{
    return (n < 1 || p[0] == 0x1f) && (n < 2 || p[1] == 0x8b) && (n < 3 || p[2] == 8) &&
           (n < 4 || (p[3] & 0xe0) == 0);
}

/* Reads more compressed bytes into the buffer. */
static bool read_raw(struct gzip *g, const struct source *src, bool wait, struct err *why)
{
    z_stream *z = &g->z;
    if (z->avail_in)
        memmove(g->raw, z->next_in, z->avail_in);
    z->next_in = g->raw;
    size_t n =
        source_read(src, g->raw + z->avail_in, RAW_LEN - z->avail_in, wait, &g->raw_end, why);
    z->avail_in += (uInt)n;
    return n > 0;
}

/* Does a member begin here? Reads until there are TELLING bytes, or fewer that rule it out. */
static bool begins_member(struct gzip *g, const struct source *src, bool wait, struct err *why)
{
    z_stream *z = &g->z;
    while (z->avail_in < TELLING && gzip_like(z->next_in, z->avail_in))
        if (!read_raw(g, src, wait, why))
            return g->raw_end == SOURCE_ENDED && z->avail_in >= GZIP_MAGIC;
    return gzip_like(z->next_in, z->avail_in);
}

bool gzip_begin(struct gzip *g, const struct source *src, struct err *why)
{
    *g = (struct gzip){.raw = malloc(RAW_LEN)};
    if (g->raw == NULL)
        return false;
    g->z.next_in = g->raw;
    if (!begins_member(g, src, true, why))
        return true;
    /* 16: only the gzip format; 15: all window sizes. */
    return g->found = inflateInit2(&g->z, 16 + 15) == Z_OK;
}

void gzip_end(struct gzip *g)
{
    if (g->found)
        inflateEnd(&g->z);
    if (g->raw != NULL)
        port_wipe(g->raw, RAW_LEN); /* may hold secrets, if it was not gzip */
    free(g->raw);
    *g = (struct gzip){0};
}

static enum source_end broken(const struct source *src, const char *what, const char *detail,
                              struct err *why)
{
    fail(why, "'%s' %s%s%s", src->name, what, detail ? ": " : "", detail ? detail : "");
    return SOURCE_BROKEN;
}

/* After a member comes another one, the end, or zeroes up to the end. Returns whether a member
 * begins. If not, *end tells what follows, or is SOURCE_GOES_ON if no bytes are ready. */
static bool next_member(struct gzip *g, const struct source *src, bool wait, enum source_end *end,
                        struct err *why)
{
    z_stream *z = &g->z;
    if (!g->padding && begins_member(g, src, wait, why)) {
        inflateReset(z);
        g->between = false;
        return true;
    }
    g->padding |= z->avail_in && z->next_in[0] == 0;
    while (g->padding) {
        for (; z->avail_in && z->next_in[0] == 0; z->avail_in--)
            z->next_in++;
        if (z->avail_in || !read_raw(g, src, wait, why))
            break;
    }
    if (z->avail_in && (g->padding || !gzip_like(z->next_in, z->avail_in)))
        *end = broken(src, "has other data after its gzip data", NULL, why);
    else if (z->avail_in && g->raw_end == SOURCE_ENDED)
        *end = broken(src, "is truncated gzip data", NULL, why);
    else
        *end = g->raw_end;
    return false;
}

size_t gzip_read(struct gzip *g, const struct source *src, void *to, size_t capacity, bool wait,
                 enum source_end *end, struct err *why)
{
    z_stream *z = &g->z;
    uInt most = capacity < UINT32_MAX / 2 ? (uInt)capacity : UINT32_MAX / 2;
    z->next_out = to;
    z->avail_out = most;
    while (*end == SOURCE_GOES_ON && z->avail_out == most) {
        if (g->between && !next_member(g, src, wait, end, why))
            break;
        int status = inflate(z, Z_NO_FLUSH);
        if (status == Z_STREAM_END)
            g->between = true;
        else if (status == Z_MEM_ERROR)
            *end = broken(src, "cannot be inflated: no memory", NULL, why);
        else if (status != Z_OK && status != Z_BUF_ERROR)
            *end = broken(src, "is damaged gzip data", z->msg, why);
        else if (z->avail_out == most && !read_raw(g, src, wait, why)) {
            if (g->raw_end == SOURCE_ENDED)
                *end = broken(src, "is truncated gzip data", NULL, why);
            else
                *end = g->raw_end;
            break;
        }
    }
    return most - z->avail_out;
}

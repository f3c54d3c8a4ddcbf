/* SPDX-License-Identifier: MIT
 * Recognises by its first bytes what is not a list of keys: a filter, an archive, data compressed
 * by another program than gzip, a database. Read as keys, it would give a meaningless filter.
 *
 *     if (!content_check(name, head, n, terminator, zipped, &err)) ...
 *
 * `head` is what the input begins with; of compressed input, what it begins with when inflated.
 */
#ifndef KEYS_CONTENT_H
#define KEYS_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/err.h"

/* This many first bytes suffice. Of fewer, fewer contents are recognised. */
enum { CONTENT_HEAD = 4096 };

struct content {
    const char *magic;  /* '?' stands for any byte */
    size_t len, at;     /* of the magic number */
    const char *what;   /* "a tar archive" */
    const char *reader; /* the command that reads it, to follow a colon */
    enum {
        CONTENT_OTHER,
        CONTENT_FILTER, /* a filter of another program, or what may have one */
        CONTENT_LAYOUT, /* one that `seen import` reads */
    } is;
};

/* By its magic number. NULL: unknown. No magic number has a newline in it, and those with a NUL
 * have no text before that. */
const struct content *content_find(const void *head, size_t n);

/* Where gzip data begins among other bytes. NULL: nowhere. */
const char *content_find_gzip(const char *data, size_t n);

/* Bytes of a byte order mark of UTF-8 at its beginning. */
static inline size_t content_mark(const char *p, size_t len)
{
    return len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* Has it no control characters? Behind such text: has the end of the data several of them, and of
 * bytes above 0x7f a quarter, as compressed data? */
enum { CONTENT_TAIL = 512 };
bool content_is_text(const void *data, size_t n);
bool content_is_packed(const char data[CONTENT_TAIL]);

/* Sets *err: files were joined of which some are compressed. Returns false. */
bool content_fail_joined(const char *name, struct err *err);

/* Can it be a list of keys? If not, says what it is, and what reads it. Of lines (the terminator is
 * '\n'), text in UTF-16 and binary data are refused too. */
bool content_check(const char *name, const void *head, size_t n, char terminator, bool zipped,
                   struct err *err);

#endif

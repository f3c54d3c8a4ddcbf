/*
 * Recognises compressed data of formats other than gzip by its first bytes. Only gzip is
 * decompressed (gzip.h); other compressed data would give a filter of meaningless keys.
 */
#ifndef KEYS_COMPRESSED_H
#define KEYS_COMPRESSED_H

#include <stdbool.h>
#include <stddef.h>

struct compressed {
    const char *format;
    const char *command; /* decompresses a file to standard output */
};

/* This many first bytes suffice. None of the magic numbers contains a newline; the only NUL is the
 * last byte of that of xz. So a magic number lies in the first record and its terminator. */
enum { COMPRESSED_MAGIC = 10 };

/* NULL: data that begins with these n bytes has none of the formats known here. */
const struct compressed *compressed_find(const void *data, size_t n);

#endif

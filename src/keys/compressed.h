/*
 * Tells compressed data of other formats than gzip by its first bytes. Only gzip is decompressed
 * (gzip.h): taken as keys, the rest would make a filter that knows nothing.
 */
#ifndef KEYS_COMPRESSED_H
#define KEYS_COMPRESSED_H

#include <stdbool.h>
#include <stddef.h>

struct compressed {
    const char *format;
    const char *command; /* writes what is in a file to standard output */
};

/* This many first bytes tell. No format has a newline in its own. The one NUL, in that of xz, is
 * its last byte. So what tells is in the first record and its terminator. */
enum { COMPRESSED_MAGIC = 10 };

/* NULL: data that begins with these n bytes is in none of the formats known here. */
const struct compressed *compressed_find(const void *data, size_t n);

#endif

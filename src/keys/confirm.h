/*
 * A list of keys, sorted as `LC_ALL=C sort` sorts, in which a key is looked for by binary search:
 * for those who want to be sure about what a filter reports present.
 */
#ifndef KEYS_CONFIRM_H
#define KEYS_CONFIRM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "keys/batch.h"

struct confirm {
    const char *path;
    char *map; /* NULL when the list is empty */
    size_t len;
    char terminator;
    bool saw_cr; /* some of its first lines end in CR */
    bool crlf;   /* set it to look for a key with a CR behind it, too */
    atomic_bool unsorted; /* a search came upon lines in the wrong order */
};

/* Fails if the list cannot be mapped, is gzip data, or is seen not to be sorted where it is tried.
 * An empty list has no key. */
bool confirm_open(struct confirm *c, const char *path, char terminator, struct err *err);
void confirm_close(struct confirm *c);

/* Is the key of record i of the batch in the list? Keys are looked for as they are prepared; those
 * that are spelled in hexadecimal, as digits, in either case. Any number of threads may ask at
 * once. */
bool confirm_has(struct confirm *c, const struct batch *b, size_t i);

/* False, and says so in *err, if a search so far has found the list not to be sorted: then no
 * answer is worth anything. */
bool confirm_sound(const struct confirm *c, struct err *err);

#endif

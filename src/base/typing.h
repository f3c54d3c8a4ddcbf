/* SPDX-License-Identifier: MIT
 * Finds the word that a mistyped word was probably meant to be.
 *
 *     struct typing t = typing_begin(given, len);
 *     for (...)
 *         typing_offer(&t, word);
 *     if (t.nearest != NULL) ...
 */
#ifndef BASE_TYPING_H
#define BASE_TYPING_H

#include <stddef.h>

struct typing {
    const char *given;
    size_t len;
    size_t fewest;       /* typing errors in `given`, if `nearest` was meant */
    const char *nearest; /* NULL: none is near */
};

/* The word is the `len` bytes at `given`. */
struct typing typing_begin(const char *given, size_t len);

/* Makes `word` the nearest if it is nearer than the words before. It must outlive t. */
void typing_offer(struct typing *t, const char *word);

#endif

/*
 * Guesses the word that was meant by one with typing errors.
 *
 *     struct typing t = typing_begin(given);
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
    size_t fewest;       /* errors of nearest */
    const char *nearest; /* NULL: none is near */
};

/* The word is the `len` bytes at `given`. */
struct typing typing_begin(const char *given, size_t len);

/* Takes the word if it is nearer than those before. It must outlive t. */
void typing_offer(struct typing *t, const char *word);

#endif

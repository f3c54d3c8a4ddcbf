/*
 * Makes untrusted text, such as file names, safe for a terminal, which obeys control characters.
 * Control characters and bytes that are not UTF-8 become escapes such as \n and \x1b.
 */
#ifndef BASE_VISIBLE_H
#define BASE_VISIBLE_H

#include <stddef.h>
#include <stdio.h>

/* Buffer size for a text of that length, including the NUL. */
#define VISIBLE_ROOM(len) (4 * (size_t)(len) + 1)

/* Copies s; returns the length of the copy. */
size_t visible_copy(char *out, const char *s);

/* Prints s; returns the number of bytes. */
size_t visible_print(FILE *out, const char *s);

#endif

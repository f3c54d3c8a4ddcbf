/* SPDX-License-Identifier: MIT
 * Makes untrusted text, such as file names, safe for a terminal, which obeys control characters.
 * Control characters and bytes that are not UTF-8 become escapes such as \n and \x1b. utf8_len
 * recognizes UTF-8. SHELL_FILE and SHELL_WORD are for commands that a message proposes.
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

/* Room for a name of 255 bytes, each a quote ('\''), with "./" before it, between "$'" and "'". */
#define SHELL_ROOM (2 + 2 + 4 * 255 + 1 + 1)

/* Writes s as one word of a shell command, behind the prefix; in quotes where it needs them. The
 * word is complete once control characters are made visible: $'a\nb'. Returns the word, or
 * "(...)" for one that does not fit: half of it would be another one, and no shell runs a command
 * that has this. */
const char *visible_word(char out[static SHELL_ROOM], const char *prefix, const char *s);

/* A value, such as a key; the name of a file, which is no option. Valid to the end of the block. */
#define SHELL_WORD(s)    visible_word((char[SHELL_ROOM]){0}, "", s)
#define SHELL_FILE(name) visible_word((char[SHELL_ROOM]){0}, (name)[0] == '-' ? "./" : "", name)

/* The length (1 to 4) of the character at the start of s[0..len), len > 0. 0 if there is none: a
 * stray byte, a truncated character, an overlong form, a surrogate, above U+10FFFF (RFC 3629). */
static inline size_t utf8_len(const char *s, size_t len)
{
    const unsigned char *b = (const unsigned char *)s;
    if (b[0] < 0x80)
        return 1;
    size_t n = b[0] < 0xc2 ? 0 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : b[0] < 0xf5 ? 4 : 0;
    if (n == 0 || n > len)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((b[i] & 0xc0) != 0x80)
            return 0;
    if ((b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xed && b[1] > 0x9f) ||
        (b[0] == 0xf0 && b[1] < 0x90) || (b[0] == 0xf4 && b[1] > 0x8f))
        return 0;
    return n;
}

#endif

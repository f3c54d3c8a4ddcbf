/* SPDX-License-Identifier: MIT */
#include "base/typing.h"

#include <string.h>

enum { LONGEST = 24 }; /* words with more letters are not compared */

static size_t fewer(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Typing errors between a and b: letters that are missing, wrong, extra, or swapped with their
 * neighbour. (Optimal string alignment, three rows of its table at a time.) */
static size_t errors_between(const char *a, size_t la, const char *b, size_t lb)
{
    if (la > LONGEST || lb > LONGEST)
        return LONGEST;
    size_t rows[3][LONGEST + 1] = {{0}};
    for (size_t j = 0; j <= lb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t *row = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            row[j] = fewer(up[j - 1] + (a[i - 1] != b[j - 1]), fewer(up[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = fewer(row[j], up2[j - 2] + 1);
        }
    }
    return rows[la % 3][lb];
}

struct typing typing_begin(const char *given, size_t len)
{
    /* With more than two errors, or errors in half the letters, it is another word. */
    return (struct typing){.given = given, .len = len, .fewest = 3};
}

void typing_offer(struct typing *t, const char *word)
{
    size_t errors = errors_between(t->given, t->len, word, strlen(word));
    if (errors < t->fewest && 2 * errors < t->len) {
        t->fewest = errors;
        t->nearest = word;
    }
}

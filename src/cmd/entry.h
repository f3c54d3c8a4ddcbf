/*
 * A key that a person enters at the terminal, for --ask. It is a secret (private.h).
 *
 *     struct entry e;
 *     if (!entry_read(&e, &err)) ...
 *     ... e.key, e.len ...
 *     entry_forget(&e);
 *     entry_answer(&e, is_known);
 *     entry_close(&e);                   // after entry_read, in any case
 */
#ifndef CMD_ENTRY_H
#define CMD_ENTRY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/terminal.h"

struct entry {
    struct terminal terminal;
    char *key; /* has room for one more byte */
    size_t len;
};

bool entry_read(struct entry *e, struct err *err);

/* Overwrites the key and any traces of it on the stack. */
void entry_forget(struct entry *e);

/* Prints the answer at the terminal. */
void entry_answer(struct entry *e, bool is_known);

void entry_close(struct entry *e);

#endif

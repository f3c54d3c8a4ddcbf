/* SPDX-License-Identifier: MIT
 * What a command says about keys that are probably not those that were meant: notes, and refusals
 * where a filter would be made of them. The looks at the first records of each input are one table,
 * in advice.c. feed.h calls this module.
 *
 *     struct advice a = {.keyopt = &keyopt};
 *     for each chunk, in input order, before its keys are taken:
 *         if (!advice_look(&a, where, chunk, n)) ...      // refused, and has said why
 *     advice_end(&a);
 */
#ifndef CMD_ADVICE_H
#define CMD_ADVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/keyopt.h"
#include "keys/batch.h"
#include "keys/source.h"

struct advice {
    const struct keyopt *keyopt;
    bool makes;     /* a filter of these keys: some of the looks are refusals */
    bool questions; /* as in struct input_spec: keys may be any bytes */
    /* The rest is private. */
    unsigned said;        /* bit i: look i of the table, once a run */
    unsigned not_each;    /* of this input, a record was seen that is not so */
    size_t left;          /* bytes of this input that are still looked at */
    bool text;            /* this input begins with text */
    struct key_rule rule; /* cuts keys, but does not prepare them */
    struct batch *batch;  /* NULL: none yet */
};

/* Looks at the records of a chunk, if they are among the first of their input; `where` is its name,
 * and n of its records came before them. Prints what they look like, once a run. False: they are
 * refused. */
bool advice_look(struct advice *a, const char *where, const struct chunk *chunk, uint64_t n);

void advice_end(struct advice *a);

#endif

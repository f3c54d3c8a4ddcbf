/* SPDX-License-Identifier: MIT
 * Gives a filter its next layer, with the session's lock held, and rotates rings. chain.h decides
 * which layer comes next.
 *
 *     if (!session_lock(&s, &err)) ...
 *     advance_finish(&s, &err) && advance(&s, threads, &err);
 *     session_unlock(&s);
 */
#ifndef WRITE_ADVANCE_H
#define WRITE_ADVANCE_H

#include <stdbool.h>

#include "base/err.h"
#include "file/session.h"

/* Closes the newest layer and begins the next. A growing filter gets an empty layer. A ring empties
 * its oldest layer; call advance_finish first. Reads all bits of the newest layer with `threads`
 * threads. */
bool advance(struct session *s, unsigned threads, struct err *err);

/* Finishes an interrupted rotation, if there is one. */
bool advance_finish(struct session *s, struct err *err);

/* For `seen rotate`: both for a ring in a file. *emptied: about how many keys were forgotten. */
bool advance_rotate(const char *path, unsigned threads, double *emptied, struct err *err);

/* For tests: called after each step of a rotation, 1 to 3. */
extern void (*advance_step)(int step);

#endif

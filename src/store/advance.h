/*
 * The next layer of a filter file, under the session's lock (chain.h says which comes next).
 *
 *     if (!session_hold(&s, &filter, &err)) ...            // or session_lock
 *     advance_finish(&s, &err) && advance(&s, threads, 0, &err);
 *     session_release(&s);
 */
#ifndef STORE_ADVANCE_H
#define STORE_ADVANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/session.h"

/* Closes the newest layer and begins another. A growing filter gets a new layer for n_next keys, or
 * the usual number if that is 0. A ring, which must have no unfinished rotation, empties its oldest
 * layer. Reads all bits of the newest layer with `threads` threads. */
bool advance(struct session *s, unsigned threads, uint64_t n_next, struct err *err);

/* Finishes an interrupted rotation, if there is one. */
bool advance_finish(struct session *s, struct err *err);

/* For tests: called after each step of a rotation, 1 to 3. */
extern void (*advance_step)(int step);

#endif

/*
 * The next layer of a filter file, under the session's lock (chain.h says which comes next).
 *
 *     if (!session_hold(&s, &filter, &err)) ...            // or session_lock
 *     advance_finish(&s, &err) && advance(&s, threads, want, &err);
 *     session_release(&s);
 */
#ifndef STORE_ADVANCE_H
#define STORE_ADVANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/chain.h"
#include "store/session.h"

/* Closes the newest layer and begins another: in a growing filter the one that is wanted, empty. A
 * ring, which must have no unfinished rotation, empties its oldest layer. Reads all bits of the
 * newest layer with `threads` threads. */
bool advance(struct session *s, unsigned threads, struct next_layer want, struct err *err);

/* Finishes an interrupted rotation, if there is one. */
bool advance_finish(struct session *s, struct err *err);

/* For tests: called after each step of a rotation, 1 to 3. */
extern void (*advance_step)(int step);

#endif

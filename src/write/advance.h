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

/* What became of a ring whose clock is not believed: nothing, or it was dated anew (chain.h). */
enum advance_clock { CLOCK_BELIEVED, CLOCK_DOUBTED, CLOCK_DATED };

/* Call advance_finish first. Begins the next generation of a ring if the newest one's period has
 * ended and the clock is believed. Without a period, does nothing. */
bool advance_by_time(struct session *s, unsigned threads, enum advance_clock *clock,
                     struct err *err);

/* Of `seen rotate`. */
struct rotation {
    unsigned threads;
    bool force; /* a ring with a period: as if that had ended */
    /* Results. */
    bool early; /* the period has not ended */
    enum advance_clock clock;
    double emptied; /* about how many keys the emptied layer had */
};

/* Rotates a ring in a file. */
bool advance_rotate(const char *path, struct rotation *r, struct err *err);

/* For tests: called after each step of a rotation, 1 to 3. */
extern void (*advance_step)(int step);

#endif

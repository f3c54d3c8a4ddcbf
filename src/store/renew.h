/*
 * The rotation of a growing ring (chain.h): makes a new file of the layers that are kept and an
 * empty one, and gives it the name, with the writers of the old file locked out. They and the
 * readers go on with the new file (session.h, store_replaced). It keeps the old one's id, by which
 * writers know that no key of theirs is lost (session_is_rotated).
 */
#ifndef STORE_RENEW_H
#define STORE_RENEW_H

#include <stdbool.h>

#include "base/err.h"
#include "store/session.h"

/* Called between session_hold and session_release, which then is of the old file. *n_lost: about
 * how many keys were forgotten. */
bool renew(struct session *s, unsigned threads, double *n_lost, struct err *err);

#endif

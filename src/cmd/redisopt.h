/* SPDX-License-Identifier: MIT
 * The options for filters in Redis. They are errors where no filter is in Redis.
 *
 *     {"Filters in Redis", redisopt_write, offsetof(struct it, open), NULL}
 */
#ifndef CMD_REDISOPT_H
#define CMD_REDISOPT_H

#include <stdbool.h>

#include "cmd/keyopt.h"
#include "cmd/opt.h"
#include "store/store.h"

extern const struct opt redisopt_connect[]; /* how to connect */
extern const struct opt redisopt_write[];   /* the replicas to wait for, and how to connect */

/* Notes that very many keys come from files, to be sent to a server, and the faster way. */
void redisopt_hint_many(const struct store *s, const struct keyopt *keyopt, const char *way);

#endif

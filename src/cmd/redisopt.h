/*
 * The options for filters in Redis. They are errors where no filter is in Redis.
 *
 *     {"Filters in Redis", redisopt_query, offsetof(struct it, open), redisopt_take}
 */
#ifndef CMD_REDISOPT_H
#define CMD_REDISOPT_H

#include <stdbool.h>

#include "cmd/opt.h"
#include "store/store.h"

extern const struct opt redisopt_connect[]; /* how to connect */
extern const struct opt redisopt_query[];   /* and how keys are queried */
extern const struct opt redisopt_add[];     /* and how they are added, and replicas to wait for */
extern const struct opt redisopt_push[];    /* the replicas to wait for, and how to connect */

/* Takes one of these options into a struct open_options. */
bool redisopt_take(void *open_options, struct opt_parser *p, int id);

/* For --verbose: prints how keys were sent to a store, if there is a choice. */
void redisopt_report(struct store *s);

#endif

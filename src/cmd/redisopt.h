/*
 * The options for filters in Redis. Files take no notice of them.
 *
 *     {"Filters in Redis", redisopt_query}                   // or another of these
 *     default: return redisopt_is(id) ? redisopt_take(&p, id) : keyopt_take(&keyopt, &p, id);
 */
#ifndef CMD_REDISOPT_H
#define CMD_REDISOPT_H

#include <stdbool.h>

#include "cmd/opt.h"
#include "store/store.h"

extern const struct opt redisopt_connect[]; /* how to connect */
extern const struct opt redisopt_query[];   /* and how keys are asked */
extern const struct opt redisopt_add[];     /* and how they are added, and what is waited for */
extern const struct opt redisopt_push[];    /* the latter, and how to connect */

enum { REDISOPT_FIRST = 800 }; /* ids from here on are of these options */

static inline bool redisopt_is(int id)
{
    return id >= REDISOPT_FIRST;
}

/* Takes one of these options: stores that are opened afterwards keep to it. Reports a mistake
 * itself. */
bool redisopt_take(struct opt_parser *p, int id);

/* Says for --verbose how keys went to a store, if there is a choice. */
void redisopt_report(struct store *s);

#endif

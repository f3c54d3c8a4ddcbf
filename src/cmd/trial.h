/*
 * Measures the false-positive rate of a filter by querying keys that are not in it.
 *
 *     struct trial trial;
 *     if (!trial_random(store, &keyopt, 1000000, &trial)) ...      // and has said why
 *     trial_interval(&trial, &low, &high);
 */
#ifndef CMD_TRIAL_H
#define CMD_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/keyopt.h"
#include "store/store.h"

struct trial {
    uint64_t keys, hits;
};

/* Both functions hash keys as keyopt says. Call keyopt_adopt before them. */

/* Queries n random keys: 128 bits; or 32 hexadecimal digits if the filter's keys are text, or
 * integers if they are integers. Some 32-bit integers may have been added before. */
bool trial_random(struct store *store, const struct keyopt *keyopt, uint64_t n,
                  struct trial *trial);

/* Queries the keys of keyopt's files; `name` names them in messages. Fails if there are no keys. */
bool trial_keys(struct store *store, struct keyopt *keyopt, const char *name, struct trial *trial);

/* Wilson's 95 % interval for the rate, from `hits` in `keys`. Unlike the usual interval, it holds
 * for rates near 0, and with no hits at all. */
void trial_interval(const struct trial *trial, double *low, double *high);

#endif

/*
 * What a filter answers about keys that are not in it: for the measured false-positive rate.
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

/* Both take how keys are hashed from keyopt, after keyopt_adopt. */

/* Asks n random keys: 128 bits, 32 hexadecimal digits where keys are text, or integers where they
 * are integers. Of integers of 32 bits, some may have been added. */
bool trial_random(struct store *store, const struct keyopt *keyopt, uint64_t n,
                  struct trial *trial);

/* Asks the keys of keyopt's files; `name` names them in messages. No keys are a failure. */
bool trial_keys(struct store *store, struct keyopt *keyopt, const char *name, struct trial *trial);

/* Wilson's 95 % interval for the rate behind `hits` in `keys`: unlike the usual one it holds for
 * rates near 0, and for no hits at all. */
void trial_interval(const struct trial *trial, double *low, double *high);

#endif

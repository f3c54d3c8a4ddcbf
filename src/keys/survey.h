/* SPDX-License-Identifier: MIT
 * Estimates the numbers of records and of distinct keys in an input from samples, before it is
 * read.
 */
#ifndef KEYS_SURVEY_H
#define KEYS_SURVEY_H

#include <stdint.h>

#include "keys/input.h"

struct key_rule; /* keys/rule.h */

/* Returns the number of records in the files; 0: unknown. *n_keys is the number of distinct keys
 * among them, from the repeats among some thousands, as if each were drawn from the same keys. It
 * is too low if repeats are close together or some keys are far more frequent than others. It is
 * too high if long parts are repeated as a whole. 0: too few keys were seen. Reads 64 parts of 16
 * KiB. */
uint64_t survey(const struct input_spec *spec, const struct key_rule *rule, uint64_t *n_keys);

#endif

/* SPDX-License-Identifier: MIT
 * Estimates the numbers of records and of distinct keys in an input from samples, before it is
 * read.
 *
 *     uint64_t n = survey_records(&spec);
 *     n = survey_keys(&spec, &rule, n);
 */
#ifndef KEYS_SURVEY_H
#define KEYS_SURVEY_H

#include <stdint.h>

#include "keys/batch.h"
#include "keys/input.h"

/* Estimates the number of records in the files. 0: unknown. Reads 8 parts of 8 KiB. */
uint64_t survey_records(const struct input_spec *spec);

/* Estimates the number of distinct keys among `records` records from the repeats among some
 * thousands of them, as if each were drawn from the same keys. The estimate is too low if repeats
 * are close together or some keys are far more frequent than others. It is too high if long parts
 * are repeated as a whole. 0: too few keys were seen. Reads 64 parts of 16 KiB. */
uint64_t survey_keys(const struct input_spec *spec, const struct key_rule *rule, uint64_t records);

#endif

/*
 * How many records and distinct keys an input may bring, by looking at parts of its first file
 * before it is read.
 *
 *     uint64_t n = survey_records(&spec);
 *     n = survey_keys(&spec, &rule, n);
 */
#ifndef KEYS_SURVEY_H
#define KEYS_SURVEY_H

#include <stdint.h>

#include "keys/batch.h"
#include "keys/input.h"

/* About so many records are in the files. 0: that is not known. Takes 0.1 ms. */
uint64_t survey_records(const struct input_spec *spec);

/* About so many distinct keys are among `records` records, by the repeats among some thousands of
 * them. There are more where repeats are close together, and where some keys come far more often
 * than others; fewer where files repeat one another. Takes 1 ms. */
uint64_t survey_keys(const struct input_spec *spec, const struct key_rule *rule, uint64_t records);

#endif

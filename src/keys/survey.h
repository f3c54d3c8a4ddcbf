/*
 * How many records and distinct keys an input may bring, by looking at parts of it before it is
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

/* About so many records are in the files. 0: that is not known. Reads 8 parts of 8 KiB. */
uint64_t survey_records(const struct input_spec *spec);

/* About so many distinct keys are among `records` records, by the repeats among some thousands of
 * them, as if each were drawn from the same keys. There are more where repeats are close together,
 * and where some keys come far more often than others; fewer where long parts come again as they
 * were. 0: too little was seen. Reads 64 parts of 16 KiB. */
uint64_t survey_keys(const struct input_spec *spec, const struct key_rule *rule, uint64_t records);

#endif

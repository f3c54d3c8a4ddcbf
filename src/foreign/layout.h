/* SPDX-License-Identifier: MIT
 * The names of layouts (kind/foreign.h), and what all of them need: the parts of a spec.
 */
#ifndef FOREIGN_LAYOUT_H
#define FOREIGN_LAYOUT_H

#include "kind/foreign.h"

/* Parses a spec. Unknown names, parameters and choices fail with a list of the known ones. */
bool layout_parse(const char *text, struct layout_spec *spec, struct err *err);

/* The index of a parameter's choice; 0, the default, if not given. */
unsigned layout_choice(const struct layout_spec *spec, unsigned param);

/* Sets *out to the value of a numeric parameter, 1 to max; 0: not given. Fails for other values. */
bool layout_number(const struct layout_spec *spec, unsigned param, uint64_t max, uint64_t *out,
                   struct err *err);

/* Begins a filter of one layer: sets hash, encoding and the layer's kind. */
void layout_begin(const struct layout_spec *spec, struct layout_filter *out);

/* Sets capacity and FPR of a filter of one layer. */
void layout_set_design(struct layout_filter *filter, uint64_t n, double p);

/* Writes the spec that imports the filter again. */
void layout_show(const struct layout_filter *filter, char *spec, size_t room);

/* For layout->show: append a parameter's choice or number to a spec. */
void layout_show_choice(char *spec, size_t room, const struct layout_param *param, unsigned choice);
void layout_show_number(char *spec, size_t room, const struct layout_param *param, uint64_t n);

/* Layout number i, from 0; NULL after the last. */
const struct kind *layout_number_of(unsigned i);

/* The length of `len` bytes without the zero bytes at their end. */
uint64_t layout_trimmed(const uint8_t *bytes, uint64_t len);

#endif

/* SPDX-License-Identifier: MIT
 * The fields of a line: parts between delimiters, as 'cut' has them, or words between blanks, as
 * awk has them.
 */
#ifndef KEYS_FIELD_H
#define KEYS_FIELD_H

#include <stdbool.h>

#include "base/bytes.h"
#include "keys/rule.h"

/* Are several fields joined, so that the key is a copy? */
bool field_joins(const struct key_rule *rule);

/* Makes *key, a line, its field or fields, of which the rule names at least one. A joined key is
 * written at *to, which moves behind it. KEY_NO_FIELD: *missing is the first that the line lacks.
 * KEY_NO_VALUE: all are empty. */
enum key_verdict field_take(struct slice *key, const struct key_rule *rule, char **to,
                            int *missing);

#endif

/* SPDX-License-Identifier: MIT
 * The fields of a line: parts between delimiters, as 'cut' has them, or words between blanks, as
 * awk has them.
 *
 *     struct slice key = {line, len};                     // without the terminator
 *     char *to = malloc(2 * len + 1);                     // field_joins: room for the joined key
 *     if (field_take(&key, rule, &to, &missing) == KEY_GOOD)
 *         ... key.data[0..key.len) ...
 */
#ifndef KEYS_FIELD_H
#define KEYS_FIELD_H

#include <stdbool.h>

#include "base/bytes.h"
#include "keys/rule.h"

/* Are several fields joined, so that the key is a copy? */
bool field_joins(const struct key_rule *rule);

/* Makes *key, a line, its field or fields, of which the rule names at least one. A joined key is
 * written at *to, which moves behind it: 2 * key->len + 1 bytes at most (batch.c says why). Returns
 * KEY_GOOD; KEY_NO_FIELD: *missing is the first that the line lacks; KEY_NO_VALUE: all are empty;
 * and nothing else. */
enum key_verdict field_take(struct slice *key, const struct key_rule *rule, char **to,
                            int *missing);

#endif

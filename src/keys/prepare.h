/* SPDX-License-Identifier: MIT
 * From the key in a record to what the filter's header says of it (prep.h): trimmed, folded,
 * decoded from hexadecimal, digested.
 *
 *     const struct digest *d = digest_by_id(prep_digest(rule->prep));    // NULL: none
 *     char *copy = malloc(key.len);                                      // if prepare_copies
 *     if (prepare_key(&key, rule, copy) != KEY_GOOD) ...
 *     char *to = malloc(d->fixed + d->per_byte * key.len);               // if there is a digest
 *     if (prepare_digest(&key, rule, d, &to) != KEY_GOOD) ...
 *     ... key.data[0..key.len) is encoded (encoding.h) and hashed ...
 */
#ifndef KEYS_PREPARE_H
#define KEYS_PREPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "keys/digest.h"
#include "keys/rule.h"

/* Does prepare_key write a copy? Otherwise the key stays where it is. */
bool prepare_copies(const struct key_rule *rule);

/* Prepares a key, except for its digest and encoding. `to` has capacity for key->len bytes. */
enum key_verdict prepare_key(struct slice *key, const struct key_rule *rule, char *to);

/* Digests the prepared key, if it is not a ready digest. The digest is written at *to, which moves
 * behind it; there is capacity for d->fixed + d->per_byte * key->len bytes. */
enum key_verdict prepare_digest(struct slice *key, const struct key_rule *rule,
                                const struct digest *d, char **to);

/* How the text differs from a key in a list of keys: "has capital letters". NULL: not at all.
 * Listed keys are as batch_text returns them, or in hexadecimal digits of one case. */
const char *prepare_differs(uint32_t prep, const char *text, size_t len);

#endif

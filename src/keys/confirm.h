/* SPDX-License-Identifier: MIT
 * A list of keys, sorted as by `LC_ALL=C sort`, in which a binary search confirms the keys that a
 * filter reports present.
 *
 *     struct confirm c;
 *     if (!confirm_open(&c, path, &rule, &err)) ...
 *     ... confirm_has(&c, batch, i) ...                // from any thread
 *     if (!confirm_sound(&c, &err)) ...                // no answer can be trusted
 *     confirm_close(&c);
 */
#ifndef KEYS_CONFIRM_H
#define KEYS_CONFIRM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/disk.h"
#include "base/err.h"
#include "keys/batch.h"

struct confirm {
    const char *path;
    struct mapped list; /* not open if the list is empty */
    char terminator;
    bool crlf;            /* lines may end in a CR, which is not part of the key */
    uint32_t prep;        /* how keys are prepared */
    bool saw_cr;          /* some of its first lines end in CR */
    atomic_bool unsorted; /* a search met lines in the wrong order */
};

/* Opens a list of keys made by this rule; its lines end as records do. Fails if the list cannot be
 * mapped, is gzip data, or was removed. Also fails if samples show that it is not sorted or has
 * lines that are not prepared keys. An empty list has no keys. Must not be moved while open. */
bool confirm_open(struct confirm *c, const char *path, const struct key_rule *rule,
                  struct err *err);
void confirm_close(struct confirm *c);

/* Is the key of record i of the batch in the list? The record must have a key. Keys are looked up
 * as prepared, but not encoded (batch_text); keys given in hexadecimal, and digests, as digits of
 * either case. Any number of threads may call this. */
bool confirm_has(struct confirm *c, const struct batch *b, size_t i);

/* False, with the reason in *err, if the list was truncated or a search found it not sorted. Then
 * no answer can be trusted. */
bool confirm_sound(const struct confirm *c, struct err *err);

#endif

/*
 * A list of keys, sorted as `LC_ALL=C sort` sorts, in which a key is looked for by binary search:
 * for those who want to be sure about what a filter reports present.
 */
#ifndef KEYS_CONFIRM_H
#define KEYS_CONFIRM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/mapped.h"
#include "keys/batch.h"

struct confirm {
    const char *path;
    struct mapped list; /* not open when the list is empty */
    char terminator;
    bool crlf;     /* a line may end in a CR, which is not part of the key */
    uint32_t prep; /* how keys are prepared */
    bool saw_cr;   /* some of its first lines end in CR */
    atomic_bool unsorted; /* a search came upon lines in the wrong order */
};

/* Opens the list of keys that come by this rule: its lines end as records do. Fails if the list
 * cannot be mapped, is gzip data, or is seen, where it is tried, not to be sorted or to hold lines
 * that are no prepared keys. An empty list has no key. Must not be moved while it is open. */
bool confirm_open(struct confirm *c, const char *path, const struct key_rule *rule,
                  struct err *err);
void confirm_close(struct confirm *c);

/* Is the key of record i of the batch, which is not a bad one, in the list? Keys are looked for as
 * they are prepared; those that are spelled in hexadecimal, as digits, in either case. Any number of
 * threads may ask at once. */
bool confirm_has(struct confirm *c, const struct batch *b, size_t i);

/* False, and says so in *err, if the list has become shorter or a search so far has found it not to
 * be sorted: then no answer is worth anything. */
bool confirm_sound(const struct confirm *c, struct err *err);

#endif

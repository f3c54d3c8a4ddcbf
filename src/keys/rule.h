/* SPDX-License-Identifier: MIT
 * How the keys of a run are cut from records, prepared and hashed: the options of the command line,
 * and what the filter's header says.
 *
 *     struct key_rule rule = {.terminator = '\n', .field = {2}, .delimiter = ','};    // -d, -f 2
 *     struct batch *b = batch_new(&rule);                      // batch.h makes the keys by it
 */
#ifndef KEYS_RULE_H
#define KEYS_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys/csv.h"
#include "keys/hash.h"
#include "keys/jsonl.h"
#include "keys/profile.h"
#include "keys/reading.h"

enum {
    KEY_FIELDS = 16,
    KEY_FIELD_MAX = 1000000, /* the number of a field, from either end */
};

/* The paths of the values that make the key, in lines of JSON; n 0: the whole value, ".". */
struct key_paths {
    unsigned n;
    struct jsonl_path path[KEY_FIELDS];
};

struct key_rule {
    const struct csv *csv;         /* records are CSV; the key is what it wants; NULL: lines */
    const char *wanted;            /* the text of -f, for csv and paths; NULL: not given */
    const struct key_paths *paths; /* records are lines of JSON; NULL: other lines */
    char terminator;
    bool crlf;
    /* The fields that are joined to make the key, in this order, with a delimiter between them; no
     * number is repeated. 1 is the first field of the record, -1 the last; 0 ends the list. An
     * empty list: the whole record is the key. A record whose fields are all empty has no key. */
    int field[KEY_FIELDS + 1];
    bool rest; /* the fields after the last one of the list follow it */
    char delimiter;
    bool whitespace;  /* runs of blanks and tabs separate fields instead; a blank joins them */
    uint32_t prep;    /* prep.h */
    bool digested;    /* with a digest: records hold ready digests, in hexadecimal */
    unsigned key_len; /* with PREP_HEX: bytes of a key, other lengths are bad; 0: any length */
    bool skip_bad;
    bool comments;              /* records that begin with # have no key, and are not bad */
    const struct hash_fn *hash; /* NULL: the default function */
    bool given; /* a record is a key (-k) and a terminator; CR and field do not apply */
    struct hash_seed seed;
    struct hash_mark mark; /* with a keyed hash: the mark of the seed's key */
    bool secret;           /* keys and records are secrets: copies are overwritten after use */
    bool bytes;            /* batch_hashes returns the keys' bytes too */
    /* For the header of a filter that is made. */
    struct reading reading;
    struct profile profile; /* what is known of its keys now ... */
    bool profiled;          /* ... may be kept, and what is learned later */
};

/* What became of a record: it has a key, is none, or is bad. */
enum key_verdict {
    KEY_GOOD,
    KEY_COMMENT,
    KEY_NO_FIELD,
    KEY_NO_VALUE,
    KEY_COLUMNS,
    KEY_NO_JSON,
    KEY_NOT_HEX,
    KEY_WRONG_LEN,
    KEY_NO_DIGEST,
    KEY_NOT_DIGESTED,
    KEY_NOT_ENCODED,
};

static inline const struct hash_fn *key_rule_hash(const struct key_rule *rule)
{
    return rule->hash != NULL ? rule->hash : hash_usual();
}

#endif

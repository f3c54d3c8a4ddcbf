/*
 * From records to hashed keys. A chunk's records are cut, prepared (CR, field, trim, fold, hex; in
 * that order) and hashed a batch at a time.
 *
 *     struct batch *b = batch_new(&rule);              // one a thread, reused
 *     batch_start(b, chunk.data, chunk.len);
 *     while (batch_next(b))
 *         ... b->n records with b->hash ...
 *     if (b->bad_record) ...
 */
#ifndef KEYS_BATCH_H
#define KEYS_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/hash.h"
#include "keys/split.h"
#include "kind/kind.h"

struct key_rule {
    char terminator;
    bool crlf;
    int field; /* 0: the whole record; 1 first, -1 last */
    char delimiter;
    uint32_t prep; /* PREP_... of format.h */
    bool skip_bad;
    const struct hash_fn *hash; /* NULL: the usual one */
    bool given; /* a record is a key (-k) and a terminator: CR and field do not apply */
    uint64_t seed;
};

static inline const struct hash_fn *key_rule_hash(const struct key_rule *rule)
{
    return rule->hash != NULL ? rule->hash : hash_usual();
}

enum { BATCH_MAX = LAYER_BATCH };

struct batch {
    const struct key_rule *rule;
    size_t n;              /* records in this batch, at most BATCH_MAX */
    /* Record i is [record[i], record[i+1]), terminator included, save that the last of a file may
     * have none. Some entries beyond are where next records begin. */
    const char *record[1 + BATCH_MAX + SPLIT_SLACK];
    uint64_t hash[BATCH_MAX], hash2[BATCH_MAX]; /* hash2: of functions with two lanes */
    uint64_t bad[BATCH_MAX / 64]; /* records without a key, with skip_bad: bit i */
    size_t n_bad;                 /* of this batch */
    size_t n_before;              /* records of the chunk in earlier batches */
    /* Set, and batch_next returns false, at a record without a key when skip_bad is off; those
     * before it have come in batches, n_before counts them, and bad_reason says what is wrong:
     * "has no field 3", "not hexadecimal". */
    bool bad_record;
    struct err bad_reason;
    bool saw_cr; /* the key of some first record of the chunk ends in CR and crlf is off */
    /* The rest is private to key.c. */
    const char *at, *end; /* bytes that nothing has looked at yet */
    size_t n_found;       /* records known to begin behind record[0] */
    const char *key[BATCH_MAX];
    size_t key_len[BATCH_MAX];
    char *scratch; /* prepared copies of keys */
    size_t scratch_len;
};

/* NULL when there is no memory. The rule must outlive the batch. */
struct batch *batch_new(const struct key_rule *rule);
void batch_free(struct batch *b);

/* Begins with a chunk's bytes, which must stay until the last batch_next. */
void batch_start(struct batch *b, const char *data, size_t len);

/* The next batch of records, prepared and hashed; false at the end of the chunk or a bad record. */
bool batch_next(struct batch *b);

/* Its hashed keys. */
static inline struct hashes batch_hashes(const struct batch *b)
{
    return (struct hashes){{b->hash, b->hash2}};
}

/* Makes a batch of n records that are cut already, at most BATCH_MAX: record i is [record[i],
 * record[i + 1]), and all but the last have their terminator. False when no record has been taken:
 * n is 0, or b->bad_record is set. */
bool batch_take(struct batch *b, const char *const *record, size_t n);

/* The key of record i of the batch, prepared. Not for bad records. */
const char *batch_key(const struct batch *b, size_t i, size_t *len);

/* Why this text cannot be a prepared key, or one that is spelled in hexadecimal digits of one case:
 * "has capital letters". NULL: it can. */
const char *key_unprepared(uint32_t prep, const char *text, size_t len);

#endif

/* SPDX-License-Identifier: MIT
 * From records to hashed keys, a batch at a time. The records of a chunk are split, prepared (CR,
 * field, trim, fold, hex, digest, encoding; in that order) and hashed.
 *
 *     struct batch *b = batch_new(&rule);              // one for each thread, reused
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
#include "keys/csv.h"
#include "keys/encoding.h"
#include "keys/hash.h"
#include "keys/jsonl.h"
#include "keys/rule.h"
#include "keys/split.h"

struct profile_sample; /* keys/profile.h */

enum { BATCH_MAX = HASH_BATCH };

struct batch {
    const struct key_rule *rule;
    size_t n; /* records in this batch, at most BATCH_MAX */
    /* Record i is [record[i], record[i+1]), including its terminator; only the last record of a
     * file may lack one. Entries after record[n] hold the beginnings of later records. */
    const char *record[1 + BATCH_MAX + SPLIT_SLACK];
    /* With skip_bad or comments, bit i: record i has no key. */
    uint64_t bad[BATCH_MAX / 64];
    size_t n_before; /* records of the chunk in earlier batches */
    /* Of the chunk so far. */
    size_t n_bad;      /* bad records, without ... */
    size_t n_comments; /* ... comments, and the lines without a byte of CSV and JSON */
    size_t hex_len;    /* with PREP_HEX: the common length of the keys (batch_join_len) */
    /* With skip_bad off: a record is bad, and batch_next returns false. The records before it
     * were returned in batches; n_before counts them. bad_reason is the reason: "has no field 3",
     * "not hexadecimal", "not UTF-8". It contains no keys or digests. */
    bool bad_record;
    struct err bad_reason;
    /* With CSV and JSON, set before batch_start: is the chunk the file's first, so that it may
     * begin with a byte order mark? With CSV, also the columns; and newlines between quotes so far,
     * in whole records, or, with bad_record, before the place that bad_reason is about. */
    bool first;
    const struct csv_columns *columns;
    uint64_t newlines;
    struct profile_sample *sample; /* the caller's: takes part of the keys; NULL: none */
    /* Private to batch.c. */
    const char *start;          /* of the chunk */
    const char *at, *end;       /* bytes not split yet */
    size_t n_found;             /* records found after record[0] */
    const char *key[BATCH_MAX]; /* unset if whole records are keys */
    size_t key_len[BATCH_MAX];
    struct csv_cutter *cutter;
    int missing;                 /* the field that a record lacks */
    unsigned columns_found;      /* of a record that has not as many as others */
    const char *text[BATCH_MAX]; /* with an encoding: the prepared keys before encoding */
    size_t text_len[BATCH_MAX];
    char *scratch; /* joined fields, prepared copies of keys, and their digests or encodings */
    size_t scratch_len, scratch_used; /* used: bytes used since the last wipe */
    /* Lane l of record i is hash[l * BATCH_MAX + i]; only the function's lanes are set. */
    uint64_t hash[HASH_LANES * BATCH_MAX];
    struct key_bytes bytes[BATCH_MAX]; /* with rule->bytes; empty for bad records */
};

/* Joins the common key lengths of two groups. 0: no keys; SIZE_MAX: the lengths differ. */
static inline size_t batch_join_len(size_t a, size_t b)
{
    return a == 0 || a == b ? b : b == 0 ? a : SIZE_MAX;
}

/* NULL: out of memory. The rule must outlive the batch. */
struct batch *batch_new(const struct key_rule *rule);
void batch_free(struct batch *b); /* overwrites copies of keys, and the hashes */

/* Begins a chunk; its bytes must stay valid until the last batch_next. */
void batch_start(struct batch *b, const char *data, size_t len);

/* Call these when a chunk is done. The first frees memory that was needed for a very long record;
 * the second overwrites copies of keys, and the hashes. */
void batch_shrink(struct batch *b);
void batch_wipe(struct batch *b);

/* Prepares and hashes the next batch of records. False at the end of the chunk or at a bad record.
 */
bool batch_next(struct batch *b);

/* The hashed keys of the batch; valid until the next batch. */
static inline struct hashes batch_hashes(const struct batch *b)
{
    return (struct hashes){b->hash, BATCH_MAX, b->rule->bytes ? b->bytes : NULL};
}

/* Does the key of record i lie in the records? If not, it is valid only until the next batch. */
bool batch_key_stays(const struct batch *b, size_t i);

/* Removes records without a key from batch_hashes: moves the entries of the others to the front and
 * returns their number. */
size_t batch_keep_good(struct batch *b);

/* The prepared key of record i of the batch: what is hashed. Not for bad records. */
const char *batch_key(const struct batch *b, size_t i, size_t *len);

/* Records of the batch whose key is empty; keys that are given are not records. */
size_t batch_count_empty(const struct batch *b);

/* The text of record i's key in a list of keys: the key before encoding; for an integer, plain
 * decimal. The result may lie in plain[ENCODE_PLAIN_MAX]. Not for bad records. */
const char *batch_text(const struct batch *b, size_t i, char *plain, size_t *len);

#endif

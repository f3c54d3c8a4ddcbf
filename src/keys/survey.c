/* SPDX-License-Identifier: MIT */
#include "keys/survey.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "keys/batch.h"
#include "keys/sort.h"
#include "keys/split.h"

/* INPUT_PARTS * INPUT_PART bytes of URLs are 16 000 records. If 1e7 records are drawn from 1e6
 * keys, 128 of these 16 000 are repeats. */
enum { PART_KEYS = 1 << 9, LEAST = 1000 };

struct key_sample {
    struct batch *batch;
    uint64_t hash[INPUT_PARTS * PART_KEYS], tmp[INPUT_PARTS * PART_KEYS];
    size_t n;
    unsigned parts; /* that have keys */
    uint64_t bytes, records;
};

/* Takes the keys of whole records, up to some; returns the number of records. */
static uint64_t sample_keys(struct key_sample *k, const char *data, size_t len)
{
    size_t before = k->n;
    uint64_t records = 0;
    batch_start(k->batch, data, len);
    for (size_t room = PART_KEYS, n; batch_next(k->batch); room -= n) {
        records += k->batch->n;
        n = batch_keep_good(k->batch);
        n = n < room ? n : room;
        memcpy(k->hash + k->n, batch_hashes(k->batch).lane0, n * sizeof *k->hash);
        k->n += n;
    }
    k->parts += k->n > before;
    return records;
}

/* take() for CSV. Is the part's first byte between quotes? After a wrong guess, quotes break the
 * rule, or records have other numbers of columns. */
static void sample_csv(struct key_sample *k, const char *part, size_t len)
{
    size_t n = k->n;
    unsigned parts = k->parts;
    k->bytes += len;
    for (int guess = 0; guess < 2; guess++) {
        size_t first = 0, last = 0;
        bool inside = guess == 1;
        split_csv_ends(part, len, &inside, 0, &first, &last);
        uint64_t records = sample_keys(k, part + first, last - first);
        if (first > 0 && !k->batch->bad_record) {
            k->records += records + 1;
            return;
        }
        k->n = n;
        k->parts = parts;
    }
}

/* Counts the records of a part, and takes the keys of whole ones. */
static void take(void *ctx, const char *part, size_t len, const struct csv_columns *columns)
{
    struct key_sample *k = ctx;
    if (k->batch->rule->csv != NULL) {
        k->batch->columns = columns;
        sample_csv(k, part, len);
        return;
    }
    char terminator = k->batch->rule->terminator;
    const char *first = memchr(part, terminator, len), *last = bytes_last(part, terminator, len);
    k->bytes += len;
    for (size_t i = 0; i < len; i++)
        k->records += part[i] == terminator;
    if (first != last)
        sample_keys(k, first + 1, (size_t)(last - first));
}

/* If n records are drawn uniformly from K keys, each of their n (n - 1) / 2 pairs is a repeat with
 * a probability of 1 / K, and N records have K (1 - exp(-N / K)) distinct keys. */
static double distinct_keys(double records, size_t n, size_t n_distinct)
{
    double pairs = (double)n * ((double)n - 1) / 2, each = (double)(n - n_distinct) / pairs;
    return each > 0 ? -expm1(-records * each) / each : records;
}

uint64_t survey(const struct input_spec *spec, const struct key_rule *rule, uint64_t *n_keys)
{
    uint64_t n = 0;
    struct key_sample *k = malloc(sizeof *k);
    *n_keys = 0;
    if (k == NULL)
        return 0;
    k->n = k->parts = 0;
    k->bytes = k->records = 0;
    k->batch = batch_new(rule);
    uint64_t total = k->batch != NULL ? input_look(spec, take, k) : 0;
    if (k->bytes > 0)
        n = (uint64_t)((double)total / (double)k->bytes * (double)k->records) + 1;
    if (k->n >= LEAST && k->parts >= INPUT_PARTS / 2) {
        size_t n_distinct = distinct(k->hash, k->tmp, k->n, 64);
        *n_keys = (uint64_t)ceil(distinct_keys((double)n, k->n, n_distinct));
    }
    batch_free(k->batch);
    free(k);
    return n;
}

#include "cmd/trial.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "base/parallel.h"
#include "base/say.h"
#include "cmd/feed.h"
#include "keys/encode.h"
#include "keys/prep.h"

void trial_interval(const struct trial *trial, double *low, double *high)
{
    double n = (double)trial->keys, hits = (double)trial->hits, z2 = CENSUS_Z95 * CENSUS_Z95;
    double center = (hits + z2 / 2) / (n + z2);
    double half = CENSUS_Z95 / (n + z2) * sqrt(hits * (n - hits) / n + z2 / 4);
    *low = trial->hits == 0 ? 0 : center - half;
    *high = trial->hits == trial->keys ? 1 : center + half;
}

/* Random keys, a block of them at a time. */
struct measurement {
    struct store *store;
    const struct encoding *encoding;
    const struct key_rule *rule;
    uint64_t seed, keys;
    _Atomic uint64_t hits;
};

enum {
    BLOCK = 64 * LAYER_BATCH,
    RAW_KEY = 16,      /* bytes */
    TEXT_KEY = 33,     /* 32 digits and NUL; the longest integer is shorter */
    ENCODED_KEY = 256, /* room; trial_random checks it */
};

/* SplitMix64's step and mix: number i of the sequence that begins at seed. */
static uint64_t random_word(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Makes a random key in the form that the filter's keys have before encoding. */
static size_t random_text(const struct encoding *e, uint64_t a, uint64_t b, char *text)
{
    int len = e->integer == 0    ? snprintf(text, TEXT_KEY, "%016" PRIx64 "%016" PRIx64, a, b)
              : e->integer == 32 ? snprintf(text, TEXT_KEY, "%" PRId32, (int32_t)a)
                                 : snprintf(text, TEXT_KEY, "%" PRId64, (int64_t)a);
    return (size_t)len;
}

struct drawn {
    char text[TEXT_KEY], encoded[ENCODED_KEY];
    const char *data;
    size_t len;
};

static void draw(const struct measurement *m, uint64_t i, struct drawn *key)
{
    uint64_t a = random_word(m->seed, 2 * i), b = random_word(m->seed, 2 * i + 1);
    if (m->encoding != NULL) {
        size_t len = random_text(m->encoding, a, b, key->text);
        key->data = m->encoding->encode(key->text, len, key->encoded, &key->len);
        return;
    }
    put_le64(key->text, a);
    put_le64(key->text + 8, b);
    key->data = key->text;
    key->len = RAW_KEY;
}

static bool measure_batch(struct measurement *m, uint64_t at, size_t n, uint64_t *hits,
                          struct err *err)
{
    uint64_t hash[HASH_LANES * LAYER_BATCH], present[LAYER_BATCH / 64];
    struct drawn key[LAYER_BATCH];
    const char *data[LAYER_BATCH];
    size_t len[LAYER_BATCH];
    struct key_bytes bytes[LAYER_BATCH];
    for (size_t i = 0; i < n; i++) {
        draw(m, at + i, &key[i]);
        data[i] = key[i].data;
        len[i] = key[i].len;
        bytes[i] = (struct key_bytes){data[i], len[i]};
    }
    key_rule_hash(m->rule)->keys(data, len, n, &m->rule->seed, hash, LAYER_BATCH);
    if (!store_query(m->store, (struct hashes){hash, LAYER_BATCH, bytes}, n, present, err))
        return false;
    *hits += bits_count(present, n);
    return true;
}

static bool measure_block(void *ctx, unsigned worker, uint64_t block, struct err *err)
{
    struct measurement *m = ctx;
    uint64_t at = block * BLOCK, hits = 0;
    uint64_t end = m->keys - at < BLOCK ? m->keys : at + BLOCK;
    (void)worker;
    for (size_t n; at < end; at += n) {
        n = end - at < LAYER_BATCH ? (size_t)(end - at) : LAYER_BATCH;
        if (!measure_batch(m, at, n, &hits, err))
            return false;
    }
    m->hits += hits;
    return store_check_intact(m->store, err);
}

bool trial_random(struct store *store, const struct keyopt *keyopt, uint64_t n, struct trial *trial)
{
    struct measurement m = {.store = store,
                            .encoding = encoding_by_id(prep_encoding(keyopt->rule.prep)),
                            .rule = &keyopt->rule,
                            .keys = n};
    struct err err;
    if (m.encoding != NULL &&
        m.encoding->fixed + m.encoding->per_byte * (TEXT_KEY - 1) > ENCODED_KEY) {
        say_error("random keys of encoding %s are too long to be asked", m.encoding->name);
        return false;
    }
    if (getrandom(&m.seed, sizeof m.seed, 0) != (ssize_t)sizeof m.seed) {
        say_error("cannot get random numbers from the system");
        return false;
    }
    if (!parallel_try(keyopt->threads, n / BLOCK + (n % BLOCK != 0), measure_block, &m, &err))
        return say_failure(&err);
    *trial = (struct trial){n, m.hits};
    return true;
}

struct negatives {
    struct store *store;
    _Atomic uint64_t hits;
};

static bool ask_chunk(void *ctx, unsigned worker, const struct chunk *chunk, void *slot,
                      struct err *err)
{
    struct negatives *neg = ctx;
    struct feed_part *part = slot;
    struct batch *b;
    uint64_t hits = 0;
    (void)worker;
    (void)chunk;
    while ((b = feed_next(part)) != NULL) {
        uint64_t present[BATCH_MAX / 64];
        if (!store_query(neg->store, batch_hashes(b), b->n, present, err))
            return false;
        for (size_t w = 0; w < (b->n + 63) / 64; w++)
            present[w] &= ~b->bad[w];
        hits += bits_count(present, b->n);
    }
    if (!store_check_intact(neg->store, err))
        return false;
    neg->hits += hits;
    return true;
}

bool trial_keys(struct store *store, struct keyopt *keyopt, const char *name, struct trial *trial)
{
    struct stat st;
    bool is_file = store_stat(store, &st);
    struct negatives neg = {.store = store};
    struct feed feed = {.keyopt = keyopt,
                        .title = "asking",
                        .only_files = true,
                        .refuse = is_file ? &st : NULL,
                        .ctx = &neg,
                        .slot_size = sizeof(struct feed_part),
                        .work = ask_chunk};
    keyopt->rule.bytes = store_wants_bytes(store);
    if (!feed_run(&feed))
        return false;
    tally_report(&feed.tally);
    *trial = (struct trial){tally_keys(&feed.tally), neg.hits};
    if (trial->keys == 0)
        say_error("no keys in '%s'", name);
    return trial->keys > 0;
}

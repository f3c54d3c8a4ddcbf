/* SPDX-License-Identifier: MIT */
#include "redis/place.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "foreign/classic.h"
#include "redis/password.h"
#include "file/header.h"

/* ---- The configuration of a filter. */

char *config_key(const struct layout_redis *layout, const struct shard *s, size_t *len)
{
    char *key = malloc(s->key_len + LAYOUT_CONFIG_KEY);
    if (key != NULL)
        *len = layout->config_key(s->key, s->key_len, key);
    return key;
}

/* The fields, as words of a command. */
struct words {
    struct requests *rq; /* NULL: they are only counted */
    size_t n;
};

static void take_fact(void *ctx, const char *name, const char *value)
{
    struct words *words = ctx;
    words->n += 2;
    if (words->rq == NULL)
        return;
    requests_word(words->rq, name);
    requests_word(words->rq, value);
}

void config_write(struct requests *rq, const struct layout_filter *filter, const char *key,
                  size_t key_len)
{
    const struct layout *layout = filter->layer[0].kind->layout;
    struct words words = {0};
    layout->facts(filter, take_fact, &words);
    requests_begin(rq, 2 + words.n, "HSET");
    requests_key(rq, key, key_len);
    words.rq = rq;
    layout->facts(filter, take_fact, &words);
}

/* ---- Talking to the server. */

bool redis_refused(const struct redis *r, const struct reply *reply, struct err *err)
{
    char reason[REPLY_REASON];
    return redis_unfit(r, err, reply_reason(reply, reason));
}

bool redis_lengths(struct redis *r, struct err *err)
{
    requests_clear(&r->rq);
    for (unsigned i = 0; i < r->n_shards; i++)
        redis_command(r, &r->shard[i], 2, "STRLEN");
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    for (unsigned i = 0; i < r->n_shards; i++)
        if (!redis_length(r, &r->shard[i], r->replies[i], err))
            return false;
    return true;
}

bool redis_number(const struct redis *r, const struct reply *reply, uint64_t *out, struct err *err)
{
    if (reply->type != REPLY_INTEGER || reply->integer < 0)
        return redis_refused(r, reply, err);
    *out = (uint64_t)reply->integer;
    return true;
}

bool redis_length(struct redis *r, struct shard *s, const struct reply *reply, struct err *err)
{
    uint64_t len = 0;
    if (!redis_number(r, reply, &len, err))
        return false;
    if (len < s->len)
        return fail(err,
                    "cannot go on with '%.1000s': the bitmap was deleted or replaced by a "
                    "shorter one",
                    r->store.name);
    s->len = len;
    return true;
}

void redis_command(struct redis *r, const struct shard *s, size_t words, const char *command)
{
    requests_begin(&r->rq, words, command);
    requests_key(&r->rq, s->key, s->key_len);
}

bool redis_run(struct redis *r, enum cluster_repeat repeat, struct err *err)
{
    return cluster_run(r->cluster, &r->rq, repeat, r->replies, err);
}

bool redis_do(struct redis *r, enum cluster_repeat repeat, struct err *err)
{
    return redis_run(r, repeat, err) &&
           (r->replies[0]->type != REPLY_ERROR || redis_refused(r, r->replies[0], err));
}

/* The reply to EXEC, which is the last of n; or the first reply that is missing or an error. */
static const struct reply *result_of(struct reply *const *replies, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (replies[i] == NULL || replies[i]->type == REPLY_ERROR)
            return replies[i];
    return replies[n - 1];
}

/* The first error among the elements of an array; NULL: none. */
static const struct reply *error_in(const struct reply *array)
{
    for (size_t i = 0; i < array->n; i++)
        if (array->elements[i].type == REPLY_ERROR)
            return &array->elements[i];
    return NULL;
}

bool redis_block_result(const struct redis *r, size_t at, size_t n, size_t elements,
                        const struct reply **array, struct err *err)
{
    const struct reply *result = result_of(r->replies + at, n);
    if (result == NULL)
        return false; /* cluster_run has said why */
    if (result->type != REPLY_ARRAY || result->n != elements)
        return redis_refused(r, result, err);
    const struct reply *error = error_in(result);
    *array = result;
    return error == NULL || redis_refused(r, error, err);
}

/* ---- Shards. */

/* Room for replies, beside one for each shard, until the number of positions is known. */
enum { FIRST_REPLIES = 8 };

/* ":{", five digits, "}", NUL */
enum { SHARD_SUFFIX = 9 };

/* KEY, or KEY:{i}: the text in braces determines the slot. */
static bool name_shard(const struct redis *r, unsigned i, struct shard *s)
{
    const struct uri *uri = &r->uri;
    s->key = malloc(uri->key_len + SHARD_SUFFIX);
    if (s->key == NULL)
        return false;
    memcpy(s->key, uri->key, uri->key_len);
    s->key_len = uri->key_len;
    if (r->n_shards > 1)
        s->key_len += (size_t)snprintf(s->key + uri->key_len, SHARD_SUFFIX, ":{%u}", i);
    return true;
}

static bool name_shards(struct redis *r, struct err *err)
{
    r->n_shards = r->uri.shards;
    if (r->n_shards > 1 && memchr(r->uri.key, '{', r->uri.key_len) != NULL)
        return redis_unfit(r, err,
                           "a key with a brace cannot have shards: all of them would be in "
                           "one slot");
    r->shard = calloc(r->n_shards, sizeof *r->shard);
    r->replies = calloc(FIRST_REPLIES + (size_t)r->n_shards, sizeof *r->replies);
    bool ok = r->shard != NULL && r->replies != NULL;
    for (unsigned i = 0; ok && i < r->n_shards; i++)
        ok = name_shard(r, i, &r->shard[i]);
    return ok || fail(err, "out of memory");
}

static unsigned shard_of(const struct redis *r, struct hashes keys, size_t i)
{
    if (r->n_shards == 1)
        return 0;
    uLong crc = crc32_z(0, (const Bytef *)keys.bytes[i].data, keys.bytes[i].len);
    return (unsigned)(crc % r->n_shards);
}

void redis_place_keys(struct redis *r, struct hashes keys, size_t n)
{
    const struct layer *layer = redis_layer(r);
    layer->kind->layout->positions(layer, keys, n, r->positions);
    for (size_t u = 0; u < r->n_used; u++)
        r->shard[r->used[u]].in_batch = false;
    r->n_used = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned s = shard_of(r, keys, i);
        r->shard_of[i] = (uint16_t)s;
        if (!r->shard[s].in_batch)
            r->used[r->n_used++] = (uint16_t)s;
        r->shard[s].in_batch = true;
    }
}

/* ---- All bits. */

bool redis_count(struct redis *r, struct err *err)
{
    requests_clear(&r->rq);
    for (unsigned i = 0; i < r->n_shards; i++)
        redis_command(r, &r->shard[i], 2, "BITCOUNT");
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    for (unsigned i = 0; i < r->n_shards; i++) {
        struct shard *s = &r->shard[i];
        if (!redis_number(r, r->replies[i], &s->counted, err))
            return false;
        s->set = s->counted;
    }
    return true;
}

double redis_shard_fpr(const struct redis *r, const struct shard *s)
{
    struct census census;
    redis_layer(r)->kind->layout->census_of(redis_layer(r), s->set, &census);
    return census.fpr;
}

double redis_fpr(const struct redis *r)
{
    double sum = 0;
    for (unsigned i = 0; i < r->n_shards; i++)
        sum += redis_shard_fpr(r, &r->shard[i]);
    return sum / r->n_shards;
}

bool redis_read_chunk(struct redis *r, const struct shard *s, uint64_t at, size_t n, uint8_t *out,
                      struct err *err)
{
    requests_clear(&r->rq);
    redis_command(r, s, 4, "GETRANGE");
    requests_number(&r->rq, at);
    requests_number(&r->rq, at + n - 1);
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    const struct reply *text = r->replies[0];
    if (text->type != REPLY_STRING || text->n > n)
        return redis_refused(r, text, err);
    if (text->n > 0)
        memcpy(out, text->text, text->n);
    memset(out + text->n, 0, n - text->n);
    return true;
}

/* ---- Layout and size. */

bool redis_spec(const struct redis *r, struct layout_spec *spec, struct err *err)
{
    struct err why;
    if (r->uri.layout == NULL)
        return redis_unfit(r, err,
                           "it does not say what the filter is: give ?layout=SPEC, with SPEC "
                           "gozero:bits=M, redisson, redisbloom or php, as the program that made "
                           "it; for a filter of your own, ?layout=redisson and --create");
    if (!layout_parse(r->uri.layout, spec, &why))
        return redis_unfit(r, err, why.text);
    return spec->kind->layout->redis != NULL ||
           redis_unfit(r, err, "filters of this layout are no bitmaps in Redis");
}

/* The most commands that are sent for each shard beside a batch of keys, or without one. */
enum { BESIDE_KEYS = 3 };

static bool get_room(struct redis *r, struct err *err)
{
    assert(r->n_shards > 0 && r->k > 0);
    size_t fit = REDIS_BATCH_BITS / r->k;
    r->batch = fit < 1 ? 1 : fit < REDIS_BATCH ? fit : REDIS_BATCH;
    size_t used = r->batch < r->n_shards ? r->batch : r->n_shards;
    free(r->replies);
    r->replies = calloc(r->batch + BESIDE_KEYS * (size_t)r->n_shards, sizeof *r->replies);
    r->positions = calloc(r->batch * r->k, sizeof *r->positions);
    r->shard_of = calloc(r->batch, sizeof *r->shard_of);
    r->used = calloc(used, sizeof *r->used);
    r->witnesses = calloc((size_t)r->n_shards * r->k, sizeof *r->witnesses);
    for (unsigned i = 0; r->witnesses != NULL && i < r->n_shards; i++)
        r->shard[i].witness = r->witnesses + (size_t)i * r->k;
    return (r->witnesses != NULL && r->replies != NULL && r->positions != NULL &&
            r->shard_of != NULL && r->used != NULL) ||
           fail(err, "out of memory");
}

bool redis_config_command(struct redis *r, const struct layout_redis *redis, const struct shard *s,
                          const char *command, struct err *err)
{
    size_t len;
    char *key = config_key(redis, s, &len);
    if (key == NULL)
        return fail(err, "out of memory");
    requests_begin(&r->rq, 2, command);
    requests_key(&r->rq, key, len);
    free(key);
    return true;
}

bool redis_absent(const struct redis *r, struct err *err)
{
    return fail(err, "cannot use '%.1000s': there is no key '%.200s'", r->store.name, r->uri.key);
}

bool redis_lost(const struct redis *r, struct err *err)
{
    return fail(err,
                "cannot go on with '%.1000s': keys that were added are missing: the filter was "
                "deleted or replaced, or a failover has lost them",
                r->store.name);
}

bool redis_ask_config(struct redis *r, const struct shard *s, const struct layout_redis *layout,
                      const char **value, bool *any, struct err *err)
{
    size_t n = 0;
    *any = false;
    while (layout->fields[n] != NULL)
        value[n++] = NULL;
    char *key = malloc(s->key_len + LAYOUT_CONFIG_KEY);
    if (key == NULL)
        return fail(err, "out of memory");
    requests_clear(&r->rq);
    requests_begin(&r->rq, 2 + n, "HMGET");
    requests_key(&r->rq, key, layout->config_key(s->key, s->key_len, key));
    free(key);
    for (size_t i = 0; i < n; i++)
        requests_word(&r->rq, layout->fields[i]);
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    const struct reply *fields = r->replies[0];
    if (fields->type != REPLY_ARRAY || fields->n != n)
        return redis_refused(r, fields, err);
    for (size_t i = 0; i < n; i++)
        if (fields->elements[i].type == REPLY_STRING &&
            strlen(fields->elements[i].text) == fields->elements[i].n) {
            value[i] = fields->elements[i].text;
            *any = true;
        }
    return true;
}

/* Completes spec[*last] from the configurations of all shards, which must agree. For each shard,
 * one of the two specs is made from the other, and *last is changed to it. */
static bool configure(struct redis *r, const struct layout_redis *redis, struct layout_spec spec[2],
                      unsigned *last, struct err *err)
{
    const char *value[LAYOUT_PARAMS];
    r->configured = false;
    for (unsigned i = 0; redis->fields != NULL && i < r->n_shards; i++) {
        struct err why;
        bool any;
        if (!redis_ask_config(r, &r->shard[i], redis, value, &any, err))
            return false;
        if (i > 0 && any != r->configured)
            return redis_unfit(r, err,
                               "some of its shards have a configuration, and some have "
                               "none");
        r->configured = any;
        if (any && !redis->configure(&spec[*last], value, &spec[!*last], &why))
            return redis_unfit(r, err, why.text);
        if (any)
            *last = !*last;
    }
    return true;
}

/* If there is a configuration, the bitmap may be missing until the first key is added. */
static bool check_there(struct redis *r, struct err *err)
{
    bool any = false;
    if (r->configured)
        return true;
    requests_clear(&r->rq);
    for (unsigned i = 0; i < r->n_shards; i++)
        redis_command(r, &r->shard[i], 2, "EXISTS");
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    for (unsigned i = 0; i < r->n_shards; i++) {
        uint64_t exists;
        if (!redis_number(r, r->replies[i], &exists, err))
            return false;
        any |= exists != 0;
    }
    return any || redis_absent(r, err);
}

bool redis_settle(struct redis *r, struct err *err)
{
    struct layout_spec spec[2];
    unsigned last = 0;
    struct layout_filter filter = {0};
    struct layout_bits bits[LAYOUT_LAYERS] = {0};
    /* layout->read is given a filter without bits. */
    static const uint8_t nothing[1];
    const struct layout_foreign empty = {.name = {""}, .data = {nothing}};
    const struct key_rule rule = {0};
    struct err why;
    if (!redis_spec(r, &spec[0], err))
        return false;
    const struct layout *layout = spec[0].kind->layout;
    if (!configure(r, layout->redis, spec, &last, err) || !check_there(r, err))
        return false;
    if (!layout->read(&spec[last], &empty, &filter, bits, &why) ||
        !filter.layer[0].kind->check(&filter.layer[0], &why))
        return redis_unfit(r, err, why.text);
    header_begin_foreign(&r->header, &filter, &rule, true);
    struct shape shape = redis_layer(r)->kind->shape(redis_layer(r));
    r->m = shape.m;
    r->k = shape.k;
    return get_room(r, err);
}

/* A bitmap ends with the last byte in which a bit was set. So one that is much too short is of
 * another size than the address says, unless bitmaps of its layout stay nearly empty. */
static bool check_size(struct redis *r, const struct shard *s, struct err *err)
{
    uint64_t set;
    struct err why;
    if (r->configured || redis_layer(r)->kind->layout->sparse)
        return true;
    requests_clear(&r->rq);
    redis_command(r, s, 2, "BITCOUNT");
    return redis_run(r, CLUSTER_REPEAT, err) && redis_number(r, r->replies[0], &set, err) &&
           (classic_check_size(r->m, set, 8 * s->len, &why) || redis_unfit(r, err, why.text));
}

/* Fails if the bitmap is longer than m bits, or much shorter: it belongs to another filter. */
static bool check_end(struct redis *r, const struct shard *s, struct err *err)
{
    uint64_t bytes = (r->m + 7) / 8;
    char why[200];
    uint8_t last = 0;
    if (s->len > bytes) {
        snprintf(why, sizeof why,
                 "it is a string of %" PRIu64 " bytes, but %" PRIu64 " bits are %" PRIu64, s->len,
                 r->m, bytes);
        return redis_unfit(r, err, why);
    }
    if (s->len < bytes)
        return check_size(r, s, err);
    if (r->m % 8 == 0)
        return true;
    if (!redis_read_chunk(r, s, bytes - 1, 1, &last, err))
        return false;
    return (last & 0xff >> r->m % 8) == 0 ||
           redis_unfit(r, err, "bits are set beyond the last: the filter is larger");
}

bool redis_check(struct redis *r, struct err *err)
{
    requests_clear(&r->rq);
    for (unsigned i = 0; i < r->n_shards; i++) {
        redis_command(r, &r->shard[i], 2, "STRLEN");
        redis_command(r, &r->shard[i], 2, "BITFIELD_RO");
    }
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    r->header.file_len = 0;
    for (unsigned i = 0; i < r->n_shards; i++) {
        struct reply *const *reply = r->replies + 2 * (size_t)i;
        if (!redis_length(r, &r->shard[i], reply[0], err))
            return false;
        if (reply[1]->type != REPLY_ARRAY)
            return redis_refused(r, reply[1], err);
        r->header.file_len += r->shard[i].len;
    }
    for (unsigned i = 0; i < r->n_shards; i++)
        if (!check_end(r, &r->shard[i], err))
            return false;
    return true;
}

/* ---- Connecting. */

struct redis *redis_connect(const char *name, const struct open_options *options, struct err *err)
{
    static const struct open_options defaults;
    const struct open_options *o = options != NULL ? options : &defaults;
    struct redis *r = calloc(1, sizeof *r);
    if (r == NULL) {
        fail(err, "out of memory");
        return NULL;
    }
    r->store.name = name;
    r->store.header = &r->header;
    if (!uri_parse(name, &r->uri, err)) {
        free(r);
        return NULL;
    }
    pthread_mutex_init(&r->lock, NULL);
    if (name_shards(r, err) && password_read(o->password_file, &r->password, err)) {
        const struct cluster_options cluster = {.conn = {.password = r->password,
                                                         .connect_ms = CONN_CONNECT_MS,
                                                         .reply_ms = CONN_REPLY_MS},
                                                .patience_ms = CLUSTER_PATIENCE_MS,
                                                .replicas = o->replicas,
                                                .wait_ms = CLUSTER_WAIT_MS};
        r->cluster = cluster_open(&r->uri, &cluster, err);
    }
    if (r->cluster != NULL)
        return r;
    redis_close(r);
    return NULL;
}

void redis_close(struct redis *r)
{
    cluster_close(r->cluster);
    password_free(r->password);
    for (unsigned i = 0; r->shard != NULL && i < r->n_shards; i++)
        free(r->shard[i].key);
    free(r->shard);
    uri_free(&r->uri);
    requests_free(&r->rq);
    free(r->replies);
    free(r->positions);
    free(r->shard_of);
    free(r->used);
    free(r->witnesses);
    free(r->creation);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

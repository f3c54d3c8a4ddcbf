/* SPDX-License-Identifier: MIT */
#include "redis/place.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sig.h"
#include "redis/password.h"
#include "redis/tls.h"
#include "file/design.h"

/* ---- The configuration of a filter. */

void redis_name_configs(struct redis *r, const struct layout_redis *layout)
{
    for (unsigned i = 0; layout->fields != NULL && i < r->n_shards; i++) {
        struct shard *s = &r->shard[i];
        s->config.len = layout->config_key(s->bits.name, s->bits.len, s->config.name);
    }
}

struct config {
    struct redis *r;
    const struct redis_key *key;
};

static void write_fact(void *ctx, const char *name, const char *value)
{
    const struct config *config = ctx;
    redis_command(config->r, config->key, 4, "HSET");
    requests_word(&config->r->rq, name);
    requests_word(&config->r->rq, value);
}

void redis_write_config(struct redis *r, const struct layout_filter *filter,
                        const struct redis_key *key)
{
    struct config config = {r, key};
    filter->layer[0].kind->layout->facts(filter, write_fact, &config);
}

/* ---- Talking to the server. */

bool redis_refused(const struct redis *r, const struct reply *reply, struct err *err)
{
    char reason[REPLY_REASON];
    return redis_unfit(r, err, reply_reason(reply, reason));
}

bool redis_number(const struct redis *r, const struct reply *reply, uint64_t *out, struct err *err)
{
    if (reply->type != REPLY_INTEGER || reply->integer < 0)
        return redis_refused(r, reply, err);
    *out = (uint64_t)reply->integer;
    return true;
}

void redis_ask_lengths(struct redis *r)
{
    for (unsigned i = 0; i < r->n_shards; i++)
        if (r->shard[i].in_batch)
            redis_command(r, &r->shard[i].bits, 2, "STRLEN");
}

bool redis_take_lengths(struct redis *r, struct reply *const *replies, struct err *err)
{
    for (unsigned i = 0; i < r->n_shards; i++) {
        uint64_t len = r->shard[i].len;
        if (r->shard[i].in_batch && !redis_number(r, *replies++, &len, err))
            return false;
        if (len < r->shard[i].len)
            return fail(err,
                        "cannot go on with '%.1000s': the bitmap was deleted or replaced by a "
                        "shorter one",
                        r->store.name);
        r->shard[i].len = len;
    }
    return true;
}

bool redis_lengths(struct redis *r, struct err *err)
{
    requests_clear(&r->rq);
    redis_ask_lengths(r);
    return redis_run(r, CLUSTER_REPEAT, err) && redis_take_lengths(r, r->replies, err);
}

void redis_command(struct redis *r, const struct redis_key *key, size_t words, const char *command)
{
    requests_begin(&r->rq, words, command);
    requests_key(&r->rq, key->name, key->len);
}

bool redis_run(struct redis *r, enum cluster_repeat repeat, struct err *err)
{
    return cluster_run(r->cluster, &r->rq, repeat, &r->replies, err);
}

void redis_multi(struct redis *r)
{
    requests_clear(&r->rq);
    requests_block(&r->rq);
    requests_begin(&r->rq, 1, "MULTI");
}

void redis_multi_end(struct redis *r)
{
    requests_begin(&r->rq, 1, "EXEC");
    requests_block_end(&r->rq);
}

const struct reply *redis_executed(const struct redis *r, size_t i, struct err *err)
{
    const struct reply *result = r->replies[i];
    size_t n = r->rq.list[i].n - 2;
    const struct reply *refusal = result->type == REPLY_ARRAY && result->n == n ? NULL : result;
    for (size_t j = 0; refusal == NULL && j < n; j++)
        if (result->elements[j].type == REPLY_ERROR)
            refusal = &result->elements[j];
    if (refusal != NULL)
        redis_refused(r, refusal, err);
    return refusal == NULL ? result->elements : NULL;
}

const struct reply *redis_exec(struct redis *r, enum cluster_repeat repeat, struct err *err)
{
    redis_multi_end(r);
    return redis_run(r, repeat, err) ? redis_executed(r, 0, err) : NULL;
}

/* ---- Shards. */

/* ":{", five digits, "}", NUL */
enum { SHARD_SUFFIX = 9 };

/* Each is KEY, or KEY:{i}: the text in braces determines the slot. */
static bool name_shards(struct redis *r, struct err *err)
{
    const struct uri *uri = &r->uri;
    r->n_shards = uri->shards;
    if (r->n_shards > 1 && memchr(uri->key, '{', uri->key_len) != NULL)
        return redis_unfit(r, err,
                           "a key with a brace cannot have shards: all of them would be in "
                           "one slot");
    assert(r->n_shards > 0);
    r->shard = calloc(r->n_shards, sizeof *r->shard);
    if (r->shard == NULL)
        return fail(err, "out of memory");
    for (unsigned i = 0; i < r->n_shards; i++) {
        struct redis_key *key = &r->shard[i].bits;
        r->shard[i].in_batch = true;
        size_t room = uri->key_len + SHARD_SUFFIX;
        key->name = malloc(2 * room + LAYOUT_CONFIG_KEY);
        if (key->name == NULL)
            return fail(err, "out of memory");
        r->shard[i].config.name = key->name + room;
        memcpy(key->name, uri->key, uri->key_len);
        key->len = uri->key_len;
        if (r->n_shards > 1)
            key->len += (size_t)snprintf(key->name + key->len, SHARD_SUFFIX, ":{%u}", i);
    }
    return true;
}

/* ---- All bits. */

bool redis_count(struct redis *r, struct err *err)
{
    requests_clear(&r->rq);
    for (unsigned i = 0; i < r->n_shards; i++)
        redis_command(r, &r->shard[i].bits, 2, "BITCOUNT");
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    for (unsigned i = 0; i < r->n_shards; i++) {
        struct shard *s = &r->shard[i];
        if (!redis_number(r, r->replies[i], &s->counted, err))
            return false;
        if (s->counted < s->set)
            return redis_lost(r, err);
        s->set = s->counted;
    }
    return true;
}

void redis_count_new(struct redis *r, uint64_t n_new, double fpr)
{
    r->store.state.n_new += n_new;
    r->store.state.dropped += fpr < 1 ? (double)n_new * fpr / (1 - fpr) : 0;
}

double redis_fpr(const struct redis *r)
{
    double sum = 0;
    for (unsigned i = 0; i < r->n_shards; i++) {
        struct census census;
        classic_census_of(redis_layer(r), r->shard[i].set, &census);
        sum += census.fpr;
    }
    return sum / r->n_shards;
}

/* Bytes [at, at + n) of a shard's bitmap. */
static bool read_chunk(struct redis *r, const struct shard *s, uint64_t at, size_t n, uint8_t *out,
                       struct err *err)
{
    requests_clear(&r->rq);
    redis_command(r, &s->bits, 4, "GETRANGE");
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

bool redis_read_bits(struct redis *r, const struct shard *s, uint8_t *out, uint64_t len,
                     struct err *err)
{
    for (uint64_t at = 0; at < len; at += REDIS_CHUNK) {
        size_t n = len - at < REDIS_CHUNK ? (size_t)(len - at) : REDIS_CHUNK;
        if (sig_caught() || !read_chunk(r, s, at, n, out + at, err))
            return sig_caught() ? fail(err, "interrupted") : false;
    }
    return true;
}

/* ---- Layout and size. */

bool redis_is_bitmap(struct redis *r, struct err *err)
{
    if (r->spec.kind == NULL)
        return redis_unfit(
            r, err,
            "it does not say what the filter is: give ?layout=SPEC, with SPEC "
            "gozero:bits=M, redisson, redisbloom or php, as the program that made "
            "it; for a filter of your own, ?layout=redisson, --create and --capacity");
    const struct layout_redis *redis = r->spec.kind->layout->redis;
    if (redis == NULL)
        return redis_unfit(r, err, "filters of this layout are not bitmaps in Redis");
    redis_name_configs(r, redis);
    return true;
}

bool redis_filter(const struct layout_spec *spec, struct layout_filter *filter, struct err *why)
{
    static const uint8_t nothing[1];
    const struct layout_foreign empty = {.name = {""}, .data = {nothing}};
    struct layout_bits bits[LAYOUT_LAYERS] = {0};
    *filter = (struct layout_filter){0};
    return spec->kind->layout->read(spec, &empty, filter, bits, why);
}

static bool alloc_batch(struct redis *r, struct err *err)
{
    assert(r->n_shards > 0 && r->k > 0);
    size_t fit = REDIS_BATCH_BITS / r->k;
    r->batch = fit < 1 ? 1 : fit < REDIS_BATCH ? fit : REDIS_BATCH;
    r->positions = calloc((r->batch + r->n_shards) * r->k, sizeof *r->positions);
    r->shard_of = calloc(r->batch, sizeof *r->shard_of);
    if (r->positions == NULL || r->shard_of == NULL)
        return fail(err, "out of memory");
    for (unsigned i = 0; i < r->n_shards; i++)
        r->shard[i].witness = r->positions + (r->batch + i) * r->k;
    return true;
}

bool redis_life(struct redis *r, const struct redis_key *key, uint64_t *life, struct err *err)
{
    requests_clear(&r->rq);
    redis_command(r, key, 2, "PTTL");
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    const struct reply *left = r->replies[0];
    if (left->type != REPLY_INTEGER)
        return redis_refused(r, left, err);
    /* -1: it never expires; -2: it does not exist. Less than a millisecond is not for ever. */
    *life = left->integer > 0 ? (uint64_t)left->integer : left->integer == 0;
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
    requests_clear(&r->rq);
    redis_command(r, &s->config, 2 + n, "HMGET");
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

bool redis_configure(struct redis *r, struct layout_spec *spec, struct err *err)
{
    struct layout_spec last = r->spec;
    const struct layout_redis *redis = r->spec.kind->layout->redis;
    const char *value[LAYOUT_PARAMS];
    bool first = true;
    r->configured = false;
    for (unsigned i = 0; redis->fields != NULL && i < r->n_shards; i++) {
        struct err why;
        bool any;
        if (r->shard[i].missing)
            continue;
        if (!redis_ask_config(r, &r->shard[i], redis, value, &any, err))
            return false;
        if (!first && any != r->configured)
            return redis_unfit(r, err,
                               "some of its shards have a configuration, and some have none");
        r->configured = any;
        if (any && !redis->configure(&last, value, spec, &why))
            return redis_unfit(r, err,
                               first ? why.text
                                     : "its shards have different configurations: delete them "
                                       "and make them again");
        last = *spec;
        first = false;
    }
    return true;
}

/* A bitmap ends with the last byte in which a bit was set. So one that is much too short is of
 * another size than the address says, unless bitmaps of its layout stay nearly empty. Its length is
 * read after the bits: others may add to it. */
static bool check_size(struct redis *r, const struct shard *s, struct err *err)
{
    uint64_t set, len;
    struct err why;
    if (r->configured || redis_layer(r)->kind->layout->sparse)
        return true;
    requests_clear(&r->rq);
    redis_command(r, &s->bits, 2, "BITCOUNT");
    redis_command(r, &s->bits, 2, "STRLEN");
    return redis_run(r, CLUSTER_REPEAT, err) && redis_number(r, r->replies[0], &set, err) &&
           redis_number(r, r->replies[1], &len, err) &&
           (classic_check_size(r->m, set, 8 * len, &why) || redis_unfit(r, err, why.text));
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
    if (!read_chunk(r, s, bytes - 1, 1, &last, err))
        return false;
    return (last & 0xff >> r->m % 8) == 0 ||
           redis_unfit(r, err, "bits are set beyond the last: the filter is larger");
}

/* Has the server, since 6.0, the command that asks for bits? */
static bool check_server(struct redis *r, struct err *err)
{
    requests_clear(&r->rq);
    redis_command(r, &r->shard->bits, 2, "BITFIELD_RO");
    return redis_run(r, CLUSTER_REPEAT, err) &&
           (r->replies[0]->type == REPLY_ARRAY || redis_refused(r, r->replies[0], err));
}

bool redis_settle(struct redis *r, struct err *err)
{
    struct layout_spec spec = r->spec;
    const struct key_rule rule = {0};
    struct err why;
    uint64_t len = 0;
    if (!redis_is_bitmap(r, err) || !redis_configure(r, &spec, err) || !redis_lengths(r, err))
        return false;
    for (unsigned i = 0; i < r->n_shards; i++)
        len += r->shard[i].len;
    /* If there is a configuration, the bitmap may be missing until the first key is added. */
    if (len == 0 && !r->configured)
        return redis_absent(r, err);
    if (!redis_filter(&spec, &r->latest, &why))
        return redis_unfit(r, err, why.text);
    header_begin_foreign(&r->header, &r->latest, &rule, true);
    r->header.file_len = len;
    struct shape shape = redis_layer(r)->kind->shape(redis_layer(r));
    r->m = shape.m;
    r->k = shape.k;
    bool ok = alloc_batch(r, err) && check_server(r, err);
    for (unsigned i = 0; ok && i < r->n_shards; i++)
        ok = check_end(r, &r->shard[i], err);
    return ok;
}

/* ---- Connecting. */

static bool open_tls(struct redis *r, const struct open_options *o, struct err *err)
{
    const struct tls_files files = {o->tls_ca, o->tls_cert, o->tls_key, o->tls_name};
    if (r->uri.tls)
        return (r->tls = tls_open(&files, err)) != NULL;
    return (files.ca == NULL && files.cert == NULL && files.name == NULL) ||
           redis_unfit(r, err, "a --tls option needs rediss://");
}

/* A time limit that was given bounds retries, too. */
static struct cluster_options options_of(const struct redis *r, const struct open_options *o)
{
    unsigned limit = r->uri.timeout_ms != 0 ? r->uri.timeout_ms : o->timeout_ms;
    unsigned wait = limit != 0 && limit / 2 < CLUSTER_WAIT_MS ? limit / 2 : CLUSTER_WAIT_MS;
    return (struct cluster_options){
        .conn = {.password = r->password,
                 .tls = r->tls,
                 .connect_ms = limit != 0 ? limit : CONN_CONNECT_MS,
                 .reply_ms = limit != 0 ? limit : CONN_REPLY_MS},
        .patience_ms = limit != 0 && limit < CLUSTER_PATIENCE_MS ? limit : CLUSTER_PATIENCE_MS,
        .replicas = o->replicas,
        .wait_ms = wait != 0 ? wait : 1,
    };
}

struct redis *redis_connect(const char *name, const struct open_options *options, struct err *err)
{
    static const struct open_options defaults;
    const struct open_options *o = options != NULL ? options : &defaults;
    struct redis *r = calloc(1, sizeof *r);
    if (r == NULL) {
        fail(err, "out of memory");
        return NULL;
    }
    struct err why;
    r->store.name = name;
    r->store.ops = &redis_ops;
    r->store.header = &r->header;
    pthread_mutex_init(&r->lock, NULL);
    bool ok = uri_parse(name, &r->uri, err) &&
              (r->uri.layout == NULL || layout_parse(r->uri.layout, &r->spec, &why) ||
               redis_unfit(r, err, why.text)) &&
              (r->uri.shards == 1 || !redis_is_module(r) ||
               redis_unfit(r, err, "filters of the Bloom module have no shards")) &&
              name_shards(r, err);
    r->store.wants_bytes = r->n_shards > 1 || redis_is_module(r);
    if (ok && open_tls(r, o, err) && password_read(o->password_file, &r->password, err)) {
        const struct cluster_options cluster = options_of(r, o);
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
    tls_close(r->tls);
    password_free(r->password);
    for (unsigned i = 0; r->shard != NULL && i < r->n_shards; i++)
        free(r->shard[i].bits.name);
    free(r->shard);
    uri_free(&r->uri);
    requests_free(&r->rq);
    free(r->positions);
    free(r->shard_of);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* SPDX-License-Identifier: MIT */
/* A filter in Redis as a store (store/store.h). */
#include <stdlib.h>
#include <string.h>

#include "file/layers.h"
#include "redis/module.h"
#include "redis/place.h"
#include "redis/redis.h"
#include "write/writer.h"

static struct redis *redis_of(struct store *s)
{
    return (struct redis *)(void *)s;
}

static void describe(const struct store *s, struct facts *facts)
{
    const struct redis *r = (const struct redis *)(const void *)s;
    *facts = (struct facts){.layers = {&r->header, r->data},
                            .counters = r->header.counters,
                            .n_shards = r->n_shards,
                            .bytes = r->header.file_len,
                            .closed = r->informs};
}

static bool query(struct store *s, struct hashes keys, size_t n, uint64_t *present, struct err *err)
{
    struct redis *r = redis_of(s);
    memset(present, 0, (n + 63) / 64 * sizeof *present);
    pthread_mutex_lock(&r->lock);
    bool ok = redis_is_module(r) ? module_ask(r, keys, n, present, err)
                                 : live_ask(r, keys, n, present, err);
    pthread_mutex_unlock(&r->lock);
    return ok;
}

/* ---- All bits. */

/* Fetches and measures the bits, for kinds whose FPR does not follow from the number of bits set.
 */
static bool sample(struct redis *r, const struct shard *s, unsigned threads, struct census *formula,
                   struct census *sampled, struct err *err)
{
    size_t len = (size_t)redis_layer(r)->data_len;
    uint8_t *data[FORMAT_MAX_LAYERS] = {malloc(len)};
    if (data[0] == NULL)
        return fail(err, "out of memory");
    bool ok = redis_read_bits(r, s, data[0], len, err);
    const struct layout_bits bits = {.data = data[0], .len = len, .order = ORDER_HIGH_FIRST};
    if (ok) {
        layout_take(&bits, 0, data[0], len);
        layers_measure((struct layers){&r->header, data}, threads, formula, sampled);
    }
    free(data[0]);
    return ok;
}

/* Adds a shard's census to that of all. An absent key is equally likely to belong to any shard, so
 * rates are averaged; numbers of keys are added. The interval of the sum is as wide as if all
 * shards were at the same end of their intervals. */
static void sum_up(struct census *all, const struct census *shard, unsigned n_shards)
{
    all->fpr += shard->fpr / n_shards;
    all->bits_set += shard->bits_set / n_shards;
    all->bits += shard->bits;
    all->n += shard->n;
    all->n_low += shard->n_low;
    all->n_high += shard->n_high;
    all->n_at_least |= shard->n_at_least;
}

/* layer[0] is the average shard, with the FPR from the formula. */
static bool take_all(struct redis *r, unsigned threads, struct census *layer, struct census *all,
                     struct err *err)
{
    const struct kind *kind = redis_layer(r)->kind;
    bool ok = redis_count(r, err);
    *all = *layer = (struct census){0};
    for (unsigned i = 0; ok && i < r->n_shards; i++) {
        struct census formula, sampled;
        classic_census_of(redis_layer(r), r->shard[i].set, &formula);
        sampled = formula;
        if (kind->sampled_fpr != NULL)
            ok = sample(r, &r->shard[i], threads, &formula, &sampled, err);
        sum_up(layer, &formula, r->n_shards);
        layer->bits = formula.bits;
        sum_up(all, &sampled, r->n_shards);
    }
    ok = ok && redis_count(r, err); /* is it still there? */
    layer->n /= r->n_shards;
    layer->n_low /= r->n_shards;
    layer->n_high /= r->n_shards;
    return ok;
}

static bool take_census(struct store *s, unsigned threads, struct census *layer, struct census *all,
                        struct err *err)
{
    struct redis *r = redis_of(s);
    pthread_mutex_lock(&r->lock);
    bool ok = redis_is_module(r) ? module_census(r, threads, layer, all, err)
                                 : take_all(r, threads, layer, all, err);
    pthread_mutex_unlock(&r->lock);
    return ok;
}

/* ---- Adding. */

static bool add_begin(struct store *s, const struct add_options *options, struct err *err)
{
    struct redis *r = redis_of(s);
    r->options = *options;
    r->max_fpr = writer_limit(&r->header, options);
    r->warned = false;
    if (redis_is_module(r))
        return module_check_options(r, err);
    return writer_check(&r->header, s->name, options, err) && live_share_life(r, err) &&
           redis_count(r, err);
}

/* Warns once if the FPR, from the number of bits set, is above the limit. If the bits that this
 * process knows of say so, the bits on the server are counted. */
static bool warn(struct redis *r, struct err *err)
{
    if (r->warned || redis_fpr(r) <= writer_warn_fpr(&r->header))
        return true;
    if (!redis_count(r, err))
        return false;
    r->warned = true;
    writer_warn(&r->header, r->store.name, redis_fpr(r), r->store.state.warning);
    return true;
}

static enum add_result add(struct store *s, struct hashes keys, uint64_t *known, size_t n,
                           size_t *done, struct err *err)
{
    struct redis *r = redis_of(s);
    enum add_result result = ADD_OK;
    *done = 0;
    s->state.warning[0] = '\0';
    pthread_mutex_lock(&r->lock);
    while (result == ADD_OK && *done < n) {
        result = redis_is_module(r) ? module_add(r, keys, known, n, done, err)
                                    : live_add(r, keys, known, n, done, err);
        if (result == ADD_OK && !redis_is_module(r) && !warn(r, err))
            result = ADD_FAILED;
    }
    r->gone = result == ADD_FAILED;
    pthread_mutex_unlock(&r->lock);
    return result;
}

/* The server has all keys for which it has replied, if it still has the filter. */
static bool add_end(struct store *s, bool sync, struct err *err)
{
    struct redis *r = redis_of(s);
    (void)sync;
    pthread_mutex_lock(&r->lock);
    bool ok = r->gone || (redis_is_module(r) ? module_check(r, err) : live_check(r, err));
    pthread_mutex_unlock(&r->lock);
    return ok;
}

/* ---- Opening. */

static void close_store(struct store *s)
{
    redis_close(redis_of(s));
}

const struct store_ops redis_ops = {
    .describe = describe,
    .query = query,
    .census = take_census,
    .add_begin = add_begin,
    .add = add,
    .add_end = add_end,
    .make = redis_make,
    .close = close_store,
};

struct store *redis_open(const char *name, enum store_mode mode, const struct open_options *options,
                         struct err *err)
{
    struct open_options reading = {0};
    if (mode == STORE_READ && options != NULL) {
        reading = *options;
        reading.replicas = 0; /* nothing is written that they could acknowledge */
        options = &reading;
    }
    struct redis *r = redis_connect(name, options, err);
    if (r == NULL)
        return NULL;
    if (redis_is_module(r) ? module_open(r, NULL, err) : redis_settle(r, err))
        return &r->store;
    redis_close(r);
    return NULL;
}

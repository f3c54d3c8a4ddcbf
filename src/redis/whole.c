/* SPDX-License-Identifier: MIT */
/* Whole filters from and to Redis. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "redis/module.h"
#include "redis/place.h"
#include "redis/redis.h"
#include "redis/temporary.h"

static bool pull(struct redis *r, struct layout_filter *filter, struct layout_bits *bits,
                 struct err *err)
{
    if (redis_is_module(r))
        return module_pull(r, filter, bits, err);
    uint64_t len = r->shard->len;
    if (r->n_shards > 1)
        return redis_unfit(r, err,
                           "a filter of several shards is not one: give the key of a "
                           "shard, KEY:{0}, without shards=");
    *filter = r->latest;
    uint8_t *data = len <= SIZE_MAX ? malloc(len > 0 ? (size_t)len : 1) : NULL;
    if (data == NULL)
        return fail(err, "out of memory");
    *bits =
        (struct layout_bits){.data = data, .len = len, .order = ORDER_HIGH_FIRST, .owned = data};
    return redis_read_bits(r, r->shard, data, len, err) && redis_lengths(r, err);
}

bool redis_pull(const char *name, const struct open_options *options, struct layout_filter *filter,
                struct layout_bits *bits, struct err *err)
{
    struct store *s = redis_open(name, STORE_READ, options, err);
    bool ok = s != NULL && pull((struct redis *)(void *)s, filter, bits, err);
    store_close(s);
    return ok;
}

/* ---- Push. */

struct push {
    struct redis *r;
    const struct layout_filter *filter;
    const struct layout *layout;
    const struct store_push *options;
    const uint8_t *const *data; /* of the layers */
    struct temporary temporary;
    bool there;      /* the bitmap */
    bool configured; /* it has a configuration */
};

/* Does the filter match the layout in the address? */
static bool check_layout(const struct push *p, struct err *err)
{
    const struct redis *r = p->r;
    const struct layer *own = &p->filter->layer[0];
    struct layout_filter told;
    char text[LAYOUT_TEXT];
    struct err why;
    if (r->spec.kind == NULL)
        return true;
    bool same = r->spec.kind == own->kind;
    /* Only parameters that the address states must match. */
    if (same && redis_filter(&r->spec, &told, &why))
        same = memcmp(told.layer[0].geometry, own->geometry, sizeof own->geometry) == 0 &&
               told.seed == p->filter->seed && told.encoding == p->filter->encoding;
    layout_show(p->filter, text, sizeof text);
    return same || fail(err, "cannot use '%.1000s': the filter to be exported is of layout %s",
                        r->store.name, text);
}

static bool write_config(struct push *p, struct err *err)
{
    redis_multi(p->r);
    redis_write_config(p->r, p->filter, &p->r->shard->config);
    return redis_exec(p->r, CLUSTER_REPEAT, err) != NULL;
}

/* Does the configuration fit, if there is one? */
static bool check_config(struct push *p, struct err *err)
{
    const struct layout_redis *redis = p->layout->redis;
    const char *value[LAYOUT_PARAMS];
    struct layout_spec own, there;
    char text[LAYOUT_TEXT];
    struct err why;
    if (redis->fields == NULL)
        return true;
    if (!redis_ask_config(p->r, p->r->shard, redis, value, &p->configured, err))
        return false;
    if (!p->configured)
        return true;
    layout_show(p->filter, text, sizeof text);
    return layout_parse(text, &own, err) &&
           (redis->configure(&own, value, &there, &why) ||
            fail(err, "cannot use '%.1000s': %s", p->r->store.name, why.text));
}

/* An existing key, which will be replaced or united, must be a bitmap that is not longer. */
static bool check_there(struct push *p, struct err *err)
{
    if (!redis_lengths(p->r, err))
        return false;
    uint64_t len = p->r->shard->len, bytes = p->layout->file_len(p->filter);
    p->there = len > 0;
    return len <= bytes || fail(err,
                                "cannot use '%.1000s': what is there is a string of %" PRIu64
                                " bytes, and this filter has %" PRIu64,
                                p->r->store.name, len, bytes);
}

/* Determines how long the filter lives, in milliseconds; 0: for ever. Bitmap and configuration have
 * one life: if there is only a configuration, this decides. */
static bool find_life(struct push *p, uint64_t *life, struct err *err)
{
    const struct shard *s = p->r->shard;
    *life = p->options->expire * 1000;
    return *life != 0 ||
           redis_life(p->r, p->configured && !p->there ? &s->config : &s->bits, life, err);
}

static bool expire_config(struct push *p, uint64_t life, struct err *err)
{
    uint64_t set;
    requests_clear(&p->r->rq);
    redis_command(p->r, &p->r->shard->config, 3, "PEXPIRE");
    requests_number(&p->r->rq, life);
    return redis_run(p->r, CLUSTER_REPEAT, err) && redis_number(p->r, p->r->replies[0], &set, err);
}

/* May the filter be written, to what is there? */
static bool may_push(struct push *p, struct err *err)
{
    if (p->r->uri.shards > 1)
        return redis_unfit(p->r, err,
                           "a filter is not made for several shards: give the key of one");
    if (!check_layout(p, err))
        return false;
    if (p->layout->redis == NULL)
        return module_may_push(p->r, p->options->merge, err);
    redis_name_configs(p->r, p->layout->redis);
    return check_there(p, err) && check_config(p, err);
}

/* Writes all bytes, so that the length stays when keys are added; of a sparse layout, up to the
 * last byte that is not zero. */
static bool write_temporary(struct push *p, struct err *err)
{
    if (p->layout->redis == NULL)
        return module_write(&p->temporary, p->filter, p->data, err);
    uint64_t len = p->layout->file_len(p->filter);
    if (p->layout->sparse)
        len = layout_trimmed(p->data[0], len);
    const struct layout_bits bits = {
        .data = p->data[0], .len = len > 0 ? len : 1, .order = ORDER_HIGH_FIRST};
    return temporary_write(&p->temporary, &bits, err);
}

static bool push(struct push *p, struct err *err)
{
    uint64_t life;
    const struct redis_key *key = &p->r->shard->bits;
    bool has_config = p->layout->redis != NULL && p->layout->redis->fields != NULL;
    if (!may_push(p, err) || !temporary_name(&p->temporary, p->r, key, err))
        return false;
    /* The configuration goes first: without a bitmap it is an empty filter, but a bitmap without a
     * configuration is not a filter. */
    if (write_temporary(p, err) && find_life(p, &life, err) &&
        (!has_config || p->configured || write_config(p, err)) &&
        (p->options->merge ? temporary_unite(&p->temporary, key, life, err)
                           : temporary_rename(&p->temporary, key, life, err)) &&
        (!has_config || life == 0 || expire_config(p, life, err)))
        return true;
    temporary_drop(&p->temporary);
    return false;
}

bool redis_push(const char *name, const struct layout_filter *filter, const uint8_t *const *data,
                const struct store_push *options, struct err *err)
{
    const struct kind *kind = filter->layer[0].kind;
    struct push p = {.filter = filter, .layout = kind->layout, .options = options, .data = data};
    if (kind->layout->redis == NULL && kind->layout->reserve == NULL)
        return fail(err, "filters of layout %s are not bitmaps in Redis", kind->name);
    p.r = redis_connect(name, &options->open, err);
    if (p.r == NULL)
        return false;
    bool ok = push(&p, err);
    temporary_free(&p.temporary);
    redis_close(p.r);
    return ok;
}

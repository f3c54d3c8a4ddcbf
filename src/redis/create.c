/* SPDX-License-Identifier: MIT
 * Makes filters that do not exist yet.
 *
 * A key is made under a temporary name and then renamed if its name is free, all in one
 * transaction. So no process sees a part of it, and an existing key is never changed: a bitmap that
 * another process has just made, and added keys to, keeps its bits and its length.
 */
#include <inttypes.h>
#include <stdio.h>

#include "file/design.h"
#include "redis/module.h"
#include "redis/place.h"
#include "redis/redis.h"
#include "redis/temporary.h"

/* Does each shard have a configuration, which has its size? */
static bool has_config(const struct redis *r)
{
    return r->spec.kind->layout->redis->fields != NULL;
}

/* ---- What exists. */

/* Sets len and missing of each shard. */
static bool look(struct redis *r, bool *there, struct err *err)
{
    unsigned n_missing = 0;
    requests_clear(&r->rq);
    redis_ask_lengths(r);
    for (unsigned i = 0; has_config(r) && i < r->n_shards; i++)
        redis_command(r, &r->shard[i].config, 2, "EXISTS");
    if (!redis_run(r, CLUSTER_REPEAT, err) || !redis_take_lengths(r, r->replies, err))
        return false;
    for (unsigned i = 0; i < r->n_shards; i++) {
        struct shard *s = &r->shard[i];
        uint64_t configured = 0;
        if (has_config(r) && !redis_number(r, r->replies[r->n_shards + i], &configured, err))
            return false;
        s->missing = s->len == 0 && configured == 0;
        n_missing += s->missing;
    }
    *there = n_missing == 0;
    return true;
}

/* ---- Design. */

static bool design(struct redis *r, const struct store_plan *plan, bool there, struct err *err)
{
    struct creation *c = &r->creation;
    uint64_t n = plan->n;
    bool unknown = c->by_n && n == 0;
    const struct design wishes = {
        .layout = &r->spec,
        .n = unknown ? 1 : n / r->n_shards + (n % r->n_shards != 0),
        .p = plan->p,
        .empty = true,
    };
    struct err why;
    if (r->configured ? !redis_filter(&r->spec, &c->filter, &why)
                      : !design_layout(&wishes, 0, &c->filter, &why))
        return redis_unfit(r, err, why.text);
    if (unknown && there)
        return redis_unfit(r, err, "its size is unknown: give it in layout=, or --capacity");
    if (unknown)
        return fail(err,
                    "cannot use '%.1000s': there is no key '%.200s', and to make it the size is "
                    "needed: give --capacity, or the size in layout=",
                    r->store.name, r->uri.key);
    if (!c->by_n || redis_is_module(r) || has_config(r))
        return true;
    layout_show(&c->filter, c->layout, sizeof c->layout);
    return layout_parse(c->layout, &r->spec, err);
}

/* Do the existing bitmaps fit the size of the design? If it follows from n and p, they were made
 * with their full length. */
static bool check_lengths(const struct redis *r, struct err *err)
{
    const struct creation *c = &r->creation;
    uint64_t bytes = r->spec.kind->layout->file_len(&c->filter);
    char why[200];
    if (has_config(r))
        return true;
    for (unsigned i = 0; i < r->n_shards; i++) {
        const struct shard *s = &r->shard[i];
        if (s->missing || (c->by_n ? s->len == bytes : s->len <= bytes))
            continue;
        snprintf(why, sizeof why,
                 "what is there is a string of %" PRIu64
                 " bytes, and one of this size has %" PRIu64,
                 s->len, bytes);
        return redis_unfit(r, err, why);
    }
    return true;
}

/* For bitmaps, which may be several shards. */
static bool prepare_bitmaps(struct redis *r, const struct store_plan *plan, bool *there,
                            struct err *err)
{
    struct creation *c = &r->creation;
    if (!redis_is_bitmap(r, err) || !look(r, there, err) ||
        (!*there && !redis_configure(r, &r->spec, err)))
        return false;
    c->by_n = !design_fixes_size(&r->spec, 0);
    /* Without a configuration, the size of an existing bitmap is known only from its length. */
    bool designed = !*there || (c->by_n && !has_config(r));
    if (designed && (!design(r, plan, *there, err) || !check_lengths(r, err)))
        return false;
    return !*there || redis_settle(r, err);
}

static bool prepare_module(struct redis *r, const struct store_plan *plan, bool *there,
                           struct err *err)
{
    if (!module_open(r, there, err))
        return false;
    if (*there)
        return true;
    r->creation.by_n = true;
    return design(r, plan, *there, err);
}

struct store *redis_prepare(const char *name, const struct store_plan *plan,
                            const struct open_options *options, bool *there, struct err *err)
{
    struct redis *r = redis_connect(name, options, err);
    const struct key_rule rule = {0};
    if (r == NULL)
        return NULL;
    if (!(redis_is_module(r) ? prepare_module(r, plan, there, err)
                             : prepare_bitmaps(r, plan, there, err))) {
        redis_close(r);
        return NULL;
    }
    /* The header, as far as it is known before the filter is made. */
    if (!*there)
        header_begin_foreign(&r->header, &r->creation.filter, &rule, true);
    return &r->store;
}

/* ---- Making it. */

/* Makes an empty bitmap of its full length; or the configuration, to which the first key adds the
 * bitmap. */
static void fill_temporary(struct temporary *t)
{
    struct redis *r = t->r;
    const struct creation *c = &r->creation;
    const struct layer *layer = &c->filter.layer[0];
    if (has_config(r)) {
        redis_write_config(r, &c->filter, &t->key);
        return;
    }
    redis_command(r, &t->key, 4, "SETRANGE");
    requests_number(&r->rq, layout_is_sparse(layer) ? 0 : (layer->kind->shape(layer).m - 1) / 8);
    requests_bytes(&r->rq, "", 1);
}

/* Appends the commands that make one key, if it does not exist. */
static bool make_key(struct redis *r, const struct redis_key *key, struct err *err)
{
    struct temporary t = {0};
    bool named = temporary_name(&t, r, key, err);
    if (named) {
        requests_block(&r->rq);
        requests_begin(&r->rq, 1, "MULTI");
        fill_temporary(&t);
        redis_command(r, &t.key, 3, "RENAMENX");
        requests_key(&r->rq, key->name, key->len);
        redis_command(r, &t.key, 2, "UNLINK");
        redis_multi_end(r);
    }
    temporary_free(&t);
    return named;
}

/* Takes the reply to request i, which make_key has appended. */
static bool take_made(struct redis *r, size_t i, struct err *err)
{
    uint64_t renamed;
    const struct reply *results = redis_executed(r, i, err);
    /* UNLINK is the last command, RENAMENX the one before. */
    if (results == NULL || !redis_number(r, &results[r->rq.list[i].n - 4], &renamed, err))
        return false;
    r->creation.made |= renamed == 1;
    return true;
}

/* Makes the shards that are missing. */
static bool make_shards(struct redis *r, struct err *err)
{
    requests_clear(&r->rq);
    for (unsigned i = 0; i < r->n_shards; i++) {
        const struct shard *s = &r->shard[i];
        if (s->missing && !make_key(r, has_config(r) ? &s->config : &s->bits, err))
            return false;
    }
    bool ok = redis_run(r, CLUSTER_REPEAT, err);
    for (size_t i = 0; ok && i < r->rq.n; i++)
        ok = take_made(r, i, err);
    return ok;
}

static bool make_bitmaps(struct redis *r, struct err *err)
{
    if (!make_shards(r, err))
        return false;
    for (unsigned i = 0; i < r->n_shards; i++)
        r->shard[i].missing = false;
    return redis_settle(r, err) && check_lengths(r, err);
}

bool redis_make(struct store *s, char layout[LAYOUT_TEXT], struct err *err)
{
    struct redis *r = (struct redis *)(void *)s;
    struct creation *c = &r->creation;
    layout[0] = '\0';
    if (redis_is_module(r))
        return module_create(r, &c->filter, err) && module_open(r, NULL, err);
    if (!make_bitmaps(r, err))
        return false;
    if (c->made)
        snprintf(layout, LAYOUT_TEXT, "%s", c->layout);
    return true;
}

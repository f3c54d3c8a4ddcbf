/* SPDX-License-Identifier: MIT */
#include "redis/place.h"

#include <assert.h>
#include <string.h>
#include <zlib.h>

#include "base/bits.h"
#include "write/writer.h"

/* The bits on the server are counted again when this process has set this part of all bits since
 * the last count. */
static const double COUNT_STEP = 1.0 / 64;

/* Finds the positions of keys [0, n), a batch at most, and the shards that are in_batch. */
static void place_keys(struct redis *r, struct hashes keys, size_t n)
{
    const struct layer *layer = redis_layer(r);
    layer->kind->layout->positions(layer, keys, n, r->positions);
    for (unsigned i = 0; i < r->n_shards; i++)
        r->shard[i].in_batch = r->n_shards == 1;
    assert(r->n_shards == 1 || keys.bytes != NULL); /* store.wants_bytes */
    for (size_t i = 0; i < n && r->n_shards > 1; i++) {
        uLong crc = crc32_z(0, (const Bytef *)keys.bytes[i].data, keys.bytes[i].len);
        r->shard_of[i] = (uint16_t)(crc % r->n_shards);
        r->shard[r->shard_of[i]].in_batch = true;
    }
}

enum bits { GET, SET };

/* Appends a command that returns the k bits of a key, and sets them, too. */
static void send_bits(struct redis *r, const struct shard *s, const uint64_t *positions,
                      enum bits what)
{
    size_t words = what == SET ? 4 : 3;
    redis_command(r, &s->bits, 2 + words * r->k, what == SET ? "BITFIELD" : "BITFIELD_RO");
    for (unsigned j = 0; j < r->k; j++) {
        requests_word(&r->rq, what == SET ? "SET" : "GET");
        requests_word(&r->rq, "u1");
        requests_number(&r->rq, positions[j]);
        if (what == SET)
            requests_word(&r->rq, "1");
    }
}

/* Counts how many of a key's k bits are set, from the reply to send_bits. */
static bool take_bits(const struct redis *r, const struct reply *reply, unsigned *n_set,
                      struct err *err)
{
    *n_set = 0;
    if (reply->type != REPLY_ARRAY || reply->n != r->k)
        return redis_refused(r, reply, err);
    for (size_t j = 0; j < reply->n; j++) {
        const struct reply *bit = &reply->elements[j];
        if (bit->type != REPLY_INTEGER)
            return redis_refused(r, bit, err);
        *n_set += bit->integer != 0;
    }
    return true;
}

/* ---- Asking. */

/* Queries keys [at, at + n), a batch at most. The lengths are read last, so that a bitmap that was
 * deleted meanwhile is noticed. */
static bool ask_batch(struct redis *r, struct hashes keys, size_t at, size_t n, uint64_t *present,
                      struct err *err)
{
    requests_clear(&r->rq);
    place_keys(r, hashes_from(keys, at), n);
    for (size_t i = 0; i < n; i++)
        send_bits(r, &r->shard[r->shard_of[i]], r->positions + i * r->k, GET);
    redis_ask_lengths(r);
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        unsigned n_set;
        if (!take_bits(r, r->replies[i], &n_set, err))
            return false;
        if (n_set == r->k)
            bit_set(present, at + i);
    }
    return redis_take_lengths(r, r->replies + n, err);
}

bool live_ask(struct redis *r, struct hashes keys, size_t n, uint64_t *present, struct err *err)
{
    for (size_t at = 0, some; at < n; at += some) {
        some = n - at < r->batch ? n - at : r->batch;
        if (!ask_batch(r, keys, at, some, present, err))
            return false;
    }
    return true;
}

/* ---- Adding. */

/* Appends the commands that show whether a shard is still the one to which keys were added. */
static void ask_shard(struct redis *r, const struct shard *s)
{
    if (s->has_witness)
        send_bits(r, s, s->witness, GET);
    if (r->configured)
        redis_command(r, &s->config, 2, "EXISTS");
}

/* Takes their replies, the first of which is **next. */
static bool take_shard(const struct redis *r, const struct shard *s, struct reply *const **next,
                       struct err *err)
{
    unsigned n_set = r->k;
    uint64_t configured = 1;
    if ((s->has_witness && !take_bits(r, *(*next)++, &n_set, err)) ||
        (r->configured && !redis_number(r, *(*next)++, &configured, err)))
        return false;
    return (n_set == r->k && configured != 0) || redis_lost(r, err);
}

/* Appends the command that adds a key. The first key of this run in a shard is its witness. It is
 * added only once: if it is missing later, it must not come back. */
static void send_key(struct redis *r, struct shard *s, const uint64_t *positions)
{
    size_t size = r->k * sizeof *positions;
    bool again = s->has_witness && memcmp(s->witness, positions, size) == 0;
    send_bits(r, s, positions, again ? GET : SET);
    if (!s->has_witness)
        memcpy(s->witness, positions, size);
    s->has_witness = true;
}

/* Takes the replies to a batch of keys from *done on, up to the first that is refused. */
static bool take_batch(struct redis *r, uint64_t *known, size_t end, size_t *done, uint64_t *n_new,
                       struct err *err)
{
    struct reply *const *next = r->replies;
    for (size_t at = 0; *done < end; at++, ++*done) {
        unsigned n_set;
        if (bit_of(known, *done))
            continue;
        if (!take_bits(r, *next++, &n_set, err))
            return false;
        r->shard[r->shard_of[at]].set += r->k - n_set;
        if (n_set == r->k)
            bit_set(known, *done);
        *n_new += n_set != r->k;
    }
    return true;
}

/* Adds keys [*done, end), for which place_keys was called. Each key is one command, so it is
 * added atomically. The witnesses are read last: unless all are there, none of the keys counts as
 * added, since those that were known before may be new. */
static bool add_batch(struct redis *r, uint64_t *known, size_t end, size_t *done, struct err *err)
{
    struct err why;
    uint64_t n_new = 0;
    double fpr = redis_fpr(r);
    size_t begin = *done;
    requests_clear(&r->rq);
    for (size_t i = begin; i < end; i++)
        if (!bit_of(known, i))
            send_key(r, &r->shard[r->shard_of[i - begin]], r->positions + (i - begin) * r->k);
    size_t sent = r->rq.n;
    for (unsigned i = 0; i < r->n_shards; i++)
        if (r->shard[i].in_batch)
            ask_shard(r, &r->shard[i]);
    if (!redis_run(r, r->options.may_repeat ? CLUSTER_REPEAT : CLUSTER_ONCE, err))
        return false;
    bool ok = take_batch(r, known, end, done, &n_new, err), same = true;
    struct reply *const *next = r->replies + sent;
    for (unsigned i = 0; same && i < r->n_shards; i++)
        same = !r->shard[i].in_batch || take_shard(r, &r->shard[i], &next, &why);
    if (!same) {
        *done = begin;
        n_new = 0;
        *err = ok ? why : *err;
    }
    redis_count_new(r, n_new, fpr);
    return ok && same;
}

/* Makes an empty bitmap that expires in `life` milliseconds. If there is one, its bits stay. */
static bool make_bitmap(struct redis *r, const struct redis_key *key, uint64_t life,
                        struct err *err)
{
    redis_multi(r);
    redis_command(r, key, 6, "BITFIELD");
    requests_word(&r->rq, "INCRBY");
    requests_word(&r->rq, "u1");
    requests_number(&r->rq, 0);
    requests_number(&r->rq, 0);
    redis_command(r, key, 3, "PEXPIRE");
    requests_number(&r->rq, life);
    return redis_exec(r, CLUSTER_REPEAT, err) != NULL;
}

bool live_share_life(struct redis *r, struct err *err)
{
    for (unsigned i = 0; r->configured && i < r->n_shards; i++) {
        const struct shard *s = &r->shard[i];
        uint64_t life;
        if (s->len > 0)
            continue;
        if (!redis_life(r, &s->config, &life, err) ||
            (life > 0 && !make_bitmap(r, &s->bits, life, err)))
            return false;
    }
    return true;
}

bool live_check(struct redis *r, struct err *err)
{
    requests_clear(&r->rq);
    for (unsigned i = 0; i < r->n_shards; i++)
        ask_shard(r, &r->shard[i]);
    bool ok = redis_run(r, CLUSTER_REPEAT, err);
    struct reply *const *next = r->replies;
    for (unsigned i = 0; ok && i < r->n_shards; i++)
        ok = take_shard(r, &r->shard[i], &next, err);
    return ok;
}

/* A number of keys, from the first of n placed keys on, that can be added without the FPR exceeding
 * max_fpr, even if all are new. */
static size_t fitting(struct redis *r, size_t n)
{
    while (n > 0) {
        for (size_t i = 0; i < n; i++)
            r->shard[r->shard_of[i]].set += r->k;
        bool fits = redis_fpr(r) <= r->max_fpr;
        for (size_t i = 0; i < n; i++)
            r->shard[r->shard_of[i]].set -= r->k;
        if (fits)
            break;
        n /= 2;
    }
    return n;
}

/* Near max_fpr: passes over keys that are present; stops at the first key that is not. */
static enum add_result add_known(struct redis *r, struct hashes keys, uint64_t *known, size_t end,
                                 size_t *done, struct err *err)
{
    uint64_t present[REDIS_BATCH / 64] = {0};
    size_t at = *done;
    if (!live_ask(r, hashes_from(keys, at), end - at, present, err))
        return ADD_FAILED;
    for (; *done < end; ++*done) {
        if (bit_of(present, *done - at))
            bit_set(known, *done);
        else if (!bit_of(known, *done))
            return writer_refuse(&r->header, r->store.name, &r->options, err);
    }
    return ADD_OK;
}

enum add_result live_add(struct redis *r, struct hashes keys, uint64_t *known, size_t n,
                         size_t *done, struct err *err)
{
    size_t wanted = n - *done < r->batch ? n - *done : r->batch, some = wanted;
    uint64_t more = 0; /* bits set since they were counted */
    for (unsigned i = 0; i < r->n_shards; i++)
        more += r->shard[i].set - r->shard[i].counted;
    bool is_stale = (double)more > COUNT_STEP * (double)r->m * r->n_shards;
    /* The first keys may come late, and no witness shows that the filter was deleted meanwhile. */
    if ((!r->begun && !redis_lengths(r, err)) || (is_stale && !redis_count(r, err)))
        return ADD_FAILED;
    r->begun = true;
    place_keys(r, hashes_from(keys, *done), wanted);
    if (r->max_fpr < 1) {
        some = fitting(r, wanted);
        if (some < wanted && !redis_count(r, err))
            return ADD_FAILED;
        some = fitting(r, wanted);
        if (some == 0)
            return add_known(r, keys, known, *done + wanted, done, err);
    }
    return add_batch(r, known, *done + some, done, err) ? ADD_OK : ADD_FAILED;
}

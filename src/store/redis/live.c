#include "store/redis/place.h"

#include <string.h>

#include "base/bits.h"
#include "store/writer.h"

/* The bits on the server are counted again when this process has set this part of all bits since
 * the last count. */
static const double COUNT_STEP = 1.0 / 64;

/* Appends a command that returns the k bits of a key; or, if one_by_one, k commands. */
static void ask_bits(struct redis *r, const struct shard *s, const uint64_t *positions)
{
    if (!r->one_by_one)
        redis_command(r, s, 2 + 3 * (size_t)r->k, "BITFIELD_RO");
    for (unsigned j = 0; j < r->k; j++) {
        if (r->one_by_one) {
            redis_command(r, s, 3, "GETBIT");
        } else {
            requests_word(&r->rq, "GET");
            requests_word(&r->rq, "u1");
        }
        requests_number(&r->rq, positions[j]);
    }
}

/* Appends a command that sets the k bits of a key and returns their old values. */
static void set_bits(struct redis *r, const struct shard *s, const uint64_t *positions)
{
    redis_command(r, s, 2 + 4 * (size_t)r->k, "BITFIELD");
    for (unsigned j = 0; j < r->k; j++) {
        requests_word(&r->rq, "SET");
        requests_word(&r->rq, "u1");
        requests_number(&r->rq, positions[j]);
        requests_word(&r->rq, "1");
    }
}

static bool take_bit(const struct redis *r, const struct reply *bit, unsigned *n_set,
                     struct err *err)
{
    if (bit->type != REPLY_INTEGER)
        return redis_refused(r, bit, err);
    *n_set += bit->integer != 0;
    return true;
}

/* Counts how many of a key's k bits are set, from the reply to BITFIELD. */
static bool take_bits(const struct redis *r, const struct reply *reply, unsigned *n_set,
                      struct err *err)
{
    *n_set = 0;
    if (reply->type != REPLY_ARRAY || reply->n != r->k)
        return redis_refused(r, reply, err);
    for (size_t j = 0; j < reply->n; j++)
        if (!take_bit(r, &reply->elements[j], n_set, err))
            return false;
    return true;
}

/* ---- Asking. */

/* Takes the replies for a key, which begin at replies[0]. *used is their number. */
static bool take_key(const struct redis *r, struct reply *const *replies, size_t *used,
                     bool *present, struct err *err)
{
    unsigned n_set = 0;
    *used = r->one_by_one ? r->k : 1;
    if (!r->one_by_one && !take_bits(r, replies[0], &n_set, err))
        return false;
    for (size_t j = 0; r->one_by_one && j < r->k; j++)
        if (!take_bit(r, replies[j], &n_set, err))
            return false;
    *present = n_set == r->k;
    return true;
}

/* Appends STRLEN for each shard of the batch. */
static void ask_lengths(struct redis *r)
{
    for (size_t u = 0; u < r->n_used; u++)
        redis_command(r, &r->shard[r->used[u]], 2, "STRLEN");
}

/* Takes the replies to ask_lengths. Fails if one is missing. */
static bool take_lengths(struct redis *r, struct reply *const *replies, struct err *err)
{
    for (size_t u = 0; u < r->n_used; u++)
        if (replies[u] == NULL || !redis_length(r, &r->shard[r->used[u]], replies[u], err))
            return false;
    return true;
}

/* Queries keys [at, at + n), a batch at most. The lengths are read last, so that a bitmap that was
 * deleted meanwhile is noticed. */
static bool ask_batch(struct redis *r, struct hashes keys, size_t at, size_t n, uint64_t *present,
                      struct err *err)
{
    size_t next = 0, used;
    requests_clear(&r->rq);
    redis_place_keys(r, hashes_from(keys, at), n);
    for (size_t i = 0; i < n; i++)
        ask_bits(r, &r->shard[r->shard_of[i]], r->positions + i * r->k);
    ask_lengths(r);
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    for (size_t i = at; i < at + n; i++, next += used) {
        bool is_in;
        if (!take_key(r, r->replies + next, &used, &is_in, err))
            return false;
        if (is_in)
            bit_set(present, i);
    }
    return take_lengths(r, r->replies + next, err);
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

/* Takes the reply for key i. */
static bool take_added(struct redis *r, struct shard *s, const struct reply *reply, uint64_t *known,
                       size_t i, struct err *err)
{
    struct add_state *state = &r->store.state;
    unsigned n_set;
    if (!take_bits(r, reply, &n_set, err))
        return false;
    if (n_set == r->k) {
        bit_set(known, i);
        return true;
    }
    s->set += r->k - n_set;
    state->n_new++;
    state->dropped += s->fpr < 1 ? s->fpr / (1 - s->fpr) : 0;
    return true;
}

/* Sets `first` of the batch's shards. n: none of the n placed keys is sent to it. Bit `at` of known
 * is that of the first key. */
static void find_first(struct redis *r, const uint64_t *known, size_t at, size_t n)
{
    for (size_t u = 0; u < r->n_used; u++)
        r->shard[r->used[u]].first = n;
    for (size_t i = n; i-- > 0;)
        if (!bit_of(known, at + i))
            r->shard[r->shard_of[i]].first = i;
}

static void ask_again(struct redis *r, const struct shard *s, const uint64_t *positions)
{
    redis_command(r, s, 2 + 3 * (size_t)r->k, "BITFIELD");
    for (unsigned j = 0; j < r->k; j++) {
        requests_word(&r->rq, "GET");
        requests_word(&r->rq, "u1");
        requests_number(&r->rq, positions[j]);
    }
}

/* Asks behind a batch, for each of its shards, whether the witness and the batch's first key are
 * there, and the configuration. So it is noticed if another client deletes a bitmap at any time,
 * even if the batch makes it anew. */
static bool ask_witnesses(struct redis *r, const uint64_t *known, size_t at, size_t n,
                          struct err *err)
{
    find_first(r, known, at, n);
    for (size_t u = 0; u < r->n_used; u++) {
        const struct shard *s = &r->shard[r->used[u]];
        if (s->has_witness)
            ask_again(r, s, s->witness);
        if (s->first < n)
            ask_again(r, s, r->positions + s->first * r->k);
        if (r->configured && !redis_config_exists(r, redis_layer(r)->kind->layout->redis, s, err))
            return false;
    }
    return true;
}

/* Takes the reply to ask_again. */
static bool take_again(const struct redis *r, const struct reply *reply, struct err *err)
{
    unsigned n_set;
    return reply != NULL && take_bits(r, reply, &n_set, err) &&
           (n_set == r->k || redis_lost(r, err));
}

/* Takes the replies to ask_witnesses. The first key of the batch is the next witness. */
static bool take_witnesses(struct redis *r, struct reply *const *next, size_t n, struct err *err)
{
    for (size_t u = 0; u < r->n_used; u++) {
        struct shard *s = &r->shard[r->used[u]];
        uint64_t there;
        if (s->has_witness && !take_again(r, *next++, err))
            return false;
        if (s->first < n && !take_again(r, *next++, err))
            return false;
        if (s->first < n)
            memcpy(s->witness, r->positions + s->first * r->k, r->k * sizeof *s->witness);
        if (r->configured && (*next == NULL || !redis_number(r, *next++, &there, err)))
            return false;
        if (r->configured && there == 0)
            return redis_lost(r, err);
        s->has_witness |= s->first < n;
    }
    return true;
}

/* Takes the replies to a batch of keys from *done on, up to the first missing reply; true if none
 * is missing. The lengths that were read before the keys come first: if a bitmap has become
 * shorter, the keys went into another bitmap. */
static bool take_batch(struct redis *r, uint64_t *known, size_t end, size_t *done, struct err *err)
{
    struct reply *const *next = r->replies + r->n_used;
    const size_t begin = *done;
    if (!take_lengths(r, r->replies, err))
        return false;
    for (; *done < end; ++*done) {
        if (bit_of(known, *done))
            continue;
        struct shard *s = &r->shard[r->shard_of[*done - begin]];
        const struct reply *reply = *next++;
        if (reply == NULL || !take_added(r, s, reply, known, *done, err))
            return false;
    }
    return take_lengths(r, next, err) && take_witnesses(r, next + r->n_used, end - begin, err);
}

/* Adds keys [*done, end), for which redis_place_keys was called. Each key is one command, so that
 * it is added atomically. */
static bool add_batch(struct redis *r, uint64_t *known, size_t end, size_t *done, struct err *err)
{
    struct err why;
    requests_clear(&r->rq);
    for (size_t u = 0; u < r->n_used; u++) {
        struct shard *s = &r->shard[r->used[u]];
        s->fpr = redis_shard_fpr(r, s->set);
    }
    ask_lengths(r);
    for (size_t i = *done; i < end; i++)
        if (!bit_of(known, i))
            set_bits(r, &r->shard[r->shard_of[i - *done]], r->positions + (i - *done) * r->k);
    ask_lengths(r);
    if (!ask_witnesses(r, known, *done, end - *done, err))
        return false;
    enum cluster_repeat repeat = r->options.may_repeat ? CLUSTER_REPEAT : CLUSTER_ONCE;
    bool ran = redis_run(r, repeat, &why);
    *err = why;
    return take_batch(r, known, end, done, err) && ran;
}

/* A number of keys, from the first of n placed keys on, that can be added without the FPR exceeding
 * max_fpr, even if all are new. */
static size_t fitting(struct redis *r, size_t n)
{
    while (n > 0) {
        for (size_t i = 0; i < n; i++)
            r->shard[r->shard_of[i]].set += r->k;
        bool fits = redis_fpr(r) <= r->options.max_fpr;
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
            return writer_refuse(r->store.name, r->options.max_fpr, err);
    }
    return ADD_OK;
}

/* Have so many bits been set that they must be counted again? */
static bool is_stale(const struct redis *r)
{
    uint64_t more = 0;
    for (unsigned i = 0; i < r->n_shards; i++)
        more += r->shard[i].set - r->shard[i].counted;
    return (double)more > COUNT_STEP * (double)r->m * r->n_shards;
}

enum add_result live_add(struct redis *r, struct hashes keys, uint64_t *known, size_t n,
                         size_t *done, struct err *err)
{
    size_t wanted = n - *done < r->batch ? n - *done : r->batch, some = wanted;
    if (is_stale(r) && !redis_count(r, err))
        return ADD_FAILED;
    redis_place_keys(r, hashes_from(keys, *done), wanted);
    if (r->options.max_fpr > 0) {
        some = fitting(r, wanted);
        if (some < wanted && !redis_count(r, err))
            return ADD_FAILED;
        some = fitting(r, wanted);
        if (some == 0)
            return add_known(r, keys, known, *done + wanted, done, err);
    }
    if (some < wanted)
        redis_place_keys(r, hashes_from(keys, *done), some);
    return add_batch(r, known, *done + some, done, err) ? ADD_OK : ADD_FAILED;
}

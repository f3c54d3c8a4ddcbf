/* SPDX-License-Identifier: MIT */
#include "redis/temporary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port/port.h"
#include "base/bytes.h"
#include "base/num.h"
#include "base/sig.h"
#include "redis/messages.h"

enum {
    /* "{", "}:seen-tmp:", 16 digits, ":", 8 digits */
    NAME_ROOM = 40,
    /* One name in 16384 is in the wanted slot. The chance that none of TRIES names is: e^-64. */
    TRIES = 64 * SLOTS,
};

/* The name has the other key as hash tag if possible; otherwise it is found by trying. */
bool temporary_name(struct temporary *t, struct redis *r, const struct shard *s, struct err *err)
{
    unsigned slot = slot_of(s->key, s->key_len);
    uint64_t number;
    if (!port_random(&number, sizeof number))
        return fail_errno(err, "cannot get random numbers from the system");
    t->r = r;
    t->key = malloc(s->key_len + NAME_ROOM);
    if (t->key == NULL)
        return fail(err, "out of memory");
    for (unsigned try = 0; try < TRIES; try++) {
        bool tagged = try == 0 && memchr(s->key, '{', s->key_len) == NULL;
        char *at = t->key;
        if (tagged)
            *at++ = '{';
        memcpy(at, s->key, s->key_len);
        at += s->key_len;
        at += snprintf(at, NAME_ROOM - 1, "%s:seen-tmp:%016" PRIx64 ":%x", tagged ? "}" : "",
                       number, try);
        t->key_len = (size_t)(at - t->key);
        if (slot_of(t->key, t->key_len) == slot)
            return true;
    }
    return redis_unfit(r, err, "no other key is of the same slot");
}

void temporary_free(struct temporary *t)
{
    free(t->key);
    t->key = NULL;
}

void temporary_command(struct temporary *t, size_t words, const char *command)
{
    requests_begin(&t->r->rq, words, command);
    requests_key(&t->r->rq, t->key, t->key_len);
}

/* MULTI, two commands, EXEC. */
enum { BLOCK = 4 };

void temporary_begin(struct temporary *t)
{
    requests_clear(&t->r->rq);
    requests_block(&t->r->rq, BLOCK);
    requests_begin(&t->r->rq, 1, "MULTI");
}

bool temporary_end(struct temporary *t, enum cluster_repeat repeat, struct err *err)
{
    struct redis *r = t->r;
    const struct reply *ignored;
    temporary_command(t, 3, "PEXPIRE");
    requests_number(&r->rq, TEMPORARY_MS);
    requests_begin(&r->rq, 1, "EXEC");
    return redis_run(r, repeat, err) && redis_block_result(r, 0, BLOCK, 2, &ignored, err);
}

static bool write_chunk(struct temporary *t, const struct layout_bits *bits, uint64_t at,
                        uint8_t *chunk, struct err *err)
{
    struct redis *r = t->r;
    size_t n = bits->len - at < REDIS_CHUNK ? (size_t)(bits->len - at) : REDIS_CHUNK;
    if (bytes_zero((const uint8_t *)bits->data + at, n) && at + n < bits->len)
        return true;
    layout_take(bits, at, chunk, n);
    temporary_begin(t);
    temporary_command(t, 4, "SETRANGE");
    requests_number(&r->rq, at);
    requests_bytes(&r->rq, chunk, n);
    t->n_set += bytes_count(chunk, n);
    return temporary_end(t, CLUSTER_REPEAT, err);
}

bool temporary_write(struct temporary *t, const struct layout_bits *bits, struct err *err)
{
    uint8_t *chunk = malloc(REDIS_CHUNK);
    bool ok = true;
    if (chunk == NULL)
        return fail(err, "out of memory");
    for (uint64_t at = 0; ok && at < bits->len; at += REDIS_CHUNK)
        ok = (!sig_caught() || fail(err, "interrupted")) && write_chunk(t, bits, at, chunk, err);
    free(chunk);
    return ok;
}

/* Takes the reply to BITCOUNT. Fails if bits that temporary_write has set are missing. */
static bool take_count(const struct temporary *t, const struct reply *count, struct err *err)
{
    uint64_t n = 0;
    if (!redis_number(t->r, count, &n, err))
        return false;
    return n == t->n_set ||
           fail(err,
                "cannot go on with '%.1000s': the server has lost a temporary key: it evicts "
                "keys (maxmemory-policy), or a replica took its master's place",
                t->r->store.name);
}

/* The reply to TIME, in milliseconds. */
static bool take_time(const struct reply *time, uint64_t *ms)
{
    uint64_t seconds, micros;
    if (time->type != REPLY_ARRAY || time->n != 2 || time->elements[0].type != REPLY_STRING ||
        time->elements[1].type != REPLY_STRING || !num_count(time->elements[0].text, &seconds) ||
        !num_count(time->elements[1].text, &micros))
        return false;
    *ms = seconds * 1000 + micros / 1000;
    return true;
}

bool temporary_life(struct redis *r, const struct shard *s, uint64_t expire, uint64_t *until,
                    struct err *err)
{
    const struct reply *result;
    uint64_t now;
    requests_clear(&r->rq);
    requests_block(&r->rq, 4);
    requests_begin(&r->rq, 1, "MULTI");
    redis_command(r, s, 2, "PTTL");
    requests_begin(&r->rq, 1, "TIME");
    requests_begin(&r->rq, 1, "EXEC");
    if (!redis_run(r, CLUSTER_REPEAT, err) || !redis_block_result(r, 0, 4, 2, &result, err))
        return false;
    const struct reply *life = &result->elements[0];
    if (life->type != REPLY_INTEGER)
        return redis_refused(r, life, err);
    if (!take_time(&result->elements[1], &now))
        return redis_refused(r, &result->elements[1], err);
    /* -1: the key never expires; -2: it does not exist. */
    *until = expire != 0          ? now + expire * 1000
             : life->integer >= 0 ? now + (uint64_t)life->integer
                                  : 0;
    return true;
}

/* The key loses its expiry and gets its final name in one transaction. */
bool temporary_rename(struct temporary *t, const struct shard *s, uint64_t until, struct err *err)
{
    struct redis *r = t->r;
    const struct reply *ignored;
    if (t->n_set > 0) {
        requests_clear(&r->rq);
        temporary_command(t, 2, "BITCOUNT");
        if (!redis_run(r, CLUSTER_REPEAT, err) || !take_count(t, r->replies[0], err))
            return false;
    }
    requests_clear(&r->rq);
    requests_block(&r->rq, BLOCK);
    requests_begin(&r->rq, 1, "MULTI");
    temporary_command(t, until != 0 ? 3 : 2, until != 0 ? "PEXPIREAT" : "PERSIST");
    if (until != 0)
        requests_number(&r->rq, until);
    temporary_command(t, 3, "RENAME");
    requests_key(&r->rq, s->key, s->key_len);
    requests_begin(&r->rq, 1, "EXEC");
    return redis_run(r, CLUSTER_ONCE, err) && redis_block_result(r, 0, BLOCK, 2, &ignored, err);
}

bool temporary_unite(struct temporary *t, const struct shard *s, uint64_t until, struct err *err)
{
    struct redis *r = t->r;
    const struct reply *result;
    uint64_t len;
    size_t n = 4 + (until != 0);
    requests_clear(&r->rq);
    requests_block(&r->rq, n);
    requests_begin(&r->rq, 1, "MULTI");
    temporary_command(t, 2, "BITCOUNT");
    requests_begin(&r->rq, 5, "BITOP");
    requests_word(&r->rq, "OR");
    requests_key(&r->rq, s->key, s->key_len);
    requests_key(&r->rq, s->key, s->key_len);
    requests_key(&r->rq, t->key, t->key_len);
    /* BITOP makes a new value, which never expires. */
    if (until != 0) {
        redis_command(r, s, 3, "PEXPIREAT");
        requests_number(&r->rq, until);
    }
    requests_begin(&r->rq, 1, "EXEC");
    if (!redis_run(r, CLUSTER_REPEAT, err) || !redis_block_result(r, 0, n, n - 2, &result, err) ||
        !take_count(t, &result->elements[0], err) ||
        !redis_number(r, &result->elements[1], &len, err))
        return false;
    temporary_drop(t);
    return true;
}

void temporary_drop(struct temporary *t)
{
    struct err ignored;
    if (t->key == NULL)
        return;
    requests_clear(&t->r->rq);
    temporary_command(t, 2, "UNLINK");
    redis_run(t->r, CLUSTER_REPEAT, &ignored);
}

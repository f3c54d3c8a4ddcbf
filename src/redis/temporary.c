/* SPDX-License-Identifier: MIT */
#include "redis/temporary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port/port.h"
#include "base/bytes.h"
#include "base/sig.h"
#include "redis/messages.h"

/* "{", "}:seen-tmp:", 16 digits, NUL */
enum { NAME_ROOM = 29 };

/* The name has the other key, or its hash tag, as hash tag. */
bool temporary_name(struct temporary *t, struct redis *r, const struct redis_key *key,
                    struct err *err)
{
    bool tagged = memchr(key->name, '{', key->len) == NULL;
    uint64_t number;
    if (!port_random(&number, sizeof number))
        return fail_errno(err, "cannot get random numbers from the system");
    t->r = r;
    t->key.name = malloc(key->len + NAME_ROOM);
    if (t->key.name == NULL)
        return fail(err, "out of memory");
    char *at = t->key.name;
    if (tagged)
        *at++ = '{';
    memcpy(at, key->name, key->len);
    at += key->len;
    at += snprintf(at, NAME_ROOM - 1, "%s:seen-tmp:%016" PRIx64, tagged ? "}" : "", number);
    t->key.len = (size_t)(at - t->key.name);
    return slot_of(t->key.name, t->key.len) == slot_of(key->name, key->len) ||
           redis_unfit(r, err,
                       "no temporary key can share its slot, because of the braces in its name");
}

void temporary_free(struct temporary *t)
{
    free(t->key.name);
    t->key.name = NULL;
}

const struct reply *temporary_exec(struct temporary *t, enum cluster_repeat repeat, struct err *err)
{
    redis_command(t->r, &t->key, 3, "PEXPIRE");
    requests_number(&t->r->rq, TEMPORARY_MS);
    return redis_exec(t->r, repeat, err);
}

static bool write_chunk(struct temporary *t, const struct layout_bits *bits, uint64_t at,
                        uint8_t *chunk, struct err *err)
{
    struct redis *r = t->r;
    size_t n = bits->len - at < REDIS_CHUNK ? (size_t)(bits->len - at) : REDIS_CHUNK;
    if (bytes_zero((const uint8_t *)bits->data + at, n) && at + n < bits->len)
        return true;
    layout_take(bits, at, chunk, n);
    redis_multi(r);
    redis_command(r, &t->key, 4, "SETRANGE");
    requests_number(&r->rq, at);
    requests_bytes(&r->rq, chunk, n);
    t->n_set += bytes_count(chunk, n);
    return temporary_exec(t, CLUSTER_REPEAT, err) != NULL;
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

/* The key loses its expiry and gets its final name in one transaction. */
bool temporary_rename(struct temporary *t, const struct redis_key *key, uint64_t life,
                      struct err *err)
{
    struct redis *r = t->r;
    if (t->n_set > 0) {
        requests_clear(&r->rq);
        redis_command(r, &t->key, 2, "BITCOUNT");
        if (!redis_run(r, CLUSTER_REPEAT, err) || !take_count(t, r->replies[0], err))
            return false;
    }
    redis_multi(r);
    redis_command(r, &t->key, life != 0 ? 3 : 2, life != 0 ? "PEXPIRE" : "PERSIST");
    if (life != 0)
        requests_number(&r->rq, life);
    redis_command(r, &t->key, 3, "RENAME");
    requests_key(&r->rq, key->name, key->len);
    return redis_exec(r, CLUSTER_ONCE, err) != NULL;
}

bool temporary_unite(struct temporary *t, const struct redis_key *key, uint64_t life,
                     struct err *err)
{
    struct redis *r = t->r;
    uint64_t len;
    redis_multi(r);
    redis_command(r, &t->key, 2, "BITCOUNT");
    requests_begin(&r->rq, 5, "BITOP");
    requests_word(&r->rq, "OR");
    requests_key(&r->rq, key->name, key->len);
    requests_key(&r->rq, key->name, key->len);
    requests_key(&r->rq, t->key.name, t->key.len);
    /* BITOP makes a new value, which never expires. */
    if (life != 0) {
        redis_command(r, key, 3, "PEXPIRE");
        requests_number(&r->rq, life);
    }
    const struct reply *results = redis_exec(r, CLUSTER_REPEAT, err);
    if (results == NULL || !take_count(t, &results[0], err) ||
        !redis_number(r, &results[1], &len, err))
        return false;
    temporary_drop(t);
    return true;
}

void temporary_drop(struct temporary *t)
{
    struct err ignored;
    requests_clear(&t->r->rq);
    redis_command(t->r, &t->key, 2, "UNLINK");
    redis_run(t->r, CLUSTER_REPEAT, &ignored);
}

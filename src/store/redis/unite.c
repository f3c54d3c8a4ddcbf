#include "store/redis/unite.h"

size_t unite_queue(struct temporary *t, const struct shard *s, uint64_t until, bool tell)
{
    struct redis *r = t->r;
    size_t n = 5 + (size_t)tell + (until != 0);
    requests_block(&r->rq, n);
    requests_begin(&r->rq, 1, "MULTI");
    redis_command(r, s, 2, "STRLEN");
    temporary_command(t, 2, "BITCOUNT");
    if (tell) {
        redis_command(r, s, 4, "GETRANGE");
        requests_word(&r->rq, "0");
        requests_word(&r->rq, "-1");
    }
    requests_begin(&r->rq, 5, "BITOP");
    requests_word(&r->rq, "OR");
    requests_key(&r->rq, s->key, s->key_len);
    requests_key(&r->rq, s->key, s->key_len);
    temporary_key(t);
    /* BITOP makes a new value, which never expires. */
    if (until != 0) {
        redis_command(r, s, 3, "PEXPIREAT");
        requests_number(&r->rq, until);
    }
    requests_begin(&r->rq, 1, "EXEC");
    return n;
}

bool unite_take(struct temporary *t, struct shard *s, size_t at, size_t n,
                const struct reply **before, struct err *err)
{
    const struct reply *result;
    uint64_t len;
    if (!redis_block_result(t->r, at, n, n - 2, &result, err) ||
        !redis_length(t->r, s, &result->elements[0], err) ||
        !temporary_whole(t, &result->elements[1], err))
        return false;
    const struct reply *next = &result->elements[2];
    if (before != NULL && next->type != REPLY_STRING)
        return redis_refused(t->r, next, err);
    if (before != NULL)
        *before = next++;
    return redis_number(t->r, next, &len, err); /* the reply to BITOP */
}

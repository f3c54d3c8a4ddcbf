#include "store/redis/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "store/chain.h"
#include "store/foreign.h"
#include "store/layers.h"

/* Bytes of keys in a command, which the last key may exceed: REDIS_BATCH keys of 1 KiB. */
enum { BATCH_BYTES = 1 << 20 };

static struct redis *redis_of(struct store *s)
{
    return (struct redis *)(void *)s;
}

/* ---- The filter on the server. */

bool module_is_meant(const struct redis *r)
{
    struct layout_spec spec;
    struct err ignored;
    return r->uri.layout != NULL && layout_parse(r->uri.layout, &spec, &ignored) &&
           spec.kind->layout->module != NULL;
}

static bool says(const struct reply *reply, const char *text)
{
    return reply->type == REPLY_ERROR && strstr(reply->text, text) != NULL;
}

bool module_is_missing(const struct reply *reply)
{
    return says(reply, "not found");
}

bool module_refused(const struct redis *r, const struct reply *reply, struct err *err)
{
    if (says(reply, "unknown command"))
        return redis_unfit(r, err, "the server has no Bloom module");
    return redis_refused(r, reply, err);
}

static void ask_header(struct redis *r)
{
    redis_command(r, r->shard, 3, "BF.SCANDUMP");
    requests_number(&r->rq, 0);
}

/* After the last bytes, the second element may be NIL, which is not a chunk. */
const struct reply *module_chunk(const struct reply *reply)
{
    bool is_chunk = reply->type == REPLY_ARRAY && reply->n == 2 &&
                    reply->elements[0].type == REPLY_INTEGER &&
                    reply->elements[1].type == REPLY_STRING;
    return is_chunk ? &reply->elements[1] : NULL;
}

/* Decodes the reply to ask_header. */
static bool take_header(const struct redis *r, const struct reply *reply,
                        struct layout_filter *filter, struct err *err)
{
    struct layout_spec spec;
    struct layout_bits unset[LAYOUT_LAYERS];
    struct err why;
    if (module_is_missing(reply))
        return redis_unfit(r, err, "there is no such key");
    const struct reply *header = module_chunk(reply);
    if (header == NULL)
        return module_refused(r, reply, err);
    const struct layout_foreign in = {
        .name = {"", ""}, .data = {(const uint8_t *)header->text}, .len = {header->n}};
    if (!layout_parse(r->uri.layout, &spec, &why) ||
        !spec.kind->layout->read(&spec, &in, filter, unset, &why))
        return redis_unfit(r, err, why.text);
    for (unsigned i = 0; i < filter->n_layers; i++)
        if (!spec.kind->check(&filter->layer[i], &why))
            return redis_unfit(r, err, why.text);
    return true;
}

bool module_look(struct redis *r, struct layout_filter *filter, bool *there, struct err *err)
{
    requests_clear(&r->rq);
    ask_header(r);
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    *there = !module_is_missing(r->replies[0]);
    return !*there || take_header(r, r->replies[0], filter, err);
}

/* The FPR, from the number of keys. */
static double fpr_now(const struct header *h)
{
    unsigned newest = chain_newest(h);
    double absent = 1;
    for (unsigned i = 0; i < h->n_layers; i++) {
        const struct layer *layer = &h->layers[i];
        double n = i == newest ? (double)chain_newest_keys(h, &h->counters) : layer->n_closed;
        absent *= 1 - layer->kind->fpr_at(layer, n);
    }
    return 1 - absent;
}

/* Sets the store's header from the filter on the server. */
static void adopt(struct redis *r, const struct layout_filter *filter)
{
    const struct key_rule rule = {0};
    struct header *h = &r->header;
    foreign_header(filter, &rule, true, h);
    h->file_len = h->layers[0].kind->layout->file_len(filter);
    h->counters.unknown = true;
    h->counters.keys_added = filter->n_added;
    h->counters.n_keys = (double)filter->n_added;
}

static void describe(const struct store *s, struct facts *facts)
{
    const struct redis *r = (const struct redis *)(const void *)s;
    *facts = (struct facts){
        .layers = {&r->header, r->data}, .counters = r->header.counters, .n_shards = 1};
}

/* ---- Asking and adding. */

/* The end of the batch that begins with key `at`, and how many of its keys are not in `skip`. */
static size_t batch_end(struct hashes keys, size_t at, size_t n, const uint64_t *skip,
                        size_t *count)
{
    size_t bytes = 0;
    *count = 0;
    for (; at < n && *count < REDIS_BATCH && bytes < BATCH_BYTES; at++)
        if (skip == NULL || !bit_of(skip, at)) {
            bytes += keys.bytes[at].len;
            ++*count;
        }
    return at;
}

static void put_keys(struct redis *r, struct hashes keys, size_t at, size_t end,
                     const uint64_t *skip)
{
    for (; at < end; at++)
        if (skip == NULL || !bit_of(skip, at))
            requests_bytes(&r->rq, keys.bytes[at].data, keys.bytes[at].len);
}

/* Fails: the filter does not exist any more. */
static bool fail_gone(const struct redis *r, struct err *err)
{
    return fail(err, "cannot go on with '%.1000s': the filter was deleted", r->store.name);
}

/* If the filter does not exist, BF.MEXISTS tells only that no item is in. So the header is read
 * after it. */
static bool ask_batch(struct redis *r, struct hashes keys, size_t at, size_t end, size_t count,
                      uint64_t *present, struct err *err)
{
    requests_clear(&r->rq);
    redis_command(r, r->shard, 2 + count, "BF.MEXISTS");
    put_keys(r, keys, at, end, NULL);
    ask_header(r);
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    const struct reply *answers = r->replies[0], *header = r->replies[1];
    if (module_is_missing(header))
        return fail_gone(r, err);
    if (module_chunk(header) == NULL)
        return module_refused(r, header, err);
    if (answers->type != REPLY_ARRAY || answers->n != count)
        return module_refused(r, answers, err);
    for (size_t i = 0; i < count; i++) {
        const struct reply *answer = &answers->elements[i];
        if (answer->type != REPLY_INTEGER)
            return module_refused(r, answer, err);
        if (answer->integer != 0)
            bit_set(present, at + i);
    }
    return true;
}

static bool query(struct store *s, struct hashes keys, size_t n, uint64_t *present, struct err *err)
{
    struct redis *r = redis_of(s);
    bool ok = true;
    memset(present, 0, (n + 63) / 64 * sizeof *present);
    pthread_mutex_lock(&r->lock);
    for (size_t at = 0, end, count; ok && at < n; at = end) {
        end = batch_end(keys, at, n, NULL, &count);
        ok = ask_batch(r, keys, at, end, count, present, err);
    }
    pthread_mutex_unlock(&r->lock);
    return ok;
}

static bool add_begin(struct store *s, const struct add_options *options, struct err *err)
{
    struct redis *r = redis_of(s);
    r->options = *options;
    if (options->rotate)
        return fail(err, "'%s' has no generations, so it cannot be rotated", s->name);
    if (options->max_fpr > 0)
        return fail(err,
                    "--max-fpr cannot be used with '%s': the Bloom module keeps to the rate "
                    "that it was told when the filter was made",
                    s->name);
    return true;
}

/* The server says that the filter is full. The reason follows from the header; if by the header the
 * filter could grow, the server's message is the reason. */
static enum add_result refuse_full(const struct redis *r, const struct reply *reply,
                                   struct err *err)
{
    struct err why;
    char reason[REPLY_REASON];
    bool odd = chain_can_grow(&r->header, &why);
    fail(err, "not added: '%s' is full: %s", r->store.name,
         odd ? reply_reason(reply, reason) : why.text);
    return ADD_FULL;
}

/* Takes the answers for keys [*done, end), up to the first error. If the error says that the filter
 * is full, it is the last answer; any other error is for its key only. */
static enum add_result take_added(struct redis *r, const struct reply *reply, uint64_t *known,
                                  size_t end, size_t *done, uint64_t *n_new, struct err *err)
{
    size_t next = 0;
    if (module_is_missing(reply)) {
        fail_gone(r, err);
        return ADD_FAILED;
    }
    for (; *done < end; ++*done) {
        if (bit_of(known, *done))
            continue;
        bool any = reply->type == REPLY_ARRAY && next < reply->n;
        const struct reply *answer = any ? &reply->elements[next++] : reply;
        if (says(answer, "filter is full"))
            return refuse_full(r, answer, err);
        if (!any || answer->type != REPLY_INTEGER) {
            module_refused(r, answer, err);
            return ADD_FAILED;
        }
        if (answer->integer == 0)
            bit_set(known, *done);
        *n_new += answer->integer != 0;
    }
    return ADD_OK;
}

/* Counts new keys, at the mean of the FPR before and after they were added. */
static void count_new(struct redis *r, uint64_t n_new, double fpr_before)
{
    struct add_state *state = &r->store.state;
    double fpr = (fpr_before + fpr_now(&r->header)) / 2;
    state->n_new += n_new;
    state->dropped += fpr < 1 ? (double)n_new * fpr / (1 - fpr) : 0;
}

static enum add_result add_batch(struct redis *r, struct hashes keys, uint64_t *known, size_t n,
                                 size_t *done, struct err *err)
{
    size_t count, end = batch_end(keys, *done, n, known, &count);
    uint64_t n_new = 0;
    struct layout_filter filter;
    struct err why;
    if (count == 0) {
        *done = end;
        return ADD_OK;
    }
    requests_clear(&r->rq);
    redis_command(r, r->shard, 4 + count, "BF.INSERT");
    requests_word(&r->rq, "NOCREATE");
    requests_word(&r->rq, "ITEMS");
    put_keys(r, keys, *done, end, known);
    ask_header(r);
    bool ran = redis_run(r, r->options.may_repeat ? CLUSTER_REPEAT : CLUSTER_ONCE, &why);
    *err = why;
    if (r->replies[0] == NULL)
        return ADD_FAILED;
    double fpr = fpr_now(&r->header);
    enum add_result result = take_added(r, r->replies[0], known, end, done, &n_new, err);
    if (result == ADD_OK && !ran)
        result = ADD_FAILED;
    bool has_header = result == ADD_OK && take_header(r, r->replies[1], &filter, err);
    if (has_header)
        adopt(r, &filter);
    count_new(r, n_new, fpr);
    return result == ADD_OK && !has_header ? ADD_FAILED : result;
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
        size_t before = *done;
        result = add_batch(r, keys, known, n, done, err);
        result = redis_added(r, result, before, done, err);
    }
    pthread_mutex_unlock(&r->lock);
    return result;
}

/* The module lets no filter become fuller than it was made for. */
static void conclude(struct store *s, bool again)
{
    (void)again;
    s->state.warning[0] = '\0';
}

/* ---- All bits. */

static void free_layers(uint8_t **data, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        free(data[i]);
}

/* Copies the bits of each layer into newly allocated memory. */
static bool take_layers(const struct header *h, const struct layout_bits *bits, uint8_t **data,
                        struct err *err)
{
    for (unsigned i = 0; i < h->n_layers; i++) {
        uint64_t len = h->layers[i].data_len;
        data[i] = len <= SIZE_MAX ? malloc((size_t)len) : NULL;
        if (data[i] == NULL)
            return fail(err, "out of memory");
        layout_take(&bits[i], 0, data[i], (size_t)len);
    }
    return true;
}

static bool take_census(struct store *s, unsigned threads, struct census *layer, struct census *all,
                        struct err *err)
{
    struct redis *r = redis_of(s);
    struct layout_filter filter;
    struct layout_bits bits[LAYOUT_LAYERS] = {0};
    uint8_t *data[FORMAT_MAX_LAYERS] = {0};
    pthread_mutex_lock(&r->lock);
    bool ok = module_pull(r, &filter, bits, err);
    if (ok) {
        adopt(r, &filter);
        ok = take_layers(&r->header, bits, data, err);
    }
    if (ok) {
        const struct layers layers = {&r->header, data};
        layers_census_each(&layers, threads, layer);
        layers_census_whole(&layers, threads, layer, all);
    }
    for (unsigned i = 0; i + 1 < r->header.n_layers && ok; i++)
        r->header.layers[i].fpr_closed = layer[i].fpr;
    free_layers(data, FORMAT_MAX_LAYERS);
    free(bits[0].owned);
    pthread_mutex_unlock(&r->lock);
    return ok;
}

/* ---- Opening and making. */

static void close_store(struct store *s)
{
    redis_close(redis_of(s));
}

/* No sync: the server has all keys for which it has replied. */
static const struct store_ops ops = {
    .describe = describe,
    .query = query,
    .census = take_census,
    .add_begin = add_begin,
    .add = add,
    .conclude = conclude,
    .close = close_store,
};

static bool is_one_key(const struct redis *r, struct err *err)
{
    return r->n_shards == 1 || redis_unfit(r, err, "filters of the Bloom module have no shards");
}

bool module_open(struct redis *r, struct err *err)
{
    struct layout_filter filter;
    bool there;
    r->store.ops = &ops;
    r->store.wants_bytes = true;
    if (r->way == STORE_BULK)
        return redis_unfit(r, err, "the Bloom module takes keys one by one, and no --bulk");
    if (!is_one_key(r, err) || !module_look(r, &filter, &there, err))
        return false;
    if (!there)
        return redis_unfit(r, err, "there is no such key");
    adopt(r, &filter);
    return true;
}

/* Room for a double with enough digits to be exact. */
enum { ERROR_TEXT = 32 };

bool module_create(struct redis *r, const struct layout_filter *filter, bool *made, struct err *err)
{
    double error;
    uint64_t capacity;
    uint32_t expansion;
    char text[ERROR_TEXT];
    *made = false;
    if (!is_one_key(r, err))
        return false;
    filter->layer[0].kind->layout->module->reserve(filter, &error, &capacity, &expansion);
    snprintf(text, sizeof text, "%.17g", error);
    requests_clear(&r->rq);
    redis_command(r, r->shard, expansion != 0 ? 6 : 5, "BF.RESERVE");
    requests_word(&r->rq, text);
    requests_number(&r->rq, capacity);
    requests_word(&r->rq, expansion != 0 ? "EXPANSION" : "NONSCALING");
    if (expansion != 0)
        requests_number(&r->rq, expansion);
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    *made = r->replies[0]->type != REPLY_ERROR;
    return *made || says(r->replies[0], "item exists") || module_refused(r, r->replies[0], err);
}

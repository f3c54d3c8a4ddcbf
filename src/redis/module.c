/* SPDX-License-Identifier: MIT */
#include "redis/module.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "base/num.h"
#include "base/sig.h"
#include "file/chain.h"
#include "file/design.h"
#include "file/layers.h"

enum {
    /* Bytes of keys in a command, which the last key may exceed: REDIS_BATCH keys of 1 KiB. */
    BATCH_BYTES = 1 << 20,
    PIECES = 64, /* of bits that are sent at once */
};

/* ---- The filter on the server. */

static bool says(const struct reply *reply, const char *text)
{
    return reply->type == REPLY_ERROR && strstr(reply->text, text) != NULL;
}

/* Does the reply say that the key does not exist? */
static bool is_missing(const struct reply *reply)
{
    return says(reply, "not found");
}

/* Fails because of an unexpected reply; the error tells what it says. */
static bool refused(const struct redis *r, const struct reply *reply, struct err *err)
{
    if (says(reply, "unknown command"))
        return redis_unfit(r, err, "the server has no Bloom module");
    return redis_refused(r, reply, err);
}

static void ask_header(struct redis *r)
{
    redis_command(r, &r->shard->bits, r->informs ? 2 : 3, r->informs ? "BF.INFO" : "BF.SCANDUMP");
    if (!r->informs)
        requests_number(&r->rq, 0);
}

/* Asks for the header alone, whatever the module has in its place. */
static bool ask_alone(struct redis *r, struct err *err)
{
    requests_clear(&r->rq);
    ask_header(r);
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    if (r->informs || !says(r->replies[0], "unknown command"))
        return true;
    r->informs = true;
    return ask_alone(r, err);
}

/* Fails if the module gives out no bits. */
static bool check_copies(const struct redis *r, struct err *err)
{
    return !r->informs ||
           redis_unfit(r, err,
                       "valkey-bloom has no BF.SCANDUMP and BF.LOADCHUNK, so its filters cannot be "
                       "imported or exported; query, add, dedup and stats work");
}

/* The bytes in a reply to BF.SCANDUMP; NULL: the reply has none. After the last bytes, the second
 * element may be NIL. */
static const struct reply *chunk_of(const struct reply *reply)
{
    bool is_chunk = reply->type == REPLY_ARRAY && reply->n == 2 &&
                    reply->elements[0].type == REPLY_INTEGER &&
                    reply->elements[1].type == REPLY_STRING;
    return is_chunk ? &reply->elements[1] : NULL;
}

/* Is it a reply to ask_header that describes a filter? */
static bool is_header(const struct redis *r, const struct reply *reply)
{
    return r->informs ? reply->type == REPLY_ARRAY : chunk_of(reply) != NULL;
}

/* The value of a field in a reply to BF.INFO; NULL: there is no such field. */
static const struct reply *info_field(const struct reply *info, const char *name)
{
    for (size_t i = 0; i + 1 < info->n; i += 2) {
        const struct reply *field = &info->elements[i];
        if ((field->type == REPLY_STATUS || field->type == REPLY_STRING) &&
            strcmp(field->text, name) == 0)
            return field + 1;
    }
    return NULL;
}

/* A number among them; 0: there is none. */
static uint64_t info_number(const struct reply *info, const char *name)
{
    const struct reply *value = info_field(info, name);
    return value != NULL && value->type == REPLY_INTEGER && value->integer > 0
               ? (uint64_t)value->integer
               : 0;
}

/* A ratio between 0 and 1. */
static bool info_ratio(const struct reply *info, const char *name, double *out)
{
    const struct reply *value = info_field(info, name);
    return value != NULL && value->type == REPLY_STRING && num_fpr(value->text, out);
}

/* Decodes a reply to BF.INFO. */
static bool take_info(struct redis *r, const struct reply *reply, struct layout_filter *filter,
                      struct err *err)
{
    struct layout_info info = {.capacity = info_number(reply, "Capacity"),
                               .links = info_number(reply, "Number of filters"),
                               .keys = info_number(reply, "Number of items inserted"),
                               .expansion = info_number(reply, "Expansion rate")};
    struct err why;
    r->size = info_number(reply, "Size");
    if (!info_ratio(reply, "Error rate", &info.error) ||
        (info.expansion > 0 && !info_ratio(reply, "Tightening ratio", &info.tightening)))
        return redis_unfit(r, err,
                           "the server's Bloom module has neither BF.SCANDUMP nor the "
                           "error rate in BF.INFO");
    return r->spec.kind->layout->inform(&r->spec, &info, filter, &why) ||
           redis_unfit(r, err, why.text);
}

/* Decodes the reply to ask_header. */
static bool take_header(struct redis *r, const struct reply *reply, struct layout_filter *filter,
                        struct err *err)
{
    struct layout_bits unset[LAYOUT_LAYERS];
    struct err why;
    *filter = (struct layout_filter){0};
    if (is_missing(reply))
        return redis_absent(r, err);
    if (!is_header(r, reply))
        return refused(r, reply, err);
    if (r->informs)
        return take_info(r, reply, filter, err);
    const struct reply *header = chunk_of(reply);
    const struct layout_foreign in = {
        .name = {"", ""}, .data = {(const uint8_t *)header->text}, .len = {header->n}};
    return r->spec.kind->layout->read(&r->spec, &in, filter, unset, &why) ||
           redis_unfit(r, err, why.text);
}

bool module_look(struct redis *r, struct layout_filter *filter, bool *there, struct err *err)
{
    if (!ask_alone(r, err))
        return false;
    *there = !is_missing(r->replies[0]);
    return !*there || take_header(r, r->replies[0], filter, err);
}

/* The FPR, from the number of keys. */
static double fpr_now(const struct header *h)
{
    double absent = 1;
    for (unsigned i = 0; i < h->n_layers; i++) {
        const struct layer *layer = &h->layers[i];
        absent *= 1 - layer->kind->fpr_at(layer, (double)chain_keys_in(h, &h->counters, i));
    }
    return 1 - absent;
}

/* Sets the store's header from the filter on the server. */
static void adopt(struct redis *r, const struct layout_filter *filter)
{
    const struct key_rule rule = {0};
    struct header *h = &r->header;
    header_begin_foreign(h, filter, &rule, true);
    h->file_len = r->informs ? r->size : h->layers[0].kind->layout->file_len(filter);
    h->counters.keys_added = filter->n_added;
    r->latest = *filter;
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

/* Fails: it is not the filter that it was. */
static bool fail_changed(const struct redis *r, struct err *err)
{
    return fail(err, "cannot go on with '%.1000s': the filter was deleted or replaced",
                r->store.name);
}

/* If the filter does not exist, BF.MEXISTS tells only that no item is in. So the header is read
 * after it. */
static bool ask_items(struct redis *r, struct hashes keys, size_t at, size_t end, size_t count,
                      uint64_t *present, struct err *err)
{
    requests_clear(&r->rq);
    redis_command(r, &r->shard->bits, 2 + count, "BF.MEXISTS");
    put_keys(r, keys, at, end, NULL);
    ask_header(r);
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    const struct reply *answers = r->replies[0], *header = r->replies[1];
    if (is_missing(header))
        return fail_changed(r, err);
    if (!is_header(r, header))
        return refused(r, header, err);
    if (answers->type != REPLY_ARRAY || answers->n != count)
        return refused(r, answers, err);
    for (size_t i = 0; i < count; i++) {
        const struct reply *answer = &answers->elements[i];
        if (answer->type != REPLY_INTEGER)
            return refused(r, answer, err);
        if (answer->integer != 0)
            bit_set(present, at + i);
    }
    return true;
}

bool module_ask(struct redis *r, struct hashes keys, size_t n, uint64_t *present, struct err *err)
{
    bool ok = true;
    for (size_t at = 0, end, count; ok && at < n; at = end) {
        end = batch_end(keys, at, n, NULL, &count);
        ok = ask_items(r, keys, at, end, count, present, err);
    }
    return ok;
}

bool module_check_options(const struct redis *r, struct err *err)
{
    if (r->options.rotate)
        return fail(err, "'%s' has no generations, so it cannot be rotated", r->store.name);
    if (r->options.max_fpr > 0)
        return fail(err,
                    "--max-fpr cannot be used with '%s': the Bloom module keeps to the rate "
                    "that it was told when the filter was made",
                    r->store.name);
    return true;
}

/* The server says that the filter is full. */
static enum add_result refuse_full(const struct redis *r, const struct reply *reply,
                                   struct err *err)
{
    char reason[REPLY_REASON];
    const struct header *h = &r->header;
    if (format_grows(h))
        fail(err, "not added: '%s' is full: %s", r->store.name, reply_reason(reply, reason));
    else
        fail(err, "not added: '%s' is full: it was made for %llu keys", r->store.name,
             (unsigned long long)h->layers[0].n_design);
    return ADD_FULL;
}

/* Takes the answers for keys [*done, end), up to the first error. If the error says that the filter
 * is full, it is the last answer; any other error is for its key only. */
static enum add_result take_added(struct redis *r, const struct reply *reply, uint64_t *known,
                                  size_t end, size_t *done, uint64_t *n_new, struct err *err)
{
    size_t next = 0;
    if (is_missing(reply)) {
        fail_changed(r, err);
        return ADD_FAILED;
    }
    for (; *done < end; ++*done) {
        if (bit_of(known, *done))
            continue;
        bool any = reply->type == REPLY_ARRAY && next < reply->n;
        const struct reply *answer = any ? &reply->elements[next++] : reply;
        if (says(answer, "filter is full") || says(answer, "memory limit") ||
            says(answer, "max number of filters") || says(answer, "degrades to 0"))
            return refuse_full(r, answer, err);
        if (!any || answer->type != REPLY_INTEGER) {
            refused(r, answer, err);
            return ADD_FAILED;
        }
        if (answer->integer == 0)
            bit_set(known, *done);
        *n_new += answer->integer != 0;
    }
    return ADD_OK;
}

/* Can `now` be a later state of the filter `then`, after n_new keys were added? */
static bool is_same(const struct layout_filter *then, uint64_t n_new,
                    const struct layout_filter *now)
{
    bool same = now->n_layers >= then->n_layers && now->n_added >= then->n_added + n_new;
    for (unsigned i = 0; same && i < then->n_layers; i++)
        same = memcmp(now->layer[i].geometry, then->layer[i].geometry,
                      sizeof now->layer[i].geometry) == 0;
    return same;
}

/* Takes the header that was read after n_new new keys. Fails if another client has deleted the
 * filter since the last header, even if it has made it again. */
static bool adopt_new(struct redis *r, const struct reply *reply, uint64_t n_new, struct err *err)
{
    struct layout_filter filter;
    if (!take_header(r, reply, &filter, err))
        return false;
    if (!is_same(&r->latest, n_new, &filter))
        return redis_lost(r, err);
    adopt(r, &filter);
    return true;
}

enum add_result module_add(struct redis *r, struct hashes keys, uint64_t *known, size_t n,
                           size_t *done, struct err *err)
{
    size_t count, begin = *done, end = batch_end(keys, begin, n, known, &count);
    uint64_t n_new = 0;
    struct err why;
    if (count == 0) {
        *done = end;
        return ADD_OK;
    }
    requests_clear(&r->rq);
    redis_command(r, &r->shard->bits, 4 + count, "BF.INSERT");
    requests_word(&r->rq, "NOCREATE");
    requests_word(&r->rq, "ITEMS");
    put_keys(r, keys, *done, end, known);
    ask_header(r);
    if (!redis_run(r, r->options.may_repeat ? CLUSTER_REPEAT : CLUSTER_ONCE, err))
        return ADD_FAILED;
    double fpr = fpr_now(&r->header);
    enum add_result result = take_added(r, r->replies[0], known, end, done, &n_new, err);
    if (!adopt_new(r, r->replies[1], n_new, &why)) {
        *done = begin; /* keys that were known before may be new in another filter */
        n_new = 0;
        *err = result == ADD_FAILED ? *err : why;
        result = ADD_FAILED;
    }
    /* At the mean of the FPR before and after they were added. */
    redis_count_new(r, n_new, (fpr + fpr_now(&r->header)) / 2);
    return result;
}

bool module_check(struct redis *r, struct err *err)
{
    requests_clear(&r->rq);
    ask_header(r);
    return redis_run(r, CLUSTER_REPEAT, err) && adopt_new(r, r->replies[0], 0, err);
}

/* ---- All bits. */

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

/* Without the bits, the census follows from the number of keys that were new to the filter. What it
 * took for known is a sum of independent events. */
static bool keys_census(struct redis *r, struct census *layer, struct census *all, struct err *err)
{
    struct header *h = &r->header;
    double dropped;
    if (!module_check(r, err))
        return false;
    *all = (struct census){.fpr = fpr_now(h)};
    for (unsigned i = 0; i < h->n_layers; i++) {
        double n = (double)chain_keys_in(h, &h->counters, i);
        double fpr = h->layers[i].kind->fpr_at(&h->layers[i], n);
        layer[i] = (struct census){.fpr = fpr, .n = n, .bits_set = NAN};
        h->layers[i].fpr_closed = fpr;
    }
    chain_given(h, &h->counters, &all->n, &dropped);
    double error = 1.96 * sqrt(dropped);
    all->n_low = fmax(all->n - error, (double)h->counters.keys_added);
    all->n_high = all->n + error;
    return true;
}

bool module_census(struct redis *r, unsigned threads, struct census *layer, struct census *all,
                   struct err *err)
{
    if (r->informs)
        return keys_census(r, layer, all, err);
    struct layout_filter filter;
    struct layout_bits bits[LAYOUT_LAYERS] = {0};
    uint8_t *data[FORMAT_MAX_LAYERS] = {0};
    bool ok = module_pull(r, &filter, bits, err);
    if (ok) {
        adopt(r, &filter);
        ok = take_layers(&r->header, bits, data, err);
    }
    if (ok)
        layers_measure((struct layers){&r->header, data}, threads, layer, all);
    for (unsigned i = 0; i + 1 < r->header.n_layers && ok; i++)
        r->header.layers[i].fpr_closed = layer[i].fpr;
    for (unsigned i = 0; i < FORMAT_MAX_LAYERS; i++)
        free(data[i]);
    free(bits[0].owned);
    return ok;
}

/* ---- Opening and making. */

bool module_open(struct redis *r, bool *there, struct err *err)
{
    struct layout_filter filter;
    bool found;
    if (!module_look(r, &filter, &found, err))
        return false;
    if (found)
        adopt(r, &filter);
    if (there != NULL)
        *there = found;
    return found || there != NULL || redis_absent(r, err);
}

/* Room for a double with enough digits to be exact. */
enum { ERROR_TEXT = 32 };

bool module_create(struct redis *r, const struct layout_filter *filter, struct err *err)
{
    double error;
    uint64_t capacity;
    uint32_t expansion;
    char text[ERROR_TEXT];
    filter->layer[0].kind->layout->reserve(filter, &error, &capacity, &expansion);
    if (r->informs && expansion != 0)
        error /= 2; /* it gives the first link all of the error, not half of it */
    snprintf(text, sizeof text, "%.17g", error);
    requests_clear(&r->rq);
    redis_command(r, &r->shard->bits, expansion != 0 ? 6 : 5, "BF.RESERVE");
    requests_word(&r->rq, text);
    requests_number(&r->rq, capacity);
    requests_word(&r->rq, expansion != 0 ? "EXPANSION" : "NONSCALING");
    if (expansion != 0)
        requests_number(&r->rq, expansion);
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    return r->replies[0]->type != REPLY_ERROR || says(r->replies[0], "item exists") ||
           refused(r, r->replies[0], err);
}

/* ---- Pull: a whole filter from the server. */

/* Reads bits from offset `at` on: *n bytes, at least one and `room` at most. */
static bool read_bits(struct redis *r, uint64_t at, uint8_t *out, uint64_t room, size_t *n,
                      struct err *err)
{
    requests_clear(&r->rq);
    redis_command(r, &r->shard->bits, 3, "BF.SCANDUMP");
    requests_number(&r->rq, 1 + at);
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    const struct reply *reply = r->replies[0], *bytes = chunk_of(reply);
    if (bytes == NULL && !is_missing(reply))
        return refused(r, reply, err);
    if (bytes == NULL || bytes->n == 0 || bytes->n > room)
        return fail_changed(r, err);
    memcpy(out, bytes->text, bytes->n);
    *n = bytes->n;
    return true;
}

/* Reads the bits of the links that the filter had when its header was read. */
static bool read_all(struct redis *r, const struct layout_filter *filter, uint8_t *data,
                     uint64_t len, struct err *err)
{
    struct layout_filter behind;
    bool there;
    size_t n = 0;
    for (uint64_t at = 0; at < len; at += n)
        if (sig_caught() || !read_bits(r, at, data + at, len - at, &n, err))
            return sig_caught() ? fail(err, "interrupted") : false;
    if (!module_look(r, &behind, &there, err))
        return false;
    return (there && is_same(filter, 0, &behind)) || fail_changed(r, err);
}

bool module_pull(struct redis *r, struct layout_filter *filter, struct layout_bits *bits,
                 struct err *err)
{
    const struct layout *layout = r->spec.kind->layout;
    struct err why;
    bool there;
    if (!module_look(r, filter, &there, err) || !check_copies(r, err))
        return false;
    const struct reply *chunk = there ? chunk_of(r->replies[0]) : NULL;
    if (chunk == NULL)
        return fail_changed(r, err);
    uint64_t len = layout->file_len(filter) - chunk->n;
    uint8_t *header = malloc(chunk->n), *data = len <= SIZE_MAX ? malloc((size_t)len) : NULL;
    const struct layout_foreign in = {
        .name = {"", ""}, .data = {header, data}, .len = {chunk->n, len}};
    bool ok = (header != NULL && data != NULL) || fail(err, "out of memory");
    if (ok)
        memcpy(header, chunk->text, chunk->n);
    ok = ok && read_all(r, filter, data, len, err) &&
         (layout->read(&r->spec, &in, filter, bits, &why) || redis_unfit(r, err, why.text));
    if (ok)
        bits[0].owned = data;
    else
        free(data);
    free(header);
    return ok;
}

/* ---- Push: a whole filter to the server. */

struct module_push {
    struct redis *r;
    struct temporary *temporary;
    const struct kind *kind;
    uint64_t at; /* bytes of bits that layout->write has passed so far */
};

static void load_chunk(struct module_push *p, uint64_t iterator, const uint8_t *data, size_t len)
{
    redis_command(p->r, &p->temporary->key, 4, "BF.LOADCHUNK");
    requests_number(&p->r->rq, iterator);
    requests_bytes(&p->r->rq, data, len);
}

/* Takes a reply to BF.LOADCHUNK. */
static bool take_loaded(const struct redis *r, const struct reply *reply, struct err *err)
{
    return reply->type == REPLY_STATUS || refused(r, reply, err);
}

/* Sends the pieces that layout->write has passed since the last time. Bits do not make a key, so it
 * has an expiry already. */
static bool send(struct module_push *p, struct err *err)
{
    struct redis *r = p->r;
    size_t n = r->rq.n;
    uint64_t expires;
    if (sig_caught())
        return fail(err, "interrupted");
    redis_command(r, &p->temporary->key, 3, "PEXPIRE");
    requests_number(&r->rq, TEMPORARY_MS);
    bool ok = redis_run(r, CLUSTER_REPEAT, err);
    for (size_t i = 0; ok && i < n; i++)
        ok = take_loaded(r, r->replies[i], err);
    ok = ok && redis_number(r, r->replies[n], &expires, err);
    requests_clear(&r->rq);
    return ok;
}

/* Does the filter, of this header, match the layout in the address? */
static bool check_header(const struct module_push *p, const void *header, size_t len,
                         struct err *err)
{
    const struct redis *r = p->r;
    struct layout_filter filter;
    struct layout_bits unset[LAYOUT_LAYERS];
    const struct layout_foreign own = {.name = {"", ""}, .data = {header}, .len = {len}};
    struct err why;
    return r->spec.kind == NULL || p->kind->layout->read(&r->spec, &own, &filter, unset, &why) ||
           fail(err, "cannot use '%.1000s': the filter to be exported does not fit: %s",
                r->store.name, why.text);
}

/* The header makes the key. It cannot be loaded twice. */
static bool load_header(struct module_push *p, const void *header, size_t len, struct err *err)
{
    if (!check_header(p, header, len, err))
        return false;
    redis_multi(p->r);
    load_chunk(p, 1, header, len);
    const struct reply *loaded = temporary_exec(p->temporary, CLUSTER_ONCE, err);
    bool ok = loaded != NULL && take_loaded(p->r, loaded, err);
    requests_clear(&p->r->rq);
    return ok;
}

/* Zeroes are not sent: the module fills new links with zeroes. */
static bool take_piece(void *ctx, unsigned file, const void *data, size_t len, struct err *err)
{
    struct module_push *p = ctx;
    if (file == 0)
        return load_header(p, data, len, err);
    p->at += len;
    if (bytes_zero(data, len))
        return true;
    load_chunk(p, 1 + p->at, data, len);
    return p->r->rq.n < PIECES || send(p, err);
}

bool module_may_push(struct redis *r, bool merge, struct err *err)
{
    if (merge)
        return redis_unfit(r, err, "the Bloom module cannot unite filters, as --merge wants");
    return ask_alone(r, err) &&
           (is_missing(r->replies[0]) || is_header(r, r->replies[0]) ||
            refused(r, r->replies[0], err)) &&
           check_copies(r, err);
}

bool module_write(struct temporary *t, const struct layout_filter *filter,
                  const uint8_t *const *data, struct err *err)
{
    struct module_push p = {.r = t->r, .temporary = t, .kind = filter->layer[0].kind};
    const struct layout_sink sink = {.write = take_piece, .ctx = &p, .name = p.r->store.name};
    requests_clear(&p.r->rq);
    return p.kind->layout->write(filter, data, &sink, err) && (p.r->rq.n == 0 || send(&p, err));
}

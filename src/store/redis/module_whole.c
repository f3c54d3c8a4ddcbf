/* Whole filters from and to the Bloom module. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/sig.h"
#include "store/redis/module.h"
#include "store/redis/temporary.h"

/* ---- Pull. */

static bool fail_changed(const struct redis *r, struct err *err)
{
    return fail(err, "cannot go on with '%.1000s': the filter was deleted or replaced",
                r->store.name);
}

/* Reads bits from offset `at` on: *n bytes, at least one and `room` at most. */
static bool read_bits(struct redis *r, uint64_t at, uint8_t *out, uint64_t room, size_t *n,
                      struct err *err)
{
    requests_clear(&r->rq);
    redis_command(r, r->shard, 3, "BF.SCANDUMP");
    requests_number(&r->rq, 1 + at);
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    const struct reply *reply = r->replies[0], *bytes = module_chunk(reply);
    if (bytes == NULL && !module_is_missing(reply))
        return module_refused(r, reply, err);
    if (bytes == NULL || bytes->n == 0 || bytes->n > room)
        return fail_changed(r, err);
    memcpy(out, bytes->text, bytes->n);
    *n = bytes->n;
    return true;
}

/* Can `now` be a later state of the filter `then`? */
static bool is_same(const struct layout_filter *then, const struct layout_filter *now)
{
    bool same = now->n_layers >= then->n_layers && now->n_added >= then->n_added;
    for (unsigned i = 0; same && i < then->n_layers; i++)
        same = memcmp(now->layer[i].geometry, then->layer[i].geometry,
                      sizeof now->layer[i].geometry) == 0;
    return same;
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
    return (there && is_same(filter, &behind)) || fail_changed(r, err);
}

/* Reads the bits, and decodes header and bits as the files of the layout. */
static bool read_whole(struct redis *r, const uint8_t *header, size_t header_len,
                       struct layout_filter *filter, struct layout_bits *bits, struct err *err)
{
    struct layout_spec spec;
    struct err why;
    uint64_t len = filter->layer[0].kind->layout->file_len(filter) - header_len;
    uint8_t *data = len <= SIZE_MAX ? malloc((size_t)len) : NULL;
    if (data == NULL)
        return fail(err, "out of memory");
    const struct layout_foreign in = {
        .name = {"", ""}, .data = {header, data}, .len = {header_len, len}};
    bool ok = read_all(r, filter, data, len, err) &&
              ((layout_parse(r->uri.layout, &spec, &why) &&
                spec.kind->layout->read(&spec, &in, filter, bits, &why)) ||
               redis_unfit(r, err, why.text));
    if (ok)
        bits[0].owned = data;
    else
        free(data);
    return ok;
}

bool module_pull(struct redis *r, struct layout_filter *filter, struct layout_bits *bits,
                 struct err *err)
{
    bool there;
    if (!module_look(r, filter, &there, err))
        return false;
    if (!there)
        return fail_changed(r, err);
    const struct reply *chunk = module_chunk(r->replies[0]);
    size_t len = chunk->n;
    uint8_t *header = malloc(len);
    if (header == NULL)
        return fail(err, "out of memory");
    memcpy(header, chunk->text, len);
    bool ok = read_whole(r, header, len, filter, bits, err);
    free(header);
    return ok;
}

/* ---- Push. */

/* The most pieces that are sent together. A piece is what layout->write passes in one call. */
enum { PIECES = 64 };

struct push {
    struct redis *r;
    struct temporary temporary;
    const struct kind *kind;
    uint8_t *header;
    size_t header_len;
    bool begun;  /* the header has been sent */
    uint64_t at; /* bytes of bits that layout->write has passed so far */
    size_t n_pieces;
    struct reply *replies[PIECES + 1];
};

static void load_chunk(struct push *p, uint64_t iterator, const uint8_t *data, size_t len)
{
    temporary_command(&p->temporary, 4, "BF.LOADCHUNK");
    requests_number(&p->r->rq, iterator);
    requests_bytes(&p->r->rq, data, len);
}

/* Takes a reply to BF.LOADCHUNK. */
static bool take_loaded(const struct redis *r, const struct reply *reply, struct err *err)
{
    return reply->type == REPLY_STATUS || module_refused(r, reply, err);
}

/* Sends what has been queued. Bits do not make a key, so it has an expiry already. */
static bool send(struct push *p, struct err *err)
{
    struct redis *r = p->r;
    if (sig_caught())
        return fail(err, "interrupted");
    temporary_command(&p->temporary, 3, "PEXPIRE");
    requests_number(&r->rq, TEMPORARY_MS);
    bool ok = cluster_run(r->cluster, &r->rq, CLUSTER_REPEAT, p->replies, err);
    for (size_t i = 0; ok && i < p->n_pieces; i++)
        ok = take_loaded(r, p->replies[i], err);
    ok = ok && (p->replies[p->n_pieces]->type == REPLY_INTEGER ||
                redis_refused(r, p->replies[p->n_pieces], err));
    requests_clear(&r->rq);
    p->n_pieces = 0;
    return ok;
}

/* Does the filter match the layout in the address? */
static bool check_layout(const struct push *p, struct err *err)
{
    const struct redis *r = p->r;
    struct layout_spec spec;
    struct layout_filter filter;
    struct layout_bits unset[LAYOUT_LAYERS];
    const struct layout_foreign own = {
        .name = {"", ""}, .data = {p->header}, .len = {p->header_len}};
    struct err why;
    if (r->uri.layout == NULL)
        return true;
    if (!layout_parse(r->uri.layout, &spec, &why))
        return redis_unfit(r, err, why.text);
    if (spec.kind != p->kind)
        return fail(err, "cannot use '%.1000s': the filter to be pushed is of layout %s",
                    r->store.name, p->kind->name);
    return spec.kind->layout->read(&spec, &own, &filter, unset, &why) ||
           fail(err, "cannot use '%.1000s': of the filter to be pushed, %s", r->store.name,
                why.text);
}

/* A header cannot be loaded twice. */
static bool begin(struct push *p, struct err *err)
{
    p->begun = true;
    if (!check_layout(p, err))
        return false;
    temporary_begin(&p->temporary);
    load_chunk(p, 1, p->header, p->header_len);
    const struct requests *rq = &p->r->rq;
    bool ok = temporary_end(&p->temporary, CLUSTER_ONCE, err) &&
              take_loaded(p->r, &p->r->replies[rq->n - 1]->elements[0], err);
    requests_clear(&p->r->rq);
    return ok;
}

static bool take_header(struct push *p, const void *data, size_t len, struct err *err)
{
    uint8_t *header = realloc(p->header, p->header_len + len);
    if (header == NULL)
        return fail(err, "out of memory");
    memcpy(header + p->header_len, data, len);
    p->header = header;
    p->header_len += len;
    return true;
}

/* Zeroes are not sent: the module fills new links with zeroes. */
static bool take_piece(void *ctx, unsigned file, const void *data, size_t len, struct err *err)
{
    struct push *p = ctx;
    if (file == 0)
        return take_header(p, data, len, err);
    if (!p->begun && !begin(p, err))
        return false;
    p->at += len;
    if (bytes_zero(data, len))
        return true;
    load_chunk(p, 1 + p->at, data, len);
    return ++p->n_pieces < PIECES || send(p, err);
}

/* An existing key, which will be replaced, must be a filter of the module. */
static bool check_there(struct redis *r, struct err *err)
{
    requests_clear(&r->rq);
    redis_command(r, r->shard, 3, "BF.SCANDUMP");
    requests_number(&r->rq, 0);
    if (!redis_run(r, CLUSTER_REPEAT, err))
        return false;
    return module_is_missing(r->replies[0]) || module_chunk(r->replies[0]) != NULL ||
           module_refused(r, r->replies[0], err);
}

static bool push(struct push *p, const struct layout_filter *filter, const uint8_t *const *data,
                 uint64_t expire, struct err *err)
{
    struct redis *r = p->r;
    const struct layout_sink sink = {.write = take_piece, .ctx = p, .name = r->store.name};
    uint64_t until;
    if (!check_there(r, err) || !temporary_name(&p->temporary, r, r->shard, err))
        return false;
    if (p->kind->layout->write(filter, data, &sink, err) && (p->n_pieces == 0 || send(p, err)) &&
        temporary_life(r, r->shard, expire, &until, err) &&
        temporary_rename(&p->temporary, r->shard, until, err))
        return true;
    temporary_drop(r, &p->temporary, 1);
    return false;
}

bool module_push(struct redis *r, const struct layout_filter *filter, const uint8_t *const *data,
                 const struct store_push *options, struct err *err)
{
    struct push p = {.r = r, .kind = filter->layer[0].kind};
    if (r->n_shards != 1)
        return redis_unfit(r, err, "filters of the Bloom module have no shards");
    if (options->merge)
        return redis_unfit(r, err, "the Bloom module cannot unite filters, as --merge wants");
    bool ok = push(&p, filter, data, options->expire, err);
    temporary_free(&p.temporary);
    free(p.header);
    return ok;
}

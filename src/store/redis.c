#include "store/redis.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/num.h"
#include "redis/password.h"
#include "store/foreign.h"
#include "store/layers.h"
#include "store/redis_parts.h"
#include "store/writer.h"

/* Beyond some hundred keys in a pipeline a larger one is no faster, and with a slow input the first
 * of them wait longer. A key of many positions counts for more. */
enum { BATCH_KEYS = 1024, BATCH_BITS = 1 << 14 };

/* The bits are counted whenever the bits that this process has set have become so many more, as a
 * part of all. */
static const double COUNT_STEP = 1.0 / 64;

static struct redis *redis_of(struct store *s)
{
    return (struct redis *)(void *)s;
}

static const struct redis *const_redis_of(const struct store *s)
{
    return (const struct redis *)(const void *)s;
}

static const struct layer *layer_of(const struct redis *r)
{
    return &r->header.layers[0];
}

/* ---- Talking to the server. */

bool redis_refused(const struct redis *r, const struct reply *reply, struct err *err)
{
    char reason[REPLY_REASON];
    return fail(err, "cannot use '%.1000s': %s", r->store.name, reply_reason(reply, reason));
}

bool redis_number(const struct redis *r, const struct reply *reply, uint64_t *out,
                        struct err *err)
{
    if (reply->type != REPLY_INTEGER || reply->integer < 0)
        return redis_refused(r, reply, err);
    *out = (uint64_t)reply->integer;
    return true;
}

void redis_command(struct redis *r, size_t words, const char *command)
{
    requests_begin(&r->rq, words, command);
    requests_key(&r->rq, r->uri.key, r->uri.key_len);
}

/* Appends a command that is answered by k bits; or, one by one, k such commands. */
static void ask_bits(struct redis *r, const uint64_t *positions)
{
    if (!r->one_by_one)
        redis_command(r, 2 + 3 * (size_t)r->k, "BITFIELD_RO");
    for (unsigned j = 0; j < r->k; j++) {
        if (r->one_by_one) {
            redis_command(r, 3, "GETBIT");
        } else {
            requests_word(&r->rq, "GET");
            requests_word(&r->rq, "u1");
        }
        requests_number(&r->rq, positions[j]);
    }
}

/* The same, and sets them. */
static void set_bits(struct redis *r, const uint64_t *positions)
{
    redis_command(r, 2 + 4 * (size_t)r->k, "BITFIELD");
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

/* How many of a key's k bits are set, by the reply to BITFIELD. */
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

/* The bitmap's length, as a reply to STRLEN in a batch. */
static bool take_length(struct redis *r, const struct reply *reply, struct err *err)
{
    uint64_t len = 0;
    if (!redis_number(r, reply, &len, err))
        return false;
    if (len < r->len)
        return fail(err, "cannot go on with '%.1000s': the bitmap was deleted or replaced by a "
                         "shorter one", r->store.name);
    r->len = len;
    return true;
}

/* ---- Asking. */

static void find_positions(struct redis *r, struct hashes keys, size_t at, size_t n)
{
    const struct layer *layer = layer_of(r);
    layer->kind->layout->positions(layer, hashes_from(keys, at), n, r->positions);
}

/* The key's answers are replies[0] on; returns how many they are in *used. */
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

/* Sets bit i of present if key i is in, for keys [at, at + n) of a batch at most. The length comes
 * last: what has no length has lost its bits before. */
static bool ask_batch(struct redis *r, struct hashes keys, size_t at, size_t n, uint64_t *present,
                      struct err *err)
{
    size_t next = 0, used;
    requests_clear(&r->rq);
    find_positions(r, keys, at, n);
    for (size_t i = 0; i < n; i++)
        ask_bits(r, r->positions + i * r->k);
    redis_command(r, 2, "STRLEN");
    if (!cluster_run(r->cluster, &r->rq, CLUSTER_REPEAT, r->replies, err))
        return false;
    for (size_t i = at; i < at + n; i++, next += used) {
        bool is_in;
        if (!take_key(r, r->replies + next, &used, &is_in, err))
            return false;
        if (is_in)
            bit_set(present, i);
    }
    return take_length(r, r->replies[next], err);
}

static bool ask(struct redis *r, struct hashes keys, size_t at, size_t n, uint64_t *present,
                struct err *err)
{
    for (size_t end = at + n, some; at < end; at += some) {
        some = end - at < r->batch ? end - at : r->batch;
        if (!ask_batch(r, keys, at, some, present, err))
            return false;
    }
    return true;
}

static bool query(struct store *s, struct hashes keys, size_t n, uint64_t *present,
                  struct err *err)
{
    struct redis *r = redis_of(s);
    memset(present, 0, (n + 63) / 64 * sizeof *present);
    pthread_mutex_lock(&r->lock);
    bool ok = ask(r, keys, 0, n, present, err);
    pthread_mutex_unlock(&r->lock);
    return ok;
}

/* ---- All bits. */

static bool count_bits(struct redis *r, struct err *err)
{
    requests_clear(&r->rq);
    redis_command(r, 2, "BITCOUNT");
    if (!cluster_run(r->cluster, &r->rq, CLUSTER_REPEAT, r->replies, err) ||
        !redis_number(r, r->replies[0], &r->counted, err))
        return false;
    r->set = r->counted;
    return true;
}

bool redis_read_chunk(struct redis *r, uint64_t at, size_t n, uint8_t *out, struct err *err)
{
    requests_clear(&r->rq);
    redis_command(r, 4, "GETRANGE");
    requests_number(&r->rq, at);
    requests_number(&r->rq, at + n - 1);
    if (!cluster_run(r->cluster, &r->rq, CLUSTER_REPEAT, r->replies, err))
        return false;
    const struct reply *text = r->replies[0];
    if (text->type != REPLY_STRING || text->n > n)
        return redis_refused(r, text, err);
    if (text->n > 0)
        memcpy(out, text->text, text->n);
    memset(out + text->n, 0, n - text->n);
    return true;
}

/* A copy of the bitmap, as bits of the layer. */
static bool read_bits(struct redis *r, uint8_t *data, struct err *err)
{
    uint8_t *chunk = malloc(REDIS_CHUNK);
    bool ok = chunk != NULL || fail(err, "out of memory");
    uint64_t len = layer_of(r)->data_len;
    for (uint64_t at = 0; ok && at < len; at += REDIS_CHUNK) {
        size_t n = len - at < REDIS_CHUNK ? (size_t)(len - at) : REDIS_CHUNK;
        const struct layout_bits bits = {.data = chunk, .len = n, .order = ORDER_HIGH_FIRST};
        ok = redis_read_chunk(r, at, n, chunk, err);
        if (ok)
            layout_take(&bits, 0, data + at, n);
    }
    free(chunk);
    return ok;
}

/* Where the bits' number does not tell the FPR, the bits are fetched. */
static bool sample(struct redis *r, unsigned threads, struct census *all, struct err *err)
{
    const struct layer *layer = layer_of(r);
    uint8_t *data = malloc((size_t)layer->data_len);
    bool ok = (data != NULL || fail(err, "out of memory")) && read_bits(r, data, err);
    if (ok)
        all->fpr = layer->kind->sampled_fpr(layer, data, threads, all->bits_set);
    free(data);
    return ok;
}

static bool take_census(struct store *s, unsigned threads, struct census *layer,
                        struct census *all, struct err *err)
{
    struct redis *r = redis_of(s);
    const struct kind *kind = layer_of(r)->kind;
    pthread_mutex_lock(&r->lock);
    bool ok = count_bits(r, err);
    if (ok) {
        kind->layout->census_of(layer_of(r), r->set, &layer[0]);
        *all = layer[0];
        ok = kind->sampled_fpr == NULL || sample(r, threads, all, err);
    }
    pthread_mutex_unlock(&r->lock);
    return ok;
}

static void describe(const struct store *s, struct facts *facts)
{
    const struct redis *r = const_redis_of(s);
    *facts = (struct facts){.layers = {&r->header, r->data}, .counters = r->header.counters};
}

/* ---- Adding. */

static double fpr_with(const struct redis *r, uint64_t set)
{
    struct census census;
    layer_of(r)->kind->layout->census_of(layer_of(r), set, &census);
    return census.fpr;
}

static bool add_begin(struct store *s, const struct add_options *options, struct err *err)
{
    struct redis *r = redis_of(s);
    const struct layers layers = {&r->header, r->data};
    r->options = *options;
    r->warned_fpr = 0;
    return writer_check(layers, s->name, options, err) && count_bits(r, err);
}

/* Deals with key i, by the reply to its command. */
static bool take_added(struct redis *r, const struct reply *reply, uint64_t *known, size_t i,
                       struct err *err)
{
    struct add_state *state = &r->store.state;
    unsigned n_set;
    if (!take_bits(r, reply, &n_set, err))
        return false;
    if (n_set == r->k) {
        bit_set(known, i);
        return true;
    }
    double fpr = fpr_with(r, r->set);
    r->set += r->k - n_set;
    state->n_new++;
    state->dropped += fpr < 1 ? fpr / (1 - fpr) : 0;
    return true;
}

/* Takes the replies to a batch of keys from *done on, up to the first that is missing; true if none
 * is. The length before the batch comes first: if it has shrunk, the keys went into another
 * bitmap. */
static bool take_batch(struct redis *r, uint64_t *known, size_t end, size_t *done, struct err *err)
{
    size_t next = 0;
    const struct reply *reply = r->replies[next++];
    if (reply == NULL || !take_length(r, reply, err))
        return false;
    for (; *done < end; ++*done) {
        if (bit_of(known, *done))
            continue;
        reply = r->replies[next++];
        if (reply == NULL || !take_added(r, reply, known, *done, err))
            return false;
    }
    reply = r->replies[next];
    return reply != NULL && take_length(r, reply, err);
}

/* Adds keys [*done, end), a batch at most. Each is one command, so that it is added as a whole. */
static bool add_batch(struct redis *r, struct hashes keys, uint64_t *known, size_t end,
                      size_t *done, struct err *err)
{
    struct err why;
    requests_clear(&r->rq);
    find_positions(r, keys, *done, end - *done);
    redis_command(r, 2, "STRLEN");
    for (size_t i = *done; i < end; i++)
        if (!bit_of(known, i))
            set_bits(r, r->positions + (i - *done) * r->k);
    redis_command(r, 2, "STRLEN");
    enum cluster_repeat repeat = r->options.may_repeat ? CLUSTER_REPEAT : CLUSTER_ONCE;
    bool ran = cluster_run(r->cluster, &r->rq, repeat, r->replies, &why);
    *err = why;
    return take_batch(r, known, end, done, err) && ran;
}

/* How many keys may be added at most before the FPR passes max_fpr, if all are new. */
static size_t fitting(const struct redis *r, size_t n)
{
    while (n > 0 && fpr_with(r, r->set + n * r->k) > r->options.max_fpr)
        n /= 2;
    return n;
}

/* Near max_fpr: those that are known pass; the first that is not stops. */
static enum add_result add_known(struct redis *r, struct hashes keys, uint64_t *known, size_t end,
                                 size_t *done, struct err *err)
{
    uint64_t present[BATCH_KEYS / 64] = {0};
    size_t at = *done;
    if (!ask(r, hashes_from(keys, at), 0, end - at, present, err))
        return ADD_FAILED;
    for (; *done < end; ++*done) {
        if (bit_of(present, *done - at))
            bit_set(known, *done);
        else if (!bit_of(known, *done))
            return writer_refuse(r->store.name, r->options.max_fpr, err);
    }
    return ADD_OK;
}

static bool warn(struct redis *r, const char *when, struct err *err)
{
    double limit = WRITER_WARN_FACTOR * r->header.fpr_design;
    if (fpr_with(r, r->set) <= limit)
        return true;
    if (!count_bits(r, err))
        return false;
    double fpr = fpr_with(r, r->set);
    if (fpr <= limit)
        return true;
    r->warned_fpr = fpr;
    writer_warn(&r->header, r->store.name, when, fpr, &r->store.state);
    return true;
}

/* Adds some of the keys [*done, n). */
static enum add_result add_some(struct redis *r, struct hashes keys, uint64_t *known, size_t n,
                                size_t *done, struct err *err)
{
    size_t wanted = n - *done < r->batch ? n - *done : r->batch, some = wanted;
    bool stale = (double)(r->set - r->counted) > COUNT_STEP * (double)r->m;
    if (stale && !count_bits(r, err))
        return ADD_FAILED;
    if (r->options.max_fpr > 0) {
        some = fitting(r, wanted);
        if (some < wanted && !count_bits(r, err))
            return ADD_FAILED;
        some = fitting(r, wanted);
        if (some == 0)
            return add_known(r, keys, known, *done + wanted, done, err);
    }
    return add_batch(r, keys, known, *done + some, done, err) &&
                   (r->warned_fpr > 0 || warn(r, "current", err))
               ? ADD_OK
               : ADD_FAILED;
}

static enum add_result add(struct store *s, struct hashes keys, uint64_t *known, size_t n,
                           size_t *done, struct err *err)
{
    struct redis *r = redis_of(s);
    enum add_result result = ADD_OK;
    *done = 0;
    s->state.warning[0] = '\0';
    pthread_mutex_lock(&r->lock);
    while (result == ADD_OK && *done < n)
        result = add_some(r, keys, known, n, done, err);
    pthread_mutex_unlock(&r->lock);
    return result;
}

static void conclude(struct store *s, bool again)
{
    struct redis *r = redis_of(s);
    struct err ignored;
    char before[NUM_TEXT], now[NUM_TEXT];
    s->state.warning[0] = '\0';
    if (r->warned_fpr == 0)
        return;
    num_show_fpr(before, r->warned_fpr);
    pthread_mutex_lock(&r->lock);
    bool ok = warn(r, "final", &ignored);
    pthread_mutex_unlock(&r->lock);
    if (!ok || (!again && strcmp(before, num_show_fpr(now, r->warned_fpr)) == 0))
        s->state.warning[0] = '\0';
}

/* What was answered is what the server has. */
static bool sync_keys(struct store *s, struct err *err)
{
    (void)s, (void)err;
    return true;
}

static bool add_end(struct store *s, bool sync, struct err *err)
{
    (void)s, (void)sync, (void)err;
    return true;
}

/* ---- Opening. */

static void close_redis(struct store *s)
{
    struct redis *r = redis_of(s);
    cluster_close(r->cluster);
    password_free(r->password);
    uri_free(&r->uri);
    requests_free(&r->rq);
    free(r->replies);
    free(r->positions);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static const struct store_ops ops = {
    .describe = describe,
    .query = query,
    .census = take_census,
    .add_begin = add_begin,
    .add = add,
    .conclude = conclude,
    .sync = sync_keys,
    .add_end = add_end,
    .close = close_redis,
};

/* Why the address is of no use. */
static bool unfit(const struct redis *r, struct err *err, const char *why)
{
    return fail(err, "cannot use '%.1000s': %s", r->store.name, why);
}

static bool parse_layout(struct redis *r, struct layout_spec *spec, struct err *err)
{
    struct err why;
    if (r->uri.layout == NULL)
        return unfit(r, err, "it does not say what the filter is: give ?layout=SPEC, as for 'seen "
                             "import'");
    if (!layout_parse(r->uri.layout, spec, &why))
        return unfit(r, err, why.text);
    if (spec->kind->layout->redis == NULL)
        return unfit(r, err, "filters of this layout are no bitmaps in Redis");
    return r->uri.shards <= 1 || unfit(r, err, "filters of several shards cannot be used yet");
}

static bool get_room(struct redis *r, struct err *err)
{
    size_t fit = BATCH_BITS / r->k;
    r->batch = fit < 1 ? 1 : fit < BATCH_KEYS ? fit : BATCH_KEYS;
    /* With a command for each bit, and STRLEN before and behind. */
    size_t commands = r->batch * r->k + 2;
    free(r->replies);
    r->replies = calloc(commands, sizeof *r->replies);
    r->positions = calloc(r->batch * r->k, sizeof *r->positions);
    return (r->replies != NULL && r->positions != NULL) || fail(err, "out of memory");
}

bool redis_ask_config(struct redis *r, const struct layout_redis *layout, const char **value,
                       bool *any, struct err *err)
{
    size_t n = 0;
    *any = false;
    while (layout->fields[n] != NULL)
        value[n++] = NULL;
    char *key = malloc(r->uri.key_len + LAYOUT_CONFIG_KEY);
    if (key == NULL)
        return fail(err, "out of memory");
    requests_clear(&r->rq);
    requests_begin(&r->rq, 2 + n, "HMGET");
    requests_key(&r->rq, key, layout->config_key(r->uri.key, r->uri.key_len, key));
    free(key);
    for (size_t i = 0; i < n; i++)
        requests_word(&r->rq, layout->fields[i]);
    if (!cluster_run(r->cluster, &r->rq, CLUSTER_REPEAT, r->replies, err))
        return false;
    const struct reply *fields = r->replies[0];
    if (fields->type != REPLY_ARRAY || fields->n != n)
        return redis_refused(r, fields, err);
    for (size_t i = 0; i < n; i++)
        if (fields->elements[i].type == REPLY_STRING &&
            strlen(fields->elements[i].text) == fields->elements[i].n) {
            value[i] = fields->elements[i].text;
            *any = true;
        }
    return true;
}

/* Finds out what the filter is: by the address and by the configuration. */
static bool settle(struct redis *r, bool *configured, struct err *err)
{
    struct layout_spec given, spec;
    struct layout_filter filter;
    struct layout_bits bits[LAYOUT_LAYERS] = {0};
    /* What is read is a filter without bits. */
    static const uint8_t nothing[1];
    const struct layout_foreign empty = {.name = {""}, .data = {nothing}};
    const char *value[LAYOUT_PARAMS];
    const struct key_rule rule = {0};
    struct err why;
    *configured = false;
    if (!parse_layout(r, &given, err))
        return false;
    const struct layout *layout = given.kind->layout;
    if (layout->redis->fields != NULL &&
        !redis_ask_config(r, layout->redis, value, configured, err))
        return false;
    struct layout_spec *final = *configured ? &spec : &given;
    if ((*configured && !layout->redis->configure(&given, value, &spec, &why)) ||
        !layout->read(final, &empty, &filter, bits, &why) ||
        !filter.layer[0].kind->check(&filter.layer[0], &why))
        return unfit(r, err, why.text);
    foreign_header(&filter, &rule, true, &r->header);
    r->header.counters.unknown = true;
    struct shape shape = layer_of(r)->kind->shape(layer_of(r));
    r->m = shape.m;
    r->k = shape.k;
    return true;
}

/* Bits beyond m: another filter has them. */
static bool check_end(struct redis *r, struct err *err)
{
    uint64_t bytes = (r->m + 7) / 8;
    char why[200];
    uint8_t last;
    if (r->len > bytes) {
        snprintf(why, sizeof why, "it is a string of %" PRIu64 " bytes, but %" PRIu64
                 " bits are %" PRIu64, r->len, r->m, bytes);
        return unfit(r, err, why);
    }
    if (r->len < bytes || r->m % 8 == 0)
        return true;
    if (!redis_read_chunk(r, bytes - 1, 1, &last, err))
        return false;
    return (last & 0xff >> r->m % 8) == 0 ||
           unfit(r, err, "bits are set beyond the last: the filter is larger");
}

/* Is the bitmap there, of the right type and length? Where there is a configuration, the bitmap
 * comes with the first key. */
static bool check_bitmap(struct redis *r, bool configured, struct err *err)
{
    uint64_t exists = 0;
    requests_clear(&r->rq);
    redis_command(r, 2, "EXISTS");
    redis_command(r, 2, "STRLEN");
    redis_command(r, 2, "BITFIELD_RO");
    if (!cluster_run(r->cluster, &r->rq, CLUSTER_REPEAT, r->replies, err) ||
        !redis_number(r, r->replies[0], &exists, err) || !take_length(r, r->replies[1], err))
        return false;
    r->one_by_one = r->replies[2]->type == REPLY_ERROR;
    if (exists == 0 && !configured)
        return unfit(r, err, "there is no such key");
    r->header.file_len = r->len;
    return check_end(r, err);
}

static const char *password_file;

void redis_password_file(const char *path)
{
    password_file = path;
}

/* Room for replies until the number of positions is known. */
enum { FIRST_REPLIES = 8 };

struct redis *redis_connect(const char *name, struct err *err)
{
    struct redis *r = calloc(1, sizeof *r);
    if (r == NULL) {
        fail(err, "out of memory");
        return NULL;
    }
    r->store = (struct store){.ops = &ops, .name = name};
    if (!uri_parse(name, &r->uri, err)) {
        free(r);
        return NULL;
    }
    pthread_mutex_init(&r->lock, NULL);
    r->replies = calloc(FIRST_REPLIES, sizeof *r->replies);
    if ((r->replies != NULL || fail(err, "out of memory")) &&
        password_read(password_file, &r->password, err)) {
        const struct cluster_options options = {
            .conn = {.password = r->password,
                     .connect_ms = CONN_CONNECT_MS,
                     .reply_ms = CONN_REPLY_MS},
            .patience_ms = CLUSTER_PATIENCE_MS};
        r->cluster = cluster_open(&r->uri, &options, err);
    }
    if (r->cluster != NULL)
        return r;
    close_redis(&r->store);
    return NULL;
}

struct store *redis_open(const char *name, enum store_mode mode, struct err *err)
{
    struct redis *r = redis_connect(name, err);
    bool configured;
    (void)mode;
    if (r == NULL)
        return NULL;
    if (settle(r, &configured, err) && get_room(r, err) && check_bitmap(r, configured, err))
        return &r->store;
    close_redis(&r->store);
    return NULL;
}

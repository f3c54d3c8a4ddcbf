#include "store/redis/bulk.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/ahead.h"
#include "base/bits.h"
#include "base/bytes.h"
#include "base/num.h"
#include "base/sig.h"
#include "store/redis/place.h"
#include "store/redis/redis.h"
#include "store/redis/temporary.h"

/* ---- A copy of the bitmaps.
 *
 * A local copy of all bitmaps of a filter, which is searched for keys, or
 * to which keys are added. Bits are in the order of Redis: bit x is in byte x / 8, at place
 * 7 - x mod 8.
 *
 *     struct copy c;
 *     if (copy_begin(&c, r, &err) && copy_fetch(&c, r, &err))
 *         copy_ask(&c, r, keys, n, present);
 *     copy_end(&c);
 */

struct copy {
    uint8_t **bits; /* of each shard: (m + 7) / 8 bytes */
    unsigned n_shards;
    uint64_t len;
};

/* Positions that are found at a time: 32 KiB of stack, enough for a key with the most positions
 * (4096). */
enum { POSITIONS = 4096 };

/* Allocates zeroes, in huge pages if most of them will be used, since each bit is in another page.
 * NULL: no memory. */
static uint8_t *get_bits(const struct redis *r, size_t len)
{
    void *bits = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bits == MAP_FAILED)
        return NULL;
    if (!layout_is_sparse(redis_layer(r)))
        madvise(bits, len, MADV_HUGEPAGE);
    return bits;
}

/* All bits are zero at first. copy_end must be called, also after a failure. */
static bool copy_begin(struct copy *c, const struct redis *r, struct err *err)
{
    assert(r->n_shards > 0);
    *c = (struct copy){.n_shards = r->n_shards, .len = (r->m + 7) / 8};
    if (c->len <= SIZE_MAX)
        c->bits = calloc(c->n_shards, sizeof *c->bits);
    bool ok = c->bits != NULL;
    for (unsigned i = 0; ok && i < c->n_shards; i++) {
        c->bits[i] = get_bits(r, (size_t)c->len);
        ok = c->bits[i] != NULL;
    }
    return ok || fail(err, "out of memory");
}

static void copy_end(struct copy *c)
{
    for (unsigned i = 0; c->bits != NULL && i < c->n_shards; i++)
        if (c->bits[i] != NULL)
            munmap(c->bits[i], (size_t)c->len);
    free(c->bits);
    c->bits = NULL;
}

/* Copies the bitmaps from the server, in chunks. Of keys that are added meanwhile, some bits may be
 * included. */
static bool copy_fetch(struct copy *c, struct redis *r, struct err *err)
{
    for (unsigned i = 0; i < c->n_shards; i++) {
        uint64_t len = r->shard[i].len < c->len ? r->shard[i].len : c->len;
        for (uint64_t at = 0; at < len; at += REDIS_CHUNK) {
            size_t n = len - at < REDIS_CHUNK ? (size_t)(len - at) : REDIS_CHUNK;
            if (sig_caught())
                return fail(err, "interrupted");
            if (!redis_read_chunk(r, &r->shard[i], at, n, c->bits[i] + at, err))
                return false;
        }
    }
    return true;
}

static unsigned mask_of(uint64_t position)
{
    return 0x80U >> position % 8;
}

/* A few keys with their positions, whose bytes are being prefetched. */
struct few {
    uint64_t position[POSITIONS];
    uint8_t *bits[LAYER_BATCH]; /* of each key's shard */
    unsigned shard[LAYER_BATCH];
};

static size_t few_keys(const struct redis *r, size_t n)
{
    size_t fit = POSITIONS / r->k;
    if (fit > LAYER_BATCH)
        fit = LAYER_BATCH;
    return n < fit ? n : fit;
}

static void find(const struct copy *c, const struct redis *r, struct hashes keys, size_t n,
                 struct few *few)
{
    const struct layer *layer = redis_layer(r);
    layer->kind->layout->positions(layer, keys, n, few->position);
    for (size_t i = 0; i < n; i++) {
        few->shard[i] = redis_shard_of(r, keys, i);
        few->bits[i] = c->bits[few->shard[i]];
        for (unsigned j = 0; j < r->k; j++)
            ahead_fetch(few->bits[i] + few->position[i * r->k + j] / 8);
    }
}

static bool has(const uint8_t *bits, const uint64_t *position, unsigned k)
{
    unsigned all = 1;
    for (unsigned j = 0; all && j < k; j++)
        all = (bits[position[j] / 8] & mask_of(position[j])) != 0;
    return all;
}

/* Returns how many bits became set. */
static unsigned set_bits(uint8_t *bits, const uint64_t *position, unsigned k)
{
    unsigned n = 0;
    for (unsigned j = 0; j < k; j++) {
        uint8_t *byte = bits + position[j] / 8;
        n += (*byte & mask_of(position[j])) == 0;
        *byte |= (uint8_t)mask_of(position[j]);
    }
    return n;
}

/* Sets bit i of present if key i is in. Any number of threads may ask. */
static void copy_ask(const struct copy *c, const struct redis *r, struct hashes keys, size_t n,
                     uint64_t *present)
{
    struct few few;
    for (size_t at = 0, some; at < n; at += some) {
        some = few_keys(r, n - at);
        find(c, r, hashes_from(keys, at), some, &few);
        for (size_t i = 0; i < some; i++)
            if (has(few.bits[i], few.position + i * r->k, r->k))
                bit_set(present, at + i);
    }
}

/* Adds those of n keys whose bit is not set in `known`. Sets the bits in `known` of keys that were
 * already in. Sets set[s] to the number of bits that became set in shard s, and new[s] to the
 * number of new keys. */
static void copy_add(struct copy *c, const struct redis *r, struct hashes keys, size_t n,
                     uint64_t *known, uint64_t *set, uint64_t *new)
{
    struct few few;
    memset(set, 0, c->n_shards * sizeof *set);
    memset(new, 0, c->n_shards * sizeof *new);
    for (size_t at = 0, some; at < n; at += some) {
        some = few_keys(r, n - at);
        find(c, r, hashes_from(keys, at), some, &few);
        for (size_t i = 0; i < some; i++) {
            if (bit_of(known, at + i))
                continue;
            unsigned n_set = set_bits(few.bits[i], few.position + i * r->k, r->k);
            if (n_set == 0)
                bit_set(known, at + i);
            set[few.shard[i]] += n_set;
            new[few.shard[i]] += n_set != 0;
        }
    }
}

/* Are these k bits of a shard set? */
static bool copy_has(const struct copy *c, const struct redis *r, unsigned shard,
                     const uint64_t *position)
{
    return has(c->bits[shard], position, r->k);
}

/* How many bits are set in a shard. */
static uint64_t copy_count(const struct copy *c, unsigned shard)
{
    return bytes_count(c->bits[shard], (size_t)c->len);
}

/* Costs in nanoseconds of CPU time, of client and server together. With commands, for each bit: to
 * query or to add it. With whole bitmaps, for each byte: to fetch it; or to send, unite and fetch
 * it. Measured with Redis 7.0 over a Unix socket. */
static const double ASK_BIT = 450, ADD_BIT = 500, FETCH_BYTE = 1, UNITE_BYTE = 4;

enum {
    /* Seconds after which a copy is no longer used, except with STORE_BULK. */
    MAX_AGE = 10,
    /* The largest copy in bytes, except with STORE_BULK. */
    MAX_COPY = 1 << 30,
    /* A chunk of input has CHUNK_GAIN times the break-even number of keys, if a record has
     * CHUNK_RECORD bytes, within these limits of its length. */
    CHUNK_GAIN = 24,
    CHUNK_RECORD = 40,
    CHUNK_MIN = 1 << 20,
    CHUNK_MAX = 32 << 20,
};

struct bulk {
    struct redis *r;
    struct copy copy;      /* for queries; bits NULL: none */
    pthread_rwlock_t lock; /* for the copy: held for reading by queries */
    time_t fetched;
    double spent;                 /* nanoseconds spent on commands since the last copy was made */
    bool too_slow;                /* making a copy takes so long that it is too old at once */
    uint64_t *set, *new;          /* for each shard: bits set and keys added by a call */
    atomic_ullong n_live, n_bulk; /* keys handled by commands, and with whole bitmaps */
    unsigned n_steps;
};

static double bytes_of(const struct redis *r)
{
    return (double)r->m / 8 * r->n_shards;
}

struct bulk *bulk_new(struct redis *r, struct err *err)
{
    struct bulk *b = calloc(1, sizeof *b);
    if (b != NULL) {
        b->r = r;
        b->set = calloc(r->n_shards, sizeof *b->set);
        b->new = calloc(r->n_shards, sizeof *b->new);
        pthread_rwlock_init(&b->lock, NULL);
    }
    if (b != NULL && b->set != NULL && b->new != NULL)
        return b;
    bulk_free(b);
    fail(err, "out of memory");
    return NULL;
}

void bulk_free(struct bulk *b)
{
    if (b == NULL)
        return;
    copy_end(&b->copy);
    pthread_rwlock_destroy(&b->lock);
    free(b->set);
    free(b->new);
    free(b);
}

static time_t now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* Replaces the copy by a current one. If a bitmap is deleted meanwhile, zeroes are read, so the
 * lengths are checked again afterwards. */
static bool renew(struct bulk *b, struct err *err)
{
    copy_end(&b->copy);
    b->fetched = now_s();
    bool ok = redis_lengths(b->r, err) && copy_begin(&b->copy, b->r, err) &&
              copy_fetch(&b->copy, b->r, err) && redis_lengths(b->r, err);
    if (!ok)
        copy_end(&b->copy);
    b->too_slow = now_s() - b->fetched >= MAX_AGE;
    b->spent = 0;
    return ok;
}

/* ---- Asking. */

static bool is_fresh(const struct bulk *b)
{
    return b->copy.bits != NULL && (b->r->way == STORE_BULK || now_s() - b->fetched < MAX_AGE);
}

/* Is it time for a copy? Yes, if the commands so far have cost more than a copy. */
static bool ask_pays(struct bulk *b, size_t n)
{
    const struct redis *r = b->r;
    b->spent += (double)n * r->k * ASK_BIT;
    return r->way == STORE_BULK ||
           (bytes_of(r) <= MAX_COPY && !b->too_slow && b->spent > bytes_of(r) * FETCH_BYTE);
}

/* Makes a copy if that pays. The store's lock is held meanwhile. */
static enum bulk_result prepare(struct bulk *b, size_t n, struct err *err)
{
    enum bulk_result result = BULK_DONE;
    pthread_mutex_lock(&b->r->lock);
    if (!is_fresh(b) && !ask_pays(b, n)) {
        result = BULK_NOT;
    } else if (!is_fresh(b)) {
        pthread_rwlock_wrlock(&b->lock);
        if (!renew(b, err))
            result = BULK_FAILED;
        pthread_rwlock_unlock(&b->lock);
    }
    pthread_mutex_unlock(&b->r->lock);
    return result;
}

static bool ask_copy(struct bulk *b, struct hashes keys, size_t n, uint64_t *present)
{
    pthread_rwlock_rdlock(&b->lock);
    bool fresh = is_fresh(b);
    if (fresh)
        copy_ask(&b->copy, b->r, keys, n, present);
    pthread_rwlock_unlock(&b->lock);
    return fresh;
}

enum bulk_result bulk_ask(struct bulk *b, struct hashes keys, size_t n, uint64_t *present,
                          struct err *err)
{
    enum bulk_result result = BULK_DONE;
    if (b->r->way == STORE_LIVE)
        return BULK_NOT;
    while (result == BULK_DONE && !ask_copy(b, keys, n, present))
        result = prepare(b, n, err);
    if (result == BULK_DONE)
        atomic_fetch_add(&b->n_bulk, n);
    return result;
}

/* ---- Adding. */

/* Can n keys be added without exceeding max_fpr, even if all are new, in whatever shards? */
static bool fits(const struct redis *r, uint64_t n)
{
    double sum = 0;
    for (unsigned i = 0; r->options.max_fpr > 0 && i < r->n_shards; i++)
        sum += redis_shard_fpr(r, r->shard[i].set + n * r->k);
    return r->options.max_fpr == 0 || sum / r->n_shards <= r->options.max_fpr;
}

/* Does it pay to move all bits for n keys? It must take less than half of the cost of commands. */
static bool add_pays(const struct redis *r, size_t n)
{
    return r->way == STORE_BULK ||
           (bytes_of(r) <= MAX_COPY && (double)n * r->k * ADD_BIT > 2 * UNITE_BYTE * bytes_of(r));
}

/* The mean of fpr / (1 - fpr) while `more` bits are set in a shard that has `from`, by the
 * midpoints of STEPS parts. The function grows like x^k; for k = 14 the sum is 3 % too low. */
static double mean_dropped(const struct redis *r, uint64_t from, uint64_t more)
{
    enum { STEPS = 16 };
    double sum = 0;
    for (unsigned i = 0; i < STEPS; i++) {
        double fpr = redis_shard_fpr(r, from + more / STEPS * i + more / (2 * STEPS));
        sum += fpr < 1 ? fpr / (1 - fpr) : 0;
    }
    return sum / STEPS;
}

/* Notes what a call has added. */
static void count(struct bulk *b)
{
    struct redis *r = b->r;
    for (unsigned i = 0; i < r->n_shards; i++) {
        struct shard *s = &r->shard[i];
        r->store.state.dropped += (double)b->new[i] * mean_dropped(r, s->set, b->set[i]);
        r->store.state.n_new += b->new[i];
        s->set += b->set[i];
    }
}

/* ---- Steps. */

/* Steps for several shards at once. */
struct steps {
    struct temporary *temporary; /* key NULL: nothing for that shard */
    size_t *at, *n;              /* for each shard: the first of its replies, and their number */
};

static bool steps_begin(struct steps *s, const struct redis *r, struct err *err)
{
    s->temporary = calloc(r->n_shards, sizeof *s->temporary);
    s->at = calloc(r->n_shards, sizeof *s->at);
    s->n = calloc(r->n_shards, sizeof *s->n);
    return (s->temporary != NULL && s->at != NULL && s->n != NULL) || fail(err, "out of memory");
}

static void steps_end(struct steps *s, struct redis *r)
{
    if (s->temporary != NULL)
        temporary_drop(r, s->temporary, r->n_shards);
    for (unsigned i = 0; s->temporary != NULL && i < r->n_shards; i++)
        temporary_free(&s->temporary[i]);
    free(s->temporary);
    free(s->at);
    free(s->n);
}

/* Writes the bitmaps of a copy, except for empty ones, to temporary keys. */
static bool write_all(struct steps *s, struct redis *r, const struct copy *c, struct err *err)
{
    for (unsigned i = 0; i < r->n_shards; i++) {
        const struct layout_bits bits = {.data = c->bits[i],
                                         .len = layout_trimmed(c->bits[i], c->len),
                                         .order = ORDER_LOW_FIRST};
        if (bits.len > 0 && (!temporary_name(&s->temporary[i], r, &r->shard[i], err) ||
                             !temporary_write(&s->temporary[i], &bits, err)))
            return false;
    }
    return true;
}

/* Runs the steps. If this fails with CLUSTER_ONCE, some may have been executed. */
static bool run_all(struct steps *s, struct redis *r, enum cluster_repeat repeat, struct err *err)
{
    uint64_t *until = calloc(r->n_shards, sizeof *until);
    bool ok = until != NULL || fail(err, "out of memory");
    size_t at = 0;
    for (unsigned i = 0; ok && i < r->n_shards; i++)
        if (s->temporary[i].key != NULL)
            ok = temporary_life(r, &r->shard[i], 0, &until[i], err);
    requests_clear(&r->rq);
    for (unsigned i = 0; ok && i < r->n_shards; i++)
        if (s->temporary[i].key != NULL) {
            s->at[i] = at;
            s->n[i] = unite_queue(&s->temporary[i], &r->shard[i], until[i], true);
            at += s->n[i];
        }
    free(until);
    return ok && redis_run(r, repeat, err);
}

/* Takes the replies, and puts the previous contents into the copy. */
static bool take_all(struct steps *s, struct redis *r, struct copy *c, struct err *err)
{
    for (unsigned i = 0; i < r->n_shards; i++) {
        const struct reply *before;
        if (s->n[i] == 0)
            continue;
        if (!unite_take(&s->temporary[i], &r->shard[i], s->at[i], s->n[i], &before, err))
            return false;
        size_t len = before->n < c->len ? before->n : (size_t)c->len;
        memcpy(c->bits[i], before->text, len);
        memset(c->bits[i] + len, 0, (size_t)c->len - len);
        if (r->shard[i].has_witness && !copy_has(c, r, i, r->shard[i].witness))
            return redis_lost(r, err);
        r->shard[i].set = r->shard[i].counted = copy_count(c, i);
    }
    return true;
}

static bool unite_all(struct bulk *b, struct copy *c, struct err *err)
{
    struct redis *r = b->r;
    struct steps s = {0};
    enum cluster_repeat repeat = r->options.may_repeat ? CLUSTER_REPEAT : CLUSTER_ONCE;
    bool ran = steps_begin(&s, r, err) && write_all(&s, r, c, err);
    bool ok = ran && run_all(&s, r, repeat, err) && take_all(&s, r, c, err);
    steps_end(&s, r);
    b->n_steps++;
    return ok;
}

/* Is the configuration of each shard still there? Else another client has deleted it. */
static bool check_config(struct redis *r, struct err *err)
{
    const struct layout_redis *redis = redis_layer(r)->kind->layout->redis;
    uint64_t there;
    for (unsigned i = 0; r->configured && i < r->n_shards; i++) {
        requests_clear(&r->rq);
        if (!redis_config_exists(r, redis, &r->shard[i], err) ||
            !redis_run(r, CLUSTER_REPEAT, err) || !redis_number(r, r->replies[0], &there, err))
            return false;
        if (there == 0)
            return redis_lost(r, err);
    }
    return true;
}

/* Makes the first key of each shard that was added its witness. */
static void find_witnesses(struct redis *r, struct hashes keys, const uint64_t *known, size_t n)
{
    const struct layer *layer = redis_layer(r);
    unsigned n_found = 0;
    for (unsigned i = 0; i < r->n_shards; i++)
        r->shard[i].first = n;
    for (size_t k = 0; k < n && n_found < r->n_shards; k++) {
        struct shard *s = &r->shard[redis_shard_of(r, keys, k)];
        if (bit_of(known, k) || s->first < n)
            continue;
        layer->kind->layout->positions(layer, hashes_from(keys, k), 1, s->witness);
        s->has_witness = true;
        s->first = k;
        n_found++;
    }
}

/* Unites the keys with the bitmaps. Then searches the previous contents to tell which were new. */
static enum bulk_result add_in_step(struct bulk *b, struct hashes keys, uint64_t *known, size_t n,
                                    struct err *err)
{
    size_t words = (n + 63) / 64;
    struct copy c;
    uint64_t *ignored = malloc((words + 1) * sizeof *ignored);
    if (ignored == NULL)
        return fail(err, "out of memory"), BULK_FAILED;
    memcpy(ignored, known, words * sizeof *ignored);
    bool ok = copy_begin(&c, b->r, err);
    if (ok) {
        copy_add(&c, b->r, keys, n, ignored, b->set, b->new);
        ok = unite_all(b, &c, err);
    }
    ok = ok && check_config(b->r, err);
    if (ok) {
        find_witnesses(b->r, keys, known, n);
        copy_add(&c, b->r, keys, n, known, b->set, b->new);
        count(b);
    }
    copy_end(&c);
    free(ignored);
    return ok ? BULK_DONE : BULK_FAILED;
}

static size_t count_unknown(const uint64_t *known, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += !bit_of(known, i);
    return count;
}

/* Can the keys be added without exceeding max_fpr? If it seems so, the bits on the server are
 * counted to be sure. */
static bool may_add(struct redis *r, size_t n, bool *may, struct err *err)
{
    *may = fits(r, n);
    if (!*may || r->options.max_fpr == 0)
        return true;
    if (!redis_count(r, err))
        return false;
    *may = fits(r, n);
    return true;
}

enum bulk_result bulk_add(struct bulk *b, struct hashes keys, uint64_t *known, size_t n,
                          size_t *done, struct err *err)
{
    struct hashes rest = hashes_from(keys, *done);
    size_t n_rest = n - *done;
    uint64_t *known_rest = known + *done / 64;
    bool may;
    if (*done % 64 != 0 || b->r->way == STORE_LIVE ||
        !add_pays(b->r, count_unknown(known_rest, n_rest)))
        return BULK_NOT;
    if (!may_add(b->r, n_rest, &may, err))
        return BULK_FAILED;
    if (!may)
        return BULK_NOT;
    enum bulk_result result = add_in_step(b, rest, known_rest, n_rest, err);
    if (result == BULK_DONE) {
        *done = n;
        atomic_fetch_add(&b->n_bulk, n_rest);
    }
    return result;
}

/* ---- Descriptions. */

size_t bulk_chunk(const struct redis *r)
{
    double even = 2 * UNITE_BYTE * bytes_of(r) / (r->k * ADD_BIT);
    double len = even * CHUNK_GAIN * CHUNK_RECORD;
    if (r->way == STORE_LIVE || (r->way == STORE_AUTO && bytes_of(r) > MAX_COPY))
        return 0;
    return len < CHUNK_MIN ? CHUNK_MIN : len < CHUNK_MAX ? (size_t)len : CHUNK_MAX;
}

void bulk_count_live(struct bulk *b, size_t n)
{
    atomic_fetch_add(&b->n_live, n);
}

void bulk_describe(struct bulk *b, char *out, size_t room)
{
    const struct redis *r = b->r;
    unsigned long long live = atomic_load(&b->n_live), bulk = atomic_load(&b->n_bulk);
    char size[NUM_TEXT];
    num_show_bytes(size, (r->m + 7) / 8 * r->n_shards);
    int n = snprintf(out, room, "%llu key%s sent by commands", live, num_plural(live));
    if (bulk == 0 || n < 0 || (size_t)n >= room)
        return;
    if (b->n_steps > 0)
        snprintf(out + n, room - (size_t)n, ", %llu in %u step%s that moved bitmaps of %s", bulk,
                 b->n_steps, num_plural(b->n_steps), size);
    else
        snprintf(out + n, room - (size_t)n, ", %llu asked of a copy of %s", bulk, size);
}

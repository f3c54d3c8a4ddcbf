/* SPDX-License-Identifier: MIT */
#include "kind/ribbon/ribbon.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "keys/keyset.h"
#include "keys/sort.h"
#include "kind/ribbon/key.h"
#include "kind/target.h"

/* Slots of a table for n keys, in thousandths of n. Below 1000, since some keys are bumped anyway
 * and full slots cost least. The last table should hold nearly all its keys. */
enum { LOAD = 965, LAST_LOAD = 1100 };
static const unsigned usual_load[RIBBON_TABLES] = {LOAD, LOAD, LAST_LOAD};

/* With few keys, the best load varies from set to set. So several loads are tried for tables 0 and
 * 1; load 0 means no table. From FEW keys on, this would gain less than a thousandth. */
enum { FEW = 200000, MAX_LOAD = 1200 };
static const unsigned load_0[] = {LOAD, 900, 930, 950, 980, 1000, 1020, 1050, 1100, MAX_LOAD, 0};
static const unsigned load_1[] = {LOAD, 1050, MAX_LOAD, 0};

enum {
    N_LOAD_0 = sizeof load_0 / sizeof *load_0,
    N_LOAD_1 = sizeof load_1 / sizeof *load_1,
};

/* A table bumps 6 % of random keys; for a second table of 12,000 keys or more, the standard
 * deviation is 1 %. If a table bumps more than an eighth, the keys were chosen. The table is then
 * left out, and all its keys go to the list. So table t gets at most RIBBON_LARGEST / 8^t keys. The
 * last table is always kept. */
enum { MOST_BUMPED = 8 };

/* Slots of a table for n keys; at least one segment. */
#define SLOTS(n, load) (((uint64_t)(n) * (load) / 1000 / RIBBON_WIDTH + 1) * RIBBON_WIDTH)

/* The most slots of all tables of a block, for the largest partition or when loads are tried. */
#define MOST_SLOTS                                                                                 \
    (SLOTS(RIBBON_LARGEST, LOAD) + SLOTS(RIBBON_LARGEST / MOST_BUMPED, LOAD) +                     \
     SLOTS(RIBBON_LARGEST / MOST_BUMPED / MOST_BUMPED, LAST_LOAD))
_Static_assert(2 * SLOTS(FEW, MAX_LOAD) + SLOTS(FEW, LAST_LOAD) <= MOST_SLOTS,
               "few keys, all of which come to every table");

/* Capacity for rows. The last bucket's rows may reach past the last table. */
#define ROWS_ROOM (MOST_SLOTS + RIBBON_BUCKET + RIBBON_WIDTH)

/* Capacity for keys. derive() reads up to 7 more. With few keys, a copy of the bumped keys is kept
 * after them. */
#define KEY_ROOM (RIBBON_LARGEST + 7)
_Static_assert(2 * FEW <= KEY_ROOM, "few keys, and as many behind them");

/* Capacity for thresholds, in bytes: whole bytes for each table, padded to a multiple of 8. */
#define HEAD_ROOM (MOST_SLOTS / (8 * RIBBON_WIDTH) + RIBBON_TABLES + 7)

/* Capacity for segments, in bytes. */
#define BODY_ROOM (MOST_SLOTS / RIBBON_WIDTH * 8 * RIBBON_MAX_COLUMNS)

struct work {
    struct ribbon_rows rows; /* of all tables in sequence */
    uint64_t *x, *bumped, *tmp;
    uint8_t *body, *head;
    const struct ribbon_variant *variant;
    struct ribbon_equations equations;
    size_t slots, thresholds_len, body_len; /* used so far */
};

uint64_t ribbon_build_memory(void)
{
    return 3 * KEY_ROOM * sizeof(uint64_t) + ROWS_ROOM * (sizeof(uint64_t) + sizeof(uint32_t)) +
           BODY_ROOM;
}

static uint64_t segments_for(uint64_t n, unsigned load)
{
    uint64_t slots = n * load / 1000;
    uint64_t segments = (slots + RIBBON_WIDTH - 1) / RIBBON_WIDTH;
    return n == 0 || load == 0 ? 0 : segments + (segments == 0);
}

/* The inverse of ribbon_mix. */
static uint64_t unmix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xcfee444d8b59a89b; /* 1 / 0xd6e8feb86659fd93 mod 2^64 */
    x ^= x >> 32;
    x *= 0xcfee444d8b59a89b;
    return x ^ x >> 32;
}

static void ribbon_work_free(struct work *w)
{
    if (w == NULL)
        return;
    free(w->rows.coefficients);
    free(w->rows.bits);
    free(w->x);
    free(w->bumped);
    free(w->tmp);
    free(w->body);
    free(w->head);
    free(w);
}

/* calloc() of a large block uses memory only where it is touched, and sanitizers detect accesses
 * beyond it. */
static struct work *ribbon_work_new(void)
{
    struct work *w = calloc(1, sizeof *w);
    if (w == NULL)
        return NULL;
    w->rows.coefficients = calloc(ROWS_ROOM, sizeof *w->rows.coefficients);
    w->rows.bits = calloc(ROWS_ROOM, sizeof *w->rows.bits);
    w->x = calloc(KEY_ROOM, sizeof *w->x);
    w->bumped = calloc(KEY_ROOM, sizeof *w->bumped);
    w->tmp = calloc(KEY_ROOM, sizeof *w->tmp);
    w->body = calloc(BODY_ROOM, 1);
    w->head = calloc(HEAD_ROOM, 1);
    if (w->rows.coefficients && w->rows.bits && w->x && w->bumped && w->tmp && w->body && w->head)
        return w;
    ribbon_work_free(w);
    return NULL;
}

/* The keys of a bucket, by the threshold level that bumps them. A threshold of l bumps keys
 * begin[0] to begin[l] - 1, which start below limit l. */
struct bucket {
    uint64_t number;
    size_t begin[4];
};

/* The bucket of x[at] and the following keys. */
static struct bucket find_bucket(const uint64_t *x, size_t at, size_t n, uint64_t segments)
{
    struct bucket b = {.begin = {at, at, at, at}};
    uint64_t first = ribbon_start(x[at], segments) / RIBBON_BUCKET * RIBBON_BUCKET;
    b.number = first / RIBBON_BUCKET;
    for (; at < n; at++) {
        uint64_t offset = ribbon_start(x[at], segments) - first;
        if (offset >= RIBBON_BUCKET)
            break;
        b.begin[1] += offset < ribbon_limit[1];
        b.begin[2] += offset < ribbon_limit[2];
    }
    b.begin[3] = at;
    return b;
}

/* A table under construction. */
struct ribbon_table {
    uint64_t segments;
    struct ribbon_rows rows;
    unsigned columns;
};

static bool insert_rows(struct work *w, const struct ribbon_table *t, const uint64_t *x, size_t n)
{
    if (n > RIBBON_GROUP)
        return false;
    w->variant->derive(x, n, RIBBON_WIDTH * t->segments - (RIBBON_WIDTH - 1), &w->equations);
    return w->variant->add(&t->rows, t->columns, &w->equations, n);
}

/* Adds rows for the keys of a bucket, level by level from the back, since the keys at the front are
 * bumped first. Returns the threshold: the first level that does not fit, or 0. */
static unsigned add_bucket(struct work *w, const struct ribbon_table *t, const uint64_t *x,
                           const struct bucket *b)
{
    unsigned level = 3;
    while (level > 0 &&
           insert_rows(w, t, x + b->begin[level - 1], b->begin[level] - b->begin[level - 1]))
        level--;
    return level;
}

/* Appends a table to the rows, and its thresholds (all zero) to the head. */
static struct ribbon_table begin_table(struct work *w, unsigned columns, uint64_t segments)
{
    struct ribbon_table t = {
        segments, {w->rows.coefficients + w->slots, w->rows.bits + w->slots}, columns};
    size_t slots = (size_t)segments * RIBBON_WIDTH, len = (size_t)ribbon_thresholds_len(segments);
    assert(w->slots + slots <= MOST_SLOTS && w->thresholds_len + len <= HEAD_ROOM);
    memset(t.rows.coefficients, 0, slots * sizeof *t.rows.coefficients);
    memset(t.rows.bits, 0, slots * sizeof *t.rows.bits);
    memset(w->head + w->thresholds_len, 0, len);
    w->slots += slots;
    w->thresholds_len += len;
    return t;
}

/* Makes the rows and thresholds of a table for x[0..n), ascending. Copies the bumped keys to
 * w->tmp; returns their number. */
static size_t band(struct work *w, unsigned columns, const uint64_t *x, size_t n, uint64_t segments)
{
    uint8_t *thresholds = w->head + w->thresholds_len;
    struct ribbon_table t = begin_table(w, columns, segments);
    size_t n_bumped = 0;
    w->variant = ribbon_in_use();
    for (size_t at = 0; at < n;) {
        struct bucket b = find_bucket(x, at, n, segments);
        unsigned threshold = add_bucket(w, &t, x, &b);
        thresholds[b.number / 4] |= (uint8_t)(threshold << 2 * (b.number % 4));
        size_t count = b.begin[threshold] - b.begin[0];
        memcpy(w->tmp + n_bumped, x + b.begin[0], count * sizeof *x);
        n_bumped += count;
        at = b.begin[3];
    }
    return n_bumped;
}

/* Solves a table's rows, which begin at row `slots`, from the last to the first. Appends the
 * table's segments to the body. */
static void substitute(struct work *w, const struct ribbon *ribbon, size_t slots, uint64_t segments)
{
    uint64_t narrow = ribbon_narrow(ribbon, segments), s[RIBBON_MAX_COLUMNS] = {0};
    size_t len = 8 * (size_t)ribbon_words(ribbon, narrow, segments);
    assert(w->body_len + len <= BODY_ROOM);
    for (uint64_t segment = segments; segment-- > 0;) {
        unsigned columns = ribbon->columns + (segment >= narrow);
        size_t row = slots + (size_t)segment * RIBBON_WIDTH;
        w->variant->solve(w->rows.coefficients + row, w->rows.bits + row, columns, s);
        uint8_t *to = w->body + w->body_len + 8 * ribbon_words(ribbon, narrow, segment);
        for (unsigned j = 0; j < columns; j++)
            put_le64(to + 8 * j, s[j]);
    }
    w->body_len += len;
}

/* How to build a block. */
struct recipe {
    unsigned load[RIBBON_TABLES];
    uint8_t seed;
    bool tried; /* one of several that are compared: no table is left out */
};

/* Sets w->bumped to the x0 of the table's keys x[0..n). x may be w->bumped itself. */
static size_t bump(struct work *w, const struct recipe *recipe, unsigned t, const uint64_t *x,
                   size_t n)
{
    unsigned number = t + 8 * recipe->seed;
    for (size_t i = 0; i < n; i++) /* the inverse of ribbon_x */
        w->bumped[i] = number == 0 ? x[i] : unmix(x[i]) - number * 0x9e3779b97f4a7c15;
    return n;
}

/* Makes the rows of table `t` for n keys. Table 0 reads their x0, ascending, from w->x and leaves
 * it unchanged; other tables read w->bumped. Puts the x0 of bumped keys in w->bumped and returns
 * their number. With 0 columns, only determines which keys are bumped. */
static size_t do_table(struct work *w, unsigned columns, const struct recipe *recipe, unsigned t,
                       size_t n, struct ribbon_entry *entry)
{
    uint64_t segments = segments_for(n, recipe->load[t]);
    const uint64_t *x0 = t == 0 ? w->x : w->bumped, *x = x0;
    size_t slots = w->slots, thresholds_len = w->thresholds_len;
    entry->segments[t] = (uint32_t)segments;
    if (segments == 0) {
        memmove(w->bumped, x0, n * sizeof *x0);
        return n;
    }
    if (t + recipe->seed > 0) {
        for (size_t i = 0; i < n; i++)
            w->bumped[i] = ribbon_x(x0[i], t, recipe->seed);
        sort_hashes(w->bumped, w->tmp, n, 64);
        x = w->bumped;
    }
    size_t n_bumped = band(w, columns, x, n, segments);
    if (recipe->tried || t == RIBBON_TABLES - 1 || n_bumped <= n / MOST_BUMPED)
        return bump(w, recipe, t, w->tmp, n_bumped);
    w->slots = slots;
    w->thresholds_len = thresholds_len;
    entry->segments[t] = 0;
    return bump(w, recipe, t, x, n);
}

static size_t first_table(struct work *w, unsigned columns, const struct recipe *recipe, size_t n,
                          struct ribbon_entry *entry)
{
    w->slots = w->thresholds_len = 0;
    return do_table(w, columns, recipe, 0, n, entry);
}

static void later_tables(struct work *w, unsigned columns, const struct recipe *recipe, size_t n,
                         struct ribbon_entry *entry)
{
    for (unsigned t = 1; t < RIBBON_TABLES; t++) {
        if (entry->segments[t - 1] != 0)
            n = do_table(w, columns, recipe, t, n, entry);
        else
            entry->segments[t] = 0;
    }
    entry->listed = (uint32_t)n;
}

/* Finds the best recipe for few keys with this seed; returns the bytes of the block. The keys that
 * table 0 bumps are used for several loads of table 1, so a copy is kept after the keys in w->x. */
static uint64_t try_loads(struct work *w, const struct ribbon *ribbon, size_t n, uint8_t seed,
                          struct recipe *best)
{
    uint64_t best_len = UINT64_MAX, *kept = w->x + n;
    for (size_t a = 0; a < N_LOAD_0; a++) {
        struct ribbon_entry entry = {0};
        struct recipe r = {{load_0[a], 0, LAST_LOAD}, seed, true};
        size_t n_bumped = first_table(w, 0, &r, n, &entry);
        size_t thresholds_len = w->thresholds_len, slots = w->slots;
        memcpy(kept, w->bumped, n_bumped * sizeof *kept);
        for (size_t b = 0; b < N_LOAD_1; b++) {
            r.load[1] = load_1[b];
            memcpy(w->bumped, kept, n_bumped * sizeof *kept);
            w->thresholds_len = thresholds_len;
            w->slots = slots;
            later_tables(w, 0, &r, n_bumped, &entry);
            uint64_t len = ribbon_block_len(ribbon, &entry);
            if (len < best_len) {
                best_len = len;
                *best = r;
            }
        }
    }
    return best_len;
}

/* Returns the number of keys that the first table bumped. */
static size_t build_by(struct work *w, const struct ribbon *ribbon, const struct recipe *r,
                       size_t n, struct ribbon_entry *entry)
{
    unsigned columns = ribbon->columns + (ribbon->wide != 0);
    size_t n_bumped = first_table(w, columns, r, n, entry);
    later_tables(w, columns, r, n_bumped, entry);
    entry->seed = r->seed;
    return n_bumped;
}

static void build_rows(struct work *w, const struct ribbon *ribbon, size_t n,
                       struct ribbon_entry *entry)
{
    struct recipe r = {{usual_load[0], usual_load[1], usual_load[2]}, 0, false}, other;
    if (ribbon->bits == 0 && n < FEW) {
        uint64_t len = try_loads(w, ribbon, n, 0, &r);
        /* In a longer block, the keys were probably chosen. */
        uint64_t longest = (uint64_t)n * (ribbon->columns + 1) / 8 * 5 / 4 + 1024;
        if (len > longest && try_loads(w, ribbon, n, 1, &other) < len)
            r = other;
        build_by(w, ribbon, &r, n, entry);
        return;
    }
    if (build_by(w, ribbon, &r, n, entry) > n / 10 || entry->listed > n / 1000) {
        r.seed = 1;
        build_by(w, ribbon, &r, n, entry);
    }
}

/* Makes the list of leftover keys, in place. */
static const uint8_t *make_list(struct work *w, size_t n, unsigned bits)
{
    uint8_t *list = (uint8_t *)w->bumped;
    for (size_t i = 0; i < n; i++)
        w->bumped[i] = ribbon_turn(w->bumped[i], 64 - bits);
    sort_hashes(w->bumped, w->tmp, n, 64);
    for (size_t i = 0; i < n; i++)
        put_le64(list + 8 * i, w->bumped[i]);
    return list;
}

/* A block is its parts in sequence: thresholds, list, segments. They are valid until the worker's
 * next block. */
enum { BLOCK_PARTS = 3 };

struct block {
    struct ribbon_entry entry; /* `at` is set when the block has its place */
    struct {
        const uint8_t *at;
        size_t len;
    } part[BLOCK_PARTS];
};

static double fpr_of_block(void *ctx, const struct ribbon *ribbon)
{
    const struct block *block = ctx;
    return ribbon_block_fpr(ribbon, &block->entry, block->part[0].at);
}

/* Builds a block of at most RIBBON_LARGEST hashes, ascending and distinct. The only block of a
 * layer gives the ribbon more columns if its FPR would exceed p. */
static void build_block(struct work *w, struct ribbon *ribbon, double p, const uint64_t *hash,
                        size_t n, struct block *out)
{
    size_t slots = 0;
    assert(n <= RIBBON_LARGEST);
    out->entry = (struct ribbon_entry){.keys = (uint32_t)n};
    for (size_t i = 0; i < n; i++)
        w->x[i] = ribbon_turn(hash[i], ribbon->bits);
    build_rows(w, ribbon, n, &out->entry);
    while (w->thresholds_len % 8 != 0)
        w->head[w->thresholds_len++] = 0;
    assert(w->thresholds_len <= HEAD_ROOM);
    out->part[0].at = w->head;
    out->part[0].len = w->thresholds_len;
    out->part[1].at = make_list(w, out->entry.listed, ribbon->bits);
    out->part[1].len = (size_t)8 * out->entry.listed;
    /* Columns do not affect which keys are bumped. */
    if (ribbon->bits == 0)
        ribbon_keep_rate(ribbon, p, fpr_of_block, out);
    w->body_len = 0;
    for (unsigned t = 0; t < RIBBON_TABLES; t++) {
        substitute(w, ribbon, slots, out->entry.segments[t]);
        slots += (size_t)out->entry.segments[t] * RIBBON_WIDTH;
    }
    out->part[2].at = w->body;
    out->part[2].len = w->body_len;
}

/* A layer under construction. Blocks are built in parallel and stored in order. */
struct ribbon_builder {
    const struct target *target;
    struct ribbon ribbon;
    struct work **work;   /* one for each thread */
    pthread_mutex_t lock; /* protects all members below */
    pthread_cond_t turned;
    uint64_t turn; /* the prefix whose block comes next */
    bool gave_up;
    uint64_t at; /* offset of the next block in the data */
    uint8_t *directory;
    double p, fpr; /* the largest FPR allowed, and the FPR so far */
    uint64_t n;
};

static void give_up_layer(void *ctx)
{
    struct ribbon_builder *b = ctx;
    pthread_mutex_lock(&b->lock);
    b->gave_up = true;
    pthread_cond_broadcast(&b->turned);
    pthread_mutex_unlock(&b->lock);
}

/* Waits for the block's turn, then assigns its offset in the data. */
static bool place_block(struct ribbon_builder *b, uint64_t prefix, struct block *block,
                        struct err *err)
{
    double fpr = ribbon_block_fpr(&b->ribbon, &block->entry, block->part[0].at);
    pthread_mutex_lock(&b->lock);
    while (b->turn != prefix && !b->gave_up)
        pthread_cond_wait(&b->turned, &b->lock);
    bool ok = !b->gave_up || fail(err, "given up");
    block->entry.at = b->at;
    ribbon_put_entry(&block->entry, b->directory + prefix * RIBBON_ENTRY);
    b->at += ribbon_block_len(&b->ribbon, &block->entry);
    b->fpr += fpr;
    b->n += block->entry.keys;
    b->turn++;
    pthread_cond_broadcast(&b->turned);
    pthread_mutex_unlock(&b->lock);
    return ok;
}

static bool visit_prefix(void *ctx, const struct keyset_range *range, struct err *err)
{
    struct ribbon_builder *b = ctx;
    struct block block;
    if (range->had_repeats && b->target->presumed)
        return fail(err, "some keys are repeated");
    if (range->last - range->first != UINT64_MAX >> b->ribbon.bits)
        return kind_crowded(RIBBON_LARGEST, err);
    build_block(b->work[range->worker], &b->ribbon, b->p, range->hash, range->n, &block);
    bool ok = place_block(b, range->first >> 1 >> (63 - b->ribbon.bits), &block, err);
    uint64_t at = block.entry.at;
    for (unsigned i = 0; i < BLOCK_PARTS; at += block.part[i++].len)
        ok = ok && target_write(b->target, block.part[i].at, block.part[i].len, at, err);
    return ok;
}

/* Begins a layer with these columns. */
static bool start_layer(struct ribbon_builder *b, const struct target *target,
                        const struct ribbon *ribbon, struct err *err)
{
    *b = (struct ribbon_builder){.target = target,
                                 .ribbon = *ribbon,
                                 .lock = PTHREAD_MUTEX_INITIALIZER,
                                 .turned = PTHREAD_COND_INITIALIZER,
                                 .p = target->layer->fpr_design};
    b->directory = malloc((size_t)ribbon_directory_len(&b->ribbon));
    b->work = calloc(target->threads, sizeof *b->work);
    bool ok = b->directory != NULL && b->work != NULL;
    for (unsigned i = 0; ok && i < target->threads; i++)
        ok = (b->work[i] = ribbon_work_new()) != NULL;
    return ok || fail(err, "out of memory");
}

static bool build_blocks(struct ribbon_builder *b, const struct target *target, struct keyset *keys,
                         const struct ribbon *ribbon, struct err *err)
{
    bool ok = start_layer(b, target, ribbon, err) &&
              keyset_visit_sorted(keys, b->ribbon.bits, visit_prefix, give_up_layer, b, err);
    if (ok) {
        uint64_t len = ribbon_directory_len(&b->ribbon);
        ribbon_to(&b->ribbon, target->layer);
        target_resize(target, b->at + len);
        ok = target_write(target, b->directory, len, b->at, err) && target_sums(target, err);
    }
    for (unsigned i = 0; b->work != NULL && i < target->threads; i++)
        ribbon_work_free(b->work[i]);
    free(b->work);
    free(b->directory);
    return ok;
}

/* Tolerance for FPRs, which are sums of many rounded terms. */
static const double ROUNDING = 1e-9;

bool ribbon_build(const struct target *target, struct keyset *keys, struct census *census,
                  struct err *err)
{
    struct ribbon ribbon = ribbon_of(target->layer);
    struct ribbon_builder b;
    bool ok = build_blocks(&b, target, keys, &ribbon, err);
    /* Chosen keys may be bumped only from wide segments. Then make all segments wide. */
    if (ok && b.fpr > b.p * (1 + ROUNDING) && b.ribbon.wide != 0) {
        ribbon.columns++;
        ribbon.wide = 0;
        ok = build_blocks(&b, target, keys, &ribbon, err);
    }
    double n = (double)b.n;
    *census = (struct census){.fpr = b.fpr, .n = n, .n_low = n, .n_high = n, .n_exact = true};
    return ok;
}

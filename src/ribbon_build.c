#include "ribbon_build.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "build.h"
#include "bytes.h"
#include "format.h"
#include "keyset.h"
#include "newfile.h"
#include "ribbon_key.h"
#include "sort.h"

/* Slots of a table for n keys, in thousandths of n. Fewer than keys: some keys are bumped anyway, and
 * full slots cost least. In a last table nearly all should find room. */
static const unsigned usual_load[RIBBON_TABLES] = {965, 965, 1100};

/* With few keys the chance of each set counts, so several loads are tried for tables 0 and 1; 0 is no
 * table at all. From FEW keys on that would gain less than a thousandth. */
enum { FEW = 200000 };
static const unsigned load_0[] = {965, 900, 930, 950, 980, 1000, 1020, 1050, 1100, 1200, 0};
static const unsigned load_1[] = {965, 1050, 1200, 0};

enum {
    N_LOAD_0 = sizeof load_0 / sizeof *load_0,
    N_LOAD_1 = sizeof load_1 / sizeof *load_1,
    MAX_LOAD = 1200, /* of few keys only */
};

/* Slots for which there is room: of the largest table, and a segment for rounding. */
enum { ROOM = RIBBON_LARGEST + RIBBON_WIDTH };

/* Thresholds of three tables, at most. */
enum { THRESHOLDS_ROOM = 3 * (ROOM / (4 * RIBBON_BUCKET) + 2) + 8 };

/* Keys of a bucket whose equations are worked out before the first of them is solved: more than there
 * are on average. */
enum { CHUNK = 192 };

#define INLINE static inline __attribute__((always_inline))

struct ribbon_work {
    uint64_t *coefficients; /* of each slot's row, its own bit lowest; 0: no row */
    uint32_t *bits;         /* right side of the row */
    uint64_t *x, *bumped, *tmp;
    uint8_t *body;
    uint8_t *head;
    struct lane *lanes; /* three */
    size_t body_len, thresholds_len;
};

enum {
    KEY_ROOM = RIBBON_LARGEST * sizeof(uint64_t),
    BODY_ROOM = (ROOM / RIBBON_WIDTH + 3) * 2 * 8 * RIBBON_MAX_COLUMNS,
};

uint64_t ribbon_build_memory(void)
{
    return (uint64_t)3 * KEY_ROOM + ROOM * (sizeof(uint64_t) + sizeof(uint32_t)) +
           (ROOM / RIBBON_WIDTH) * 8 * RIBBON_MAX_COLUMNS;
}

/* Memory that takes up room only where it is used: hardly any set needs all of it. */
static void *get_memory(size_t len)
{
    void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void give_memory(void *p, size_t len)
{
    if (p != NULL)
        munmap(p, len);
}

static uint64_t segments_for(uint64_t n, unsigned load)
{
    uint64_t slots = n * load / 1000;
    return n == 0 || load == 0 ? 0 : slots / RIBBON_WIDTH + (slots % RIBBON_WIDTH != 0 || slots == 0);
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

/* The inverse of ribbon_x. */
static uint64_t x0_of(uint64_t x, unsigned table, unsigned seed)
{
    unsigned number = table + 8 * seed;
    return number == 0 ? x : unmix(x) - number * 0x9e3779b97f4a7c15;
}

/* The level of threshold that bumps a key at that offset of a bucket. */
static unsigned level_of(unsigned offset)
{
    return offset < ribbon_limit[1] ? 1 : offset < ribbon_limit[2] ? 2 : 3;
}

/* An equation on its way to a row. */
struct equation {
    uint64_t slot, c;
    uint32_t bits;
};

/* Buckets of a table that are done one after another. In each the keys come from the last slot to the
 * first: those at the front are the ones to be bumped, so when one finds no row, all before it go with
 * it, and those of its level of threshold. */
struct lane {
    struct ribbon_work *w;
    uint8_t *thresholds;
    uint64_t segments;
    uint64_t *x;      /* keys of all buckets, ascending */
    size_t n, at;     /* keys; those before the current bucket's end */
    size_t bucket_at; /* where the bucket's keys begin; those before n_waiting are not begun */
    size_t n_waiting;
    size_t n_bumped;  /* moved to the front of x */
    uint64_t bucket;
    /* Equations of the bucket that are worked out; the last one comes next. */
    size_t n_ready;
    uint64_t start[CHUNK], c[CHUNK];
    /* What a failure takes back: rows of this bucket that were added at the level reached. */
    unsigned level;
    size_t n_group;
    uint64_t group[RIBBON_BUCKET + 2 * RIBBON_WIDTH];
};

struct ribbon_work *ribbon_work_new(void)
{
    struct ribbon_work *w = calloc(1, sizeof *w);
    if (w == NULL)
        return NULL;
    w->coefficients = get_memory(ROOM * sizeof *w->coefficients);
    w->bits = get_memory(ROOM * sizeof *w->bits);
    w->x = get_memory(KEY_ROOM);
    w->bumped = get_memory(KEY_ROOM);
    w->tmp = get_memory(KEY_ROOM);
    w->body = get_memory(BODY_ROOM);
    w->head = get_memory(THRESHOLDS_ROOM + KEY_ROOM);
    w->lanes = calloc(3, sizeof *w->lanes);
    if (w->coefficients && w->bits && w->x && w->bumped && w->tmp && w->body && w->head && w->lanes)
        return w;
    ribbon_work_free(w);
    return NULL;
}

void ribbon_work_free(struct ribbon_work *w)
{
    if (w == NULL)
        return;
    give_memory(w->coefficients, ROOM * sizeof *w->coefficients);
    give_memory(w->bits, ROOM * sizeof *w->bits);
    give_memory(w->x, KEY_ROOM);
    give_memory(w->bumped, KEY_ROOM);
    give_memory(w->tmp, KEY_ROOM);
    give_memory(w->body, BODY_ROOM);
    give_memory(w->head, THRESHOLDS_ROOM + KEY_ROOM);
    free(w->lanes);
    free(w);
}

static uint64_t bucket_of(const struct lane *lane, size_t i)
{
    return ribbon_start(lane->x[i], lane->segments) / RIBBON_BUCKET;
}

static void make_ready(struct lane *lane)
{
    size_t left = lane->n_waiting - lane->bucket_at, count = left < CHUNK ? left : CHUNK;
    const uint64_t *x = lane->x + (lane->n_waiting - count);
    for (size_t i = 0; i < count; i++) {
        lane->start[i] = ribbon_start(x[i], lane->segments);
        lane->c[i] = ribbon_coefficients(x[i]);
    }
    lane->n_waiting -= count;
    lane->n_ready = count;
}

static bool next_bucket(struct lane *lane)
{
    if (lane->at == lane->n)
        return false;
    lane->bucket_at = lane->at;
    lane->bucket = bucket_of(lane, lane->at);
    while (lane->at < lane->n && bucket_of(lane, lane->at) == lane->bucket)
        lane->at++;
    lane->n_waiting = lane->at;
    lane->level = 0;
    lane->n_group = 0;
    return true;
}

/* The next equation of a lane; false at its end. */
static bool next_equation(struct lane *lane, struct equation *e)
{
    if (lane->n_ready == 0) {
        if (lane->n_waiting == lane->bucket_at && !next_bucket(lane))
            return false;
        make_ready(lane);
    }
    size_t i = --lane->n_ready;
    unsigned level = level_of((unsigned)(lane->start[i] % RIBBON_BUCKET));
    if (level != lane->level) {
        lane->level = level;
        lane->n_group = 0;
    }
    *e = (struct equation){lane->start[i], lane->c[i],
                           ribbon_fingerprint(lane->x[lane->n_waiting + i])};
    return true;
}

/* An equation that contradicts the rows, or says what they say already: the bucket's threshold rises to
 * the level reached. */
static void bump_bucket(struct lane *lane)
{
    for (size_t g = 0; g < lane->n_group; g++) {
        lane->w->coefficients[lane->group[g]] = 0;
        lane->w->bits[lane->group[g]] = 0;
    }
    lane->thresholds[lane->bucket / 4] |= (uint8_t)(lane->level << 2 * (lane->bucket % 4));
    unsigned limit = ribbon_limit[lane->level];
    for (size_t i = lane->bucket_at; i < lane->at; i++) {
        if (ribbon_start(lane->x[i], lane->segments) % RIBBON_BUCKET >= limit)
            break;
        lane->x[lane->n_bumped++] = lane->x[i];
    }
    lane->n_ready = 0;
    lane->n_waiting = lane->bucket_at;
}

/* One step of elimination, or the next equation of the lane; false at its end. */
INLINE bool step(struct lane *lane, uint64_t *rows, uint32_t *bits, struct equation *e)
{
    uint64_t row = rows[e->slot];
    if (row == 0) {
        rows[e->slot] = e->c;
        bits[e->slot] = e->bits;
        lane->group[lane->n_group++] = e->slot;
        return next_equation(lane, e);
    }
    e->c ^= row;
    e->bits ^= bits[e->slot];
    if (e->c == 0) {
        bump_bucket(lane);
        return next_equation(lane, e);
    }
    unsigned skip = (unsigned)__builtin_ctzll(e->c);
    e->slot += skip;
    e->c >>= skip;
    return true;
}

static void run_lane(struct lane *lane)
{
    uint64_t *rows = lane->w->coefficients;
    uint32_t *bits = lane->w->bits;
    struct equation e;
    if (next_equation(lane, &e))
        while (step(lane, rows, bits, &e))
            ;
}

/* Two lanes whose rows do not meet. Each step must wait for the one before in its lane, most of the
 * time for memory: with two lanes at once much of that time is used. */
static void run_lanes(struct lane *a, struct lane *b)
{
    uint64_t *rows = a->w->coefficients;
    uint32_t *bits = a->w->bits;
    struct equation of_a, of_b;
    bool a_goes = next_equation(a, &of_a), b_goes = next_equation(b, &of_b);
    while (a_goes && b_goes) {
        a_goes = step(a, rows, bits, &of_a);
        b_goes = step(b, rows, bits, &of_b);
    }
    while (a_goes)
        a_goes = step(a, rows, bits, &of_a);
    while (b_goes)
        b_goes = step(b, rows, bits, &of_b);
}

/* The first of x[0..n) that starts at that bucket or behind it. */
static size_t find_bucket(const uint64_t *x, size_t n, uint64_t segments, uint64_t bucket)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ribbon_start(x[middle], segments) / RIBBON_BUCKET < bucket)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Buckets from which on a table is made in two lanes, with one bucket between them, which comes last: a
 * key's rows reach no farther than into the next bucket. It will bump most of its keys. */
enum { LANES_FROM = 512 };

static size_t band_in_lanes(struct ribbon_work *w, uint64_t *x, size_t n, uint64_t segments,
                            uint8_t *thresholds)
{
    uint64_t middle = segments / 4;
    size_t gap = find_bucket(x, n, segments, middle);
    size_t right = find_bucket(x, n, segments, middle + 1);
    struct lane *lanes = w->lanes;
    lanes[0] = (struct lane){w, thresholds, segments, x, gap, .level = 0};
    lanes[1] = (struct lane){w, thresholds, segments, x + gap, right - gap, .level = 0};
    lanes[2] = (struct lane){w, thresholds, segments, x + right, n - right, .level = 0};
    run_lanes(&lanes[0], &lanes[2]);
    run_lane(&lanes[1]);
    size_t n_bumped = 0;
    for (unsigned i = 0; i < 3; i++) {
        memmove(x + n_bumped, lanes[i].x, lanes[i].n_bumped * sizeof *x);
        n_bumped += lanes[i].n_bumped;
    }
    return n_bumped;
}

/* Makes the rows of a table of x[0..n), ascending, and appends its thresholds to the head. Moves the
 * bumped ones to the front of x and returns their number. */
static size_t band(struct ribbon_work *w, uint64_t *x, size_t n, uint64_t segments)
{
    uint8_t *thresholds = w->head + w->thresholds_len;
    uint64_t slots = segments * RIBBON_WIDTH;
    w->thresholds_len += ribbon_thresholds_len(segments);
    memset(thresholds, 0, ribbon_thresholds_len(segments));
    memset(w->coefficients, 0, slots * sizeof *w->coefficients);
    memset(w->bits, 0, slots * sizeof *w->bits);
    if (slots / RIBBON_BUCKET >= LANES_FROM)
        return band_in_lanes(w, x, n, segments, thresholds);
    w->lanes[0] = (struct lane){w, thresholds, segments, x, n, .level = 0};
    run_lane(&w->lanes[0]);
    return w->lanes[0].n_bumped;
}

/* Solves the rows from the last to the first and appends the slots to the body, segment by segment. */
static void substitute(struct ribbon_work *w, const struct ribbon *ribbon, uint64_t segments)
{
    uint64_t narrow = ribbon_narrow(ribbon, segments), s[RIBBON_MAX_COLUMNS] = {0};
    for (uint64_t segment = segments; segment-- > 0;) {
        unsigned columns = ribbon->columns + (segment >= narrow);
        ribbon_solve(w->coefficients + segment * RIBBON_WIDTH, w->bits + segment * RIBBON_WIDTH,
                     columns, s);
        uint8_t *to = w->body + w->body_len + 8 * ribbon_words(ribbon, narrow, segment);
        for (unsigned j = 0; j < columns; j++)
            put_le64(to + 8 * j, s[j]);
    }
    w->body_len += 8 * ribbon_words(ribbon, narrow, segments);
}

/* How to build a block. */
struct recipe {
    unsigned load[RIBBON_TABLES];
    uint8_t seed;
};

/* The x of the table for keys whose x0 are given, ascending. */
static void take_x(struct ribbon_work *w, uint64_t *x, const uint64_t *x0, size_t n,
                   unsigned table, uint8_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = ribbon_x(x0[i], table, seed);
    if (table + seed > 0)
        sort_hashes(x, w->tmp, n, 64);
}

/* Does table `t` for those n keys whose x0 are in w->bumped, and leaves there those that it bumped. */
static size_t next_table(struct ribbon_work *w, const struct ribbon *ribbon,
                         const struct recipe *recipe, unsigned t, size_t n,
                         struct ribbon_entry *entry)
{
    uint64_t segments = segments_for(n, recipe->load[t]);
    entry->segments[t] = (uint32_t)segments;
    if (segments == 0)
        return n;
    take_x(w, w->bumped, w->bumped, n, t, recipe->seed);
    size_t n_bumped = band(w, w->bumped, n, segments);
    if (ribbon != NULL)
        substitute(w, ribbon, segments);
    for (size_t i = 0; i < n_bumped; i++)
        w->bumped[i] = x0_of(w->bumped[i], t, recipe->seed);
    return n_bumped;
}

/* The first table is the large one: its keys are in w->x, unharmed. */
static size_t first_table(struct ribbon_work *w, const struct ribbon *ribbon,
                          const struct recipe *recipe, size_t n, struct ribbon_entry *entry)
{
    memcpy(w->bumped, w->x, n * sizeof *w->x);
    w->thresholds_len = w->body_len = 0;
    return next_table(w, ribbon, recipe, 0, n, entry);
}

static void later_tables(struct ribbon_work *w, const struct ribbon *ribbon,
                         const struct recipe *recipe, size_t n, struct ribbon_entry *entry)
{
    for (unsigned t = 1; t < RIBBON_TABLES; t++) {
        if (entry->segments[t - 1] != 0)
            n = next_table(w, ribbon, recipe, t, n, entry);
        else
            entry->segments[t] = 0;
    }
    entry->listed = (uint32_t)n;
}

/* The best recipe for few keys with this seed: bytes of the block. Bumped keys are tried several ways,
 * so they are kept behind those in w->x. */
static uint64_t try_loads(struct ribbon_work *w, const struct ribbon *ribbon, size_t n, uint8_t seed,
                          struct recipe *best)
{
    uint64_t best_len = UINT64_MAX, *kept = w->x + n;
    for (size_t a = 0; a < N_LOAD_0; a++) {
        struct ribbon_entry entry = {0};
        struct recipe r = {{load_0[a], 0, usual_load[2]}, seed};
        size_t n_bumped = first_table(w, NULL, &r, n, &entry);
        size_t thresholds_len = w->thresholds_len;
        memcpy(kept, w->bumped, n_bumped * sizeof *kept);
        for (size_t b = 0; b < N_LOAD_1; b++) {
            r.load[1] = load_1[b];
            memcpy(w->bumped, kept, n_bumped * sizeof *kept);
            w->thresholds_len = thresholds_len;
            later_tables(w, NULL, &r, n_bumped, &entry);
            uint64_t len = ribbon_block_len(ribbon, &entry);
            if (len < best_len) {
                best_len = len;
                *best = r;
            }
        }
    }
    return best_len;
}

static void build_by(struct ribbon_work *w, const struct ribbon *ribbon, const struct recipe *r,
                     size_t n, size_t *n_bumped, struct ribbon_entry *entry)
{
    *n_bumped = first_table(w, ribbon, r, n, entry);
    later_tables(w, ribbon, r, *n_bumped, entry);
    entry->seed = r->seed;
}

/* Bytes of a block above which few keys are thought to have been chosen so as to make it large. */
static uint64_t suspicious_len(const struct ribbon *ribbon, size_t n)
{
    return (uint64_t)n * (ribbon->columns + 1) / 8 * 5 / 4 + 1024;
}

static void build(struct ribbon_work *w, const struct ribbon *ribbon, size_t n, unsigned depth,
                  struct ribbon_entry *entry)
{
    struct recipe r = {{usual_load[0], usual_load[1], usual_load[2]}, 0}, other;
    size_t n_bumped;
    if (depth == 0 && n < FEW) {
        uint64_t len = try_loads(w, ribbon, n, 0, &r);
        if (len > suspicious_len(ribbon, n) && try_loads(w, ribbon, n, 1, &other) < len)
            r = other;
        build_by(w, ribbon, &r, n, &n_bumped, entry);
        return;
    }
    build_by(w, ribbon, &r, n, &n_bumped, entry);
    if (n_bumped > n / 10 || entry->listed > n / 1000) {
        r.seed = 1;
        build_by(w, ribbon, &r, n, &n_bumped, entry);
    }
}

/* Completes the head: zeroes, and the list of what was left over. */
static size_t end_head(struct ribbon_work *w, size_t n_listed, unsigned depth)
{
    size_t len = w->thresholds_len;
    while (len % 8 != 0)
        w->head[len++] = 0;
    for (size_t i = 0; i < n_listed; i++)
        w->bumped[i] = ribbon_turn(w->bumped[i], 64 - depth);
    sort_hashes(w->bumped, w->tmp, n_listed, 64);
    for (size_t i = 0; i < n_listed; i++, len += 8)
        put_le64(w->head + len, w->bumped[i]);
    return len;
}

void ribbon_work_block(struct ribbon_work *w, const struct ribbon *ribbon, const uint64_t *hash,
                       size_t n, unsigned depth, struct ribbon_block *out)
{
    *out = (struct ribbon_block){.entry = {.keys = (uint32_t)n}, .head = w->head, .body = w->body};
    for (size_t i = 0; i < n; i++)
        w->x[i] = ribbon_turn(hash[i], depth);
    build(w, ribbon, n, depth, &out->entry);
    out->head_len = end_head(w, out->entry.listed, depth);
    out->body_len = w->body_len;
}

/* A layer in the making. Blocks are built side by side and put behind one another in order. */
struct build {
    const struct build_target *target;
    struct ribbon ribbon;
    struct ribbon_work **work; /* one a thread */
    pthread_mutex_t lock;      /* of all that follows */
    pthread_cond_t turned;
    uint64_t turn; /* the prefix whose blocks come next */
    bool gave_up;
    uint64_t at; /* where the next block begins in the data */
    uint8_t *directory;
    uint64_t entries, room;
    double fpr;
    uint64_t n;
};

static void give_up(void *ctx)
{
    struct build *b = ctx;
    pthread_mutex_lock(&b->lock);
    b->gave_up = true;
    pthread_cond_broadcast(&b->turned);
    pthread_mutex_unlock(&b->lock);
}

/* Makes room for two more entries. */
static bool grow_directory(struct build *b, struct err *err)
{
    if (b->entries + 2 <= b->room)
        return true;
    uint64_t room = 2 * b->room + 2;
    uint8_t *directory = realloc(b->directory, (size_t)room * RIBBON_ENTRY);
    if (directory == NULL)
        return fail(err, "out of memory");
    memset(directory + b->room * RIBBON_ENTRY, 0, (size_t)(room - b->room) * RIBBON_ENTRY);
    b->directory = directory;
    b->room = room;
    return true;
}

/* Stores the entry of the hashes that begin with the top `depth` bits of `first`. */
static bool put_entry(struct build *b, uint64_t first, unsigned depth,
                      const struct ribbon_entry *entry, struct err *err)
{
    uint64_t number = first >> 1 >> (63 - b->ribbon.bits);
    for (unsigned d = b->ribbon.bits; d < depth; d++) {
        struct ribbon_entry e;
        if (!grow_directory(b, err))
            return false;
        ribbon_get_entry(b->directory + number * RIBBON_ENTRY, &e);
        if (!e.split) {
            e = (struct ribbon_entry){.at = b->entries, .split = true};
            ribbon_put_entry(&e, b->directory + number * RIBBON_ENTRY);
            b->entries += 2;
        }
        number = e.at + (first << d >> 63);
    }
    ribbon_put_entry(entry, b->directory + number * RIBBON_ENTRY);
    return true;
}

/* Gives a block its place, when it is its turn. */
static bool place_block(struct build *b, uint64_t prefix, uint64_t first, unsigned depth,
                        struct ribbon_block *block, double fpr, struct err *err)
{
    bool ok;
    pthread_mutex_lock(&b->lock);
    while (b->turn != prefix && !b->gave_up)
        pthread_cond_wait(&b->turned, &b->lock);
    block->entry.at = b->at;
    ok = b->gave_up ? fail(err, "given up") : put_entry(b, first, depth, &block->entry, err);
    b->at += block->head_len + block->body_len;
    b->fpr += fpr;
    b->n += block->entry.keys;
    pthread_mutex_unlock(&b->lock);
    return ok;
}

static bool write_block(struct build *b, const struct ribbon_block *block, struct err *err)
{
    const struct build_target *t = b->target;
    uint64_t off = t->header->layers[t->layer].data_off + block->entry.at;
    return write_all_at(t->fd, block->head, block->head_len, off, t->name, err) &&
           write_all_at(t->fd, block->body, block->body_len, off + block->head_len, t->name, err);
}

/* Builds what begins with the top `depth` bits of `first`. */
static bool build_part(struct build *b, const struct keyset_range *range, uint64_t first,
                       unsigned depth, const uint64_t *hash, size_t n, struct err *err)
{
    if (n > RIBBON_LARGEST) {
        uint64_t middle = first + ((uint64_t)1 << 63 >> (depth & 63));
        size_t below = 0;
        while (below < n && hash[below] < middle)
            below++;
        return build_part(b, range, first, depth + 1, hash, below, err) &&
               build_part(b, range, middle, depth + 1, hash + below, n - below, err);
    }
    struct ribbon_block block;
    ribbon_work_block(b->work[range->worker], &b->ribbon, hash, n, depth, &block);
    double fpr = ribbon_block_fpr(&b->ribbon, &block.entry, block.head, depth);
    return place_block(b, range->partition, first, depth, &block, fpr, err) &&
           write_block(b, &block, err);
}

static bool visit_part(void *ctx, const struct keyset_range *range, struct err *err)
{
    struct build *b = ctx;
    unsigned depth = range->first == range->last
                         ? 64
                         : (unsigned)__builtin_clzll(range->last - range->first);
    if (!build_part(b, range, range->first, depth, range->hash, range->n, err))
        return false;
    if (!range->ends_partition)
        return true;
    pthread_mutex_lock(&b->lock);
    b->turn++;
    pthread_cond_broadcast(&b->turned);
    pthread_mutex_unlock(&b->lock);
    return true;
}

static bool write_directory(struct build *b, struct err *err)
{
    const struct build_target *t = b->target;
    struct layer *layer = &t->header->layers[t->layer];
    b->ribbon.entries = b->entries;
    ribbon_to(&b->ribbon, layer);
    layer->data_len = b->at + b->entries * RIBBON_ENTRY;
    format_place(t->header);
    return write_all_at(t->fd, b->directory, b->entries * RIBBON_ENTRY, layer->data_off + b->at,
                        t->name, err) &&
           build_sums(t, err);
}

static bool start(struct build *b, struct err *err)
{
    b->ribbon = ribbon_of(&b->target->header->layers[b->target->layer]);
    b->ribbon.bits = ribbon_bits(b->target->n);
    b->entries = b->room = (uint64_t)1 << b->ribbon.bits;
    b->directory = calloc((size_t)b->room, RIBBON_ENTRY);
    b->work = calloc(b->target->threads, sizeof *b->work);
    bool ok = b->directory != NULL && b->work != NULL;
    for (unsigned i = 0; ok && i < b->target->threads; i++)
        ok = (b->work[i] = ribbon_work_new()) != NULL;
    return ok || fail(err, "out of memory");
}

bool ribbon_build(const struct build_target *target, struct keyset *keys, struct census *census,
                  struct err *err)
{
    struct build b = {.target = target,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .turned = PTHREAD_COND_INITIALIZER};
    bool ok = start(&b, err) &&
              keyset_visit_sorted(keys, b.ribbon.bits, visit_part, give_up, &b, err) &&
              write_directory(&b, err);
    for (unsigned i = 0; b.work != NULL && i < target->threads; i++)
        ribbon_work_free(b.work[i]);
    free(b.work);
    free(b.directory);
    double n = (double)b.n;
    *census = (struct census){.fpr = b.fpr, .n = n, .n_low = n, .n_high = n, .n_exact = true};
    return ok;
}

#include "kind/ribbon/build.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bytes.h"
#include "base/disk.h"
#include "keys/keyset.h"
#include "keys/sort.h"
#include "kind/ribbon/key.h"
#include "store/format.h"
#include "store/target.h"

/* Slots of a table for n keys, in thousandths of n. Fewer than keys: some keys are bumped anyway,
 * and full slots cost least. In a last table nearly all should find room. */
static const unsigned usual_load[RIBBON_TABLES] = {965, 965, 1100};

/* With few keys the chance of each set counts, so several loads are tried for tables 0 and 1; 0 is
 * no table at all. From FEW keys on that would gain less than a thousandth. */
enum { FEW = 200000 };
static const unsigned load_0[] = {965, 900, 930, 950, 980, 1000, 1020, 1050, 1100, 1200, 0};
static const unsigned load_1[] = {965, 1050, 1200, 0};

enum {
    N_LOAD_0 = sizeof load_0 / sizeof *load_0,
    N_LOAD_1 = sizeof load_1 / sizeof *load_1,
    MAX_LOAD = 1200, /* of few keys only */
};

/* Slots for which there is room: of the largest table, a segment for rounding, and as far as rows
 * of the last bucket might reach. */
enum { ROOM = RIBBON_LARGEST + RIBBON_WIDTH + RIBBON_BUCKET + RIBBON_WIDTH };

/* Thresholds of three tables, at most. */
enum { THRESHOLDS_ROOM = 3 * (ROOM / (4 * RIBBON_BUCKET) + 2) + 8 };

struct ribbon_work {
    struct ribbon_rows rows;
    uint64_t *x, *bumped, *tmp;
    uint8_t *body;
    uint8_t *head;
    const struct ribbon_variant *variant;
    struct ribbon_equations equations;
    size_t body_len, thresholds_len;
};

enum {
    KEY_ROOM = (RIBBON_LARGEST + 7) * sizeof(uint64_t), /* derive() reads some more */
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

/* The inverse of ribbon_x. */
static uint64_t x0_of(uint64_t x, unsigned table, unsigned seed)
{
    unsigned number = table + 8 * seed;
    return number == 0 ? x : unmix(x) - number * 0x9e3779b97f4a7c15;
}

struct ribbon_work *ribbon_work_new(void)
{
    struct ribbon_work *w = calloc(1, sizeof *w);
    if (w == NULL)
        return NULL;
    w->rows.coefficients = get_memory(ROOM * sizeof *w->rows.coefficients);
    w->rows.bits = get_memory(ROOM * sizeof *w->rows.bits);
    w->x = get_memory(KEY_ROOM);
    w->bumped = get_memory(KEY_ROOM);
    w->tmp = get_memory(KEY_ROOM);
    w->body = get_memory(BODY_ROOM);
    w->head = get_memory(THRESHOLDS_ROOM + KEY_ROOM);
    if (w->rows.coefficients && w->rows.bits && w->x && w->bumped && w->tmp && w->body && w->head)
        return w;
    ribbon_work_free(w);
    return NULL;
}

void ribbon_work_free(struct ribbon_work *w)
{
    if (w == NULL)
        return;
    give_memory(w->rows.coefficients, ROOM * sizeof *w->rows.coefficients);
    give_memory(w->rows.bits, ROOM * sizeof *w->rows.bits);
    give_memory(w->x, KEY_ROOM);
    give_memory(w->bumped, KEY_ROOM);
    give_memory(w->tmp, KEY_ROOM);
    give_memory(w->body, BODY_ROOM);
    give_memory(w->head, THRESHOLDS_ROOM + KEY_ROOM);
    free(w);
}

/* The keys of a bucket, by the level of threshold that bumps them: those from begin[l - 1] to
 * begin[l] start below limit l. */
struct bucket {
    uint64_t number;
    size_t begin[4];
};

/* The bucket of x[at] and of those behind it. */
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

static bool add(struct ribbon_work *w, unsigned columns, const uint64_t *x, size_t n,
                uint64_t segments)
{
    if (n > RIBBON_GROUP)
        return false;
    w->variant->derive(x, n, RIBBON_WIDTH * segments - (RIBBON_WIDTH - 1), &w->equations);
    return w->variant->add(&w->rows, columns, &w->equations, n);
}

/* Adds rows for the keys of a bucket: those at the front are the ones to be bumped, so first those
 * at the back, level by level. Returns the threshold, the first level which does not fit. */
static unsigned add_bucket(struct ribbon_work *w, unsigned columns, const uint64_t *x,
                           const struct bucket *b, uint64_t segments)
{
    unsigned level = 3;
    while (level > 0 && add(w, columns, x + b->begin[level - 1],
                            b->begin[level] - b->begin[level - 1], segments))
        level--;
    return level;
}

/* Makes the rows of a table of x[0..n), ascending, and appends its thresholds to the head. Moves
 * the bumped ones to w->bumped, which x may be, and returns their number. */
static size_t band(struct ribbon_work *w, const struct ribbon *ribbon, const uint64_t *x, size_t n,
                   uint64_t segments)
{
    unsigned columns = ribbon != NULL ? ribbon->columns + (ribbon->wide != 0) : 0;
    uint8_t *thresholds = w->head + w->thresholds_len;
    uint64_t slots = segments * RIBBON_WIDTH;
    size_t n_bumped = 0;
    w->variant = ribbon_in_use();
    w->thresholds_len += ribbon_thresholds_len(segments);
    memset(thresholds, 0, ribbon_thresholds_len(segments));
    memset(w->rows.coefficients, 0, slots * sizeof *w->rows.coefficients);
    memset(w->rows.bits, 0, slots * sizeof *w->rows.bits);
    for (size_t at = 0; at < n;) {
        struct bucket b = find_bucket(x, at, n, segments);
        unsigned threshold = add_bucket(w, columns, x, &b, segments);
        thresholds[b.number / 4] |= (uint8_t)(threshold << 2 * (b.number % 4));
        size_t count = b.begin[threshold] - b.begin[0];
        memmove(w->bumped + n_bumped, x + b.begin[0], count * sizeof *x);
        n_bumped += count;
        at = b.begin[3];
    }
    return n_bumped;
}

/* Solves the rows from the last to the first and appends the slots to the body, segment by
 * segment. */
static void substitute(struct ribbon_work *w, const struct ribbon *ribbon, uint64_t segments)
{
    uint64_t narrow = ribbon_narrow(ribbon, segments), s[RIBBON_MAX_COLUMNS] = {0};
    for (uint64_t segment = segments; segment-- > 0;) {
        unsigned columns = ribbon->columns + (segment >= narrow);
        w->variant->solve(w->rows.coefficients + segment * RIBBON_WIDTH,
                          w->rows.bits + segment * RIBBON_WIDTH, columns, s);
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

/* Does table `t` for n keys: of the first their x0, ascending, are in w->x, which it leaves
 * unharmed, of others in w->bumped. There it leaves the x0 of those that it bumped. Without
 * `ribbon` only finds out which ones these are. */
static size_t do_table(struct ribbon_work *w, const struct ribbon *ribbon,
                       const struct recipe *recipe, unsigned t, size_t n,
                       struct ribbon_entry *entry)
{
    uint64_t segments = segments_for(n, recipe->load[t]);
    const uint64_t *x0 = t == 0 ? w->x : w->bumped, *x = x0;
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
    size_t n_bumped = band(w, ribbon, x, n, segments);
    if (ribbon != NULL)
        substitute(w, ribbon, segments);
    for (size_t i = 0; i < n_bumped; i++)
        w->bumped[i] = x0_of(w->bumped[i], t, recipe->seed);
    return n_bumped;
}

static size_t first_table(struct ribbon_work *w, const struct ribbon *ribbon,
                          const struct recipe *recipe, size_t n, struct ribbon_entry *entry)
{
    w->thresholds_len = w->body_len = 0;
    return do_table(w, ribbon, recipe, 0, n, entry);
}

static void later_tables(struct ribbon_work *w, const struct ribbon *ribbon,
                         const struct recipe *recipe, size_t n, struct ribbon_entry *entry)
{
    for (unsigned t = 1; t < RIBBON_TABLES; t++) {
        if (entry->segments[t - 1] != 0)
            n = do_table(w, ribbon, recipe, t, n, entry);
        else
            entry->segments[t] = 0;
    }
    entry->listed = (uint32_t)n;
}

/* The best recipe for few keys with this seed: bytes of the block. Bumped keys are tried several
 * ways, so they are kept behind those in w->x. */
static uint64_t try_loads(struct ribbon_work *w, const struct ribbon *ribbon, size_t n,
                          uint8_t seed, struct recipe *best)
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
    const struct target *target;
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

/* The hashes that begin with the top `depth` bits of `first`. */
struct part {
    uint64_t first;
    unsigned depth;
    const uint64_t *hash;
    size_t n;
};

static bool put_entry(struct build *b, const struct part *part, const struct ribbon_entry *entry,
                      struct err *err)
{
    uint64_t number = part->first >> 1 >> (63 - b->ribbon.bits);
    for (unsigned d = b->ribbon.bits; d < part->depth; d++) {
        struct ribbon_entry e;
        if (!grow_directory(b, err))
            return false;
        ribbon_get_entry(b->directory + number * RIBBON_ENTRY, &e);
        if (!e.split) {
            e = (struct ribbon_entry){.at = b->entries, .split = true};
            ribbon_put_entry(&e, b->directory + number * RIBBON_ENTRY);
            b->entries += 2;
        }
        number = e.at + (part->first << d >> 63);
    }
    ribbon_put_entry(entry, b->directory + number * RIBBON_ENTRY);
    return true;
}

/* Gives a block its place, when it is its turn. */
static bool place_block(struct build *b, uint64_t prefix, const struct part *part,
                        struct ribbon_block *block, struct err *err)
{
    double fpr = ribbon_block_fpr(&b->ribbon, &block->entry, block->head, part->depth);
    pthread_mutex_lock(&b->lock);
    while (b->turn != prefix && !b->gave_up)
        pthread_cond_wait(&b->turned, &b->lock);
    block->entry.at = b->at;
    bool ok = b->gave_up ? fail(err, "given up") : put_entry(b, part, &block->entry, err);
    b->at += block->head_len + block->body_len;
    b->fpr += fpr;
    b->n += block->entry.keys;
    pthread_mutex_unlock(&b->lock);
    return ok;
}

static bool write_block(struct build *b, const struct ribbon_block *block, struct err *err)
{
    uint64_t at = block->entry.at;
    return target_write(b->target, block->head, block->head_len, at, err) &&
           target_write(b->target, block->body, block->body_len, at + block->head_len, err);
}

static bool build_part(struct build *b, const struct keyset_range *range, const struct part *part,
                       struct err *err)
{
    if (part->n > RIBBON_LARGEST) {
        struct part low = *part, high = *part;
        low.depth = high.depth = part->depth + 1;
        high.first += (uint64_t)1 << 63 >> (part->depth & 63);
        low.n = 0;
        while (low.n < part->n && part->hash[low.n] < high.first)
            low.n++;
        high.hash += low.n;
        high.n -= low.n;
        return build_part(b, range, &low, err) && build_part(b, range, &high, err);
    }
    struct ribbon_block block;
    ribbon_work_block(b->work[range->worker], &b->ribbon, part->hash, part->n, part->depth,
                      &block);
    return place_block(b, range->partition, part, &block, err) && write_block(b, &block, err);
}

static bool visit_part(void *ctx, const struct keyset_range *range, struct err *err)
{
    struct build *b = ctx;
    if (range->had_repeats && b->target->presumed)
        return fail(err, "some keys are repeated");
    struct part all = {range->first, 64, range->piece->hash, range->piece->n};
    if (range->first != range->last)
        all.depth = (unsigned)__builtin_clzll(range->last - range->first);
    if (!build_part(b, range, &all, err))
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
    const struct target *t = b->target;
    b->ribbon.entries = b->entries;
    ribbon_to(&b->ribbon, target_layer(t));
    target_resize(t, b->at + b->entries * RIBBON_ENTRY);
    return target_write(t, b->directory, b->entries * RIBBON_ENTRY, b->at, err) &&
           target_sums(t, err);
}

static bool start(struct build *b, struct err *err)
{
    b->ribbon = ribbon_of(target_layer(b->target));
    b->ribbon.bits = ribbon_bits(b->target->n);
    b->entries = b->room = (uint64_t)1 << b->ribbon.bits;
    b->directory = calloc((size_t)b->room, RIBBON_ENTRY);
    b->work = calloc(b->target->threads, sizeof *b->work);
    bool ok = b->directory != NULL && b->work != NULL;
    for (unsigned i = 0; ok && i < b->target->threads; i++)
        ok = (b->work[i] = ribbon_work_new()) != NULL;
    return ok || fail(err, "out of memory");
}

bool ribbon_build(const struct target *target, struct keyset *keys, struct census *census,
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

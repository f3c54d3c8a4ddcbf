/* SPDX-License-Identifier: MIT */
/* Queries of a ribbon filter. */
#include "base/bits.h"
#include "base/bytes.h"
#include "kind/ribbon/key.h"

struct variants ribbon_variants = {{
#ifdef CPU_X86
                                       &ribbon_avx512.variant,
                                       &ribbon_avx2.variant,
#endif
#ifdef CPU_NEON
                                       &ribbon_neon.variant,
#endif
                                       &ribbon_plain.variant,
                                   },
                                   NULL};

const struct ribbon_variant *ribbon_in_use(void)
{
    return (const void *)variant_in_use(&ribbon_variants);
}

static bool list_holds(const uint8_t *list, uint64_t n, uint64_t hash)
{
    uint64_t low = 0;
    while (n > 0) {
        uint64_t half = n / 2;
        if (get_le64(list + 8 * (low + half)) < hash) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return get_le64(list + 8 * low) == hash;
}

/* Searches the list, at offset `list`, for a key that no table holds. */
static enum ribbon_verdict look_up(const struct ribbon_source *s, const struct ribbon_entry *e,
                                   uint64_t list, uint64_t hash)
{
    enum ribbon_verdict v;
    if (e->listed == 0)
        return RIBBON_ABSENT;
    if (!ribbon_may_read(s, list, (uint64_t)8 * e->listed, &v))
        return v;
    uint64_t last = get_le64(s->data + list + 8 * ((uint64_t)e->listed - 1));
    return last == hash || (last > hash && list_holds(s->data + list, e->listed - 1, hash))
               ? RIBBON_PRESENT
               : RIBBON_ABSENT;
}

/* A key's path through the tables of its partition. */
struct way {
    struct ribbon_entry e;
    uint64_t x0;
    uint64_t thresholds, table; /* offsets of the thresholds and of table t */
    unsigned t;
};

/* Reads the entry of the hash. False: it is not valid, or a page was refused. */
RIBBON_INLINE bool begin_way(const struct ribbon_source *s, uint64_t hash, struct way *way,
                             enum ribbon_verdict *v)
{
    uint64_t prefix = hash >> 1 >> (63 - s->ribbon.bits);
    *v = RIBBON_ABSENT;
    if (!ribbon_read_entry(s, prefix, &way->e, v))
        return false;
    way->x0 = ribbon_turn(hash, s->ribbon.bits);
    way->thresholds = way->e.at;
    way->table = way->e.at + ribbon_head_len(&way->e);
    way->t = 0;
    return ribbon_is_sane(s, &way->e);
}

/* Computes the probe in table t. */
RIBBON_INLINE bool aim(const struct ribbon_source *s, const struct way *way,
                       struct ribbon_probes *p, unsigned i, enum ribbon_verdict *v)
{
    uint64_t segments = way->e.segments[way->t], x = ribbon_x(way->x0, way->t, way->e.seed);
    uint64_t start = ribbon_start(x, segments), segment = start / RIBBON_WIDTH;
    uint64_t narrow = ribbon_narrow(&s->ribbon, segments);
    uint64_t columns = s->ribbon.columns + (segment >= narrow);
    p->start[i] = (uint32_t)start;
    p->columns[i] = (uint32_t)columns;
    p->threshold[i] = way->thresholds + ribbon_threshold_byte(start);
    p->low[i] = way->table + 8 * ribbon_words(&s->ribbon, narrow, segment);
    /* With offset 0, all coefficients are in one segment, perhaps the last. */
    p->high[i] = p->low[i] + (start % RIBBON_WIDTH ? 8 * columns : 0);
    uint64_t c = ribbon_coefficients(x);
    p->in_first[i] = ribbon_in_first(c, start % RIBBON_WIDTH);
    p->in_next[i] = ribbon_in_next(c, start % RIBBON_WIDTH);
    p->fingerprint[i] = ribbon_fingerprint(x);
    return ribbon_may_read(s, p->threshold[i], 1, v);
}

RIBBON_INLINE bool may_probe(const struct ribbon_source *s, const struct ribbon_probes *p,
                             unsigned i, enum ribbon_verdict *v)
{
    return ribbon_may_read(s, p->low[i], p->high[i] - p->low[i] + (uint64_t)8 * p->columns[i], v);
}

unsigned ribbon_aim_plain(const struct ribbon_source *s, const uint64_t *hash,
                          struct ribbon_probes *p)
{
    unsigned known = 0;
    for (unsigned i = 0; i < RIBBON_PROBES; i++) {
        struct way way;
        enum ribbon_verdict v;
        known |= (unsigned)(begin_way(s, hash[i], &way, &v) && way.e.segments[0] != 0 &&
                            aim(s, &way, p, i, &v) && may_probe(s, p, i, &v))
                 << i;
    }
    return known;
}

/* Finds the table or list that answers for a key. For a table, stores the probe as probe i and
 * returns RIBBON_PROBE. */
static enum ribbon_verdict find_probe(const struct ribbon_source *s, uint64_t hash,
                                      struct ribbon_probes *p, unsigned i)
{
    struct way way;
    enum ribbon_verdict v;
    if (!begin_way(s, hash, &way, &v))
        return v;
    uint64_t list = way.table - (uint64_t)8 * way.e.listed;
    for (; way.t < RIBBON_TABLES && way.e.segments[way.t] != 0; way.t++) {
        uint64_t segments = way.e.segments[way.t];
        if (!aim(s, &way, p, i, &v))
            return v;
        if (!ribbon_is_bumped(s->data[p->threshold[i]], p->start[i]))
            return may_probe(s, p, i, &v) ? RIBBON_PROBE : v;
        way.thresholds += ribbon_thresholds_len(segments);
        way.table += 8 * ribbon_words(&s->ribbon, ribbon_narrow(&s->ribbon, segments), segments);
    }
    return look_up(s, &way.e, list, hash);
}

enum { ALL = (1U << RIBBON_PROBES) - 1 };

/* Keys looked up at a time. */
struct ribbon_group {
    const uint64_t *hash;
    uint64_t copy[RIBBON_PROBES]; /* of the hashes, if the group is not full */
    struct ribbon_probes probes;
    unsigned all, known; /* all keys; keys whose probe is known */
};

/* Takes up to RIBBON_PROBES keys, at least one. */
static void begin_group(const struct ribbon_source *s, const uint64_t *hash, size_t n,
                        struct ribbon_group *g)
{
    g->hash = hash;
    g->all = ALL;
    if (n < RIBBON_PROBES) {
        for (size_t i = 0; i < RIBBON_PROBES; i++)
            g->copy[i] = hash[i < n ? i : 0];
        g->hash = g->copy;
        g->all = (1U << n) - 1;
    }
    g->known = ribbon_in_use()->aim(s, g->hash, &g->probes) & g->all;
    for (unsigned keys = ALL & ~g->known; keys != 0; keys &= keys - 1)
        ribbon_no_probe(&g->probes, (unsigned)__builtin_ctz(keys));
    for (unsigned i = 0; i < RIBBON_PROBES; i++)
        ahead_fetch(s->data + g->probes.threshold[i]);
}

static unsigned answer_probes(const struct ribbon_source *s, const struct ribbon_probes *p,
                              const struct ribbon_probes *next)
{
    return ribbon_in_use()->answer(s->data, p, s->ribbon.columns + (s->ribbon.wide != 0), next);
}

/* Probes in later tables. They are collected and answered eight at a time; the rest at the end. */
struct late {
    struct ribbon_probes probes;
    size_t key[RIBBON_PROBES]; /* index of the probe's key in the batch */
    unsigned n;
};

static void answer_late(const struct ribbon_source *s, struct late *late, uint64_t *present)
{
    static const struct ribbon_probes none;
    for (unsigned i = late->n; i < RIBBON_PROBES; i++)
        ribbon_no_probe(&late->probes, i);
    unsigned yes = answer_probes(s, &late->probes, &none) & ((1U << late->n) - 1);
    for (; yes != 0; yes &= yes - 1)
        bit_set(present, late->key[__builtin_ctz(yes)]);
    late->n = 0;
}

/* Looks up a key that was bumped. */
static void look_further(const struct ribbon_source *s, uint64_t hash, size_t key,
                         struct late *late, uint64_t *present)
{
    enum ribbon_verdict v = find_probe(s, hash, &late->probes, late->n);
    if (v == RIBBON_PRESENT)
        bit_set(present, key);
    if (v != RIBBON_PROBE)
        return;
    ribbon_prefetch(s->data, &late->probes, late->n);
    late->key[late->n++] = key;
    if (late->n == RIBBON_PROBES)
        answer_late(s, late, present);
}

/* Sets the answers of a group and prefetches for `next`. `first` is the index of the group's first
 * key in the batch. No branch depends on the answers: if half of the keys are present,
 * mispredictions would cost more than everything else. */
static void end_query_group(const struct ribbon_source *s, const struct ribbon_group *g,
                            size_t first, const struct ribbon_probes *next, struct late *late,
                            uint64_t *present)
{
    unsigned here = 0;
    uint64_t yes = answer_probes(s, &g->probes, next);
    for (unsigned i = 0; i < RIBBON_PROBES; i++) {
        bool bumped = ribbon_is_bumped(s->data[g->probes.threshold[i]], g->probes.start[i]);
        here |= (unsigned)!bumped << i;
    }
    here &= g->known;
    present[first / 64] |= (yes & here) << first % 64;
    for (unsigned keys = g->all & ~here; keys != 0; keys &= keys - 1) {
        unsigned i = (unsigned)__builtin_ctz(keys);
        look_further(s, g->hash[i], first + i, late, present);
    }
}

/* Groups whose lines are fetched before they are answered. */
enum { AHEAD = 3 };

void ribbon_query(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                  uint64_t *present)
{
    static const struct ribbon_probes none;
    const uint64_t *hash = keys.lane0;
    const struct ribbon_source s = {
        .ribbon = ribbon_of(layer), .data = data, .len = layer->data_len};
    struct ribbon_group ring[AHEAD + 1];
    struct late late = {.n = 0};
    size_t begun = 0;
    for (; begun < n && begun < AHEAD * RIBBON_PROBES; begun += RIBBON_PROBES) {
        struct ribbon_group *g = &ring[begun / RIBBON_PROBES];
        begin_group(&s, hash + begun, n - begun, g);
        for (unsigned i = 0; i < RIBBON_PROBES; i++)
            ribbon_prefetch(data, &g->probes, i);
    }
    for (size_t at = 0; at < n; at += RIBBON_PROBES) {
        const struct ribbon_probes *coming = &none;
        if (begun < n) {
            struct ribbon_group *g = &ring[begun / RIBBON_PROBES % (AHEAD + 1)];
            begin_group(&s, hash + begun, n - begun, g);
            coming = &g->probes;
            begun += RIBBON_PROBES;
        }
        end_query_group(&s, &ring[at / RIBBON_PROBES % (AHEAD + 1)], at, coming, &late, present);
    }
    if (late.n != 0)
        answer_late(&s, &late, present);
}

bool ribbon_pages(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                  bool (*need)(void *ctx, uint64_t page), void *ctx)
{
    const struct ribbon_source s = {ribbon_of(layer), data, layer->data_len, need, ctx};
    struct ribbon_probes probes;
    for (size_t i = 0; i < n; i++)
        if (find_probe(&s, keys.lane0[i], &probes, 0) == RIBBON_STOPPED)
            return false;
    return true;
}

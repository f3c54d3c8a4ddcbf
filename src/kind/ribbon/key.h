/* SPDX-License-Identifier: MIT */
/* Computes the equation of a hash (formulas in ribbon.h), and declares the instruction-set
 * variants. Private to src/kind/ribbon. */
#ifndef KIND_RIBBON_KEY_H
#define KIND_RIBBON_KEY_H

#include "base/ahead.h"
#include "base/exact.h"
#include "base/variant.h"
#include "kind/ribbon/ribbon.h"

static inline uint64_t ribbon_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93;
    return x ^ x >> 32;
}

/* x0: the hash rotated, so that the bits below the partition's prefix come first. */
static inline uint64_t ribbon_turn(uint64_t hash, unsigned depth)
{
    return hash << (depth & 63) | hash >> (-depth & 63);
}

static inline uint64_t ribbon_x(uint64_t x0, unsigned table, unsigned seed)
{
    unsigned number = table + 8 * seed;
    return number == 0 ? x0 : ribbon_mix(x0 + number * 0x9e3779b97f4a7c15);
}

/* The slot at which a key starts in a table of `segments` segments, at least one. */
static inline uint64_t ribbon_start(uint64_t x, uint64_t segments)
{
    return mul_high(x, RIBBON_WIDTH * segments - (RIBBON_WIDTH - 1));
}

static inline uint64_t ribbon_coefficients(uint64_t x)
{
    return ribbon_mix(x ^ 0x5bd1e9955bd1e995) | 1;
}

/* An equation starts at slot `offset` of a segment. These are its coefficients in that segment, and
 * in the next one. */
static inline uint64_t ribbon_in_first(uint64_t coefficients, unsigned offset)
{
    return coefficients << offset;
}

static inline uint64_t ribbon_in_next(uint64_t coefficients, unsigned offset)
{
    return coefficients >> 1 >> (63 - offset);
}

static inline uint32_t ribbon_fingerprint(uint64_t x)
{
    uint64_t y = x * 0xc28f82822b650bed;
    return (uint32_t)(y >> 32 ^ y >> 7);
}

static const uint8_t ribbon_limit[4] = {0, 15, 34, RIBBON_BUCKET};

/* The index of the byte that holds this start's threshold. A byte holds the thresholds of four
 * buckets. */
static inline uint64_t ribbon_threshold_byte(uint64_t start)
{
    return start / RIBBON_BUCKET / 4;
}

static inline unsigned ribbon_threshold(uint8_t thresholds, uint64_t start)
{
    return thresholds >> start / RIBBON_BUCKET % 4 * 2 & 3;
}

static inline bool ribbon_is_bumped(uint8_t thresholds, uint64_t start)
{
    return start % RIBBON_BUCKET < ribbon_limit[ribbon_threshold(thresholds, start)];
}

/* The data of a layer. `need`, unless NULL, is called for each page before it is read. Offsets in
 * the data are untrusted, so each is checked before use. */
struct ribbon_source {
    struct ribbon ribbon;
    const uint8_t *data;
    uint64_t len;
    bool (*need)(void *ctx, uint64_t page);
    void *ctx;
};

enum ribbon_verdict { RIBBON_ABSENT, RIBBON_PRESENT, RIBBON_PROBE, RIBBON_STOPPED };

#define RIBBON_INLINE static inline __attribute__((always_inline))

/* May data[at, at + len) be read? `at` is less than 2^63. */
RIBBON_INLINE bool ribbon_may_read(const struct ribbon_source *s, uint64_t at, uint64_t len,
                                   enum ribbon_verdict *v)
{
    if (at + len > s->len) {
        *v = RIBBON_ABSENT;
        return false;
    }
    if (s->need == NULL || len == 0)
        return true;
    for (uint64_t page = at / LAYER_PAGE; page <= (at + len - 1) / LAYER_PAGE; page++)
        if (!s->need(s->ctx, page)) {
            *v = RIBBON_STOPPED;
            return false;
        }
    return true;
}

RIBBON_INLINE bool ribbon_read_entry(const struct ribbon_source *s, uint64_t number,
                                     struct ribbon_entry *e, enum ribbon_verdict *v)
{
    uint64_t at = s->len - ribbon_directory_len(&s->ribbon) + number * RIBBON_ENTRY;
    if (!ribbon_may_read(s, at, RIBBON_ENTRY, v))
        return false;
    ribbon_get_entry(s->data + at, e);
    return true;
}

RIBBON_INLINE bool ribbon_is_sane(const struct ribbon_source *s, const struct ribbon_entry *e)
{
    return e->at <= s->len &&
           (e->segments[0] | e->segments[1] | e->segments[2]) < 2 * RIBBON_MAX_SEGMENTS;
}

/* Keys looked up at a time. */
enum { RIBBON_PROBES = 8 };

/* The locations and values that a lookup of key i needs. The segment where the key starts has
 * `columns` words at `low`; the equation selects the bits `in_first` from each. The next segment's
 * words are at `high`; the equation selects `in_next`. The byte at `threshold` holds the bucket's
 * threshold; if the key is bumped, the probe does not count. `low`, `high` and `threshold` are
 * offsets in the data. */
struct ribbon_probes {
    uint64_t low[RIBBON_PROBES], high[RIBBON_PROBES], threshold[RIBBON_PROBES];
    uint64_t in_first[RIBBON_PROBES], in_next[RIBBON_PROBES];
    uint32_t start[RIBBON_PROBES], fingerprint[RIBBON_PROBES], columns[RIBBON_PROBES];
};

/* Makes probe i empty: it reads no column, and as its threshold the first byte of the data, which
 * exists because the data has at least one entry. */
RIBBON_INLINE void ribbon_no_probe(struct ribbon_probes *p, unsigned i)
{
    p->low[i] = p->high[i] = p->threshold[i] = 0;
    p->start[i] = p->columns[i] = 0;
}

AHEAD_INLINE void ribbon_prefetch(const uint8_t *data, const struct ribbon_probes *p, unsigned i)
{
    const uint8_t *first = data + p->low[i];
    const uint8_t *last = data + p->high[i] + 8 * (size_t)p->columns[i] - (p->columns[i] != 0);
    for (const uint8_t *line = first; line < last; line += 64)
        ahead_fetch(line);
    ahead_fetch(last);
}

/* The most equations added at a time. A bucket has at most RIBBON_BUCKET starts, and its equations
 * reach RIBBON_WIDTH - 1 slots past it. More equations than these slots are never independent. */
enum { RIBBON_GROUP = RIBBON_BUCKET + RIBBON_WIDTH - 1 };

/* Equation i is element [i] of each array. Each array has seven spare elements. */
struct ribbon_equations {
    uint64_t coefficients[RIBBON_GROUP + 7];
    uint32_t start[RIBBON_GROUP + 7];
    uint32_t fingerprint[RIBBON_GROUP + 7];
};

/* Rows of a table under construction, one for each slot. */
struct ribbon_rows {
    uint64_t *coefficients; /* bit 0 is the row's own slot; 0: no row */
    uint32_t *bits;         /* the right side; the lowest `columns` bits count */
};

/* The functions of an instruction set. */
struct ribbon_variant {
    struct variant variant;

    /* Computes the probes of eight keys in the first tables of their partitions. Sets bit i of the
     * result if key i has a probe. It has none if its partition has no table, or is invalid. Does
     * not call s->need. */
    unsigned (*aim)(const struct ribbon_source *s, const uint64_t *hash, struct ribbon_probes *p);

    /* Sets bit i of the result if all columns of probe i match its fingerprint. No probe has more
     * than `columns` columns. Between keys, prefetches the lines of `next`, one key at a time: a
     * CPU has about twenty cache lines in flight, and a key needs three to five. */
    unsigned (*answer)(const uint8_t *data, const struct ribbon_probes *p, unsigned columns,
                       const struct ribbon_probes *next);

    /* Computes the equations of keys x[0..n), n at most RIBBON_GROUP, in a table with `starts`
     * possible starts, fewer than 2^32. May read x[n..n + 7). */
    void (*derive)(const uint64_t *x, size_t n, uint64_t starts, struct ribbon_equations *e);

    /* Adds n equations to the rows; their starts ascend and are in one bucket. Rows are subtracted
     * from an equation until it begins at a slot without a row. There it becomes the row. If an
     * equation depends on the others or contradicts them, restores the rows and returns false.
     * Every variant gives rows at the same slots and the same solution, in which slots without a
     * row are 0. May read and write rows of one bucket and one segment past the table; their
     * contents have no meaning. */
    bool (*add)(const struct ribbon_rows *rows, unsigned columns, const struct ribbon_equations *e,
                size_t n);

    /* Solves the RIBBON_WIDTH rows of a segment, from the last to the first. On entry, s[j] holds
     * the bits of column j in the next segment; on return, those in this segment. */
    void (*solve)(const uint64_t *coefficients, const uint32_t *bits, unsigned columns,
                  uint64_t *s);
};

extern const struct ribbon_variant ribbon_plain, ribbon_avx512, ribbon_avx2, ribbon_neon;

/* The plain variant's functions, for variants without their own. */
unsigned ribbon_aim_plain(const struct ribbon_source *s, const uint64_t *hash,
                          struct ribbon_probes *p);
void ribbon_derive_plain(const uint64_t *x, size_t n, uint64_t starts, struct ribbon_equations *e);
bool ribbon_add_plain(const struct ribbon_rows *rows, unsigned columns,
                      const struct ribbon_equations *e, size_t n);
void ribbon_solve_plain(const uint64_t *coefficients, const uint32_t *bits, unsigned columns,
                        uint64_t *s);

/* The variant in use. */
const struct ribbon_variant *ribbon_in_use(void);

/* `query` and `pages` of struct kind. */
void ribbon_query(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                  uint64_t *present);
bool ribbon_pages(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                  bool (*need)(void *ctx, uint64_t page), void *ctx);

#endif

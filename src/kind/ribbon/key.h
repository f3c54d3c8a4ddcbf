/* From a hash to its equation (ribbon.h has the formulas), and the table of instruction-set
 * variants. For ribbon*.c only. */
#ifndef KIND_RIBBON_KEY_H
#define KIND_RIBBON_KEY_H

#include "base/cpu.h"
#include "base/mul.h"
#include "kind/ribbon/ribbon.h"

static inline uint64_t ribbon_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93;
    return x ^ x >> 32;
}

/* x0: the bits that did not lead to the partition come first. */
static inline uint64_t ribbon_turn(uint64_t hash, unsigned depth)
{
    return hash << (depth & 63) | hash >> (-depth & 63);
}

static inline uint64_t ribbon_x(uint64_t x0, unsigned table, unsigned seed)
{
    unsigned number = table + 8 * seed;
    return number == 0 ? x0 : ribbon_mix(x0 + number * 0x9e3779b97f4a7c15);
}

/* The slot at which a key starts in a table of that many segments, of which there is one at
 * least. */
static inline uint64_t ribbon_start(uint64_t x, uint64_t segments)
{
    return mul_high(x, RIBBON_WIDTH * segments - (RIBBON_WIDTH - 1));
}

static inline uint64_t ribbon_coefficients(uint64_t x)
{
    return ribbon_mix(x ^ 0x5bd1e9955bd1e995) | 1;
}

/* The part of an equation's coefficients that lies in the segment in which it starts, at `offset`,
 * and the part in the next. */
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

/* A byte holds the thresholds of four buckets. This is the number of that with the start's. */
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

/* Four buckets are eight segments. */
static inline uint64_t ribbon_thresholds_len(uint64_t segments)
{
    return (segments + 7) / 8;
}

/* The data of a layer; `need`, unless NULL, is told of each page before it is read. Every offset in
 * it comes from the file, so none is followed before it is known to be inside. */
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
    uint64_t at = s->len - (s->ribbon.entries - number) * RIBBON_ENTRY;
    if (!ribbon_may_read(s, at, RIBBON_ENTRY, v))
        return false;
    ribbon_get_entry(s->data + at, e);
    return true;
}

RIBBON_INLINE bool ribbon_is_sane(const struct ribbon_source *s, const struct ribbon_entry *e)
{
    return e->at <= s->len && (e->segments[0] | e->segments[1] | e->segments[2]) <
                                  2 * RIBBON_MAX_SEGMENTS;
}

/* Keys that are looked for at once. */
enum { RIBBON_PROBES = 8 };

/* What decides about some keys, [i] about key i: the columns of its start's segment and of the next
 * one, `columns` words at `low` and as many at `high`; if the threshold of its bucket, in the byte
 * at `threshold`, does not say that it is bumped. All three are offsets in the data. */
struct ribbon_probes {
    uint64_t low[RIBBON_PROBES], high[RIBBON_PROBES], threshold[RIBBON_PROBES];
    uint64_t coefficients[RIBBON_PROBES];
    uint32_t start[RIBBON_PROBES], fingerprint[RIBBON_PROBES], columns[RIBBON_PROBES];
};

RIBBON_INLINE void ribbon_prefetch(const uint8_t *data, const struct ribbon_probes *p, unsigned i)
{
    const uint8_t *end = data + p->high[i] + 8 * (size_t)p->columns[i] - 1;
    for (const uint8_t *line = data + p->low[i]; line < end; line += 64)
        __builtin_prefetch(line);
    __builtin_prefetch(end);
}

/* Most equations that are added at once: no bucket has more than RIBBON_BUCKET starts, which reach
 * RIBBON_WIDTH - 1 slots behind it, so among more there is always a contradiction. */
enum { RIBBON_GROUP = RIBBON_BUCKET + RIBBON_WIDTH - 1 };

/* Equations, one in [i] of each array; behind the last one is room for seven more. */
struct ribbon_equations {
    uint64_t coefficients[RIBBON_GROUP + 7];
    uint32_t start[RIBBON_GROUP + 7];
    uint32_t fingerprint[RIBBON_GROUP + 7];
};

/* Rows of a table in the making, one a slot. */
struct ribbon_rows {
    uint64_t *coefficients; /* its own slot's is bit 0; 0: no row */
    uint32_t *bits;         /* the right side, of which the lowest `columns` bits count */
};

/* What there is for each set of instructions. */
struct ribbon_variant {
    struct variant variant;

    /* Works out the probes of eight keys in the first tables of their partitions, and says of which
     * it could: bit i of key i. It cannot if the partition is split, has no such table, or is not
     * valid. s->need is not asked. */
    unsigned (*aim)(const struct ribbon_source *s, const uint64_t *hash, struct ribbon_probes *p);

    /* In which of the probes in `which` all columns agree: bit i for probe i. Meanwhile fetches
     * what those in `coming` of the next eight will read. */
    unsigned (*answer)(const uint8_t *data, const struct ribbon_probes *p, unsigned which,
                       const struct ribbon_probes *next, unsigned coming);

    /* Works out the equations of keys x[0..n), n at most RIBBON_GROUP, in a table of that many
     * starts, fewer than 2^32. May read x[n..n + 7). */
    void (*derive)(const uint64_t *x, size_t n, uint64_t starts, struct ribbon_equations *e);

    /* Adds n equations, whose starts ascend and lie in one bucket, to the rows: an equation from
     * which rows are subtracted until it begins where there is none becomes the row there. If one
     * of them follows from all others or contradicts them, leaves the rows as they were and
     * returns false. Which slots have rows afterwards does not depend on the way it is done, and
     * nor does the solution that has 0 where there is no row. Behind the table is room for the
     * rows of a bucket and a segment, which may be read and written but mean nothing. */
    bool (*add)(const struct ribbon_rows *rows, unsigned columns, const struct ribbon_equations *e,
                size_t n);

    /* Solves the rows of a segment, RIBBON_WIDTH of them, from the last to the first. s[j] are the
     * bits of column j in the 64 slots behind the segment, and then those in it. */
    void (*solve)(const uint64_t *coefficients, const uint32_t *bits, unsigned columns,
                  uint64_t *s);
};

extern const struct ribbon_variant ribbon_plain, ribbon_avx512, ribbon_avx2, ribbon_neon;

/* Of the plain variant, for those that have no better. */
unsigned ribbon_aim_plain(const struct ribbon_source *s, const uint64_t *hash,
                          struct ribbon_probes *p);
void ribbon_derive_plain(const uint64_t *x, size_t n, uint64_t starts, struct ribbon_equations *e);
bool ribbon_add_plain(const struct ribbon_rows *rows, unsigned columns,
                      const struct ribbon_equations *e, size_t n);
void ribbon_solve_plain(const uint64_t *coefficients, const uint32_t *bits, unsigned columns,
                        uint64_t *s);

/* The one in use. */
const struct ribbon_variant *ribbon_in_use(void);

/* As struct kind has them. */
void ribbon_query(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                  uint64_t *present);
bool ribbon_pages(const struct layer *layer, const uint8_t *data, struct hashes key,
                  bool (*need)(void *ctx, uint64_t page), void *ctx);

#endif

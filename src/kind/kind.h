/* SPDX-License-Identifier: MIT
 * Layers and their kinds. A filter is a header and one or more layers. A key is in the filter if it
 * is in any layer. Only the layer's kind knows the format of its bytes. What all kinds do, check,
 * query and measure a layer, are members of struct kind:
 *
 *     layer->kind->query(layer, data, keys, n, present);
 *
 * What only some can do is in small tables, for most of which there are questions:
 *
 *     layout      of another program           kind_is_foreign()
 *     sizing      a layer for n keys           all but foreign ones (foreign.h has `design`)
 *     add         keys in place                kind_takes_keys()
 *     building    from all keys                kind_builds(); the others take keys one by one
 *     table       or-ing and counting bits
 *     uniting     two layers in one            kind_unites(); a smaller layer: kind_folds()
 *     dropping    bits of fingerprints
 *     check_add   n_design keys, and no more   kind_is_exact()
 *     counts      how often a key was added    kind_counts()
 *
 * To add a kind: make a folder below src/kind with one `struct kind`, and add it to the list in
 * kind.c. No other file names a kind (`make lint` checks this).
 */
#ifndef KIND_KIND_H
#define KIND_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/hash.h"

struct kind;
struct layout;
struct table;
struct variants;
struct keyset;
struct target;

/* A layer's entry in the header's directory. Offsets and lengths are in bytes from the start of the
 * file; the layer's data is `data_len` bytes at `data_off`. */
struct layer {
    const struct kind *kind;
    uint64_t n_design;
    double fpr_design;
    uint64_t data_off, data_len;
    uint64_t sums_off;    /* checksums, 4 bytes for each 4 KiB page of data */
    uint64_t touched_off; /* bitmap of pages changed since their checksum was made; 0: none */
    uint64_t geometry[4]; /* defined by the kind */
    /* In filters of several layers (chain.h); else zero. The first two only where they grow or
     * forget. */
    uint32_t generation; /* the layer with the highest takes new keys; of equals, the last layer */
    uint64_t since;      /* when it began to take keys, seconds since 1970; 0: unknown */
    uint64_t n_before;   /* keys_added of the filter when it began to take keys (chain_keys_in) */
    double fpr_closed;   /* FPR when it stopped taking keys, from the bits; 0: unknown */
};

/* A normal distribution has 95 % of its mass within this many deviations of the mean. */
#define CENSUS_Z95 1.959964

/* Measurements and estimates from a layer's current bits. */
struct census {
    double fpr;              /* the probability that an absent key is reported present */
    double n, n_low, n_high; /* estimated distinct keys, 95 % interval; equal when exact. n is NAN
                                where the bits give no more than bounds (layers.h) */
    bool n_exact;
    bool n_at_least;             /* too full for an estimate: n is n_low, a lower bound */
    uint64_t lines;              /* 512-bit lines; 0: the kind has none */
    unsigned line_min, line_max; /* bits set in the emptiest and the fullest line */
    uint64_t lines_full;
    uint64_t bits;   /* of the table; 0: the kind has no bits to count */
    double bits_set; /* fraction of set bits */
};

/* Two sets of keys, a and b: estimates of the number of keys in a, in b and in their union (any),
 * and the variances of these estimates. var_both is the variance of the same estimate for a layer
 * that holds only the keys in both. The covariance of the estimates for two sets is the variance
 * for their intersection (overlap.h). */
struct pair_census {
    double a, b, any;
    double var_a, var_b, var_any, var_both;
};

/* A layer's geometry for display. Zero: the kind has no such number. */
struct shape {
    uint64_t pages, lines, partitions;
    uint64_t m; /* bits, where they are not whole pages */
    unsigned k;
    double columns;
    /* Kinds that count. */
    unsigned fingerprint;         /* bits; with 64, different hashes have different ones */
    uint64_t fingerprints, total; /* number of fingerprints; sum of all counts */
};

/* The cost of building and querying a filter of one layer, for 'seen plan'. */
struct cost {
    uint64_t bits;         /* size of the table alone */
    unsigned k;            /* bits that a query compares */
    double lines;          /* cache lines that a query touches, at most */
    uint64_t build_memory; /* bytes, the filter included */
    double build_time;     /* approximate CPU nanoseconds per key */
};

/* ---- Sizing a layer. The functions set kind, geometry and data_len of *out. */

struct kind_sizing {
    /* Keys with equal hashes cannot be distinguished, so n keys have an FPR of at least n / 2^64.
     * That may be at most this part of the promised FPR. */
    double hash_share;

    /* The smallest layer for n distinct keys at FPR p; p has passed kind_check_fpr. If the length
     * depends on the keys, data_len is an estimate. False: the layer would be too large. */
    bool (*size)(uint64_t n, double p, struct layer *out);

    double fpr_min, fpr_max; /* kind_check_fpr */
    uint64_t len_max;        /* the largest data_len of a layer */

    /* For n keys in a file of file_len bytes. */
    void (*cost)(const struct layer *layer, uint64_t n, uint64_t file_len, struct cost *out);

    /* The next two are NULL if the length depends on the keys. Then n must be given, and callers
     * find the FPR for a size by calling `size` with FPRs from fpr_min to fpr_max. */

    /* The layer of at most data_len bytes with the smallest FPR for n keys; returns that FPR. */
    double (*best)(uint64_t n, uint64_t data_len, struct layer *out);
    /* The layer of at most data_len bytes that holds the most keys at FPR p. Returns the number of
     * keys, 0 if there is no such layer. */
    uint64_t (*capacity)(uint64_t data_len, double p, struct layer *out);
};

/* ---- Building a layer from all of its keys. */

struct kind_building {
    /* Makes the target layer from all keys of a keyset; writes its data and checksums. A kind whose
     * length depends on the keys changes data_len (target_resize); the layer must then be the last.
     */
    bool (*build)(const struct target *target, struct keyset *keys, struct census *census,
                  struct err *err);

    /* Bytes that `build` needs per thread, without the keyset. NULL: almost none. */
    uint64_t (*memory)(void);
    /* The largest part that `build` requests from keyset_visit_sorted; 0: it does not call that. */
    size_t part;

    /* From this number of hashes on, the census tells the number of distinct ones well enough; up
     * to it they are counted first. 0: `build` itself finds every repeat. */
    uint64_t estimated_from;
};

/* ---- Making a layer from others, without the keys. */

/* For layers whose bits can be or-ed and and-ed (table.h). */
struct kind_uniting {
    /* The other program unites only filters with the same n_design and fpr_design. */
    bool same_design;

    /* The smallest layer of more than `above` bytes to which this one folds and whose predicted FPR
     * with n keys is at most p. The layer itself if none is smaller. NULL: layers of this kind do
     * not fold. */
    void (*fold)(const struct layer *layer, double n, double p, uint64_t above, struct layer *out);

    /* Rounds a new layer up to a size that folds to 1/d for every divisor d of `parts`, unless that
     * could add more than 2 %. With parts = 0, rounds to a size that can be halved repeatedly, and
     * may add more. NULL if `fold` is. */
    void (*round_to_fold)(struct layer *layer, unsigned parts);
};

/* For layers of fingerprints, which can be made shorter. */
struct kind_dropping {
    /* A layer no larger than this one with an FPR of p, where p is at least the current FPR. */
    void (*drop)(const struct layer *layer, double p, struct layer *out);
    /* Makes that layer, and may change its length. Sets *fpr to its FPR. */
    bool (*write)(const struct target *target, const struct layer *from, const uint8_t *data,
                  double *fpr, struct err *err);
};

/* ---- Kinds that count: such a kind stores with each key how often it was added. Keys can be
 * removed. A layer is never changed in place, only rewritten, and is the only one in its filter. */

/* How the inputs of `combine` give the keys of the result and their counts. */
enum counts_op {
    COUNTS_ADD,       /* keys in any input: the sum of their counts */
    COUNTS_MAX,       /* keys in any input: the largest count */
    COUNTS_DISTINCT,  /* keys in any input: 1 */
    COUNTS_INTERSECT, /* keys in all inputs: the smallest count */
    COUNTS_SUBTRACT,  /* keys in the first input: its count minus the others', if above 0 */
    COUNTS_EXCEPT,    /* keys in the first input and in no other: its count */
};

/* Statistics of the first input, a, the second, b, and the result. Keys are counted by
 * fingerprint. */
struct counts_seen {
    uint64_t a, b, both;       /* keys */
    uint64_t total_a, total_b; /* sums of counts */
    uint64_t total_smaller;    /* sum of the smaller counts of keys in both */
    uint64_t lacking;          /* keys with a higher count in b than in a */
    uint64_t made, total_made; /* keys of the result, and the sum of their counts */
};

struct kind_counts {
    /* Sets count[i] to the count of key i, 0 if it is absent. n is at most LAYER_BATCH. Reads the
     * pages of a query. */
    void (*query)(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                  uint64_t *count);

    /* Combines n layers, at least 1, into the target layer, and changes its length (target_resize).
     * The target layer is of this kind. Its fingerprints have no more bits than the narrowest input
     * (`narrow`). With target NULL, writes nothing and only fills *seen, with `threads` threads.
     * With more than two inputs, only made and total_made of *seen are set. */
    bool (*combine)(enum counts_op op, const struct layer *const *layer, const uint8_t *const *data,
                    unsigned n, const struct target *target, unsigned threads,
                    struct counts_seen *seen, struct err *err);

    /* Makes `out` a layer with fingerprints of `bits` bits, at most as many as `layer` has. */
    void (*narrow)(const struct layer *layer, unsigned bits, struct layer *out);

    /* Passes to `take` one hash for each fingerprint of the layer, in ascending order: the lowest
     * hash with that fingerprint, which with 64 bits is the key's own. */
    bool (*hashes)(const struct layer *layer, const uint8_t *data,
                   bool (*take)(void *ctx, const uint64_t *hash, size_t n, struct err *err),
                   void *ctx, struct err *err);
};

struct kind {
    uint32_t id; /* as stored in the file */
    const char *name;
    unsigned lanes;              /* of a hash that the kind uses; the hash function may have more */
    const struct layout *layout; /* of another program (foreign.h); NULL: one of seen's own */
    const struct table *table;   /* of bits (table.h); NULL: none */
    struct variants *variants;   /* variants of its inner loops, for `seen --version`; NULL: none */

    /* NULL: the kind cannot do that. */
    const struct kind_sizing *sizing;
    const struct kind_building *building;
    const struct kind_uniting *uniting;
    const struct kind_dropping *dropping;
    const struct kind_counts *counts;

    /* ---- An existing layer. */

    /* Validates geometry and data_len, which may come from an untrusted header. The functions below
     * rely on it and check neither again. */
    bool (*check)(const struct layer *layer, struct err *err);

    /* Sets bit i of `present` (64 to a word, low bit first) if key i is in the layer. Clears no
     * bits. n is at most LAYER_BATCH. */
    void (*query)(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                  uint64_t *present);

    /* The same for layers of this kind: in any of them. Asks the later ones only for keys that are
     * not in an earlier one. NULL: there is only `query`. */
    void (*query_layers)(const struct layer *const *layer, const uint8_t *const *data,
                         unsigned n_layers, struct hashes keys, size_t n, uint64_t *present);

    /* Inserts n keys in order. Sets bit i of `present` if key i was reported present just before
     * its own insertion. n is at most LAYER_BATCH. Bits may only change from 0 to 1; sessions rely
     * on this (file/session.h). NULL: no keys can be added in place; a kind that has to clear bits
     * has its filters rewritten as a whole. */
    void (*add)(const struct layer *layer, uint8_t *data, struct hashes keys, size_t n,
                uint64_t *present);

    /* For kinds where one data page holds all bits of a key: sets page[i] to the page of key i,
     * i < n. `query` and `add` use only that page. Such a kind has one lane. NULL: a key's bits are
     * in several pages, see `pages`. */
    void (*page)(const struct layer *layer, struct hashes keys, size_t n, uint64_t *page);

    /* Calls need(ctx, page) for every page that a query of n keys reads, before reading from it.
     * Stops and returns false if need does. NULL: the member `page` is set instead. */
    bool (*pages)(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                  bool (*need)(void *ctx, uint64_t page), void *ctx);

    /* Validates the contents of a page whose checksum matches. NULL: any contents are valid. Even
     * with invalid pages, `query` and `pages` never read outside the data. */
    bool (*check_page)(const struct layer *layer, const uint8_t *data, uint64_t page,
                       struct err *err);

    /* Validates the layer across pages, by reading all data with `threads` threads. All pages have
     * passed check_page. NULL: check_page is enough. */
    bool (*check_whole)(const struct layer *layer, const uint8_t *data, unsigned threads,
                        struct err *err);

    /* Reads all data, with `threads` threads. The result does not depend on `threads`. */
    void (*census)(const struct layer *layer, const uint8_t *data, unsigned threads,
                   struct census *out);

    /* The FPR of a filter of one layer, measured with a sample of hashes if the formula used by
     * `census` is off by more than 1 %. `bits_set` is the fraction of set bits. The result does not
     * depend on `threads`. NULL: the formula holds. */
    double (*sampled_fpr)(const struct layer *layer, const uint8_t *data, unsigned threads,
                          double bits_set);

    /* A layer of this kind takes exactly n_design keys that change a bit. May keys be added to this
     * one? If not, says why. NULL: a layer takes any number of keys. */
    bool (*check_add)(const struct layer *layer, struct err *err);

    struct shape (*shape)(const struct layer *layer);

    /* The FPR that the design predicts for n distinct keys. */
    double (*fpr_at)(const struct layer *layer, double n);
};

static inline bool kind_is_foreign(const struct kind *kind)
{
    return kind->layout != NULL;
}

static inline bool kind_takes_keys(const struct kind *kind)
{
    return kind->add != NULL;
}

static inline bool kind_builds(const struct kind *kind)
{
    return kind->building != NULL;
}

static inline bool kind_unites(const struct kind *kind)
{
    return kind->uniting != NULL;
}

static inline bool kind_folds(const struct kind *kind)
{
    return kind->uniting != NULL && kind->uniting->fold != NULL;
}

static inline bool kind_is_exact(const struct kind *kind)
{
    return kind->check_add != NULL;
}

static inline bool kind_counts(const struct kind *kind)
{
    return kind->counts != NULL;
}

/* Of a kind that counts. */
static inline unsigned layer_fingerprint(const struct layer *layer)
{
    return layer->kind->shape(layer).fingerprint;
}

enum {
    LAYER_BATCH = HASH_BATCH, /* keys in one call of query or add */
    LAYER_PAGE = 4096,        /* bytes of a page of data */
    LAYER_SUM = 4,            /* bytes of a page's checksum */
};

#define LAYER_FPR 1e-6 /* the default of new filters */

/* The checksum of a page of a layer: XXH3-64 of its bytes, low 32 bits, seeded with the layer's
 * seed (format_layer_seed) plus the page's number. */
uint32_t layer_page_sum(uint64_t seed, uint64_t page, const void *data, size_t len);

/* The kind with this id, or NULL. */
const struct kind *kind_by_id(uint32_t id);
/* Kind number i, from 0; NULL after the last. */
const struct kind *kind_number(unsigned i);

/* The layouts of other programs, NULL after the last: defined where they are, above the kinds. */
extern const struct kind *const kind_list_foreign[];

/* The kinds that `seen create` makes: by default one that takes keys at any time, with --compact
 * the smallest, with --counted the one that counts. */
const struct kind *kind_usual(void);
const struct kind *kind_compact(void);
const struct kind *kind_counting(void);

/* Can the kind have an FPR of p? If not, the error says which kind can. */
bool kind_check_fpr(const struct kind *kind, double p, struct err *err);

/* Fails: more than `most` keys have hashes that are close together. Random hashes never are. */
bool kind_crowded(unsigned most, struct err *err);

/* The largest number of keys for which fpr_at is at most fpr, to within 1e-7 of it or 0.01 keys;
 * about 1e18 if there is no limit. */
double layer_n_at(const struct layer *layer, double fpr);

/* Calls need(ctx, page) for every page that a query of n keys reads; stops and returns false if
 * `need` does. Always inlined, with `need` where possible, since it runs for every key. n is at
 * most LAYER_BATCH. */
static inline __attribute__((always_inline)) bool
layer_each_page(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                bool (*need)(void *ctx, uint64_t page), void *ctx)
{
    if (layer->kind->page == NULL)
        return layer->kind->pages(layer, data, keys, n, need, ctx);
    uint64_t page[LAYER_BATCH];
    layer->kind->page(layer, keys, n, page);
    for (size_t i = 0; i < n; i++)
        if (!need(ctx, page[i]))
            return false;
    return true;
}

/* Bytes that `seen create` takes for n keys where a kind needs them all at once: in memory while
 * they fit, else as much as a keyset has without --memory. */
uint64_t layer_keys_memory(uint64_t n, uint64_t file_len);

static inline uint64_t layer_pages(const struct layer *layer)
{
    return layer->data_len / LAYER_PAGE + (layer->data_len % LAYER_PAGE != 0);
}

static inline size_t layer_page_len(const struct layer *layer, uint64_t page)
{
    uint64_t left = layer->data_len - page * LAYER_PAGE;
    return left < LAYER_PAGE ? (size_t)left : LAYER_PAGE;
}

#endif

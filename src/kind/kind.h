/*
 * Layers and their kinds. A filter is a header and one or more layers; a key is in the filter if it
 * is in any layer. A layer is of a kind, and only the kind knows what the layer's bytes mean, how
 * large it must be, how it is built and what it can become.
 *
 * To add a kind: make a folder below src/kind with one `struct kind`, and name it in the list in
 * kind.c. No other file names a kind (`make lint` checks that): commands and stores look at what
 * a kind can do.
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
struct variants;
struct keyset;
struct target;

/* A layer's entry in the header's directory. Offsets and lengths are in bytes from the start of the
 * file; the layer's data is `data_len` bytes at `data_off`. */
struct layer {
    const struct kind *kind;
    uint64_t id; /* unique in the file; part of every page's checksum */
    uint64_t n_design;
    double fpr_design;
    uint64_t data_off, data_len;
    uint64_t sums_off;    /* a checksum of 4 bytes for each 4 KiB page of data */
    uint64_t touched_off; /* a bit for each page: changed since its checksum was made; 0: none */
    uint64_t geometry[4]; /* as the kind defines them */
    /* In filters that grow or forget (chain.h); else zero. */
    bool is_void;         /* its keys do not count: about to be emptied */
    uint64_t generation;  /* the highest takes new keys; of equals, the last */
    uint64_t since;       /* when it began to take keys, seconds since 1970; 0: unknown */
    double n_closed;      /* distinct keys when it stopped taking keys, 0 if a later layer has them
                             too; of kinds with exact_capacity the keys that changed a bit */
    double fpr_closed;    /* FPR at that time, from the bits; 0: unknown */
};

/* A normal distribution has 95 % of its mass within this many deviations of the mean. */
#define CENSUS_Z95 1.959964

/* What a layer's current bits say. */
struct census {
    double fpr;              /* the probability that an absent key is reported present */
    double n, n_low, n_high; /* estimated distinct keys, 95 % interval; equal when exact */
    bool n_exact;
    bool n_at_least;       /* too full for an estimate: n is n_low, there is no upper end */
    uint64_t lines;        /* 512-bit lines; 0: the kind has none */
    unsigned line_min, line_max; /* bits set in the emptiest and the fullest line */
    uint64_t lines_full;
    uint64_t bits;   /* of the table; 0: the kind has none that are set or clear */
    double bits_set; /* fraction of them that are set */
};

/* Two sets of keys: estimates of how many keys are in a, in b and in any, and the variances of
 * these estimates; var_both is that of such an estimate for a layer of the keys in both alone. So
 * the covariance of the estimates for two sets is the variance for what they share (overlap.h). */
struct pair_census {
    double a, b, any;
    double var_a, var_b, var_any, var_both;
    unsigned k;         /* cells of a key: bits, or one fingerprint */
    double occupied[3]; /* cells that any key has: in a, in b, in any */
};

/* How well the numbers of bits set in lines agree with those that random keys set. */
struct occupancy {
    double chi2;      /* of that many degrees ... */
    unsigned freedom; /* ... 0: there is too little to compare */
    double fullest;   /* the chance that random keys fill any line as much as the fullest one */
};

/* A layer's geometry for display. Zero: the kind has no such number. */
struct shape {
    uint64_t pages, lines, partitions;
    uint64_t m; /* bits, where that is no whole number of pages */
    unsigned k;
    double columns;
    unsigned fingerprint; /* bits of a fingerprint; of kinds that count, as are the next two */
    uint64_t fingerprints, total; /* how many there are; the sum of all counts */
};

/* The cost of building and querying a filter of one layer, for 'seen plan'. */
struct cost {
    uint64_t bits;         /* size of the table alone */
    unsigned k;            /* bits that a query compares */
    double lines;          /* cache lines that a query touches, at most */
    uint64_t build_memory; /* bytes, the filter included */
    double build_time;     /* approximate CPU nanoseconds a key */
};

/* Layers to be united (or intersected) into one. */
struct union_of {
    unsigned n;
    const struct layer *const *layer;
    const uint8_t *const *data;
    bool intersect;
};

/* A layer of known size, filled in memory while keys arrive. */
struct kind_bits {
    /* NULL: out of memory. */
    void *(*begin)(const struct layer *layer);
    /* A keyset_drain (keys/keyset.h). */
    void (*put)(void *bits, unsigned partition, struct hashes hashes, size_t n);
    bool (*write)(const struct target *target, const void *bits, struct census *census,
                  struct err *err);
    void (*end)(void *bits); /* bits may be NULL */
};

/* ---- Kinds that count: each key has a number beside it, how often it was added, and can be
 * removed again. Their layers change only by being written anew, and are alone in their filter. */

/* What becomes of the counts of keys, input by input from the first on. */
enum counts_op {
    COUNTS_ADD,       /* in any: the sum */
    COUNTS_MAX,       /* in any: the largest */
    COUNTS_DISTINCT,  /* in any: 1 */
    COUNTS_INTERSECT, /* in all: the smallest */
    COUNTS_SUBTRACT,  /* in the first: its count less those of the others, if that is above 0 */
    COUNTS_EXCEPT,    /* in the first and in no other: its count */
};

/* What was found of the first input, a, and the second, b. A key here is a fingerprint. */
struct counts_seen {
    uint64_t a, b, both;       /* keys */
    uint64_t total_a, total_b; /* sums of counts */
    uint64_t total_smaller;    /* sum of the smaller counts of keys in both */
    uint64_t lacking;          /* keys of which b has more than a */
    uint64_t made, total_made; /* keys of the result, and the sum of their counts */
};

struct kind_counts {
    /* Sets count[i] to the count of key i, 0 if it is not in. n is at most LAYER_BATCH. */
    void (*query)(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                  uint64_t *count);

    /* Calls need(ctx, page) for every page that decides about the first key's count. */
    bool (*pages)(const struct layer *layer, const uint8_t *data, struct hashes key,
                  bool (*need)(void *ctx, uint64_t page), void *ctx);

    /* Bits of a fingerprint: 64 if keys with different hashes are never confused. */
    unsigned (*bits)(const struct layer *layer);

    /* Combines n layers, at least 1, into the target, which is of this kind and whose layer has as
     * many bits as the narrowest input, or fewer (`narrow`); changes its length (target_resize).
     * target NULL: nothing is written, and *seen says what would be, by `threads` threads. With
     * more than two inputs, `seen` has only made and total_made. */
    bool (*combine)(enum counts_op op, const struct layer *const *layer,
                    const uint8_t *const *data, unsigned n, const struct target *target,
                    unsigned threads, struct counts_seen *seen, struct err *err);

    /* Makes `out` a layer with fingerprints of so many bits, no more than `layer` has. */
    void (*narrow)(const struct layer *layer, unsigned bits, struct layer *out);

    /* Hands over a hash for each key of the layer whose hash lies in [first, last], in ascending
     * order: its own if fingerprints have 64 bits, else the lowest one that has its fingerprint. */
    bool (*hashes)(const struct layer *layer, const uint8_t *data, uint64_t first, uint64_t last,
                   bool (*take)(void *ctx, const uint64_t *hash, const uint64_t *count, size_t n,
                                struct err *err),
                   void *ctx, struct err *err);
};

struct kind {
    uint32_t id; /* as stored in the file */
    const char *name;
    const struct layout *layout; /* of another program (layout.h); NULL: one of seen's own */
    struct variants *variants; /* variants of its inner loops, for `seen --version`; NULL: none */

    /* ---- An existing layer. */

    /* Checks geometry and data_len against each other. Nothing else stands between an untrusted
     * header and the functions below. */
    bool (*check)(const struct layer *layer, struct err *err);

    /* Sets bit i of `present` (64 to a word, low bit first) if key i is in the layer. Clears no
     * bits. n is at most LAYER_BATCH. */
    void (*query)(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                  uint64_t *present);

    /* Prefetches what query or add will read. NULL: not worth it. */
    void (*prefetch)(const struct layer *layer, const uint8_t *data, struct hashes keys,
                     size_t n);

    /* Inserts n keys in order. Sets bit i of `present` if key i was already reported present at its
     * turn. n is at most LAYER_BATCH. Changes must be monotone: bits only go from 0 to 1, and
     * sessions rely on it (store/session.h). A kind that has to clear bits leaves this NULL; its
     * filters are rewritten as a whole. NULL: no keys can be added in place. */
    void (*add)(const struct layer *layer, uint8_t *data, struct hashes keys, size_t n,
                uint64_t *present);

    /* Sets page[i] to the one data page that decides about key i, i < n, and that `add` changes.
     * Such a kind has one lane. NULL: several pages decide about a key; `pages` names them. */
    void (*page)(const struct layer *layer, struct hashes keys, size_t n, uint64_t *page);

    /* Is the first key in the layer? `bytes` are those of page `page`, which decides about it. Set
     * exactly if the member above is. */
    bool (*query_page)(const struct layer *layer, const uint8_t *bytes, uint64_t page,
                       struct hashes key);

    /* Calls need(ctx, page) for every page that decides about the first key, before reading from
     * it. Stops and returns false if need does. NULL: `page` is set. */
    bool (*pages)(const struct layer *layer, const uint8_t *data, struct hashes key,
                  bool (*need)(void *ctx, uint64_t page), void *ctx);

    /* Validates the contents of a page whose checksum matches. NULL: any contents are valid.
     * Whatever a page holds, query and pages read nothing outside the data. */
    bool (*check_page)(const struct layer *layer, const uint8_t *data, uint64_t page,
                       struct err *err);

    /* Validates what no page shows by itself, by reading all data with `threads` threads. All pages
     * have passed check_page. NULL: pages show everything. */
    bool (*check_whole)(const struct layer *layer, const uint8_t *data, unsigned threads,
                        struct err *err);

    /* Reads all data, with `threads` threads. The result does not depend on their number. */
    void (*census)(const struct layer *layer, const uint8_t *data, unsigned threads,
                   struct census *out);

    /* Reads all data, as census does. NULL: the kind has no lines. */
    void (*occupancy)(const struct layer *layer, const uint8_t *data, unsigned threads,
                      struct occupancy *out);

    /* The FPR by a sample of hashes, `bits_set` being the fraction of bits that are set: for kinds
     * whose formula, which census uses, is off by more than 1 %. The result does not depend on the
     * number of threads. NULL: the formula is right. */
    double (*sampled_fpr)(const struct layer *layer, const uint8_t *data, unsigned threads,
                          double bits_set);

    /* Do the bits of two layers of this kind fit together, folded perhaps? Then census_union takes
     * a census of their union, or that of more of them. NULL: they never do. */
    bool (*alike)(const struct layer *a, const struct layer *b);
    void (*census_union)(const struct layer *const *layer, const uint8_t *const *data, unsigned n,
                         unsigned threads, struct census *out);

    /* A census of the keys of two layers that are alike, both folded to one size perhaps. False:
     * too many bits are set. NULL: `alike` is. */
    bool (*pair)(const struct layer *const *layer, const uint8_t *const *data, unsigned threads,
                 struct pair_census *out);

    /* The chance that any of n layers that are alike and of equal size reports an absent key, as a
     * part of the sum of their chances. */
    double (*union_part)(const struct layer *layer, const uint8_t *const *data, unsigned n);

    struct shape (*shape)(const struct layer *layer);

    /* The FPR that the design predicts for n distinct keys. */
    double (*fpr_at)(const struct layer *layer, double n);

    /* ---- Sizing. These set kind, geometry and data_len of *out. */

    /* Can the kind have an FPR of p, 0 < p < 1? If not, the error states the range. */
    bool (*check_fpr)(double p, struct err *err);

    /* Keys with equal hashes cannot be told apart: n keys have an FPR of at least n / 2^64. This is
     * the largest part of the promised FPR that it may take. */
    double hash_share;

    /* The smallest layer for n distinct keys at FPR p; p has passed check_fpr. If the length
     * depends on the keys, data_len is an estimate. False: it would be too large. */
    bool (*size)(uint64_t n, double p, struct layer *out);

    /* The layer of at most data_len bytes with the smallest FPR for n keys; returns that FPR. NULL:
     * callers search by calling `size` with rates from fpr_min to fpr_max. */
    double (*best)(uint64_t n, uint64_t data_len, struct layer *out);
    double fpr_min, fpr_max;

    uint64_t len_max; /* the largest data_len of a layer */

    /* The layer of at most data_len bytes that holds the most keys at FPR p. Returns the number of
     * keys, 0 if there is no such layer. NULL: n must be given. */
    uint64_t (*capacity)(uint64_t data_len, double p, struct layer *out);

    /* For n keys in a file of file_len bytes. */
    void (*cost)(const struct layer *layer, uint64_t n, uint64_t file_len, struct cost *out);

    /* ---- Building. */

    /* Lanes of a hash that decide about a key. `build` gets a keyset with that many. Hash functions
     * that have more will do. */
    unsigned lanes;

    /* The layer that follows `last`, a full one, in a filter that grows: sets kind, geometry,
     * data_len, n_design and fpr_design. NULL: chain.h has the rule. */
    bool (*next)(const struct layer *last, struct layer *out, struct err *err);

    /* A layer takes exactly n_design keys, counted by those that changed a bit; the filter then
     * grows, or refuses more. */
    bool exact_capacity;

    /* May keys be added to a filter whose newest layer is this? If not, says why. NULL: always. */
    bool (*check_add)(const struct layer *newest, struct err *err);

    /* Makes the target layer from all keys of a keyset; writes its data and checksums. A kind whose
     * length depends on the keys changes data_len (target_resize); the layer must then be the last.
     * NULL: keys are added one by one, in order (memory.h). */
    bool (*build)(const struct target *target, struct keyset *keys, struct census *census,
                  struct err *err);

    /* Bytes of memory that `build` takes a thread, besides the keyset; and the largest part that it
     * requests from keyset_visit_sorted, 0 if it does not call that. NULL: next to none. */
    uint64_t (*build_memory)(void);
    size_t build_part;

    /* Up to this FPR, presuming that the keys are distinct pays off (target->presumed). */
    double presuming_fpr;

    /* NULL: the kind cannot be filled in memory. */
    const struct kind_bits *bits;

    /* NULL: the kind does not count. */
    const struct kind_counts *counts;

    /* ---- Making a layer from others, without the keys. */

    /* The layer that is the bitwise union (or intersection) of two layers of this kind. False if
     * they do not fit. NULL: they never fit. */
    bool (*unite)(const struct layer *a, const struct layer *b, struct layer *out);

    /* Writes the target layer: the union of all parts, as `unite` made it, or one part folded. */
    bool (*write_union)(const struct target *target, const struct union_of *parts,
                        struct census *census, struct err *err);

    /* The smallest layer of more than `above` bytes to which this one folds and whose predicted FPR
     * with n keys is at most p. The layer itself if none is smaller. NULL: layers of this kind do
     * not fold. */
    void (*fold)(const struct layer *layer, double n, double p, uint64_t above, struct layer *out);

    /* Rounds a layer up to a size that folds to a half, a third, and so on to 1/parts; with parts =
     * 0, to halves of halves. Adds at most 2 %, unless parts is 0. */
    void (*round_to_fold)(struct layer *layer, unsigned parts);

    /* A layer no larger than this one with an FPR of p, where p is at least the current FPR.
     * NULL: the FPR cannot be raised. write_dropped then makes the layer and may change its length.
     */
    void (*drop)(const struct layer *layer, double p, struct layer *out);
    bool (*write_dropped)(const struct target *target, const struct layer *from,
                          const uint8_t *data, struct err *err);
};

/* Keys in one call of query or add. Enough for prefetching to hide memory latency, few enough to
 * stay in the first-level cache. 256 beat 32 and 64 by a tenth on filters larger than the cache. */
enum { LAYER_BATCH = 256, LAYER_PAGE = 4096 };

/* The kind with that id, or NULL. Kind number i, from 0; NULL after the last. */
const struct kind *kind_by_id(uint32_t id);
const struct kind *kind_number(unsigned i);

/* The kinds that `seen create` makes: one that takes keys at any time, the smallest for --compact,
 * and the one that counts for --counted. */
const struct kind *kind_usual(void);
const struct kind *kind_compact(void);
const struct kind *kind_counting(void);

/* The largest number of keys (within 1e-7 of it, or 0.01) for which fpr_at is at most fpr; about
 * 1e18 if there is no limit. */
double layer_n_at(const struct layer *layer, double fpr);

static inline bool layer_takes_keys(const struct layer *layer)
{
    return layer->kind->add != NULL;
}

/* Calls need(ctx, page) for every page that decides about n keys; stops and returns false when that
 * does. `need` is inlined where it can be: this runs for every key. n is at most LAYER_BATCH. */
static inline __attribute__((always_inline)) bool
layer_each_page(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                bool (*need)(void *ctx, uint64_t page), void *ctx)
{
    if (layer->kind->page == NULL) {
        for (size_t i = 0; i < n; i++)
            if (!layer->kind->pages(layer, data, hashes_from(keys, i), need, ctx))
                return false;
        return true;
    }
    uint64_t page[LAYER_BATCH];
    layer->kind->page(layer, keys, n, page);
    for (size_t i = 0; i < n; i++)
        if (!need(ctx, page[i]))
            return false;
    return true;
}

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

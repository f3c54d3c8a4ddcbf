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
struct variants;
struct keyset;
struct target;

/* What the header's directory says of a layer. Offsets and lengths are in bytes from the start of
 * the file; the layer's data is `data_len` bytes at `data_off`. */
struct layer {
    const struct kind *kind;
    uint64_t id; /* unique in the file; binds checksums to the layer */
    uint64_t n_design;
    double fpr_design;
    uint64_t data_off, data_len;
    uint64_t sums_off;    /* a checksum of 4 bytes for each 4 KiB page of data */
    uint64_t touched_off; /* a bit for each page: changed since the checksums were made; 0: none */
    uint64_t geometry[4]; /* as the kind defines them */
    /* In filters that grow or forget (chain.h); else zero. */
    bool is_void;         /* holds nothing that counts: about to be emptied */
    uint64_t generation;  /* the layer with the highest takes new keys; of equals, the last */
    uint64_t since;       /* when it began to, in seconds since 1970; 0: not told */
    double n_closed;      /* distinct keys in it when it ceased to */
    double fpr_closed;    /* and its FPR then, from the bits; 0: not known */
};

/* So many deviations to both sides hold 95 % of a normal law. */
#define CENSUS_Z95 1.959964

/* What can be told from a layer's bits as they are now. */
struct census {
    double fpr;              /* the probability that an absent key is reported present */
    double n, n_low, n_high; /* estimated distinct keys, 95 % interval; equal when exact */
    bool n_exact;
    bool n_at_least; /* too full for an estimate: n is n_low, and there is no upper end */
    uint64_t lines;        /* 512-bit lines; 0 where the kind has none */
    unsigned line_min, line_max; /* bits set in the emptiest and the fullest line */
    uint64_t lines_full;
    double bits_set; /* fraction of bits that are set */
};

/* What a layer's geometry is made of, for people; zero: the kind has no such thing. */
struct shape {
    uint64_t pages, lines, partitions;
    unsigned k;
    double columns;
};

/* What a filter of one layer costs to build and to ask, for 'seen plan'. */
struct cost {
    uint64_t bits;         /* of the table, without what surrounds it */
    unsigned k;            /* bits that a query compares */
    double lines;          /* cache lines that a query touches, at most */
    uint64_t build_memory; /* bytes, the filter included */
    double build_time;     /* nanoseconds of CPU time a key, about */
};

/* Layers that are united (or intersected) into one. */
struct union_of {
    unsigned n;
    const struct layer *const *layer;
    const uint8_t *const *data;
    bool intersect;
};

/* A layer of known size that is filled in memory while keys come. */
struct kind_bits {
    /* NULL when there is no memory for it. */
    void *(*begin)(const struct layer *layer);
    /* A keyset_drain (keys/keyset.h). */
    void (*put)(void *bits, unsigned partition, const uint64_t *hash, size_t n);
    bool (*write)(const struct target *target, const void *bits, struct census *census,
                  struct err *err);
    void (*end)(void *bits); /* or of NULL */
};

struct kind {
    uint32_t id; /* as stored in the file */
    const char *name;
    struct variants *variants; /* of its inner loops, for `seen --version`; NULL: none */

    /* ---- A layer as it stands. */

    /* Do geometry and data_len fit each other? The only check between a stranger's header and the
     * functions below. */
    bool (*check)(const struct layer *layer, struct err *err);

    /* Sets bit i of `present` (64 to a word, low bit first) when key i is in the layer; clears
     * none. n is at most LAYER_BATCH. */
    void (*query)(const struct layer *layer, const uint8_t *data, struct hashes keys, size_t n,
                  uint64_t *present);

    /* Brings what query or add will look at into the cache. NULL: not worth it. */
    void (*prefetch)(const struct layer *layer, const uint8_t *data, struct hashes keys,
                     size_t n);

    /* Inserts n keys in order, and sets bit i of `present` when key i was reported present
     * before it came. n is at most LAYER_BATCH. Changes are monotone: bits go from 0 to 1 only,
     * which is what a session relies on (store/session.h). A kind that has to clear bits gives no
     * such function; its filters are written anew. NULL: no keys can be added in place. */
    void (*add)(const struct layer *layer, uint8_t *data, struct hashes keys, size_t n,
                uint64_t *present);

    /* page[i] is the one page of the data that decides about key i, i < n, and that `add` changes.
     * NULL: there are several for each, and `pages` names them. */
    void (*page)(const struct layer *layer, struct hashes keys, size_t n, uint64_t *page);

    /* Calls need(ctx, page) for every page that decides about the first key, before it reads from
     * it; stops and returns false when that does. NULL: there is `page`. */
    bool (*pages)(const struct layer *layer, const uint8_t *data, struct hashes key,
                  bool (*need)(void *ctx, uint64_t page), void *ctx);

    /* Validates the contents of a page whose checksum matches. NULL: any contents are valid.
     * Whatever a page holds, query and pages read nothing outside the data. */
    bool (*check_page)(const struct layer *layer, const uint8_t *data, uint64_t page,
                       struct err *err);

    /* Reads all of the data, with `threads` threads. The result does not depend on their number. */
    void (*census)(const struct layer *layer, const uint8_t *data, unsigned threads,
                   struct census *out);

    /* Do the bits of two layers of this kind fit together, folded perhaps? Then census_union takes
     * a census of their union, or that of more of them. NULL: they never do. */
    bool (*alike)(const struct layer *a, const struct layer *b);
    void (*census_union)(const struct layer *const *layer, const uint8_t *const *data, unsigned n,
                         unsigned threads, struct census *out);

    /* The chance that any of n layers that are alike and of equal size reports an absent key, as a
     * part of the sum of their chances. */
    double (*union_part)(const struct layer *layer, const uint8_t *const *data, unsigned n);

    struct shape (*shape)(const struct layer *layer);

    /* The FPR that the design predicts once n distinct keys are in. */
    double (*fpr_at)(const struct layer *layer, double n);

    /* ---- Sizing. These set kind, geometry and data_len of *out. */

    /* Can the kind have an FPR of p, 0 < p < 1? The error says what it can have. */
    bool (*check_fpr)(double p, struct err *err);

    /* Keys of equal hash cannot be told apart, which gives n keys an FPR of n / 2^64. It may be no
     * more than this part of the FPR that is promised. */
    double hash_share;

    /* The smallest layer for n distinct keys at FPR p, which check_fpr allows. Of a kind whose
     * length depends on the keys, data_len is an estimate. False: it would be too large. */
    bool (*size)(uint64_t n, double p, struct layer *out);

    /* The layer of at most data_len bytes with the smallest FPR for n keys, which is returned.
     * NULL: to be found by trying rates in `size`, from fpr_min to fpr_max. */
    double (*best)(uint64_t n, uint64_t data_len, struct layer *out);
    double fpr_min, fpr_max;

    uint64_t len_max; /* bytes that a layer's data can have */

    /* The layer of at most data_len bytes that holds the most keys at FPR p; returns how many, 0 if
     * there is none. NULL: there is no such function, and n must be known. */
    uint64_t (*capacity)(uint64_t data_len, double p, struct layer *out);

    /* For n keys, in a file of that length. */
    void (*cost)(const struct layer *layer, uint64_t n, uint64_t file_len, struct cost *out);

    /* ---- Building. */

    /* Makes the target layer from all keys of a keyset and writes its data and checksums. A kind
     * whose length depends on the keys changes data_len (target_resize); the layer must then be the
     * last. */
    bool (*build)(const struct target *target, struct keyset *keys, struct census *census,
                  struct err *err);

    /* Bytes of memory that `build` takes for a thread, besides the keyset; and the largest part
     * that it asks of keyset_visit_sorted, 0 if it does not call that. NULL: next to none. */
    uint64_t (*build_memory)(void);
    size_t build_part;

    /* Up to this FPR it pays to presume that the keys are distinct (target->presumed). */
    double presuming_fpr;

    /* NULL: it cannot be filled so. */
    const struct kind_bits *bits;

    /* ---- Making one layer of another, without the keys. */

    /* The layer that is the union (or intersection) of two of this kind, bit by bit; false if there
     * is none. NULL: there never is. */
    bool (*unite)(const struct layer *a, const struct layer *b, struct layer *out);

    /* Writes the target layer: what `unite` made of all parts' layers, or `fold` of one part. */
    bool (*write_union)(const struct target *target, const struct union_of *parts,
                        struct census *census, struct err *err);

    /* The smallest layer of more than `above` bytes into which this one folds and which, by its
     * formula, has FPR p at most with n keys; the layer itself if there is no smaller one. NULL:
     * layers of the kind do not fold. */
    void (*fold)(const struct layer *layer, double n, double p, uint64_t above, struct layer *out);

    /* Rounds a layer up to a size that folds well: to a half, a third, and so on to 1/parts; with
     * parts = 0, to halves of halves. Not by more than a fiftieth, unless parts is 0. */
    void (*round_to_fold)(struct layer *layer, unsigned parts);

    /* The layer of at most this one's size that has an FPR of p, which is no smaller than its own.
     * NULL: its FPR cannot be raised. Then write_dropped makes it, and may change its length. */
    void (*drop)(const struct layer *layer, double p, struct layer *out);
    bool (*write_dropped)(const struct target *target, const struct layer *from,
                          const uint8_t *data, struct err *err);
};

/* Keys in one call of query or insert: enough for prefetches to hide memory behind, few enough to
 * stay in the first-level cache. 256 beat 32 and 64 by a tenth on filters larger than the cache. */
enum { LAYER_BATCH = 256, LAYER_PAGE = 4096 };

/* The kind of that id, or NULL; and all kinds, number 0 first, NULL behind the last. */
const struct kind *kind_by_id(uint32_t id);
const struct kind *kind_number(unsigned i);

/* What `seen create` makes: a kind that takes keys at any time, or with --compact the smallest. */
const struct kind *kind_usual(void);
const struct kind *kind_compact(void);

/* The largest number of keys, to 1e-7 of it or 0.01, for which fpr_at gives at most that FPR; about
 * 1e18 if any does. */
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
    uint64_t page[LAYER_BATCH];
    if (layer->kind->page != NULL)
        layer->kind->page(layer, keys, n, page);
    for (size_t i = 0; i < n; i++)
        if (layer->kind->page != NULL
                ? !need(ctx, page[i])
                : !layer->kind->pages(layer, data, hashes_from(keys, i), need, ctx))
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

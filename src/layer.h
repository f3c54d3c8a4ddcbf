/*
 * Layers and their kinds. A filter file is a header and one or more layers; a key is in the filter
 * if it is in any layer. A layer is of a kind, which alone knows what the layer's bytes mean. To
 * add a kind: write its file with one `struct kind`, and name it in the list in layer.c. Nothing
 * else asks which kind a layer is.
 */
#ifndef LAYER_H
#define LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

struct kind;
struct header;
struct keyset;

/* A layer in the making: header->layers[layer], placed (format_place), in a file that is named
 * `name` in messages. */
struct build_target {
    struct header *header;
    unsigned layer;
    int fd;
    const char *name;
    unsigned threads;
    uint64_t n; /* distinct keys */
    bool presumed; /* n presumes that no key is repeated; when one is, the build fails */
};

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

struct kind {
    uint32_t id; /* as stored in the file */
    const char *name;

    /* Do geometry and data_len fit each other? The only check between a stranger's header and the
     * functions below. */
    bool (*check)(const struct layer *layer, struct err *err);

    /* Sets bit i of `present` (64 to a word, low bit first) when hash[i] is in the layer; clears
     * none. n is at most LAYER_BATCH. */
    void (*query)(const struct layer *layer, const uint8_t *data, const uint64_t *hash, size_t n,
                  uint64_t *present);

    /* Brings what query or add will look at into the cache. NULL: not worth it. */
    void (*prefetch)(const struct layer *layer, const uint8_t *data, const uint64_t *hash,
                     size_t n);

    /* Inserts hash[0..n) in order, and sets bit i of `present` when hash[i] was reported present
     * before it came. n is at most LAYER_BATCH. NULL: the kind is immutable. */
    void (*add)(const struct layer *layer, uint8_t *data, const uint64_t *hash, size_t n,
                uint64_t *present);

    /* The layer that is the union (or intersection) of two of this kind, bit by bit; false if there
     * is none. NULL: there never is. Then unite_pages makes pages [first, first + n) of it. */
    bool (*unite)(const struct layer *a, const struct layer *b, struct layer *out);
    void (*unite_pages)(const struct layer *out, uint8_t *pages, uint64_t first, uint64_t n,
                        const struct layer *in, const uint8_t *in_data, bool intersect);

    /* page[i] is the page of the data that decides about hash[i], i < n. NULL: there are several
     * for each, and `pages` names them. */
    void (*page)(const struct layer *layer, const uint64_t *hash, size_t n, uint64_t *page);

    /* Calls need(ctx, page) for every page that decides about this hash, before it reads from it;
     * stops and returns false when that does. */
    bool (*pages)(const struct layer *layer, const uint8_t *data, uint64_t hash,
                  bool (*need)(void *ctx, uint64_t page), void *ctx);

    /* Does a page of the data, whose checksum holds, say what can be? NULL: any bits can be.
     * Whatever pages say, query and pages read nothing outside the data. */
    bool (*check_page)(const struct layer *layer, const uint8_t *data, uint64_t page,
                       struct err *err);

    /* Makes the layer target->header->layers[target->layer] from all keys of a keyset and writes
     * its data and checksums. A kind whose length depends on the keys sets data_len and places the
     * layer again; it must then be the last. */
    bool (*build)(const struct build_target *target, struct keyset *keys, struct census *census,
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
};

/* Keys in one call of query or insert: enough for prefetches to hide memory behind, few enough to
 * stay in the first-level cache. 256 beat 32 and 64 by a tenth on filters larger than the cache. */
enum { LAYER_BATCH = 256, LAYER_PAGE = 4096 };

/* The kind of that id, or NULL. */
const struct kind *kind_by_id(uint32_t id);

/* The largest number of keys, to 1e-7 of it or 0.01, for which fpr_at gives at most that FPR; about
 * 1e18 if any does. */
double layer_n_at(const struct layer *layer, double fpr);

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

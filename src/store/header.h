/*
 * What a new filter is to be. The only maker of headers: from the wishes of `seen create` and the
 * distinct keys that there are, or as a copy of another filter's header for the same keys.
 *
 *     struct design design = {.p = p, .grow = true};                   // 0, false: not wished for
 *     uint64_t n = design_is_sized(&design) ? 0 : count_the_keys();
 *     header_begin(&header, &rule, reproducible);
 *     if (!header_design(&header, &design, n, &err)) ...
 */
#ifndef STORE_HEADER_H
#define STORE_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/batch.h"
#include "kind/layout.h"
#include "store/format.h"
#include "store/plan.h"

struct design {
    const struct kind *kind;   /* NULL: the usual one, or that of `like` or `layout` */
    const struct layout_spec *layout; /* as another program would make it; with n, p and empty */
    uint64_t n;                /* distinct keys that it is for */
    double p;                  /* FPR with that many */
    bool exact;                /* the smallest FPR that there can be, instead of p */
    uint64_t size;             /* bytes that the file may take */
    const struct header *like; /* of one layer, which gives n, p and the size */
    const struct header *batch_for; /* of a kind that counts, which gives p and the bits */
    bool foldable;             /* of a size that can be halved again and again */
    bool grow;                 /* without an end (chain.h); n, if given, sizes the first layer */
    unsigned generations;      /* a ring of so many; needs n */
    bool empty;                /* for no keys yet */
};

/* The kind of layer that takes the keys. */
const struct kind *design_kind(const struct design *d);

/* Do the wishes alone decide on the size? */
bool design_is_sized(const struct design *d);

/* What a layout says of a filter for n distinct keys; n as with design_plan. */
bool design_layout(const struct design *d, uint64_t n, struct layout_filter *filter,
                   struct err *err);

/* Has keys prepared and hashed as the design's layout does it. */
bool design_rule(const struct design *d, struct key_rule *rule, struct err *err);

/* The plan of a filter of no layout that neither grows nor forgets, for n distinct keys if those
 * decide. Fails on wishes that nothing can fulfil. */
bool design_plan(const struct design *d, uint64_t n, struct plan *plan, struct err *err);

/* A clean header, without layers yet, for keys that are prepared and hashed by that rule. The
 * file's id is random, and the times are now; reproducible files have neither. */
void header_begin(struct header *h, const struct key_rule *rule, bool reproducible);

/* The same for the keys of another filter. */
void header_begin_like(struct header *h, const struct header *other, bool reproducible);

/* To be called for each further filter whose keys the new one has too: their length is known only
 * if it is the same in all. */
void header_join_keys(struct header *h, const struct header *other);

/* Gives it the layers of any filter, placed, its policy, capacity, rate and feature bits; the layer
 * that takes keys is chain_newest(h). n and failures as with design_plan. */
bool header_design(struct header *h, const struct design *d, uint64_t n, struct err *err);

/* Fields in which two filters must agree for their keys to mean the same; false names the ones that
 * differ ("hash seed, --hex"). */
bool header_same_keys(const struct header *a, const struct header *b, struct err *err);

/* The same of filters that are asked together; the reason is a sentence that names both. */
bool header_same_questions(const struct header *a, const char *a_path, const struct header *b,
                           const char *b_path, struct err *err);

#endif

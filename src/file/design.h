/* SPDX-License-Identifier: MIT
 * The design of a new filter, from the options of `seen create`: which layers it has for a number
 * of distinct keys.
 *
 *     struct design design = {.p = p, .grow = true};                   // 0, false: not requested
 *     uint64_t n = design_is_sized(&design) ? 0 : count_the_keys();
 *     header_begin(&header, &rule, reproducible);
 *     if (!header_design(&header, &design, n, &err)) ...
 */
#ifndef FILE_DESIGN_H
#define FILE_DESIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kind/kind.h"
#include "kind/foreign.h"
#include "file/header.h"

struct key_rule; /* keys/rule.h */

/* ---- Plans a filter of one layer before anything is written. From the given values of capacity,
 * FPR and file size, computes the missing ones.
 *
 *     struct plan plan = {.kind = kind_usual(), .n = n, .p = p, .size = size};    // 0: not given
 *     if (!plan_solve(&plan, &err)) ...
 *     ... plan.n, plan.p, plan.layer, format_file_len(&plan.layer) ... */

struct plan {
    const struct kind *kind;
    uint64_t n;         /* distinct keys */
    double p;           /* design FPR */
    uint64_t size;      /* limit for the file, in bytes */
    bool grows;         /* n and p given: the layer is the first of a filter that grows */
    struct layer layer; /* for n keys at p; data_len may be an estimate (kind->sizing->size) */
};

/* Computes n or p, whichever is 0, from the other one and size. With n alone or size alone, p is
 * LAYER_FPR. Fails if the values contradict each other or cannot be achieved; the error says what
 * would be needed. */
bool plan_solve(struct plan *plan, struct err *err);

/* The FPR of n keys (at least 1) if only their 64-bit hashes are stored: n / 2^64. */
double plan_least_fpr(uint64_t n);

/* ---- Headers of new filters. */

struct design {
    const struct kind *kind;          /* NULL: the usual one, or that of `like` or `layout` */
    const struct layout_spec *layout; /* another program's layout; only with n, p and empty */
    uint64_t n;                       /* capacity: distinct keys */
    double p;                         /* FPR with n keys */
    bool exact;                       /* the smallest possible FPR, instead of p */
    uint64_t size;                    /* limit for the file, in bytes */
    const struct header *like;        /* header with one layer, which gives n, p and the size */
    const struct header *batch_for;   /* header of a kind that counts, which gives p and the bits */
    bool foldable;                    /* a size that can be halved repeatedly */
    bool grow;            /* grows without limit (chain.h); n, if given: first layer's size */
    bool more;            /* the same, and further layers are expected */
    unsigned generations; /* a ring with this many generations; needs n */
    uint64_t period;      /* of such a ring (chain.h), in seconds; 0: none */
    bool no_profile;      /* keeps no account of what keys look like */
    bool each;            /* counts each time that a key is put; a kind that counts */
    bool empty;           /* contains no keys yet */
};

/* The kind of layer that takes the keys. */
const struct kind *design_kind(const struct design *d);

/* Does the design alone determine the size? */
bool design_is_sized(const struct design *d);

/* Is the size of a new filter of a layout, at FPR p (0: not given), independent of its number of
 * keys? */
bool design_fixes_size(const struct layout_spec *spec, double p);

/* The layout's description of a filter for n distinct keys; n as with design_plan. */
bool design_layout(const struct design *d, uint64_t n, struct layout_filter *filter,
                   struct err *err);

/* Makes the rule prepare and hash keys as the design's layout does. */
bool design_rule(const struct design *d, struct key_rule *rule, struct err *err);

/* Plans a filter without a layout that is no ring. n is the number of distinct keys; it is used
 * unless design_is_sized. Fails if the design cannot be achieved. */
bool design_plan(const struct design *d, uint64_t n, struct plan *plan, struct err *err);

/* ---- Growing filters for an unknown number of keys. */

/* Sets the capacity of the first layer for the keys that come, from estimates of their records and
 * of the distinct keys among these (keys/survey.h). 0: unknown. Many records of which no estimate
 * of the keys is known get the usual capacity, as an unknown number does.
 * write/refit.h corrects the size at the end, provided that it could keep the keys. */
void design_expect(struct design *d, uint64_t records, uint64_t keys);

/* The design of a filter like this one that begins with all its keys in one layer. */
struct design design_anew(const struct header *h);

/* Plans the filter anew with a first layer of the usual capacity. False: it does not grow, or its
 * first layer is no larger than that.
 * The disk or the memory may be too small for the expected keys, but not for the actual ones. */
bool design_usual(struct header *h);

/* Is the file of a growing filter that has n distinct keys hardly larger than that of
 * design_anew? */
bool design_fits(const struct header *h, uint64_t n);

/* ---- Layouts of other programs. */

/* As header_begin, for a filter of another program, with its layers. The rule gives the preparation
 * of keys; hash, seed and encoding are the layout's. Counters are those of an empty filter. */
void header_begin_foreign(struct header *h, const struct layout_filter *filter,
                          const struct key_rule *rule, bool reproducible);

/* Sets the rule's hash, seed and key encoding to the layout's; the rest of the preparation stays.
 * Fails if the rule asks for digests and the layout has an encoding. */
bool header_take_rule(const struct layout_filter *filter, struct key_rule *rule, struct err *err);

/* Sets the header's layers, policy, capacity and rate to the filter's, and places the layers. */
void header_take_layers(struct header *h, const struct layout_filter *filter);

/* Sets the header's layers, placed, and its policy, capacity, rate and feature bits, for any
 * design. The layer that takes keys is chain_newest(h). n and failures as with design_plan. */
bool header_design(struct header *h, const struct design *d, uint64_t n, struct err *err);

#endif

/*
 * What two sets of keys share: union, intersection, Jaccard index and containment, with 95 %
 * intervals, from what a kind's layers tell.
 *
 * Layers tell numbers of occupied cells: bits of a table, or fingerprints. Keys that share a cell
 * are seen as one, so each number of keys is an estimate, and the variance of that is a function
 * V(n) of the number of keys n. The estimates for two sets S and T have the covariance
 * V(|S and T|): only where keys of both are does chance treat both alike. So with D = A + B - U,
 * the number of keys in both,
 *
 *     var D      = V(U) - V(A) - V(B) + 2 V(D)
 *     cov(D, U)  = V(A) + V(B) - V(U)
 *     cov(D, A)  = V(D)
 *
 * and ratios have their variance by the delta method.
 *
 * Where few cells are those of several keys, the number of keys has no normal law. Then k n is the
 * number of occupied cells and a number of missing ones whose law is summed, and the interval has
 * the shortest range of whole numbers n with 95 % of it.
 */
#ifndef KIND_OVERLAP_H
#define KIND_OVERLAP_H

#include <stdbool.h>
#include <stdint.h>

#include "kind/kind.h"

/* With a 95 % interval. */
struct figure {
    double value, low, high; /* equal: exact. A ratio to nothing is NAN */
};

struct overlap {
    struct figure a, b, any, both;
    struct figure jaccard;        /* both / any */
    struct figure a_in_b, b_in_a; /* both / a, both / b */
};

/* Of keys that are known one by one. */
void overlap_exact(uint64_t a, uint64_t b, uint64_t both, struct overlap *out);

void overlap_estimate(const struct pair_census *pair, struct overlap *out);

/* Of sets in which a key is one of 2^bits fingerprints, from numbers of fingerprints. False: the
 * sets are too full. */
bool overlap_fingerprints(uint64_t a, uint64_t b, uint64_t both, unsigned bits,
                          struct overlap *out);

/* Of tables of `cells` cells in which every key occupies k, from the numbers of cells that are
 * occupied in a, in b and in any. With t = k n / cells, V(n) = cells (e^t - 1 - t) / k^2. False:
 * too many are. */
bool overlap_cells(double cells, unsigned k, const double occupied[3], struct pair_census *out);

#endif

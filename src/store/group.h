/*
 * Keys that go into a layer together: those of up to LAYER_BATCH adjacent records, without the keys
 * that are known.
 *
 *     struct group g;
 *     group_gather(&g, keys, lanes, known, from, to);
 *     layer->kind->query(layer, data, group_hashes(&g), g.n, present);
 *     group_leave_out(&g, present, known);       // the keys that need not go in
 *     layer->kind->add(layer, data, group_hashes(&g), g.n, present);
 *     group_mark_known(&g, present, known);
 *
 * Bit i of `present` belongs to key i of the group, bit i of `known` to record i.
 */
#ifndef STORE_GROUP_H
#define STORE_GROUP_H

#include <stddef.h>
#include <stdint.h>

#include "keys/hash.h"
#include "kind/kind.h"

enum { GROUP_WORDS = LAYER_BATCH / 64 }; /* of `present` */

/* Key i is that of record first + place[i]. */
struct group {
    uint64_t lane[HASH_LANES][LAYER_BATCH];
    unsigned n_lanes;
    uint16_t place[LAYER_BATCH];
    size_t n, first;
};

static inline struct hashes group_hashes(const struct group *g)
{
    return (struct hashes){g->lane[0], LAYER_BATCH, NULL};
}

/* The record of key i. */
static inline size_t group_record(const struct group *g, size_t i)
{
    return g->first + g->place[i];
}

/* Takes the keys of records [from, to), LAYER_BATCH at most, that are not known. */
void group_gather(struct group *g, struct hashes keys, unsigned n_lanes, const uint64_t *known,
                  size_t from, size_t to);

/* Makes the keys known whose bit is set in `present`. */
void group_mark_known(const struct group *g, const uint64_t *present, uint64_t *known);

/* The same, and takes these keys out of the group; clears `present`. */
void group_leave_out(struct group *g, uint64_t *present, uint64_t *known);

#endif

#include "store/group.h"

#include <string.h>

#include "base/bits.h"

void group_gather(struct group *g, struct hashes keys, unsigned n_lanes, const uint64_t *known,
                  size_t from, size_t to)
{
    uint64_t any_known = 0;
    for (size_t i = from / 64; i * 64 < to; i++)
        any_known |= known[i];
    g->n = 0;
    g->first = from;
    g->n_lanes = n_lanes;
    if (any_known == 0) { /* the usual case */
        g->n = to - from;
        for (unsigned l = 0; l < g->n_lanes; l++)
            memcpy(g->lane[l], hashes_lane(keys, l) + from, g->n * sizeof *g->lane[l]);
        for (unsigned i = 0; i < LAYER_BATCH; i++)
            g->place[i] = (uint16_t)i;
        return;
    }
    for (size_t i = from; i < to; i++) {
        for (unsigned l = 0; l < g->n_lanes; l++)
            g->lane[l][g->n] = hashes_lane(keys, l)[i];
        g->place[g->n] = (uint16_t)(i - from);
        g->n += !bit_of(known, i);
    }
}

void group_mark_known(const struct group *g, const uint64_t *present, uint64_t *known)
{
    bool is_whole = g->n > 0 && g->place[g->n - 1] == g->n - 1;
    if (is_whole && g->first % 64 == 0) { /* a word at a time */
        for (size_t w = 0; w < (g->n + 63) / 64; w++)
            known[g->first / 64 + w] |= present[w];
        return;
    }
    for (size_t w = 0; w < GROUP_WORDS; w++)
        for (uint64_t bits = present[w]; bits != 0; bits &= bits - 1) {
            size_t i = 64 * w + (unsigned)__builtin_ctzll(bits);
            bit_set(known, group_record(g, i));
        }
}

void group_leave_out(struct group *g, uint64_t *present, uint64_t *known)
{
    size_t n = 0;
    if (bits_count(present, LAYER_BATCH) == 0)
        return;
    group_mark_known(g, present, known);
    for (size_t i = 0; i < g->n; i++) {
        for (unsigned l = 0; l < g->n_lanes; l++)
            g->lane[l][n] = g->lane[l][i];
        g->place[n] = g->place[i];
        n += !bit_of(present, i);
    }
    g->n = n;
    memset(present, 0, LAYER_BATCH / 8);
}

#include "store/kept.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "keys/sort.h"

/* Removes repeats. False: out of memory. */
static bool remove_repeats(struct kept *k)
{
    uint64_t *tmp = malloc(k->n * k->lanes * sizeof *tmp + 1);
    if (tmp == NULL)
        return false;
    k->n = distinct(k->hash, tmp, k->n, k->lanes, 64);
    free(tmp);
    return true;
}

/* Makes room for one key. Removing repeats must free half of the room, or it would be done too
 * often. */
static bool make_room(struct kept *k)
{
    const size_t most = KEPT_BYTES / sizeof *k->hash / k->lanes;
    if (k->n < k->room)
        return true;
    if (k->full)
        return false;
    if (k->room == most)
        return remove_repeats(k) && k->n <= most / 2;
    size_t room = 2 * k->room + LAYER_BATCH < most ? 2 * k->room + LAYER_BATCH : most;
    uint64_t *hash = realloc(k->hash, room * k->lanes * sizeof *hash);
    if (hash == NULL)
        return false;
    k->hash = hash;
    k->room = room;
    return true;
}

void kept_before(struct kept *k, const uint64_t *known, size_t n)
{
    size_t words = (n + 63) / 64;
    if (words > k->known_room) {
        free(k->known);
        k->known = malloc(words * sizeof *k->known);
        k->known_room = k->known != NULL ? words : 0;
    }
    if (k->known != NULL && n > 0)
        memcpy(k->known, known, words * sizeof *known);
}

void kept_after(struct kept *k, struct hashes keys, size_t done)
{
    for (size_t i = 0; i < done; i++) {
        if (k->known != NULL && bit_of(k->known, i))
            continue;
        k->full = k->full || k->known == NULL || !make_room(k);
        if (k->full) {
            k->n_more++;
            continue;
        }
        for (unsigned l = 0; l < k->lanes; l++)
            k->hash[k->n * k->lanes + l] = hashes_lane(keys, l)[i];
        k->n++;
    }
}

bool kept_count(struct kept *k, struct filter *f, uint64_t *n_lacking, struct err *err)
{
    uint64_t lane[HASH_LANES * LAYER_BATCH], present[LAYER_BATCH / 64];
    *n_lacking = 0;
    if (k->n > 0 && !remove_repeats(k))
        return fail(err, "out of memory");
    for (size_t from = 0; from < k->n; from += LAYER_BATCH) {
        size_t n = k->n - from < LAYER_BATCH ? k->n - from : LAYER_BATCH;
        for (size_t i = 0; i < n; i++)
            for (unsigned l = 0; l < k->lanes; l++)
                lane[l * LAYER_BATCH + i] = k->hash[(from + i) * k->lanes + l];
        if (!filter_query(f, (struct hashes){lane, LAYER_BATCH, NULL}, n, present, err))
            return false;
        *n_lacking += n - bits_count(present, n);
    }
    return true;
}

void kept_free(struct kept *k)
{
    free(k->hash);
    free(k->known);
}

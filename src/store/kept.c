#include "store/kept.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "keys/sort.h"

/* Most runs have few keys, and shall touch little memory. */
enum { FIRST_BYTES = 64 << 10, HUGE_PAGE = 2 << 20 };

/* One hash in 256 is in the sample, and twice as many fit as are expected. */
enum { SAMPLE_SHIFT = 56, SAMPLE = KEPT_BYTES / sizeof(uint64_t) / 256 * 2 };

/* Removes repeats. False: out of memory. */
static bool remove_repeats(struct kept *k)
{
    uint64_t *tmp = malloc(k->n * k->lanes * sizeof *tmp);
    if (tmp == NULL)
        return false;
    k->n = distinct(k->hash, tmp, k->n, k->lanes, 64);
    free(tmp);
    return true;
}

/* Is a good part of the keys repeats, by a sample? To look at all of them takes as long as to add
 * them. Hashes are uniform; chosen ones can make the answer wrong, and then fewer keys are kept. */
static bool seems_repeated(const struct kept *k)
{
    uint64_t *sample = malloc(2 * SAMPLE * sizeof *sample);
    size_t n = 0;
    if (sample == NULL)
        return false;
    for (size_t i = 0; i < k->n && n < SAMPLE; i++)
        if (k->hash[i * k->lanes] >> SAMPLE_SHIFT == 0)
            sample[n++] = k->hash[i * k->lanes];
    bool repeated = n > 0 && distinct(sample, sample + SAMPLE, n, 1, 64) <= n / 4 * 3;
    free(sample);
    return repeated;
}

/* Makes room for a word of keys. Removing repeats must free half of the room, or it would be done
 * too often. */
static bool make_room(struct kept *k)
{
    const size_t key = k->lanes * sizeof *k->hash, most = KEPT_BYTES / key;
    bool first = k->hash == NULL;
    if (!first && k->room == most)
        return seems_repeated(k) && remove_repeats(k) && k->n <= most / 2;
    uint64_t *hash = first ? malloc(FIRST_BYTES) : aligned_alloc(HUGE_PAGE, KEPT_BYTES);
    if (hash == NULL)
        return false;
    if (!first) {
#ifdef MADV_HUGEPAGE
        madvise(hash, KEPT_BYTES, MADV_HUGEPAGE);
#endif
        memcpy(hash, k->hash, k->n * key);
        free(k->hash);
    }
    k->hash = hash;
    k->room = first ? FIRST_BYTES / key : most;
    return true;
}

/* Keeps n keys from keys[at] on, at most a word, but not those whose bit in `known` is set. */
static void keep(struct kept *k, struct hashes keys, size_t at, size_t n, uint64_t known)
{
    uint64_t *to = k->hash + k->n * k->lanes;
    if (k->lanes == 1 && known == 0 && k->room - k->n >= n) {
        memcpy(to, keys.lane0 + at, n * sizeof *to);
        k->n += n;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (known >> i & 1)
            continue;
        if (k->n == k->room) {
            k->n_more++;
            continue;
        }
        for (unsigned l = 0; l < k->lanes; l++)
            *to++ = hashes_lane(keys, l)[at + i];
        k->n++;
    }
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
    for (size_t at = 0; at < done; at += 64) {
        size_t n = done - at < 64 ? done - at : 64;
        uint64_t known = k->known != NULL ? k->known[at / 64] & ~(uint64_t)0 >> (64 - n) : 0;
        if (!k->full && k->room - k->n < n)
            k->full = !make_room(k);
        keep(k, keys, at, n, known);
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

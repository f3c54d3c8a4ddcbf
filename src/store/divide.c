#include "store/divide.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/bytes.h"

bool divide_pays(const struct layer *layer, const struct crew *crew)
{
    return crew != NULL && crew_is_idle(crew) && layer->kind->page != NULL;
}

static bool reserve(struct divide *d, size_t n)
{
    if (n <= d->room)
        return true;
    divide_free(d);
    d->hash = malloc(n * sizeof *d->hash);
    d->place = malloc(n * sizeof *d->place);
    d->part = malloc(n);
    d->had = malloc(n + 64); /* bits_of reads 64 at a time */
    d->room = n;
    if (d->hash != NULL && d->place != NULL && d->part != NULL && d->had != NULL)
        return true;
    divide_free(d);
    return false;
}

/* Log2 of the pages in a part: a power of two makes the division a shift. */
static unsigned part_shift(const struct layer *layer)
{
    unsigned shift = 0;
    while ((layer_pages(layer) - 1) >> shift >= DIVIDE_PARTS)
        shift++;
    return shift;
}

/* Finds the part of each key, and how many keys each part has. */
static void find_parts(struct divide *d, const struct layer *layer, struct hashes keys,
                       const uint64_t *skip, size_t *count)
{
    unsigned shift = part_shift(layer);
    for (size_t i = 0, n; i < d->given; i += n) {
        uint64_t page[LAYER_BATCH];
        n = d->given - i < LAYER_BATCH ? d->given - i : LAYER_BATCH;
        layer->kind->page(layer, hashes_from(keys, i), n, page);
        for (size_t k = 0; k < n; k++) {
            uint8_t part = (uint8_t)(page[k] >> shift);
            d->part[i + k] = bit_of(skip, i + k) ? DIVIDE_PARTS : part;
            count[d->part[i + k]]++;
        }
    }
}

bool divide_take(struct divide *d, const struct layer *layer, struct hashes keys, size_t n,
                 const uint64_t *skip)
{
    size_t count[DIVIDE_PARTS + 1] = {0}, at[DIVIDE_PARTS + 1];
    if (!reserve(d, n))
        return false;
    d->given = n;
    find_parts(d, layer, keys, skip, count);
    d->n = n - count[DIVIDE_PARTS];
    for (size_t p = 0, sum = 0; p <= DIVIDE_PARTS; sum += count[p++])
        d->start[p] = at[p] = sum;
    for (size_t i = 0; i < n; i++) {
        size_t to = at[d->part[i]]++; /* skipped keys go last */
        d->hash[to] = keys.lane0[i];
        d->place[to] = (uint16_t)i;
    }
    return true;
}

struct insertion {
    struct divide *d;
    const struct layer *layer;
    uint8_t *data;
};

static void insert_part(void *ctx, unsigned p)
{
    const struct insertion *in = ctx;
    const struct divide *d = in->d;
    for (size_t i = d->start[p], n; i < d->start[p + 1]; i += n) {
        uint64_t present[LAYER_BATCH / 64] = {0};
        n = d->start[p + 1] - i < LAYER_BATCH ? d->start[p + 1] - i : LAYER_BATCH;
        in->layer->kind->add(in->layer, in->data, hashes_of(d->hash + i), n, present);
        for (size_t k = 0; k < n; k++)
            d->had[d->place[i + k]] = bit_of(present, k);
    }
}

/* Packs 64 bytes, each 0 or 1, into 64 bits. */
static uint64_t bits_of(const uint8_t *had)
{
    uint64_t bits = 0;
    /* The product's highest byte is the lowest bits of the eight bytes, the first byte's lowest. */
    for (unsigned i = 0; i < 8; i++)
        bits |= (get_le64(had + 8 * i) * 0x0102040810204080 >> 56) << 8 * i;
    return bits;
}

void divide_insert(struct divide *d, struct crew *crew, const struct layer *layer, uint8_t *data,
                   uint64_t *present)
{
    struct insertion in = {d, layer, data};
    for (size_t i = d->n; i < d->given; i++)
        d->had[d->place[i]] = 0;
    memset(d->had + d->given, 0, 64);
    crew_share(crew, DIVIDE_PARTS, insert_part, &in);
    for (size_t w = 0; w < (d->given + 63) / 64; w++)
        present[w] = bits_of(d->had + 64 * w);
}

void divide_free(struct divide *d)
{
    free(d->hash);
    free(d->place);
    free(d->part);
    free(d->had);
    *d = (struct divide){0};
}

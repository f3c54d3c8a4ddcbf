#include "store/redis/copy.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/ahead.h"
#include "base/bits.h"
#include "base/bytes.h"
#include "base/sig.h"

/* Positions that are found at a time: 32 KiB of stack, enough for a key with the most positions
 * (4096). */
enum { POSITIONS = 4096 };

/* Allocates zeroes, in huge pages if most of them will be used, since each bit is in another page.
 * NULL: no memory. */
static uint8_t *get_bits(const struct redis *r, size_t len)
{
    void *bits = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bits == MAP_FAILED)
        return NULL;
    if (!layout_is_sparse(redis_layer(r)))
        madvise(bits, len, MADV_HUGEPAGE);
    return bits;
}

bool copy_begin(struct copy *c, const struct redis *r, struct err *err)
{
    *c = (struct copy){.n_shards = r->n_shards, .len = (r->m + 7) / 8};
    if (c->len <= SIZE_MAX)
        c->bits = calloc(c->n_shards, sizeof *c->bits);
    bool ok = c->bits != NULL;
    for (unsigned i = 0; ok && i < c->n_shards; i++) {
        c->bits[i] = get_bits(r, (size_t)c->len);
        ok = c->bits[i] != NULL;
    }
    return ok || fail(err, "out of memory");
}

void copy_end(struct copy *c)
{
    for (unsigned i = 0; c->bits != NULL && i < c->n_shards; i++)
        if (c->bits[i] != NULL)
            munmap(c->bits[i], (size_t)c->len);
    free(c->bits);
    c->bits = NULL;
}

bool copy_fetch(struct copy *c, struct redis *r, struct err *err)
{
    for (unsigned i = 0; i < c->n_shards; i++) {
        uint64_t len = r->shard[i].len < c->len ? r->shard[i].len : c->len;
        for (uint64_t at = 0; at < len; at += REDIS_CHUNK) {
            size_t n = len - at < REDIS_CHUNK ? (size_t)(len - at) : REDIS_CHUNK;
            if (sig_caught())
                return fail(err, "interrupted");
            if (!redis_read_chunk(r, &r->shard[i], at, n, c->bits[i] + at, err))
                return false;
        }
    }
    return true;
}

static unsigned mask_of(uint64_t position)
{
    return 0x80U >> position % 8;
}

/* A few keys with their positions, whose bytes are being prefetched. */
struct few {
    uint64_t position[POSITIONS];
    uint8_t *bits[LAYER_BATCH]; /* of each key's shard */
    unsigned shard[LAYER_BATCH];
};

static size_t few_keys(const struct redis *r, size_t n)
{
    size_t fit = POSITIONS / r->k;
    if (fit > LAYER_BATCH)
        fit = LAYER_BATCH;
    return n < fit ? n : fit;
}

static void find(const struct copy *c, const struct redis *r, struct hashes keys, size_t n,
                 struct few *few)
{
    const struct layer *layer = redis_layer(r);
    layer->kind->layout->positions(layer, keys, n, few->position);
    for (size_t i = 0; i < n; i++) {
        few->shard[i] = redis_shard_of(r, keys, i);
        few->bits[i] = c->bits[few->shard[i]];
        for (unsigned j = 0; j < r->k; j++)
            ahead_fetch(few->bits[i] + few->position[i * r->k + j] / 8);
    }
}

static bool has(const uint8_t *bits, const uint64_t *position, unsigned k)
{
    unsigned all = 1;
    for (unsigned j = 0; all && j < k; j++)
        all = (bits[position[j] / 8] & mask_of(position[j])) != 0;
    return all;
}

/* Returns how many bits became set. */
static unsigned set_bits(uint8_t *bits, const uint64_t *position, unsigned k)
{
    unsigned n = 0;
    for (unsigned j = 0; j < k; j++) {
        uint8_t *byte = bits + position[j] / 8;
        n += (*byte & mask_of(position[j])) == 0;
        *byte |= (uint8_t)mask_of(position[j]);
    }
    return n;
}

void copy_ask(const struct copy *c, const struct redis *r, struct hashes keys, size_t n,
              uint64_t *present)
{
    struct few few;
    for (size_t at = 0, some; at < n; at += some) {
        some = few_keys(r, n - at);
        find(c, r, hashes_from(keys, at), some, &few);
        for (size_t i = 0; i < some; i++)
            if (has(few.bits[i], few.position + i * r->k, r->k))
                bit_set(present, at + i);
    }
}

void copy_add(struct copy *c, const struct redis *r, struct hashes keys, size_t n, uint64_t *known,
              uint64_t *set, uint64_t *new)
{
    struct few few;
    memset(set, 0, c->n_shards * sizeof *set);
    memset(new, 0, c->n_shards * sizeof *new);
    for (size_t at = 0, some; at < n; at += some) {
        some = few_keys(r, n - at);
        find(c, r, hashes_from(keys, at), some, &few);
        for (size_t i = 0; i < some; i++) {
            if (bit_of(known, at + i))
                continue;
            unsigned n_set = set_bits(few.bits[i], few.position + i * r->k, r->k);
            if (n_set == 0)
                bit_set(known, at + i);
            set[few.shard[i]] += n_set;
            new[few.shard[i]] += n_set != 0;
        }
    }
}

bool copy_has(const struct copy *c, const struct redis *r, unsigned shard, const uint64_t *position)
{
    return has(c->bits[shard], position, r->k);
}

uint64_t copy_count(const struct copy *c, unsigned shard)
{
    return bytes_count(c->bits[shard], (size_t)c->len);
}

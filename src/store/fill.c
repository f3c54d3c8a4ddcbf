#include "store/fill.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/parallel.h"

enum { COPIES = 16 };

struct copy {
    pthread_mutex_t lock;
    uint8_t *data;
    bool is_used;
} __attribute__((aligned(64)));

struct fill {
    struct copy copy[COPIES];
    const struct layer *layer;
    unsigned lanes; /* of the hashes of fill_keys */
    unsigned n_copies;
};

struct fill *fill_new(const struct layer *layer, uint8_t *data, unsigned copies, struct err *err)
{
    struct fill *f = aligned_alloc(64, sizeof *f);
    if (f == NULL) {
        fail(err, "out of memory");
        return NULL;
    }
    memset(f, 0, sizeof *f);
    f->layer = layer;
    f->copy[0].data = data;
    for (f->n_copies = 1; f->n_copies < copies && f->n_copies < COPIES; f->n_copies++) {
        void *more = mmap(NULL, (size_t)layer->data_len, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more == MAP_FAILED)
            break;
        madvise(more, (size_t)layer->data_len, MADV_HUGEPAGE);
        f->copy[f->n_copies].data = more;
    }
    for (unsigned i = 0; i < f->n_copies; i++)
        pthread_mutex_init(&f->copy[i].lock, NULL);
    return f;
}

/* Returns a copy, locked. Prefers one that is not in use; if all are, waits for one. */
static struct copy *lock_one(struct fill *f, unsigned first)
{
    for (unsigned i = 0; i < f->n_copies; i++) {
        struct copy *copy = &f->copy[(first + i) % f->n_copies];
        if (pthread_mutex_trylock(&copy->lock) == 0)
            return copy;
    }
    struct copy *copy = &f->copy[f->n_copies > 1 ? first % f->n_copies : 0];
    pthread_mutex_lock(&copy->lock);
    return copy;
}

void fill_put(void *fill, unsigned partition, struct hashes hashes, size_t n)
{
    struct fill *f = fill;
    struct copy *copy = lock_one(f, partition);
    copy->is_used = true;
    for (size_t at = 0; at < n; at += LAYER_BATCH) {
        uint64_t present[LAYER_BATCH / 64] = {0};
        f->layer->kind->add(f->layer, copy->data, hashes_from(hashes, at),
                            n - at < LAYER_BATCH ? n - at : LAYER_BATCH, present);
    }
    pthread_mutex_unlock(&copy->lock);
}

static bool visit(void *ctx, const struct keyset_range *range, struct err *err)
{
    struct fill *f = ctx;
    uint64_t lane[HASH_LANES][LAYER_BATCH];
    const struct hashes hashes = {lane[0], LAYER_BATCH, NULL};
    unsigned stride = keyset_lanes(f->lanes);
    (void)err;
    for (const struct keyset_piece *p = range->piece; p < range->piece + range->n_pieces; p++)
        for (size_t at = 0; at < p->n; at += LAYER_BATCH) {
            const uint64_t *hash = p->hash + at * stride;
            size_t n = p->n - at < LAYER_BATCH ? p->n - at : LAYER_BATCH;
            for (size_t i = 0; i < n; i++)
                for (unsigned l = 0; l < f->lanes; l++)
                    lane[l][i] = hash[i * stride + l];
            fill_put(f, range->worker, hashes, n);
        }
    return true;
}

bool fill_keys(struct fill *f, struct keyset *keys, unsigned lanes, struct err *err)
{
    f->lanes = lanes;
    return keyset_visit(keys, visit, f, err);
}

enum { PIECE = 1 << 16 };

static void unite(uint8_t *restrict to, const uint8_t *restrict from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] |= from[i];
}

static void unite_piece(void *ctx, unsigned worker, uint64_t i)
{
    const struct fill *f = ctx;
    uint64_t first = i * PIECE, left = f->layer->data_len - first;
    size_t len = left < PIECE ? (size_t)left : PIECE;
    (void)worker;
    for (unsigned c = 1; c < f->n_copies; c++)
        if (f->copy[c].is_used)
            unite(f->copy[0].data + first, f->copy[c].data + first, len);
}

void fill_end(struct fill *f, unsigned threads)
{
    parallel_for(threads, (f->layer->data_len + PIECE - 1) / PIECE, unite_piece, f);
}

void fill_free(struct fill *f)
{
    for (unsigned i = 0; f != NULL && i < f->n_copies; i++) {
        pthread_mutex_destroy(&f->copy[i].lock);
        if (i > 0)
            munmap(f->copy[i].data, (size_t)f->layer->data_len);
    }
    free(f);
}

/* Passes on all hashes of a keyset, unordered; more may be put afterwards. */
#include "base/parallel.h"
#include "keys/keyset_parts.h"

struct handing {
    struct keyset *ks;
    keyset_each_fn *each;
    void *ctx;
    bool odd; /* this pass takes the odd partitions */
};

/* Hands over some lanes. */
static bool hand_over(const struct handing *h, const uint64_t *hash, size_t n, struct err *err)
{
    const struct keyset_piece piece = {hash, n / h->ks->spec.lanes};
    return h->each(h->ctx, &piece, err);
}

static bool hand_blocks(const struct handing *h, const struct worker *of, unsigned partition,
                        struct err *err)
{
    struct blocks b = blocks_in(of, partition);
    size_t n;
    for (size_t i = 0; i < b.n; i += n) {
        const uint64_t *hash = some_of(&b, i, b.n, &n);
        if (!hand_over(h, hash, n, err))
            return false;
    }
    return true;
}

static bool hand_scratch(const struct handing *h, const struct worker *of, uint64_t off, uint64_t n,
                         struct err *err)
{
    uint64_t buffer[4 * BLOCK];
    for (size_t some; n > 0; n -= some, off += some * sizeof *buffer) {
        some = n < 4 * BLOCK ? (size_t)n : 4 * BLOCK;
        if (!keyset_read(of, buffer, some * sizeof *buffer, off, err) ||
            !hand_over(h, buffer, some, err))
            return false;
    }
    return true;
}

static bool hand_run(const struct handing *h, const struct worker *of, uint64_t runs,
                     unsigned partition, struct err *err)
{
    struct run run;
    if (!keyset_read(of, &run, sizeof run, runs + partition * sizeof run, err))
        return false;
    if (!run.in_extents)
        return hand_scratch(h, of, run.off, run.n, err);
    for (uint64_t n; run.n > 0; run.n -= n, run.off += extent_bytes(h->ks->spec.lanes)) {
        n = run.n < EXTENT ? run.n : EXTENT;
        if (!hand_scratch(h, of, run.off, n, err))
            return false;
    }
    return true;
}

static bool hand_partition(void *ctx, unsigned worker, uint64_t i, struct err *err)
{
    const struct handing *h = ctx;
    unsigned partition = 2 * (unsigned)i + h->odd;
    (void)worker;
    for (unsigned w = 0; w < h->ks->spec.workers; w++) {
        const struct worker *of = &h->ks->workers[w];
        if (!hand_blocks(h, of, partition, err))
            return false;
        for (size_t s = 0; of->share[partition].n_spilled > 0 && s < of->n_spills; s++)
            if (!hand_run(h, of, of->spills[s], partition, err))
                return false;
    }
    return true;
}

bool keyset_each(struct keyset *ks, unsigned threads, keyset_each_fn *each, void *ctx,
                 struct err *err)
{
    struct handing h = {.ks = ks, .each = each, .ctx = ctx};
    if (!keyset_close_blocks(ks, err) ||
        !parallel_try(threads, KEYSET_PARTITIONS / 2, hand_partition, &h, err))
        return false;
    h.odd = true;
    return parallel_try(threads, KEYSET_PARTITIONS / 2, hand_partition, &h, err);
}

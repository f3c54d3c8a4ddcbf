#include "store/derive.h"

#include <stdatomic.h>

#include "base/parallel.h"
#include "store/combine.h"

static bool check(const struct filter *from, struct err *err)
{
    if (!combine_counts(&from->header))
        return fail(err,
                    "'%s' is of kind %s, which has not kept the hashes of its keys; 'seen "
                    "create --counted --fpr 0' makes a set that does",
                    from->path, format_kind_name(&from->header));
    const struct layer *layer = &from->header.layers[0];
    unsigned bits = layer->kind->counts->bits(layer);
    return bits == 64 ||
           fail(err,
                "'%s' has fingerprints of %u bits, not whole hashes, so other filters cannot be "
                "made from it; 'seen create --counted --fpr 0' keeps whole hashes",
                from->path, bits);
}

bool derive_open(struct derive *d, const char *path, struct newfile *file, struct err *err)
{
    if (!newfile_hold(file, err) || !filter_open(&d->from, path, FILTER_READ, err))
        return false;
    d->is_open = true;
    if (!newfile_replaces(file, d->from.fd))
        newfile_let_go(file);
    return check(&d->from, err);
}

const struct header *derive_header(const struct derive *d)
{
    return &d->from.header;
}

bool derive_check_sound(struct derive *d, unsigned threads, struct err *err)
{
    return filter_check_sound(&d->from, threads, err);
}

void derive_close(struct derive *d)
{
    if (d->is_open)
        filter_close(&d->from);
    d->is_open = false;
}

/* The hashes are divided into 2^PART_BITS parts, so that all threads have work until the end. */
enum { PART_BITS = 8 };

struct transfer {
    struct filter_build *build;
    const struct filter *from;
    _Atomic uint64_t keys;
};

struct part {
    struct transfer *transfer;
    unsigned worker;
};

static bool put(void *ctx, const uint64_t *hash, const uint64_t *count, size_t n, struct err *err)
{
    const struct part *part = ctx;
    (void)count;
    atomic_fetch_add(&part->transfer->keys, n);
    return filter_build_put(part->transfer->build, part->worker, hashes_of(hash), n, err);
}

static bool put_part(void *ctx, unsigned worker, uint64_t i, struct err *err)
{
    struct part part = {ctx, worker};
    const struct filter *from = part.transfer->from;
    const struct layer *layer = &from->header.layers[0];
    unsigned shift = 64 - PART_BITS;
    return layer->kind->counts->hashes(layer, from->data[0], i << shift,
                                       i << shift | (((uint64_t)1 << shift) - 1), put, &part, err);
}

bool derive_put(const struct derive *d, struct filter_build *b, uint64_t *records, struct err *err)
{
    const struct filter *from = &d->from;
    struct transfer all = {.build = b, .from = from};
    if (!parallel_try(b->threads, (uint64_t)1 << PART_BITS, put_part, &all, err) ||
        !filter_check_intact(from, err))
        return false;
    b->n_known = atomic_load(&all.keys);
    *records = from->header.counters.records;
    if (*records < b->n_known)
        *records = b->n_known;
    return true;
}

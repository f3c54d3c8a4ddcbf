#include "store/filter_build.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/parallel.h"
#include "base/progress.h"
#include "base/ram.h"
#include "base/sig.h"
#include "store/chain.h"
#include "store/combine.h"
#include "store/header.h"
#include "store/layers.h"
#include "store/store.h"

/* With a fixed size: the memory, per lane, that holds hashes before they are drained into bits, and
 * the number of hashes that 16 threads can hold in it. Only up to this number are keys counted. */
enum { DIRECT_MEMORY = 48 << 20, DIRECT_KEYS = 2 << 20 };

/* The same where keys are added to a layout's layer. FILL_MEMORY is the keyset_min_memory of
 * FILL_THREADS, the most threads used. */
enum { FILL_MEMORY = DIRECT_MEMORY / 2, FILL_KEYS = DIRECT_KEYS / 4, FILL_THREADS = 8 };

/* Keys that a keyset sorts at a time, to add them in order. */
enum { ORDERED_PART = 1 << 16 };

/* The most memory that a thread uses besides that for keys: two chunks of input and a batch; or,
 * after the input, the part of the filter that it builds. */
enum { THREAD_MEMORY = 1 << 20 };

/* With a fixed size: the memory of all threads, besides the filter and DIRECT_MEMORY. */
enum { DIRECT_OTHERS = 16 << 20 };

/* Address space that a thread reserves beyond its memory, mostly unused: room for 4 MiB of the
 * filter. Every thread but the first also has a stack, usually 8 MiB, and its own heap, for which
 * glibc maps 128 MiB (2 MiB on 32-bit machines) to keep the aligned half. */
enum {
    FIRST_THREAD = 4 << 20,
    OTHER_THREAD = FIRST_THREAD + ((8 + (sizeof(void *) > 4 ? 128 : 2)) << 20),
};

static struct filter_build_needs needs_of(const struct design *design)
{
    const struct kind *kind = design_kind(design);
    unsigned stride = keyset_lanes(kind->lanes);
    struct filter_build_needs needs = {.kind = kind, .lanes = kind->lanes + design->each};
    if (kind_builds(kind)) {
        const struct kind_building *building = kind->building;
        needs.builder = building->memory != NULL ? building->memory() : 0;
        needs.part = building->part;
        needs.direct_memory = (uint64_t)DIRECT_MEMORY * stride;
        needs.direct_keys = DIRECT_KEYS;
        return needs;
    }
    needs.adds = true;
    needs.in_order = kind->layout->counts;
    needs.part = needs.in_order ? ORDERED_PART : 0;
    needs.direct_memory = FILL_MEMORY;
    needs.direct_keys = FILL_KEYS / stride;
    return needs;
}

/* The memory of a thread that builds, with the parts that it requests from the keyset. */
static uint64_t builder_memory(const struct filter_build_needs *needs)
{
    return needs->builder + (needs->part > 0 ? keyset_part_memory(needs->part, needs->lanes) : 0);
}

static uint64_t min_memory(const struct filter_build_needs *needs)
{
    return THREAD_MEMORY + keyset_min_memory(1) + builder_memory(needs);
}

uint64_t filter_build_min_memory(const struct design *design)
{
    const struct filter_build_needs needs = needs_of(design);
    return min_memory(&needs);
}

/* Is the keyset drained while keys are put? */
static bool drains(const struct filter_build *b)
{
    return b->bits != NULL || b->map != NULL;
}

/* Makes the header. n is the number of distinct keys, used if the design leaves the size open. */
static bool make_header(struct filter_build *b, uint64_t n, struct err *err)
{
    header_begin(&b->header, b->rule, b->reproducible);
    return header_design(&b->header, b->design, n, err);
}

static const struct layer *newest(const struct filter_build *b)
{
    return &b->header.layers[chain_newest(&b->header)];
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The rest is for other programs. */
static uint64_t half_of_memory(void)
{
    return ram_limit() / 2;
}

/* Makes the filter that the header describes in memory, for keys in order. */
static bool open_store(struct filter_build *b, struct err *err)
{
    const struct add_options options = {.threads = b->threads};
    b->store = memory_open(&b->header, err);
    return b->store != NULL && store_add_begin(b->store, &options, err);
}

/* A layer with holes is filled in memory: reading holes through a mapping may fill them. */
static bool is_in_memory(const struct filter_build *b)
{
    return layout_is_sparse(newest(b));
}

/* Makes room in the new file for the filter that the header describes, and maps it. */
static bool map_file(struct filter_build *b, struct err *err)
{
    uint64_t len = b->header.file_len;
    bool in_memory = is_in_memory(b);
    if (!header_reserve(&b->header, b->file, err))
        return false;
    errno = ENOMEM;
    void *map = len > SIZE_MAX ? MAP_FAILED
                               : mmap(NULL, (size_t)len, PROT_READ | PROT_WRITE,
                                      in_memory ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED,
                                      in_memory ? -1 : b->file->fd, 0);
    if (map == MAP_FAILED)
        return fail_errno(err, "cannot map '%s'", b->name);
    b->map = map;
    sig_guard(map, len, b->name, b->file->fd);
    return true;
}

static void unmap_file(const struct filter_build *b)
{
    if (b->map == NULL)
        return;
    sig_unguard(b->map);
    munmap(b->map, (size_t)b->header.file_len);
}

/* Adds keys to the mapped layer; a keyset_drain. With a lock, bits are set without atomic
 * operations, which take twice the time. */
static void fill(void *ctx, unsigned partition, struct hashes hashes, size_t n)
{
    struct filter_build *b = ctx;
    const struct layer *layer = newest(b);
    (void)partition;
    pthread_mutex_lock(&b->lock);
    for (size_t at = 0; at < n; at += LAYER_BATCH) {
        uint64_t present[LAYER_BATCH / 64] = {0};
        layer->kind->add(layer, b->map + layer->data_off, hashes_from(hashes, at),
                         n - at < LAYER_BATCH ? n - at : LAYER_BATCH, present);
    }
    pthread_mutex_unlock(&b->lock);
}

static bool bits_fit_memory(uint64_t len)
{
    return len < half_of_memory();
}

/* Makes the keyset drain hashes into bits, where that is possible and worthwhile. */
static bool drain_to_bits(struct filter_build *b, struct keyset_spec *spec, struct err *err)
{
    const struct kind_bits *bits = b->needs.adds ? NULL : b->needs.kind->building->bits;
    if (bits == NULL || !design_is_sized(b->design) || b->forecast ||
        b->memory < b->needs.direct_memory + THREAD_MEMORY)
        return true;
    if (!make_header(b, 0, err))
        return false;
    if (!bits_fit_memory(newest(b)->data_len))
        return true;
    b->bits = bits->begin(newest(b));
    if (b->bits != NULL) {
        spec->drain = bits->put;
        spec->ctx = b->bits;
    }
    return true;
}

/* Makes keys of a layout go to the filter as they arrive, if the design determines its size. */
static bool add_on_arrival(struct filter_build *b, struct keyset_spec *spec, struct err *err)
{
    if (!b->needs.adds || !design_is_sized(b->design) || b->forecast)
        return true;
    if (!make_header(b, 0, err))
        return false;
    if (b->needs.in_order)
        return open_store(b, err);
    spec->drain = fill;
    spec->ctx = b;
    b->threads = (unsigned)smaller(b->threads, FILL_THREADS);
    return map_file(b, err);
}

/* Gives at most half of the memory to building threads, which may limit their number. */
static void share_memory(const struct filter_build *b, struct keyset_spec *spec)
{
    unsigned builders = 1;
    while (builders < b->threads && (builders + 1) * builder_memory(&b->needs) <= b->memory / 2)
        builders++;
    spec->visitors = b->needs.in_order ? 1 : builders;
    spec->part = b->needs.part;
}

/* Sets the memory and workers of `spec` for `threads` threads. False: not enough memory for them.
 */
static bool give_memory(const struct filter_build *b, unsigned threads, struct keyset_spec *spec)
{
    uint64_t others = (uint64_t)THREAD_MEMORY * threads + spec->visitors * b->needs.builder;
    uint64_t least =
        spec->visitors * keyset_part_memory(spec->part, spec->lanes) + keyset_min_memory(threads);
    spec->workers = threads;
    if (drains(b)) {
        spec->memory = b->needs.direct_memory;
        return others <= DIRECT_OTHERS && others + spec->memory <= b->memory &&
               keyset_fits(spec) >= b->needs.direct_keys;
    }
    spec->memory = b->memory > others ? b->memory - others : 0;
    return spec->memory >= least;
}

static bool has_addresses(uint64_t bytes)
{
    if (bytes > SIZE_MAX)
        return false;
    void *p =
        mmap(NULL, (size_t)bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p != MAP_FAILED && munmap(p, (size_t)bytes) == 0;
}

static uint64_t other_threads(const struct filter_build *b)
{
    return (uint64_t)(b->threads - 1) * OTHER_THREAD;
}

static bool try_keyset(struct filter_build *b, struct keyset_spec *spec, struct err *err)
{
    if (b->needs.part > 0)
        share_memory(b, spec);
    while (!give_memory(b, b->threads, spec) && b->threads > 1)
        b->threads--;
    uint64_t memory = drains(b) ? b->needs.direct_memory + DIRECT_OTHERS : b->memory;
    if (!has_addresses(memory + FIRST_THREAD + other_threads(b)))
        return fail(err, "cannot get memory for keys: the address space is full");
    b->keys = keyset_new(spec, err);
    b->fits = keyset_fits(spec);
    return b->keys != NULL;
}

/* Memory and threads are upper bounds. If the system does not grant them, one or the other is
 * halved, repeatedly, down to the minimum. */
static bool get_keyset(struct filter_build *b, struct keyset_spec *spec, struct err *err)
{
    uint64_t smallest = min_memory(&b->needs);
    while (!try_keyset(b, spec, err)) {
        bool less = !drains(b) && b->memory / 2 >= smallest;
        if (b->threads > 1 && (!less || other_threads(b) >= b->memory))
            b->threads /= 2;
        else if (less)
            b->memory /= 2;
        else
            return false;
    }
    return true;
}

bool filter_build_begin(struct filter_build *b, struct err *err)
{
    b->needs = needs_of(b->design);
    if (b->needs.adds)
        b->needs.lanes = key_rule_hash(b->rule)->lanes;
    struct keyset_spec spec = {
        .lanes = b->needs.lanes, .counts = b->design->each, .scratch_dir = b->scratch_dir};
    uint64_t most = half_of_memory(), smallest = min_memory(&b->needs);
    b->memory = smaller(b->memory, most > smallest ? most : smallest);
    pthread_mutex_init(&b->lock, NULL);
    if (!add_on_arrival(b, &spec, err) || !drain_to_bits(b, &spec, err))
        return false;
    if (filter_build_in_order(b))
        return true;
    if (get_keyset(b, &spec, err))
        return true;
    if (b->bits == NULL)
        return false;
    b->needs.kind->building->bits->end(b->bits);
    b->bits = NULL;
    spec.drain = NULL;
    return get_keyset(b, &spec, err);
}

bool filter_build_in_order(const struct filter_build *b)
{
    return b->store != NULL;
}

bool filter_build_add(struct filter_build *b, struct hashes hashes, uint64_t *known, size_t n,
                      size_t *done, struct err *err)
{
    return store_add(b->store, hashes, known, n, done, err) == ADD_OK;
}

bool filter_build_put(struct filter_build *b, unsigned worker, struct hashes hashes, size_t n,
                      struct err *err)
{
    return keyset_put(b->keys, worker, hashes, n, err);
}

/* Can the kind be built only from all keys at once? */
static bool keeps_keys(const struct filter_build *b)
{
    return !b->needs.adds && b->needs.kind->building->bits == NULL;
}

/* Counts the distinct keys, unless the size is fixed and keys are too many to keep. The result must
 * not depend on threads or memory, so only the number of hashes put decides. */
static bool count_keys(struct filter_build *b, struct err *err)
{
    b->n_distinct = 0;
    b->counted = !design_is_sized(b->design) || b->forecast || b->n_put <= b->needs.direct_keys ||
                 keeps_keys(b);
    if (!b->counted)
        return !drains(b) || keyset_drain_all(b->keys, err);
    progress_begin("counting keys", b->progress, false);
    bool ok = keyset_finish(b->keys, &b->n_distinct, err);
    progress_end();
    return ok;
}

static void fill_counters(struct filter_build *b)
{
    uint64_t n = b->counted ? b->n_distinct : (uint64_t)round(b->census.n);
    b->n_held = n < b->n_put ? n : b->n_put;
    b->header.made = b->n_held;
    if (!b->counted)
        b->header.compat |= COMPAT_ESTIMATED;
    b->header.counters = (struct counters){.records = b->n_put, .keys_added = b->n_held};
}

static bool build_layers(struct filter_build *b, const struct target *target, struct err *err)
{
    struct header *h = &b->header;
    progress_begin("making the filter", b->progress, false);
    bool ok = b->counted || b->bits == NULL
                  ? newest(b)->kind->building->build(target, b->keys, &b->census, err)
                  : newest(b)->kind->building->bits->write(target, b->bits, &b->census, err);
    for (unsigned i = 0; ok && i < h->n_layers; i++) {
        const struct target other = header_target(h, i, target->fd, target->name, b->threads);
        ok = other.layer == target->layer || target_zero_sums(&other, err);
    }
    progress_end();
    return ok;
}

static struct target newest_target(struct filter_build *b, int fd, const char *name)
{
    struct target t = header_target(&b->header, chain_newest(&b->header), fd, name, b->threads);
    t.n = b->n_distinct;
    return t;
}

static bool write_file(struct filter_build *b, bool presumed, struct err *err)
{
    if (!make_header(b, b->n_distinct, err))
        return false;
    struct target target = newest_target(b, b->file->fd, b->name);
    target.presumed = presumed;
    if (!header_reserve(&b->header, b->file, err) || !build_layers(b, &target, err))
        return false;
    fill_counters(b);
    return header_write(&b->header, b->file->fd, b->name, err);
}

/* Calls `each` on the keys of a visited range, a batch at a time. */
static bool each_batch(struct filter_build *b, const struct keyset_range *range,
                       bool (*each)(struct filter_build *b, struct hashes hashes, size_t n,
                                    struct err *err),
                       struct err *err)
{
    uint64_t lane[HASH_LANES][LAYER_BATCH];
    unsigned n_lanes = b->needs.lanes, stride = keyset_lanes(n_lanes);
    for (const struct keyset_piece *p = range->piece; p < range->piece + range->n_pieces; p++)
        for (size_t at = 0; at < p->n; at += LAYER_BATCH) {
            size_t n = p->n - at < LAYER_BATCH ? p->n - at : LAYER_BATCH;
            for (size_t i = 0; i < n; i++)
                for (unsigned l = 0; l < n_lanes; l++)
                    lane[l][i] = p->hash[(at + i) * stride + l];
            if (!each(b, (struct hashes){lane[0], LAYER_BATCH, NULL}, n, err))
                return false;
        }
    return true;
}

static bool add_batch(struct filter_build *b, struct hashes hashes, size_t n, struct err *err)
{
    uint64_t known[LAYER_BATCH / 64] = {0};
    size_t done;
    return filter_build_add(b, hashes, known, n, &done, err);
}

static bool fill_batch(struct filter_build *b, struct hashes hashes, size_t n, struct err *err)
{
    (void)err;
    fill(b, 0, hashes, n);
    return true;
}

static bool add_range(void *ctx, const struct keyset_range *range, struct err *err)
{
    return each_batch(ctx, range, add_batch, err);
}

static bool fill_range(void *ctx, const struct keyset_range *range, struct err *err)
{
    return each_batch(ctx, range, fill_batch, err);
}

static void give_up(void *ctx)
{
    (void)ctx;
}

/* Adds all keys to a filter in memory that depends on their order. Keys whose filter was made when
 * they arrived are there already. The others are added in ascending order of their hashes, which
 * does not depend on threads or memory. */
static bool add_in_order(struct filter_build *b, struct err *err)
{
    return b->store != NULL ||
           (count_keys(b, err) && make_header(b, b->n_distinct, err) && open_store(b, err) &&
            keyset_visit_sorted(b->keys, KEYSET_BITS, add_range, give_up, b, err));
}

static bool write_layers(struct filter_build *b, struct err *err)
{
    struct facts facts;
    store_describe(b->store, &facts);
    b->header = *facts.layers.header;
    if (!header_reserve(&b->header, b->file, err))
        return false;
    for (unsigned i = 0; i < b->header.n_layers; i++) {
        const struct target target = header_target(&b->header, i, b->file->fd, b->name, b->threads);
        if (b->reproducible)
            b->header.layers[i].since = 0;
        if (!target_write_all(&target, facts.layers.data[i], err))
            return false;
    }
    return store_census(b->store, b->threads, NULL, &b->census, err);
}

/* The store has counted the keys, and so did the keyset, if there is one. */
static bool write_store(struct filter_build *b, struct err *err)
{
    if (!add_in_order(b, err) || !write_layers(b, err))
        return false;
    b->n_held = b->keys != NULL ? b->n_distinct : b->header.counters.keys_added;
    return header_write(&b->header, b->file->fd, b->name, err);
}

/* Adds the keys that the keyset still has to the mapped layer. */
static bool fill_rest(struct filter_build *b, struct err *err)
{
    return count_keys(b, err) &&
           (b->map != NULL || (make_header(b, b->n_distinct, err) && map_file(b, err))) &&
           (!b->counted || keyset_visit(b->keys, fill_range, b, err));
}

static bool write_mapped(struct filter_build *b, struct err *err)
{
    if (!fill_rest(b, err))
        return false;
    const struct layer *layer = newest(b);
    const struct target target = newest_target(b, b->file->fd, b->name);
    uint8_t *data = b->map + layer->data_off;
    const struct layers layers = {&b->header, &data};
    layers_census_all(&layers, b->threads, &b->census);
    layers_sample_fpr(&layers, b->threads, &b->census);
    fill_counters(b);
    return (is_in_memory(b) ? target_write_all(&target, data, err) : target_sums(&target, err)) &&
           header_write(&b->header, b->file->fd, b->name, err);
}

/* Should a filter be written first as if all keys were distinct? Most inputs have no repeats, and
 * this saves counting them, a quarter of the total time. The build fails if there are repeats.
 * After any failure the keys are counted and the filter is built again: the wrong number may have
 * caused the failure, as on a full disk. */
static bool may_presume(const struct filter_build *b)
{
    const struct design *d = b->design;
    double p = d->p != 0 ? d->p : LAYER_FPR;
    return !design_is_sized(d) && d->size == 0 && !d->each &&
           p <= b->needs.kind->building->presuming_fpr;
}

bool filter_build_write(struct filter_build *b, uint64_t n_put, struct err *err)
{
    struct err ignored;
    b->n_put = n_put;
    b->n_distinct = b->n_known != 0 ? b->n_known : n_put;
    b->counted = true;
    if (b->needs.adds)
        return b->needs.in_order ? write_store(b, err) : write_mapped(b, err);
    return (may_presume(b) && write_file(b, true, &ignored)) ||
           (count_keys(b, err) && write_file(b, false, err));
}

bool filter_build_batch(struct filter_build *b, uint64_t n_put, int fd, const char *name,
                        struct err *err)
{
    b->n_put = n_put;
    if (!count_keys(b, err) || !make_header(b, b->n_distinct, err))
        return false;
    struct target target = newest_target(b, fd, name);
    fill_counters(b);
    return build_layers(b, &target, err);
}

bool filter_build_forecast(struct filter_build *b, uint64_t n_put, struct err *err)
{
    b->n_put = n_put;
    if (!count_keys(b, err) || !make_header(b, b->n_distinct, err))
        return false;
    b->census.fpr = newest(b)->kind->fpr_at(newest(b), (double)b->n_distinct);
    fill_counters(b);
    return true;
}

void filter_build_free(struct filter_build *b)
{
    keyset_free(b->keys);
    unmap_file(b);
    store_close(b->store);
    if (b->bits != NULL)
        b->needs.kind->building->bits->end(b->bits);
}

bool filter_build_empty(int fd, const struct header *h, const char *name, struct err *err)
{
    struct header copy = *h;
    for (unsigned i = 0; i < h->n_layers; i++) {
        const struct target target = header_target(&copy, i, fd, name, 1);
        if (!target_zero_sums(&target, err))
            return false;
    }
    return header_write(h, fd, name, err);
}

bool filter_build_empty_file(const char *path, const struct header *h, struct err *err)
{
    struct newfile nf;
    bool ok = newfile_open(&nf, path, false, err);
    if (ok) {
        ok = header_reserve(h, &nf, err) && filter_build_empty(nf.fd, h, path, err) &&
             newfile_commit(&nf, err);
        newfile_close(&nf);
    }
    return ok || access(path, F_OK) == 0;
}

/* ---- A filter from a counted set. */

bool derive_check(const struct filter *from, struct err *err)
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

bool derive_put(const struct filter *from, struct filter_build *b, uint64_t *records,
                struct err *err)
{
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

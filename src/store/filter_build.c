#include "store/filter_build.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/progress.h"
#include "store/chain.h"
#include "store/memory.h"
#include "store/target.h"

/* For a filter of given size so many hashes are kept in memory before they go into its bits, and no
 * more than these are counted; what 16 threads have room for in so much memory for each lane. */
enum { DIRECT_MEMORY = 48 << 20, DIRECT_KEYS = 2 << 20 };

/* The same where keys are added to a store; as much again is for copies of the bits (fill.h). It is
 * what a keyset takes for so many threads (keyset_min_memory), and there are no more. */
enum { FILL_MEMORY = DIRECT_MEMORY / 2, FILL_KEYS = DIRECT_KEYS / 4, FILL_THREADS = 8 };

/* Keys that a keyset sorts at a time to be added in order. */
enum { ORDERED_PART = 1 << 16 };

/* What a thread takes at most, beside what it takes for keys: two chunks of input and a batch; or,
 * when the input is gone, the part of the filter that it is making. */
enum { THREAD_MEMORY = 1 << 20 };

/* With a given size: what all threads take, beside the filter and these hashes. */
enum { DIRECT_OTHERS = 16 << 20 };

/* Addresses that a thread takes beyond its memory, most of which it does not use: room for 4 MiB of
 * the filter; and if it is not the first, a stack, 8 MiB as a rule, and a heap of its own, for
 * which glibc maps 128 MiB (2 MiB on 32-bit machines) to keep the half that is aligned. */
enum {
    FIRST_THREAD = 4 << 20,
    OTHER_THREAD = FIRST_THREAD + ((8 + (sizeof(void *) > 4 ? 128 : 2)) << 20),
};

/* What a thread takes to build a layer, besides the keyset. */
static uint64_t build_memory(const struct kind *kind)
{
    return kind->build_memory != NULL ? kind->build_memory() : 0;
}

/* Is the filter filled in memory, as the program would whose layout it has? */
static bool fills_store(const struct kind *kind)
{
    return kind->build == NULL;
}

static bool is_ordered(const struct kind *kind)
{
    return fills_store(kind) && kind->layout->counts;
}

static size_t build_part(const struct kind *kind)
{
    return is_ordered(kind) ? ORDERED_PART : kind->build_part;
}

/* The same with the parts that it asks the keyset for. */
static uint64_t thread_memory(const struct kind *kind)
{
    uint64_t part = build_part(kind) > 0 ? keyset_part_memory(build_part(kind), kind->lanes) : 0;
    return build_memory(kind) + part;
}

uint64_t filter_build_min_memory(const struct design *design)
{
    return THREAD_MEMORY + keyset_min_memory(1) + thread_memory(design_kind(design));
}

/* What a keyset that is drained takes, and how many hashes it has room for before that. */
static uint64_t direct_memory(const struct filter_build *b)
{
    const struct kind *kind = design_kind(b->design);
    return fills_store(kind) ? FILL_MEMORY : (uint64_t)DIRECT_MEMORY * keyset_lanes(kind->lanes);
}

static uint64_t direct_keys(const struct filter_build *b)
{
    const struct kind *kind = design_kind(b->design);
    return fills_store(kind) ? FILL_KEYS / keyset_lanes(kind->lanes) : DIRECT_KEYS;
}

/* Is the keyset drained while keys come? */
static bool drains(const struct filter_build *b)
{
    return b->bits != NULL || b->fill != NULL;
}

/* A store is given whole hashes. */
static unsigned lanes(const struct filter_build *b)
{
    const struct kind *kind = design_kind(b->design);
    return fills_store(kind) ? key_rule_hash(b->rule)->lanes : kind->lanes;
}

/* Makes the header for n distinct keys, if the design leaves the size open. */
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

/* More of the machine's memory would leave too little for everything else. 0: it is not known. */
static uint64_t half_of_memory(void)
{
    struct sysinfo info;
    return sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit / 2 : 0;
}

/* Makes the filter in memory, as the header has it. */
static bool open_store(struct filter_build *b, struct err *err)
{
    const struct add_options options = {.threads = b->threads};
    struct facts facts;
    b->store = memory_open(&b->header, err);
    if (b->store == NULL)
        return false;
    if (is_ordered(design_kind(b->design)))
        return store_add_begin(b->store, &options, err);
    store_describe(b->store, &facts);
    uint64_t len = newest(b)->data_len, copies = 1 + FILL_MEMORY / (len > 0 ? len : 1);
    b->fill = fill_new(newest(b), facts.layers.data[0], (unsigned)smaller(copies, b->threads), err);
    return b->fill != NULL;
}

static bool bits_fit_memory(uint64_t len)
{
    return len < half_of_memory();
}

/* Has hashes drained into bits, where that is possible and pays. */
static bool drain_to_bits(struct filter_build *b, struct keyset_spec *spec, struct err *err)
{
    const struct kind_bits *bits = design_kind(b->design)->bits;
    if (bits == NULL || !design_is_sized(b->design) || b->forecast ||
        b->memory < direct_memory(b) + THREAD_MEMORY)
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

/* Has keys added to a store while they come, if the design says how large it is. */
static bool begin_store(struct filter_build *b, struct keyset_spec *spec, struct err *err)
{
    if (!fills_store(design_kind(b->design)) || !design_is_sized(b->design) || b->forecast)
        return true;
    if (!make_header(b, 0, err) || !open_store(b, err))
        return false;
    if (b->fill != NULL) {
        spec->drain = fill_put;
        spec->ctx = b->fill;
        b->threads = (unsigned)smaller(b->threads, FILL_THREADS);
    }
    return true;
}

/* Half of the memory, at most, is for the threads that build; so there may be fewer of them. */
static void share_memory(const struct filter_build *b, struct keyset_spec *spec)
{
    const struct kind *kind = design_kind(b->design);
    unsigned builders = 1;
    while (builders < b->threads && (builders + 1) * thread_memory(kind) <= b->memory / 2)
        builders++;
    spec->visitors = is_ordered(kind) ? 1 : builders;
    spec->part = build_part(kind);
}

/* Makes `spec` for so many threads. False: there is not memory enough for them. */
static bool give_memory(const struct filter_build *b, unsigned threads, struct keyset_spec *spec)
{
    uint64_t others = (uint64_t)THREAD_MEMORY * threads +
                      spec->visitors * build_memory(design_kind(b->design));
    uint64_t least = spec->visitors * keyset_part_memory(spec->part, spec->lanes) +
                     keyset_min_memory(threads);
    spec->workers = threads;
    if (drains(b)) {
        spec->memory = direct_memory(b);
        return others <= DIRECT_OTHERS && others + spec->memory <= b->memory &&
               keyset_fits(spec) >= direct_keys(b);
    }
    spec->memory = b->memory > others ? b->memory - others : 0;
    return spec->memory >= least;
}

static bool has_addresses(uint64_t bytes)
{
    if (bytes > SIZE_MAX)
        return false;
    void *p = mmap(NULL, (size_t)bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                   0);
    return p != MAP_FAILED && munmap(p, (size_t)bytes) == 0;
}

static uint64_t other_threads(const struct filter_build *b)
{
    return (uint64_t)(b->threads - 1) * OTHER_THREAD;
}

static bool try_keyset(struct filter_build *b, struct keyset_spec *spec, struct err *err)
{
    if (build_part(design_kind(b->design)) > 0)
        share_memory(b, spec);
    while (!give_memory(b, b->threads, spec) && b->threads > 1)
        b->threads--;
    uint64_t memory = drains(b) ? direct_memory(b) + DIRECT_OTHERS : b->memory;
    if (!has_addresses(memory + FIRST_THREAD + other_threads(b)))
        return fail(err, "cannot get memory for keys: the address space is full");
    b->keys = keyset_new(spec, err);
    b->fits = keyset_fits(spec);
    return b->keys != NULL;
}

/* The memory and the number of threads are upper bounds: what the machine does not have, or lets
 * no process have, is done without. */
static bool get_keyset(struct filter_build *b, struct keyset_spec *spec, struct err *err)
{
    uint64_t smallest = filter_build_min_memory(b->design);
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
    struct keyset_spec spec = {.lanes = lanes(b),
                               .scratch_dir = b->scratch_dir};
    uint64_t most = half_of_memory(), smallest = filter_build_min_memory(b->design);
    if (most != 0)
        b->memory = smaller(b->memory, most > smallest ? most : smallest);
    if (!begin_store(b, &spec, err) || !drain_to_bits(b, &spec, err))
        return false;
    if (filter_build_in_order(b))
        return true;
    if (get_keyset(b, &spec, err))
        return true;
    if (b->bits == NULL)
        return false;
    design_kind(b->design)->bits->end(b->bits);
    b->bits = NULL;
    spec.drain = NULL;
    return get_keyset(b, &spec, err);
}

bool filter_build_in_order(const struct filter_build *b)
{
    return b->store != NULL && b->fill == NULL;
}

bool filter_build_add(struct filter_build *b, struct hashes hashes, uint64_t *known, size_t n,
                      size_t *done, struct err *err)
{
    return store_add(b->store, hashes, known, NULL, n, done, err) == ADD_OK;
}

bool filter_build_put(struct filter_build *b, unsigned worker, struct hashes hashes,
                      size_t n, struct err *err)
{
    return keyset_put(b->keys, worker, hashes, n, err);
}

bool filter_build_each(struct filter_build *b, unsigned threads, keyset_each_fn *each, void *ctx,
                       struct err *err)
{
    return keyset_each(b->keys, threads, each, ctx, err);
}

/* Can the kind be built only from all keys at once? */
static bool keeps_keys(const struct filter_build *b)
{
    const struct kind *kind = design_kind(b->design);
    return kind->build != NULL && kind->bits == NULL;
}

/* Counts the keys, unless a size was given and so many came that they are not worth keeping. What
 * is counted must not depend on threads or memory, so the number of records alone decides. */
static bool count_keys(struct filter_build *b, struct err *err)
{
    b->n_distinct = 0;
    b->counted = !design_is_sized(b->design) || b->forecast || b->n_put <= direct_keys(b) ||
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
    b->header.counters =
        (struct counters){.records = b->n_put,
                          .unknown = !b->counted,
                          .keys_added = b->n_distinct,
                          .n_keys = b->counted ? (double)b->n_distinct : b->census.n};
}

static bool build_layers(struct filter_build *b, struct target *target, struct err *err)
{
    unsigned filled = target->layer;
    progress_begin("making the filter", b->progress, false);
    bool ok = b->counted || b->bits == NULL
                  ? newest(b)->kind->build(target, b->keys, &b->census, err)
                  : newest(b)->kind->bits->write(target, b->bits, &b->census, err);
    for (target->layer = 0; ok && target->layer < b->header.n_layers; target->layer++)
        ok = target->layer == filled || target_zero_sums(target, err);
    progress_end();
    return ok;
}

static struct target newest_target(struct filter_build *b, int fd, const char *name)
{
    return (struct target){.header = &b->header,
                           .layer = chain_newest(&b->header),
                           .fd = fd,
                           .name = name,
                           .threads = b->threads,
                           .n = b->n_distinct};
}

static bool write_file(struct filter_build *b, bool presumed, struct newfile *file,
                       const char *name, struct err *err)
{
    if (!make_header(b, b->n_distinct, err))
        return false;
    struct target target = newest_target(b, file->fd, name);
    target.presumed = presumed;
    if (!target_reserve(&b->header, file, err) || !build_layers(b, &target, err))
        return false;
    fill_counters(b);
    return target_header(&b->header, file->fd, name, err);
}

/* Adds keys in ascending order of their hashes, which depends on nothing else. */
static bool add_part(void *ctx, const struct keyset_range *range, struct err *err)
{
    struct filter_build *b = ctx;
    const struct keyset_piece *piece = range->piece;
    uint64_t lane[HASH_LANES][LAYER_BATCH];
    unsigned n_lanes = lanes(b), stride = keyset_lanes(n_lanes);
    for (size_t at = 0; at < piece->n; at += LAYER_BATCH) {
        uint64_t known[LAYER_BATCH / 64] = {0};
        size_t n = piece->n - at < LAYER_BATCH ? piece->n - at : LAYER_BATCH, done;
        for (size_t i = 0; i < n; i++)
            for (unsigned l = 0; l < n_lanes; l++)
                lane[l][i] = piece->hash[(at + i) * stride + l];
        if (!filter_build_add(b, (struct hashes){lane[0], LAYER_BATCH, NULL}, known, n, &done, err))
            return false;
    }
    return true;
}

static void give_up(void *ctx)
{
    (void)ctx;
}

/* Sees to it that all keys are in the store. */
static bool fill_store(struct filter_build *b, struct err *err)
{
    bool in_order = filter_build_in_order(b);
    if (b->store == NULL && !(make_header(b, b->n_distinct, err) && open_store(b, err)))
        return false;
    if (b->fill == NULL)
        return in_order || keyset_visit_sorted(b->keys, KEYSET_BITS, add_part, give_up, b, err);
    if (b->counted && !fill_keys(b->fill, b->keys, lanes(b), err))
        return false;
    fill_end(b->fill, b->threads);
    return true;
}

static bool write_layers(struct filter_build *b, struct newfile *file, const char *name,
                         struct err *err)
{
    struct facts facts;
    store_describe(b->store, &facts);
    b->header = *facts.layers.header;
    struct target target = {
        .header = &b->header, .fd = file->fd, .name = name, .threads = b->threads};
    if (!target_reserve(&b->header, file, err))
        return false;
    for (; target.layer < b->header.n_layers; target.layer++) {
        if (b->reproducible)
            b->header.layers[target.layer].since = 0;
        if (!target_write_all(&target, facts.layers.data[target.layer], err))
            return false;
    }
    return store_census(b->store, b->threads, NULL, &b->census, err);
}

/* The writer has counted the keys that it was given in order. */
static bool write_store(struct filter_build *b, struct newfile *file, const char *name,
                        struct err *err)
{
    if ((!filter_build_in_order(b) && !count_keys(b, err)) || !fill_store(b, err) ||
        !write_layers(b, file, name, err))
        return false;
    if (b->fill != NULL)
        fill_counters(b);
    else if (b->keys != NULL && b->header.n_layers == 1)
        b->header.counters.n_keys = (double)b->n_distinct;
    return target_header(&b->header, file->fd, name, err);
}

/* Lists of keys are mostly without repeats. So a filter that is sized for its keys is first written
 * as if they were distinct, which spares counting them, a quarter of the whole; and the build fails
 * when they are not. Whatever else fails may be for the wrong number's sake, as on a full disk. */
static bool may_presume(const struct design *d)
{
    double p = d->p != 0 ? d->p : PLAN_FPR;
    return !design_is_sized(d) && d->size == 0 && p <= design_kind(d)->presuming_fpr;
}

bool filter_build_write(struct filter_build *b, uint64_t n_put, struct newfile *file,
                        const char *name, struct err *err)
{
    struct err ignored;
    b->n_put = n_put;
    b->n_distinct = b->n_known != 0 ? b->n_known : n_put;
    b->counted = true;
    if (fills_store(design_kind(b->design)))
        return write_store(b, file, name, err);
    return (may_presume(b->design) && write_file(b, true, file, name, &ignored)) ||
           (count_keys(b, err) && write_file(b, false, file, name, err));
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
    fill_free(b->fill);
    store_close(b->store);
    if (b->bits != NULL)
        design_kind(b->design)->bits->end(b->bits);
}

bool filter_build_empty(int fd, const struct header *h, const char *name, struct err *err)
{
    struct header copy = *h;
    struct target target = {.header = &copy, .fd = fd, .name = name};
    for (; target.layer < h->n_layers; target.layer++)
        if (!target_zero_sums(&target, err))
            return false;
    return target_header(h, fd, name, err);
}

bool filter_build_empty_file(const char *path, const struct header *h, struct err *err)
{
    struct newfile nf;
    bool ok = newfile_open(&nf, path, false, err);
    if (ok) {
        ok = target_reserve(h, &nf, err) && filter_build_empty(nf.fd, h, path, err) &&
             newfile_commit(&nf, err);
        newfile_close(&nf);
    }
    return ok || access(path, F_OK) == 0;
}

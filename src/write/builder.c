/* SPDX-License-Identifier: MIT */
#include "write/builder.h"

#include <math.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "port/port.h"
#include "base/bits.h"
#include "base/disk.h"
#include "base/progress.h"
#include "base/ram.h"
#include "file/chain.h"
#include "write/combine.h"
#include "file/design.h"

/* The most memory that a thread uses besides that for keys: two chunks of input and a batch; or,
 * after the input, the part of the filter that it builds. */
enum { THREAD_MEMORY = 1 << 20 };

/* With a fixed size: the most memory besides that of the filter, which is free while keys come. */
enum { SIZED_MEMORY = 60 << 20 };

/* For a layout of fixed size, the most keys that are counted exactly. */
enum { COUNTED = 1 << 19 };

/* Address space that a thread reserves beyond its memory, mostly unused: room for 4 MiB of the
 * filter. Every thread but the first also has a stack, usually 8 MiB, and its own heap, for which
 * glibc maps 128 MiB (2 MiB on 32-bit machines) to keep the aligned half. */
enum {
    FIRST_THREAD = 4 << 20,
    OTHER_THREAD = FIRST_THREAD + ((8 + (sizeof(void *) > 4 ? 128 : 2)) << 20),
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- Memory for keys. */

/* Bytes of a thread that builds, besides the keyset. */
static uint64_t builder_memory(const struct design *design)
{
    const struct kind *kind = design_kind(design);
    return kind_builds(kind) && kind->building->memory != NULL ? kind->building->memory() : 0;
}

/* The largest part that a builder requests from the keyset; 0: none. */
static size_t part_len(const struct design *design)
{
    const struct kind *kind = design_kind(design);
    return kind_builds(kind) ? kind->building->part : 0;
}

/* The same, with a part. */
static uint64_t visitor_memory(const struct design *design)
{
    size_t part = part_len(design);
    return builder_memory(design) + (part > 0 ? keyset_part_memory(part, design->each) : 0);
}

uint64_t builder_min_memory(const struct design *design)
{
    return THREAD_MEMORY + keyset_min_memory(1) + visitor_memory(design);
}

/* Makes the header. n is the number of distinct keys, used if the design leaves the size open. */
static bool make_header(struct builder *b, uint64_t n, struct err *err)
{
    header_begin(&b->to->header, b->rule, b->to->reproducible);
    assembly_succeed(b->to);
    return header_design(&b->to->header, b->design, n, err);
}

static const struct layer *newest_target(const struct builder *b)
{
    return &b->to->header.layers[chain_newest(&b->to->header)];
}

/* Limits the memory to half of what ram_limit allows: the rest is for other programs. A filter of a
 * fixed size needs only its own bytes and SIZED_MEMORY. */
static bool limit_memory(struct builder *b, struct err *err)
{
    uint64_t most = ram_limit() / 2, least = builder_min_memory(b->design);
    if (design_is_sized(b->design)) {
        if (!make_header(b, 0, err))
            return false;
        if (newest_target(b)->data_len < most)
            most = smaller(most, SIZED_MEMORY + newest_target(b)->data_len);
    }
    b->memory = smaller(b->memory, most > least ? most : least);
    return true;
}

/* Divides the memory among keyset and threads. False: not enough for so many threads. */
static bool give_memory(const struct builder *b, unsigned threads, struct keyset_spec *spec)
{
    uint64_t builder = builder_memory(b->design);
    uint64_t others = (uint64_t)THREAD_MEMORY * threads + spec->visitors * builder;
    uint64_t parts = spec->visitors * (visitor_memory(b->design) - builder);
    spec->workers = threads;
    spec->others = threads * (THREAD_MEMORY + builder);
    spec->memory = b->memory > others ? b->memory - others : 0;
    return spec->memory >= parts + keyset_min_memory(threads);
}

static bool has_addresses(uint64_t bytes)
{
    if (bytes > SIZE_MAX)
        return false;
    void *p = port_zeroes((size_t)bytes, PROT_NONE, true);
    return p != NULL && munmap(p, (size_t)bytes) == 0;
}

static uint64_t other_threads(const struct builder *b)
{
    return (uint64_t)(b->to->threads - 1) * OTHER_THREAD;
}

static bool try_keyset(struct builder *b, struct err *err)
{
    struct keyset_spec spec = {.visitors = 1,
                               .counts = b->design->each,
                               .scratch_dir = b->scratch_dir,
                               .part = part_len(b->design)};
    /* At most half of the memory is for building threads. */
    while (spec.visitors < b->to->threads &&
           (spec.visitors + 1) * visitor_memory(b->design) <= b->memory / 2)
        spec.visitors++;
    while (!give_memory(b, b->to->threads, &spec) && b->to->threads > 1)
        b->to->threads--;
    if (!has_addresses(b->memory + FIRST_THREAD + other_threads(b)))
        return fail(err, "cannot get memory for keys: the address space is full");
    b->keys = keyset_new(&spec, err);
    return b->keys != NULL;
}

/* Memory and threads are upper bounds. If the system does not grant them, one or the other is
 * halved, repeatedly, down to the minimum. */
static bool get_keyset(struct builder *b, struct err *err)
{
    uint64_t smallest = builder_min_memory(b->design);
    while (!try_keyset(b, err)) {
        bool less = b->memory / 2 >= smallest;
        if (b->to->threads > 1 && (!less || other_threads(b) >= b->memory))
            b->to->threads /= 2;
        else if (less)
            b->memory /= 2;
        else
            return false;
    }
    return true;
}

/* ---- From a keyset. */

bool builder_put(struct builder *b, unsigned worker, struct hashes hashes, size_t n,
                 struct err *err)
{
    return keyset_put(b->keys, worker, hashes.lane0, n, err);
}

static bool count_keys(struct builder *b, struct err *err)
{
    progress_begin("counting keys", b->progress, false);
    b->counted = keyset_count(b->keys, &b->n_distinct, err);
    progress_end();
    return b->counted;
}

static void fill_counters(struct builder *b)
{
    uint64_t n = b->counted ? b->n_distinct : (uint64_t)round(b->to->census.n);
    b->n_held = n < b->n_put ? n : b->n_put;
    b->to->header.made = b->n_held;
    if (!b->counted)
        b->to->header.compat |= COMPAT_ESTIMATED;
    b->to->header.counters = (struct counters){.records = b->n_put, .keys_added = b->n_held};
}

/* Writes the file from the keyset. */
static bool write_keys(struct builder *b, bool presumed, struct err *err)
{
    const unsigned newest = chain_newest(&b->to->header);
    bool is_empty = b->n_put == 0 && kind_takes_keys(b->to->header.layers[newest].kind);
    b->to->origin[newest] = (struct origin){.how = is_empty ? FROM_NOTHING : FROM_KEYS,
                                            .keys = b->keys,
                                            .n = b->n_distinct,
                                            .presumed = presumed};
    progress_begin("making the filter", b->progress, false);
    bool ok = assembly_write(b->to, err);
    progress_end();
    b->to->census = b->to->each[newest];
    return ok;
}

/* Does the build itself find every repeat? */
static bool finds_repeats(const struct builder *b)
{
    return design_kind(b->design)->building->estimated_from == 0;
}

static bool write_file(struct builder *b, bool presumed, struct err *err)
{
    if (!make_header(b, b->n_distinct, err) || !write_keys(b, presumed, err))
        return false;
    b->counted |= presumed && finds_repeats(b);
    fill_counters(b);
    return true;
}

/* Can the census tell the number of distinct keys? */
static bool may_estimate(const struct builder *b)
{
    uint64_t from = design_kind(b->design)->building->estimated_from;
    return !finds_repeats(b) && b->n_put > from && !b->exact;
}

static bool write_built(struct builder *b, struct err *err)
{
    struct err ignored;
    b->counted = b->n_known != 0;
    b->n_distinct = b->counted ? b->n_known : b->n_put;
    if (b->counted || (design_is_sized(b->design) && may_estimate(b)))
        return write_file(b, false, err);
    /* Most inputs have no repeats: writing the filter as if all keys were distinct saves sorting
     * them. The build fails if there are repeats. After any failure the keys are counted and the
     * filter is built again: the wrong number may have caused the failure, as on a full disk. */
    const struct design *d = b->design;
    bool presumes =
        !design_is_sized(d) && d->size == 0 && !d->each && (finds_repeats(b) || may_estimate(b));
    return (presumes && write_file(b, true, &ignored)) ||
           (count_keys(b, err) && write_file(b, false, err));
}

/* ---- In input order. */

/* Makes the filter that the header describes in memory. */
static bool open_memory(struct builder *b, struct err *err)
{
    const struct add_options options = {.threads = b->to->threads, .max_fpr = 1};
    b->sized = filter_open_memory(&b->filter, &b->to->header, err);
    b->filter.path = b->to->out;
    return b->sized && writer_begin(&b->writer, &b->filter, &options, &b->state, err);
}

/* Are the keys counted by a keyset, so far? More keys are counted only if it has to be. */
static bool is_counting(const struct builder *b)
{
    return !b->sized || b->exact || b->n_put <= COUNTED;
}

/* Puts a hash of all lanes, 64 bits: a lane alone may have fewer. */
static bool put_joined(struct builder *b, const struct layers_keys *p, unsigned lanes,
                       struct err *err)
{
    uint64_t joined[LAYER_BATCH];
    for (size_t i = 0; i < p->n; i++) {
        uint64_t all = p->lane[0][i];
        for (unsigned l = 1; l < lanes; l++)
            all = (all ^ all >> 32 ^ p->lane[l][i]) * 0x9e3779b97f4a7c15;
        joined[i] = all ^ all >> 32;
    }
    return keyset_put(b->keys, 0, joined, p->n, err);
}

/* Appends keys to the scratch file, each with all its lanes. */
static bool keep(struct builder *b, const struct layers_keys *p, unsigned lanes, struct err *err)
{
    uint64_t keys[LAYER_BATCH * HASH_LANES];
    size_t len = p->n * lanes * sizeof *keys;
    if (b->forecast || len == 0)
        return true;
    if (b->waiting_len == 0 && (b->waiting = disk_scratch(b->scratch_dir, err)) < 0)
        return false;
    for (size_t i = 0; i < p->n; i++)
        for (unsigned l = 0; l < lanes; l++)
            keys[i * lanes + l] = p->lane[l][i];
    b->waiting_len += len;
    return disk_write(b->waiting, keys, len, b->waiting_len - len, "scratch file", err);
}

bool builder_in_order(const struct builder *b)
{
    return !kind_builds(design_kind(b->design));
}

bool builder_add(struct builder *b, struct hashes hashes, uint64_t *known, size_t n, size_t *done,
                 struct err *err)
{
    const unsigned lanes = key_rule_hash(b->rule)->lanes;
    *done = 0;
    b->n_put += n - bits_count(known, n);
    bool counts = is_counting(b);
    for (size_t i = 0; i < n && (counts || !b->sized); i += LAYER_BATCH) {
        struct layers_keys p;
        layers_take(&p, lanes, hashes_from(hashes, i), n - i < LAYER_BATCH ? n - i : LAYER_BATCH);
        layers_leave_out(&p, lanes, known + i / 64);
        if ((counts && !put_joined(b, &p, lanes, err)) || (!b->sized && !keep(b, &p, lanes, err)))
            return false;
    }
    return !b->sized || writer_add(&b->writer, hashes, known, n, done, err) == ADD_OK;
}

/* Adds the keys of the scratch file. */
static bool add_waiting(struct builder *b, struct err *err)
{
    const unsigned lanes = key_rule_hash(b->rule)->lanes;
    size_t some, done, got, size = lanes * sizeof(uint64_t);
    for (uint64_t at = 0; at < b->waiting_len; at += some * size) {
        uint64_t keys[LAYER_BATCH * HASH_LANES], known[LAYER_BATCH / 64] = {0};
        uint64_t lane[HASH_LANES][LAYER_BATCH];
        some = (size_t)smaller((b->waiting_len - at) / size, LAYER_BATCH);
        if (!disk_read(b->waiting, keys, some * size, at, &got))
            return fail_errno(err, "cannot read scratch file");
        if (got < some * size)
            return fail(err, "cannot read scratch file: it ends early");
        for (size_t i = 0; i < some; i++)
            for (unsigned l = 0; l < lanes; l++)
                lane[l][i] = keys[i * lanes + l];
        const struct hashes hashes = {lane[0], LAYER_BATCH, NULL};
        if (writer_add(&b->writer, hashes, known, some, &done, err) != ADD_OK)
            return false;
    }
    return true;
}

static bool write_layers(struct builder *b, struct err *err)
{
    const struct filter *f = &b->filter;
    struct header *h = &b->to->header;
    *h = f->header;
    h->profile = b->rule->profile;
    h->counters = b->writer.session.counters;
    for (unsigned i = 0; i < h->n_layers; i++) {
        if (b->to->reproducible)
            h->layers[i].since = 0;
        assembly_take(b->to, i, FROM_MEMORY, &f->header.layers[i], f->data[i]);
    }
    if (!assembly_write(b->to, err))
        return false;
    layers_census_all(filter_layers(f), b->to->threads, &b->to->census);
    return true;
}

static bool write_added(struct builder *b, struct err *err)
{
    if ((is_counting(b) && !count_keys(b, err)) ||
        (!b->sized &&
         !(make_header(b, b->n_distinct, err) && open_memory(b, err) && add_waiting(b, err))) ||
        !write_layers(b, err))
        return false;
    if (!newest_target(b)->kind->layout->counts)
        fill_counters(b);
    else
        b->n_held = b->counted ? b->n_distinct : b->to->header.counters.keys_added;
    return true;
}

/* ---- Both. */

bool builder_begin(struct builder *b, struct err *err)
{
    if (!limit_memory(b, err))
        return false;
    bool opens = builder_in_order(b) && design_is_sized(b->design) && !b->forecast;
    return (!opens || open_memory(b, err)) && get_keyset(b, err);
}

bool builder_write(struct builder *b, uint64_t n_put, struct err *err)
{
    b->n_put = n_put;
    return builder_in_order(b) ? write_added(b, err) : write_built(b, err);
}

bool builder_batch(struct builder *b, uint64_t n_put, struct err *err)
{
    b->n_put = n_put;
    if (!count_keys(b, err) || !make_header(b, b->n_distinct, err))
        return false;
    fill_counters(b);
    return write_keys(b, false, err);
}

bool builder_forecast(struct builder *b, uint64_t n_put, struct err *err)
{
    b->n_put = n_put;
    if (!count_keys(b, err) || !make_header(b, b->n_distinct, err))
        return false;
    b->to->census.fpr = newest_target(b)->kind->fpr_at(newest_target(b), (double)b->n_distinct);
    fill_counters(b);
    return true;
}

void builder_free(struct builder *b)
{
    keyset_free(b->keys);
    if (b->sized)
        filter_close(&b->filter);
    if (b->waiting_len > 0)
        close(b->waiting);
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
    unsigned bits = layer_fingerprint(layer);
    return bits == 64 ||
           fail(err,
                "'%s' has fingerprints of %u bits, not whole hashes, so other filters cannot be "
                "made from it; 'seen create --counted --fpr 0' keeps whole hashes",
                from->path, bits);
}

static bool put_hashes(void *ctx, const uint64_t *hash, size_t n, struct err *err)
{
    struct builder *b = ctx;
    b->n_known += n;
    return builder_put(b, 0, hashes_of(hash), n, err);
}

bool derive_put(const struct filter *from, struct builder *b, uint64_t *records, struct err *err)
{
    const struct layer *layer = &from->header.layers[0];
    if (!layer->kind->counts->hashes(layer, from->data[0], put_hashes, b, err) ||
        !filter_check_intact(from, err))
        return false;
    *records = from->header.counters.records;
    if (*records < b->n_known)
        *records = b->n_known;
    return true;
}

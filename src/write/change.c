/* SPDX-License-Identifier: MIT */
#include "write/change.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/disk.h"
#include "base/num.h"
#include "keys/xxh3.h"
#include "file/design.h"
#include "file/header.h"
#include "write/borrow.h"
#include "write/combine.h"
#include "write/writer.h"

/* The batch, in an unnamed file, mapped. */
struct batch_map {
    struct mapped map;
    const struct layer *layer;
    const uint8_t *data;
};

/* IDs. */

/* Sets c->id to the hash that the file stores for a batch ID: seen(5). */
static bool hash_id(struct change *c, struct err *err)
{
    size_t room = strlen(c->batch_id) + sizeof "remove ";
    char *text = malloc(room);
    if (text == NULL)
        return fail(err, "out of memory");
    int len = snprintf(text, room, "%s %s", c->op == COUNTS_ADD ? "add" : "remove", c->batch_id);
    put_le64(c->id, xxh3_bytes(text, (size_t)len, 0));
    put_le64(c->id + 8, xxh3_bytes(text, (size_t)len, 1));
    free(text);
    return true;
}

static bool remembers(const struct change *c, const struct header *h)
{
    for (unsigned i = 0; c->batch_id != NULL && i < h->n_batches; i++)
        if (memcmp(h->batch[i], c->id, FORMAT_BATCH) == 0)
            return true;
    return false;
}

bool change_suits(const char *name, bool *suits, struct err *err)
{
    struct header h;
    *suits = false;
    if (disk_is_address(name))
        return true;
    if (!borrow_read_header(name, &(const struct borrow){0}, &h, err))
        return false;
    *suits = combine_counts(&h);
    return true;
}

bool change_check(const char *name, struct err *err)
{
    bool suits;
    if (!change_suits(name, &suits, err) || suits)
        return suits;
    if (disk_is_address(name))
        return fail(err,
                    "'%s' is an address: keys can be removed only from files that 'seen create "
                    "--counted' makes",
                    name);
    return fail(err,
                "'%s' is not a counted set: its keys share bits, so none can be removed without "
                "others; 'seen create --counted' makes sets from which keys can be removed",
                name);
}

/* Collecting keys. */

bool change_open(struct change *c, struct err *err)
{
    c->now.fd = c->batch.file.fd = -1;
    if (!filter_open(&c->now, c->path, FILTER_READ, err) ||
        (c->batch_id != NULL && !hash_id(c, err)))
        return false;
    c->repeated = remembers(c, &c->now.header);
    c->design = (struct design){.batch_for = &c->now.header, .each = !c->once};
    c->made = (struct assembly){.out = c->path, .replace = true};
    if (!assembly_begin(&c->made, err))
        return false;
    c->made.file.hasty = c->no_sync;
    return true;
}

uint64_t change_min_memory(const struct change *c)
{
    return builder_min_memory(&c->design);
}

bool change_begin(struct change *c, const struct key_rule *rule, uint64_t memory,
                  const char *scratch_dir, struct err *err)
{
    if (scratch_dir == NULL)
        scratch_dir = c->own_dir = disk_dir_of(c->made.file.path);
    if (scratch_dir == NULL)
        return fail(err, "out of memory");
    c->batch.threads = c->threads;
    c->build = (struct builder){.to = &c->batch,
                                .design = &c->design,
                                .rule = rule,
                                .memory = memory,
                                .scratch_dir = scratch_dir,
                                .progress = c->progress};
    bool ok = builder_begin(&c->build, err);
    c->threads = c->batch.threads;
    return ok;
}

bool change_put(struct change *c, unsigned worker, struct hashes hashes, size_t n, struct err *err)
{
    return builder_put(&c->build, worker, hashes, n, err);
}

void change_close(struct change *c)
{
    builder_free(&c->build);
    free(c->own_dir);
    if (c->batch.file.fd >= 0)
        close(c->batch.file.fd);
    assembly_close(&c->made);
    if (c->now.fd >= 0)
        filter_close(&c->now);
}

/* Applying the batch. */

static bool write_batch(struct change *c, uint64_t n_put, struct batch_map *b, struct err *err)
{
    char name[PATH_MAX + 32];
    struct assembly *batch = &c->batch;
    snprintf(name, sizeof name, "the batch' in '%s", c->build.scratch_dir); /* within quotes */
    batch->out = name;
    batch->file.fd = disk_scratch(c->build.scratch_dir, err);
    if (batch->file.fd < 0 || !builder_batch(&c->build, n_put, err))
        return false;
    c->n = batch->header.counters.keys_added;
    if (!mapped_open(&b->map, batch->file.fd, batch->header.file_len, "the batch"))
        return fail_errno(err, "cannot map the batch");
    b->layer = &batch->header.layers[0];
    b->data = (const uint8_t *)b->map.data + b->layer->data_off;
    return true;
}

/* The file may have been replaced since the batch was collected. */
static bool check_replaced(const struct change *c, const struct batch_map *b, struct err *err)
{
    const struct filter *old = &c->made.in[0];
    const struct layer *both[] = {b->layer, &old->header.layers[0]};
    struct err ignored;
    return (c->made.replaces_input && combine_counts(&old->header) &&
            both[1]->kind == b->layer->kind &&
            header_same_keys(&c->now.header, &old->header, &ignored) &&
            combine_bits(both, 1) >= combine_bits(both + 1, 1)) ||
           fail(err, "'%s' was replaced meanwhile by another filter: run this again", c->path);
}

static bool refuse_lacking(const struct change *c, const struct filter *old, struct err *err)
{
    uint64_t lacking = c->made.seen.lacking;
    const char *s = num_plural(lacking);
    if (memcmp(c->now.header.id, old->header.id, sizeof old->header.id) != 0)
        return fail(err,
                    "%" PRIu64 " key%s of the batch went missing from '%s' meanwhile: nothing "
                    "was removed",
                    lacking, s, c->path);
    return fail(err,
                "nothing was removed: the batch removes %" PRIu64 " key%s more often than '%s' has "
                "%s (--once counts a key once)",
                lacking, s, c->path, lacking == 1 ? "it" : "them");
}

static bool refuse_high(const struct change *c, double fpr, double limit, struct err *err)
{
    char would[NUM_TEXT], most[NUM_TEXT];
    bool usual = c->max_fpr == 0;
    return fail(err, "the false-positive rate of '%s' would be %s, above %s%s: nothing was added%s",
                c->path, num_show_fpr(would, fpr), num_show_fpr(most, limit),
                usual ? ", 10 times its design rate" : "",
                usual ? "; make a set with a larger --capacity, or set another limit with --max-fpr"
                      : "");
}

/* May the new file take the place of the old one? */
static bool check_new(const struct change *c, const struct filter *old, struct err *err)
{
    const struct counts_seen *seen = &c->made.seen;
    const struct layer *layer = &old->header.layers[0];
    if (c->op != COUNTS_ADD)
        return seen->lacking == 0 || c->skip_absent || refuse_lacking(c, old, err);
    /* With whole hashes, no set has a lower rate. */
    bool least = c->max_fpr == 0 && combine_bits(&layer, 1) == 64;
    struct add_options options = {.max_fpr = c->max_fpr};
    double p = combine_fpr(&c->made), limit = least ? 1 : writer_limit(&old->header, &options);
    return p <= limit || seen->made == seen->a || refuse_high(c, p, limit, err);
}

static bool renew(struct change *c, const struct batch_map *b, struct err *err)
{
    struct assembly *a = &c->made;
    const struct filter *old = &a->in[0];
    const struct layer *layer[] = {&old->header.layers[0], b->layer};
    const uint8_t *data[] = {old->data[0], b->data};
    combine_plan(a, c->op, &(struct union_of){.n = 2, .layer = layer, .data = data}, 0);
    a->header.created = old->header.created;
    if (c->batch_id != NULL) { /* the oldest is forgotten if they are too many */
        struct header *h = &a->header;
        if (h->n_batches == FORMAT_MAX_BATCHES)
            memmove(h->batch, h->batch + 1, (size_t)--h->n_batches * FORMAT_BATCH);
        memcpy(h->batch[h->n_batches++], c->id, FORMAT_BATCH);
    }
    if (c->op == COUNTS_ADD) /* of keys that may be new */
        header_learn(&a->header, &c->learned, old->header.counters.keys_added,
                     old->header.counters.keys_added + c->n);
    c->applied = combine_write(a, err) && check_new(c, old, err) && assembly_commit(a, err);
    return c->applied;
}

/* Nothing is changed. But the process that made the file may have been killed before its sync. */
static bool sync_as_found(const struct change *c, struct err *err)
{
    return c->no_sync ||
           (disk_sync(c->now.fd, NULL, 0, c->path, err) && disk_sync_name(c->path, err));
}

/* Writers are locked out from here on. */
static bool replace_current(struct change *c, const struct batch_map *b, struct err *err)
{
    struct assembly *a = &c->made;
    a->threads = c->threads;
    if (!assembly_inputs(a, &c->path, 1, "", err) || !check_replaced(c, b, err))
        return false;
    c->repeated = remembers(c, &a->in[0].header);
    return c->repeated ? sync_as_found(c, err) : assembly_check_sound(a, err) && renew(c, b, err);
}

bool change_apply(struct change *c, uint64_t n_put, struct err *err)
{
    struct batch_map b = {.layer = NULL};
    if (c->repeated || n_put == 0)
        return sync_as_found(c, err);
    bool ok = write_batch(c, n_put, &b, err) && replace_current(c, &b, err);
    mapped_close(&b.map);
    return ok;
}

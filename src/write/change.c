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
#include "file/header.h"

/* The batch as a layer, in an unnamed file. */
struct batch_layer {
    int fd;
    struct mapped map;
    const struct layer *layer;
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

/* Copies the IDs of the old file, dropping the oldest if they are too many, and adds this one. */
static void set_batches(const struct change *c, const struct header *old, struct header *h)
{
    bool has_id = c->batch_id != NULL;
    unsigned forgotten = has_id && old->n_batches == FORMAT_MAX_BATCHES ? 1 : 0;
    h->n_batches = old->n_batches - forgotten;
    memcpy(h->batch, old->batch + forgotten, (size_t)h->n_batches * FORMAT_BATCH);
    if (has_id)
        memcpy(h->batch[h->n_batches++], c->id, FORMAT_BATCH);
}

bool change_suits(const char *name, bool *suits, struct err *err)
{
    struct header h;
    *suits = false;
    if (disk_is_address(name))
        return true;
    if (!filter_read_header(name, &h, err))
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
                    "'%s' is in Redis: keys can be removed only from files that 'seen create "
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
    c->now.fd = -1;
    if (!filter_open(&c->now, c->path, FILTER_READ, err) ||
        (c->batch_id != NULL && !hash_id(c, err)))
        return false;
    c->repeated = remembers(c, &c->now.header);
    c->design = (struct design){.batch_for = &c->now.header, .each = !c->once};
    if (!newfile_open(&c->file, c->path, true, err))
        return false;
    c->file.hasty = c->no_sync;
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
        scratch_dir = c->own_dir = disk_dir_of(c->file.path);
    if (scratch_dir == NULL)
        return fail(err, "out of memory");
    c->build = (struct builder){.design = &c->design,
                                .rule = rule,
                                .memory = memory,
                                .scratch_dir = scratch_dir,
                                .threads = c->threads,
                                .progress = c->progress};
    bool ok = builder_begin(&c->build, err);
    c->threads = c->build.threads;
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
    newfile_close(&c->file);
    if (c->now.fd >= 0)
        filter_close(&c->now);
}

/* Applying the batch. */

static bool write_batch(struct change *c, uint64_t n_put, struct batch_layer *b, struct err *err)
{
    char name[PATH_MAX + 32];
    const struct header *h = &c->build.header;
    snprintf(name, sizeof name, "the batch' in '%s", c->build.scratch_dir); /* within quotes */
    b->fd = disk_scratch(c->build.scratch_dir, err);
    b->layer = &h->layers[0];
    if (b->fd < 0 || !builder_batch(&c->build, n_put, b->fd, name, err))
        return false;
    c->n = h->counters.keys_added;
    return mapped_open(&b->map, b->fd, h->file_len, "the batch") ||
           fail_errno(err, "cannot map the batch");
}

static void free_batch(struct batch_layer *b)
{
    mapped_close(&b->map);
    if (b->fd >= 0)
        close(b->fd);
}

/* The file may have been replaced since the batch was collected. */
static bool check_old(const struct change *c, const struct batch_layer *b, const struct filter *old,
                      struct err *err)
{
    const struct layer *both[] = {b->layer, &old->header.layers[0]};
    struct err ignored;
    return (newfile_replaces(&c->file, old->fd) && combine_counts(&old->header) &&
            both[1]->kind == b->layer->kind &&
            header_same_keys(&c->now.header, &old->header, &ignored) &&
            combine_bits(both, 1) >= combine_bits(both + 1, 1)) ||
           fail(err, "'%s' was replaced meanwhile by another filter: run this again", c->path);
}

static bool refuse_lacking(const struct change *c, const struct filter *old, struct err *err)
{
    uint64_t lacking = c->combine.seen.lacking;
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

/* May the new file take the place of the old one? */
static bool check_new(const struct change *c, const struct filter *old, struct err *err)
{
    const struct counts_seen *seen = &c->combine.seen;
    char fpr[NUM_TEXT], limit[NUM_TEXT];
    if (c->op == COUNTS_SUBTRACT)
        return seen->lacking == 0 || c->skip_absent || refuse_lacking(c, old, err);
    double p = combine_fpr(&c->combine);
    if (c->max_fpr == 0 || p <= c->max_fpr || seen->made == seen->a)
        return true;
    return fail(err, "the false-positive rate of '%s' would be %s, above %s: nothing was added",
                c->path, num_show_fpr(fpr, p), num_show_fpr(limit, c->max_fpr));
}

static bool replace(struct change *c, const struct batch_layer *b, const struct filter *old,
                    struct err *err)
{
    const struct layer *layer[] = {&old->header.layers[0], b->layer};
    const uint8_t *data[] = {old->data[0], (const uint8_t *)b->map.data + b->layer->data_off};
    struct header *h = &c->combine.header;
    c->combine = (struct combine){.op = c->op,
                                  .layer = layer,
                                  .data = data,
                                  .n = 2,
                                  .keys = &old->header,
                                  .threads = c->threads};
    combine_header(&c->combine);
    h->created = old->header.created;
    set_batches(c, &old->header, h);
    format_place(h);
    bool ok = combine_write(&c->combine, &c->file, c->path, err) && check_new(c, old, err) &&
              filter_check_intact(old, err) && header_commit(h, &c->file, c->path, err);
    c->combine.layer = NULL;
    c->combine.data = NULL;
    c->combine.keys = NULL;
    c->applied = ok;
    return ok;
}

/* Called with writers locked out. */
static bool replace_current(struct change *c, const struct batch_layer *b, struct err *err)
{
    struct filter old;
    if (!filter_open(&old, c->path, FILTER_READ, err))
        return false;
    bool ok = check_old(c, b, &old, err);
    c->repeated = ok && remembers(c, &old.header);
    if (ok && !c->repeated)
        ok = filter_check_sound(&old, c->threads, err) && replace(c, b, &old, err);
    filter_close(&old);
    return ok;
}

/* Nothing is changed. But the process that made the file may have been killed before its sync. */
static bool sync_as_found(const struct change *c, struct err *err)
{
    return c->no_sync ||
           (disk_sync(c->now.fd, NULL, 0, c->path, err) && disk_sync_name(c->path, err));
}

bool change_apply(struct change *c, uint64_t n_put, struct err *err)
{
    struct batch_layer b = {.fd = -1};
    if (c->repeated || n_put == 0)
        return sync_as_found(c, err);
    bool ok = write_batch(c, n_put, &b, err) && newfile_hold(&c->file, err) &&
              replace_current(c, &b, err) && (!c->repeated || sync_as_found(c, err));
    free_batch(&b);
    return ok;
}

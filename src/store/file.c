/*
 * The store (store.h) for a filter file: opens and maps the filter (filter.h), and adds keys in a
 * session beside other writers (session.h).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/err.h"
#include "base/num.h"
#include "keys/hash.h"
#include "keys/sort.h"
#include "write/advance.h"
#include "file/chain.h"
#include "file/filter.h"
#include "write/filter_build.h"
#include "file/header.h"
#include "file/session.h"
#include "store/store.h"
#include "write/writer.h"

/* ---- The store. */

struct file {
    struct store store;
    struct filter filter;
    struct session session;
    bool has_warned;
    struct backing backing;
    struct writer writer;
};

static struct file *file_of(struct store *s)
{
    return (struct file *)(void *)s;
}

static const struct file *const_file_of(const struct store *s)
{
    return (const struct file *)(const void *)s;
}

static bool lock(void *place, struct err *err)
{
    struct file *file = place;
    if (!session_lock(&file->session, err))
        return false;
    if (advance_finish(&file->session, err))
        return true;
    session_unlock(&file->session);
    return false;
}

static void unlock(void *place)
{
    struct file *file = place;
    session_unlock(&file->session);
}

static bool verify(void *place, unsigned layer, struct hashes keys, size_t n, struct err *err)
{
    struct file *file = place;
    return filter_verify(&file->filter, layer, keys, n, err);
}

static bool touch(void *place, unsigned layer, struct hashes keys, size_t n, struct err *err)
{
    struct file *file = place;
    return session_touch(&file->session, layer, keys, n, err);
}

static bool next_layer(void *place, unsigned threads, struct err *err)
{
    struct file *file = place;
    return advance(&file->session, threads, err);
}

static const struct backing_ops backing_ops = {
    .lock = lock,
    .unlock = unlock,
    .verify = verify,
    .touch = touch,
    .advance = next_layer,
};

static void describe(const struct store *s, struct facts *facts)
{
    const struct file *file = const_file_of(s);
    const struct filter *f = &file->filter;
    bool has_session = file->session.filter != NULL;
    enum filter_health health = filter_health(f);
    *facts = (struct facts){.layers = filter_layers(f),
                            .counters = has_session ? file->session.counters : f->header.counters,
                            .is_writing = health == FILTER_WRITING,
                            .is_dirty = health == FILTER_DIRTY,
                            .needs_repair = f->header.state == STATE_DIRTY,
                            .slot_damaged = f->slot_damaged};
}

static bool query(struct store *s, struct hashes keys, size_t n, uint64_t *present, struct err *err)
{
    return filter_query(&file_of(s)->filter, keys, n, present, err);
}

static bool query_counts(struct store *s, struct hashes keys, size_t n, uint64_t *count,
                         struct err *err)
{
    return filter_query_counts(&file_of(s)->filter, keys, n, count, err);
}

static bool take_census(struct store *s, unsigned threads, struct census *layer, struct census *all,
                        struct err *err)
{
    const struct layers layers = filter_layers(&file_of(s)->filter);
    (void)err;
    layers_census_each(&layers, threads, layer);
    layers_census_whole(layers.header, layer, all);
    layers_sample_fpr(&layers, threads, all);
    return true;
}

static bool changed(const struct store *s)
{
    return filter_changed(&const_file_of(s)->filter);
}

static bool refresh(struct store *s, struct err *err)
{
    return filter_refresh(&file_of(s)->filter, err);
}

static bool check_intact(const struct store *s, struct err *err)
{
    return filter_check_intact(&const_file_of(s)->filter, err);
}

static void expect(struct store *s, bool many)
{
    filter_expect(&file_of(s)->filter, many);
}

/* Says once what a writer that ended without leaving may have left undone. */
static void warn_of_dead(struct file *file)
{
    if (!file->session.found_dead || file->has_warned)
        return;
    file->has_warned = true;
    snprintf(file->store.state.warning, sizeof file->store.state.warning,
             "'%.300s': a process was killed, or the machine crashed, while keys were added; the "
             "last of them may be missing",
             file->store.name);
}

static bool add_begin(struct store *s, const struct add_options *options, struct err *err)
{
    struct file *file = file_of(s);
    if (!writer_check(filter_layers(&file->filter), s->name, options, err) ||
        !session_begin(&file->session, &file->filter, err))
        return false;
    file->backing = (struct backing){.ops = &backing_ops,
                                     .place = file,
                                     .name = s->name,
                                     .layers = filter_layers(&file->filter),
                                     .counters = &file->session.counters};
    writer_begin(&file->writer, &file->backing, options, &s->state);
    warn_of_dead(file);
    return true;
}

static enum add_result add(struct store *s, struct hashes keys, uint64_t *known, size_t n,
                           size_t *done, struct err *err)
{
    return writer_add(&file_of(s)->writer, keys, known, n, done, err);
}

static void conclude(struct store *s, bool again)
{
    writer_conclude(&file_of(s)->writer, again);
}

static bool sync_keys(struct store *s, struct err *err)
{
    return session_sync(&file_of(s)->session, err);
}

static bool add_end(struct store *s, bool sync, struct err *err)
{
    struct file *file = file_of(s);
    bool ok = session_end(&file->session, sync, err);
    warn_of_dead(file);
    return ok;
}

static struct filter *filter_of(struct store *s)
{
    return &file_of(s)->filter;
}

static void close_file(struct store *s)
{
    filter_close(&file_of(s)->filter);
    free(s);
}

static const struct store_ops ops = {
    .describe = describe,
    .query = query,
    .query_counts = query_counts,
    .census = take_census,
    .changed = changed,
    .refresh = refresh,
    .check_intact = check_intact,
    .expect = expect,
    .add_begin = add_begin,
    .add = add,
    .conclude = conclude,
    .sync = sync_keys,
    .add_end = add_end,
    .file = filter_of,
    .close = close_file,
};

static struct store *file_new(const char *path, const struct store_ops *file_ops, struct err *err)
{
    struct file *file = calloc(1, sizeof *file);
    if (file == NULL) {
        fail(err, "out of memory");
        return NULL;
    }
    file->store = (struct store){.ops = file_ops, .name = path};
    return &file->store;
}

static struct store *open_file(const char *path, enum store_mode mode, struct err *err)
{
    struct store *s = file_new(path, &ops, err);
    enum filter_mode how = mode == STORE_WRITE ? FILTER_WRITE : FILTER_READ;
    if (s == NULL || filter_open(filter_of(s), path, how, err))
        return s;
    free(s);
    return NULL;
}

struct store *file_open(const char *path, enum store_mode mode, const struct open_options *ignored,
                        struct err *err)
{
    struct store *s = open_file(path, mode, err);
    (void)ignored;
    if (s == NULL && mode == STORE_WRITE && strcmp(path, "-") != 0 && access(path, F_OK) != 0 &&
        errno == ENOENT)
        fail_more(err, " (--create makes it)");
    return s;
}

/* ---- A file that is to be made. It has only a header. */

static void describe_planned(const struct store *s, struct facts *facts)
{
    *facts = (struct facts){.layers.header = &const_file_of(s)->filter.header};
}

/* The disk may be too full for the expected keys, but not for the actual ones. */
static bool make_smaller(const char *path, struct header *h, struct err *err)
{
    const struct layer *first = &h->layers[0];
    const struct design usual = {
        .kind = first->kind, .p = h->fpr_design, .grow = true, .more = true};
    return format_grows(h) && first->n_design > CHAIN_FIRST && header_design(h, &usual, 0, err) &&
           filter_build_empty_file(path, h, err);
}

static bool make_planned(struct store *s, char layout[LAYOUT_TEXT], struct err *err)
{
    struct header h = filter_of(s)->header;
    layout[0] = '\0';
    if ((!filter_build_empty_file(s->name, &h, err) && !make_smaller(s->name, &h, err)) ||
        !filter_open(filter_of(s), s->name, FILTER_WRITE, err))
        return false;
    s->ops = &ops;
    return true;
}

static void close_planned(struct store *s)
{
    free(s);
}

static const struct store_ops planned_ops = {
    .describe = describe_planned,
    .make = make_planned,
    .close = close_planned,
};

struct store *file_prepare(const char *path, const struct store_plan *plan,
                           const struct open_options *ignored, enum store_there *there,
                           struct err *err)
{
    (void)ignored;
    *there = STORE_THERE;
    if (access(path, F_OK) == 0)
        return open_file(path, plan->mode, err);
    if (errno != ENOENT) {
        fail_errno(err, "cannot open '%s'", path);
        return NULL;
    }
    *there = STORE_ABSENT;
    struct store *s = file_new(path, &planned_ops, err);
    if (s == NULL || plan->header(plan->ctx, &filter_of(s)->header, err))
        return s;
    free(s);
    return NULL;
}

#include "store/file.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/writer.h"
#include "store/advance.h"
#include "store/session.h"

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

static bool lock(void *place, bool *replaced, struct err *err)
{
    struct file *file = place;
    bool ok = session_lock(&file->session, err);
    *replaced = file->session.replaced;
    if (!ok)
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

static void found(void *place, unsigned layer, struct hashes keys, size_t n,
                  const uint64_t *present)
{
    const struct file *file = place;
    session_rely(&file->session, layer, keys, n, present);
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
    .found = found,
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
    layers_census_whole(&layers, threads, layer, all);
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

static bool overwritten(const struct store *s)
{
    return filter_is_overwritten(&const_file_of(s)->filter);
}

static bool renew(struct store *s, struct err *err)
{
    return filter_renew(&file_of(s)->filter, err);
}

static void expect(struct store *s, bool many)
{
    filter_expect(&file_of(s)->filter, many);
}

/* Says once what a writer that was killed may have left undone. */
static void warn_of_dead(struct file *file)
{
    if (!file->session.found_dead || file->has_warned)
        return;
    file->has_warned = true;
    bool is_dirty = file->filter.header.state == STATE_DIRTY;
    snprintf(file->store.state.warning, sizeof file->store.state.warning,
             "'%.300s': %s while keys were added; the last of them may be missing%s",
             file->store.name, is_dirty ? "the machine crashed" : "a process was killed",
             is_dirty ? ", and 'seen verify --repair' makes the file clean" : "");
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
    .overwritten = overwritten,
    .renew = renew,
    .expect = expect,
    .add_begin = add_begin,
    .add = add,
    .conclude = conclude,
    .sync = sync_keys,
    .add_end = add_end,
    .file = filter_of,
    .close = close_file,
};

struct store *file_open(const char *path, enum store_mode mode, struct err *err)
{
    struct file *file = calloc(1, sizeof *file);
    if (file == NULL) {
        fail(err, "out of memory");
        return NULL;
    }
    file->store = (struct store){.ops = &ops, .name = path};
    if (filter_open(&file->filter, path, mode == STORE_WRITE ? FILTER_WRITE : FILTER_READ, err))
        return &file->store;
    free(file);
    return NULL;
}

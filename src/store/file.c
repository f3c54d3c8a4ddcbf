/* SPDX-License-Identifier: MIT
 * The store (store.h) for a filter in a file or in memory (filter.h). Keys are added by a
 * writer (writer.h), in a file beside others. A file that is to be made has only a header.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "file/filter.h"
#include "file/design.h"
#include "file/newfile.h"
#include "file/session.h"
#include "store/store.h"
#include "write/assembly.h"
#include "write/writer.h"

struct file_store {
    struct store store;
    struct filter filter;
    pthread_rwlock_t lock; /* for reading: between enter and leave; for writing: to refresh */
    struct writer writer;
    bool has_capacity; /* of a missing file: it was asked for */
};

static struct file_store *file_of(struct store *s)
{
    return (struct file_store *)(void *)s;
}

static void describe(const struct store *s, struct facts *facts)
{
    const struct file_store *file = (const void *)s;
    const struct filter *f = &file->filter;
    bool has_session = file->writer.session.filter != NULL;
    *facts = (struct facts){.layers = filter_layers(f),
                            .bytes = f->foreign > 0 ? f->foreign : f->header.file_len,
                            .counters =
                                has_session ? file->writer.session.counters : f->header.counters};
}

/* Keys of that many bytes, or that many keys, touch most pages, so the file is read ahead. */
enum { MUCH = 64 << 10, MANY = 1 << 10 };

static bool enter(struct store *s, size_t len, struct err *err)
{
    struct file_store *file = file_of(s);
    struct filter *f = &file->filter;
    if (f->in_memory)
        return true;
    pthread_rwlock_rdlock(&file->lock);
    /* A mapping of an overwritten file may be longer than the file: it must not be read. */
    bool ok = filter_check_intact(f, err);
    if (ok ? filter_changed(f) || filter_is_late(f) : filter_is_doubtful(f)) {
        pthread_rwlock_unlock(&file->lock);
        pthread_rwlock_wrlock(&file->lock);
        ok = filter_refresh(f, err); /* unless another thread has done it meanwhile */
        pthread_rwlock_unlock(&file->lock);
        pthread_rwlock_rdlock(&file->lock);
    }
    if (len >= MUCH)
        filter_expect(f, true);
    return ok;
}

static bool leave(struct store *s, bool *again, struct err *err)
{
    struct file_store *file = file_of(s);
    if (file->filter.in_memory)
        return true;
    bool intact = filter_check_intact(&file->filter, err);
    *again |= !intact && filter_is_doubtful(&file->filter);
    pthread_rwlock_unlock(&file->lock);
    return intact;
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
    const struct filter *f = &file_of(s)->filter;
    layers_measure(filter_layers(f), threads, layer, all);
    return f->in_memory || filter_check_intact(f, err) || filter_is_doubtful(f);
}

static bool add_begin(struct store *s, const struct add_options *options, struct err *err)
{
    struct file_store *file = file_of(s);
    return writer_begin(&file->writer, &file->filter, options, &s->state, err);
}

static enum add_result add(struct store *s, struct hashes keys, uint64_t *known, size_t n,
                           size_t *done, struct err *err)
{
    struct file_store *file = file_of(s);
    if (n >= MANY && !file->filter.in_memory)
        filter_expect(&file->filter, true);
    return writer_add(&file->writer, keys, known, n, done, err);
}

static bool add_end(struct store *s, bool sync, struct err *err)
{
    struct file_store *file = file_of(s);
    return writer_end(&file->writer, sync, err);
}

static bool make_planned(struct store *s, char layout[LAYOUT_TEXT], struct err *err)
{
    struct file_store *file = file_of(s);
    struct filter *f = &file->filter;
    struct header h = f->header;
    layout[0] = '\0';
    bool made = assembly_empty(s->name, &h, err) ||
                (!file->has_capacity && design_usual(&h) && assembly_empty(s->name, &h, err));
    if (!made || !filter_open(f, s->name, FILTER_WRITE, err))
        return false;
    s->file = f;
    return true;
}

static void close_file(struct store *s)
{
    struct file_store *file = file_of(s);
    filter_close(&file->filter);
    pthread_rwlock_destroy(&file->lock);
    free(s);
}

static const struct store_ops ops = {
    .describe = describe,
    .enter = enter,
    .query = query,
    .leave = leave,
    .query_counts = query_counts,
    .census = take_census,
    .add_begin = add_begin,
    .add = add,
    .add_end = add_end,
    .make = make_planned,
    .close = close_file,
};

static struct file_store *file_new(const char *path, struct err *err)
{
    struct file_store *file = calloc(1, sizeof *file);
    if (file == NULL) {
        fail(err, "out of memory");
        return NULL;
    }
    pthread_rwlock_init(&file->lock, NULL);
    file->filter = (struct filter){.fd = -1, .in_memory = true};
    file->store = (struct store){.ops = &ops, .name = path, .header = &file->filter.header};
    return file;
}

/* borrow: for reading; NULL: only a file of seen is opened. */
static struct store *open_named(const char *path, enum store_mode mode, const struct borrow *borrow,
                                struct err *err)
{
    struct file_store *file = file_new(path, err);
    if (file == NULL)
        return NULL;
    if (!(mode == STORE_WRITE ? filter_open(&file->filter, path, FILTER_WRITE, err)
                              : borrow_open(&file->filter, path, borrow, err))) {
        close_file(&file->store);
        return NULL;
    }
    if (!file->filter.unnamed)
        file->store.file = &file->filter;
    if (mode == STORE_WRITE)
        newfile_clean(path);
    return &file->store;
}

struct store *file_open(const char *path, enum store_mode mode, const struct open_options *options,
                        struct err *err)
{
    struct store *s = open_named(path, mode, options != NULL ? &options->borrow : NULL, err);
    if (s == NULL && mode == STORE_WRITE && strcmp(path, "-") != 0 && access(path, F_OK) != 0 &&
        errno == ENOENT && !err->helps)
        fail_more(err, " (--create makes it)");
    return s;
}

struct store *store_in_memory(const struct header *h, struct err *err)
{
    struct file_store *file = file_new("", err);
    if (file == NULL)
        return NULL;
    if (!filter_open_memory(&file->filter, h, err)) {
        close_file(&file->store);
        return NULL;
    }
    file->store.name = file->filter.path;
    return &file->store;
}

struct store *file_prepare(const char *path, const struct store_plan *plan,
                           const struct open_options *ignored, bool *there, struct err *err)
{
    (void)ignored;
    struct stat st;
    bool exists = stat(path, &st) == 0, is_empty = exists && S_ISREG(st.st_mode) && st.st_size == 0;
    *there = true;
    if (exists && !is_empty)
        return open_named(path, STORE_WRITE, NULL, err);
    if (!exists && errno != ENOENT) {
        fail_errno(err, "cannot open '%s'", path);
        return NULL;
    }
    if (!filter_may_change(path, err))
        return NULL;
    *there = false;
    struct file_store *file = file_new(path, err);
    if (file == NULL)
        return NULL;
    file->has_capacity = plan->n > 0;
    if (plan->header(plan->ctx, &file->filter.header, err))
        return &file->store;
    close_file(&file->store);
    return NULL;
}

/* SPDX-License-Identifier: MIT */
#include "write/refit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "file/filter.h"
#include "write/builder.h"
#include "file/design.h"

struct refit {
    struct design design;
    struct assembly to;
    struct builder build;
    uint8_t id[sizeof((struct header *)0)->id];
    dev_t dev; /* of the file */
    ino_t ino;
    pthread_rwlock_t gate; /* for reading: to put; for writing: to give up */
    bool given_up;         /* build has been freed */
    uint64_t most;         /* maximum number of keys kept */
    _Atomic uint64_t n_put;
};

struct refit *refit_new(const struct header *h, const struct stat *file,
                        const struct key_rule *rule, const struct refit_limits *limits)
{
    struct err ignored;
    struct refit *r = calloc(1, sizeof *r);
    if (r == NULL)
        return NULL;
    r->design = design_anew(h);
    r->to.threads = limits->threads;
    r->build = (struct builder){.to = &r->to,
                                .design = &r->design,
                                .rule = rule,
                                .exact = true,
                                .scratch_dir = limits->scratch_dir};
    /* Most of the memory is not touched before keys come. The number of keys kept must not depend
     * on the number of threads, so each thread adds its own memory. A keyset uses a quarter of its
     * memory to scan partitions and gives a quarter of the rest to the workers' own use: of 16
     * bytes, 9 are for keys that any worker puts. A worker takes 1 MiB of input, 1 MiB for a block
     * in each partition, and less than 1 MiB for the rest; with the quarter, less than 4 MiB. */
    r->build.memory = 16 * limits->in_memory + ((uint64_t)limits->threads << 22);
    memcpy(r->id, h->id, sizeof r->id);
    r->dev = file->st_dev;
    r->ino = file->st_ino;
    r->most = limits->most;
    pthread_rwlock_init(&r->gate, NULL);
    bool ok = builder_begin(&r->build, &ignored);
    if (ok && r->to.threads == limits->threads)
        return r;
    refit_free(r);
    return NULL;
}

void refit_put(struct refit *r, unsigned worker, struct hashes keys, size_t n)
{
    struct err ignored;
    pthread_rwlock_rdlock(&r->gate);
    bool ok = r->given_up || (atomic_fetch_add(&r->n_put, n) + n <= r->most &&
                              builder_put(&r->build, worker, keys, n, &ignored));
    pthread_rwlock_unlock(&r->gate);
    if (ok)
        return;
    pthread_rwlock_wrlock(&r->gate);
    if (!r->given_up)
        builder_free(&r->build);
    r->given_up = true;
    pthread_rwlock_unlock(&r->gate);
}

/* Is it the file that this process made, with exactly the keys that were put? A file with two names
 * would become two files. Each record that any process gives to the file is counted, even one with
 * a known key. */
static bool is_ours(const struct refit *r, const struct filter *f)
{
    const struct header *h = &f->header;
    struct stat st;
    bool same = fstat(f->fd, &st) == 0 && st.st_dev == r->dev && st.st_ino == r->ino;
    return same && st.st_nlink == 1 && memcmp(h->id, r->id, sizeof r->id) == 0 &&
           h->state == STATE_CLEAN && !filter_changed(f) && h->counters.records == r->n_put;
}

void refit_apply(struct refit *r, const char *path, bool hasty)
{
    struct err ignored;
    struct assembly *a = &r->to;
    if (r->given_up)
        return;
    a->out = path;
    a->replace = true;
    bool ok = assembly_begin(a, &ignored) && assembly_inputs(a, &path, 1, "", &ignored) &&
              a->replaces_input && is_ours(r, &a->in[0]);
    a->file.hasty = hasty;
    const struct header *old = ok ? &a->in[0].header : NULL;
    if (ok && !design_fits(old, old->counters.keys_added) &&
        builder_write(&r->build, r->n_put, &ignored)) {
        a->header.compat |= old->compat & COMPAT_PROFILE;
        a->header.profile = old->profile;
        a->header.created = a->header.layers[0].since = old->created;
        assembly_commit(a, &ignored);
    }
    assembly_close(a);
}

void refit_free(struct refit *r)
{
    if (r == NULL)
        return;
    if (!r->given_up)
        builder_free(&r->build);
    pthread_rwlock_destroy(&r->gate);
    free(r);
}

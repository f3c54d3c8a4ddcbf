/* SPDX-License-Identifier: MIT */
#include "file/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "port/port.h"
#include "base/bytes.h"
#include "base/disk.h"
#include "base/num.h"
#include "base/output.h"
#include "base/ram.h"
#include "base/sig.h"
#include "base/visible.h"
#include "keys/content.h"
#include "keys/xxh3.h"
#include "kind/foreign.h"
#include "file/chain.h"
#include "file/lock.h"
#include "file/pages.h"
#include "file/slot.h"

/* Called after the header was read. The file may have grown in between. */
static bool check_length(const struct filter *f, const struct header *h, struct err *err)
{
    struct stat st;
    if (fstat(f->fd, &st) != 0)
        return fail_errno(err, "cannot look at '%s'", f->path);
    uint64_t size = (uint64_t)st.st_size, expected = h->file_len;
    if (size == expected || (size > expected && format_grows(h)))
        return true;
    return fail(err, "'%s' is %s: %" PRIu64 " bytes, its header says %" PRIu64, f->path,
                size < expected ? "truncated" : "damaged", size, expected);
}

bool filter_may_change(const char *path, struct err *err)
{
    return PORT_COHERENT ||
           fail(err,
                "'%s' cannot be changed on this system, whose mappings of files do not show "
                "what is written to them; make a new filter ('seen create', 'seen merge')",
                path);
}

static bool check_writable(const struct filter *f, struct err *err)
{
    const struct header *h = &f->header;
    if (!filter_may_change(f->path, err))
        return false;
    if (kind_counts(h->layers[0].kind))
        return fail(err,
                    "'%s' is a counted set, which takes keys in whole batches, from 'seen add' "
                    "alone; it can be asked at any time ('seen query', 'seen dedup --also')",
                    f->path);
    if (format_is_immutable(h))
        return fail(err,
                    "'%s' is a compact filter, to which no keys can be added: make it again from "
                    "all keys, or add to another filter and merge the two",
                    f->path);
    if (h->ro_compat & ~(uint32_t)RO_COMPAT_KNOWN)
        return fail(err, "'%s' was written by a newer version of seen: it can be read only",
                    f->path);
    /* Only forged numbers get here: at a million epochs a second it takes 146 000 years, at a
     * rotation a second 68. The other half is left for use while the file is open. */
    uint32_t generation = 0;
    for (unsigned i = 0; i < h->n_layers; i++)
        generation = h->layers[i].generation > generation ? h->layers[i].generation : generation;
    return (h->epoch <= INT64_MAX / 2 && generation <= UINT32_MAX / 2) ||
           fail(err, "'%s' has used up its epochs: it can be read only", f->path);
}

/* FUSE may give each name of a file pages and locks of its own: writers by two names would undo
 * each other's bits. */
static bool look_at_system(struct filter *f, const struct stat *st, struct err *err)
{
    enum port_system system = port_system(f->fd);
    f->may_be_copied = !f->writable && system == PORT_OVERLAY;
    return !f->writable || st->st_nlink <= 1 || system != PORT_FUSE ||
           fail(err,
                "'%s' has several names (hard links) on a FUSE file system, where writers by "
                "different names may lose keys of each other: it can be read only",
                f->path);
}

static const char *others_add(const struct filter *f)
{
    return f->writable ? "its own program adds to it, or " : "";
}

/* Are all files of a layout there, with a byte at least? False if it has one file, which has the
 * name itself. */
static bool has_files(const char *path, const struct layout *layout)
{
    char name[4096]; /* longer paths cannot be opened */
    struct stat st;
    bool all = layout->suffix[0] != NULL;
    for (unsigned i = 0; all && i < LAYOUT_FILES && layout->suffix[i] != NULL; i++) {
        int len = snprintf(name, sizeof name, "%s%s", path, layout->suffix[i]);
        all =
            len < (int)sizeof name && stat(name, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
    }
    return all;
}

const struct kind *filter_in_files(const char *path)
{
    const struct kind *kind;
    for (unsigned i = 0; (kind = kind_number(i)) != NULL; i++)
        if (kind_is_foreign(kind) && has_files(path, kind->layout))
            return kind;
    return NULL;
}

static bool cannot_open(const struct filter *f, struct err *err)
{
    if (disk_is_address(f->path) && disk_lacks(f->path))
        return fail(err, "'%s' is an address: 'seen import' makes a file of the filter there",
                    f->path);
    if (strcmp(f->path, "-") == 0 && disk_lacks(f->path))
        return fail(err, "a filter is a file, and cannot come from standard input");
    int why = errno;
    const struct kind *kind = disk_lacks(f->path) ? filter_in_files(f->path) : NULL;
    errno = why;
    if (kind == NULL)
        return fail_errno(err, "cannot open '%s'", f->path);
    fail(err, "there is no '%s', but '%s%s'", f->path, f->path, kind->layout->suffix[0]);
    fail_more(err, ": %sseen import --layout %s %s -o FILTER", others_add(f), kind->name,
              SHELL_FILE(f->path));
    err->helps = true;
    return false;
}

static bool open_file(struct filter *f, struct err *err)
{
    struct stat st;
    /* O_NONBLOCK: refuse a FIFO instead of waiting for its writer. */
    f->fd = open(f->path, (f->writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (f->fd < 0)
        return cannot_open(f, err);
    if (fstat(f->fd, &st) != 0)
        return fail_errno(err, "cannot look at '%s'", f->path);
    if (!S_ISREG(st.st_mode))
        return fail(err, "'%s' is not a regular file", f->path);
    if (st.st_size == 0)
        return fail(err, "'%s' is not a seen filter: it is empty", f->path);
    return look_at_system(f, &st, err) && output_spares(f->fd, f->path, err);
}

/* MAP_FAILED: errno says why. */
static void *map_bytes(const struct filter *f, uint64_t len)
{
    int access = f->writable ? PROT_READ | PROT_WRITE : PROT_READ;
    errno = EFBIG;
    if (len > SIZE_MAX)
        return MAP_FAILED;
    void *map = mmap(NULL, (size_t)len, access, MAP_SHARED, f->fd, 0);
    /* FUSE with direct I/O permits no shared mapping, so there are no writers. */
    if (map == MAP_FAILED && errno == ENODEV && !f->writable)
        map = mmap(NULL, (size_t)len, access, MAP_PRIVATE, f->fd, 0);
    return map;
}

static void unmap_file(struct filter *f)
{
    if (f->map == NULL)
        return;
    sig_unguard(f->map);
    munmap(f->map, (size_t)f->map_len);
    f->map = NULL;
}

/* Maps the first `len` bytes of the file, in place of the old mapping. On failure the old mapping
 * stays. */
static bool map_file(struct filter *f, uint64_t len, struct err *err)
{
    void *map = map_bytes(f, len);
    if (map == MAP_FAILED && errno == ENODEV)
        return fail(err, "cannot write to '%s': its file system does not permit shared mappings",
                    f->path);
    if (map == MAP_FAILED)
        return fail_errno(err, "cannot map '%s'", f->path);
    unmap_file(f);
    f->map = map;
    f->map_len = len;
    sig_guard(map, len, f->path, f->writable ? f->fd : -1);
    /* A layer whose pages were read, around those of the header, gets no large ones (port_fill). */
    filter_expect(f, false);
    return true;
}

/* Gets memory for one bit per page, for layers that the filter does not have yet. It may have some
 * already, for a layer of another size: that header was not written then. The kernel provides its
 * pages on first use, so this costs nothing in advance. */
static bool prepare_verifying(struct filter *f, const struct header *h, struct err *err)
{
    for (unsigned i = 0; i < h->n_layers; i++) {
        uint64_t pages = layer_pages(&h->layers[i]);
        if (f->verified[i] != NULL && i < f->header.n_layers)
            continue;
        free(f->verified[i]);
        f->verified[i] = calloc((size_t)(pages / 64 + 1), sizeof *f->verified[i]);
        if (f->verified[i] == NULL)
            return fail_errno(err, "cannot open '%s'", f->path);
        f->unverified[i] = pages;
    }
    return true;
}

/* Gets zeroed memory for the layers that have none. */
static bool allocate_layers(struct filter *f, const struct header *h, struct err *err)
{
    char need[NUM_TEXT];
    num_show_bytes(need, h->file_len);
    if (h->file_len > ram_limit())
        return fail(err, "cannot make %s: %s are needed", f->path, need);
    for (unsigned i = 0; i < h->n_layers; i++) {
        size_t len = (size_t)h->layers[i].data_len;
        if (f->data[i] != NULL)
            continue;
        void *data = port_zeroes(len, PROT_READ | PROT_WRITE, false);
        if (data == NULL)
            return fail_errno(err, "cannot make %s of %s", f->path, need);
        if (!layout_is_sparse(&h->layers[i]))
            port_huge(data, len);
        f->data[i] = data;
    }
    return true;
}

bool filter_prepare(struct filter *f, const struct header *h, struct err *err)
{
    if (f->in_memory)
        return allocate_layers(f, h, err);
    if (h->file_len != f->map_len && !map_file(f, h->file_len, err))
        return false;
    for (unsigned i = 0; i < h->n_layers; i++)
        f->data[i] = f->map + h->layers[i].data_off;
    return prepare_verifying(f, h, err);
}

static void take_state(struct filter *f, const struct slot_state *now)
{
    f->header = now->header;
    f->header.now = chain_time(&f->header, format_now());
    f->slot_damaged = now->slot_damaged;
    f->status = now->status;
    f->settled = now->settled;
}

/* Reads and maps an open file. */
static bool load(struct filter *f, struct err *err)
{
    struct slot_state now = {0};
    if (!slot_read_state(f->fd, f->path, &now, err))
        return false;
    take_state(f, &now);
    return check_length(f, &f->header, err) && (!f->writable || check_writable(f, err)) &&
           filter_prepare(f, &f->header, err);
}

/* Adds what a file seems to be, from its first n bytes and its layout. */
static void name_content(const struct filter *f, const struct layout_foreign *in, size_t n,
                         struct err *err)
{
    const struct kind *kind;
    for (unsigned i = 0; (kind = kind_number(i)) != NULL; i++)
        if (kind_is_foreign(kind) && kind->layout->recognize != NULL &&
            kind->layout->recognize(in)) {
            fail_more(err, ": it looks like one of %s; %sseen import --layout %s %s -o FILTER",
                      kind->name, others_add(f), kind->name, SHELL_FILE(f->path));
            err->helps = true;
            return;
        }
    const struct content *c = content_find(in->data[0], n);
    bool helps = c != NULL && c->is != CONTENT_OTHER;
    err->helps = helps;
    const char *unpack = c != NULL && !helps ? strstr(c->reader, " -dc FILE |") : NULL;
    if (c != NULL)
        fail_more(err, ": it is %s%s%s", c->what, helps ? "; " : "", helps ? c->reader : "");
    if (unpack != NULL)
        fail_more(err, "; %.*s -dc %s >NEW unpacks it", (int)(unpack - c->reader), c->reader,
                  SHELL_FILE(f->path));
}

/* Adds to the message about a file that is not a filter what it seems to be. A layout is recognised
 * by the whole file, which is mapped. */
static void advise(const struct filter *f, struct err *err)
{
    struct stat st;
    struct mapped map;
    if (fstat(f->fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < 16 ||
        !mapped_open(&map, f->fd, (uint64_t)st.st_size, f->path))
        return;
    const struct layout_foreign in = {
        .name = {f->path}, .data = {(const uint8_t *)map.data}, .len = {map.len}};
    size_t n = map.len < CONTENT_HEAD ? map.len : CONTENT_HEAD;
    if (!format_is_filter(in.data[0], n))
        name_content(f, &in, n, err);
    mapped_close(&map);
}

bool filter_open(struct filter *f, const char *path, enum filter_mode mode, struct err *err)
{
    memset(f, 0, sizeof *f);
    f->path = path;
    f->writable = mode == FILTER_WRITE;
    f->fd = -1;
    if (open_file(f, err) && load(f, err))
        return true;
    if (f->fd >= 0)
        advise(f, err);
    filter_close(f);
    return false;
}

bool filter_open_unnamed(struct filter *f, int fd, const char *path, struct err *err)
{
    *f = (struct filter){.path = path, .fd = fd, .unnamed = true};
    if (load(f, err))
        return true;
    filter_close(f);
    return false;
}

bool filter_open_memory(struct filter *f, const struct header *h, struct err *err)
{
    *f = (struct filter){
        .path = "a filter in memory", .fd = -1, .in_memory = true, .writable = true, .header = *h};
    if (filter_prepare(f, h, err))
        return true;
    filter_close(f);
    return false;
}

void filter_close(struct filter *f)
{
    for (unsigned i = 0; i < FORMAT_MAX_LAYERS; i++) {
        free(f->verified[i]);
        if (f->in_memory && f->data[i] != NULL)
            munmap(f->data[i], (size_t)f->header.layers[i].data_len);
        f->verified[i] = NULL;
        f->data[i] = NULL;
    }
    unmap_file(f);
    if (f->fd >= 0)
        port_close(f->fd);
    f->fd = -1;
}

uint64_t filter_epoch(const struct filter *f)
{
    uint64_t a = format_epoch(f->map + FORMAT_SLOT_A);
    uint64_t b = format_is_immutable(&f->header) ? 0 : format_epoch(f->map + FORMAT_SLOT_B);
    return a > b ? a : b;
}

bool filter_changed(const struct filter *f)
{
    return filter_epoch(f) > f->header.epoch; /* they only go up */
}

bool filter_is_late(const struct filter *f)
{
    return f->header.period != 0 && f->header.now != chain_time(&f->header, format_now());
}

static bool overwritten(const struct filter *f, struct err *err)
{
    return fail(err, "'%s' was overwritten while it was in use", f->path);
}

/* Can a writer have written to the file since its header was read? A writer holds its lock before
 * it writes, and leaves a new epoch. */
static bool may_be_written(const struct filter *f)
{
    return f->writable || !f->settled || f->header.state != STATE_CLEAN || lock_alive(f->fd) ||
           filter_changed(f);
}

/* Has an overlay copied the file, because a writer came, so that the mapping is of the old copy?
 * The inode number stays the same. */
static bool is_copied(const struct filter *f)
{
    static const uint64_t at[] = {FORMAT_SLOT_A, FORMAT_SLOT_B};
    uint8_t slot[64]; /* its beginning, with the epoch */
    size_t got;
    uint64_t mapped = filter_epoch(f);
    if (!f->may_be_copied || format_is_immutable(&f->header))
        return false;
    for (int i = 0; i < 2; i++)
        if (disk_read(f->fd, slot, sizeof slot, at[i], &got) && got == sizeof slot &&
            format_epoch(slot) > mapped)
            return true;
    return false;
}

/* Has the file's status changed by a link, a new name, mode or owner, as when another file takes
 * its name? That changes no contents. */
static bool is_relabelled(const struct filter *f, const struct stat *now)
{
    const struct stat *was = &f->status;
    struct stat named;
    return now->st_nlink != was->st_nlink || now->st_mode != was->st_mode ||
           now->st_uid != was->st_uid || now->st_gid != was->st_gid || stat(f->path, &named) != 0 ||
           !disk_same_file(&named, now);
}

/* Was the file written to, by its times? `cp -p` and `rsync -t` set that of modification, which two
 * files, or two states of this one, may have in common. */
static bool is_modified(const struct filter *f, const struct stat *now)
{
    return !disk_same_time(&now->port_modified, &f->status.port_modified) ||
           (!disk_same_time(&now->port_changed, &f->status.port_changed) && !is_relabelled(f, now));
}

/* Does the file go on as it was, but for its times? Files made with --reproducible may have the
 * same header and other contents. */
static bool goes_on(const struct filter *f, struct stat *st)
{
    /* A copy overwrites the header before the data. */
    atomic_thread_fence(memory_order_acquire);
    return fstat(f->fd, st) == 0 && (uint64_t)st->st_size >= f->header.file_len &&
           format_continues(f->map, &f->header);
}

bool filter_is_doubtful(const struct filter *f)
{
    struct stat st;
    return goes_on(f, &st) && f->header.created != 0 && is_modified(f, &st) && !may_be_written(f) &&
           !is_copied(f);
}

bool filter_check_intact(const struct filter *f, struct err *err)
{
    struct stat st;
    bool same = goes_on(f, &st);
    if (same && is_copied(f))
        return fail(err,
                    "'%s' was copied by its overlay file system when a writer opened it: run this "
                    "again",
                    f->path);
    if (!same || (is_modified(f, &st) && !may_be_written(f) && f->header.created == 0))
        return overwritten(f, err);
    return !is_modified(f, &st) || may_be_written(f) ||
           fail(err, "'%s' was changed while it was read: run this again", f->path);
}

void filter_successor_id(const struct filter *f, uint8_t id[static sizeof f->header.id])
{
    size_t len = f->map_len < FORMAT_FIRST_LAYER ? (size_t)f->map_len : FORMAT_FIRST_LAYER;
    for (unsigned half = 0; half < 2; half++) {
        uint64_t sum = xxh3_bytes(f->map, len, half);
        put_le64(id + 8 * half, sum);
    }
}

void filter_expect(const struct filter *f, bool many)
{
    (void)posix_madvise(f->map, (size_t)f->map_len, many ? POSIX_MADV_NORMAL : POSIX_MADV_RANDOM);
}

static bool verify_layers(struct filter *f, unsigned except, bool take_keys, struct hashes keys,
                          size_t n, struct err *err)
{
    const struct layer *layer = f->header.layers;
    for (unsigned i = 0; i < f->header.n_layers; i++)
        if (i != except && !format_is_over(&f->header, i) &&
            kind_takes_keys(layer[i].kind) == take_keys && !pages_verify(f, i, keys, n, err))
            return false;
    return true;
}

/* Pages that change in place are verified after the query: if they are sound then, what it read was
 * sound. In other layers, a query follows offsets that it reads, so their pages are verified first.
 */
bool filter_query_others(struct filter *f, unsigned except, struct hashes keys, size_t n,
                         uint64_t *present, struct err *err)
{
    if (!verify_layers(f, except, false, keys, n, err))
        return false;
    layers_query(filter_layers(f), except, keys, n, present);
    return verify_layers(f, except, true, keys, n, err);
}

bool filter_query(struct filter *f, struct hashes keys, size_t n, uint64_t *present,
                  struct err *err)
{
    return filter_query_others(f, LAYERS_ALL, keys, n, present, err);
}

bool filter_query_counts(struct filter *f, struct hashes keys, size_t n, uint64_t *count,
                         struct err *err)
{
    const struct layer *l = &f->header.layers[0];
    if (!pages_verify(f, 0, keys, n, err))
        return false;
    l->kind->counts->query(l, f->data[0], keys, n, count);
    return true;
}

enum filter_health filter_health(const struct filter *f)
{
    struct header before = f->header, after;
    for (;;) {
        struct err ignored;
        bool slot_damaged;
        if (before.state == STATE_CLEAN)
            return FILTER_CLEAN;
        if (lock_alive(f->fd))
            return FILTER_WRITING;
        /* A writer takes its lock before it marks the file and releases it after it has made the
         * file clean. So if no lock is held and the mark is unchanged, its writer is dead. */
        if (!slot_read(f->fd, &after, &slot_damaged, &ignored) || after.epoch == before.epoch)
            return FILTER_DIRTY;
        before = after;
    }
}

/* Does the file still have the same layers in the same places? The bitmaps of verified pages were
 * allocated for those sizes. */
static bool is_continued(const struct header *before, const struct header *now)
{
    if (memcmp(before->id, now->id, sizeof now->id) != 0 || now->n_layers < before->n_layers ||
        now->epoch < before->epoch)
        return false;
    for (unsigned i = 0; i < before->n_layers; i++) {
        const struct layer *a = &before->layers[i], *b = &now->layers[i];
        if (a->kind != b->kind || a->data_off != b->data_off || a->data_len != b->data_len ||
            a->sums_off != b->sums_off || a->touched_off != b->touched_off ||
            memcmp(a->geometry, b->geometry, sizeof a->geometry) != 0)
            return false;
    }
    return true;
}

bool filter_reload(struct filter *f, struct err *err)
{
    struct slot_state now = {0};
    if (!slot_read_state(f->fd, f->path, &now, err))
        return false;
    if (!is_continued(&f->header, &now.header))
        return overwritten(f, err);
    bool has_grown = now.header.file_len != f->header.file_len;
    if (has_grown && !check_length(f, &now.header, err))
        return false;
    if (!filter_prepare(f, &now.header, err))
        return false;
    /* While the last writer was leaving, the times of the file did not show damage to a reader. */
    bool doubtful = !f->writable && (now.header.epoch != f->header.epoch || !f->settled ||
                                     is_modified(f, &now.status));
    take_state(f, &now);
    if (doubtful)
        pages_forget(f);
    return true;
}

bool filter_refresh(struct filter *f, struct err *err)
{
    if (!format_continues(f->map, &f->header))
        return overwritten(f, err);
    f->header.now = chain_time(&f->header, format_now());
    return (f->settled && !filter_changed(f) && !filter_is_doubtful(f)) || filter_reload(f, err);
}

bool filter_read_header(const char *path, struct header *h, struct err *err)
{
    struct filter f;
    if (!filter_open(&f, path, FILTER_READ, err))
        return false;
    *h = f.header;
    filter_close(&f);
    return true;
}

bool filter_fewest_keys(const char *path, unsigned threads, double *n, struct err *err)
{
    struct filter f;
    struct census census;
    if (!filter_open(&f, path, FILTER_READ, err))
        return false;
    *n = (double)f.header.counters.keys_added;
    if (format_shares_keys(&f.header)) {
        filter_expect(&f, true);
        layers_census_all(filter_layers(&f), threads, &census);
        *n = census.n_low;
    }
    filter_close(&f);
    return true;
}

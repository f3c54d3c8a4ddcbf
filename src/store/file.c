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
#include "store/advance.h"
#include "store/chain.h"
#include "store/filter.h"
#include "store/filter_build.h"
#include "store/header.h"
#include "store/session.h"
#include "store/store.h"
#include "store/writer.h"

/* ---- The keys that a run has put into a file, in case another file takes its place: which of them
 * does the new file lack? The hashes of the first of them are kept, up to KEPT_BYTES. Repeats are
 * removed when that is full of them.
 *
 *     struct kept k = {.lanes = fn->lanes};
 *     kept_before(&k, known, n);                    // the keys whose bit is clear are to be added
 *     ... add them; the first `done` are in the file now ...
 *     kept_after(&k, keys, done);
 *     kept_count(&k, &filter, &n_lacking, &err);    // of k.n distinct keys, and k.n_more others
 *     kept_free(&k);
 */

enum { KEPT_BYTES = 16 << 20 };

struct kept {
    unsigned lanes;
    uint64_t n;      /* keys kept, repeats included until kept_count */
    uint64_t n_more; /* keys not kept, repeats included */
    /* Private. */
    uint64_t *hash; /* key i is hash[i * lanes] and what follows */
    size_t room;
    uint64_t *known; /* of kept_before */
    size_t known_room;
    bool full; /* no more room can be made */
};

/* Most runs have few keys, and shall touch little memory. */
enum { FIRST_BYTES = 64 << 10, HUGE_PAGE = 2 << 20 };

/* One hash in 256 is in the sample, and twice as many fit as are expected. */
enum { SAMPLE_SHIFT = 56, SAMPLE = KEPT_BYTES / sizeof(uint64_t) / 256 * 2 };

/* Removes repeats. False: out of memory. */
static bool remove_repeats(struct kept *k)
{
    uint64_t *tmp = malloc(k->n * k->lanes * sizeof *tmp);
    if (tmp == NULL)
        return false;
    if (k->lanes == 1)
        k->n = distinct(k->hash, tmp, k->n, 64);
    free(tmp);
    return true;
}

/* Is a good part of the keys repeats, by a sample? To look at all of them takes as long as to add
 * them. Hashes are uniform; chosen ones can make the answer wrong, and then fewer keys are kept. */
static bool seems_repeated(const struct kept *k)
{
    uint64_t *sample = malloc(2 * SAMPLE * sizeof *sample);
    size_t n = 0;
    if (sample == NULL)
        return false;
    for (size_t i = 0; i < k->n && n < SAMPLE; i++)
        if (k->hash[i * k->lanes] >> SAMPLE_SHIFT == 0)
            sample[n++] = k->hash[i * k->lanes];
    bool repeated = n > 0 && distinct(sample, sample + SAMPLE, n, 64) <= n / 4 * 3;
    free(sample);
    return repeated;
}

/* Makes room for a word of keys. Removing repeats must free half of the room, or it would be done
 * too often. */
static bool make_room(struct kept *k)
{
    const size_t key = k->lanes * sizeof *k->hash, most = KEPT_BYTES / key;
    bool first = k->hash == NULL;
    if (!first && k->room == most)
        return seems_repeated(k) && remove_repeats(k) && k->n <= most / 2;
    uint64_t *hash = first ? malloc(FIRST_BYTES) : aligned_alloc(HUGE_PAGE, KEPT_BYTES);
    if (hash == NULL)
        return false;
    if (!first) {
#ifdef MADV_HUGEPAGE
        madvise(hash, KEPT_BYTES, MADV_HUGEPAGE);
#endif
        memcpy(hash, k->hash, k->n * key);
        free(k->hash);
    }
    k->hash = hash;
    k->room = first ? FIRST_BYTES / key : most;
    return true;
}

/* Keeps n keys from keys[at] on, at most a word, but not those whose bit in `known` is set. */
static void keep(struct kept *k, struct hashes keys, size_t at, size_t n, uint64_t known)
{
    uint64_t *to = k->hash + k->n * k->lanes;
    if (k->lanes == 1 && known == 0 && k->room - k->n >= n) {
        memcpy(to, keys.lane0 + at, n * sizeof *to);
        k->n += n;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (known >> i & 1)
            continue;
        if (k->n == k->room) {
            k->n_more++;
            continue;
        }
        for (unsigned l = 0; l < k->lanes; l++)
            *to++ = hashes_lane(keys, l)[at + i];
        k->n++;
    }
}

/* Notes which of the next n keys are not to be added: those whose bit is set. */
static void kept_before(struct kept *k, const uint64_t *known, size_t n)
{
    size_t words = (n + 63) / 64;
    if (words > k->known_room) {
        free(k->known);
        k->known = malloc(words * sizeof *k->known);
        k->known_room = k->known != NULL ? words : 0;
    }
    if (k->known != NULL && n > 0)
        memcpy(k->known, known, words * sizeof *known);
}

/* Keeps the first `done` of these keys, except those. */
static void kept_after(struct kept *k, struct hashes keys, size_t done)
{
    for (size_t at = 0; at < done; at += 64) {
        size_t n = done - at < 64 ? done - at : 64;
        uint64_t known = k->known != NULL ? k->known[at / 64] & ~(uint64_t)0 >> (64 - n) : 0;
        if (!k->full && k->room - k->n < n)
            k->full = !make_room(k);
        keep(k, keys, at, n, known);
    }
}

/* How many of the kept keys does the filter lack? Fails if it is damaged. */
static bool kept_count(struct kept *k, struct filter *f, uint64_t *n_lacking, struct err *err)
{
    uint64_t lane[HASH_LANES * LAYER_BATCH], present[LAYER_BATCH / 64];
    *n_lacking = 0;
    if (k->n > 0 && !remove_repeats(k))
        return fail(err, "out of memory");
    for (size_t from = 0; from < k->n; from += LAYER_BATCH) {
        size_t n = k->n - from < LAYER_BATCH ? k->n - from : LAYER_BATCH;
        for (size_t i = 0; i < n; i++)
            for (unsigned l = 0; l < k->lanes; l++)
                lane[l * LAYER_BATCH + i] = k->hash[(from + i) * k->lanes + l];
        if (!filter_query(f, (struct hashes){lane, LAYER_BATCH, NULL}, n, present, err))
            return false;
        *n_lacking += n - bits_count(present, n);
    }
    return true;
}

static void kept_free(struct kept *k)
{
    free(k->hash);
    free(k->known);
}

/* ---- The store. */

struct file {
    struct store store;
    struct filter filter;
    struct session session;
    bool has_warned;
    struct backing backing;
    struct writer writer;
    struct kept kept;        /* keys of this run */
    bool had_name;           /* when the first of them came */
    bool was_replaced;       /* since then */
    uint64_t n_more_at_risk; /* kept.n_more at that time */
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
    if (*replaced) {
        file->was_replaced = true;
        file->n_more_at_risk = file->kept.n_more;
    }
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

/* Says once what a writer that ended without leaving may have left undone. */
static void warn_of_dead(struct file *file)
{
    static const char *const why[] = {
        [END_KILLED] = "a process was killed",
        [END_FAILED] = "a sync failed",
        [END_CRASHED] = "the machine crashed, or the file was copied,",
    };
    if (file->session.found == END_NONE || file->has_warned)
        return;
    file->has_warned = true;
    bool is_dirty = file->filter.header.state == STATE_DIRTY;
    snprintf(file->store.state.warning, sizeof file->store.state.warning,
             "'%.300s': %s while keys were added; the last of them may be missing%s",
             file->store.name,
             is_dirty ? "the machine crashed or a sync failed" : why[file->session.found],
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
    struct stat st;
    file->had_name = store_stat(s, &st) && st.st_nlink > 0;
    file->kept.lanes = file->filter.header.hash->lanes;
    writer_begin(&file->writer, &file->backing, options, &s->state);
    warn_of_dead(file);
    return true;
}

static enum add_result add(struct store *s, struct hashes keys, uint64_t *known, size_t n,
                           size_t *done, struct err *err)
{
    struct file *file = file_of(s);
    kept_before(&file->kept, known, n);
    enum add_result result = writer_add(&file->writer, keys, known, n, done, err);
    kept_after(&file->kept, keys, *done);
    return result;
}

static void conclude(struct store *s, bool again)
{
    writer_conclude(&file_of(s)->writer, again);
}

static bool sync_keys(struct store *s, struct err *err)
{
    return session_sync(&file_of(s)->session, err);
}

/* Does the file that took the place of another have all keys of this run? */
static bool has_kept(struct file *file, struct filter *f, uint64_t n_more, struct err *err)
{
    uint64_t lacking;
    if (!kept_count(&file->kept, f, &lacking, err))
        return false;
    if (n_more > 0 && lacking == 0)
        return fail(err,
                    "'%s' was replaced while keys were added: it has %" PRIu64
                    " keys of this run; whether it has %" PRIu64 " others is not known",
                    file->store.name, file->kept.n, n_more);
    if (n_more > 0)
        return fail(err,
                    "'%s' was replaced while keys were added: it lacks %" PRIu64 " of %" PRIu64
                    " keys of this run, and may lack some of %" PRIu64 " others",
                    file->store.name, lacking, file->kept.n, n_more);
    return lacking == 0 ||
           fail(err,
                "'%s' was replaced while keys were added: it lacks %" PRIu64 " key%s of this run",
                file->store.name, lacking, num_plural(lacking));
}

/* The same for a file that took the place after the last batch. */
static bool new_has_kept(struct file *file, struct err *err)
{
    struct filter now;
    struct err what;
    if (!filter_open(&now, file->store.name, FILTER_READ, err))
        return false;
    bool ok = header_same_keys(&file->filter.header, &now.header, &what)
                  ? has_kept(file, &now, file->kept.n_more, err)
                  : fail(err, "'%s' was replaced by a filter that differs in %s", file->store.name,
                         what.text);
    filter_close(&now);
    return ok;
}

/* Does the file under the name have all keys of this run? */
static bool check_named(struct file *file, struct err *err)
{
    struct stat st;
    if (file->kept.n == 0 && file->kept.n_more == 0)
        return true;
    /* In this order: the file may be replaced between the two looks. */
    bool unlinked = file->had_name && store_stat(&file->store, &st) && st.st_nlink == 0;
    if (store_replaced(&file->store))
        return new_has_kept(file, err);
    if (unlinked)
        return fail(err, "'%s' was removed while keys were added", file->store.name);
    return !file->was_replaced || (filter_refresh(&file->filter, err) &&
                                   has_kept(file, &file->filter, file->n_more_at_risk, err));
}

static bool add_end(struct store *s, bool sync, struct err *err)
{
    struct file *file = file_of(s);
    bool ok = session_end(&file->session, sync, err);
    warn_of_dead(file);
    return ok && check_named(file, err);
}

static struct filter *filter_of(struct store *s)
{
    return &file_of(s)->filter;
}

static void close_file(struct store *s)
{
    filter_close(&file_of(s)->filter);
    kept_free(&file_of(s)->kept);
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
    const struct design usual = {.kind = first->kind, .p = h->fpr_design, .grow = true};
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

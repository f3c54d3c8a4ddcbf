/*
 * Two bytes serve as locks. Every writer holds LOCK_SESSION shared for its whole life. The writer
 * that is changing the file, header and session page included, holds LOCK_BATCH. Writers join and
 * leave under the batch lock, so two last writers cannot each leave the cleaning to the other. An
 * exclusive lock of the session byte is only tried, never waited for.
 *
 * The header is changed by publish() alone, one slot at a time. On disk the order is: the mark
 * WRITING before the first changed bit; data, checksums and emptied tables before the mark CLEAN;
 * a header before the next one is written to the other slot. Changes in between (counters, touched
 * bitmap) are in the mapping only, shared by all processes. They survive the death of a process; a
 * crash of the machine makes them void.
 *
 * After a failed sync, the kernel regards the pages as written although they are not. It reports
 * the error once to each open descriptor, and a later sync succeeds without writing them. So the
 * process remembers the failure (s->broken) and notes it in the session page, so that nobody makes
 * the file clean. Data that must be on disk for certain is stored once more (write_again), so that
 * the kernel writes it.
 */
#include "store/session.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "base/disk.h"
#include "base/parallel.h"
#include "base/sig.h"
#include "kind/layout.h"
#include "store/chain.h"
#include "store/header.h"
#include "store/lock.h"

/* Offsets in the session page, which is zero in a clean file and means something only to live
 * writers. */
enum {
    PAGE_EPOCH = 0,    /* the header's when the session began: never 0 */
    PAGE_IN_BATCH = 8, /* a writer is between session_lock and session_unlock, or died there */
    PAGE_UNKNOWN = 12,
    PAGE_RECORDS = 16,
    PAGE_KEYS_ADDED = 24,
    PAGE_N_KEYS = 32,
    PAGE_DROPPED = 40,
    PAGE_SYNC_FAILED = 48, /* some writer's sync has failed in this session */
    PAGE_USED = 52,
};

/* Locks the session byte exclusively if nobody else holds it; *alone tells whether. */
static bool try_alone(const struct filter *f, bool *alone, struct err *err)
{
    *alone = lock_try(f->fd, F_WRLCK, LOCK_SESSION);
    return *alone || errno == EAGAIN || errno == EACCES ||
           fail_errno(err, "cannot lock '%s'", f->path);
}

/* Header and session page. */

static uint8_t *session_page(const struct filter *f)
{
    return f->map + FORMAT_SESSION;
}

static bool page_in_use(const struct filter *f)
{
    static const uint8_t zero[PAGE_USED];
    return memcmp(session_page(f), zero, sizeof zero) != 0;
}

/* May pages that the kernel regards as written be missing on disk? */
static bool is_doubtful(const struct filter *f)
{
    return f->header.state == STATE_DIRTY || session_page(f)[PAGE_SYNC_FAILED] != 0;
}

static uint64_t slot_of(uint64_t epoch)
{
    return epoch % 2 == 0 ? FORMAT_SLOT_A : FORMAT_SLOT_B;
}

/* Stores a byte of the mapping unchanged, so that the kernel writes its page. Atomic, because other
 * processes may change bits of it, and because a compiler must not omit the store. */
static void write_again(uint8_t *at)
{
    uint8_t now = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(at, &now, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static bool sync_file(struct session *s, struct err *err)
{
    if (disk_sync(s->filter->fd, s->filter->path, err))
        return true;
    s->broken = true;
    if (page_in_use(s->filter))
        session_page(s->filter)[PAGE_SYNC_FAILED] = 1;
    return false;
}

/* Syncs the whole file, including the header that was read. That header may not be on disk yet: its
 * writer may have been killed before the sync. If it was found only in the other slot, it is copied
 * to the slot of its epoch. */
static bool sync_header(struct session *s, struct err *err)
{
    const struct filter *f = s->filter;
    struct header in_slot;
    struct err ignored;
    uint64_t epoch = f->header.epoch;
    uint8_t *slot = f->map + slot_of(epoch), *other = f->map + slot_of(epoch + 1);
    if (!format_decode(slot, FORMAT_PAGE, &in_slot, &ignored) || in_slot.epoch != epoch)
        memcpy(slot, other, FORMAT_PAGE);
    write_again(slot);
    if (!sync_file(s, err))
        return false;
    s->epoch_on_disk = epoch;
    return true;
}

/* Writes `next` as the header of the next epoch. Ensures first that the current header is on disk,
 * because a power cut may tear the slot being written. */
static bool publish(struct session *s, struct header next, bool sync, struct err *err)
{
    uint8_t slot[FORMAT_MAX_HEADER];
    struct filter *f = s->filter;
    if (s->epoch_on_disk != f->header.epoch && !sync_header(s, err))
        return false;
    next.epoch = f->header.epoch + 1;
    next.changed = format_now();
    size_t len = format_encode(&next, slot);
    if (!disk_write(f->fd, slot, len, slot_of(next.epoch), f->path, err))
        return false;
    f->header = next;
    if (!sync)
        return true;
    if (!sync_file(s, err))
        return false;
    s->epoch_on_disk = next.epoch;
    return true;
}

static bool publish_state(struct session *s, enum file_state state, struct err *err)
{
    struct header next = s->filter->header;
    next.state = state;
    return publish(s, next, true, err);
}

bool session_change(struct session *s, const struct header *h, struct err *err)
{
    const struct filter *f = s->filter;
    struct header next = *h;
    next.state = f->header.state;
    next.counters = next.state == STATE_CLEAN ? s->counters : f->header.counters;
    bool in_one_slot = publish(s, next, true, err);
    return in_one_slot && publish(s, next, true, err);
}

/* Keeps the compiler from moving stores to the page across this point. A process that is killed has
 * then made its stores in program order up to some point. */
static void page_barrier(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

static void mark_in_batch(const struct filter *f, bool on)
{
    page_barrier();
    session_page(f)[PAGE_IN_BATCH] = on;
    page_barrier();
}

static void store_counters(const struct filter *f, const struct counters *c)
{
    uint8_t *p = session_page(f);
    put_le32(p + PAGE_UNKNOWN, c->unknown);
    put_le64(p + PAGE_RECORDS, c->records);
    put_le64(p + PAGE_KEYS_ADDED, c->keys_added);
    put_double(p + PAGE_N_KEYS, c->n_keys);
    put_double(p + PAGE_DROPPED, c->dropped);
}

static void load_counters(const struct filter *f, struct counters *c)
{
    const uint8_t *p = session_page(f);
    c->unknown = get_le32(p + PAGE_UNKNOWN) != 0;
    c->records = get_le64(p + PAGE_RECORDS);
    c->keys_added = get_le64(p + PAGE_KEYS_ADDED);
    c->n_keys = get_double(p + PAGE_N_KEYS);
    c->dropped = get_double(p + PAGE_DROPPED);
    if (session_page(f)[PAGE_IN_BATCH]) {
        const struct layers layers = filter_layers(f);
        c->unknown = true;
        chain_recount(&layers, parallel_cpus(), c);
    }
}

static void start_page(const struct filter *f, const struct counters *c)
{
    store_counters(f, c);
    put_le64(session_page(f) + PAGE_EPOCH, f->header.epoch);
    put_le32(session_page(f) + PAGE_SYNC_FAILED, 0);
    mark_in_batch(f, false);
}

/* Begins a session after one that died, or whose mark was lost with a header slot. The contents of
 * the session page are void. */
static bool restart_dirty(struct session *s, struct err *err)
{
    struct filter *f = s->filter;
    f->verifying = false;
    const struct layers layers = filter_layers(f);
    f->header.counters.unknown = true;
    chain_recount(&layers, parallel_cpus(), &f->header.counters);
    s->counters = f->header.counters;
    if (f->header.state != STATE_DIRTY && !publish_state(s, STATE_DIRTY, err))
        return false;
    start_page(f, &s->counters);
    return true;
}

/* Called with the batch lock held: prepares the file for changes of bits. */
static bool enter(struct session *s, struct err *err)
{
    struct filter *f = s->filter;
    bool others;
    /* Held from before the mark is set until it is removed: filter_health relies on that. */
    if (!lock_others(f->fd, &others) || !lock_try(f->fd, F_RDLCK, LOCK_SESSION))
        return fail_errno(err, "cannot lock '%s'", f->path);
    if (!filter_reload(f, err))
        return false;
    if (f->header.state == STATE_CLEAN && !page_in_use(f)) {
        s->counters = f->header.counters;
        if (!publish_state(s, STATE_WRITING, err))
            return false;
        start_page(f, &s->counters);
    } else if (!others || f->header.state == STATE_CLEAN) {
        if (!restart_dirty(s, err))
            return false;
    } else {
        load_counters(f, &s->counters);
    }
    s->entered = true;
    return true;
}

/* Is the open file still the one under its name? */
static bool is_current(const struct filter *f, bool *current, struct err *err)
{
    struct stat held, named;
    if (fstat(f->fd, &held) != 0)
        return fail_errno(err, "cannot look at '%s'", f->path);
    if (stat(f->path, &named) != 0)
        return fail_errno(err, "cannot continue with '%s'", f->path);
    *current = held.st_dev == named.st_dev && held.st_ino == named.st_ino;
    return true;
}

/* Leaving. */

static bool renew_sum(const struct filter *f, unsigned layer, uint64_t page)
{
    const struct layer *l = &f->header.layers[layer];
    size_t len;
    const uint8_t *data = filter_page(f, layer, page, &len);
    uint32_t sum = layer_page_sum(format_layer_seed(&f->header, l), page, data, len);
    uint8_t *stored = f->map + l->sums_off + FORMAT_SUM * page;
    if (get_le32(stored) == sum)
        return false;
    put_le32(stored, sum);
    return true;
}

static uint64_t touched_bytes(const struct layer *layer)
{
    return (layer_pages(layer) + 7) / 8;
}

/* Renews the checksums of the touched pages, and only then clears the bitmap: filter_check_pages
 * reads it when a checksum does not match. */
static void renew_touched(const struct filter *f, unsigned layer)
{
    const struct layer *l = &f->header.layers[layer];
    uint8_t *touched = f->map + l->touched_off;
    uint64_t bytes = l->touched_off == 0 ? 0 : touched_bytes(l);
    for (uint64_t i = 0; i < bytes; i++)
        for (unsigned bit = 0; touched[i] >> bit != 0; bit++)
            if (touched[i] >> bit & 1 && i * 8 + bit < layer_pages(l))
                renew_sum(f, layer, i * 8 + bit);
    page_barrier();
    /* Only nonzero bytes are cleared, so that untouched pages of the bitmap stay clean. */
    for (uint64_t i = 0; i < bytes; i++)
        if (touched[i] != 0)
            touched[i] = 0;
}

/* The data is synced even if the mark is not: a mark CLEAN on disk must be true. */
static bool make_clean(struct session *s, bool sync, struct err *err)
{
    struct filter *f = s->filter;
    struct header next = f->header;
    for (unsigned i = 0; i < f->header.n_layers; i++)
        renew_touched(f, i);
    next.state = STATE_CLEAN;
    next.counters = s->counters;
    if (!f->header.counters.unknown && s->counters.unknown) {
        struct census census;
        filter_census_all(f, parallel_cpus(), &census);
        next.counters.n_keys = census.n;
    }
    memset(session_page(f), 0, PAGE_USED);
    return sync_header(s, err) && publish(s, next, sync, err);
}

static bool relock(struct session *s, struct err *err)
{
    if (!lock_wait(s->filter->fd, F_WRLCK, LOCK_BATCH, false))
        return fail_errno(err, "cannot lock '%s'", s->filter->path);
    s->locked = true;
    return true;
}

static void unlock(struct session *s)
{
    lock_try(s->filter->fd, F_UNLCK, LOCK_BATCH);
    s->locked = false;
}

/* Must this writer make the file clean? If so, it now holds the session byte exclusively. A dirty
 * file stays dirty: some of its checksums may cover damage. After a failed sync the file keeps the
 * mark WRITING, although no writer is left. */
static bool is_last(struct session *s, bool *last, struct err *err)
{
    struct filter *f = s->filter;
    *last = false;
    if (!filter_reload(f, err))
        return false;
    load_counters(f, &s->counters);
    return f->header.state != STATE_WRITING || is_doubtful(f) || try_alone(f, last, err);
}

/* Releases the batch lock during a sync. The session byte stays held, shared, until the sync ends:
 * a file whose sync has failed must not be made clean. */
static bool sync_aside(struct session *s, struct err *err)
{
    struct err why;
    lock_try(s->filter->fd, F_RDLCK, LOCK_SESSION);
    unlock(s);
    bool synced = session_sync(s, err);
    if (relock(s, &why))
        return synced;
    if (synced)
        *err = why;
    return false;
}

/* More touched pages than this (4 MiB) are synced with the batch lock released. The rest is synced
 * under the lock, so that nobody waits long. */
enum { SYNC_ASIDE = 1024 };

/* Called with the batch lock held; releases it. */
static bool leave(struct session *s, bool sync, struct err *err)
{
    bool last = false;
    bool ok = !s->broken ? is_last(s, &last, err)
                         : fail(err, "'%s' could not be synced", s->filter->path);
    if (ok && (last ? s->n_touched > SYNC_ASIDE : sync))
        ok = sync_aside(s, err) && is_last(s, &last, err);
    if (ok && last)
        ok = make_clean(s, sync, err);
    lock_try(s->filter->fd, F_UNLCK, LOCK_SESSION);
    s->entered = false;
    unlock(s);
    return ok;
}

/* Continues with the file that has the name now. Leaves the old file properly first: it may still
 * have another name. */
static bool move_on(struct session *s, struct err *err)
{
    struct filter now;
    struct err what;
    if (!filter_open(&now, s->filter->path, FILTER_WRITE, err))
        return false;
    if (!header_same_keys(&s->filter->header, &now.header, &what)) {
        filter_close(&now);
        return fail(err, "'%s' was replaced by a filter that differs in %s", s->filter->path,
                    what.text);
    }
    if (s->entered)
        leave(s, true, &what);
    filter_close(s->filter);
    *s->filter = now;
    *s = (struct session){.filter = s->filter, .replaced = true};
    return true;
}

static bool lock_current(struct session *s, struct err *err)
{
    for (;;) {
        bool current = false;
        if (!lock_wait(s->filter->fd, F_WRLCK, LOCK_BATCH, true))
            return sig_caught() ? fail(err, "interrupted while waiting for '%s'", s->filter->path)
                                : fail_errno(err, "cannot lock '%s'", s->filter->path);
        s->locked = true;
        if (!is_current(s->filter, &current, err))
            return false;
        if (current)
            return true;
        if (!move_on(s, err))
            return false;
    }
}

/* Releases the locks of a failed step. */
static bool give_up(struct session *s)
{
    if (!s->entered)
        lock_try(s->filter->fd, F_UNLCK, LOCK_SESSION);
    if (s->locked)
        unlock(s);
    return false;
}

bool session_begin(struct session *s, struct filter *f, struct err *err)
{
    *s = (struct session){.filter = f};
    if (!lock_current(s, err) || !enter(s, err))
        return give_up(s);
    unlock(s);
    return true;
}

bool session_lock(struct session *s, struct err *err)
{
    struct filter *f = s->filter;
    s->replaced = false;
    if (!lock_current(s, err))
        return give_up(s);
    if (!s->entered) {
        if (!enter(s, err))
            return give_up(s);
    } else if (!filter_refresh(f, err)) {
        return give_up(s);
    } else if (f->header.state == STATE_CLEAN) {
        if (!restart_dirty(s, err))
            return give_up(s);
    } else {
        load_counters(f, &s->counters);
    }
    mark_in_batch(f, true);
    return true;
}

bool session_hold(struct session *s, struct filter *f, struct err *err)
{
    *s = (struct session){.filter = f};
    if (!lock_current(s, err) || !filter_reload(s->filter, err))
        return give_up(s);
    s->filter->verifying = false;
    s->counters = s->filter->header.counters;
    if (page_in_use(s->filter)) {
        load_counters(s->filter, &s->counters);
        mark_in_batch(s->filter, true);
    }
    return true;
}

void session_release(struct session *s)
{
    if (page_in_use(s->filter))
        session_unlock(s);
    else
        unlock(s);
}

/* Touches pages of a layer; `first` counts those that no writer had touched before. */
struct touch {
    struct session *s;
    unsigned layer;
    uint8_t *touched;
    uint64_t first;
    struct err *err;
};

/* The checksum of an untouched page must match. */
static bool touch_first(struct touch *t, uint64_t page)
{
    uint8_t bit = (uint8_t)(1u << page % 8);
    if (!filter_verify_page(t->s->filter, t->layer, page, t->err))
        return false;
    t->first += !(__atomic_fetch_or(t->touched + page / 8, bit, __ATOMIC_RELAXED) & bit);
    return true;
}

static bool touch(void *ctx, uint64_t page)
{
    struct touch *t = ctx;
    return (__atomic_load_n(t->touched + page / 8, __ATOMIC_RELAXED) >> page % 8 & 1) ||
           touch_first(t, page);
}

/* Scanning this many bytes of the bitmap takes less time than finding and looking up the page of
 * one key. */
enum { BYTES_A_KEY = 16 };

/* Are all pages of a layer touched? This is so after a few keys per page. Finding the page of a key
 * takes a tenth of the time of adding it; with ten pages per key, a fifth. */
static bool all_touched(const struct layer *l, const uint8_t *touched)
{
    uint64_t pages = layer_pages(l), whole = pages / 8, i = 0;
    uint8_t rest = (uint8_t)((1u << pages % 8) - 1);
    for (; i + sizeof(uint64_t) <= whole; i += sizeof(uint64_t)) /* the bitmap begins a page */
        if (__atomic_load_n((const uint64_t *)(const void *)(touched + i), __ATOMIC_RELAXED) !=
            UINT64_MAX)
            return false;
    for (; i < whole; i++)
        if (__atomic_load_n(touched + i, __ATOMIC_RELAXED) != UINT8_MAX)
            return false;
    return rest == 0 || (__atomic_load_n(touched + whole, __ATOMIC_RELAXED) & rest) == rest;
}

bool session_touch(struct session *s, unsigned layer, struct hashes keys, size_t n, struct err *err)
{
    const struct layer *l = &s->filter->header.layers[layer];
    struct touch t = {
        .s = s, .layer = layer, .touched = s->filter->map + l->touched_off, .err = err};
    bool is_short = layer_pages(l) / 8 <= n * BYTES_A_KEY;
    bool ok = (is_short && all_touched(l, t.touched)) ||
              layer_each_page(l, s->filter->data[layer], keys, n, touch, &t);
    if (t.first > 0)
        atomic_fetch_add_explicit(&s->n_touched, t.first, memory_order_relaxed);
    /* A reader that sees a changed bit must also see the page marked (filter.c: is_touched). */
    atomic_thread_fence(memory_order_release);
    return ok;
}

static bool write_page_again(void *ctx, uint64_t page)
{
    write_again((uint8_t *)ctx + page * LAYER_PAGE);
    return true;
}

void session_rely(const struct session *s, unsigned layer, struct hashes keys, size_t n,
                  const uint64_t *present)
{
    const struct filter *f = s->filter;
    const struct layer *l = &f->header.layers[layer];
    uint8_t *data = f->data[layer];
    /* A layer that takes no keys was on disk before its file had a name. */
    if (!is_doubtful(f) || !layer_takes_keys(l))
        return;
    for (size_t i = 0; i < n; i++)
        if (bit_of(present, i))
            layer_each_page(l, data, hashes_from(keys, i), 1, write_page_again, data);
}

void session_unlock(struct session *s)
{
    store_counters(s->filter, &s->counters);
    mark_in_batch(s->filter, false);
    unlock(s);
}

bool session_sync(struct session *s, struct err *err)
{
    if (s->broken)
        return fail(err, "'%s' could not be synced", s->filter->path);
    return sync_file(s, err);
}

bool session_end(struct session *s, bool sync, struct err *err)
{
    /* An incomplete batch leaves PAGE_IN_BATCH set, which makes the counters unknown. */
    if (s->locked)
        unlock(s);
    if (!s->entered)
        return true;
    return relock(s, err) && leave(s, sync, err);
}

/* Repair. */

enum { RENEW_BLOCK = 256 }; /* pages a thread takes at a time */

struct renewal {
    const struct filter *f;
    unsigned layer;
    _Atomic uint64_t differing;
};

static void renew_block(void *ctx, unsigned worker, uint64_t block)
{
    struct renewal *r = ctx;
    const struct layer *l = &r->f->header.layers[r->layer];
    uint64_t pages = layer_pages(l);
    uint64_t end = (block + 1) * RENEW_BLOCK, differing = 0;
    (void)worker;
    for (uint64_t page = block * RENEW_BLOCK; page < pages && page < end; page++) {
        uint8_t *data = r->f->data[r->layer] + page * LAYER_PAGE;
        differing += renew_sum(r->f, r->layer, page);
        /* A zero page never held a bit, and may be a hole. */
        if (!layout_is_sparse(l) || !bytes_zero(data, layer_page_len(l, page)))
            write_again(data);
        write_again(r->f->map + l->sums_off + page * FORMAT_SUM);
    }
    atomic_fetch_add(&r->differing, differing);
}

/* Writes all pages again, because it is unknown which of them are on disk. */
static uint64_t renew_all(const struct filter *f, unsigned threads)
{
    struct renewal r = {.f = f};
    for (r.layer = 0; r.layer < f->header.n_layers; r.layer++) {
        const struct layer *l = &f->header.layers[r.layer];
        uint64_t pages = layer_pages(l);
        parallel_for(threads, pages / RENEW_BLOCK + (pages % RENEW_BLOCK != 0), renew_block, &r);
        if (l->touched_off != 0)
            memset(f->map + l->touched_off, 0, (size_t)touched_bytes(l));
    }
    memset(session_page(f), 0, PAGE_USED);
    return r.differing;
}

/* Called with all other writers locked out. */
static bool repair(struct session *s, unsigned threads, uint64_t *differing, struct err *err)
{
    struct filter *f = s->filter;
    if (!filter_reload(f, err))
        return false;
    if (f->header.state == STATE_CLEAN && !page_in_use(f)) {
        uint64_t unchecked, bad = filter_check_pages(f, threads, &unchecked, NULL, NULL);
        if (bad > 0)
            return fail(err,
                        "'%s' is damaged in %" PRIu64 " of its pages, which cannot be "
                        "restored: make it again",
                        f->path, bad);
        if (!f->slot_damaged)
            return true;
    } else {
        const struct layers layers = filter_layers(f);
        struct census census;
        *differing = renew_all(f, threads);
        filter_census_all(f, threads, &census);
        chain_recount(&layers, threads, &f->header.counters);
        if (!sync_header(s, err))
            return false;
        f->header.counters.unknown = true;
        f->header.counters.n_keys = census.n;
    }
    f->slot_damaged = false;
    bool ok = true;
    for (int slot = 0; slot < 2; slot++) /* two epochs: both slots */
        ok = ok && publish_state(s, STATE_CLEAN, err);
    return ok;
}

bool session_repair(struct filter *f, unsigned threads, uint64_t *differing, struct err *err)
{
    struct session s = {.filter = f};
    bool alone = false;
    *differing = 0;
    f->verifying = false;
    if (!lock_wait(f->fd, F_WRLCK, LOCK_BATCH, true))
        return fail_errno(err, "cannot lock '%s'", f->path);
    bool ok = try_alone(f, &alone, err) &&
              (alone || fail(err, "'%s' is being written by another process", f->path)) &&
              repair(&s, threads, differing, err);
    lock_try(f->fd, F_UNLCK, LOCK_SESSION);
    lock_try(f->fd, F_UNLCK, LOCK_BATCH);
    return ok;
}

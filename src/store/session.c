/*
 * Two bytes stand for locks: SESSION_BYTE is held shared by every writer for as long as it is one,
 * BATCH_BYTE by the one that is changing the file, header and session page included. Joining and
 * leaving happen under the batch lock, so two last writers cannot each leave the cleaning to the
 * other. Whoever wants the session byte for itself only ever tries, it never waits.
 *
 * The header is changed by publish() alone, one slot at a time. On disk the order is: the mark
 * WRITING before the first changed bit; data, checksums and emptied tables before the mark CLEAN.
 * What changes in between (counters, touched bitmap) is in the mapping only, shared by all
 * processes: it survives their deaths, and that of the machine makes it void.
 */
#include "store/session.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/disk.h"
#include "base/parallel.h"
#include "base/sig.h"

/* Far beyond any file's end, yet an off_t with room behind it: 2^62, or 2^30 where off_t is small.
 */
#define LOCKS        ((off_t)1 << (sizeof(off_t) * 8 - 2))
#define BATCH_BYTE   LOCKS
#define SESSION_BYTE (LOCKS + 1)

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
    PAGE_USED = 48,
};

/* Locks. */

static int lock_call(int fd, int cmd, short type, off_t byte, struct flock *l)
{
    *l = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, cmd, l);
}

/* Waits; a caught signal ends the wait only if `give_up`. */
static bool lock_wait(int fd, short type, off_t byte, bool give_up)
{
    struct flock l;
    while (lock_call(fd, F_OFD_SETLKW, type, byte, &l) != 0)
        if (errno != EINTR || (give_up && sig_caught()))
            return false;
    return true;
}

static bool lock_try(int fd, short type, off_t byte)
{
    struct flock l;
    return lock_call(fd, F_OFD_SETLK, type, byte, &l) == 0;
}

bool session_alive(int fd)
{
    struct flock l;
    return lock_call(fd, F_OFD_GETLK, F_WRLCK, SESSION_BYTE, &l) == 0 && l.l_type != F_UNLCK;
}

bool session_lock_fd(int fd)
{
    if (lock_wait(fd, F_WRLCK, BATCH_BYTE, true))
        return true;
    /* Open for reading only: a shared lock keeps writers out as well. */
    return errno == EBADF && lock_wait(fd, F_RDLCK, BATCH_BYTE, true);
}

/* Header and session page. */

/* Writes the header as it is in memory, with that state, as the next epoch. */
static bool publish(struct filter *f, enum file_state state, bool sync, struct err *err)
{
    uint8_t slot[FORMAT_MAX_HEADER];
    f->header.state = state;
    f->header.epoch++;
    f->header.changed = (uint64_t)time(NULL);
    size_t len = format_encode(&f->header, slot);
    uint64_t off = f->header.epoch % 2 == 0 ? FORMAT_SLOT_A : FORMAT_SLOT_B;
    return disk_write(f->fd, slot, len, off, f->path, err) &&
           (!sync || disk_sync(f->fd, f->path, err));
}

bool session_change(struct session *s, const struct header *h, struct err *err)
{
    struct filter *f = s->filter;
    struct header now = *h;
    now.epoch = f->header.epoch;
    now.state = f->header.state;
    now.counters = now.state == STATE_CLEAN ? s->counters : f->header.counters;
    f->header = now;
    for (int slot = 0; slot < 2; slot++)
        if (!publish(f, now.state, true, err))
            return false;
    return f->map_len == now.file_len || filter_reload(f, err);
}

static uint8_t *session_page(const struct filter *f)
{
    return f->map + FORMAT_SESSION;
}

static bool page_in_use(const struct filter *f)
{
    static const uint8_t zero[PAGE_USED];
    return memcmp(session_page(f), zero, sizeof zero) != 0;
}

/* Keeps the compiler from moving changes of the page over this point. What a process has written
 * when it is killed is always a beginning of what it was to write. */
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
    if (session_page(f)[PAGE_IN_BATCH])
        c->unknown = true;
}

static void start_page(const struct filter *f, const struct counters *c)
{
    store_counters(f, c);
    put_le64(session_page(f) + PAGE_EPOCH, f->header.epoch);
    mark_in_batch(f, false);
}

/* Begins a session where one died, or where its mark got lost with a header slot: what the session
 * page says is void. */
static bool restart_dirty(struct session *s, struct err *err)
{
    struct filter *f = s->filter;
    f->verifying = false;
    f->header.counters.unknown = true;
    s->counters = f->header.counters;
    if (f->header.state != STATE_DIRTY && !publish(f, STATE_DIRTY, true, err))
        return false;
    start_page(f, &s->counters);
    return true;
}

/* Under the batch lock: brings the file to where bits may be changed. */
static bool enter(struct session *s, struct err *err)
{
    struct filter *f = s->filter;
    bool others = session_alive(f->fd);
    /* Held before the mark is set and until it is gone: filter_health counts on that. */
    if (!lock_try(f->fd, F_RDLCK, SESSION_BYTE))
        return fail_errno(err, "cannot lock '%s'", f->path);
    if (!filter_reload(f, err))
        return false;
    if (f->header.state == STATE_CLEAN && !page_in_use(f)) {
        s->counters = f->header.counters;
        if (!publish(f, STATE_WRITING, true, err))
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

/* Is the file that we have open still the one under its name? */
static bool is_current(const struct filter *f, bool *current, struct err *err)
{
    struct stat held, named;
    if (fstat(f->fd, &held) != 0)
        return fail_errno(err, "cannot look at '%s'", f->path);
    if (stat(f->path, &named) != 0)
        return fail_errno(err, "cannot go on with '%s'", f->path);
    *current = held.st_dev == named.st_dev && held.st_ino == named.st_ino;
    return true;
}

/* Leaving. */

static bool renew_sum(const struct filter *f, unsigned layer, uint64_t page)
{
    const struct layer *l = &f->header.layers[layer];
    size_t len;
    const uint8_t *data = filter_page(f, layer, page, &len);
    uint32_t sum = format_page_sum(format_layer_seed(&f->header, l), page, data, len);
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

/* Renews the checksums of the pages that were touched, and then empties the bitmap, which
 * filter_check_pages looks at when a checksum does not hold. */
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
    /* Only what is not zero is written: untouched pages of the bitmap stay clean. */
    for (uint64_t i = 0; i < bytes; i++)
        if (touched[i] != 0)
            touched[i] = 0;
}

static bool make_clean(struct session *s, bool sync, struct err *err)
{
    struct filter *f = s->filter;
    bool was_known = !f->header.counters.unknown;
    for (unsigned i = 0; i < f->header.n_layers; i++)
        renew_touched(f, i);
    f->header.counters = s->counters;
    if (was_known && s->counters.unknown) {
        struct census census;
        filter_census_all(f, parallel_cpus(), &census);
        f->header.counters.n_keys = census.n;
    }
    memset(session_page(f), 0, PAGE_USED);
    return (!sync || disk_sync(f->fd, f->path, err)) && publish(f, STATE_CLEAN, sync, err);
}

static void unlock(struct session *s)
{
    lock_try(s->filter->fd, F_UNLCK, BATCH_BYTE);
    s->locked = false;
}

/* Under the batch lock, which it gives up. */
static bool leave(struct session *s, bool sync, struct err *err)
{
    struct filter *f = s->filter;
    bool cleaned = false, ok = filter_reload(f, err);
    if (ok) {
        load_counters(f, &s->counters);
        /* A dirty file stays so: some of its checksums may be those of damage. */
        cleaned = f->header.state == STATE_WRITING && lock_try(f->fd, F_WRLCK, SESSION_BYTE);
    }
    if (cleaned)
        ok = make_clean(s, sync, err);
    lock_try(f->fd, F_UNLCK, SESSION_BYTE);
    s->entered = false;
    unlock(s);
    /* Those who stay need not wait for our data to reach the disk. */
    if (ok && sync && !cleaned)
        ok = disk_sync(f->fd, f->path, err);
    return ok;
}

/* Goes on with the file that is under the name now. The old one, which may have another name still,
 * is left in order. */
static bool move_on(struct session *s, struct err *err)
{
    struct filter now;
    struct err what;
    if (!filter_open(&now, s->filter->path, FILTER_WRITE, err))
        return false;
    if (!filter_same_keys(&s->filter->header, &now.header, &what)) {
        filter_close(&now);
        return fail(err, "'%s' was replaced by a filter that differs in %s", s->filter->path,
                    what.text);
    }
    if (s->entered)
        leave(s, true, &what);
    filter_close(s->filter);
    *s->filter = now;
    s->replaced = true;
    return true;
}

static bool lock_current(struct session *s, struct err *err)
{
    for (;;) {
        bool current = false;
        if (!lock_wait(s->filter->fd, F_WRLCK, BATCH_BYTE, true))
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

/* Undoes what a failed step holds. */
static bool give_up(struct session *s)
{
    if (!s->entered)
        lock_try(s->filter->fd, F_UNLCK, SESSION_BYTE);
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

/* Marks a page, and counts it in *first if it was not marked before: then it has to hold. */
static bool touch(struct session *s, unsigned layer, uint64_t page, uint64_t *first,
                  struct err *err)
{
    uint8_t bit = (uint8_t)(1u << page % 8);
    uint8_t *byte = s->filter->map + s->filter->header.layers[layer].touched_off + page / 8;
    if (!filter_verify_page(s->filter, layer, page, err))
        return false;
    *first += !(__atomic_fetch_or(byte, bit, __ATOMIC_RELAXED) & bit);
    return true;
}

bool session_touch(struct session *s, unsigned layer, const uint64_t *hash, size_t n,
                   struct err *err)
{
    const struct layer *l = &s->filter->header.layers[layer];
    const uint8_t *touched = s->filter->map + l->touched_off;
    uint64_t first = 0, page[LAYER_BATCH];
    bool ok = true;
    l->kind->page(l, hash, n, page);
    for (size_t i = 0; ok && i < n; i++)
        if (!(__atomic_load_n(touched + page[i] / 8, __ATOMIC_RELAXED) >> page[i] % 8 & 1))
            ok = touch(s, layer, page[i], &first, err);
    if (first > 0)
        atomic_fetch_add_explicit(&s->n_touched, first, memory_order_relaxed);
    /* Whoever sees a changed bit is to see the mark (filter.c: is_touched). */
    atomic_thread_fence(memory_order_release);
    return ok;
}

void session_unlock(struct session *s)
{
    store_counters(s->filter, &s->counters);
    mark_in_batch(s->filter, false);
    unlock(s);
}

bool session_sync(struct session *s, struct err *err)
{
    if (!disk_sync(s->filter->fd, s->filter->path, err))
        s->broken = true;
    return !s->broken;
}

/* Data of that many pages is flushed before the lock is taken in which the rest is, so that nobody
 * waits long: 4 MiB. */
enum { FLUSH_FIRST = 1024 };

bool session_end(struct session *s, bool sync, struct err *err)
{
    struct filter *f = s->filter;
    /* A batch that was not completed leaves its mark, which makes the counters unknown. */
    if (s->locked)
        unlock(s);
    if (!s->entered)
        return true;
    if (s->broken)
        fail(err, "'%s' could not be synced", f->path);
    else if (sync && s->n_touched > FLUSH_FIRST)
        session_sync(s, err);
    /* What may not have reached the disk stays marked as it is. */
    if (s->broken) {
        s->entered = false;
        return give_up(s);
    }
    if (!lock_wait(f->fd, F_WRLCK, BATCH_BYTE, false))
        return fail_errno(err, "cannot lock '%s'", f->path);
    s->locked = true;
    return leave(s, sync, err);
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
    uint64_t pages = layer_pages(&r->f->header.layers[r->layer]);
    uint64_t end = (block + 1) * RENEW_BLOCK, differing = 0;
    (void)worker;
    for (uint64_t page = block * RENEW_BLOCK; page < pages && page < end; page++)
        differing += renew_sum(r->f, r->layer, page);
    atomic_fetch_add(&r->differing, differing);
}

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

/* With all others locked out. */
static bool repair(struct filter *f, unsigned threads, uint64_t *differing, struct err *err)
{
    if (!filter_reload(f, err))
        return false;
    if (f->header.state == STATE_CLEAN && !page_in_use(f)) {
        uint64_t unchecked, bad = filter_check_pages(f, threads, &unchecked, NULL, NULL);
        if (bad > 0)
            return fail(err,
                        "'%s' is damaged in %" PRIu64 " of its pages, and nothing tells what "
                        "was there: make it anew",
                        f->path, bad);
        if (!f->slot_damaged)
            return true;
    } else {
        struct census census;
        *differing = renew_all(f, threads);
        filter_census_all(f, threads, &census);
        f->header.counters.unknown = true;
        f->header.counters.n_keys = census.n;
        if (!disk_sync(f->fd, f->path, err))
            return false;
    }
    f->slot_damaged = false;
    bool ok = true;
    for (int slot = 0; slot < 2; slot++) /* two epochs: both slots */
        ok = ok && publish(f, STATE_CLEAN, true, err);
    return ok;
}

bool session_repair(struct filter *f, unsigned threads, uint64_t *differing, struct err *err)
{
    bool ok;
    *differing = 0;
    f->verifying = false;
    if (!lock_wait(f->fd, F_WRLCK, BATCH_BYTE, true))
        return fail_errno(err, "cannot lock '%s'", f->path);
    if (lock_try(f->fd, F_WRLCK, SESSION_BYTE))
        ok = repair(f, threads, differing, err);
    else
        ok = fail(err, "'%s' is being written by another process", f->path);
    lock_try(f->fd, F_UNLCK, SESSION_BYTE);
    lock_try(f->fd, F_UNLCK, BATCH_BYTE);
    return ok;
}

/*
 * Two bytes serve as locks. Every writer holds LOCK_SESSION shared for its whole life. The writer
 * that is changing the file, header and session page included, holds LOCK_TURN. Writers join and
 * leave under the turn lock, so two last writers cannot each leave the cleaning to the other. An
 * exclusive lock of the session byte is only tried, never waited for.
 *
 * The header is changed by publish() alone, one slot at a time. On disk the order is: the mark
 * WRITING before the first changed bit; data, checksums and emptied tables before the mark CLEAN;
 * a header before the next one is written to the other slot. Changes in between (counters, touched
 * bitmap) are in the mapping only, shared by all processes. They survive the death of a process; of
 * a crash of the machine, any of them.
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
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "base/disk.h"
#include "base/parallel.h"
#include "base/sig.h"
#include "keys/xxh3.h"
#include "kind/layout.h"
#include "store/chain.h"
#include "store/header.h"
#include "store/lock.h"

/* Offsets in the session page. It is filled before the mark WRITING is written, and emptied after
 * the mark CLEAN: so while it is zero, no bits change, and after a kill it is there. */
enum {
    PAGE_STAMP = 0,   /* of the machine's boot and of the file (stamp): never 0 */
    PAGE_IN_TURN = 8, /* a writer is between session_lock and session_unlock, or died there */
    PAGE_RECORDS = 16,
    PAGE_KEYS_ADDED = 24,
    PAGE_SYNC = 32, /* SYNC_FAILED: some writer's sync has, in this session */
    PAGE_USED = SESSION_USED,
};

/* A process may be killed when its sync has failed, before it can say so. So the last writer says
 * beforehand that all pages may have to be written again. */
enum { SYNC_FAILED = 1, SYNC_CLOSING = 2 };

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
static bool sync_has_failed(const struct filter *f)
{
    return session_page(f)[PAGE_SYNC] == SYNC_FAILED;
}

/* Identifies this boot of the machine and this file: a hash of the boot id, device and inode. 0 if
 * the boot id cannot be read. */
static uint64_t stamp(const struct filter *f)
{
    enum { BOOT_ID = 36 };
    uint8_t name[BOOT_ID + 16];
    struct stat st;
    size_t got = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && disk_read(fd, name, BOOT_ID, 0, &got) && got == BOOT_ID &&
              fstat(f->fd, &st) == 0;
    if (fd >= 0)
        close(fd);
    if (!ok)
        return 0;
    put_le64(name + BOOT_ID, (uint64_t)st.st_dev);
    put_le64(name + BOOT_ID + 8, (uint64_t)st.st_ino);
    return xxh3_bytes(name, sizeof name, 0);
}

/* Is all that writers have stored in the mapping still there? So it is if the session began in this
 * boot, in this file, and no sync has failed in it. */
static bool is_intact(const struct filter *f)
{
    uint64_t now = stamp(f);
    return now != 0 && now == get_le64(session_page(f) + PAGE_STAMP) && !sync_has_failed(f);
}

bool session_page_fits(const struct filter *f)
{
    uint8_t want[PAGE_USED];
    const struct counters *c = &f->header.counters;
    if (!page_in_use(f))
        return true;
    memcpy(want, session_page(f), sizeof want);
    put_le32(want + PAGE_IN_TURN, 0);
    put_le64(want + PAGE_RECORDS, c->records);
    put_le64(want + PAGE_KEYS_ADDED, c->keys_added);
    return get_le64(want + PAGE_STAMP) != 0 && memcmp(want, session_page(f), sizeof want) == 0;
}

bool session_is_uncertain(const struct filter *f)
{
    return f->header.state == STATE_DIRTY || (f->header.state == STATE_WRITING && !is_intact(f));
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
        session_page(s->filter)[PAGE_SYNC] = SYNC_FAILED;
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
    /* The first writer of a file: its maker may have been killed before it synced the name. */
    if (f->header.epoch == 1 && !disk_sync_name(f->path, err))
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

static void mark_in_turn(struct session *s, bool on)
{
    page_barrier();
    session_page(s->filter)[PAGE_IN_TURN] = on;
    page_barrier();
    s->in_turn = on;
}

static void store_counters(const struct filter *f, const struct counters *c)
{
    uint8_t *p = session_page(f);
    put_le64(p + PAGE_RECORDS, c->records);
    put_le64(p + PAGE_KEYS_ADDED, c->keys_added);
}

/* A turn that is not this writer's is one in which a writer was killed. */
static void load_counters(struct session *s)
{
    const struct filter *f = s->filter;
    struct counters *c = &s->counters;
    const uint8_t *p = session_page(f);
    c->records = s->records = get_le64(p + PAGE_RECORDS);
    c->keys_added = get_le64(p + PAGE_KEYS_ADDED);
    if (session_page(f)[PAGE_IN_TURN]) {
        const struct layers layers = filter_layers(f);
        chain_recount(&layers, parallel_cpus(), c);
        if (!s->in_turn && s->found == END_NONE)
            s->found = END_KILLED;
    }
}

/* Has nobody copied another file, or an older state of this one, over the file since this writer
 * entered? While it holds the session byte, the session page keeps its stamp, and its count of
 * records does not go back. */
static bool is_unbroken(const struct session *s, struct err *err)
{
    const uint8_t *p = session_page(s->filter);
    bool has_grown = get_le64(p + PAGE_RECORDS) - s->records <= INT64_MAX;
    return (get_le64(p + PAGE_STAMP) == s->stamp && has_grown) ||
           fail(err, "'%s' was overwritten while it was in use", s->filter->path);
}

static void start_page(struct session *s)
{
    const struct filter *f = s->filter;
    uint64_t now = stamp(f);
    store_counters(f, &s->counters);
    s->records = s->counters.records;
    put_le64(session_page(f) + PAGE_STAMP, now != 0 ? now : 1);
    put_le32(session_page(f) + PAGE_SYNC, 0);
    mark_in_turn(s, false);
}

/* Ending a session. */

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

/* Renews the checksums of the touched pages, and only then clears the bitmap: readers look at it
 * when a checksum does not match (filter.c). Returns how many checksums did not match. `again`: the
 * pages may only seem to be on disk. */
static uint64_t renew_touched(const struct filter *f, unsigned layer, bool again)
{
    uint64_t differing = 0;
    const struct layer *l = &f->header.layers[layer];
    uint8_t *touched = f->map + l->touched_off;
    uint64_t bytes = l->touched_off == 0 ? 0 : touched_bytes(l);
    for (uint64_t i = 0; i < bytes; i++)
        for (unsigned bit = 0; touched[i] >> bit != 0; bit++)
            if (touched[i] >> bit & 1 && i * 8 + bit < layer_pages(l)) {
                differing += renew_sum(f, layer, i * 8 + bit);
                if (again)
                    write_again(f->data[layer] + (i * 8 + bit) * LAYER_PAGE);
            }
    page_barrier();
    /* Only nonzero bytes are cleared, so that untouched pages of the bitmap stay clean. */
    for (uint64_t i = 0; i < bytes; i++)
        if (touched[i] != 0)
            touched[i] = 0;
    return differing;
}

static uint64_t renew_all_touched(const struct filter *f, bool again)
{
    uint64_t differing = 0;
    if (!sync_has_failed(f))
        session_page(f)[PAGE_SYNC] = SYNC_CLOSING;
    page_barrier();
    for (unsigned i = 0; i < f->header.n_layers; i++)
        differing += renew_touched(f, i, again);
    return differing;
}

/* Ends the session, once the checksums of all touched pages are renewed: marks the file clean, or
 * dirty. The data is synced even if the mark is not: a mark CLEAN on disk must be true. */
static bool close_file(struct session *s, enum file_state state, bool sync, struct err *err)
{
    struct filter *f = s->filter;
    struct header next = f->header;
    next.state = state;
    next.counters = s->counters;
    store_counters(f, &next.counters);
    if (!sync_header(s, err) || !publish(s, next, false, err))
        return false;
    memset(session_page(f), 0, PAGE_USED);
    if (!sync)
        return true;
    if (!sync_file(s, err))
        return false;
    s->epoch_on_disk = f->header.epoch;
    return true;
}

/* A dirty file stays dirty until its repair. */
static bool make_clean(struct session *s, bool sync, struct err *err)
{
    renew_all_touched(s->filter, false);
    return close_file(s, s->filter->header.state == STATE_DIRTY ? STATE_DIRTY : STATE_CLEAN, sync,
                      err);
}

enum { RENEW_BLOCK = 256 }; /* pages a thread takes at a time */

struct renewal {
    const struct filter *f;
    bool accept; /* renew the checksums of all pages */
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
        differing += r->accept && renew_sum(r->f, r->layer, page);
        /* A zero page never held a bit, and may be a hole. */
        if (!layout_is_sparse(l) || !bytes_zero(data, layer_page_len(l, page)))
            write_again(data);
        write_again(r->f->map + l->sums_off + page * FORMAT_SUM);
    }
    atomic_fetch_add(&r->differing, differing);
}

/* Writes all pages again, because it is unknown which of them are on disk. With `accept`, also
 * renews all checksums, and returns how many did not match. */
static uint64_t write_all(const struct filter *f, unsigned threads, bool accept)
{
    struct renewal r = {.f = f, .accept = accept};
    for (r.layer = 0; r.layer < f->header.n_layers; r.layer++) {
        const struct layer *l = &f->header.layers[r.layer];
        uint64_t pages = layer_pages(l);
        parallel_for(threads, pages / RENEW_BLOCK + (pages % RENEW_BLOCK != 0), renew_block, &r);
        for (uint64_t at = 0; l->touched_off != 0 && at < touched_bytes(l); at += FORMAT_PAGE)
            write_again(f->map + l->touched_off + at);
    }
    return r.differing;
}

/* Ends a session of which no writer is alive. If they were killed, all that they stored is there,
 * so this does what the last of them would have done. If the machine crashed, marks of touched
 * pages may be lost: a page that neither matches nor is marked makes the file dirty. Pages whose
 * sync may have failed are written again. */
static bool recover(struct session *s, unsigned threads, uint64_t *differing, struct err *err)
{
    struct filter *f = s->filter;
    bool is_dirty = f->header.state == STATE_DIRTY, intact = is_intact(f);
    bool again = session_page(f)[PAGE_SYNC] != 0 || (is_dirty && !intact);
    const struct layers layers = filter_layers(f);
    s->found = sync_has_failed(f) ? END_FAILED : intact ? END_KILLED : END_CRASHED;
    *differing += renew_all_touched(f, true);
    if (again)
        write_all(f, threads, false);
    if (intact) {
        load_counters(s);
    } else {
        uint64_t unchecked;
        s->counters = f->header.counters;
        chain_recount(&layers, threads, &s->counters);
        is_dirty = filter_check_pages(f, threads, &unchecked, NULL, NULL) > 0;
    }
    return close_file(s, is_dirty ? STATE_DIRTY : STATE_CLEAN, true, err);
}

/* Called with the turn lock held: ends the session of writers that are all dead. */
static bool recover_if_left(struct session *s, unsigned threads, uint64_t *differing,
                            struct err *err)
{
    const struct filter *f = s->filter;
    bool others, is_open = f->header.state == STATE_WRITING || page_in_use(f);
    if (!is_open)
        return true;
    if (!lock_others(f->fd, &others))
        return fail_errno(err, "cannot lock '%s'", f->path);
    return others || recover(s, threads, differing, err);
}

/* Called with the turn lock held: begins a session, or joins one that has lost the mark WRITING
 * with a header slot, or has it. */
static bool begin_or_join(struct session *s, struct err *err)
{
    struct filter *f = s->filter;
    bool is_open = page_in_use(f);
    if (is_open)
        load_counters(s);
    else
        s->counters = f->header.counters;
    if (!is_open)
        start_page(s);
    return f->header.state != STATE_CLEAN || publish_state(s, STATE_WRITING, err);
}

/* Called with the turn lock held: prepares the file for changes of bits. */
static bool enter(struct session *s, struct err *err)
{
    struct filter *f = s->filter;
    uint64_t ignored = 0;
    /* Held from before the mark is set until it is removed: filter_health relies on that. */
    if (!lock_try(f->fd, F_RDLCK, LOCK_SESSION))
        return fail_errno(err, "cannot lock '%s'", f->path);
    s->entered = filter_reload(f, err) && recover_if_left(s, parallel_cpus(), &ignored, err) &&
                 begin_or_join(s, err);
    if (s->entered)
        s->stamp = get_le64(session_page(f) + PAGE_STAMP);
    return s->entered;
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

static bool relock(struct session *s, struct err *err)
{
    if (!lock_wait(s->filter->fd, F_WRLCK, LOCK_TURN, false))
        return fail_errno(err, "cannot lock '%s'", s->filter->path);
    s->locked = true;
    return true;
}

static void unlock(struct session *s)
{
    lock_try(s->filter->fd, F_UNLCK, LOCK_TURN);
    s->locked = false;
}

/* Must this writer end the session? If so, it now holds the session byte exclusively. After a
 * failed sync the file keeps the mark WRITING, although no writer is left. A writer whose sync
 * failed notes that before it leaves, so this is looked at last. */
static bool is_last(struct session *s, bool *last, struct err *err)
{
    struct filter *f = s->filter;
    *last = false;
    if (!filter_reload(f, err) || !is_unbroken(s, err))
        return false;
    load_counters(s);
    if (!try_alone(f, last, err))
        return false;
    *last = *last && !sync_has_failed(f);
    return true;
}

/* Releases the turn lock during a sync. The session byte stays held, shared, until the sync ends:
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

/* More touched pages than this (4 MiB) are synced with the turn lock released. The rest is synced
 * under the lock, so that nobody waits long. */
enum { SYNC_ASIDE = 1024 };

/* Called with the turn lock held; releases it. */
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
        if (!lock_wait(s->filter->fd, F_WRLCK, LOCK_TURN, true))
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
    } else if (!filter_refresh(f, err) || !is_unbroken(s, err) || !begin_or_join(s, err)) {
        return give_up(s);
    }
    mark_in_turn(s, true);
    return true;
}

bool session_hold(struct session *s, struct filter *f, struct err *err)
{
    uint64_t ignored = 0;
    *s = (struct session){.filter = f};
    if (!lock_current(s, err) || !filter_reload(s->filter, err) ||
        !recover_if_left(s, parallel_cpus(), &ignored, err))
        return give_up(s);
    s->counters = s->filter->header.counters;
    if (page_in_use(s->filter)) {
        load_counters(s);
        mark_in_turn(s, true);
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

/* The checksum of an untouched page must match now, not only when it was last looked at. */
static bool touch_first(struct touch *t, uint64_t page)
{
    uint8_t bit = (uint8_t)(1u << page % 8);
    if (!filter_check_page(t->s->filter, t->layer, page, t->err))
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
    if (!sync_has_failed(f) || !layer_takes_keys(l))
        return;
    for (size_t i = 0; i < n; i++)
        if (bit_of(present, i))
            layer_each_page(l, data, hashes_from(keys, i), 1, write_page_again, data);
}

void session_unlock(struct session *s)
{
    store_counters(s->filter, &s->counters);
    s->records = s->counters.records;
    mark_in_turn(s, false);
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
    /* An incomplete turn leaves PAGE_IN_TURN set: its keys will be counted by the bits. */
    if (s->locked)
        unlock(s);
    if (!s->entered)
        return true;
    return relock(s, err) && leave(s, sync, err);
}

/* Repair. */

/* Accepts the pages of a dirty file as they are. The writers that are alive go on. */
static bool accept(struct session *s, unsigned threads, uint64_t *differing, struct err *err)
{
    struct filter *f = s->filter;
    const struct layers layers = filter_layers(f);
    *differing += write_all(f, threads, true);
    chain_recount(&layers, threads, &f->header.counters);
    f->header.state = page_in_use(f) ? STATE_WRITING : STATE_CLEAN;
    return sync_header(s, err);
}

/* Called with the turn lock held, so that no writer changes a page meanwhile. */
static bool repair(struct session *s, unsigned threads, uint64_t *differing, struct err *err)
{
    struct filter *f = s->filter;
    uint64_t unchecked, bad = 0;
    bool was_dirty;
    if (!filter_reload(f, err) || !recover_if_left(s, threads, differing, err))
        return false;
    was_dirty = f->header.state == STATE_DIRTY;
    if (!was_dirty)
        bad = filter_check_pages(f, threads, &unchecked, NULL, NULL);
    if (bad > 0)
        return fail(err,
                    "'%s' is damaged in %" PRIu64 " of its pages, which cannot be restored: make "
                    "it again",
                    f->path, bad);
    if (was_dirty && !accept(s, threads, differing, err))
        return false;
    if (!was_dirty && !f->slot_damaged)
        return true;
    f->slot_damaged = false;
    bool ok = true;
    for (int slot = 0; slot < 2; slot++) /* two epochs: both slots */
        ok = ok && publish_state(s, f->header.state, err);
    return ok;
}

bool session_repair(struct filter *f, unsigned threads, uint64_t *differing, struct err *err)
{
    struct session s = {.filter = f};
    *differing = 0;
    if (!lock_wait(f->fd, F_WRLCK, LOCK_TURN, true))
        return fail_errno(err, "cannot lock '%s'", f->path);
    bool ok = repair(&s, threads, differing, err);
    lock_try(f->fd, F_UNLCK, LOCK_TURN);
    return ok;
}

/* SPDX-License-Identifier: MIT
 * Two bytes serve as locks. Every writer holds LOCK_SESSION shared for its whole life. The writer
 * that is changing the file, header and session page included, holds LOCK_TURN. Writers join and
 * leave under the turn lock, so two last writers cannot each leave the cleaning to the other. An
 * exclusive lock of the session byte is only tried, never waited for.
 *
 * The header is changed by publish() alone, one slot at a time. Changes in between (counters,
 * touched bitmap) are in the mapping only, shared by all processes. They survive the death of a
 * process; of a crash of the machine, any of them.
 */
#include "file/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "port/port.h"
#include "base/bytes.h"
#include "base/disk.h"
#include "base/parallel.h"
#include "base/sig.h"
#include "file/chain.h"
#include "file/header.h"
#include "file/lock.h"

/* Offsets in the session page. It is filled after the mark WRITING is on disk, and emptied before
 * the mark CLEAN is written: in a clean file it is zero. */
enum {
    PAGE_STAMP = 0,            /* random: tells this session from others. Not 0 */
    PAGE_TURN = FORMAT_TURN,   /* counts up; odd: a writer is in a turn, or died there */
    PAGE_STALE = FORMAT_STALE, /* 1: marked pages have old checksums also between turns */
    PAGE_RECORDS = 16,
    PAGE_KEYS_ADDED = 24,
    PAGE_SYNC_FAILED = 32, /* 1: some writer's sync has, in this session */
    PAGE_USED = 36,
};

/* Locks the session byte exclusively if nobody else holds it; *alone tells whether. */
static bool try_alone(const struct filter *f, bool *alone, struct err *err)
{
    *alone = lock_try(f->fd, F_WRLCK, LOCK_SESSION);
    return *alone || errno == EAGAIN || errno == EACCES ||
           fail_errno(err, "cannot lock '%s'", f->path);
}

/* Header and session page. */

static uint8_t *page_of(const struct filter *f)
{
    return f->map + FORMAT_SESSION;
}

/* May pages that the kernel regards as written be missing on disk? */
static bool sync_has_failed(const struct filter *f)
{
    return page_of(f)[PAGE_SYNC_FAILED] == 1;
}

static bool is_stale(const struct filter *f)
{
    return page_of(f)[PAGE_STALE] != 0;
}

static bool is_in_turn(const struct filter *f)
{
    return get_le32(page_of(f) + PAGE_TURN) % 2 != 0;
}

static uint64_t slot_of(uint64_t epoch)
{
    return epoch % 2 == 0 ? FORMAT_SLOT_A : FORMAT_SLOT_B;
}

static bool sync_file(struct session *s, struct err *err)
{
    if (disk_sync(s->filter->fd, s->filter->map, s->filter->map_len, s->filter->path, err))
        return true;
    s->broken = true;
    if (s->filter->header.state == STATE_WRITING)
        page_of(s->filter)[PAGE_SYNC_FAILED] = 1;
    return false;
}

static bool write_slot(const struct filter *f, const struct header *h, struct err *err)
{
    uint8_t slot[FORMAT_MAX_HEADER];
    size_t len = format_encode(h, slot);
    return disk_write(f->fd, slot, len, slot_of(h->epoch), f->path, err);
}

/* Syncs the whole file, including the header that was read. That header may not be on disk yet: its
 * writer may have been killed before the sync, or that has failed, and then the kernel takes it for
 * written. Or it was found only in the other slot. So it is written again. */
static bool sync_header(struct session *s, struct err *err)
{
    const struct filter *f = s->filter;
    if (!write_slot(f, &f->header, err) || !sync_file(s, err))
        return false;
    s->epoch_on_disk = f->header.epoch;
    return true;
}

/* Writes `next` as the header of the next epoch. Ensures first that the current header is on disk,
 * because a power cut may tear the slot being written. */
static bool publish(struct session *s, struct header next, bool sync, struct err *err)
{
    struct filter *f = s->filter;
    if (s->epoch_on_disk != f->header.epoch && !sync_header(s, err))
        return false;
    /* The first writer of a file: its maker may have been killed before it synced the name. */
    if (f->header.epoch == 1 && !disk_sync_name(f->path, err))
        return false;
    next.epoch = f->header.epoch + 1;
    next.changed = format_now();
    if (!write_slot(f, &next, err))
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
    if (filter_in_memory(f)) {
        s->filter->header = next;
        return true;
    }
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
    uint8_t *turn = page_of(s->filter) + PAGE_TURN;
    page_barrier();
    put_le32(turn, (get_le32(turn) | 1) + (on ? 0 : 1));
    page_barrier();
    s->in_turn = on;
}

static void store_counters(const struct filter *f, const struct counters *c)
{
    uint8_t *p = page_of(f);
    put_le64(p + PAGE_RECORDS, c->records);
    put_le64(p + PAGE_KEYS_ADDED, c->keys_added);
}

/* Loads the counters. In the turn of a writer that was killed they are not complete: then they are
 * counted from the bits. */
static void find_counters(struct session *s)
{
    const struct filter *f = s->filter;
    struct counters *c = &s->counters;
    const uint8_t *p = page_of(f);
    c->records = s->records = get_le64(p + PAGE_RECORDS);
    c->keys_added = get_le64(p + PAGE_KEYS_ADDED);
    if (is_in_turn(f)) {
        chain_recount(filter_layers(f), parallel_cpus(), c);
        s->found_dead |= !s->in_turn;
    }
}

/* Has nobody copied another file, or an older state of this one, over the file since this writer
 * entered? While it holds the session byte, the session page keeps its stamp, and its count of
 * records does not go back. */
static bool is_unbroken(const struct session *s, struct err *err)
{
    const uint8_t *p = page_of(s->filter);
    bool has_grown = get_le64(p + PAGE_RECORDS) - s->records <= INT64_MAX;
    return (get_le64(p + PAGE_STAMP) == s->stamp && has_grown) ||
           fail(err, "'%s' was overwritten while it was in use", s->filter->path);
}

static void fill_page(struct session *s, uint64_t stamp)
{
    uint8_t *p = page_of(s->filter);
    store_counters(s->filter, &s->counters);
    s->records = s->counters.records;
    put_le64(p + PAGE_STAMP, stamp);
    mark_in_turn(s, false);
}

/* ---- Ending a session. */

static void renew_sum(const struct filter *f, unsigned layer, uint64_t page)
{
    const struct layer *l = &f->header.layers[layer];
    size_t len;
    const uint8_t *data = filter_page(f, layer, page, &len);
    uint32_t sum = layer_page_sum(format_layer_seed(&f->header, l), page, data, len);
    uint8_t *stored = f->map + l->sums_off + FORMAT_SUM * page;
    if (get_le32(stored) != sum)
        put_le32(stored, sum);
}

static uint64_t touched_bytes(const struct layer *layer)
{
    return (layer_pages(layer) + 7) / 8;
}

/* Only nonzero bytes are cleared, so that untouched pages of the bitmap stay clean. */
static void clear_marks(const struct filter *f)
{
    for (unsigned i = 0; i < f->header.n_layers; i++) {
        const struct layer *l = &f->header.layers[i];
        uint8_t *touched = f->map + l->touched_off;
        uint64_t bytes = l->touched_off == 0 ? 0 : touched_bytes(l);
        for (uint64_t at = 0; at < bytes; at++)
            if (touched[at] != 0)
                touched[at] = 0;
    }
}

static void renew_layer(const struct filter *f, unsigned layer)
{
    const struct layer *l = &f->header.layers[layer];
    const uint8_t *touched = f->map + l->touched_off;
    uint64_t bytes = l->touched_off == 0 ? 0 : touched_bytes(l);
    for (uint64_t i = 0; i < bytes; i++)
        for (unsigned bit = 0; touched[i] >> bit != 0; bit++)
            if (touched[i] >> bit & 1 && i * 8 + bit < layer_pages(l))
                renew_sum(f, layer, i * 8 + bit);
}

/* Renews the checksums of the touched pages, and only then clears the marks: readers look at them
 * when a checksum does not match (filter.c). */
static void renew_touched(const struct filter *f)
{
    for (unsigned i = 0; i < f->header.n_layers; i++)
        renew_layer(f, i);
    page_barrier();
    clear_marks(f);
}

/* Ends the session, once the checksums of all touched pages are renewed: marks the file clean, or
 * dirty. The data is synced even if the mark is not: a mark CLEAN on disk must be true. */
static bool close_file(struct session *s, enum file_state state, bool sync, struct err *err)
{
    struct filter *f = s->filter;
    struct header next = f->header;
    next.state = state;
    next.counters = s->counters;
    page_barrier();
    /* The note of a failed sync stays: this writer may be killed before the file is dirty. */
    if (state == STATE_CLEAN)
        memset(page_of(f), 0, PAGE_USED);
    return sync_header(s, err) && publish(s, next, sync, err);
}

/* Ends a session whose writers are all dead. If they were killed, everything that they stored is
 * there, so this does what the last of them would have done. If the machine crashed, marks of
 * touched pages may be lost; if the file was copied beside a writer, pages may be. So all pages are
 * checked: one that neither matches nor is marked makes the file dirty, as a failed sync does. */
static bool recover(struct session *s, struct err *err)
{
    const struct filter *f = s->filter;
    unsigned threads = parallel_cpus();
    uint64_t unchecked;
    bool failed = sync_has_failed(f);
    s->found_dead = true;
    s->counters = f->header.counters;
    chain_recount(filter_layers(f), threads, &s->counters);
    renew_touched(f);
    bool sound = !failed && filter_check_pages(f, threads, &unchecked, NULL, NULL) == 0;
    return close_file(s, sound ? STATE_CLEAN : STATE_DIRTY, true, err);
}

/* Called with the turn lock held: ends the session of writers that are all dead. *others: some are
 * alive. */
static bool recover_if_left(struct session *s, bool *others, struct err *err)
{
    const struct filter *f = s->filter;
    if (!lock_others(f->fd, others))
        return fail_errno(err, "cannot lock '%s'", f->path);
    if (*others && f->header.state == STATE_CLEAN)
        return fail(err, "'%s' is damaged: its header was lost while keys were added", f->path);
    return *others || f->header.state != STATE_WRITING || recover(s, err);
}

bool session_is_dirty(const struct filter *f)
{
    return f->header.state == STATE_DIRTY ||
           (f->header.state == STATE_WRITING && sync_has_failed(f));
}

static bool check_not_dirty(const struct filter *f, struct err *err)
{
    return !session_is_dirty(f) ||
           fail(err,
                "'%s' is dirty since a crash of the machine or a failed sync: 'seen verify "
                "--repair' makes a sound file of it",
                f->path);
}

/* Called with the turn lock held: begins a session in a clean file. */
static bool start(struct session *s, struct err *err)
{
    struct filter *f = s->filter;
    uint64_t stamp;
    s->counters = f->header.counters;
    if (!port_random(&stamp, sizeof stamp))
        return fail_errno(err, "cannot get random numbers");
    /* Nothing checks the marks and the session page of a clean file: they may be damaged. */
    clear_marks(f);
    memset(page_of(f), 0, FORMAT_PAGE);
    if (!publish_state(s, STATE_WRITING, err))
        return false;
    fill_page(s, stamp | 1);
    return true;
}

/* Called with the turn lock held: prepares the file for changes of bits. */
static bool enter(struct session *s, struct err *err)
{
    struct filter *f = s->filter;
    bool others;
    /* Held from before the mark is set until it is removed: filter_health relies on that. */
    if (!lock_try(f->fd, F_RDLCK, LOCK_SESSION))
        return fail_errno(err, "cannot lock '%s'", f->path);
    if (!filter_reload(f, err) || !recover_if_left(s, &others, err) || !check_not_dirty(f, err))
        return false;
    if (others)
        find_counters(s);
    else if (!start(s, err))
        return false;
    s->entered = true;
    s->stamp = get_le64(page_of(f) + PAGE_STAMP);
    return true;
}

/* The file that has the name now. */
enum named { NAMED_THIS, NAMED_OTHER, NAMED_NONE };

static bool look_at_name(const struct filter *f, enum named *which, struct err *err)
{
    struct stat held, named;
    *which = NAMED_NONE;
    if (fstat(f->fd, &held) != 0)
        return fail_errno(err, "cannot look at '%s'", f->path);
    if (stat(f->path, &named) == 0)
        *which =
            held.st_dev == named.st_dev && held.st_ino == named.st_ino ? NAMED_THIS : NAMED_OTHER;
    else if (errno != ENOENT)
        return fail_errno(err, "cannot continue with '%s'", f->path);
    else if (held.st_nlink == 0)
        return fail(err, "'%s' was removed while keys were added", f->path);
    return true;
}

/* ---- Leaving. */

static bool relock(struct session *s, struct err *err)
{
    if (!lock_wait(s->filter->fd, F_WRLCK, LOCK_TURN, false))
        return fail_errno(err, "cannot lock '%s'", s->filter->path);
    s->locked = true;
    return true;
}

static void unlock(struct session *s)
{
    while (!lock_try(s->filter->fd, F_UNLCK, LOCK_TURN))
        if (errno != EINTR) {
            s->stuck = errno;
            break;
        }
    s->locked = false;
}

/* Must this writer end the session? If so, it now holds the session byte exclusively. */
static bool is_last(struct session *s, bool *last, struct err *err)
{
    struct filter *f = s->filter;
    *last = false;
    if (!filter_reload(f, err) || !is_unbroken(s, err))
        return false;
    find_counters(s);
    return try_alone(f, last, err);
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

static bool not_synced(const struct session *s, struct err *err)
{
    return fail(err, "'%s' could not be synced", s->filter->path);
}

/* After a failed sync it is unknown what is on disk: the last writer marks the file dirty.
 * Checksums that are not stale stay as they are, or damage of marked pages would be hidden. */
static bool end_session(struct session *s, bool sync, struct err *err)
{
    struct err why;
    if (is_stale(s->filter) || is_in_turn(s->filter))
        renew_touched(s->filter);
    else
        clear_marks(s->filter);
    if (!sync_has_failed(s->filter))
        return close_file(s, STATE_CLEAN, sync, err);
    close_file(s, STATE_DIRTY, true, &why);
    return not_synced(s, err);
}

/* Called with the turn lock held; releases it. */
static bool leave(struct session *s, bool sync, struct err *err)
{
    struct err damage, why;
    bool last, synced = !s->broken || not_synced(s, &why);
    bool ok = is_last(s, &last, err);
    bool sound = !ok || filter_check_used(s->filter, &damage);
    if (ok && synced && (last ? s->n_touched > SYNC_ASIDE : sync)) {
        synced = sync_aside(s, &why);
        if (!s->locked)
            *err = why;
        ok = s->locked && is_last(s, &last, err);
    }
    if (ok && last)
        ok = end_session(s, sync, err);
    if (ok && (!synced || !sound)) {
        *err = sound ? why : damage;
        ok = false;
    }
    lock_try(s->filter->fd, F_UNLCK, LOCK_SESSION);
    s->entered = false;
    unlock(s);
    return ok;
}

/* Another file has the name. A writer that has relied on the old one goes on only with a file that
 * was made from all its keys. */
static bool check_successor(const struct session *s, const struct header *now, struct err *err)
{
    struct err what;
    uint8_t id[sizeof now->id];
    filter_successor_id(s->filter, id);
    if (memcmp(id, now->id, sizeof id) == 0)
        return true;
    if (s->acted)
        return fail(err, "'%s' was replaced while keys were added: run this again",
                    s->filter->path);
    return header_same_keys(&s->filter->header, now, &what) ||
           fail(err, "'%s' was replaced by a filter that differs in %s", s->filter->path,
                what.text);
}

/* Continues with the file that has the name now. Leaves the old file properly first: it may still
 * have another name. */
static bool move_on(struct session *s, struct err *err)
{
    struct filter now;
    if (!filter_open(&now, s->filter->path, FILTER_WRITE, err))
        return false;
    if (!check_successor(s, &now.header, err) || (s->entered && !leave(s, true, err))) {
        filter_close(&now);
        return false;
    }
    filter_close(s->filter);
    *s->filter = now;
    *s = (struct session){.filter = s->filter, .acted = s->acted};
    return true;
}

static bool lock_current(struct session *s, struct err *err)
{
    for (;;) {
        enum named which;
        if (!lock_turn(s->filter->fd, s->filter->path))
            return sig_caught() ? fail(err, "interrupted while waiting for '%s'", s->filter->path)
                                : fail_errno(err, "cannot lock '%s'", s->filter->path);
        s->locked = true;
        if (!look_at_name(s->filter, &which, err))
            return false;
        if (which == NAMED_THIS)
            return true;
        if (which == NAMED_NONE)
            return fail(err, "cannot continue with '%s': it has lost its name", s->filter->path);
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

/* A writer that died in its turn has not renewed checksums. */
static void begin_turn(struct session *s)
{
    if (is_in_turn(s->filter))
        page_of(s->filter)[PAGE_STALE] = 1;
    mark_in_turn(s, true);
}

bool session_begin(struct session *s, struct filter *f, struct err *err)
{
    *s = (struct session){.filter = f, .counters = f->header.counters};
    if (filter_in_memory(f))
        return true;
    if (!lock_current(s, err) || !enter(s, err))
        return give_up(s);
    unlock(s);
    return true;
}

bool session_lock(struct session *s, struct err *err)
{
    struct filter *f = s->filter;
    if (filter_in_memory(f))
        return true;
    if (!lock_current(s, err))
        return give_up(s);
    if (!s->entered) {
        if (!enter(s, err))
            return give_up(s);
    } else if (!filter_refresh(f, err) || !is_unbroken(s, err) || !check_not_dirty(f, err)) {
        return give_up(s);
    } else {
        find_counters(s);
    }
    filter_distrust(f);
    s->acted = true;
    begin_turn(s);
    return true;
}

bool session_hold(struct session *s, struct filter *f, struct err *err)
{
    bool others;
    *s = (struct session){.filter = f};
    if (!lock_current(s, err) || !filter_reload(s->filter, err) ||
        !recover_if_left(s, &others, err))
        return give_up(s);
    s->counters = s->filter->header.counters;
    if (others) {
        find_counters(s);
        begin_turn(s);
    }
    return true;
}

void session_release(struct session *s)
{
    if (s->in_turn)
        session_unlock(s);
    else
        unlock(s);
}

/* Touches pages of a layer; `first` counts those that no writer had touched before. */
struct touch {
    struct session *s;
    unsigned layer;
    bool many; /* checksums are not renewed at the end of the turn */
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

/* Notes that this turn changes the page. If it does so for the first time, the checksum must match,
 * also of a marked page. */
static bool note_change(struct session *s, unsigned layer, uint64_t page, struct err *err)
{
    if (s->n_changed > SESSION_FEW)
        return true;
    for (unsigned i = 0; i < s->n_changed; i++)
        if (s->changed[i].layer == layer && s->changed[i].page == page)
            return true;
    if (!filter_check_fresh(s->filter, layer, page, err))
        return false;
    if (s->n_changed < SESSION_FEW)
        s->changed[s->n_changed] = (struct session_page){layer, page};
    s->n_changed++;
    return true;
}

static bool touch(void *ctx, uint64_t page)
{
    struct touch *t = ctx;
    struct session *s = t->s;
    if (!t->many && !note_change(s, t->layer, page, t->err))
        return false;
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
    for (; i + sizeof(size_t) <= whole; i += sizeof(size_t)) /* the bitmap begins a page */
        if (__atomic_load_n((const size_t *)(const void *)(touched + i), __ATOMIC_RELAXED) !=
            SIZE_MAX)
            return false;
    for (; i < whole; i++)
        if (__atomic_load_n(touched + i, __ATOMIC_RELAXED) != UINT8_MAX)
            return false;
    return rest == 0 || (__atomic_load_n(touched + whole, __ATOMIC_RELAXED) & rest) == rest;
}

bool session_touch(struct session *s, unsigned layer, struct hashes keys, size_t n, struct err *err)
{
    const struct layer *l = &s->filter->header.layers[layer];
    if (filter_in_memory(s->filter))
        return true;
    struct touch t = {.s = s,
                      .layer = layer,
                      .many = s->n_changed > SESSION_FEW || is_stale(s->filter),
                      .touched = s->filter->map + l->touched_off,
                      .err = err};
    bool is_short = layer_pages(l) / 8 <= n * BYTES_A_KEY;
    if (t.many)
        s->n_changed = SESSION_FEW + 1;
    bool ok = (t.many && is_short && all_touched(l, t.touched)) ||
              layer_each_page(l, s->filter->data[layer], keys, n, touch, &t);
    s->n_touched += t.first;
    /* A reader that sees a changed bit must also see the page marked (filter.c: is_touched). */
    atomic_thread_fence(memory_order_release);
    return ok;
}

/* After a turn that changed few pages, their checksums are renewed at once, so that readers can
 * check them while the writer waits for input. To do so after many keys would double the time. */
static void renew_changed(struct session *s)
{
    if (s->n_changed > SESSION_FEW)
        page_of(s->filter)[PAGE_STALE] = 1;
    else if (!is_stale(s->filter))
        for (unsigned i = 0; i < s->n_changed; i++)
            renew_sum(s->filter, s->changed[i].layer, s->changed[i].page);
    s->n_changed = 0;
}

void session_unlock(struct session *s)
{
    if (filter_in_memory(s->filter))
        return;
    renew_changed(s);
    store_counters(s->filter, &s->counters);
    s->records = s->counters.records;
    mark_in_turn(s, false);
    unlock(s);
}

bool session_sync(struct session *s, struct err *err)
{
    return s->broken ? not_synced(s, err) : sync_file(s, err);
}

/* Are the keys in the file that has the name? If none has, they are in the one that had it. */
static bool check_name(const struct session *s, struct err *err)
{
    enum named which;
    struct header now;
    return look_at_name(s->filter, &which, err) &&
           (which != NAMED_OTHER ||
            (filter_read_header(s->filter->path, &now, err) && check_successor(s, &now, err)));
}

bool session_end(struct session *s, bool sync, struct err *err)
{
    struct err why;
    if (filter_in_memory(s->filter)) {
        s->filter->header.counters = s->counters;
        return true;
    }
    /* An incomplete turn leaves PAGE_TURN odd: its keys will be counted by the bits. */
    if (s->locked)
        unlock(s);
    if (!s->entered)
        return true;
    if (!relock(s, err))
        return false;
    bool named = !s->acted || check_name(s, &why);
    if (!leave(s, sync, err))
        return false;
    errno = s->stuck;
    if (s->stuck != 0)
        return fail_errno(err, "cannot unlock '%s'", s->filter->path);
    return named || fail(err, "%s", why.text);
}

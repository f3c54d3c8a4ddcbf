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
#include "file/pages.h"
#include "keys/xxh3.h"

/* Offsets in the session page. It is filled after the mark WRITING is on disk, and emptied before
 * the mark CLEAN is written: in a clean file it is zero. */
enum {
    PAGE_STAMP = 0,            /* random: tells this session from others. Not 0 */
    PAGE_TURN = FORMAT_TURN,   /* counts up; odd: a writer is in a turn, or died there */
    PAGE_STALE = FORMAT_STALE, /* 1: marked pages have old checksums also between turns */
    PAGE_RECORDS = 16,
    PAGE_KEYS_ADDED = 24,
    PAGE_SYNC_FAILED = 32, /* 1: a sync of some writer has failed in this session */
    PAGE_PLACE = 40,       /* tells this file, while the machine runs, from copies of it */
    PAGE_PROFILE = 48,     /* of the keys of writers that have left */
    PAGE_USED = PAGE_PROFILE + PROFILE_BYTES,
};

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
    return page_of(f)[PAGE_TURN] % 2 != 0;
}

/* Of this file until the machine starts anew; 0: unknown. */
static uint64_t place_now(const struct filter *f)
{
    struct stat st;
    uint8_t place[24];
    uint64_t boot = port_boot();
    if (boot == 0 || fstat(f->fd, &st) != 0)
        return 0;
    put_le64(place, boot);
    put_le64(place + 8, (uint64_t)st.st_dev);
    put_le64(place + 16, (uint64_t)st.st_ino);
    return xxh3_bytes(place, sizeof place, 0);
}

/* Is all here that the writers of this session have stored? Not if the machine has crashed since,
 * or the file was copied beside them. */
static bool is_complete(const struct filter *f)
{
    uint64_t place = get_le64(page_of(f) + PAGE_PLACE);
    return place != 0 && place == place_now(f);
}

static bool sync_file(struct session *s, struct err *err)
{
    if (disk_sync(s->filter->fd, s->filter->map, s->filter->map_len, s->filter->path, err))
        return true;
    if (s->filter->header.state == STATE_WRITING)
        page_of(s->filter)[PAGE_SYNC_FAILED] = 1;
    return false;
}

static bool write_slot(const struct filter *f, const struct header *h, struct err *err)
{
    uint8_t slot[FORMAT_MAX_HEADER];
    size_t len = format_encode(h, slot);
    uint64_t at = h->epoch % 2 == 0 ? FORMAT_SLOT_A : FORMAT_SLOT_B;
    return disk_write(f->fd, slot, len, at, f->path, err);
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

bool session_change(struct session *s, const struct header *h, struct err *err)
{
    const struct filter *f = s->filter;
    struct header next = *h;
    next.state = f->header.state;
    next.counters = f->header.counters;
    if (f->in_memory) {
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

static void mark_in_turn(const struct filter *f, bool on)
{
    uint8_t *turn = page_of(f) + PAGE_TURN;
    page_barrier();
    put_le32(turn, (get_le32(turn) | 1) + (on ? 0 : 1));
    page_barrier();
}

static void store_counters(struct session *s)
{
    uint8_t *p = page_of(s->filter);
    put_le64(p + PAGE_RECORDS, s->counters.records);
    put_le64(p + PAGE_KEYS_ADDED, s->counters.keys_added);
    s->records = s->counters.records;
    mark_in_turn(s->filter, false);
}

/* Counts the keys by the bits, after a writer was killed. */
static void recount(struct session *s)
{
    chain_recount(filter_layers(s->filter), parallel_cpus(), &s->counters);
    s->found_dead = true;
}

static struct counters stored_counters(const struct filter *f)
{
    const uint8_t *p = page_of(f);
    return (struct counters){get_le64(p + PAGE_RECORDS), get_le64(p + PAGE_KEYS_ADDED)};
}

/* In the turn of a writer that was killed, they are not complete. */
static void take_counters(struct session *s, struct counters now)
{
    s->counters = now;
    s->records = now.records;
    if (is_in_turn(s->filter))
        recount(s);
}

/* ---- Ending a session. */

static size_t touched_bytes(const struct layer *layer)
{
    return (size_t)((layer_pages(layer) + 7) / 8);
}

/* Only nonzero bytes are cleared, so that untouched pages of the bitmap stay clean. */
static void clear_marks(const struct filter *f)
{
    for (unsigned i = 0; i < f->header.n_layers; i++) {
        const struct layer *l = &f->header.layers[i];
        uint8_t *touched = f->map + l->touched_off;
        uint64_t bytes = touched_bytes(l);
        for (uint64_t at = 0; at < bytes; at++)
            if (touched[at] != 0)
                touched[at] = 0;
    }
}

static void renew_layer(const struct filter *f, unsigned layer)
{
    const struct layer *l = &f->header.layers[layer];
    const uint8_t *touched = f->map + l->touched_off;
    uint64_t bytes = touched_bytes(l);
    for (uint64_t i = 0; i < bytes; i++)
        for (unsigned bit = 0; touched[i] >> bit != 0; bit++)
            if (touched[i] >> bit & 1 && i * 8 + bit < layer_pages(l))
                pages_renew_sum(f, layer, i * 8 + bit);
}

static bool has_marks(const struct filter *f)
{
    for (unsigned i = 0; i < f->header.n_layers; i++) {
        const struct layer *l = &f->header.layers[i];
        if (!bytes_zero(f->map + l->touched_off, touched_bytes(l)))
            return true;
    }
    return false;
}

/* Clears the marks, after the checksums of the touched pages were renewed, if `stale`, and all is
 * on disk: readers look at them when a checksum does not match (pages.c), and after a crash of the
 * machine the next writer does. */
static bool seal(struct session *s, bool stale, struct err *err)
{
    const struct filter *f = s->filter;
    for (unsigned i = 0; i < f->header.n_layers && stale; i++)
        renew_layer(f, i);
    page_barrier();
    if (!sync_has_failed(f) && has_marks(f) && !sync_file(s, err))
        return false;
    clear_marks(f);
    return true;
}

/* Adds what this writer's keys look like to what others have left. */
static void store_profile(const struct session *s)
{
    struct profile all;
    uint8_t *p = page_of(s->filter) + PAGE_PROFILE;
    if (s->learned.n == 0)
        return;
    if (!profile_decode(p, &all)) /* a writer died there */
        all = (struct profile){0};
    profile_add(&all, &s->learned);
    profile_encode(&all, p);
}

/* Ends the session, once the checksums of all touched pages are renewed: marks the file clean, or
 * dirty. The data is synced even if the mark is not: a mark CLEAN on disk must be true. */
static bool close_file(struct session *s, enum file_state state, bool sync, struct err *err)
{
    struct filter *f = s->filter;
    struct header next = f->header;
    struct profile all;
    next.state = state;
    next.counters = s->counters;
    if (profile_decode(page_of(f) + PAGE_PROFILE, &all))
        header_learn(&next, &all, f->header.counters.keys_added, s->counters.keys_added);
    page_barrier();
    /* The note of a failed sync stays: this writer may be killed before the file is dirty. */
    if (state == STATE_CLEAN)
        memset(page_of(f), 0, PAGE_USED);
    return sync_header(s, err) && publish(s, next, sync, err);
}

/* Are the bytes zero that follow the session page's fields, and the marks of each layer? What was
 * written over marks by mistake hardly ended with them. */
static bool marks_hold(const struct filter *f)
{
    bool ok = bytes_zero(page_of(f) + PAGE_USED, FORMAT_PAGE - PAGE_USED);
    for (unsigned i = 0; i < f->header.n_layers; i++) {
        const struct layer *l = &f->header.layers[i];
        uint64_t end = l->touched_off + touched_bytes(l);
        ok = ok && bytes_zero(f->map + end, (size_t)(l->data_off - end));
    }
    return ok;
}

/* Ends a session whose writers are all dead. If they were killed, everything that they stored is
 * there, so this does what the last of them would have done. Else marked pages and their checksums
 * may be of different times, and pages that lost their mark look as damaged ones do. So all pages
 * are checked: one that neither matches nor is marked makes the file dirty, as a failed sync does.
 */
static bool recover(struct session *s, struct err *err)
{
    const struct filter *f = s->filter;
    uint64_t unchecked;
    bool hold = marks_hold(f);
    s->counters = f->header.counters;
    s->found_dead = true;
    filter_expect(f, true);
    if (!seal(s, hold && (!is_complete(f) || is_stale(f) || is_in_turn(f)), err))
        return false;
    bool whole = pages_check_all(f, parallel_cpus(), &unchecked, NULL, NULL) == 0;
    if (whole)
        recount(s);
    bool sound = whole && hold && !sync_has_failed(f);
    return close_file(s, sound ? STATE_CLEAN : STATE_DIRTY, true, err);
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

/* Begins a session in a clean file. */
static bool start(struct session *s, struct err *err)
{
    struct filter *f = s->filter;
    struct header next = f->header;
    uint64_t stamp;
    s->counters = f->header.counters;
    if (!port_random(&stamp, sizeof stamp))
        return fail_errno(err, "cannot get random numbers");
    /* Nothing checks the marks and the session page of a clean file: they may be damaged. */
    clear_marks(f);
    memset(page_of(f), 0, FORMAT_PAGE);
    next.state = STATE_WRITING;
    if (!publish(s, next, true, err))
        return false;
    stamp |= 1;
    put_le64(page_of(f) + PAGE_PLACE, place_now(f));
    memcpy(page_of(f) + PAGE_STAMP, &stamp, sizeof stamp);
    store_counters(s);
    return true;
}

/* Locks the session byte exclusively if nobody else holds it; *alone tells whether. */
static bool try_alone(const struct filter *f, bool *alone, struct err *err)
{
    *alone = lock_try(f->fd, F_WRLCK, LOCK_SESSION);
    return *alone || errno == EAGAIN || errno == EACCES ||
           fail_errno(err, "cannot lock '%s'", f->path);
}

/* Called with the turn lock held: prepares the file for changes of bits. The session byte is held
 * from before the mark is set until it is removed: filter_health relies on that. */
static bool enter(struct session *s, struct err *err)
{
    struct filter *f = s->filter;
    bool alone;
    if (!try_alone(f, &alone, err) || !filter_reload(f, err))
        return false;
    if (!alone && f->header.state == STATE_CLEAN)
        return fail(err, "'%s' is damaged: its header was lost while keys were added", f->path);
    if ((alone && f->header.state == STATE_WRITING && !recover(s, err)) || !check_not_dirty(f, err))
        return false;
    if (!alone)
        take_counters(s, stored_counters(f));
    else if (!start(s, err))
        return false;
    if (!lock_try(f->fd, F_RDLCK, LOCK_SESSION))
        return fail_errno(err, "cannot lock '%s'", f->path);
    s->entered = true;
    memcpy(&s->stamp, page_of(f) + PAGE_STAMP, sizeof s->stamp);
    return true;
}

/* Called with the turn lock held, in a session: takes up what others have done. Fails if another
 * file, or an older state of this one, was copied over the file: while this writer holds the
 * session byte, the session page keeps its stamp, and its count of records does not go back. */
static bool take_up(struct session *s, struct err *err)
{
    const struct filter *f = s->filter;
    if (!filter_refresh(s->filter, err))
        return false;
    struct counters now = stored_counters(f);
    bool has_grown = now.records - s->records <= INT64_MAX;
    if (memcmp(page_of(f) + PAGE_STAMP, &s->stamp, sizeof s->stamp) != 0 || !has_grown)
        return fail(err, "'%s' was overwritten while it was in use", f->path);
    take_counters(s, now);
    return true;
}

/* Does the path still name the file, or nothing, as after it was moved? */
static bool is_named(const struct filter *f, bool *named, struct err *err)
{
    struct stat held, now;
    if (fstat(f->fd, &held) != 0)
        return fail_errno(err, "cannot look at '%s'", f->path);
    *named = true;
    if (stat(f->path, &now) == 0)
        *named = disk_same_file(&held, &now);
    else if (errno != ENOENT)
        return fail_errno(err, "cannot continue with '%s'", f->path);
    else if (held.st_nlink == 0)
        return fail(err, "'%s' was removed while keys were added", f->path);
    return true;
}

static bool not_synced(const struct session *s, struct err *err)
{
    return fail(err, "'%s' could not be synced", s->filter->path);
}

/* After a failed sync it is unknown what is on disk: the last writer marks the file dirty.
 * Checksums that are not stale stay as they are, or damage of marked pages would be hidden. */
static bool end_session(struct session *s, bool sync, struct err *err)
{
    struct err why;
    if (!seal(s, is_stale(s->filter) || is_in_turn(s->filter), err))
        return false;
    if (!sync_has_failed(s->filter))
        return close_file(s, STATE_CLEAN, sync, err);
    close_file(s, STATE_DIRTY, true, &why);
    return not_synced(s, err);
}

/* Another file has the name: goes on only with one that was made from all keys of the old one. */
static bool check_successor(const struct session *s, const struct header *now, struct err *err)
{
    uint8_t id[sizeof now->id];
    if (sync_has_failed(s->filter))
        return not_synced(s, err);
    filter_successor_id(s->filter, id);
    return memcmp(id, now->id, sizeof id) == 0 ||
           fail(err, "'%s' was replaced while keys were added: run this again", s->filter->path);
}

/* Continues with the file that has the name now. */
static bool move_on(struct session *s, struct err *err)
{
    struct filter now;
    if (!filter_open(&now, s->filter->path, FILTER_WRITE, err))
        return false;
    if (!check_successor(s, &now.header, err)) {
        filter_close(&now);
        return false;
    }
    filter_close(s->filter);
    *s->filter = now;
    *s = (struct session){.filter = s->filter, .acted = s->acted};
    return true;
}

static void unlock(const struct session *s)
{
    lock_release(s->filter->fd, LOCK_TURN);
}

/* Releases the locks of a failed step. */
static bool give_up(const struct session *s)
{
    if (!s->entered)
        lock_release(s->filter->fd, LOCK_SESSION);
    unlock(s);
    return false;
}

static bool lock_current(struct session *s, struct err *err)
{
    for (bool named = false; !named;) {
        if (!lock_turn(s->filter->fd, s->filter->path, true))
            return sig_caught() ? fail(err, "interrupted while waiting for '%s'", s->filter->path)
                                : fail_errno(err, "cannot lock '%s'", s->filter->path);
        if (!is_named(s->filter, &named, err) || (!named && !move_on(s, err)))
            return give_up(s);
    }
    return (s->entered ? take_up(s, err) && check_not_dirty(s->filter, err) : enter(s, err)) ||
           give_up(s);
}

bool session_begin(struct session *s, struct filter *f, struct err *err)
{
    *s = (struct session){.filter = f, .counters = f->header.counters};
    if (f->in_memory)
        return true;
    if (!lock_current(s, err))
        return false;
    unlock(s);
    return true;
}

bool session_lock(struct session *s, struct err *err)
{
    struct filter *f = s->filter;
    if (f->in_memory)
        return true;
    if (!lock_current(s, err))
        return false;
    pages_distrust(f);
    s->acted = true;
    if (is_in_turn(f)) /* a writer that died there has not renewed checksums */
        page_of(f)[PAGE_STALE] = 1;
    mark_in_turn(f, true);
    return true;
}

/* Touches pages of a layer; `first` counts those that no writer had touched before. */
struct touch {
    struct session *s;
    unsigned layer;
    uint8_t *touched;
    uint64_t first;
    struct err *err;
};

/* Are checksums not renewed at the end of this turn? */
static bool changes_many(const struct session *s)
{
    return s->n_changed > SESSION_FEW;
}

static bool is_noted(const struct session *s, unsigned layer, uint64_t page)
{
    for (unsigned i = 0; i < s->n_changed; i++)
        if (s->changed[i].layer == layer && s->changed[i].page == page)
            return true;
    return false;
}

/* Notes that this turn changes the page. Before its first change, the checksum must match, not only
 * when it was last looked at; also that of a marked page, if it is up to date. */
static bool touch(void *ctx, uint64_t page)
{
    struct touch *t = ctx;
    struct session *s = t->s;
    uint8_t *marks = t->touched + page / 8, bit = (uint8_t)(1u << page % 8);
    bool marked = __atomic_load_n(marks, __ATOMIC_RELAXED) & bit;
    /* A rotation in this turn takes the marks of a layer away. */
    if (marked && (changes_many(s) || is_noted(s, t->layer, page)))
        return true;
    if (!pages_check_one(s->filter, t->layer, page, t->err))
        return false;
    if (s->n_changed < SESSION_FEW)
        s->changed[s->n_changed] = (struct session_page){t->layer, page};
    s->n_changed += !changes_many(s);
    if (!marked)
        __atomic_fetch_or(marks, bit, __ATOMIC_RELAXED);
    t->first += !marked;
    return true;
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
    if (s->filter->in_memory)
        return true;
    struct touch t = {
        .s = s, .layer = layer, .touched = s->filter->map + l->touched_off, .err = err};
    bool is_short = layer_pages(l) / 8 <= n * BYTES_A_KEY;
    if (is_stale(s->filter))
        s->n_changed = SESSION_FEW + 1;
    bool ok = (changes_many(s) && is_short && all_touched(l, t.touched)) ||
              layer_each_page(l, s->filter->data[layer], keys, n, touch, &t);
    s->n_touched += t.first;
    /* In a small layer each page counts for much (repair.h), so marks are on disk before what they
     * mark can be. */
    if (ok && t.first > 0 && layer_pages(l) <= SESSION_FEW && !sync_file(s, err))
        return false;
    /* A reader that sees a changed bit must also see the page marked (pages.c: is_touched). */
    atomic_thread_fence(memory_order_release);
    return ok;
}

void session_unlock(struct session *s)
{
    if (s->filter->in_memory)
        return;
    /* After a turn that changed few pages, their checksums are renewed at once, so that readers can
     * check them while the writer waits for input. To do so after many keys would double the time.
     */
    if (changes_many(s))
        page_of(s->filter)[PAGE_STALE] = 1;
    else if (!is_stale(s->filter))
        for (unsigned i = 0; i < s->n_changed; i++)
            pages_renew_sum(s->filter, s->changed[i].layer, s->changed[i].page);
    s->n_changed = 0;
    store_counters(s);
    unlock(s);
}

bool session_sync(struct session *s, struct err *err)
{
    return sync_has_failed(s->filter) ? not_synced(s, err) : sync_file(s, err);
}

/* Are the keys in the file that has the name? If none has, they are in the one that had it.
 * *succeeded: another file has it, and was made from all keys of this one. */
static bool check_name(const struct session *s, bool *succeeded, struct err *err)
{
    bool named;
    struct header now;
    if (!is_named(s->filter, &named, err))
        return false;
    *succeeded =
        !named && filter_read_header(s->filter->path, &now, err) && check_successor(s, &now, err);
    return named || *succeeded;
}

/* Called with the turn lock held. `synced`: this writer's keys are on disk already. A file with a
 * successor, and no other name, stays as it is: writers that come to it later compare the two. */
static bool leave(struct session *s, bool succeeded, bool sync, bool synced, struct err *err)
{
    struct err damage;
    struct stat st;
    bool alone;
    /* A truncated file is found by reading it; to look at its mapping would end the process. */
    if (!filter_reload(s->filter, err) || !take_up(s, err) || !try_alone(s->filter, &alone, err))
        return false;
    bool sound = pages_check_used(s->filter, &damage);
    bool nameless = fstat(s->filter->fd, &st) == 0 && st.st_nlink == 0;
    bool stays = succeeded && nameless, ends = alone && !stays;
    if (!stays)
        store_profile(s);
    if (!(ends ? end_session(s, sync, err) : synced || !sync || session_sync(s, err)))
        return false;
    return sound || fail(err, "%s", damage.text);
}

/* With more touched pages than this (4 MiB), even the last writer syncs them before it takes the
 * turn lock, so that nobody waits for it long. */
enum { SYNC_ASIDE = 1024 };

bool session_end(struct session *s, bool sync, struct err *err)
{
    const struct filter *f = s->filter;
    struct err why;
    if (f->in_memory) {
        s->filter->header.counters = s->counters;
        return true;
    }
    if (!s->entered)
        return true;
    bool aside = lock_alive(f->fd) ? sync : s->n_touched > SYNC_ASIDE;
    bool good = !aside || session_sync(s, &why);
    if (!lock_turn(f->fd, f->path, false))
        return fail_errno(err, "cannot lock '%s'", f->path);
    bool succeeded = false;
    good = good && (check_name(s, &succeeded, &why) || !s->acted);
    bool ok = leave(s, succeeded, sync, aside, err);
    lock_release(f->fd, LOCK_SESSION);
    s->entered = false;
    unlock(s);
    return ok && (good || fail(err, "%s", why.text));
}

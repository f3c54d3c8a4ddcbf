/* SPDX-License-Identifier: MIT
 * Writing to a filter file in place, beside any number of other writers and readers.
 *
 *     struct session s;
 *     if (!session_begin(&s, &filter, &err)) ...          // filter opened with FILTER_WRITE
 *     for each turn, some keys long:
 *         if (!session_lock(&s, &err)) ...
 *         ... call session_touch, then change the bits in the mapping ...
 *         session_unlock(&s);
 *     if (!session_end(&s, sync, &err)) ...                // now the keys are on disk
 *
 * Each writer holds the session byte (lock.h) shared for its life and the turn byte exclusively
 * while it changes something. The first writer marks the file as being written, on disk, before it
 * changes a bit. A page is marked as touched before it is changed. The last writer to leave is the
 * one that gets the session byte exclusively. It renews the checksums of all pages touched by any
 * writer, stores the counters and marks the file clean.
 *
 * A writer that is killed leaves nothing uncertain on a running system: all that it stored is in
 * the page cache, and its pages are marked. The last of the other writers ends its session with
 * theirs; if there are none, the next session_begin does. Between turns of few pages, even marked
 * pages match their checksums. The session page tells whether the machine has run since.
 *
 * In a clean file the marks and the session page mean nothing. Whoever begins a session zeroes
 * them.
 *
 * Bits only change from 0 to 1. So every key acknowledged earlier is still present, whatever part
 * of an interrupted turn reached the disk.
 *
 * A power cut may keep any of the pages written since the last sync and lose the others, in any
 * order. A page that was being written may be torn. Therefore:
 *
 * - After a crash, a page that matches its checksum is as protected as ever. One that does not, and
 *   is marked as touched, was being written: its checksum is renewed. One that does not and is not
 *   marked is regarded as damaged. Readers refuse it, and the next writer marks the file dirty,
 *   which only a repair undoes (repair.h).
 * - A crash leaves such a page only in a layer of more than SESSION_FEW pages, where it reached the
 *   disk and its mark, which was set since the last sync, did not; or after a failed sync. In
 *   smaller layers, where each page that a repair fills counts for much, marks are synced before
 *   their pages are changed. They are cleared once data and checksums are on disk.
 * - A file that is marked clean on disk has all its data and checksums on disk. Otherwise readers
 *   would refuse pages whose checksums do not match, and with them keys synced earlier; a repair
 *   could not tell such pages from damage. So the last writer syncs the data before it writes the
 *   mark CLEAN, even with sync false. That setting saves only the sync of the mark itself and all
 *   syncs of writers that are not the last.
 * - The mark WRITING, and every change of layers, is on disk before bits are changed.
 * - A header is written to one slot only when the header in the other slot is on disk. A process
 *   that did not sync that header itself syncs it first: the writer of the header may have been
 *   killed before its sync.
 * - After a failed sync it is unknown which pages are on disk, and later syncs succeed (the kernel
 *   reports the error once). The process says so in the session page and acknowledges no more keys,
 *   nor does any other writer of this session. The last of them marks the file dirty. Nothing is
 *   added to a dirty file before its repair (repair.h), which makes a new file of its bits.
 *
 * A filter in memory (filter_open_memory) has turns, too, in which there is nothing to lock, to
 * mark or to sync.
 */
#ifndef FILE_SESSION_H
#define FILE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "file/filter.h"

enum { SESSION_FEW = 256 }; /* pages: the most whose checksums are renewed after each turn */

struct session_page {
    unsigned layer;
    uint64_t page;
};

struct session {
    struct filter *filter;
    struct counters counters; /* live, shared: read under the lock */
    struct profile learned;   /* of the keys of this writer; set by the caller before the end */
    bool found_dead;          /* another writer ended without leaving: it was killed, or the machine
                                 crashed */
    /* The rest is private to session.c. */
    bool entered;            /* this writer holds the session byte; the file is marked */
    bool acted;              /* session_lock has succeeded: keys may rely on the file */
    uint64_t stamp, records; /* of the session page, as this writer last saw it */
    uint64_t epoch_on_disk;  /* of the last header that this process has synced; 0: none */
    uint64_t n_touched;      /* pages that this process was the first to touch */
    unsigned n_changed;      /* in this turn; more than SESSION_FEW: not all are in `changed` */
    struct session_page changed[SESSION_FEW];
};

bool session_begin(struct session *s, struct filter *f, struct err *err);

/* Waits for the turn lock; fails if a signal is caught (sig.h). Afterwards header, layers and
 * counters are up to date. If the path now names another file, goes on with it if that was made
 * from this one (filter_successor_id), else fails. */
bool session_lock(struct session *s, struct err *err);

/* Marks the pages of these keys, at most LAYER_BATCH, as touched in a layer. Verifies the checksums
 * of pages that the session has not touched yet (pages_check_one), because a new checksum would
 * hide damage; fails if one does not match. Called with the lock held, before bits are changed;
 * after a failure, change none. */
bool session_touch(struct session *s, unsigned layer, struct hashes keys, size_t n,
                   struct err *err);

/* Stores s->counters, as changed by the caller, and releases the lock. */
void session_unlock(struct session *s);

/* Called with the lock held: writes `h` as the file's header, to both slots, synced, in two epochs.
 * State and counters are taken from the session. The layers must already be in the file, and the
 * filter prepared (filter_prepare). */
bool session_change(struct session *s, const struct header *h, struct err *err);

/* Syncs this writer's keys to disk; the session continues. After one failure it always fails. */
bool session_sync(struct session *s, struct err *err);

/* Leaves; the last writer makes the file clean. `sync` false trades durability for speed: after a
 * crash of the machine, not of the process, keys of this session may be lost and the file may be
 * dirty. Fails if the keys are not in the file that has the name now. The session is over even if
 * this fails. */
bool session_end(struct session *s, bool sync, struct err *err);

/* Is a repair needed before the next session, as the file says? */
bool session_is_dirty(const struct filter *f);

#endif

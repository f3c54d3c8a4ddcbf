/*
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
 * A writer that is killed on a running system leaves nothing uncertain: all that it stored is in
 * the page cache, and its pages are marked. The last of the other writers ends its session with
 * theirs; if there are none, the next session_begin does. The session page tells a kill from a
 * crash of the machine: it has a stamp of the machine's boot and of the file (device and inode), so
 * that a copy of the file counts as after a crash.
 *
 * Bits only change from 0 to 1. So every key acknowledged earlier is still present, whatever part
 * of an interrupted turn reached the disk.
 *
 * A power cut may keep any of the pages written since the last sync and lose the others, in any
 * order. A page that was being written may be torn. Therefore:
 *
 * - After a crash, a page that matches its checksum is as protected as ever. One that does not, and
 *   is marked as touched, was being written: its checksum is renewed. One that does not and is not
 *   marked may have lost its mark, or be damaged. Readers refuse it, and the next writer marks the
 *   file dirty, which only a repair undoes: it accepts such pages.
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
 *   reports the error once). The process remembers the failure and acknowledges no more keys. It
 *   also marks the session page in memory, so that no other writer makes the file clean. A key that
 *   is found in the file is acknowledged only after its page was written again (session_rely). The
 *   writer that comes when all others have left writes every page again.
 */
#ifndef STORE_SESSION_H
#define STORE_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/filter.h"

enum { SESSION_USED = 36 }; /* bytes of the session page */

/* How a writer was found to have ended without leaving: killed, by a sync that failed, or with the
 * machine. A copy that was made while keys were added looks like the last. */
enum session_ending { END_NONE, END_KILLED, END_FAILED, END_CRASHED };

struct session {
    struct filter *filter;
    struct counters counters;  /* live, shared: read under the lock */
    bool replaced;             /* the last session_lock found another file under the name */
    enum session_ending found; /* of another writer */
    bool locked;
    /* The rest is private to session.c. */
    bool entered;               /* this writer holds the session byte; the file is marked */
    bool in_turn;               /* this writer has marked the session page so */
    bool broken;                /* a sync has failed; the kernel reports that only once */
    uint64_t stamp, records;    /* of the session page, as this writer last saw it */
    uint64_t epoch_on_disk;     /* of the last header that this process has synced; 0: none */
    _Atomic uint64_t n_touched; /* pages that this process was the first to touch */
};

bool session_begin(struct session *s, struct filter *f, struct err *err);

/* Waits for the turn lock; fails if a signal is caught (sig.h). Afterwards header, layers and
 * counters are up to date. If the path now names another file, opens that file instead, continues
 * the session there, and sets s->replaced (once). */
bool session_lock(struct session *s, struct err *err);

/* Marks the pages of these keys, at most LAYER_BATCH, as touched in a layer. Verifies the checksums
 * of pages that the session has not touched yet (filter_check_page), because a new checksum would
 * hide damage; fails if one does not match. Called with the lock held, before bits are changed;
 * after a failure, change none. Several threads of the process may call it at once. */
bool session_touch(struct session *s, unsigned layer, struct hashes keys, size_t n,
                   struct err *err);

/* Called with the lock held, for keys that are acknowledged but not added, because the layer has
 * them already: those whose bit is set in `present`. After a failed sync, makes the next sync write
 * their pages, which the kernel may wrongly regard as written. */
void session_rely(const struct session *s, unsigned layer, struct hashes keys, size_t n,
                  const uint64_t *present);

/* Stores s->counters, as changed by the caller, and releases the lock. */
void session_unlock(struct session *s);

/* Called with the lock held: writes `h` as the file's header, to both slots, synced, in two epochs.
 * State and counters are taken from the session. The layers must already be in the file, and the
 * filter prepared (filter_prepare). */
bool session_change(struct session *s, const struct header *h, struct err *err);

/* Takes the turn lock without becoming a writer, to change layers only. Header, counters and a
 * replaced file are handled as by session_lock. */
bool session_hold(struct session *s, struct filter *f, struct err *err);
void session_release(struct session *s);

/* Syncs this writer's keys to disk; the session continues. After one failure it always fails. */
bool session_sync(struct session *s, struct err *err);

/* Leaves; the last writer makes the file clean. `sync` false trades durability for speed: after a
 * crash of the machine, not of the process, keys of this session may be lost and the file may be
 * dirty. The session is over even if this fails. */
bool session_end(struct session *s, bool sync, struct err *err);

/* Is the session page what it may be in a clean file: zero, or as when a session begins or ends? */
bool session_page_fits(const struct filter *f);

/* May pages that do not match have come from a crash of the machine, or a sync that failed? A file
 * that a killed process left is not uncertain. */
bool session_is_uncertain(const struct filter *f);

/* For `verify --repair`, also beside living writers: ends a session whose writers are all dead,
 * accepts the pages of a dirty file as they are, takes n from the bits, and renews a damaged header
 * slot. *differing counts pages whose checksum had not matched. In a file that is not dirty, a page
 * that differs and is not touched is damage, and makes the repair fail. */
bool session_repair(struct filter *f, unsigned threads, uint64_t *differing, struct err *err);

#endif

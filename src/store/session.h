/*
 * Writing to a filter file in place, beside any number of other writers and readers.
 *
 *     struct session s;
 *     if (!session_begin(&s, &filter, &err)) ...          // filter opened with FILTER_WRITE
 *     for each batch of keys:
 *         if (!session_lock(&s, &err)) ...
 *         ... tell session_touch of the pages, and change their bits in the mapping ...
 *         session_unlock(&s);
 *     if (!session_end(&s, sync, &err)) ...                // now the keys are on disk
 *
 * Each writer holds the session byte (lock.h) shared for its life and the batch byte exclusively
 * for a batch. The first writer marks the file as being written, on disk, before it changes a bit.
 * The last one out, which is the one that can have the session byte for itself, renews the
 * checksums of all pages touched by anybody, stores the counters and marks the file clean. A writer
 * that is killed leaves the file marked; while others are at work that is mended by the last of
 * them, and if there was no other, session_begin marks the file dirty, which only a repair undoes.
 *
 * Bits only ever go from 0 to 1, so whatever part of an interrupted batch reached the disk, every
 * key that was acknowledged before is still there.
 *
 * A power cut may keep any of the pages that were written since the last sync and lose the others,
 * in any order; a page that was being written may be torn. Therefore:
 *
 * - A file that is marked clean on disk has all its data and checksums on disk. Otherwise readers
 *   would refuse pages that do not match, and with them keys that were synced before, and a repair
 *   could not tell them from damage. So the last writer out syncs the data before it writes the
 *   mark CLEAN, even without sync: what is saved then is the sync of the mark itself, and all
 *   syncs of a writer that is not the last. If power is cut, the file is dirty, not damaged.
 * - The mark WRITING, and every change of layers, is on disk before bits are changed.
 * - A header is written to one slot only when the header in the other slot is on disk. A process
 *   that has not synced it itself syncs it first: its writer may have been killed before it could.
 * - After a failed sync it is unknown which pages are on disk, and later syncs succeed (the kernel
 *   reports the error once). The process remembers the failure, acknowledges no more keys, and
 *   marks the session page, so that no other writer makes the file clean; this needs no disk. A
 *   repair writes every page again. Until then, a key that is found in the file is acknowledged
 *   only after its page was written again (session_rely).
 */
#ifndef STORE_SESSION_H
#define STORE_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/filter.h"

struct session {
    struct filter *filter;
    struct counters counters; /* live, shared: read under the lock */
    bool replaced;            /* the last session_lock found another file under the name */
    bool locked;
    /* The rest is private to session.c. */
    bool entered;               /* the session byte is ours, the file is marked */
    bool broken;                /* a sync has failed: the kernel tells that only once */
    uint64_t epoch_on_disk;     /* of the last header that this process has synced; 0: none */
    _Atomic uint64_t n_touched; /* pages that this process was the first to touch */
};

bool session_begin(struct session *s, struct filter *f, struct err *err);

/* Waits for the batch lock; fails if a signal is caught (sig.h). Afterwards header, layers and
 * counters are up to date. If the path now names another file, opens that file instead, continues
 * the session there, and sets s->replaced (once). */
bool session_lock(struct session *s, struct err *err);

/* Marks the pages of these keys, at most LAYER_BATCH, as touched in a layer. Verifies the checksums
 * of pages that the session has not touched yet (filter_verify), because a new checksum would hide
 * damage; fails if one does not match. Call it under the lock before changing bits, and change none
 * if it fails. Several threads of the process may call it at once. */
bool session_touch(struct session *s, unsigned layer, struct hashes keys, size_t n,
                   struct err *err);

/* For keys that are acknowledged without being added because a layer has them: those whose bit is
 * set in `present`. In a dirty file, or after a failed sync, makes the next sync write their pages:
 * the kernel may regard these as written although they are not. Call it under the lock. */
void session_rely(const struct session *s, unsigned layer, struct hashes keys, size_t n,
                  const uint64_t *present);

/* Must keys that a layer has be relied on so? */
bool session_doubts(const struct session *s);

/* Stores s->counters, as changed by the caller, and releases the lock. */
void session_unlock(struct session *s);

/* Writes `h` as the file's header, under the lock: to both slots, synced, in two epochs. State and
 * counters are the session's. The layers must already be in the file, and the filter prepared
 * (filter_prepare). */
bool session_change(struct session *s, const struct header *h, struct err *err);

/* Takes the batch lock without becoming a writer, to change layers only. Header, counters and a
 * replaced file are handled as by session_lock. */
bool session_hold(struct session *s, struct filter *f, struct err *err);
void session_release(struct session *s);

/* Syncs this writer's keys to disk; the session continues. After one failure it always fails. */
bool session_sync(struct session *s, struct err *err);

/* Leaves; the last one out makes the file clean. `sync` false trades durability for speed: after a
 * crash of the machine, not of the process, keys of this session may be lost and the file may be
 * dirty. The session is over even if this fails. */
bool session_end(struct session *s, bool sync, struct err *err);

/* For `verify --repair`: with every writer locked out, renews all checksums and both header slots,
 * takes n from the bits, and marks the file clean. *differing counts pages whose checksum had not
 * matched. In a file that is clean only a damaged header slot is renewed; a page that differs there
 * is damage, and a failure. */
bool session_repair(struct filter *f, unsigned threads, uint64_t *differing, struct err *err);

#endif

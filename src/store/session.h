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
 * - After a sync that failed, nobody knows which pages are on disk, and later syncs succeed (the
 *   kernel reports the error once). The process remembers it, acknowledges nothing more, and notes
 *   it in the session page, so that nobody else makes the file clean; this needs no disk. A repair
 *   writes every page again. Until then, a key that is found there is only acknowledged after its
 *   page was written again (session_rely).
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

/* Waits for the batch lock, or until a signal is caught (sig.h), which is a failure. Afterwards
 * header, layers and counters are those of now. If the path has
 * come to name another file, that file is opened in place of this one, the session goes on there,
 * and s->replaced is set (once). */
bool session_lock(struct session *s, struct err *err);

/* Marks the pages of these keys, at most LAYER_BATCH, in a layer as touched; fails when one that
 * nobody in the session has touched yet does not hold its checksum (filter_verify), which would be
 * renewed over the damage. Call it under the lock, before the bits are changed, and then change
 * none if it fails; several threads of the process may call it at once. */
bool session_touch(struct session *s, unsigned layer, struct hashes keys, size_t n,
                   struct err *err);

/* For keys that are acknowledged without being added, because a layer has them: those whose bit is
 * set in `present`. In a dirty file, or after a sync that failed, makes the next sync write their
 * pages, which the kernel may take for written although they are not. Call it under the lock. */
void session_rely(const struct session *s, unsigned layer, struct hashes keys, size_t n,
                  const uint64_t *present);

/* Stores s->counters, as the caller has changed them, and lets the next writer in. */
void session_unlock(struct session *s);

/* Makes `h` the file's header, under the lock: in both slots, synced, in two epochs; its state and
 * counters are those that the session has. Everything that it speaks of is to be in the file by
 * then, and the filter prepared for it (filter_prepare). */
bool session_change(struct session *s, const struct header *h, struct err *err);

/* Holds the batch lock without becoming a writer: for a change of layers alone. What session_lock
 * says of the header, counters and a replaced file holds here too. */
bool session_hold(struct session *s, struct filter *f, struct err *err);
void session_release(struct session *s);

/* Syncs this writer's keys to disk, without leaving. Once that has failed, it always fails. */
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

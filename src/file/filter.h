/* SPDX-License-Identifier: MIT
 * An open, mapped filter file: reads its header, queries keys, counts bits.
 *
 *     struct filter f;
 *     if (!filter_open(&f, path, FILTER_READ, &err)) ...
 *     filter_query(&f, keys, n, present, &err);
 *     filter_close(&f);
 *
 * Opening reads only the header. Each page is checked against its checksum when a query first needs
 * it, and while others write at each use; on a mismatch filter_query fails rather than reporting a
 * key absent. Only pages that a writer has marked as touched, and whose checksum has not been
 * renewed since, cannot be checked. A writer checks a page before it marks and changes it
 * (session.h). If the mapped file shrinks or becomes unreadable while in use, the process ends with
 * a message and status 2.
 */
#ifndef FILE_FILTER_H
#define FILE_FILTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "file/format.h"
#include "file/layers.h"

enum filter_mode {
    FILTER_READ,
    FILTER_WRITE, /* for session.h; refuses files that cannot be written to */
};

enum filter_health {
    FILTER_CLEAN,
    FILTER_WRITING, /* a live process is adding keys */
    FILTER_DIRTY,   /* a process died while adding keys, and no writer has come since; or a repair
                       is needed */
};

struct filter {
    const char *path;   /* as given; must outlive the filter */
    int fd;             /* -1: not open */
    struct stat status; /* of the file, when the header was read */
    bool settled;       /* false: a writer was about to leave, and would change it once more */
    bool in_memory;     /* there is no file, or it is not made yet */
    bool unnamed;       /* the file has no name (filter_open_unnamed) */
    uint64_t foreign;   /* bytes of another program's files, of which this is a copy; 0: of none */
    bool writable;
    uint8_t *map; /* shared mapping of at least header.file_len bytes; NULL: not open */
    uint64_t map_len;
    struct header header;
    uint8_t *data[FORMAT_MAX_LAYERS]; /* of each layer, in the mapping; or memory of its own */
    bool slot_damaged;                /* one of the two header slots is damaged */
    bool may_be_copied;               /* by an overlay file system */
    /* Pages are checked on first use: a bit for each verified page, and the number unverified. */
    _Atomic uint64_t *verified[FORMAT_MAX_LAYERS];
    _Atomic uint64_t unverified[FORMAT_MAX_LAYERS];
    uint64_t trusted_since; /* when a writer last forgot them, in nanoseconds */
};

/* Can filters be changed in place on this system (port.h, PORT_COHERENT)? */
bool filter_may_change(const char *path, struct err *err);

/* Refuses a file to which standard output or standard error is redirected. */
bool filter_open(struct filter *f, const char *path, enum filter_mode mode, struct err *err);
void filter_close(struct filter *f);

/* The same, for reading, of an open file that has no name and is not changed any more. `path` is
 * for messages. Takes the descriptor; on failure it is closed. */
bool filter_open_unnamed(struct filter *f, int fd, const char *path, struct err *err);

/* The layout of another program whose files are `path` with suffixes; NULL: there are none. */
const struct kind *filter_in_files(const char *path);

/* An empty filter with this header in the memory of this process. It has no file, no pages to check
 * and no other users. */
bool filter_open_memory(struct filter *f, const struct header *h, struct err *err);

/* Only the header of a file. */
bool filter_read_header(const char *path, struct header *h, struct err *err);

/* How many distinct keys a file has; if its layers may share keys, at least that many. */
bool filter_fewest_keys(const char *path, unsigned threads, double *n, struct err *err);

/* The filter's layers, for layers.h. */
static inline struct layers filter_layers(const struct filter *f)
{
    return (struct layers){&f->header, f->data};
}

/* Sets bit i of present when key i is in any layer, after clearing bits 0..n-1. n is at most
 * LAYER_BATCH. Any number of threads may query at once. Fails if a page is damaged. */
bool filter_query(struct filter *f, struct hashes keys, size_t n, uint64_t *present,
                  struct err *err);
/* The same of all layers but one. */
bool filter_query_others(struct filter *f, unsigned except, struct hashes keys, size_t n,
                         uint64_t *present, struct err *err);

/* Sets count[i] to the count of key i, 0 if absent. Only for filters with kind->counts. n and
 * failures as above. */
bool filter_query_counts(struct filter *f, struct hashes keys, size_t n, uint64_t *count,
                         struct err *err);

/* Hints the access pattern: few keys, for which only the pages they need are read (the default), or
 * many keys or all pages, with read-ahead. */
void filter_expect(const struct filter *f, bool many);

/* The file's state, from its header and its locks. */
enum filter_health filter_health(const struct filter *f);

/* The epoch of the file now. */
uint64_t filter_epoch(const struct filter *f);

/* Was the header written since it was read? Cheap: reads two words of the mapping. */
bool filter_changed(const struct filter *f);

/* Has time passed, in a ring with a period, since its header was read or refreshed? Generations are
 * over by that time (header.now), which stays the same during a query. */
bool filter_is_late(const struct filter *f);

/* Reads the header again, as another process may have written it: the valid slot with the higher
 * epoch. Maps the file again if it has grown. On failure the old header and mapping stay in use.
 * Not to be called during queries of the same struct filter. */
bool filter_reload(struct filter *f, struct err *err);

/* Gets the memory needed once `h` becomes the file's header: the mapping, and the bits of verified
 * pages. On failure the filter can be used as before. */
bool filter_prepare(struct filter *f, const struct header *h, struct err *err);

/* Sets the time (filter_is_late). Calls filter_reload if the header was written since it was read,
 * or a writer was at its end, or the file is doubtful. */
bool filter_refresh(struct filter *f, struct err *err);

/* Fails if the file was overwritten in place (cp, rsync --inplace) or truncated since it was
 * opened, by anything but a writer. Then whatever was read from it may be a mixture of two files.
 * For files opened with FILTER_READ. Call it after reading and before using what was read; costs
 * one system call. */
bool filter_check_intact(const struct filter *f, struct err *err);

/* Did only times or links of the file change, its header not (touch, chown; or a copy of itself was
 * written over it)? Then it has the same contents once nobody changes it any more, but what was
 * read meanwhile is void: call filter_refresh and read again. Pages are then checked again. */
bool filter_is_doubtful(const struct filter *f);

/* The id of a file that takes the place of this one and has all its keys: a hash of the headers and
 * of the session page, which no other file shares, nor an earlier or later state of this one. By it
 * writers of the old file know the new one. Called with the turn lock held. */
void filter_successor_id(const struct filter *f, uint8_t id[static sizeof f->header.id]);

#endif

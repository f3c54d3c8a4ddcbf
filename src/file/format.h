/* SPDX-License-Identifier: MIT
 * The header of a filter file, in bytes and as a struct. man/seen.5 describes every byte; this
 * module implements that page. Decoding is a pure function of a buffer and trusts nothing.
 *
 * A file that changes in place (mutable) begins with two header slots of one page each and a
 * session page. Then each layer has its checksum table, touched bitmap and data, all page-aligned.
 * The valid slot with the higher epoch counts; epoch e is written to slot e mod 2. An immutable
 * file has one header of minimal length. Then each layer has its data and its checksum table,
 * padded to 8 bytes; so the length of the data need not be known when it is written.
 */
#ifndef FILE_FORMAT_H
#define FILE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/hash.h"
#include "keys/prep.h"
#include "keys/profile.h"
#include "keys/reading.h"
#include "kind/kind.h"

enum {
    FORMAT_VERSION = 1,
    FORMAT_PAGE = LAYER_PAGE,
    FORMAT_SUM = LAYER_SUM,
    FORMAT_SLOT_A = 0,
    FORMAT_SLOT_B = FORMAT_PAGE,
    FORMAT_SESSION = 2 * FORMAT_PAGE, /* the session page (session.h), with two fields ... */
    FORMAT_TURN = 8,
    FORMAT_STALE = 12, /* ... that readers look at (pages.c) */
    FORMAT_FIRST_LAYER = 3 * FORMAT_PAGE,
    FORMAT_MAX_LAYERS = 42, /* 256 + 42 * 88 bytes + FORMAT_FEATURES + 8 of checksum are a page */
    FORMAT_MAX_HEADER = FORMAT_PAGE,
    FORMAT_BATCH = 16,        /* bytes that identify a batch */
    FORMAT_MAX_BATCHES = 128, /* with one layer: 2400 bytes of header */
    FORMAT_FEATURES = 136,    /* bytes of compat features, before the checksum ... */
    FORMAT_PROFILE = 64,      /* ... of which the last are the profile of keys */
};

/* Feature words: an unknown bit in `compat` is ignored, in `ro_compat` it forbids writing, in
 * `incompat` it forbids reading.
 *
 * The compat bits from COMPAT_BYTES on are for features with bytes of their own. These bytes end
 * where the checksum begins, and no layer's entry gets there. A mutable slot has room for all
 * FORMAT_FEATURES; an immutable header has none of them without such a bit, FORMAT_PROFILE with
 * COMPAT_PROFILE alone, and all if a later bit is set. Bytes of which no bit tells are zero. So a
 * program can ignore a bit that it does not know, and keeps its bytes in the headers that it
 * writes. */
enum {
    COMPAT_ASSUMED = 1 << 0, /* capacity and rate are not stated by the filter's origin, but taken
                                from m and k: half of the bits set */
    COMPAT_INTERSECTED = 1 << 1, /* an intersection, at least in part: bits or fingerprints give
                                    only an upper bound of the number of keys */
    COMPAT_SUBTRACTED = 1 << 2,  /* a difference, at least in part: fingerprints give only a lower
                                    bound of the number of keys */
    COMPAT_ESTIMATED = 1 << 3,   /* the counters began with an estimate from the bits */
    COMPAT_JOINED = 1 << 4,      /* a growing filter has layers that a merge joined, which may have
                                    the same keys */
    /* Bits 8 to 15: the length in bytes of all keys of the filter, which are given in hexadecimal
     * digits (PREP_HEX); 0 if it is unknown or differs. */
    COMPAT_KEY_LEN_SHIFT = 8,
    COMPAT_KEY_LEN = 0xff << COMPAT_KEY_LEN_SHIFT,
    COMPAT_BYTES = 16,
    COMPAT_PROFILE = 1 << COMPAT_BYTES, /* a profile of the keys, or one may begin */
    COMPAT_KNOWN = COMPAT_ASSUMED | COMPAT_INTERSECTED | COMPAT_SUBTRACTED | COMPAT_ESTIMATED |
                   COMPAT_JOINED | COMPAT_KEY_LEN | COMPAT_PROFILE,
    RO_COMPAT_KNOWN = 0,
    INCOMPAT_IMMUTABLE = 1 << 0, /* one short header, no session, no alignment */
    INCOMPAT_BATCHES = 1 << 1,   /* the header has batches after the layers */
    INCOMPAT_SECRET = 1 << 2,    /* the header has the mark of a secret */
    INCOMPAT_KNOWN = INCOMPAT_IMMUTABLE | INCOMPAT_BATCHES | INCOMPAT_SECRET,
};

enum file_state {
    STATE_CLEAN = 0,   /* checksums and counters are valid */
    STATE_WRITING = 1, /* a writing session is active, or has crashed */
    STATE_DIRTY = 2,   /* pages differ since a crash or a failed sync; a repair accepts them */
};

/* What happens when a filter is full (chain.h). */
enum policy {
    POLICY_FIXED = 0, /* it takes more keys, and its FPR rises */
    POLICY_GROW = 1,  /* a layer is added */
    POLICY_RING = 2,  /* on request, the oldest layer is emptied and takes the new keys */
};

/* What was added. Neither number is ever lowered. A merge and an import count the keys that the
 * bits hold as if each had been given once; an import goes on with the other program's count, if
 * there is one. */
struct counters {
    uint64_t records;    /* records given, including repeats */
    uint64_t keys_added; /* keys that changed a layer; in a ring, each time that they did */
};

struct header {
    uint32_t compat, ro_compat, incompat;
    uint64_t epoch;
    enum file_state state;
    uint8_t id[16]; /* random; part of every page's checksum */
    const struct hash_fn *hash;
    uint64_t seed;
    struct hash_mark secret; /* zero without INCOMPAT_SECRET */
    uint32_t prep;           /* how keys are prepared (prep.h) */
    struct reading reading;  /* how they were cut from records */
    struct profile profile;  /* what they look like; only with COMPAT_PROFILE */
    enum policy policy;
    uint64_t n_design; /* 0: grows */
    double fpr_design;
    uint64_t file_len;         /* a growing file may be longer: its next layer is unfinished */
    uint64_t created, changed; /* seconds since 1970; 0: unknown (format_now) */
    struct counters counters;
    uint64_t made;   /* keys_added when the file was made; no filter has taken these for known */
    uint64_t period; /* seconds after which a ring begins its next generation; 0: when told to */
    uint64_t now;    /* by which a period's generations are over (filter.h); 0: none. In no file */
    uint8_t features[FORMAT_FEATURES];
    unsigned n_layers;
    struct layer layers[FORMAT_MAX_LAYERS];
    /* For kinds that count: the last batches that had an ID (change.h), oldest first. */
    unsigned n_batches;
    uint8_t batch[FORMAT_MAX_BATCHES][FORMAT_BATCH];
};

/* The length of this header: FORMAT_PAGE for mutable files. Depends on n_layers, n_batches and the
 * feature bits. */
size_t format_len(const struct header *h);

/* Encodes into `out` (FORMAT_MAX_HEADER bytes); returns format_len(h). */
size_t format_encode(const struct header *h, uint8_t *out);

/* Decodes one header slot; `avail` bytes at p may be read. Checks everything that can be checked
 * without reading data: magic, version, feature words, checksum, the range of every field, zeroes
 * where required, and that the layers, one behind the other, end at file_len. The error is
 * a predicate to follow the file's name: "is damaged: ...". After a failure, h->epoch is 0 if the
 * slot is damaged; it is the slot's epoch if the slot is intact but refused for its contents. */
bool format_decode(const uint8_t *p, size_t avail, struct header *h, struct err *err);

/* The rate p, or the nearest one that a header can have: more than 0, less than 1. For rates
 * computed from untrusted headers. */
double format_rate(double p);

/* The epoch in a header slot, whether or not the slot is valid. */
uint64_t format_epoch(const uint8_t *slot);

/* Does the beginning of a file still belong to the file with header `h`, at its epoch or a later
 * one? FORMAT_FIRST_LAYER bytes may be read, of an immutable file format_len(h). */
bool format_continues(const uint8_t *start, const struct header *h);

/* Does this begin like a filter file? For messages, and for --force: it replaces only filters. */
bool format_is_filter(const uint8_t *p, size_t avail);

/* Is the file never changed in place? */
static inline bool format_is_immutable(const struct header *h)
{
    return (h->incompat & INCOMPAT_IMMUTABLE) != 0;
}

/* Do the hashes of keys depend on a secret? Then the hash function is a keyed one. */
static inline bool format_has_secret(const struct header *h)
{
    return (h->incompat & INCOMPAT_SECRET) != 0;
}

/* Is a layer added when the newest is full? */
static inline bool format_grows(const struct header *h)
{
    return h->policy == POLICY_GROW;
}

/* Are keys forgotten, a generation at a time? */
static inline bool format_forgets(const struct header *h)
{
    return h->policy == POLICY_RING;
}

/* Is layer i of a ring about to be emptied? Its keys do not count. */
static inline bool format_is_void(const struct header *h, unsigned i)
{
    return format_forgets(h) && h->layers[i].generation == 0;
}

/* Do the keys of layer i not count, because it is void, or all older than the ring keeps them? It
 * took none after the first period. No sum, which a forged header could make too large. */
static inline bool format_is_over(const struct header *h, unsigned i)
{
    uint64_t since = h->layers[i].since;
    return format_is_void(h, i) ||
           (h->period != 0 && h->now > since && (h->now - since) / h->n_layers >= h->period);
}

/* May layers have the same keys, as generations may, and layers that a merge joined? */
static inline bool format_shares_keys(const struct header *h)
{
    return h->n_layers > 1 && (!format_grows(h) || (h->compat & COMPAT_JOINED) != 0);
}

/* The length in bytes that keys must have; 0: any. */
static inline unsigned format_key_len(const struct header *h)
{
    return (h->prep & PREP_HEX) != 0 ? (h->compat & COMPAT_KEY_LEN) >> COMPAT_KEY_LEN_SHIFT : 0;
}

/* Seconds since 1970; 0 if the clock is earlier, as one that was never set may be. */
uint64_t format_now(void);

/* The name of the layers' kind; "mixed" if there are several. */
const char *format_kind_name(const struct header *h);

/* Places the layers: sets data_off, sums_off and touched_off of every layer, and file_len, from
 * data_len; they are in no file. Also sets the file's feature bits, which follow from the kinds and
 * n_batches. */
void format_place(struct header *h);

/* Places only the last layer, which is new, after the file's end. */
void format_place_last(struct header *h);

/* The length of a file with this layer alone. */
uint64_t format_file_len(const struct layer *layer);

/* The seed of the checksums of the pages of layer i (layer_page_sum). */
uint64_t format_layer_seed(const struct header *h, unsigned i);

#endif

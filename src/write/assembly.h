/* SPDX-License-Identifier: MIT
 * How a new filter file comes to be. Who makes one fills in a header, and for each of its layers an
 * origin: where its bits come from. The assembly opens the inputs, writes the layers, and gives the
 * file its name.
 *
 *     struct assembly a = {.out = path, .replace = force, .threads = threads};
 *     bool ok = assembly_begin(&a, &err) && assembly_inputs(&a, paths, n, "merged", &err) &&
 *               assembly_check_sound(&a, &err);
 *     ... fill in a.header and a.origin ...
 *     ok = ok && assembly_write(&a, &err) && assembly_commit(&a, &err);
 *     assembly_close(&a);                             // in any case
 *
 * Header and origins come from builder.h (keys), unite.h, shrink.h and combine.h (filters), and
 * from the commands that copy or convert layers.
 *
 * Inputs are only read. If the output replaces one of them, writers stay locked out of that one
 * until the commit, so that no key is lost.
 */
#ifndef WRITE_ASSEMBLY_H
#define WRITE_ASSEMBLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/keyset.h"
#include "kind/foreign.h"
#include "kind/table.h"
#include "file/filter.h"
#include "file/format.h"
#include "file/newfile.h"
#include "write/borrow.h"

enum origin_how {
    FROM_NOTHING, /* the layer has no keys */
    FROM_KEYS,    /* built from a keyset */
    FROM_TABLES,  /* the union or intersection of layers, or one of them folded */
    FROM_COPY,    /* a layer that others may be changing */
    FROM_MEMORY,  /* a layer that nobody changes */
    FROM_LONGER,  /* a layer with longer fingerprints */
    FROM_COUNTS,  /* layers of a kind that counts; the result has no other layer */
    FROM_FOREIGN, /* bits of another program */
};

/* Where a layer comes from. What it points to must live until it is written. */
struct origin {
    enum origin_how how;
    const struct layer *layer; /* COPY, MEMORY, LONGER */
    const uint8_t *data;
    struct union_of parts;          /* TABLES, COUNTS */
    enum counts_op op;              /* COUNTS */
    struct keyset *keys;            /* KEYS */
    uint64_t n;                     /* distinct ones */
    bool presumed;                  /* n presumes that none is repeated; if one is, writing fails */
    const struct layout_bits *bits; /* FOREIGN */
};

struct assembly {
    const char *out; /* NULL: nothing is made, the inputs are only opened */
    bool replace;    /* an existing filter file */
    bool prints;     /* the command prints to standard output, which must not be that file */
    bool reproducible;
    unsigned threads;
    const struct borrow *borrow; /* inputs may be filters of other programs (borrow.h); NULL: not */
    /* Set by assembly_begin and assembly_inputs. */
    struct newfile file; /* path: NULL if it is not open */
    struct filter *in;
    unsigned n_in;
    bool replaces_input;
    /* What is to be made. */
    struct header header;
    struct origin origin[FORMAT_MAX_LAYERS];
    bool loses_keys; /* those of the inputs, so their writers cannot go on with the result */
    /* Set by assembly_write. */
    struct census each[FORMAT_MAX_LAYERS]; /* KEYS and TABLES; of LONGER the FPR */
    struct counts_seen seen;               /* COUNTS */
    struct census census; /* of the whole file, by assembly_measure and those who plan */
};

/* Takes the name of the output, and locks nothing. */
bool assembly_begin(struct assembly *a, struct err *err);

/* Locks writers out of the old file and opens the inputs; lets go of the old file unless it is one
 * of them. The inputs must prepare and hash keys alike; otherwise the message says that they
 * "cannot be `done`". */
bool assembly_inputs(struct assembly *a, const char *const *paths, unsigned n, const char *done,
                     struct err *err);

/* Reads each input whole and fails on damage, which must not be copied into another file. */
bool assembly_check_sound(const struct assembly *a, struct err *err);

/* Begins the header of a filter for the keys of all inputs. It has the batch IDs of the input that
 * it replaces. */
void assembly_like(struct assembly *a);

/* If the result replaces an input, writers of that file go on with it. They know it by its ID. Call
 * it with the new header, for a result that has all keys of the input; no effect on a reproducible
 * one. */
void assembly_succeed(struct assembly *a);

/* The one origin of layer i of the result, by FROM_COPY, FROM_MEMORY, FROM_LONGER or FROM_TABLES.
 */
void assembly_take(struct assembly *a, unsigned i, enum origin_how how, const struct layer *layer,
                   const uint8_t *data);

/* Places the layers of the header and writes them, in order. It may be called again, with another
 * header: the file begins anew. */
bool assembly_write(struct assembly *a, struct err *err);

/* Takes the census of each layer from the written file, and that of the whole if it is printed: its
 * FPR may take a sample. */
bool assembly_measure(struct assembly *a, bool prints, struct err *err);

/* Called before a->census is printed: if stats would take a sample for the FPR, takes the census
 * anew with that sample. */
bool assembly_sample(struct assembly *a, struct err *err);

/* Counts the keys that the bits of each layer show (a->each), as if each had been given once, in
 * this order. counted: the number of keys if another program has counted them; NULL: it has not. */
void assembly_count(struct assembly *a, const uint64_t *counted);

/* Makes the header and writes the layers of another program's filter: bits[i] are those of layer i.
 * The rule gives the preparation of keys. */
bool assembly_adopt(struct assembly *a, const struct layout_filter *filter,
                    const struct layout_bits *bits, const struct key_rule *rule, struct err *err);

/* Fails if an input was overwritten since it was opened. */
bool assembly_check_intact(const struct assembly *a, struct err *err);

/* Writes the header, checks that no input was overwritten while it was read, and gives the file its
 * name. Then closes it. */
bool assembly_commit(struct assembly *a, struct err *err);

void assembly_close(struct assembly *a);

/* Makes a filter without keys at `path`, with this header. Succeeds without a change if `path`
 * exists by then. */
bool assembly_empty(const char *path, const struct header *h, struct err *err);

#endif

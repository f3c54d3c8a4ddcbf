/* SPDX-License-Identifier: MIT
 * Makes a filter file: the frame of every command that does so. For files that are made from other
 * filters, also the plans by which layers follow from layers.
 *
 *     struct assembly m = {.out = path, .replace = force, .threads = threads};
 *     bool ok = assembly_open(&m, paths, n, "merged", &err) && assembly_check_sound(&m, &err) &&
 *               assembly_union(&m, false, limit, &err) && assembly_commit(&m, &err);
 *     assembly_close(&m);                             // in any case
 *
 * With one input, assembly_shrink replaces the calls between assembly_open_one and assembly_close.
 * Without inputs, the caller writes to m.file.fd before the commit.
 *
 * Inputs are only read. If the output replaces one of them, writers stay locked out of that one
 * until the commit, so that no key is lost.
 */
#ifndef WRITE_ASSEMBLY_H
#define WRITE_ASSEMBLY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "file/filter.h"
#include "file/format.h"
#include "file/newfile.h"

struct make_source;

/* With which layers of a union a layer is united: those that it fits, folded if need be, those of
 * its size, or none. */
enum make_meets { MEETS_FITTING, MEETS_EQUAL, MEETS_NONE };

/* A layer of a union. */
struct make_layer {
    double fpr_design; /* the sum of its sources' */
    unsigned n;        /* sources */
    enum make_meets meets;
};

struct assembly {
    const char *out; /* NULL: nothing is made; the inputs are only opened */
    bool replace;    /* an existing filter file */
    bool prints;     /* the command prints to standard output, which must not be that file */
    bool reproducible;
    unsigned threads;
    /* Set by assembly_open. */
    struct filter *in;
    unsigned n_in;
    struct newfile file; /* path: NULL if it is not open */
    bool replaces_input;
    /* The result. */
    struct header header;
    struct census census; /* by assembly_union and assembly_shrink */
    /* Private. */
    bool intersects;
    struct census each[FORMAT_MAX_LAYERS]; /* of the result's layers */
    struct make_source *source;
    size_t n_sources;
    struct make_layer layer[FORMAT_MAX_LAYERS];
};

/* Opens the output and n inputs. The inputs must prepare and hash keys alike; otherwise the message
 * says that they "cannot be `done`". */
bool assembly_open(struct assembly *m, char *const *paths, unsigned n, const char *done,
                   struct err *err);

/* The same with one input, or with none if `path` is NULL. */
bool assembly_open_one(struct assembly *m, const char *path, struct err *err);

/* Reads each input whole and fails on damage, which must not be copied into another file. */
bool assembly_check_sound(const struct assembly *m, struct err *err);

/* The result may exceed the sum of the inputs' design rates by this factor: the random spread of
 * bits, not more keys. */
#define MAKE_FPR_SLACK 1.01

/* Unites the layers of all inputs where they fit each other; the others become layers of their own.
 * If the rate of the result is above `limit`, those that are too full together stay layers of their
 * own, too. The result does not forget. It grows if an input does. `intersect`: each input is one
 * layer, all of one size; bits that all have are kept. */
bool assembly_union(struct assembly *m, bool intersect, double limit, struct err *err);

/* Makes the one input smaller, at a rate of at most p with its present keys; 0: its design rate.
 * Checks the input, and commits the file.
 *
 * Folds each Bloom layer into the fewest pages with which all layers together keep the rate, each
 * its share. A layer for which there is no such size stays as it is; so do layers of other kinds.
 * Of compact filters and counted sets, drops bits of fingerprints; p is divided among the layers.
 */
bool assembly_shrink(struct assembly *m, double p, struct err *err);

/* Fails if an input was overwritten since it was opened. */
bool assembly_check_intact(const struct assembly *m, struct err *err);

/* Writes the header, checks that no input was overwritten while it was read, and gives the file its
 * name. Then closes it. */
bool assembly_commit(struct assembly *m, struct err *err);

void assembly_close(struct assembly *m);

#endif

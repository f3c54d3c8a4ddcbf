/* SPDX-License-Identifier: MIT */
/* Warnings about a filter that a command opens. */
#ifndef CMD_WARN_H
#define CMD_WARN_H

#include "write/assembly.h"
#include "file/newfile.h"
#include "store/store.h"
#include "write/advance.h"

/* Warns if the filter was not left clean, or if one of its two headers is damaged. */
void warn_unclean(const struct store *s);

/* The same without the need of a repair: for adding, which is refused then. */
void warn_slot(const struct store *s);

/* Warns that the bits of the filter `name`, whose checksums hold, stand for another number of keys
 * than were counted. */
void warn_disagreement(const char *name, double n_bits, double n_counted);

/* Warns if the counters tell that the filter is useless (WRITER_USELESS), or far above the FPR that
 * was asked for, which its layout does not reach. */
void warn_useless(const struct store *s);

/* Warns of a new filter `name` whose layout has more than twice that FPR: rules that round make
 * less. */
void warn_unreached(const struct header *h, const char *name);

/* Warns of each input that assembly_inputs has opened. Returns `ok`, its result. */
bool warn_inputs(const struct assembly *m, bool ok);

/* Warns if the clock of the ring `name` is not believed. */
void warn_clock(enum advance_clock clock, const char *name);

/* Notes what another program's file was taken for. */
void warn_taken(const char *path, const char *spec);

/* Warns if the file at `path`, now replaced without its keys, had writers. */
void warn_attached(const struct newfile *file, const char *path);

#endif

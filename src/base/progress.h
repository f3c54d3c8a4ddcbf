/*
 * A progress line on stderr for work that takes longer than a second. Shown only on a terminal or
 * on request; redrawn at most four times a second; erased at the end. Where records are typed or
 * printed at a terminal meanwhile, it would be in their way: then it is not shown, or on request in
 * lines of their own.
 */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* `force` is --progress; with `busy`, a terminal is used for records meanwhile. Only one progress
 * line at a time. */
void progress_begin(const char *what, bool force, bool busy);

/* Cheap to call often. total 0: unknown. Only one thread at a time. */
void progress_update(uint64_t done_bytes, uint64_t total_bytes, uint64_t keys);

/* The same for work in equal parts. */
void progress_part(uint64_t done, uint64_t total);

/* Begins the next stage: a new word in front, numbers reset. */
void progress_stage(const char *what);
void progress_end(void);

/* Erases the line until the next redraw, to make room for a message (say.c calls it). */
void progress_hide(void);

#endif

/*
 * A progress line on stderr for work that takes longer than a second: only on a terminal, or when
 * asked for. Redrawn at most four times a second; erased at the end.
 */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* `force` is --progress. Not for use by several progress lines at once. */
void progress_begin(const char *what, bool force);

/* Cheap when it is not yet time. total 0: unknown. Call it from one thread at a time. */
void progress_update(uint64_t done_bytes, uint64_t total_bytes, uint64_t keys);

/* Changes the word in front and forgets the numbers: the next stage. */
void progress_stage(const char *what);
void progress_end(void);

/* Takes the line off the screen until the next redraw, to make room for a message (say.c does). */
void progress_hide(void);

#endif

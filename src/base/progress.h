/* SPDX-License-Identifier: MIT
 * A progress line on stderr for work that takes longer than a second. Shown only on a terminal or
 * on request; redrawn at most four times a second; erased at the end. If records are typed or
 * printed at a terminal meanwhile, a redrawn line would disturb them: then the line is not shown,
 * or, on request, printed at intervals as in a log.
 */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* `force`: --progress was given. `busy`: a terminal is used for records meanwhile. Only one
 * progress line at a time. */
void progress_begin(const char *what, bool force, bool busy);

/* Cheap to call often. total_bytes 0: unknown. Only one thread at a time. */
void progress_update(uint64_t done_bytes, uint64_t total_bytes, uint64_t keys);

/* The same for work that is counted in equal parts, not in bytes. */
void progress_part(uint64_t done, uint64_t total);

/* Begins the next stage: `what` begins the line, numbers are reset. */
void progress_stage(const char *what);
void progress_end(void);

/* Erases the line until the next redraw, to make room for a message (say.c calls it). */
void progress_hide(void);

#endif

/*
 * Memory for secrets: overwritten after use, kept out of core dumps and, where the system permits,
 * out of swap space.
 *
 *     private_process();
 *     char *line = private_alloc(n);
 *     ...
 *     private_free(line, n);
 */
#ifndef BASE_PRIVATE_H
#define BASE_PRIVATE_H

#include <stddef.h>

/* From now on this process leaves no core dump, and processes of the same user cannot read its
 * memory. Best effort. */
void private_process(void);

/* Allocates zeroed memory on pages of its own, not swapped out if RLIMIT_MEMLOCK allows that. NULL:
 * out of memory. */
void *private_alloc(size_t len);

/* Overwrites the memory and frees it. `p` may be NULL. */
void private_free(void *p, size_t len);

/* Keeps memory from being swapped out, if RLIMIT_MEMLOCK allows that, until it is unmapped.
 * Page-aligned memory is also left out of core dumps. */
void private_keep(void *p, size_t len);

/* Overwrites the stack below the caller's frame, where returned functions may have left secrets. */
void private_clean_stack(void);

#endif

/*
 * Secrets in memory: they are overwritten after use, and kept out of core dumps and, where the
 * system lets us, out of swap space.
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

/* Pages of their own, zeroed, which are not swapped out if RLIMIT_MEMLOCK allows that. NULL: out of
 * memory. */
void *private_alloc(size_t len);

/* Overwrites them first. `p` may be NULL. */
void private_free(void *p, size_t len);

/* Has memory not swapped out, if RLIMIT_MEMLOCK allows that, until it is given back. */
void private_keep(void *p, size_t len);

/* Overwrites the stack below the caller's frame: what functions that have returned left there. */
void private_clean_stack(void);

#endif

/* Splits a range of integers among threads. */
#ifndef PARALLEL_H
#define PARALLEL_H

#include <stdint.h>

/* Calls body(ctx, worker, i) once for each i in [0, n) from `threads` threads, each taking the next
 * i that is left. body may not fail; threads that cannot be started leave more to the others. */
void parallel_for(unsigned threads, uint64_t n,
                  void (*body)(void *ctx, unsigned worker, uint64_t i), void *ctx);

/* The CPUs that this process may use. */
unsigned parallel_cpus(void);

#endif

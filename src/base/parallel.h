/* SPDX-License-Identifier: MIT */
/* Splits a range of integers among threads. */
#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Calls body(ctx, worker, i) once for each i in [0, n), from `threads` threads; each takes the next
 * i that is left. body cannot fail. If a thread cannot be started, the others do its work. */
void parallel_for(unsigned threads, uint64_t n,
                  void (*body)(void *ctx, unsigned worker, uint64_t i), void *ctx);

/* The same with a body that may fail. After a failure, no further call begins. Returns false,
 * with the reason of the first failure, if a call failed. */
bool parallel_try(unsigned threads, uint64_t n,
                  bool (*body)(void *ctx, unsigned worker, uint64_t i, struct err *err), void *ctx,
                  struct err *err);

/* As pthread_create, with the same stack on every system: 1 MiB. */
bool parallel_start(pthread_t *thread, void *(*body)(void *), void *arg);

/* The number of CPUs that this process may use. */
unsigned parallel_cpus(void);

#endif

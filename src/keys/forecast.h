/*
 * Foretells how many new keys the rest of the input brings, from those that it has brought so far.
 * Works on bytes of input and counts of keys alone, so that the same input has the same forecast
 * whatever the number of threads.
 *
 *     struct forecast f = {0};
 *     n = forecast_rest(&f, total, n_new);           // before each chunk
 *     forecast_pass(&f, chunk_len, n_new);           // behind it
 *
 * Logs that repeat themselves bring fewer new keys the longer they are, about as a power of their
 * length (Heaps' law). The power is taken from the last half to three quarters of the bytes, or the
 * rate there if it does not fall.
 */
#ifndef KEYS_FORECAST_H
#define KEYS_FORECAST_H

#include <stdint.h>

struct forecast {
    /* Private: bytes and new keys so far; at a half to a quarter of these bytes; and since. */
    struct forecast_mark {
        uint64_t bytes, n_new;
    } now, half, last;
};

/* About so many new keys are in the rest of an input of `total` bytes, of which only the next part
 * counts: 7 times the bytes so far. n_new have come so far. 0: nobody knows. */
uint64_t forecast_rest(const struct forecast *f, uint64_t total, uint64_t n_new);

/* So many more bytes are done, and so many keys were new until now. */
void forecast_pass(struct forecast *f, uint64_t len, uint64_t n_new);

#endif

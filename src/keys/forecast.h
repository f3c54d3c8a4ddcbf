/*
 * Forecasts the number of new keys in the rest of the input from the new keys so far. Uses only
 * bytes of input and counts of keys, so the forecast for an input does not depend on the number of
 * threads.
 *
 *     struct forecast f = {0};
 *     n = forecast_rest(&f, total, n_new);           // before each chunk
 *     forecast_pass(&f, chunk_len, n_new);           // after it
 *
 * In logs that repeat themselves, the number of distinct keys grows about as a power of the length
 * (Heaps' law). The power is estimated from the last half to three quarters of the bytes. If the
 * rate of new keys does not fall there, that rate is used instead.
 */
#ifndef KEYS_FORECAST_H
#define KEYS_FORECAST_H

#include <stdint.h>

struct forecast {
    /* Private: bytes and new keys so far (`now`), at a half to a quarter of these bytes (`half`),
     * and at the mark after that (`last`). */
    struct forecast_mark {
        uint64_t bytes, n_new;
    } now, half, last;
};

/* Estimates the new keys in the rest of an input of `total` bytes. Looks ahead 7 times the bytes so
 * far at most. n_new is the number of new keys so far. 0: unknown. */
uint64_t forecast_rest(const struct forecast *f, uint64_t total, uint64_t n_new);

/* Records `len` more bytes of input, and n_new as the number of new keys so far. */
void forecast_pass(struct forecast *f, uint64_t len, uint64_t n_new);

#endif

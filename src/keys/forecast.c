#include "keys/forecast.h"

#include <math.h>

/* The forecast reaches to this multiple of the bytes so far. A log of few distinct keys, judged by
 * its beginning, then gets a layer for at most 7 times the keys so far. If all keys are distinct,
 * 1e9 of them take 5 layers. */
static const double REACH = 8;

/* A forecast may be 5 % too low before another layer is needed. */
static const double RESERVE = 1.05;

uint64_t forecast_rest(const struct forecast *f, uint64_t total, uint64_t n_new)
{
    const struct forecast_mark *half = &f->half;
    if (f->now.bytes == 0 || total <= f->now.bytes || n_new <= half->n_new)
        return 0;
    double bytes = (double)f->now.bytes, n = (double)n_new;
    double reach = fmin((double)total / bytes, REACH);
    double rate = (n - (double)half->n_new) / (bytes - (double)half->bytes);
    double more = rate * bytes * (reach - 1);
    if (half->n_new > 0) {
        double power = log(n / (double)half->n_new) / log(bytes / (double)half->bytes);
        if (power < 1)
            more = fmin(more, n * (pow(reach, power) - 1));
    }
    return (uint64_t)ceil(RESERVE * more);
}

void forecast_pass(struct forecast *f, uint64_t len, uint64_t n_new)
{
    f->now.bytes += len;
    f->now.n_new = n_new;
    if (f->now.bytes >= 2 * f->last.bytes) {
        f->half = f->last;
        f->last = f->now;
    }
}

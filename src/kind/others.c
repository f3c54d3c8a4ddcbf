#include "kind/others.h"

#include <math.h>

#include "base/exact.h"

/* k probes need m = k n / -ln(1 - p^(1/k)) bits; the best k is close to log2(1/p). */
void others_bloom(uint64_t n, double p, double *m, unsigned *k)
{
    double ln_p = exact_log(p);
    *m = 0;
    *k = 0;
    for (unsigned i = 1; i <= 64; i++) {
        double fill = exact_exp_negative(ln_p / i);
        /* For small x, 1 - x loses most digits of x; use -ln(1 - x) = x, off by a part of x / 2. */
        double bits = i * (double)n / (fill < 1e-8 ? fill : -exact_log(1 - fill));
        if (*k == 0 || bits < *m) {
            *m = bits;
            *k = i;
        }
    }
    *m = ceil(*m);
}

bool others_fuse(uint64_t n, double p, double *slots, unsigned *width)
{
    double log2_p = -exact_log(p) / exact_log(2), keys = (double)n;
    double factor = n > 1 ? fmax(1.125, 0.875 + 0.25 * exact_log(1e6) / exact_log(keys)) : 2;
    *width = log2_p <= 8 ? 8 : log2_p <= 16 ? 16 : 32;
    *slots = ceil(keys * factor);
    return log2_p <= 32;
}

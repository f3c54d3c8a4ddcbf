#include "kind/classic/size.h"

#include <math.h>

#include "base/exact.h"

/* m = k n / -ln(1 - p^(1/k)) is what k probes need; the best k is one beside log2(1/p). */
void classic_size(uint64_t n, double p, double *m, unsigned *k)
{
    double ln_p = exact_log(p);
    *m = 0;
    *k = 0;
    for (unsigned i = 1; i <= 64; i++) {
        double bits = i * (double)n / -exact_log(1 - exact_exp_negative(ln_p / i));
        if (*k == 0 || bits < *m) {
            *m = bits;
            *k = i;
        }
    }
    *m = ceil(*m);
}

/* SPDX-License-Identifier: MIT */
#include "base/exact.h"

#include <math.h>
#include <stdint.h>

double exact_power(double x, double n)
{
    double result = 1;
    for (uint64_t e = (uint64_t)n; e > 0; e >>= 1) {
        if (e & 1)
            result *= x;
        x *= x;
    }
    return result;
}

/* ln x = ln f + e ln 2 with f in [1/sqrt 2, sqrt 2), and ln f = 2 artanh((f - 1) / (f + 1)) by its
 * series: z^2 is at most 0.0295, so 12 terms after the first reach 2^-64 of it. */
double exact_log(double x)
{
    const double ln2 = 0x1.62e42fefa39efp-1;
    int e;
    double f = frexp(x, &e);
    if (f < 0x1.6a09e667f3bcdp-1) {
        f *= 2;
        e--;
    }
    double z = (f - 1) / (f + 1), z2 = z * z, sum = 0;
    for (int i = 25; i >= 1; i -= 2)
        sum = sum * z2 + 1.0 / i;
    return 2 * z * sum + e * ln2;
}

/* e^x for x <= 0: e^(x / 2^10) by its series, squared ten times. The relative error is below 3e-13
 * down to x = -300, and grows to 2.3e-9 at x = -700. */
double exact_exp_negative(double x)
{
    if (x < -700)
        return 0;
    double y = x / 1024, sum = 1;
    for (int i = 12; i >= 1; i--)
        sum = 1 + sum * y / i;
    return exact_power(sum, 1024);
}

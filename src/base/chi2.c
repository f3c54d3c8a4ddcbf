#include "base/chi2.h"

#include <float.h>
#include <math.h>

/* With a = freedom / 2 and x halved, the tail is the incomplete gamma function Q(a, x). Abramowitz
 * and Stegun, Handbook of Mathematical Functions: 6.5.29 is the series of 1 - Q for small x, 6.5.31
 * the continued fraction of Q for larger x. */

/* x^a e^-x / Gamma(a) */
static double factor(double a, double x)
{
    int sign;
    return exp(a * log(x) - x - lgamma_r(a, &sign));
}

static double by_series(double a, double x)
{
    double term = 1 / a, sum = term;
    for (double n = a + 1; term > sum * DBL_EPSILON; n++) {
        term *= x / n;
        sum += term;
    }
    return 1 - sum * factor(a, x);
}

/* Lentz's method: the value is a product whose factors approach 1. Called only for x >= a + 1, so
 * that no denominator comes near 0. */
static double by_fraction(double a, double x)
{
    double b = x + 1 - a, c = 1 / DBL_MIN, d = 1 / b, value = d, change = 0;
    for (double n = 1; fabs(change - 1) > DBL_EPSILON; n++) {
        double numerator = n * (a - n);
        b += 2;
        d = 1 / (b + numerator * d);
        c = b + numerator / c;
        change = c * d;
        value *= change;
    }
    return value * factor(a, x);
}

double chi2_tail(double x, unsigned freedom)
{
    double a = freedom / 2.0;
    x /= 2;
    if (x <= 0)
        return 1;
    return x < a + 1 ? by_series(a, x) : by_fraction(a, x);
}

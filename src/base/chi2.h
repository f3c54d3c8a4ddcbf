/* The chi-square law, for tests of fit. */
#ifndef BASE_CHI2_H
#define BASE_CHI2_H

/* The chance that a chi-square variable of so many degrees of freedom, 1 or more, is at least
 * x >= 0. Its relative error is below 1e-9, down to chances of 1e-300. */
double chi2_tail(double x, unsigned freedom);

#endif

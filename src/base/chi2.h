/* The chi-square distribution, for goodness-of-fit tests. */
#ifndef BASE_CHI2_H
#define BASE_CHI2_H

/* The probability that a chi-square variable with `freedom` degrees of freedom, 1 or more, is at
 * least x >= 0. The relative error is below 1e-9, for probabilities down to 1e-300. */
double chi2_tail(double x, unsigned freedom);

#endif

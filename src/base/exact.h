/*
 * Functions with the same result to the last bit on every machine; sizes of filters depend on them.
 * They use + - * / and sqrt only; the build forbids fused multiply-add.
 */
#ifndef BASE_EXACT_H
#define BASE_EXACT_H

/* The natural logarithm of x > 0, to about one unit in the last place. */
double exact_log(double x);

/* e^x for x <= 0. */
double exact_exp_negative(double x);

/* x^n for a whole number n >= 0, by squaring. */
double exact_power(double x, double n);

#endif

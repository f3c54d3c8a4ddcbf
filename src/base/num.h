/* SPDX-License-Identifier: MIT
 * Parses and formats numbers for people. Parsing is strict: the whole string must be a number in
 * range, as in the C locale; else the function returns false.
 */
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include <stdbool.h>
#include <stdint.h>

bool num_count(const char *s, uint64_t *out);   /* 1000, 250k, 1M, 2.5G, 1e9: powers of 1000 */
bool num_bytes(const char *s, uint64_t *out);   /* 4096, 512K, 64M, 2G, 1.5T: powers of 1024;
                                                   and what num_show_bytes writes */
bool num_fpr(const char *s, double *out);       /* 0.001, 1e-6, 1/1000, 0.1%; 0 < p < 1 */
bool num_ratio(const char *s, double *out);     /* 0.9, 90%, 9/10; >= 0 */
bool num_seconds(const char *s, unsigned *ms);  /* 5, 0.25: from 1 ms to a million seconds */
bool num_age(const char *s, uint64_t *seconds); /* 90s, 30m, 12h, 30d, 2w: whole numbers */
bool num_int(const char *s, long min, long max, long *out);

/* Buffer size for any of these, NUL included. */
enum { NUM_TEXT = 40 };

/* Each formats into buf (NUM_TEXT bytes) and returns it. */
char *num_show_bytes(char *buf, uint64_t n);       /* "999 B", "17.9 MiB": 3 or 4 digits */
char *num_show_least_bytes(char *buf, uint64_t n); /* the same rounded up: at least n */
char *num_show_count(char *buf, double n);       /* "9999000" exactly below 1e15, else "1.23e+18" */
char *num_show_short(char *buf, double n);       /* "1.2M", "350k", "12": for progress and plan */
char *num_show_fpr(char *buf, double p);         /* "0.000998", "9.98e-07", "0": 3 digits */
char *num_show_least_fpr(char *buf, double p);   /* the same rounded up, for p > 0 */
char *num_show_seconds(char *buf, double s);     /* "0.3 s", "4 min 10 s", "2 h 05 min" */
char *num_show_age(char *buf, uint64_t seconds); /* "30d", "90s": the largest unit without a rest */

/* The ending of a noun after n: "1 key", "2 keys". */
static inline const char *num_plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

#endif

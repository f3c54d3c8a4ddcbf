/* SPDX-License-Identifier: MIT */
#include "base/num.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* An unsigned decimal number at the start of a string, split into its parts but not yet converted.
 */
struct decimal {
    const char *begin, *point, *end; /* the mantissa: [begin, point) whole, [point, end) fraction */
    int exp10;
};

/* A larger exponent is a typing error; it is far outside the range of a double. */
enum { MAX_EXPONENT = 999 };

/* Reads DIGITS[.DIGITS][e[+-]DIGITS], at least one digit in the mantissa. Returns the rest of the
 * string, or NULL. An `e` without digits is part of the rest, as a suffix. */
static const char *scan_decimal(const char *s, struct decimal *d)
{
    *d = (struct decimal){.begin = s};
    while (is_digit(*s))
        s++;
    d->point = s;
    if (*s == '.') {
        s++;
        while (is_digit(*s))
            s++;
    }
    d->end = s;
    if (d->end == d->begin || (d->end == d->begin + 1 && *d->begin == '.'))
        return NULL;
    if (*s != 'e' && *s != 'E')
        return s;

    const char *e = s + 1;
    bool negative = *e == '-';
    if (*e == '-' || *e == '+')
        e++;
    if (!is_digit(*e))
        return s;
    for (; is_digit(*e); e++) {
        d->exp10 = d->exp10 * 10 + (*e - '0');
        if (d->exp10 > MAX_EXPONENT)
            return NULL;
    }
    if (negative)
        d->exp10 = -d->exp10;
    return e;
}

static bool times_ten_plus(uint64_t *v, unsigned digit)
{
    if (*v > (UINT64_MAX - digit) / 10)
        return false;
    *v = *v * 10 + digit;
    return true;
}

/* The decimal times 10^shift, if that is a whole number below 2^64. Exact: no floating point. */
static bool decimal_uint(const struct decimal *d, int shift, uint64_t *out)
{
    uint64_t v = 0;
    int exp10 = d->exp10 + shift;
    const char *last = d->end; /* zeros at the end only raise the exponent */
    for (; last > d->begin && (last[-1] == '0' || last[-1] == '.'); last--)
        exp10 += last <= d->point;
    for (const char *s = d->begin; s < last; s++) {
        if (*s == '.')
            continue;
        if (!times_ten_plus(&v, (unsigned)(*s - '0')))
            return false;
        exp10 -= s > d->point;
    }
    if (exp10 < 0 && v != 0)
        return false;
    for (; exp10 > 0 && v != 0; exp10--)
        if (!times_ten_plus(&v, 0))
            return false;
    *out = v;
    return true;
}

/* The double nearest to the decimal times 10^shift. */
static bool decimal_double(const struct decimal *d, int shift, double *out)
{
    char text[128];
    size_t len = (size_t)(d->end - d->begin);
    if (len > sizeof text - 16)
        return false;
    memcpy(text, d->begin, len);
    snprintf(text + len, sizeof text - len, "e%d", d->exp10 + shift);
    *out = strtod(text, NULL);
    return isfinite(*out);
}

/* 1 for k, 2 for M, and so on; 0 for anything else. Both cases are accepted: milli- makes no
 * sense here. E is missing because it begins an exponent. */
static int suffix_power(char c)
{
    static const char upper[] = "KMGTP", lower[] = "kmgtp";
    if (c == '\0')
        return 0;
    const char *at = strchr(upper, c);
    if (at != NULL)
        return (int)(at - upper) + 1;
    at = strchr(lower, c);
    return at != NULL ? (int)(at - lower) + 1 : 0;
}

bool num_count(const char *s, uint64_t *out)
{
    struct decimal d;
    const char *rest = scan_decimal(s, &d);
    if (rest == NULL)
        return false;
    int power = suffix_power(*rest);
    if (rest[power != 0] != '\0')
        return false;
    return decimal_uint(&d, 3 * power, out);
}

bool num_seconds(const char *s, unsigned *ms)
{
    struct decimal d;
    uint64_t v;
    const char *rest = scan_decimal(s, &d);
    if (rest == NULL || *rest != '\0' || !decimal_uint(&d, 3, &v) || v == 0 || v > 1000000000)
        return false;
    *ms = (unsigned)v;
    return true;
}

/* Units of time, in seconds. A week is shown as days. */
static const struct {
    char letter;
    unsigned seconds;
} ages[] = {{'w', 604800}, {'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};

bool num_age(const char *s, uint64_t *seconds)
{
    size_t i = 0;
    uint64_t v = 0;
    for (; is_digit(*s); s++)
        if (!times_ten_plus(&v, (unsigned)(*s - '0')))
            return false;
    while (i < sizeof ages / sizeof *ages && ages[i].letter != *s)
        i++;
    if (i == sizeof ages / sizeof *ages || s[1] != '\0' || v == 0 ||
        v > UINT64_MAX / ages[i].seconds)
        return false;
    *seconds = v * ages[i].seconds;
    return true;
}

char *num_show_age(char *buf, uint64_t seconds)
{
    size_t i = 1;
    while (seconds % ages[i].seconds != 0)
        i++;
    snprintf(buf, NUM_TEXT, "%llu%c", (unsigned long long)seconds / ages[i].seconds,
             ages[i].letter);
    return buf;
}

bool num_bytes(const char *s, uint64_t *out)
{
    struct decimal d;
    const char *rest = scan_decimal(s, &d);
    if (rest == NULL)
        return false;
    bool blank = *rest == ' '; /* num_show_bytes writes a blank */
    if (strcmp(rest, " B") == 0)
        return decimal_uint(&d, 0, out);
    rest += blank;
    int power = suffix_power(*rest);
    if (power == 0)
        return !blank && *rest == '\0' && decimal_uint(&d, 0, out);
    rest++;
    if (((*rest != '\0' || blank) && strcmp(rest, "iB") != 0) || d.exp10 != 0)
        return false;

    /* A power of two, so the product is as exact as the double. Part of a byte is dropped. */
    double unit = (double)((uint64_t)1 << (10 * power)), v;
    if (!decimal_double(&d, 0, &v) || v * unit >= 0x1p64)
        return false;
    *out = (uint64_t)(v * unit);
    return true;
}

/* DECIMAL, DECIMAL% or DECIMAL/DECIMAL. */
static bool parse_fraction(const char *s, double *out)
{
    struct decimal d, below;
    const char *rest = scan_decimal(s, &d);
    if (rest == NULL)
        return false;
    if (strcmp(rest, "%") == 0)
        return decimal_double(&d, -2, out);
    if (!decimal_double(&d, 0, out))
        return false;
    if (*rest == '\0')
        return true;
    double divisor;
    if (*rest != '/')
        return false;
    rest = scan_decimal(rest + 1, &below);
    if (rest == NULL || *rest != '\0' || !decimal_double(&below, 0, &divisor))
        return false;
    *out /= divisor;
    return isfinite(*out);
}

bool num_fpr(const char *s, double *out)
{
    double p;
    if (!parse_fraction(s, &p) || p <= 0 || p >= 1)
        return false;
    *out = p;
    return true;
}

bool num_ratio(const char *s, double *out)
{
    double r;
    if (!parse_fraction(s, &r))
        return false;
    *out = r;
    return true;
}

bool num_int(const char *s, long min, long max, long *out)
{
    if (!is_digit(s[*s == '-']))
        return false;
    char *end;
    errno = 0;
    long v = strtol(s, &end, 10);
    if (*end != '\0' || errno != 0 || v < min || v > max)
        return false;
    *out = v;
    return true;
}

/* The number of decimals for three significant digits of v in [0, 1000). From each bound on,
 * rounding gives v one more digit before the point. */
static int decimals(double v)
{
    return v < 9.995 ? 2 : v < 99.95 ? 1 : 0;
}

static char *show_bytes(char *buf, uint64_t n, bool up)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (n < 1024) {
        snprintf(buf, NUM_TEXT, "%u B", (unsigned)n);
        return buf;
    }
    double v = (double)n / 1024;
    size_t unit = 0;
    for (; v >= 1023.5; v /= 1024)
        unit++;
    double scale = pow(10, decimals(v));
    if (up)
        v = ceil(v * scale) / scale;
    snprintf(buf, NUM_TEXT, "%.*f %s", decimals(v), v, units[unit]);
    return buf;
}

char *num_show_bytes(char *buf, uint64_t n)
{
    return show_bytes(buf, n, false);
}

char *num_show_least_bytes(char *buf, uint64_t n)
{
    return show_bytes(buf, n, true);
}

char *num_show_count(char *buf, double n)
{
    snprintf(buf, NUM_TEXT, n < 1e15 ? "%.0f" : "%.3g", n);
    return buf;
}

char *num_show_short(char *buf, double n)
{
    static const char units[] = "kMGTPE";
    if (n < 999.5) {
        snprintf(buf, NUM_TEXT, "%.0f", n);
        return buf;
    }
    double v = n / 1000;
    size_t unit = 0;
    for (; v >= 999.5 && unit + 1 < sizeof units - 1; v /= 1000)
        unit++;
    snprintf(buf, NUM_TEXT, v < 9.95 ? "%.1f" : "%.0f", v);
    char *point = strstr(buf, ".0");
    if (point != NULL)
        *point = '\0';
    size_t len = strlen(buf);
    snprintf(buf + len, NUM_TEXT - len, "%c", units[unit]);
    return buf;
}

char *num_show_fpr(char *buf, double p)
{
    snprintf(buf, NUM_TEXT, "%.3g", p);
    return buf;
}

char *num_show_least_fpr(char *buf, double p)
{
    num_show_fpr(buf, p);
    double half = pow(10, floor(log10(p)) - 2) / 2;
    if (strtod(buf, NULL) < p)
        num_show_fpr(buf, p + half);
    return buf;
}

char *num_show_seconds(char *buf, double s)
{
    if (s < 9.95) {
        snprintf(buf, NUM_TEXT, "%.1f s", s);
        return buf;
    }
    double whole = floor(s + 0.5);
    if (whole >= 1e15) {
        snprintf(buf, NUM_TEXT, "%.3g s", s);
        return buf;
    }
    uint64_t t = (uint64_t)whole;
    if (t < 60)
        snprintf(buf, NUM_TEXT, "%u s", (unsigned)t);
    else if (t < 3600)
        snprintf(buf, NUM_TEXT, "%u min %02u s", (unsigned)(t / 60), (unsigned)(t % 60));
    else
        snprintf(buf, NUM_TEXT, "%llu h %02u min", (unsigned long long)(t / 3600),
                 (unsigned)(t % 3600 / 60));
    return buf;
}

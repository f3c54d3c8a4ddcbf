/* SPDX-License-Identifier: MIT */
/* tags: computing portable */
#include "base/num.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "check.h"

static bool count_is(const char *s, uint64_t want)
{
    uint64_t got = ~want;
    return num_count(s, &got) && got == want;
}

static bool bytes_is(const char *s, uint64_t want)
{
    uint64_t got = ~want;
    return num_bytes(s, &got) && got == want;
}

static bool fpr_is(const char *s, double want)
{
    double got = -1;
    return num_fpr(s, &got) && got == want;
}

static bool ratio_is(const char *s, double want)
{
    double got = -1;
    return num_ratio(s, &got) && got == want;
}

/* What no parser here may take for a number. */
static const char *const never[] = {
    "",    " ",        " 1",     "1 ",       "+1",
    "-1",  ".",        "..",     "1.2.3",    "1..2",
    "x",   "0x10",     "0x1p3",  "nan",      "NaN",
    "inf", "-inf",     "1e",     "1e+",      "e3",
    "1,5", "1_000",    "1e1000", "1\n",      "1e99999999999999999999",
    "1%%", "1/",       "/2",     "1/2/3",    "1kk",
    "1k5", "infinity", "1e 3",   "\xd9\xa1", "1K iB",
    "1iB", "1e3.5",
};

TEST(nonsense_is_refused)
{
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        uint64_t u = 7;
        double d = 7;
        CHECK(!num_count(never[i], &u));
        CHECK(!num_bytes(never[i], &u));
        CHECK(!num_fpr(never[i], &d));
        CHECK(!num_ratio(never[i], &d));
        CHECK(u == 7 && d == 7);
        if (!check_ok) {
            printf("# input: \"%s\"\n", never[i]);
            return;
        }
    }
}

TEST(counts)
{
    CHECK(count_is("0", 0));
    CHECK(count_is("1000", 1000));
    CHECK(count_is("007", 7));
    CHECK(count_is("250k", 250000));
    CHECK(count_is("250K", 250000));
    CHECK(count_is("1M", 1000000));
    CHECK(count_is("1m", 1000000));
    CHECK(count_is("2.5M", 2500000));
    CHECK(count_is("2.500M", 2500000));
    CHECK(count_is("1e9", 1000000000));
    CHECK(count_is("1E+9", 1000000000));
    CHECK(count_is("1.5e3k", 1500000));
    CHECK(count_is("1200e-2", 12));
    CHECK(count_is("100000000000000000000000e-20", 1000));
    CHECK(count_is("100000000000000000000000.00e-20", 1000));
    CHECK(count_is(".5k", 500));
    CHECK(count_is("5.", 5));
    CHECK(count_is("100.0", 100));
    CHECK(count_is("3G", 3000000000));
    CHECK(count_is("18P", 18000000000000000));
    CHECK(count_is("18446744073709551615", UINT64_MAX));
    CHECK(count_is("0e999", 0));
    CHECK(count_is("0e-999", 0));
    CHECK(count_is("0.000", 0));
    CHECK(count_is("1.8e19", 18000000000000000000U));
}

TEST(counts_that_are_none)
{
    uint64_t v;
    CHECK(!num_count("18446744073709551616", &v));
    CHECK(!num_count("18446744073709551620", &v));
    CHECK(!num_count("1e20", &v));
    CHECK(!num_count("20000P", &v));
    CHECK(!num_count("99999999999999999999999999", &v));
    CHECK(!num_count("1.5", &v));
    CHECK(!num_count("1e-1", &v));
    CHECK(!num_count("1.2345k", &v));
    CHECK(!num_count("0e1000", &v));
    CHECK(!num_count("1E", &v)); /* exa, or an exponent cut short? */
    CHECK(!num_count("50%", &v));
    CHECK(!num_count("1KiB", &v));
    CHECK(!num_count("1/2", &v));
}

TEST(seconds)
{
    unsigned ms = 0;
    CHECK(num_seconds("0.001", &ms) && ms == 1);
    CHECK(num_seconds("1e6", &ms) && ms == 1000000000);
    CHECK(!num_seconds("1000000.001", &ms));
    CHECK(!num_seconds("0", &ms));
    CHECK(!num_seconds("0.0001", &ms));
    CHECK(!num_seconds("1s", &ms));
    CHECK(!num_seconds("s", &ms));
}

TEST(bytes)
{
    CHECK(bytes_is("0", 0));
    CHECK(bytes_is("4096", 4096));
    CHECK(bytes_is("1e6", 1000000));
    CHECK(bytes_is("512K", 524288));
    CHECK(bytes_is("512k", 524288));
    CHECK(bytes_is("64M", 67108864));
    CHECK(bytes_is("64MiB", 67108864));
    CHECK(bytes_is("2G", 2147483648));
    CHECK(bytes_is("1.5T", 1649267441664));
    CHECK(bytes_is(".5K", 512));
    CHECK(bytes_is("1.K", 1024));
    CHECK(bytes_is("0.1K", 102)); /* 102.4: part of a byte is dropped */
    CHECK(bytes_is("16383P", 16383ULL << 50));
    CHECK(bytes_is("16383.5P", (16383ULL << 50) + (1ULL << 49)));
    uint64_t v;
    CHECK(!num_bytes("16384P", &v));
    CHECK(!num_bytes("16383.99999999999999999999P", &v)); /* rounds to 16384 */
    CHECK(!num_bytes("1KB", &v));                         /* 1000 or 1024? */
    CHECK(!num_bytes("1e3K", &v));
    CHECK(!num_bytes("1.5", &v));
    CHECK(!num_bytes("1B", &v));
    CHECK(!num_bytes("1KiBx", &v));
    char digits[120] = "";
    memset(digits, '0', 113);
    digits[112] = '1';
    CHECK(bytes_is(digits, 1));
    digits[113] = 'K';
    CHECK(!num_bytes(digits, &v)); /* more digits than are read */
}

TEST(probabilities)
{
    CHECK(fpr_is("0.001", 0.001));
    CHECK(fpr_is(".5", 0.5));
    CHECK(fpr_is("1e-6", 1e-6));
    CHECK(fpr_is("1E-6", 1e-6));
    CHECK(fpr_is("1/1000", 0.001));
    CHECK(fpr_is("1/1e6", 1e-6));
    CHECK(fpr_is("3/4", 0.75));
    CHECK(fpr_is("0.1%", 0.001));
    CHECK(fpr_is("0.7%", 0.007)); /* not 0.7 / 100, which rounds twice */
    CHECK(fpr_is("50%", 0.5));
    CHECK(fpr_is("1e-3%", 1e-5));
    double v;
    CHECK(!num_fpr("0", &v));
    CHECK(!num_fpr("0.0", &v));
    CHECK(!num_fpr("0%", &v));
    CHECK(!num_fpr("1e-999", &v)); /* underflows to 0 */
    CHECK(!num_fpr("1", &v));
    CHECK(!num_fpr("1.5", &v));
    CHECK(!num_fpr("100%", &v));
    CHECK(!num_fpr("2/2", &v));
    char digits[114];
    memset(digits, '1', 113);
    digits[0] = '.';
    digits[112] = digits[113] = '\0';
    CHECK(num_fpr(digits, &v) && v == 1.0 / 9);
    digits[112] = '1';
    CHECK(!num_fpr(digits, &v)); /* more digits than are read */
    char parts[120] = "1/";
    memset(parts + 2, '9', 113);
    CHECK(!num_fpr(parts, &v));
    CHECK(!num_fpr("1/0", &v) && !num_fpr("0/0", &v));
    CHECK(!num_fpr("1/0", &v));
    CHECK(!num_fpr("0/0", &v));
    CHECK(!num_fpr("1e-3k", &v));
    CHECK(!num_fpr("-0.5", &v));
    CHECK(!num_fpr("1/-2", &v));
    CHECK(!num_fpr("1/2%", &v));
}

TEST(ratios)
{
    CHECK(ratio_is("0", 0));
    CHECK(ratio_is("0.9", 0.9));
    CHECK(ratio_is("90%", 0.9));
    CHECK(ratio_is("9/10", 0.9));
    CHECK(ratio_is("1.5", 1.5));
    CHECK(ratio_is("150%", 1.5));
    double v;
    CHECK(!num_ratio("1/0", &v));
    CHECK(!num_ratio("1e999", &v));
    CHECK(!num_ratio("1e300/1e-300", &v));
}

TEST(integers)
{
    long v = 0;
    CHECK(num_int("-1", -5, 5, &v) && v == -1);
    CHECK(num_int("5", -5, 5, &v) && v == 5);
    CHECK(num_int("0", 0, 0, &v) && v == 0);
    CHECK(!num_int("6", -5, 5, &v));
    CHECK(!num_int("99999999999999999999", 0, LONG_MAX, &v));
    CHECK(!num_int("-6", -5, 5, &v));
    CHECK(!num_int("", -5, 5, &v));
    CHECK(!num_int("-", -5, 5, &v));
    CHECK(!num_int("+1", -5, 5, &v));
    CHECK(!num_int(" 1", -5, 5, &v));
    CHECK(!num_int("1 ", -5, 5, &v));
    CHECK(!num_int("--1", -5, 5, &v));
    CHECK(!num_int("0x1", -5, 5, &v));
    CHECK(!num_int("1.0", -5, 5, &v));
    CHECK(!num_int("99999999999999999999", -5, 5, &v));
}

TEST(bytes_shown)
{
    char b[NUM_TEXT];
    CHECK_STR(num_show_bytes(b, 0), "0 B");
    CHECK_STR(num_show_bytes(b, 999), "999 B");
    CHECK_STR(num_show_bytes(b, 1023), "1023 B");
    CHECK_STR(num_show_bytes(b, 1024), "1.00 KiB");
    CHECK_STR(num_show_bytes(b, 10230), "9.99 KiB");
    CHECK_STR(num_show_bytes(b, 10239), "10.0 KiB");
    CHECK_STR(num_show_bytes(b, 102399), "100 KiB");
    CHECK_STR(num_show_bytes(b, 18769510), "17.9 MiB");
    CHECK_STR(num_show_bytes(b, 1048575), "1.00 MiB");
    CHECK_STR(num_show_bytes(b, 1023 * 1024), "1023 KiB");
    CHECK_STR(num_show_bytes(b, 1048064), "1.00 MiB"); /* 1023.5 KiB */
    CHECK_STR(num_show_bytes(b, 1U << 30), "1.00 GiB");
    CHECK_STR(num_show_bytes(b, (uint64_t)(9.995 * 0x1p50)), "10.0 PiB");
    CHECK_STR(num_show_bytes(b, (uint64_t)(99.95 * 0x1p50)), "100 PiB");
    CHECK_STR(num_show_bytes(b, UINT64_MAX), "16.0 EiB");
}

TEST(least_bytes_and_rates_shown)
{
    char b[NUM_TEXT];
    uint64_t n, back;
    CHECK_STR(num_show_least_bytes(b, 999), "999 B");
    CHECK_STR(num_show_least_bytes(b, 1024), "1.00 KiB");
    CHECK_STR(num_show_least_bytes(b, 1025), "1.01 KiB");
    CHECK_STR(num_show_least_bytes(b, 44354816), "42.4 MiB");
    CHECK_STR(num_show_least_fpr(b, 0.01), "0.01");
    CHECK_STR(num_show_least_fpr(b, 5.42101e-7), "5.43e-07");
    CHECK_STR(num_show_least_fpr(b, 0.99901), "1");
    /* What is shown is no less, and is read back. */
    for (n = 1; n < (uint64_t)1 << 54; n += 1 + n / 97)
        CHECK(num_bytes(num_show_least_bytes(b, n), &back) && back >= n &&
              (double)(back - n) <= 0.01 * (double)n);
    for (double p = 1e-12; p < 0.99; p *= 1.0137)
        CHECK(strtod(num_show_least_fpr(b, p), NULL) >= p && strtod(b, NULL) < p * 1.011);
    CHECK(num_bytes("12 B", &n) && n == 12);
    CHECK(!num_bytes("12 K", &n) && !num_bytes("12 ", &n) && !num_bytes("12  KiB", &n));
}

TEST(counts_shown)
{
    char b[NUM_TEXT];
    CHECK_STR(num_show_count(b, 9999000), "9999000");
    CHECK_STR(num_show_count(b, 999999999999999), "999999999999999");
    CHECK_STR(num_show_count(b, 1.23456e18), "1.23e+18");
    CHECK_STR(num_show_short(b, 12), "12");
    CHECK_STR(num_show_short(b, 999), "999");
    CHECK_STR(num_show_short(b, 999.5), "1k");
    CHECK_STR(num_show_short(b, 999.9), "1k");
    CHECK_STR(num_show_short(b, 9950), "10k");
    CHECK_STR(num_show_short(b, 999500), "1M");
    CHECK_STR(num_show_short(b, 1200000), "1.2M");
    CHECK_STR(num_show_short(b, 350000), "350k");
    CHECK_STR(num_show_short(b, 9960), "10k");
    CHECK_STR(num_show_short(b, 999999), "1M");
    CHECK_STR(num_show_short(b, 2e9), "2G");
    CHECK_STR(num_show_short(b, 1.8e19), "18E");
    CHECK_STR(num_show_short(b, 1e22), "10000E");
}

TEST(probabilities_and_times_shown)
{
    char b[NUM_TEXT];
    CHECK_STR(num_show_fpr(b, 0.00099812), "0.000998");
    CHECK_STR(num_show_fpr(b, 9.98123e-7), "9.98e-07");
    CHECK_STR(num_show_fpr(b, 0), "0");
    CHECK_STR(num_show_fpr(b, 1), "1");
    CHECK_STR(num_show_seconds(b, 0.3), "0.3 s");
    CHECK_STR(num_show_seconds(b, 9.95), "10 s");
    CHECK_STR(num_show_seconds(b, 59.4), "59 s");
    CHECK_STR(num_show_seconds(b, 59.9), "1 min 00 s");
    CHECK_STR(num_show_seconds(b, 250), "4 min 10 s");
    CHECK_STR(num_show_seconds(b, 3599.4), "59 min 59 s");
    CHECK_STR(num_show_seconds(b, 3600), "1 h 00 min");
    CHECK_STR(num_show_seconds(b, 7500), "2 h 05 min");
    CHECK_STR(num_show_seconds(b, 1e15), "1e+15 s");
    CHECK_STR(num_show_seconds(b, 1e20), "1e+20 s");
}

TEST(ages)
{
    static const struct {
        const char *text;
        uint64_t seconds;
        const char *shown;
    } good[] = {{"1s", 1, "1s"},
                {"90s", 90, "90s"},
                {"120s", 120, "2m"},
                {"90m", 5400, "90m"},
                {"24h", 86400, "1d"},
                {"30d", 2592000, "30d"},
                {"2w", 1209600, "14d"},
                {"18446744073709551615s", UINT64_MAX, "18446744073709551615s"},
                {"30500568904943w", 18446744073709526400U, "213503982334601d"}};
    static const char *const bad[] = {"",
                                      "s",
                                      "0s",
                                      "1",
                                      "1 d",
                                      "-1d",
                                      "1.5d",
                                      "1e3s",
                                      "1D",
                                      "1dd",
                                      "+1d",
                                      "0x1d",
                                      "1y",
                                      " 1d",
                                      "18446744073709551616s",
                                      "30500568904944w"};
    char b[NUM_TEXT];
    uint64_t seconds;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK(num_age(good[i].text, &seconds) && seconds == good[i].seconds);
        CHECK_STR(num_show_age(b, seconds), good[i].shown);
    }
    CHECK_STR(num_show_age(b, 0), "0d");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!num_age(bad[i], &seconds));
}

int main(void)
{
    RUN(nonsense_is_refused);
    RUN(counts);
    RUN(counts_that_are_none);
    RUN(seconds);
    RUN(bytes);
    RUN(probabilities);
    RUN(ratios);
    RUN(integers);
    RUN(bytes_shown);
    RUN(least_bytes_and_rates_shown);
    RUN(counts_shown);
    RUN(probabilities_and_times_shown);
    RUN(ages);
    return check_done();
}

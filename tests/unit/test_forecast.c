/* keys/forecast.c: inputs of which the end is known beforehand. */
#include <math.h>

#include "check.h"
#include "keys/forecast.h"

enum { CHUNK = 1000, CHUNKS = 1024, TOTAL = CHUNK * CHUNKS };

/* The forecast behind so many chunks of an input with n(x) distinct keys in its first part x. */
static double forecast(double (*n)(double), unsigned chunks)
{
    struct forecast f = {0};
    for (unsigned i = 1; i <= chunks; i++)
        forecast_pass(&f, CHUNK, (uint64_t)n((double)i / CHUNKS));
    return (double)forecast_rest(&f, TOTAL, (uint64_t)n((double)chunks / CHUNKS));
}

/* The same as a multiple of the new keys that there are in the part that it is for. */
static double foretold(double (*n)(double), unsigned chunks)
{
    double x = (double)chunks / CHUNKS;
    return forecast(n, chunks) / (n(fmin(8 * x, 1)) - n(x));
}

static double distinct(double x)
{
    return 1e8 * x;
}

static double heaps(double x)
{
    return 1e8 * pow(x, 0.6);
}

/* After a beginning that was known. */
static double later(double x)
{
    return x < 0.05 ? 0 : 1e8 * (x - 0.05);
}

static double few(double x)
{
    return 1e8 * (1 - exp(-100 * x));
}

static bool is_near(double value, double low, double high)
{
    return value >= low && value <= high;
}

TEST(what_goes_on_as_it_began)
{
    for (unsigned chunks = 1; chunks < CHUNKS; chunks++) {
        CHECK(is_near(foretold(distinct, chunks), 1.0499, 1.0501));
        if (chunks >= 2)
            CHECK(is_near(foretold(heaps, chunks), 1.0499, 1.0501));
    }
    /* From 0.2 on the marks are behind the beginning. */
    for (unsigned chunks = 205; chunks < CHUNKS; chunks++)
        CHECK(is_near(foretold(later, chunks), 0.8, 1.0501));
}

/* The worst case is a log that is judged by its first keys, all new. */
TEST(few_distinct_keys_are_not_taken_for_many)
{
    for (unsigned chunks = 1; chunks < CHUNKS; chunks++) {
        double x = (double)chunks / CHUNKS, more = forecast(few, chunks);
        CHECK(more <= 7.36 * few(x));
        if (x > 0.2)
            CHECK(more < 0.03 * few(x));
    }
}

TEST(what_cannot_be_foretold)
{
    struct forecast f = {0};
    CHECK(forecast_rest(&f, TOTAL, 0) == 0 && forecast_rest(&f, TOTAL, 1) == 0);
    forecast_pass(&f, CHUNK, 0);
    CHECK(forecast_rest(&f, TOTAL, 0) == 0); /* nothing new yet */
    CHECK(forecast_rest(&f, TOTAL, 10) > 0);
    CHECK(forecast_rest(&f, CHUNK, 10) == 0); /* it should have ended */
    CHECK(forecast_rest(&f, 0, 10) == 0);     /* of unknown length */
}

int main(void)
{
    RUN(what_goes_on_as_it_began);
    RUN(few_distinct_keys_are_not_taken_for_many);
    RUN(what_cannot_be_foretold);
    return check_done();
}

/* Signs of pollution in a Bloom layer: random keys leave none, chosen keys do. */
#include <math.h>
#include <stdlib.h>

#include "base/chi2.h"
#include "base/mul.h"
#include "bloom_new.h"
#include "check.h"
#include "kind/bloom/occupancy.h"
#include "random.h"

/* Below this chance, `seen stats` warns. */
static const double ALARM = 1e-6;

static struct occupancy occupancy_of(const struct bloom *bloom, const uint8_t *data)
{
    struct bloom_census c = {0};
    struct occupancy occupancy;
    bloom_census_add(bloom, data, bloom->pages, &c);
    bloom_occupancy(bloom, &c, &occupancy);
    return occupancy;
}

static void insert_random(const struct bloom *bloom, uint8_t *data, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t hash = draw();
        bloom_insert(bloom, data, 0, &hash, 1);
    }
}

static bool is_near(double got, double want)
{
    bool ok = fabs(got - want) <= 1e-9 * want;
    if (!ok)
        printf("# got %.12g, want %.12g\n", got, want);
    return ok;
}

/* With two degrees of freedom it is e^(-x/2); with one, erfc(sqrt(x/2)); and with an even number
 * 2a, the chance that a Poisson number of mean x/2 is below a. */
TEST(the_tail_of_chi_square)
{
    static const double at[] = {1e-3, 0.1, 1, 2, 5, 10, 40, 200, 1000};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        CHECK(is_near(chi2_tail(at[i], 2), exp(-at[i] / 2)));
        CHECK(is_near(chi2_tail(at[i], 1), erfc(sqrt(at[i] / 2))));
        for (unsigned a = 1; a <= 150; a += 7) {
            double term = exp(-at[i] / 2), sum = term;
            for (unsigned j = 1; j < a; j++)
                sum += term *= at[i] / 2 / j;
            CHECK(is_near(chi2_tail(at[i], 2 * a), sum));
        }
    }
    CHECK(chi2_tail(0, 5) == 1);
}

static const struct shape_of_test {
    struct bloom bloom;
    double probes; /* thrown into a line, on average */
} shapes[] = {
    {{12, 8, 1}, 100}, {{12, 8, 1}, 355}, {{6, 14, 2}, 355},
    {{16, 1, 1}, 100}, {{6, 10, 1}, 700}, {{12, 22, 2}, 60},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static uint64_t keys_for(const struct shape_of_test *s)
{
    return (uint64_t)(s->probes * 64 * (double)s->bloom.pages / s->bloom.k);
}

/* p is uniform for honest filters: for each shape, and for all of them, the largest distance of the
 * distribution function from that is below 1.95 / sqrt(runs) + 0.03 (Kolmogorov and Smirnov), but
 * for one seed in 500 for each of seven, if the law were exact. It is not, by the 0.03: few groups,
 * and whole numbers. */
enum { RUNS = 40 };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double distance(double *p, size_t n)
{
    double most = 0;
    qsort(p, n, sizeof *p, ascending);
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fmax(p[i] - (double)i / (double)n, (double)(i + 1) / (double)n - p[i]));
    return most;
}

TEST(honest_filters_have_uniform_p)
{
    static double p[SHAPES * RUNS], all[SHAPES * RUNS];
    unsigned alarms = 0;
    for (size_t s = 0; s < SHAPES; s++) {
        for (size_t i = 0; i < RUNS; i++) {
            uint8_t *data = filter_new(&shapes[s].bloom);
            insert_random(&shapes[s].bloom, data, keys_for(&shapes[s]));
            struct occupancy o = occupancy_of(&shapes[s].bloom, data);
            CHECK(o.freedom >= 5);
            p[i] = all[s * RUNS + i] = chi2_tail(o.chi2, o.freedom);
            alarms += p[i] < ALARM || o.fullest < ALARM;
            free(data);
        }
        double d = distance(p, RUNS);
        printf("# shape %zu: distance %.3f\n", s, d);
        CHECK(d < 1.95 / sqrt(RUNS) + 0.03);
    }
    double d = distance(all, SHAPES * RUNS);
    printf("# all shapes: distance %.3f\n", d);
    CHECK(d < 1.95 / sqrt(SHAPES * RUNS) + 0.03);
    CHECK(alarms == 0);
}

static unsigned bits_in(const uint8_t *page)
{
    unsigned bits = 0;
    for (size_t i = 0; i < BLOOM_PAGE; i++)
        bits += (unsigned)__builtin_popcount(page[i]);
    return bits;
}

static uint8_t *page_of(const struct bloom *bloom, uint8_t *data, uint64_t hash)
{
    return data + mul_high(hash, bloom->pages) * BLOOM_PAGE;
}

/* Keys whose probes all set a new bit, found by trying: that takes 1 / (1 - fill)^k tries for each.
 */
static void insert_new_bits(const struct bloom *bloom, uint8_t *data, uint64_t n)
{
    uint8_t before[BLOOM_PAGE];
    while (n > 0) {
        uint64_t hash = draw();
        uint8_t *page = page_of(bloom, data, hash);
        memcpy(before, page, BLOOM_PAGE);
        bloom_insert(bloom, data, 0, &hash, 1);
        if (bits_in(page) - bits_in(before) == bloom->k)
            n--;
        else
            memcpy(page, before, BLOOM_PAGE);
    }
}

static bool is_alarming(struct occupancy o)
{
    double p = chi2_tail(o.chi2, o.freedom);
    printf("# p %.3g, fullest %.3g\n", p, o.fullest);
    return p < ALARM || o.fullest < ALARM;
}

/* As many as a fifth of the honest ones. With six seeds p was 1e-43 and less. */
TEST(keys_whose_bits_are_all_new_are_noticed)
{
    const struct bloom bloom = {24, 8, 1};
    const uint64_t honest = 24 * 64 * 178 / 8;
    uint8_t *data = filter_new(&bloom);
    insert_random(&bloom, data, honest);
    CHECK(!is_alarming(occupancy_of(&bloom, data)));
    insert_new_bits(&bloom, data, honest / 5);
    CHECK(is_alarming(occupancy_of(&bloom, data)));
    free(data);
}

/* All in one line. */
TEST(a_line_that_is_filled_is_noticed)
{
    const struct bloom bloom = {24, 8, 1};
    uint8_t *data = filter_new(&bloom);
    insert_random(&bloom, data, 24 * 64 * 250 / 8);
    CHECK(!is_alarming(occupancy_of(&bloom, data)));
    for (unsigned i = 0; i < 150; i++) {
        uint64_t hash = ((draw() >> 8 | (uint64_t)5 << 56) & ~(uint64_t)63) | 17;
        bloom_insert(&bloom, data, 0, &hash, 1);
    }
    CHECK(occupancy_of(&bloom, data).fullest < ALARM);
    free(data);
}

TEST(where_bits_say_too_little_nothing_is_said)
{
    const struct bloom bloom = {1, 8, 1};
    uint8_t *data = filter_new(&bloom);
    struct occupancy o = occupancy_of(&bloom, data);
    CHECK(o.freedom == 0 && o.fullest == 1);
    insert_random(&bloom, data, 1);
    o = occupancy_of(&bloom, data);
    CHECK(o.freedom == 0 && o.fullest >= ALARM);
    memset(data, 0xff, BLOOM_PAGE);
    o = occupancy_of(&bloom, data);
    CHECK(o.freedom == 0 && o.fullest == 1);
    free(data);
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(the_tail_of_chi_square);
    RUN(honest_filters_have_uniform_p);
    RUN(keys_whose_bits_are_all_new_are_noticed);
    RUN(a_line_that_is_filled_is_noticed);
    RUN(where_bits_say_too_little_nothing_is_said);
    return check_done();
}

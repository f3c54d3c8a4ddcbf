/* SPDX-License-Identifier: MIT */
/* tags: computing portable */
#include "base/exact.h"
#include "check.h"
#include "kind/bloom/bloom.h"

#include <math.h>
#include <stdlib.h>

enum { B = 512, PAGE_BITS = 8 * BLOOM_PAGE };

static double bits_per_key(const struct bloom *bloom, uint64_t n)
{
    return (double)bloom->pages * PAGE_BITS / (double)n;
}

static bool near(double got, double want, double relative)
{
    bool ok = fabs(got - want) <= relative * fabs(want);
    if (!ok)
        printf("# got %.10g, want %.10g within %g\n", got, want, relative);
    return ok;
}

TEST(log_and_exp_agree_with_libm)
{
    for (double x = 1e-300; x < 1e300; x *= 1.37)
        CHECK(fabs(exact_log(x) - log(x)) <= 4e-16 * fabs(log(x)) + 1e-18);
    CHECK(exact_log(1) == 0);
    for (double x = -1e-9; x > -700; x *= 1.37)
        CHECK(near(exact_exp_negative(x), exp(x), 3e-9));
    CHECK(exact_exp_negative(-701) == 0 && exact_exp_negative(-1e9) == 0);
}

/* These may never change: a file must have the same bytes wherever it is made. */
TEST(sizes_are_these_everywhere)
{
    static const struct {
        uint64_t n;
        double p;
        uint64_t pages;
        unsigned k, lines;
    } vector[] = {
        {1, 0.5, 1, 1, 1},
        {1, 0.01, 1, 1, 1},
        {1, 1e-4, 1, 2, 2},
        {1, 1e-9, 1, 4, 2},
        {1000, 0.5, 1, 1, 1},
        {1000, 0.01, 1, 2, 1},
        {1000, 1e-4, 1, 6, 2},
        {1000, 1e-9, 2, 14, 2},
        {3303, 0.5, 1, 1, 1},
        {3303, 0.1, 1, 1, 1},
        {3303, 0.05, 1, 2, 1},
        {3303, 0.01, 1, 6, 1},
        {3303, 0.001, 2, 5, 1},
        {3303, 0.000889, 2, 6, 2},
        {3303, 1e-4, 3, 6, 2},
        {3303, 1e-5, 3, 10, 2},
        {3303, 1e-6, 4, 10, 2},
        {3303, 1e-9, 6, 16, 2},
        {3304, 0.5, 1, 1, 1},
        {3304, 0.1, 1, 1, 1},
        {3304, 0.05, 1, 2, 1},
        {3304, 0.01, 2, 2, 1},
        {3304, 0.001, 2, 5, 1},
        {3304, 0.000889, 2, 6, 2},
        {3304, 1e-4, 3, 6, 2},
        {3304, 1e-5, 3, 10, 2},
        {3304, 1e-6, 4, 10, 2},
        {3304, 1e-9, 6, 16, 2},
        {100000, 0.5, 5, 1, 1},
        {100000, 0.1, 15, 3, 1},
        {100000, 0.05, 20, 4, 1},
        {100000, 0.01, 31, 5, 1},
        {100000, 0.001, 48, 8, 1},
        {100000, 0.000889, 46, 10, 2},
        {100000, 1e-4, 61, 12, 2},
        {100000, 1e-5, 78, 14, 2},
        {100000, 1e-6, 96, 16, 2},
        {100000, 1e-9, 160, 22, 2},
        {1000000, 0.5, 45, 1, 1},
        {1000000, 0.1, 148, 3, 1},
        {1000000, 0.05, 193, 4, 1},
        {1000000, 0.01, 303, 6, 1},
        {1000000, 0.001, 475, 9, 1},
        {1000000, 0.000889, 455, 10, 2},
        {1000000, 1e-4, 607, 12, 2},
        {1000000, 1e-5, 773, 16, 2},
        {1000000, 1e-6, 952, 18, 2},
        {1000000, 1e-9, 1595, 22, 2},
        {123456789, 0.5, 5436, 1, 1},
        {123456789, 0.1, 18220, 3, 1},
        {123456789, 0.05, 23807, 4, 1},
        {123456789, 0.01, 37368, 6, 1},
        {123456789, 0.001, 58570, 9, 1},
        {123456789, 0.000889, 56120, 10, 2},
        {123456789, 1e-4, 74828, 12, 2},
        {123456789, 1e-5, 95413, 16, 2},
        {123456789, 1e-6, 117464, 18, 2},
        {123456789, 1e-9, 196866, 22, 2},
        {1000000000, 0.5, 44028, 1, 1},
        {1000000000, 0.1, 147577, 3, 1},
        {1000000000, 0.05, 192835, 4, 1},
        {1000000000, 0.01, 302674, 6, 1},
        {1000000000, 0.001, 474413, 9, 1},
        {1000000000, 0.000889, 454569, 10, 2},
        {1000000000, 1e-4, 606103, 12, 2},
        {1000000000, 1e-5, 772838, 16, 2},
        {1000000000, 1e-6, 951452, 18, 2},
        {1000000000, 1e-9, 1594614, 22, 2},
        {1000000000000, 0.5, 44027559, 1, 1},
        {1000000000000, 0.1, 147576189, 3, 1},
        {1000000000000, 0.05, 192834417, 4, 1},
        {1000000000000, 0.01, 302673423, 6, 1},
        {1000000000000, 0.001, 474412919, 9, 1},
        {1000000000000, 0.000889, 454568503, 10, 2},
        {1000000000000, 1e-4, 606102980, 12, 2},
        {1000000000000, 1e-5, 772837336, 16, 2},
        {1000000000000, 1e-6, 951451736, 18, 2},
        {1000000000000, 1e-9, 1594613198, 22, 2},
    };
    for (size_t i = 0; i < sizeof vector / sizeof *vector; i++) {
        struct bloom bloom;
        CHECK(bloom_size(vector[i].n, vector[i].p, &bloom));
        bool same = bloom.pages == vector[i].pages && bloom.k == vector[i].k &&
                    bloom.lines == vector[i].lines;
        CHECK(same);
        if (!same)
            printf("# n = %llu, p = %g: %llu pages, k = %u, G = %u\n",
                   (unsigned long long)vector[i].n, vector[i].p, (unsigned long long)bloom.pages,
                   bloom.k, bloom.lines);
    }
}

/* Bits a key and k for large n, as computed independently from the exact occupancy law. */
TEST(bits_per_key_are_as_published)
{
    static const struct {
        double p, bits;
        unsigned k;
    } row[] = {
        {1e-1, 4.84, 3},   {1e-2, 9.92, 6},   {1e-3, 15.55, 9},
        {1e-4, 19.86, 12}, {1e-5, 25.32, 16}, {1e-6, 31.18, 18},
    };
    const uint64_t n = 1000000000;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct bloom bloom;
        CHECK(bloom_size(n, row[i].p, &bloom));
        CHECK(fabs(bits_per_key(&bloom, n) - row[i].bits) < 0.00501);
        CHECK(bloom.k == row[i].k);
    }
}

/* moment[j] = E[(X/B)^k] for the number X of bits of a line that are set once j keys have thrown k
 * bits each: the occupancy law, by its recursion, a throw at a time. */
static double *exact_moments(unsigned k, unsigned max_j)
{
    double p[B + 1] = {1}, weight[B + 1];
    double *moment = calloc(max_j + 1, sizeof *moment);
    for (int x = 0; x <= B; x++)
        weight[x] = pow((double)x / B, k);
    for (unsigned j = 1; moment && j <= max_j; j++) {
        for (unsigned throw = 0; throw < k; throw ++)
            for (int x = B; x >= 0; x--)
                p[x] = p[x] * x / B + (x > 0 ? p[x - 1] * (B - x + 1) / B : 0);
        for (int x = 0; x <= B; x++)
            moment[j] += p[x] * weight[x];
    }
    return moment;
}

static double poisson(double mean, double i)
{
    return exp(i * log(mean) - mean - lgamma(i + 1));
}

static double exact_fpr_one_line(unsigned k, double mean)
{
    unsigned max_j = (unsigned)(mean + 12 * sqrt(mean) + 30);
    double *moment = exact_moments(k, max_j), fpr = 0;
    for (unsigned j = 0; moment && j <= max_j; j++)
        fpr += poisson(mean, j) * moment[j];
    free(moment);
    return fpr;
}

static double exact_fpr_two_lines(unsigned k, double page_mean)
{
    unsigned last = (unsigned)(page_mean + 9 * sqrt(page_mean) + 30);
    double low = page_mean - 9 * sqrt(page_mean);
    unsigned first = low > 1 ? (unsigned)low : 1;
    unsigned max_j = (unsigned)(last / 32.0 + 12 * sqrt(last / 32.0) + 30);
    double *moment = exact_moments(k / 2, max_j), fpr = 0;
    for (unsigned page = first; moment && page <= last; page++) {
        double term = exp(page * log(31.0 / 32)), line = 0; /* Bin(i; page, 1/32) */
        for (unsigned i = 0; i <= page && i <= max_j; i++) {
            line += term * moment[i];
            term *= (double)(page - i) / (i + 1) / 31;
        }
        fpr += poisson(page_mean, page) * line * line;
    }
    free(moment);
    return fpr;
}

TEST(fpr_agrees_with_the_occupancy_law)
{
    static const double p[] = {1e-1, 1e-2, 1e-3, 1e-4, 1e-6}, load[] = {0.1, 0.5, 1, 2};
    const uint64_t n = 100000000;
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) {
        struct bloom bloom;
        CHECK(bloom_size(n, p[i], &bloom));
        for (size_t l = 0; l < sizeof load / sizeof *load; l++) {
            double keys = load[l] * (double)n, page_mean = keys / (double)bloom.pages;
            double exact = bloom.lines == 1 ? exact_fpr_one_line(bloom.k, page_mean / 64)
                                            : exact_fpr_two_lines(bloom.k, page_mean);
            /* Design load is what sizes files: 0.02 %. Far below it, where the FPR is 1e-10 and
             * less, quadrature over the loads of pages costs up to 2 %. */
            double tolerance = load[l] >= 1 ? 2e-4 : load[l] >= 0.5 ? 1e-3 : 2e-2;
            bool agrees = near(bloom_fpr(&bloom, keys), exact, tolerance);
            CHECK(agrees);
            if (!agrees)
                printf("# p = %g, load = %g\n", p[i], load[l]);
        }
    }
}

TEST(fpr_at_the_ends)
{
    struct bloom one = {1, 6, 1}, two = {1, 18, 2};
    CHECK(bloom_fpr(&one, 0) == 0 && bloom_fpr(&two, 0) == 0);
    CHECK(bloom_fpr(&one, 1e6) == 1 && bloom_fpr(&two, 1e15) == 1);
    CHECK(bloom_fpr(&one, 1) > 0 && bloom_fpr(&one, 1) < 1e-10);
    CHECK(bloom_fpr(&two, 1) > 0 && bloom_fpr(&two, 1) < 1e-20);
    /* No great step where the way of summing changes, at 100 keys a page and 1e-18. */
    CHECK(near(bloom_fpr(&two, 100.0), bloom_fpr(&two, nextafter(100, 0)), 2e-2));
}

TEST(size_is_the_smallest)
{
    static const double p[] = {0.9, 0.1, 0.01, 0.001, 0.0009, 0.00088, 1e-5, 1e-9};
    static const uint64_t n[] = {5000, 77777, 12345678};
    for (size_t i = 0; i < sizeof p / sizeof *p; i++)
        for (size_t j = 0; j < sizeof n / sizeof *n; j++) {
            struct bloom bloom;
            CHECK(bloom_size(n[j], p[i], &bloom));
            CHECK(bloom_fpr(&bloom, (double)n[j]) <= p[i]);
            for (unsigned k = bloom.lines; k <= BLOOM_MAX_K && bloom.pages > 1; k += bloom.lines) {
                struct bloom less = {bloom.pages - 1, k, bloom.lines};
                CHECK(bloom_fpr(&less, (double)n[j]) > p[i]);
            }
            for (unsigned k = bloom.lines; k < bloom.k; k += bloom.lines) {
                struct bloom tie = {bloom.pages, k, bloom.lines};
                CHECK(bloom_fpr(&tie, (double)n[j]) > p[i]);
            }
        }
}

TEST(size_refuses_what_no_machine_holds)
{
    struct bloom bloom;
    CHECK(!bloom_size(UINT64_MAX, 1e-6, &bloom));
    CHECK(!bloom_size((uint64_t)1 << 60, 0.001, &bloom));
    CHECK(bloom_size((uint64_t)1 << 52, 0.001, &bloom));
    CHECK(bloom_size(1, 0.999, &bloom) && bloom.pages == 1);
}

TEST(capacity_inverts_size)
{
    static const double p[] = {0.5, 0.01, 0.001, 1e-4, 1e-9};
    static const uint64_t pages[] = {1, 2, 1000, 123456789, (uint64_t)1 << 42};
    for (size_t i = 0; i < sizeof p / sizeof *p; i++)
        for (size_t j = 0; j < sizeof pages / sizeof *pages; j++) {
            struct bloom bloom, sized;
            uint64_t n = bloom_capacity(pages[j], p[i], &bloom);
            CHECK(bloom.pages == pages[j]);
            CHECK(bloom_fpr(&bloom, (double)n) <= p[i]);
            CHECK(bloom_size(n, p[i], &sized) && sized.pages <= pages[j]);
            /* One key more; at 2^42 pages a double does not tell it from n. */
            uint64_t more = n + 1 + n / 1000000000;
            CHECK(!bloom_size(more, p[i], &sized) || sized.pages > pages[j]);
        }
}

TEST(best_is_no_worse_than_any_k)
{
    static const uint64_t n[] = {10, 2000, 3300, 20000};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        struct bloom best, sized;
        bloom_best(n[i], 1, &best);
        double fpr = bloom_fpr(&best, (double)n[i]);
        for (unsigned k = best.lines; k <= BLOOM_MAX_K; k += best.lines) {
            struct bloom other = {1, k, best.lines};
            CHECK(bloom_fpr(&other, (double)n[i]) >= fpr);
        }
        CHECK(best.lines == (fpr < 1e-3 ? 2U : 1U));
        CHECK(bloom_size(n[i], fpr < 1e-9 ? 1e-9 : fpr, &sized) && sized.pages == 1);
    }
}

TEST(n_at_inverts_fpr)
{
    struct bloom one = {1000, 6, 1}, two = {1000, 18, 2};
    struct layer first, second;
    bloom_to(&one, &first);
    bloom_to(&two, &second);
    for (double p = 1e-9; p < 1; p *= 7) {
        CHECK(near(bloom_fpr(&one, layer_n_at(&first, p)), p, 1e-5));
        CHECK(near(bloom_fpr(&two, layer_n_at(&second, p)), p, 1e-5));
    }
}

int main(void)
{
    RUN(log_and_exp_agree_with_libm);
    RUN(sizes_are_these_everywhere);
    RUN(bits_per_key_are_as_published);
    RUN(fpr_agrees_with_the_occupancy_law);
    RUN(fpr_at_the_ends);
    RUN(size_is_the_smallest);
    RUN(size_refuses_what_no_machine_holds);
    RUN(capacity_inverts_size);
    RUN(best_is_no_worse_than_any_k);
    RUN(n_at_inverts_fpr);
    return check_done();
}

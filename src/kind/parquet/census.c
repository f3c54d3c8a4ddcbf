/* Estimates from the bits, predictions from the design, and the table of bits. */
#include <math.h>

#include "base/bytes.h"
#include "kind/parquet/parquet.h"

/* With a smaller fraction of clear bits, whole words are set, and two sets are not compared. */
static const double LEAST_CLEAR = 1.0 / 32;

/* The probability that a key of a block does not set a given bit of the block. */
static const double MISS = 1 - 1.0 / PARQUET_WORD_BITS;

/* A key's bits in its block depend on 32 bits of its hash. So a block of j keys reports at least j
 * of the 2^32 possible values present. For small j, that is more than eight independent bits give.
 * Measured with all 2^32 values: blocks of 1, 2, 4, 8, 16 keys reported 1.00, 3.33, 155, 16800,
 * 6.1e6 of them on average. Independent bits would give 0.004, 1.00, 144, 16700, 6.1e6. So both
 * numbers are added. */
static double with_equal_hashes(double fpr, double n, double blocks)
{
    return fmin(1, fpr + ldexp(n / blocks, -32));
}

/* ---- The design. */

double parquet_half(uint64_t blocks)
{
    return (double)blocks * log(0.5) / log(MISS);
}

/* The FPR of a block of j keys: on average a fraction 1 - MISS^j of each word's bits is set, and
 * words are independent. */
static double block_fpr(double j)
{
    return pow(-expm1(j * log(MISS)), PARQUET_WORDS);
}

/* Above this load the sum below has too many terms, and the closed form is exact to 1e-13. */
enum { CLOSED_FORM = 64 };

/* The mean of (1 - MISS^j)^8 over blocks, expanded by the binomial theorem. j is the number of n
 * keys that one of z blocks gets, and MISS^ij has the mean (1 - (1 - MISS^i) / z)^n. */
static double mean_closed(double n, double z)
{
    double sum = 0, choose = 1;
    for (int i = 0; i <= PARQUET_WORDS; i++) {
        sum += choose * exp(n * log1p(-(1 - pow(MISS, i)) / z));
        choose *= -(double)(PARQUET_WORDS - i) / (i + 1);
    }
    return sum;
}

/* The same mean as a sum over j, which has a binomial distribution: n trials with probability 1/z.
 */
static double mean_summed(double n, double z)
{
    double weight = exp(n * log1p(-1 / z)), weights = 0, sum = 0, mean = n / z;
    for (double j = 0; j <= n && (j <= mean || weight > 1e-18 * weights); j++) {
        weights += weight;
        sum += weight * block_fpr(j);
        weight *= (n - j) / (j + 1) / (z - 1);
    }
    return sum / weights;
}

double parquet_fpr_at(const struct layer *layer, double n)
{
    double z = (double)parquet_blocks(layer), fpr;
    if (!(n > 0))
        return 0;
    if (z < 2)
        fpr = block_fpr(n);
    else
        fpr = n / z > CLOSED_FORM ? mean_closed(n, z) : mean_summed(n, z);
    return with_equal_hashes(fpr, n, z);
}

/* ---- The bits. */

/* The number of set bits of a word. Baseline x86-64 has no instruction for it. */
static inline uint32_t count_word(uint32_t x)
{
    x -= x >> 1 & 0x55555555;
    x = (x & 0x33333333) + (x >> 2 & 0x33333333);
    x = (x + (x >> 4)) & 0x0f0f0f0f;
    x += x >> 8;
    return (x + (x >> 16)) & 63;
}

/* Sums over blocks. The probability that a block reports an absent key is the product of the
 * fractions of bits set in its words, a multiple of 2^-40 (`hits`). Hits are summed exactly, in two
 * parts, so that the result does not depend on the order of summation. */
struct sums {
    uint64_t set;                 /* bits */
    uint64_t hits_high, hits_low; /* 2^LOW_BITS hits_high + hits_low */
    uint64_t least;               /* fewest keys: each block's largest number of bits in a word */
};

enum { LOW_BITS = 20, UNIT_BITS = 5 * PARQUET_WORDS };

static void add_block(const uint8_t *block, struct sums *sums)
{
    uint64_t hits = 1;
    uint32_t set = 0, most = 0;
    for (unsigned w = 0; w < PARQUET_WORDS; w++) {
        uint32_t n = count_word(get_le32(block + 4 * w));
        hits *= n;
        set += n;
        most = n > most ? n : most;
    }
    sums->set += set;
    sums->least += most;
    sums->hits_high += hits >> LOW_BITS;
    sums->hits_low += hits & ((1 << LOW_BITS) - 1);
}

static void add(void *sums, const void *more)
{
    struct sums *to = sums;
    const struct sums *from = more;
    to->set += from->set;
    to->least += from->least;
    to->hits_high += from->hits_high;
    to->hits_low += from->hits_low;
}

static void tally(const struct layer *layer, const uint8_t *bits, uint64_t at, size_t len,
                  void *sums)
{
    struct sums of_bits = {0};
    (void)layer, (void)at;
    for (size_t b = 0; b < len; b += PARQUET_BLOCK)
        add_block(bits + b, &of_bits);
    add(sums, &of_bits);
}

/* The variance of the number of clear bits, from which the number n of distinct keys is estimated.
 * With z blocks, a key sets a given bit with probability a = 1/(32 z). So of m bits, m (1 - a)^n
 * are clear on average, whatever the loads of the blocks. The estimate of n is ln(clear / m) / ln(1
 * - a).
 *
 * A key sets at least one of two given bits with probability 2a, or with 2a - a/32 if they are in
 * different words of one block; each bit has 224 such partners. By summing over all pairs, the
 * number of clear bits, with mean E, has the variance
 *
 *     E + E^2 spread,  m spread = 224 ((1 - 2a + a/32)^n / (1 - a)^2n - 1)
 *                                 + (m - 225) ((1 - 2a)^n / (1 - a)^2n - 1) - 1 */
static double spread_at(double z, double n)
{
    enum { IN_BLOCK = PARQUET_BITS - PARQUET_WORD_BITS };
    double m = PARQUET_BITS * z, a = 1 / (PARQUET_WORD_BITS * z), both = (1 - a) * (1 - a);
    double in_block = log1p((a / PARQUET_WORD_BITS - a * a) / both), others = log1p(-a * a / both);
    return (IN_BLOCK * expm1(n * in_block) + (m - IN_BLOCK - 1) * expm1(n * others) - 1) / m;
}

/* The variance of the estimate of n: that of the number of clear bits, divided by (E a)^2. */
static double variance(const struct layer *layer, double n)
{
    double z = (double)parquet_blocks(layer);
    double m = PARQUET_BITS * z, decay = log1p(-1 / (PARQUET_WORD_BITS * z));
    return fmax(0, (exp(-n * decay) / m + spread_at(z, n)) / (decay * decay));
}

static void estimate(const struct layer *layer, const struct sums *sums, struct census *out)
{
    double z = (double)parquet_blocks(layer);
    double m = PARQUET_BITS * z, clear = m - (double)sums->set, least = (double)sums->least;
    double a = 1 / (PARQUET_WORD_BITS * z), decay = -log1p(-a), fewest, most;
    double n = log(m / fmax(clear, 1)) / decay;
    out->bits = (uint64_t)m;
    out->bits_set = (double)sums->set / m;
    if (clear > m / 2) {
        double margin = CENSUS_Z95 * sqrt(variance(layer, n));
        out->n = fmax(least, n);
        out->n_low = fmax(least, n - margin);
        out->n_high = fmax(least, n + margin);
        return;
    }
    layer_clear_interval(clear, spread_at(z, n), &fewest, &most);
    out->n_at_least = clear < CENSUS_FEWEST_CLEAR;
    out->n_low = fmax(least, log(m / most) / decay);
    out->n = out->n_at_least ? out->n_low : fmax(least, n);
    out->n_high = out->n_at_least ? INFINITY : fmax(least, log(m / fewest) / decay);
}

static void result(const struct layer *layer, const void *of_all, struct census *out)
{
    const struct sums *sums = of_all;
    double z = (double)parquet_blocks(layer);
    double hits = ldexp((double)sums->hits_high, LOW_BITS) + (double)sums->hits_low;
    *out = (struct census){0};
    estimate(layer, sums, out);
    out->fpr = with_equal_hashes(ldexp(hits, -UNIT_BITS) / z, out->n, z);
}

/* As `estimate` does. */
static double keys(const struct layer *layer, const void *of_all)
{
    const struct sums *sums = of_all;
    double z = (double)parquet_blocks(layer), set = (double)sums->set / (PARQUET_BITS * z);
    return 1 - set < LEAST_CLEAR ? NAN : log1p(-set) / log1p(-1 / (PARQUET_WORD_BITS * z));
}

/* Any two sizes have a common divisor: at least one block. */
static bool alike(const struct layer *a, const struct layer *b)
{
    return a->kind == b->kind;
}

const struct table parquet_table = {
    .unit = PARQUET_BLOCK,
    .alike = alike,
    .resize = parquet_resize,
    .tally = tally,
    .add = add,
    .result = result,
    .keys = keys,
    .variance = variance,
};

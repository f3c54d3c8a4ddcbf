/* Estimates from the bits, predictions from the design, and unions. */
#include <math.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/parallel.h"
#include "kind/parquet/parquet.h"
#include "kind/target.h"

enum {
    PIECE_BLOCKS = 2048, /* in one piece of work: whole pages */
    /* With fewer clear bits than this, the number of keys has no upper bound: the distribution is
     * too far from a normal one. */
    FEWEST_CLEAR = 5,
};

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

static void add_block(const uint32_t word[PARQUET_WORDS], struct sums *sums)
{
    uint64_t hits = 1;
    uint32_t set = 0, most = 0;
    for (unsigned w = 0; w < PARQUET_WORDS; w++) {
        uint32_t n = count_word(word[w]);
        hits *= n;
        set += n;
        most = n > most ? n : most;
    }
    sums->set += set;
    sums->least += most;
    sums->hits_high += hits >> LOW_BITS;
    sums->hits_low += hits & ((1 << LOW_BITS) - 1);
}

static void add_sums(struct sums *to, const struct sums *from)
{
    to->set += from->set;
    to->least += from->least;
    to->hits_high += from->hits_high;
    to->hits_low += from->hits_low;
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
static double variance_at(double z, double n)
{
    double m = PARQUET_BITS * z, decay = log1p(-1 / (PARQUET_WORD_BITS * z));
    return fmax(0, (exp(-n * decay) / m + spread_at(z, n)) / (decay * decay));
}

static void estimate(double z, const struct sums *sums, struct census *out)
{
    double m = PARQUET_BITS * z, clear = m - (double)sums->set, least = (double)sums->least;
    double a = 1 / (PARQUET_WORD_BITS * z), decay = -log1p(-a), fewest, most;
    double n = log(m / fmax(clear, 1)) / decay;
    out->bits = (uint64_t)m;
    out->bits_set = (double)sums->set / m;
    if (clear > m / 2) {
        double margin = CENSUS_Z95 * sqrt(variance_at(z, n));
        out->n = fmax(least, n);
        out->n_low = fmax(least, n - margin);
        out->n_high = fmax(least, n + margin);
        return;
    }
    layer_clear_interval(clear, spread_at(z, n), &fewest, &most);
    out->n_at_least = clear < FEWEST_CLEAR;
    out->n_low = fmax(least, log(m / most) / decay);
    out->n = out->n_at_least ? out->n_low : fmax(least, n);
    out->n_high = out->n_at_least ? INFINITY : fmax(least, log(m / fewest) / decay);
}

static void result(uint64_t blocks, const struct sums *of_worker, unsigned workers,
                   struct census *out)
{
    struct sums all = {0};
    for (unsigned w = 0; w < workers; w++)
        add_sums(&all, &of_worker[w]);
    double z = (double)blocks;
    double hits = ldexp((double)all.hits_high, LOW_BITS) + (double)all.hits_low;
    *out = (struct census){0};
    estimate(z, &all, out);
    out->fpr = with_equal_hashes(ldexp(hits, -UNIT_BITS) / z, out->n, z);
}

/* ---- Unions of layers, folded to `blocks` blocks each. */

struct job {
    const struct target *target; /* NULL: nothing is written */
    const struct union_of *parts;
    uint64_t blocks;
    struct sums *of_worker;
};

static void unite_blocks(const uint8_t *from, uint64_t blocks, uint32_t word[PARQUET_WORDS])
{
    for (uint64_t i = 0; i < blocks; i++, from += PARQUET_BLOCK)
        for (unsigned w = 0; w < PARQUET_WORDS; w++)
            word[w] |= get_le32(from + 4 * w);
}

/* Layers to be intersected have the same size. */
static void make_block(const struct job *job, uint64_t block, uint32_t word[PARQUET_WORDS])
{
    const struct union_of *parts = job->parts;
    for (unsigned w = 0; w < PARQUET_WORDS; w++)
        word[w] = 0;
    for (unsigned p = 0; p < parts->n; p++) {
        uint64_t folded = parquet_blocks(parts->layer[p]) / job->blocks;
        const uint8_t *from = parts->data[p] + block * folded * PARQUET_BLOCK;
        if (p == 0 || !parts->intersect)
            unite_blocks(from, folded, word);
        else
            for (unsigned w = 0; w < PARQUET_WORDS; w++)
                word[w] &= get_le32(from + 4 * w);
    }
}

static bool work_piece(void *ctx, unsigned worker, uint64_t i, struct err *err)
{
    const struct job *job = ctx;
    uint8_t out[PIECE_BLOCKS * PARQUET_BLOCK];
    uint64_t first = i * PIECE_BLOCKS, left = job->blocks - first, at = first * PARQUET_BLOCK;
    size_t n = left < PIECE_BLOCKS ? (size_t)left : PIECE_BLOCKS, len = n * PARQUET_BLOCK;
    struct sums sums = {0};
    for (size_t b = 0; b < n; b++) {
        uint32_t word[PARQUET_WORDS];
        make_block(job, first + b, word);
        add_block(word, &sums);
        for (unsigned w = 0; w < PARQUET_WORDS; w++)
            put_le32(out + b * PARQUET_BLOCK + 4 * w, word[w]);
    }
    add_sums(&job->of_worker[worker], &sums);
    return job->target == NULL || (target_write(job->target, out, len, at, err) &&
                                   target_page_sums(job->target, out, at / LAYER_PAGE,
                                                    (len + LAYER_PAGE - 1) / LAYER_PAGE, err));
}

static bool work(struct job *job, unsigned threads, struct census *out, struct err *err)
{
    struct sums alone = {0};
    job->of_worker = calloc(threads, sizeof *job->of_worker);
    if (job->of_worker == NULL) {
        threads = 1;
        job->of_worker = &alone;
    }
    bool ok = parallel_try(threads, (job->blocks + PIECE_BLOCKS - 1) / PIECE_BLOCKS, work_piece,
                           job, err);
    result(job->blocks, job->of_worker, threads, out);
    if (job->of_worker != &alone)
        free(job->of_worker);
    return ok;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The union of layers, folded to their largest common size. */
static struct job union_job(const struct union_of *parts)
{
    struct job job = {.parts = parts, .blocks = parquet_blocks(parts->layer[0])};
    for (unsigned i = 1; i < parts->n; i++)
        job.blocks = common_divisor(job.blocks, parquet_blocks(parts->layer[i]));
    return job;
}

void parquet_census_union(const struct layer *const *layer, const uint8_t *const *data, unsigned n,
                          unsigned threads, struct census *out)
{
    const struct union_of parts = {.n = n, .layer = layer, .data = data};
    struct job job = union_job(&parts);
    struct err none;
    work(&job, threads, out, &none);
}

/* Estimates the numbers of keys and their variances as `estimate` does. */
bool parquet_pair(const struct layer *const *layer, const uint8_t *const *data, unsigned threads,
                  struct pair_census *out)
{
    const struct union_of parts[3] = {
        {.n = 1, .layer = layer, .data = data},
        {.n = 1, .layer = layer + 1, .data = data + 1},
        {.n = 2, .layer = layer, .data = data},
    };
    struct job job = union_job(&parts[2]);
    double z = (double)job.blocks, decay = log1p(-1 / (PARQUET_WORD_BITS * z)), n[3], variance[3];
    for (unsigned i = 0; i < 3; i++) {
        struct census census;
        struct err none;
        job.parts = &parts[i];
        work(&job, threads, &census, &none);
        if (1 - census.bits_set < LEAST_CLEAR)
            return false;
        n[i] = log1p(-census.bits_set) / decay;
        variance[i] = variance_at(z, n[i]);
    }
    *out = (struct pair_census){.a = n[0],
                                .b = n[1],
                                .any = n[2],
                                .var_a = variance[0],
                                .var_b = variance[1],
                                .var_any = variance[2],
                                .var_both = variance_at(z, fmax(0, n[0] + n[1] - n[2]))};
    return true;
}

void parquet_census(const struct layer *layer, const uint8_t *data, unsigned threads,
                    struct census *out)
{
    parquet_census_union(&layer, &data, 1, threads, out);
}

bool parquet_write_union(const struct target *target, const struct union_of *parts,
                         struct census *census, struct err *err)
{
    struct job job = {
        .target = target, .parts = parts, .blocks = parquet_blocks(target_layer(target))};
    return work(&job, target->threads, census, err);
}

/* Estimates from the bits of a classic Bloom filter, and unions of such filters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/parallel.h"
#include "kind/classic/classic.h"
#include "kind/overlap.h"
#include "kind/target.h"

/* Bytes in one piece of work. Large, so that the cost of distributing pieces is negligible. */
enum { PIECE = 1 << 16 };

/* The number of bits that a position can reach. Bits beyond are never set. */
static double reach_of(const struct layer *layer)
{
    const struct layout *layout = layer->kind->layout;
    return (double)(layout->reach != NULL ? layout->reach(layer) : classic_of(layer).m);
}

double classic_fpr_at(const struct layer *layer, double n)
{
    struct classic c = classic_of(layer);
    double reach = reach_of(layer);
    /* With one bit the logarithm is infinite. */
    double clear = reach > 1 ? exp(n * c.k * log1p(-1 / reach)) : n > 0 ? 0 : 1;
    return pow(1 - clear, c.k);
}

double classic_estimate(uint64_t m, unsigned k, uint64_t set)
{
    return -(double)m / k * log1p(-(double)set / (double)m);
}

/* With fewer clear bits than this, the estimate of the number of keys has no upper bound. */
enum { FEWEST_CLEAR = 5 };

/* After n keys with k positions each, the number of clear bits has the mean m q, q = e^(-kn/m), and
 * the variance m q (1 - (1 + kn/m) q), like the number of empty cells (Feller, Introduction to
 * Probability I, II.11). */
static void estimate(double m, unsigned k, double set, struct census *out)
{
    double clear = m - set, least = ceil(set / k), fewest, most;
    out->fpr = pow(set / m, k);
    out->bits = (uint64_t)m;
    out->bits_set = set / m;
    double q = clear / m, load = log(m / fmax(clear, 1));
    if (q > 0.5) { /* the error of n is that of the clear bits, divided by k q */
        double sd = sqrt(fmax(0, q * (1 - (1 + load) * q) * m)) / (k * q);
        out->n = fmax(least, m / k * load);
        out->n_low = fmax(least, out->n - CENSUS_Z95 * sd);
        out->n_high = out->n + CENSUS_Z95 * sd;
        return;
    }
    layer_clear_interval(clear, -(1 + load) / m, &fewest, &most);
    out->n_at_least = clear < FEWEST_CLEAR;
    out->n_low = fmax(least, m / k * log(m / most));
    out->n = out->n_at_least ? out->n_low : fmax(least, m / k * load);
    out->n_high = out->n_at_least ? INFINITY : fmax(least, m / k * log(m / fewest));
}

struct count {
    const uint8_t *const *data;
    unsigned n;
    uint64_t m, bytes, *of_worker;
};

static uint64_t count_bytes(const struct count *job, uint64_t first, uint64_t end)
{
    uint64_t set = 0;
    for (uint64_t at = first; at < end; at += 8) {
        uint64_t word = 0;
        for (unsigned i = 0; i < job->n; i++)
            word |= get_le64(job->data[i] + at);
        /* In a forged file there may be bits behind the last. */
        if (at * 8 + 64 > job->m)
            word &= ((uint64_t)1 << job->m % 64) - 1;
        set += (unsigned)__builtin_popcountll(word);
    }
    return set;
}

static void count_piece(void *ctx, unsigned worker, uint64_t i)
{
    const struct count *job = ctx;
    uint64_t first = i * PIECE, left = job->bytes - first;
    job->of_worker[worker] += count_bytes(job, first, first + (left < PIECE ? left : PIECE));
}

/* The number of set bits in the union of n layers with the same m. */
static uint64_t count_set(const uint8_t *const *data, unsigned n, uint64_t m, unsigned threads)
{
    struct count job = {.data = data, .n = n, .m = m, .bytes = classic_bytes(m)};
    job.of_worker = calloc(threads, sizeof *job.of_worker);
    if (job.of_worker == NULL)
        return count_bytes(&job, 0, job.bytes);
    parallel_for(threads, (job.bytes + PIECE - 1) / PIECE, count_piece, &job);
    uint64_t set = 0;
    for (unsigned w = 0; w < threads; w++)
        set += job.of_worker[w];
    free(job.of_worker);
    return set;
}

void classic_census_of(const struct layer *layer, uint64_t set, struct census *out)
{
    double reach = reach_of(layer);
    *out = (struct census){0};
    estimate(reach, classic_of(layer).k, fmin((double)set, reach), out);
}

void classic_census_union(const struct layer *const *layer, const uint8_t *const *data, unsigned n,
                          unsigned threads, struct census *out)
{
    uint64_t m = classic_of(layer[0]).m;
    classic_census_of(layer[0], count_set(data, n, m, threads), out);
}

void classic_census(const struct layer *layer, const uint8_t *data, unsigned threads,
                    struct census *out)
{
    classic_census_union(&layer, &data, 1, threads, out);
}

bool classic_pair(const struct layer *const *layer, const uint8_t *const *data, unsigned threads,
                  struct pair_census *out)
{
    struct classic c = classic_of(layer[0]);
    double reach = reach_of(layer[0]), set[3];
    set[0] = (double)count_set(data, 1, c.m, threads);
    set[1] = (double)count_set(data + 1, 1, c.m, threads);
    set[2] = (double)count_set(data, 2, c.m, threads);
    for (unsigned i = 0; i < 3; i++)
        set[i] = fmin(set[i], reach);
    return overlap_cells(reach, c.k, set, out);
}

bool classic_alike(const struct layer *a, const struct layer *b)
{
    return a->kind == b->kind && a->geometry[0] == b->geometry[0] &&
           a->geometry[1] == b->geometry[1];
}

bool classic_unite(const struct layer *a, const struct layer *b, struct layer *out)
{
    *out = *a;
    return classic_alike(a, b);
}

struct unite {
    const struct target *target;
    const struct union_of *parts;
    uint64_t bytes; /* bytes of bits; the extra bytes are copied from the first part */
    uint64_t *set_of_worker;
};

static uint64_t combine(uint64_t a, uint64_t b, bool intersect)
{
    return intersect ? a & b : a | b;
}

static bool unite_piece(void *ctx, unsigned worker, uint64_t i, struct err *err)
{
    const struct unite *job = ctx;
    uint8_t piece[PIECE];
    uint64_t at = i * PIECE, left = target_layer(job->target)->data_len - at, set = 0;
    size_t len = left < PIECE ? (size_t)left : PIECE;
    memcpy(piece, job->parts->data[0] + at, len);
    for (size_t b = 0; b + 8 <= len && at + b < job->bytes; b += 8) {
        uint64_t word = get_le64(piece + b);
        for (unsigned p = 1; p < job->parts->n; p++)
            word = combine(word, get_le64(job->parts->data[p] + at + b), job->parts->intersect);
        put_le64(piece + b, word);
        set += (unsigned)__builtin_popcountll(word);
    }
    job->set_of_worker[worker] += set;
    return target_write(job->target, piece, len, at, err) &&
           target_page_sums(job->target, piece, at / LAYER_PAGE,
                            (len + LAYER_PAGE - 1) / LAYER_PAGE, err);
}

bool classic_write_union(const struct target *target, const struct union_of *parts,
                         struct census *census, struct err *err)
{
    const struct layer *layer = target_layer(target);
    struct classic c = classic_of(layer);
    struct unite job = {.target = target, .parts = parts, .bytes = classic_bytes(c.m)};
    uint64_t set = 0;
    job.set_of_worker = calloc(target->threads, sizeof *job.set_of_worker);
    if (job.set_of_worker == NULL)
        return fail(err, "out of memory");
    bool ok = parallel_try(target->threads, (layer->data_len + PIECE - 1) / PIECE, unite_piece,
                           &job, err);
    for (unsigned w = 0; w < target->threads; w++)
        set += job.set_of_worker[w];
    free(job.set_of_worker);
    *census = (struct census){0};
    estimate(reach_of(layer), c.k, fmin((double)set, reach_of(layer)), census);
    return ok;
}

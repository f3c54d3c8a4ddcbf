/* SPDX-License-Identifier: MIT
 * go-zero's Bloom filter (core/bloom of the repository zeromicro/go-zero). It is only a bitmap in
 * Redis: m is not stored but set by the program that uses it, and k is always 14. Position i of a
 * key is lane i of its hash (foreign/hash.h), modulo m.
 */
#include "foreign/classic.h"

#include <math.h>

#include "base/exact.h"
#include "foreign/hash.h"

enum { BITS };

static const struct layout_param params[] = {
    {"bits", NULL, "M", "the number of bits that the program gives to bloom.New"},
    {0},
};

enum {
    K = 14,
    BITS_PER_KEY = 20, /* what go-zero recommends; about 7e-5 */
};

/* Redis accepts only bit offsets below 2^32. */
static const uint64_t MAX_M = (uint64_t)1 << 32;

static void positions(const struct layer *layer, struct hashes keys, size_t n, uint64_t *out)
{
    const struct modulus by = modulus_of(classic_of(layer).m);
    for (unsigned j = 0; j < K; j++) {
        const uint64_t *hash = hashes_lane(keys, j);
        for (size_t i = 0; i < n; i++)
            out[i * K + j] = modulo(hash[i], by);
    }
}

static bool check(const struct layer *layer, struct err *err)
{
    struct classic c = classic_of(layer);
    if (c.m > MAX_M || c.k != K || c.variant != 0 || c.extra != 0 || layer->geometry[3] != 0)
        return fail(err, "its geometry is not one of go-zero's");
    return classic_check(layer, err);
}

static bool design(const struct layout_spec *spec, uint64_t n, double p, struct layout_filter *out,
                   struct err *err)
{
    struct classic c = {.k = K};
    if (!layout_number(spec, BITS, MAX_M, &c.m, err))
        return false;
    if (c.m == 0) {
        n = n > 0 ? n : 1;
        double bits = BITS_PER_KEY * (double)n;
        /* The smallest m for n keys: (1 - e^(-kn/m))^k = p, solved for m. Infinity where p is so
         * small that 1 - p^(1/k) is 1. */
        if (p > 0)
            bits = ceil(K * (double)n / fabs(exact_log(1 - exact_exp_negative(exact_log(p) / K))));
        if (bits > (double)MAX_M)
            return fail(err, "it would need more than 2^32 bits, which Redis cannot hold");
        c.m = (uint64_t)bits;
    }
    classic_begin(spec, &c, out);
    return classic_design_for(&c, n, p, out, err);
}

static bool read_file(const struct layout_spec *spec, const struct layout_foreign *in,
                      struct layout_filter *out, struct layout_bits *bits, struct err *err)
{
    struct classic c = {.k = K};
    if (!layout_number(spec, BITS, MAX_M, &c.m, err))
        return false;
    if (c.m == 0)
        return fail(err, "its bytes do not say how many bits there are: give gozero:bits=M");
    classic_begin(spec, &c, out);
    classic_design(&c, spec, out);
    return classic_read_sized(spec, in, c.m, &bits[0], err);
}

static void show(const struct layout_filter *filter, char *spec, size_t room)
{
    layout_show_number(spec, room, &params[BITS], classic_of(&filter->layer[0]).m);
}

static const struct layout layout = {
    .summary = "go-zero's Bloom filter (Go), a bitmap in Redis",
    .params = params,
    .hash = &hash_murmur3_128_suffix,
    .design = design,
    .read = read_file,
    .write = classic_write_bitmap,
    .file_len = classic_bitmap_len,
    .show = show,
    .positions = positions,
    .redis = &classic_redis,
};

const struct kind kind_gozero = {CLASSIC_KIND(17, "gozero", K), .uniting = &classic_uniting};

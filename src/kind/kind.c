/* SPDX-License-Identifier: MIT */
#include "kind/kind.h"

#include "base/num.h"
#include "keys/keyset.h"
#include "keys/xxh3.h"
#include "kind/bloom/bloom.h"
#include "kind/counted/counted.h"
#include "kind/ribbon/ribbon.h"

static const struct kind *const own[] = {&kind_bloom, &kind_ribbon, &kind_counted};

enum { OWN = sizeof own / sizeof *own };

const struct kind *kind_number(unsigned i)
{
    if (i < OWN)
        return own[i];
    const struct kind *const *other = kind_list_foreign;
    for (i -= OWN; *other != NULL && i > 0; i--)
        other++;
    return *other;
}

const struct kind *kind_by_id(uint32_t id)
{
    const struct kind *kind;
    for (unsigned i = 0; (kind = kind_number(i)) != NULL && kind->id != id; i++)
        ;
    return kind;
}

const struct kind *kind_usual(void)
{
    return &kind_bloom;
}

const struct kind *kind_compact(void)
{
    return &kind_ribbon;
}

const struct kind *kind_counting(void)
{
    return &kind_counted;
}

bool kind_check_fpr(const struct kind *kind, double p, struct err *err)
{
    char asked[NUM_TEXT], limit[NUM_TEXT];
    num_show_fpr(asked, p);
    if (p < kind->sizing->fpr_min)
        return fail(
            err,
            "an FPR of %s is too small for a %s filter: counted filters allow 5.43e-20 times the "
            "number of keys, compact ones 2.33e-10, bloom filters 1e-09",
            asked, kind->name);
    /* Of a kind that counts, fpr_max is the end of the search for a size. */
    return p <= kind->sizing->fpr_max || kind_counts(kind) ||
           fail(err, "an FPR of %s is too large for a %s filter: it allows %s and less", asked,
                kind->name, num_show_fpr(limit, kind->sizing->fpr_max));
}

bool kind_crowded(unsigned most, struct err *err)
{
    return fail(err,
                "the hashes of more than %u keys are too close together: such keys were chosen to "
                "do harm; a filter made with --secret takes them",
                most);
}

uint32_t layer_page_sum(uint64_t seed, uint64_t page, const void *data, size_t len)
{
    return (uint32_t)xxh3_bytes(data, len, seed + page);
}

/* 64 bytes for a key, 16 MiB for input. */
uint64_t layer_keys_memory(uint64_t n, uint64_t file_len)
{
    uint64_t memory = file_len + 64 * n + (16 << 20);
    return memory < KEYSET_MEMORY ? memory : KEYSET_MEMORY;
}

double layer_n_at(const struct layer *layer, double fpr)
{
    double low = 0, high = 1;
    if (fpr <= 0)
        return 0;
    while (layer->kind->fpr_at(layer, high) <= fpr && high < 1e18)
        high *= 2;
    while (high - low > 1e-7 * high && high - low > 0.01) {
        double mid = (low + high) / 2;
        if (layer->kind->fpr_at(layer, mid) <= fpr)
            low = mid;
        else
            high = mid;
    }
    return low;
}

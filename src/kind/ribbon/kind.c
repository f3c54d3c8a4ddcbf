/* The bumped ribbon filter as a kind of layer. */
#include "base/num.h"
#include "kind/ribbon/ribbon.h"
#include "kind/ribbon/key.h"

static bool check_fpr(double p, struct err *err)
{
    char asked[NUM_TEXT], limit[NUM_TEXT];
    num_show_fpr(asked, p);
    if (p < RIBBON_MIN_FPR)
        return fail(err,
                    "an FPR of %s is too small: counted filters allow N / 2^64 for N keys, "
                    "compact ones 2^-32, %s",
                    asked, num_show_least_fpr(limit, RIBBON_MIN_FPR));
    return p <= RIBBON_MAX_FPR ||
           fail(err,
                "an FPR of %s is too large for a compact filter: it takes a bit a key, which "
                "makes %s",
                asked, num_show_fpr(limit, RIBBON_MAX_FPR));
}

static bool size(uint64_t n, double p, struct layer *out)
{
    struct ribbon ribbon;
    ribbon_design(n, p, &ribbon);
    ribbon_to(&ribbon, out);
    out->data_len = ribbon_trial_len(n, p);
    return true;
}

/* Memory of `seen create`: the maximum without --memory; per key while all keys are in memory; and
 * for input. */
static const uint64_t BUILD_MEMORY = (uint64_t)256 << 20, KEY_MEMORY = 64, INPUT_MEMORY = 16 << 20;

/* Measured on one machine; includes reading and hashing of short keys: 50 at 1e7 keys, 57 at 1e8
 * with scratch, 75 at 1e9. */
static const double BUILD_TIME = 60;

static void cost(const struct layer *layer, uint64_t n, uint64_t file_len, struct cost *out)
{
    struct ribbon ribbon = ribbon_of(layer);
    unsigned k = ribbon.columns + (ribbon.wide > 0);
    /* Two words of 8 bytes per column, beginning at any word of a cache line. */
    unsigned whole_lines = (16 * k + 63 - 8) / 64;
    uint64_t memory = file_len + KEY_MEMORY * n + INPUT_MEMORY;
    *out = (struct cost){.bits = 8 * layer->data_len,
                         .k = k,
                         .lines = 1 + (double)whole_lines,
                         .build_memory = memory < BUILD_MEMORY ? memory : BUILD_MEMORY,
                         .build_time = BUILD_TIME};
}

static void drop(const struct layer *layer, double p, struct layer *out)
{
    struct ribbon ribbon = ribbon_of(layer);
    ribbon_columns(p, &ribbon.columns, &ribbon.wide);
    *out = *layer;
    ribbon_to(&ribbon, out);
}

const struct kind kind_ribbon = {
    .id = 2,
    .name = "ribbon",
    .variants = &ribbon_variants,
    .check = ribbon_check,
    .query = ribbon_query,
    .pages = ribbon_pages,
    .check_page = ribbon_check_page,
    .census = ribbon_census,
    .shape = ribbon_shape,
    .fpr_at = ribbon_fpr_at,
    .check_fpr = check_fpr,
    .hash_share = 0.01,
    .size = size,
    .fpr_min = RIBBON_MIN_FPR,
    .fpr_max = RIBBON_MAX_FPR,
    .len_max = UINT64_MAX,
    .cost = cost,
    .lanes = 1,
    .build = ribbon_build,
    .build_memory = ribbon_build_memory,
    .build_part = RIBBON_LARGEST,
    .presuming_fpr = 1,
    .drop = drop,
    .write_dropped = ribbon_drop,
};

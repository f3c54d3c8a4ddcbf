#include "store/plan.h"

#include <math.h>

#include "base/num.h"
#include "store/format.h"

/* With a given n and size, a filter with a higher FPR than this would be useless. */
static const double WORST_FPR = 0.5;

double plan_least_fpr(uint64_t n)
{
    return (n > 0 ? (double)n : 1) * 0x1p-64;
}

/* The smallest p for n keys. Hash collisions alone give an FPR of n / 2^64, which must not exceed
 * the kind's share of p. */
static double hash_floor(const struct plan *plan)
{
    return (double)plan->n * 0x1p-64 / plan->kind->hash_share;
}

static uint64_t file_len_of(const struct layer *layer)
{
    struct header header = {.n_layers = 1, .layers = {*layer}};
    format_place(&header);
    return header.file_len;
}

uint64_t plan_file_len(const struct plan *plan)
{
    return file_len_of(&plan->layer);
}

/* The most bytes of data, in whole pages, that a file of at most `size` bytes can hold; 0 if not
 * even one page fits. */
static uint64_t data_within(const struct kind *kind, uint64_t size)
{
    uint64_t low = 0, high = size / LAYER_PAGE;
    while (low < high) {
        uint64_t pages = high - (high - low) / 2;
        struct layer layer = {.kind = kind, .data_len = pages * LAYER_PAGE};
        if (file_len_of(&layer) <= size)
            low = pages;
        else
            high = pages - 1;
    }
    return low * LAYER_PAGE;
}

static bool check_fpr(const struct plan *plan, struct err *err)
{
    char p[NUM_TEXT], n[NUM_TEXT], least[NUM_TEXT];
    num_show_fpr(p, plan->p);
    if (!(plan->p > 0 && plan->p < 1))
        return fail(err, "an FPR of %s is not between 0 and 1", p);
    if (!plan->kind->check_fpr(plan->p, err))
        return false;
    num_show_count(n, (double)plan->n);
    if (hash_floor(plan) > WORST_FPR)
        return fail(err, "%s keys are more than 64-bit hashes can tell apart", n);
    return plan->p >= hash_floor(plan) ||
           fail(err, "an FPR of %s is too small for %s keys: 64-bit hashes allow %s or more", p, n,
                num_show_least_fpr(least, hash_floor(plan)));
}

/* Sizes the layer for n and p. */
static bool solve_layer(struct plan *plan, struct err *err)
{
    char n[NUM_TEXT], p[NUM_TEXT], limit[NUM_TEXT];
    return check_fpr(plan, err) &&
           (plan->kind->size(plan->n, plan->p, &plan->layer) ||
            fail(err, "%s keys at an FPR of %s need a file larger than %s",
                 num_show_count(n, (double)plan->n), num_show_fpr(p, plan->p),
                 num_show_bytes(limit, plan->kind->len_max)));
}

/* Lengths that depend on the keys are estimates, so 1 % of a given size is reserved. */
static uint64_t kept_back(const struct kind *kind, uint64_t size)
{
    return kind->best == NULL ? size - size / 100 : size;
}

/* The smallest size that is accepted for a file of this length. */
static uint64_t least_size(const struct kind *kind, uint64_t len)
{
    uint64_t size = kind->best == NULL ? len + len / 99 : len;
    while (kept_back(kind, size) < len)
        size++;
    return size;
}

/* `fpr` is the FPR that the file would have; 0: unknown. */
static bool too_small(const struct plan *plan, double fpr, struct err *err)
{
    char n[NUM_TEXT], size[NUM_TEXT], p[NUM_TEXT], need[NUM_TEXT], worst[NUM_TEXT];
    struct layer enough = {0};
    num_show_count(n, (double)plan->n);
    num_show_bytes(size, plan->size);
    if (!plan->kind->size(plan->n, WORST_FPR, &enough))
        return fail(err, "%s is too small for %s keys", size, n);
    num_show_least_bytes(need, least_size(plan->kind, file_len_of(&enough)));
    num_show_fpr(worst, WORST_FPR);
    if (fpr > 0)
        return fail(err, "%s is too small for %s keys: the FPR would be %s; for %s it takes %s",
                    size, n, num_show_fpr(p, fpr), worst, need);
    return fail(err, "%s is too small for %s keys: for an FPR of %s it takes %s", size, n, worst,
                need);
}

/* The smallest FPR, at least `least`, of a file of that size, found by search; 1 if there is none.
 */
static double search_fpr(const struct plan *plan, uint64_t size, double least)
{
    double low = least, high = plan->kind->fpr_max;
    struct layer layer = {0};
    if (!plan->kind->size(plan->n, high, &layer) || file_len_of(&layer) > size)
        return 1;
    while (high / low > 1.0001) {
        double middle = sqrt(low * high);
        if (plan->kind->size(plan->n, middle, &layer) && file_len_of(&layer) <= size)
            high = middle;
        else
            low = middle;
    }
    return high;
}

static bool solve_fpr(struct plan *plan, uint64_t data_len, struct err *err)
{
    /* Promise no smaller FPR than 64-bit hashes allow. */
    double least = fmax(plan->kind->fpr_min, hash_floor(plan));
    if (plan->kind->best == NULL) {
        plan->p = search_fpr(plan, kept_back(plan->kind, plan->size), least);
        return plan->p < 1 ? solve_layer(plan, err) : too_small(plan, 0, err);
    }
    double fpr = plan->kind->best(plan->n, data_len, &plan->layer);
    plan->p = fmax(fpr, least);
    return fpr <= WORST_FPR || too_small(plan, fpr, err);
}

static bool solve_n(struct plan *plan, uint64_t data_len, struct err *err)
{
    if (plan->p == 0)
        plan->p = LAYER_FPR;
    if (!check_fpr(plan, err))
        return false;
    plan->n = plan->kind->capacity(data_len, plan->p, &plan->layer);
    /* Promise no more keys than 64-bit hashes allow at this FPR. */
    double most = plan->p * plan->kind->hash_share * 0x1p64;
    if ((double)plan->n > most)
        plan->n = (uint64_t)most;
    return true;
}

static bool solve_size(struct plan *plan, struct err *err)
{
    uint64_t data_len = data_within(plan->kind, plan->size);
    bool n_is_open = plan->n == 0 && plan->kind->capacity != NULL;
    if (data_len == 0 && plan->kind->capacity != NULL) {
        struct layer least = {.kind = plan->kind, .data_len = LAYER_PAGE};
        return fail(err, "a size of %llu bytes is too small: the smallest filter takes %llu",
                    (unsigned long long)plan->size, (unsigned long long)file_len_of(&least));
    }
    return n_is_open ? solve_n(plan, data_len, err) : solve_fpr(plan, data_len, err);
}

static bool too_many_wishes(const struct plan *wishes, struct err *err)
{
    struct plan plan = {.kind = wishes->kind, .n = wishes->n, .p = wishes->p};
    char n[NUM_TEXT], p[NUM_TEXT], size[NUM_TEXT];
    if (!plan_solve(&plan, err))
        return false;
    return fail(err, "a capacity, an FPR and a size cannot all be given: %s keys at %s take %s",
                num_show_count(n, (double)plan.n), num_show_fpr(p, plan.p),
                num_show_bytes(size, plan_file_len(&plan)));
}

bool plan_solve(struct plan *plan, struct err *err)
{
    plan->layer = (struct layer){.kind = plan->kind};
    if (plan->n != 0 && plan->p != 0 && plan->size != 0)
        return too_many_wishes(plan, err);
    if (plan->size != 0)
        return solve_size(plan, err);
    if (plan->n == 0 && plan->kind->add != NULL)
        return fail(err, "a filter must have capacity for at least one key");
    if (plan->p == 0)
        plan->p = LAYER_FPR;
    return solve_layer(plan, err);
}

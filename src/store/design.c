#include "store/design.h"

#include "kind/bloom/bloom.h"
#include "kind/ribbon/ribbon.h"
#include "store/chain.h"

bool design_is_sized(const struct design *d)
{
    if (d->like != NULL || d->empty)
        return true;
    /* The first layer of a filter that grows takes all keys that there are. */
    return !d->grow && (d->n != 0 || (d->size != 0 && d->p != 0));
}

/* Rounds the number of pages up to one that can be halved until 16 to 31 are left. */
static uint64_t foldable(uint64_t pages)
{
    unsigned halvings = 0;
    while (pages >> halvings > 31)
        halvings++;
    uint64_t step = (uint64_t)1 << halvings;
    return (pages + step - 1) / step * step;
}

bool design_plan(const struct design *d, uint64_t n, struct plan *plan, struct err *err)
{
    if (d->like != NULL) {
        *plan = (struct plan){.kind = d->like->layers[0].kind,
                              .n = d->like->n_design,
                              .p = d->like->fpr_design,
                              .bloom = bloom_of(&d->like->layers[0])};
        return true;
    }
    *plan = (struct plan){.kind = d->compact ? &kind_ribbon : &kind_bloom,
                          .n = design_is_sized(d) ? d->n : n,
                          .p = d->p,
                          .size = d->size};
    if (!plan_solve(plan, err))
        return false;
    if (d->foldable)
        plan->bloom.pages = foldable(plan->bloom.pages);
    return true;
}

static bool chain_header(const struct design *d, uint64_t n, struct header *h, struct err *err)
{
    uint64_t first = d->grow && d->n == 0 ? CHAIN_FIRST : d->n;
    if (d->grow && n > first)
        first = n;
    struct plan whole = {.kind = &kind_bloom, .n = first, .p = d->p != 0 ? d->p : PLAN_FPR};
    if (!plan_solve(&whole, err) ||
        !(d->grow ? chain_start_growing(h, first, whole.p, err)
                  : chain_start_ring(h, d->generations, first, whole.p, err)))
        return false;
    format_place(h);
    return true;
}

bool design_header(const struct design *d, uint64_t n, struct header *h, struct err *err)
{
    struct plan plan;
    if (d->grow || d->generations > 0)
        return chain_header(d, n, h, err);
    if (!design_plan(d, n, &plan, err))
        return false;
    h->layers[0].id = 1;
    plan_header(&plan, h);
    return true;
}

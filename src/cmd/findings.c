#include "cmd/findings.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/chi2.h"
#include "base/progress.h"
#include "base/say.h"
#include "store/foreign.h"

/* Counters include only sessions that ended well, so they are known only for a clean filter. */
static bool counters_known(const struct findings *found)
{
    return found->health == FILTER_CLEAN && !found->header->counters.unknown;
}

/* Reads all pages and bits. */
static bool read_bits(const struct wanted *wanted, struct findings *found, struct err *err)
{
    struct facts facts;
    uint64_t unchecked;
    store_describe(found->store, &facts);
    found->shards = facts.n_shards > 1 ? facts.n_shards : 1;
    found->health = facts.is_writing ? FILTER_WRITING
                    : facts.is_dirty ? FILTER_DIRTY
                                     : FILTER_CLEAN;
    progress_begin("checking", false, false);
    if (found->file != NULL)
        found->damaged =
            filter_check_pages(found->file, wanted->keyopt.threads, &unchecked, NULL, NULL);
    progress_end();
    return store_census(found->store, wanted->keyopt.threads, found->layer, &found->all, err);
}

/* Header and bits match if no header was written while the bits were read. If writers come and go
 * all the time, every try may fail. Then the file counts as being written, and its counters as
 * unknown. */
enum { TRIES = 5 };

static bool read_all(const struct wanted *wanted, struct findings *found)
{
    struct err err;
    bool stable = false;
    for (int tries = 0; !stable && tries < TRIES; tries++) {
        if (tries > 0 && !store_refresh(found->store, &err))
            return say_failure(&err);
        if (!read_bits(wanted, found, &err))
            return say_failure(&err);
        atomic_thread_fence(memory_order_acquire);
        stable = found->file == NULL || !filter_changed(found->file);
    }
    if (!stable)
        found->health = FILTER_WRITING;
    if (stable || found->damaged == 0)
        return true;
    say_error("'%s' kept changing while it was read", found->store->name);
    return false;
}

static void note_fact(void *ctx, const char *name, const char *value)
{
    struct layout_facts *facts = ctx;
    unsigned i = facts->n;
    if (i == FACTS)
        return;
    snprintf(facts->name[i], sizeof facts->name[i], "%s", name);
    snprintf(facts->value[i], sizeof facts->value[i], "%s", value);
    facts->field[i] = (struct field){facts->name[i], facts->name[i], FORM_TEXT, NULL, NULL};
    facts->n++;
}

/* Finds which layout of another program the filter has, if any. */
static void find_layout(struct findings *found)
{
    struct layout_filter filter;
    struct err none;
    if (!foreign_filter(found->header, &filter, &none))
        return;
    found->layout = filter.layer[0].kind->layout;
    found->layout->show(&filter, found->spec, sizeof found->spec);
    if (found->layout->facts != NULL)
        found->layout->facts(&filter, note_fact, &found->facts);
}

/* Compares how full the lines are with what random keys would cause. Layers are independent, so
 * their chi-squares can be summed. */
static void compare_lines(const struct wanted *wanted, struct findings *found)
{
    struct facts facts;
    bool any = false;
    store_describe(found->store, &facts);
    for (unsigned i = 0; i < found->header->n_layers; i++) {
        const struct layer *layer = &found->header->layers[i];
        struct occupancy one;
        if (layer->is_void || layer->kind->occupancy == NULL || facts.layers.data[i] == NULL)
            continue;
        layer->kind->occupancy(layer, facts.layers.data[i], wanted->keyopt.threads, &one);
        found->lines.chi2 += one.chi2;
        found->lines.freedom += one.freedom;
        any = true;
        found->lines.fullest += one.fullest * (1 - found->lines.fullest);
    }
    if (!any)
        found->lines.fullest = 1;
    found->lines_p =
        found->lines.freedom > 0 ? chi2_tail(found->lines.chi2, found->lines.freedom) : 1;
}

/* Adopts the filter's key preparation if keys will be queried or a secret is checked. */
static bool adopt_keys(struct wanted *wanted, const struct findings *found)
{
    struct err err;
    if (wanted->measure == 0 && wanted->negatives == NULL && wanted->keyopt.secret_path == NULL)
        return true;
    wanted->keyopt.rule.prep = 0; /* forget that of the previous filter */
    return keyopt_adopt(&wanted->keyopt, found->header, found->store->name, &err) ||
           say_failure(&err);
}

static bool ask(struct wanted *wanted, struct findings *found)
{
    struct keyopt *keyopt = &wanted->keyopt;
    return (wanted->measure == 0 ||
            trial_random(found->store, keyopt, wanted->measure, &found->random)) &&
           (wanted->negatives == NULL ||
            trial_keys(found->store, keyopt, wanted->negatives, &found->negatives));
}

bool findings_gather(struct findings *found, struct store *store, struct wanted *wanted)
{
    struct err none;
    *found = (struct findings){
        .store = store, .header = store_header(store), .file = store_file(store, &none)};
    if (!read_all(wanted, found))
        return false;
    find_layout(found);
    compare_lines(wanted, found);
    found->counters_known = counters_known(found);
    found->consistent = !found->counters_known ||
                        layers_counters_agree(found->header, found->layer, &found->n_bits);
    return adopt_keys(wanted, found) && ask(wanted, found);
}

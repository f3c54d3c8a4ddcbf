#include "cmd/findings.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/progress.h"
#include "base/say.h"
#include "store/foreign.h"

/* Counters include only sessions that ended well, so they are known only for a clean filter. */
static bool counters_known(const struct findings *found)
{
    return found->health == FILTER_CLEAN && !found->header->counters.unknown;
}

/* Reads all pages and bits. */
static bool read_bits(unsigned threads, struct findings *found, struct err *err)
{
    struct facts facts;
    store_describe(found->store, &facts);
    found->shards = facts.n_shards > 1 ? facts.n_shards : 1;
    found->health = facts.is_writing ? FILTER_WRITING
                    : facts.is_dirty ? FILTER_DIRTY
                                     : FILTER_CLEAN;
    progress_begin("checking", false, false);
    found->is_file = store_check_pages(found->store, threads, &found->damaged);
    progress_end();
    return store_census(found->store, threads, found->layer, &found->all, err);
}

/* Header and bits match if no header was written while the bits were read. If writers come and go
 * all the time, every try may fail. Then the file counts as being written, and its counters as
 * unknown. */
enum { TRIES = 5 };

static bool read_all(unsigned threads, struct findings *found)
{
    struct err err;
    bool stable = false;
    for (int tries = 0; !stable && tries < TRIES; tries++) {
        if (tries > 0 && !store_refresh(found->store, &err))
            return say_failure(&err);
        if (!read_bits(threads, found, &err))
            return say_failure(&err);
        atomic_thread_fence(memory_order_acquire);
        stable = !store_changed(found->store);
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

static bool check_secret(struct keyopt *keyopt, const struct findings *found)
{
    struct err err;
    if (keyopt->secret_path == NULL)
        return true;
    keyopt->rule.prep = 0; /* forget that of the previous filter */
    return keyopt_adopt(keyopt, found->header, found->store->name, &err) || say_failure(&err);
}

bool findings_gather(struct findings *found, struct store *store, struct keyopt *keyopt)
{
    *found = (struct findings){.store = store, .header = store_header(store)};
    if (!read_all(keyopt->threads, found))
        return false;
    find_layout(found);
    found->counters_known = counters_known(found);
    found->consistent = !found->counters_known ||
                        layers_counters_agree(found->header, found->layer, &found->n_bits);
    return check_secret(keyopt, found);
}

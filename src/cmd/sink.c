#include "cmd/sink.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/say.h"
#include "cmd/warn.h"
#include "store/header.h"
#include "store/store.h"

/* For the filter of this run. So low that practically no key is lost to false positives. */
static const double RUN_FPR = 1e-9;

static struct store *open_in_memory(const struct key_rule *rule, uint64_t n, double p,
                                    struct err *err)
{
    struct header h;
    const struct design design = {.n = n, .p = p, .grow = true};
    header_begin(&h, rule, false);
    return header_design(&h, &design, 0, err) ? memory_open(&h, err) : NULL;
}

bool sink_open_in_memory(struct sink *k, const struct key_rule *rule, uint64_t n, double p,
                         struct err *err)
{
    k->in_memory = true;
    k->store = open_in_memory(rule, n, p, err);
    return k->store != NULL;
}

bool sink_confirm(struct sink *k, struct confirm *list, const struct key_rule *rule,
                  struct err *err)
{
    if (k->in_memory)
        return true;
    k->list = list;
    k->single = batch_new(rule);
    if (k->single == NULL)
        return fail(err, "out of memory");
    k->run = open_in_memory(rule, 0, RUN_FPR, err);
    return k->run != NULL;
}

bool sink_begin(struct sink *k, const struct add_options *options, struct err *err)
{
    const struct add_options plain = {.threads = options->threads};
    struct err ignored;
    if (!store_add_begin(k->store, k->in_memory ? &plain : options, err))
        return false;
    if (k->run == NULL || store_add_begin(k->run, &plain, err))
        return true;
    store_add_end(k->store, false, &ignored);
    return false;
}

/* Is the key of a record in the list? The record is known to have a key, so batch_take fails only
 * if memory is lacking. */
static bool ask_list(struct sink *k, const char *const *record, bool *listed, struct err *err)
{
    if (!batch_take(k->single, record, 1))
        return fail(err, "%s", k->single->bad_reason.text);
    *listed = confirm_has(k->list, k->single, 0);
    return true;
}

/* Of the first n keys, marks as new those that the sink reported present, but that are not in the
 * list and were not new earlier in this run. */
static bool confirm_hits(struct sink *k, struct writer_keys *keys, const char *const *record,
                         size_t n, struct err *err)
{
    size_t done;
    uint64_t *before = k->before;
    for (size_t i = 0; i < n; i++) {
        bool listed = false;
        if (!bit_of(keys->known, i) || bit_of(before, i))
            continue;
        if (!ask_list(k, record + i, &listed, err))
            return false;
        if (listed)
            bit_set(before, i);
    }
    if (store_add(k->run, writer_keys_hashes(keys), before, n, &done, err) != ADD_OK)
        return false;
    for (size_t w = 0; w < (n + 63) / 64; w++) {
        uint64_t asked = n - w * 64 < 64 ? ((uint64_t)1 << n % 64) - 1 : ~UINT64_C(0);
        uint64_t denied = keys->known[w] & ~before[w];
        k->n_denied += (unsigned)__builtin_popcountll(denied & asked);
        keys->known[w] &= before[w];
    }
    return confirm_sound(k->list, err);
}

/* Copies keys->known to k->before. */
static bool keep(struct sink *k, const struct writer_keys *keys)
{
    if (k->before_capacity < keys->room) {
        uint64_t *before = realloc(k->before, keys->room / 64 * sizeof *before);
        if (before == NULL)
            return false;
        k->before = before;
        k->before_capacity = keys->room;
    }
    if (keys->n > 0)
        memcpy(k->before, keys->known, (keys->n + 63) / 64 * sizeof *k->before);
    return true;
}

enum add_result sink_add(struct sink *k, struct writer_keys *keys, const char *const *record,
                         size_t *done, struct err *err)
{
    struct err why;
    *done = 0;
    if (k->run != NULL && !keep(k, keys)) {
        fail(err, "out of memory");
        return ADD_FAILED;
    }
    enum add_result result =
        store_add(k->store, writer_keys_hashes(keys), keys->known, keys->n, done, err);
    if (k->run == NULL || confirm_hits(k, keys, record, *done, &why))
        return result;
    *err = why;
    return ADD_FAILED;
}

uint64_t sink_n_new(const struct sink *k)
{
    return k->store->state.n_new + k->n_denied;
}

/* New keys that the sink took for known. One that is too full has given a warning. */
static struct lost own_lost(const struct sink *k, unsigned threads)
{
    const struct add_state *a = &k->store->state;
    struct facts facts;
    struct census census;
    struct err ignored;
    store_describe(k->store, &facts);
    struct counters c = facts.counters;
    struct lost lost = {.run = a->dropped, .all = c.dropped};
    if (a->warning[0] == '\0')
        return lost;
    lost.at_least = true;
    if (!store_census(k->store, threads, NULL, &census, &ignored))
        return lost;
    if (c.unknown)
        c = (struct counters){.keys_added = a->n_new, .dropped = a->dropped};
    lost.all = layers_dropped(&c, &census, &lost.at_least);
    if (lost.at_least && c.dropped > 0)
        lost.run *= lost.all / c.dropped;
    return lost;
}

struct lost sink_lost(const struct sink *k, const struct sources *sources, unsigned threads)
{
    double fpr;
    struct err err;
    if (sources->list != NULL)
        return (struct lost){0};
    struct lost lost = own_lost(k, threads);
    if (!sources_fpr(sources, threads, &fpr, &err)) {
        say_warning("%s", err.text);
        fpr = NAN;
    }
    /* The number of new keys that no source took for known: N * (1 - fpr). */
    double passed = (double)k->store->state.n_new + lost.run;
    if (fpr >= 1)
        lost.at_least = true;
    else
        lost.run += passed * fpr / (1 - fpr);
    return lost;
}

const char *sink_conclude(struct sink *k, bool again)
{
    store_conclude(k->store, again);
    return k->store->state.warning[0] != '\0' ? k->store->state.warning : NULL;
}

void sink_close(struct sink *k)
{
    store_close(k->store);
    store_close(k->run);
    batch_free(k->single);
    free(k->before);
}

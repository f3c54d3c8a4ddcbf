#include "cmd/known.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

bool known_open_in_memory(struct known *k, const struct key_rule *rule, uint64_t n, double p,
                          struct err *err)
{
    k->in_memory = true;
    k->sink = open_in_memory(rule, n, p, err);
    return k->sink != NULL;
}

bool known_open(struct known *k, const char *name, bool create, struct err *err)
{
    k->sink = store_open(name, STORE_WRITE, &k->open, err);
    if (k->sink != NULL)
        return true;
    bool missing = !create && store_is_file(name) && access(name, F_OK) != 0 && errno == ENOENT;
    return missing && strcmp(name, "-") != 0 ? fail_more(err, " (--create makes it)") : false;
}

bool known_prepare(struct known *k, const char *name, uint64_t n, double p, enum store_there *there,
                   struct err *err)
{
    k->sink = store_prepare(name, n, p, &k->open, there, err);
    return k->sink != NULL;
}

bool known_make(struct known *k, struct err *err)
{
    char layout[LAYOUT_TEXT];
    if (!store_make(k->sink, layout, err))
        return false;
    if (layout[0] != '\0')
        say_note("made '%s' with layout=%s", k->sink->name, layout);
    return true;
}

static bool take_reference(struct known *k, struct store *s, struct err *err)
{
    struct store **reference = realloc(k->reference, (k->n_references + 1) * sizeof *reference);
    if (reference == NULL) {
        store_close(s);
        return fail(err, "out of memory");
    }
    k->reference = reference;
    reference[k->n_references++] = s;
    return true;
}

bool known_only_ask(struct known *k, enum store_there there, struct err *err)
{
    struct store *s = k->sink;
    k->sink = NULL;
    if (there == STORE_THERE)
        return take_reference(k, s, err);
    if (there == STORE_IN_PART)
        fail(err,
             "some shards of '%.1000s' are not there: --create makes them, but not in a dry "
             "run",
             s->name);
    store_close(s);
    return there == STORE_ABSENT;
}

bool known_add_reference(struct known *k, const char *name, struct err *err)
{
    struct store *s = store_open(name, STORE_READ, &k->open, err);
    if (s == NULL || !take_reference(k, s, err))
        return false;
    if (k->sink != NULL && store_same(k->sink, s))
        return fail(err, "'%s' is the filter itself: --also is for others", name);
    const struct store *first = k->sink != NULL ? k->sink : k->reference[0];
    return header_same_questions(store_header(first), first->name, store_header(s), name, err);
}

bool known_confirm(struct known *k, const char *path, const struct key_rule *rule, struct err *err)
{
    k->single = batch_new(rule);
    if (k->single == NULL)
        return fail(err, "out of memory");
    k->has_list = confirm_open(&k->list, path, rule, err);
    /* A sink in memory has only keys of this run. They are known without the list. */
    if (!k->has_list || k->in_memory)
        return k->has_list;
    k->run = open_in_memory(rule, 0, RUN_FPR, err);
    return k->run != NULL;
}

bool known_begin(struct known *k, const struct add_options *options, struct err *err)
{
    const struct add_options plain = {.threads = options->threads};
    struct err ignored;
    k->has_lock = pthread_rwlock_init(&k->lock, NULL) == 0;
    if (!k->has_lock)
        return fail(err, "out of memory");
    if (!store_add_begin(k->sink, k->in_memory ? &plain : options, err))
        return false;
    if (k->run == NULL || store_add_begin(k->run, &plain, err))
        return true;
    store_add_end(k->sink, false, &ignored);
    return false;
}

/* Opens the file that the name of a reference refers to now. */
static bool open_again(const struct known *k, struct store **reference, struct err *err)
{
    struct store *before = *reference;
    struct store *now = store_open(before->name, STORE_READ, &k->open, err);
    struct err what;
    if (now == NULL)
        return false;
    if (!header_same_keys(store_header(before), store_header(now), &what)) {
        store_close(now);
        return fail(err, "'%s' was replaced by a filter that differs in %s", before->name,
                    what.text);
    }
    warn_unclean(now);
    store_close(before);
    *reference = now;
    return true;
}

static bool follow(struct known *k, struct store **reference, struct err *err)
{
    pthread_rwlock_rdlock(&k->lock);
    bool is_same = !store_changed(*reference) && !store_replaced(*reference);
    pthread_rwlock_unlock(&k->lock);
    if (is_same)
        return true;
    pthread_rwlock_wrlock(&k->lock);
    bool ok =
        store_replaced(*reference) ? open_again(k, reference, err) : store_refresh(*reference, err);
    pthread_rwlock_unlock(&k->lock);
    return ok;
}

bool known_follow(struct known *k, struct err *err)
{
    bool ok = true;
    for (size_t f = 0; ok && f < k->n_references; f++)
        ok = follow(k, &k->reference[f], err);
    return ok;
}

bool known_ask(struct known *k, struct batch *b, struct err *err)
{
    for (size_t f = 0; f < k->n_references; f++) {
        uint64_t present[BATCH_MAX / 64];
        pthread_rwlock_rdlock(&k->lock);
        bool ok = store_query(k->reference[f], batch_hashes(b), b->n, present, err);
        pthread_rwlock_unlock(&k->lock);
        if (!ok)
            return false;
        for (size_t i = 0; i < b->n; i++)
            if (bit_of(present, i) && !bit_of(b->bad, i) &&
                (!k->has_list || confirm_has(&k->list, b, i)))
                bit_set(b->bad, i);
    }
    return !k->has_list || confirm_sound(&k->list, err);
}

bool known_check_intact(struct known *k, struct err *err)
{
    bool ok = true;
    pthread_rwlock_rdlock(&k->lock);
    for (size_t f = 0; ok && f < k->n_references; f++)
        ok = store_check_intact(k->reference[f], err);
    pthread_rwlock_unlock(&k->lock);
    return ok;
}

/* Is the key of a record in the list? The record is known to have a key, so batch_take fails only
 * if memory is lacking. */
static bool ask_list(struct known *k, const char *const *record, bool *listed, struct err *err)
{
    if (!batch_take(k->single, record, 1))
        return fail(err, "%s", k->single->bad_reason.text);
    *listed = confirm_has(&k->list, k->single, 0);
    return true;
}

/* Of the first n keys, marks as new those that the sink reported present, but that are not in the
 * list and were not new earlier in this run. */
static bool confirm_hits(struct known *k, struct writer_keys *keys, const char *const *record,
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
    return confirm_sound(&k->list, err);
}

/* Copies keys->known to k->before. */
static bool keep(struct known *k, const struct writer_keys *keys)
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

enum add_result known_add(struct known *k, struct writer_keys *keys, const char *const *record,
                          size_t *done, struct err *err)
{
    struct err why;
    *done = 0;
    if (k->run != NULL && !keep(k, keys)) {
        fail(err, "out of memory");
        return ADD_FAILED;
    }
    enum add_result result =
        store_add(k->sink, writer_keys_hashes(keys), keys->known, keys->n, done, err);
    if (k->run == NULL || confirm_hits(k, keys, record, *done, &why))
        return result;
    *err = why;
    return ADD_FAILED;
}

uint64_t known_n_new(const struct known *k)
{
    return k->sink->state.n_new + k->n_denied;
}

/* New keys that the sink took for known. One that is too full has given a warning. */
static struct lost sink_lost(const struct known *k, unsigned threads)
{
    const struct add_state *a = &k->sink->state;
    struct facts facts;
    struct census census;
    struct err ignored;
    store_describe(k->sink, &facts);
    struct counters c = facts.counters;
    struct lost lost = {.run = a->dropped, .all = c.dropped};
    if (a->warning[0] == '\0')
        return lost;
    k->sink->brief = true;
    lost.at_least = true;
    if (!store_census(k->sink, threads, NULL, &census, &ignored))
        return lost;
    if (c.unknown)
        c = (struct counters){.keys_added = a->n_new, .dropped = a->dropped};
    lost.all = layers_dropped(&c, &census, &lost.at_least);
    if (lost.at_least && c.dropped > 0)
        lost.run *= lost.all / c.dropped;
    return lost;
}

/* The probability that no reference takes an absent key for known; NAN: unknown. */
static double find_absent(const struct known *k, unsigned threads)
{
    double absent = 1;
    for (size_t f = 0; f < k->n_references; f++) {
        struct census census;
        struct err err;
        k->reference[f]->brief = true;
        if (!store_census(k->reference[f], threads, NULL, &census, &err)) {
            say_warning("the false-positive rate of '%s' is unknown: %s", k->reference[f]->name,
                        err.text);
            return NAN;
        }
        absent *= 1 - census.fpr;
    }
    return absent;
}

struct lost known_lost(const struct known *k, unsigned threads)
{
    if (k->has_list)
        return (struct lost){0};
    struct lost lost = sink_lost(k, threads);
    double absent = find_absent(k, threads);
    /* The number of new keys that no reference took for known: N * absent. */
    double passed = (double)k->sink->state.n_new + lost.run;
    if (absent <= 0)
        lost.at_least = true;
    else
        lost.run += passed * (1 - absent) / absent;
    return lost;
}

const char *known_conclude(struct known *k, bool again)
{
    store_conclude(k->sink, again);
    return k->sink->state.warning[0] != '\0' ? k->sink->state.warning : NULL;
}

bool known_end(struct known *k, bool sync, struct err *err)
{
    return store_add_end(k->sink, sync, err);
}

void known_close(struct known *k)
{
    for (size_t i = 0; i < k->n_references; i++)
        store_close(k->reference[i]);
    free(k->reference);
    if (k->has_list)
        confirm_close(&k->list);
    store_close(k->sink);
    store_close(k->run);
    batch_free(k->single);
    free(k->before);
    if (k->has_lock)
        pthread_rwlock_destroy(&k->lock);
}

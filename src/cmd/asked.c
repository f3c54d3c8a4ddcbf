#include "cmd/asked.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "base/say.h"
#include "cmd/warn.h"
#include "store/header.h"

bool asked_add(struct asked *a, const char *path, struct err *err)
{
    const char **paths = realloc(a->path, (a->n_paths + 1) * sizeof *paths);
    if (paths == NULL)
        return fail(err, "out of memory");
    a->path = paths;
    paths[a->n_paths++] = path;
    return true;
}

static void close_view(struct asked_view *v)
{
    for (size_t i = 0; i < v->n; i++)
        store_close(v->store[i]);
    free(v->store);
    if (v->list != NULL)
        confirm_close(v->list);
    free(v->list);
    *v = (struct asked_view){0};
}

/* Adopts the key preparation of filter i, after those before it. */
static bool adopt(const struct asked *a, size_t i, struct keyopt *keyopt,
                  const struct asked_view *v, struct err *err)
{
    const struct store *s = v->store[i];
    if (a->counts && !store_check_counts(s, err))
        return false;
    keyopt->rule.bytes |= store_wants_bytes(s);
    const struct header *first = store_header(v->store[0]), *h = store_header(s);
    if (!keyopt_adopt(keyopt, h, a->path[i], err) ||
        !header_same_questions(first, a->path[0], h, a->path[i], err))
        return false;
    /* If the filters' key lengths differ, keys of any length are accepted. */
    for (size_t f = 0; f < i; f++)
        if (format_key_len(store_header(v->store[f])) != format_key_len(h))
            keyopt->rule.key_len = 0;
    return true;
}

static bool open_filter(const struct asked *a, size_t i, struct keyopt *keyopt,
                        struct asked_view *v, struct err *err)
{
    struct store *s = store_open(a->path[i], STORE_READ, &a->open, err);
    if (s == NULL)
        return false;
    v->store[v->n++] = s;
    store_expect(s, a->many);
    return adopt(a, i, keyopt, v, err);
}

static bool open_list(const struct asked *a, const struct keyopt *keyopt, struct asked_view *v,
                      struct err *err)
{
    struct confirm *list = calloc(1, sizeof *list);
    if (list == NULL)
        return fail(err, "out of memory");
    if (!confirm_open(list, a->list, &keyopt->rule, err)) {
        free(list);
        return false;
    }
    v->list = list;
    return true;
}

/* Opens all filters and the list, and adopts their key preparation. After a failure nothing is
 * open. */
static bool open_view(const struct asked *a, struct keyopt *keyopt, struct asked_view *v,
                      struct err *err)
{
    *v = (struct asked_view){.store = calloc(a->n_paths, sizeof *v->store)};
    if (v->store == NULL)
        return fail(err, "out of memory");
    bool ok = true;
    for (size_t i = 0; ok && i < a->n_paths; i++)
        ok = open_filter(a, i, keyopt, v, err);
    if (ok && a->list != NULL)
        ok = open_list(a, keyopt, v, err);
    for (size_t i = 0; ok && i < v->n; i++) {
        warn_unclean(v->store[i]);
        warn_useless(v->store[i]);
    }
    if (!ok)
        close_view(v);
    return ok;
}

bool asked_open(struct asked *a, struct err *err)
{
    if (pthread_rwlock_init(&a->lock, NULL) != 0)
        return fail(err, "out of memory");
    a->has_lock = true;
    if (!open_view(a, a->keyopt, &a->now, err))
        return false;
    if (a->list != NULL)
        keyopt_hint_crlf(a->keyopt, a->now.list->saw_cr, a->list);
    return true;
}

void asked_close(struct asked *a)
{
    close_view(&a->now);
    if (a->has_lock)
        pthread_rwlock_destroy(&a->lock);
    free(a->path);
    free(a->why);
}

/* Picks up layers that were added or dropped since the last call. */
static bool refresh(struct asked *a, struct err *err)
{
    bool ok = true;
    for (size_t i = 0; ok && i < a->n_paths; i++) {
        pthread_rwlock_rdlock(&a->lock);
        bool changed = store_changed(a->now.store[i]);
        pthread_rwlock_unlock(&a->lock);
        if (!changed)
            continue;
        pthread_rwlock_wrlock(&a->lock);
        ok = store_refresh(a->now.store[i], err);
        pthread_rwlock_unlock(&a->lock);
    }
    return ok;
}

enum { LOOK_MS = 1000 };

/* Is it time to look at the names again? True for one thread only. */
static bool is_time(struct asked *a)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    unsigned long now = (unsigned long)t.tv_sec * 1000 + (unsigned long)t.tv_nsec / 1000000;
    unsigned long then = a->looked; /* the difference is right even if a 32-bit `long` wraps */
    return now - then >= LOOK_MS && atomic_compare_exchange_strong(&a->looked, &then, now);
}

static bool any_replaced(struct asked *a)
{
    bool replaced = false;
    pthread_rwlock_rdlock(&a->lock);
    for (size_t i = 0; !replaced && i < a->n_paths; i++)
        replaced = store_replaced(a->now.store[i]);
    pthread_rwlock_unlock(&a->lock);
    return replaced;
}

/* Prints why the old filters stay in use, unless the last message gave the same reason. */
static void say_kept(struct asked *a, const struct err *err)
{
    if (a->why != NULL && strcmp(a->why->text, err->text) == 0)
        return;
    say_warning("still answering from the filter that was replaced: %s", err->text);
    if (a->why == NULL)
        a->why = malloc(sizeof *a->why);
    if (a->why != NULL)
        *a->why = *err;
}

/* The remaining records are meant for the old preparation. */
static bool keeps_prep(const struct asked *a, const struct keyopt *keyopt, struct err *err)
{
    return keyopt->rule.prep == a->keyopt->rule.prep ||
           fail(err, "'%s' prepares keys in another way", a->path[0]);
}

/* Opens the files that the names refer to now. */
static bool open_new(const struct asked *a, struct keyopt *keyopt, struct asked_view *now,
                     struct err *err)
{
    if (!open_view(a, keyopt, now, err))
        return false;
    if (keeps_prep(a, keyopt, err))
        return true;
    close_view(now);
    return false;
}

/* Called with the lock held. Other threads read the other fields without it. */
static void take_rule(struct asked *a, const struct key_rule *rule)
{
    a->keyopt->rule.key_len = rule->key_len;
    a->keyopt->rule.hash = rule->hash;
    a->keyopt->rule.seed = rule->seed;
    a->keyopt->rule.mark = rule->mark;
    a->keyopt->rule.bytes = rule->bytes;
}

/* Switches to the new filters. */
static void change_to(struct asked *a, const struct asked_view *now, const struct key_rule *rule)
{
    pthread_rwlock_wrlock(&a->lock);
    struct asked_view old = a->now;
    a->now = *now;
    take_rule(a, rule);
    pthread_rwlock_unlock(&a->lock);
    close_view(&old);
    free(a->why);
    a->why = NULL;
}

static void take_up(struct asked *a)
{
    struct keyopt keyopt = *a->keyopt;
    struct asked_view now;
    struct err err;
    if (open_new(a, &keyopt, &now, &err))
        change_to(a, &now, &keyopt.rule);
    else
        say_kept(a, &err);
    keyopt_wipe(&keyopt);
}

static void look(struct asked *a)
{
    if (!is_time(a) || atomic_exchange(&a->is_looking, true))
        return;
    if (any_replaced(a))
        take_up(a);
    a->is_looking = false;
}

/* Called with the lock held for writing. Another thread may have renewed them already. */
static bool renew_overwritten(struct asked *a, struct err *err)
{
    struct keyopt keyopt = *a->keyopt;
    bool ok = true;
    for (size_t i = 0; ok && i < a->n_paths; i++)
        if (store_is_overwritten(a->now.store[i]))
            ok = store_renew(a->now.store[i], err);
    for (size_t i = 0; ok && i < a->n_paths; i++)
        ok = adopt(a, i, &keyopt, &a->now, err);
    ok = ok && keeps_prep(a, &keyopt, err);
    if (ok)
        take_rule(a, &keyopt.rule);
    keyopt_wipe(&keyopt);
    return ok;
}

static bool renew(struct asked *a, struct err *err)
{
    if (a->one_answer)
        return false;
    pthread_rwlock_wrlock(&a->lock);
    bool ok = renew_overwritten(a, err);
    pthread_rwlock_unlock(&a->lock);
    return ok;
}

/* Called with the lock held. */
static bool all_intact(const struct asked *a, struct err *err)
{
    bool intact = true;
    for (size_t i = 0; intact && i < a->n_paths; i++)
        intact = store_check_intact(a->now.store[i], err);
    return intact;
}

/* A mapping of an overwritten file may be longer than the file: it must not be read. */
static bool renew_if_overwritten(struct asked *a, struct err *err)
{
    pthread_rwlock_rdlock(&a->lock);
    bool intact = all_intact(a, err);
    pthread_rwlock_unlock(&a->lock);
    return intact || renew(a, err);
}

static void expect_many(struct asked *a)
{
    if (atomic_exchange(&a->many, true))
        return;
    for (size_t i = 0; i < a->n_paths; i++)
        store_expect(a->now.store[i], true);
}

bool asked_begin(struct asked *a, bool many, struct err *err)
{
    if (a->follows)
        look(a);
    bool ok = renew_if_overwritten(a, err) && refresh(a, err);
    pthread_rwlock_rdlock(&a->lock);
    if (many)
        expect_many(a);
    return ok;
}

bool asked_end(struct asked *a, bool *again, struct err *err)
{
    bool intact = all_intact(a, err);
    pthread_rwlock_unlock(&a->lock);
    *again = !intact && renew(a, err);
    return intact || *again;
}

/* Queries FILTER. */
static bool ask_first(struct asked *a, const struct batch *b, struct asked_answers *answers,
                      struct err *err)
{
    struct store *s = a->now.store[0];
    if (!a->counts)
        return store_query(s, batch_hashes(b), b->n, answers->present, err);
    if (!store_query_counts(s, batch_hashes(b), b->n, answers->count, err))
        return false;
    memset(answers->present, 0, sizeof answers->present);
    for (size_t i = 0; i < b->n; i++)
        answers->present[i / 64] |= (uint64_t)(answers->count[i] > 0) << i % 64;
    return true;
}

static bool ask_also(struct asked *a, const struct batch *b, struct asked_answers *answers,
                     struct err *err)
{
    if (a->which)
        memset(answers->holder, 0, sizeof answers->holder);
    for (size_t f = 1; f < a->n_paths; f++) {
        uint64_t also[BATCH_MAX / 64];
        if (!store_query(a->now.store[f], batch_hashes(b), b->n, also, err))
            return false;
        for (size_t i = 0; a->which && i < b->n; i++)
            if (bit_of(also, i) && !bit_of(answers->present, i))
                answers->holder[i] = (uint16_t)f;
        for (size_t w = 0; w < (b->n + 63) / 64; w++)
            answers->present[w] |= also[w];
    }
    return true;
}

bool asked_query(struct asked *a, const struct batch *b, struct asked_answers *answers,
                 struct err *err)
{
    if (!ask_first(a, b, answers, err) || !ask_also(a, b, answers, err))
        return false;
    uint64_t *present = answers->present;
    for (size_t w = 0; w < BATCH_MAX / 64; w++)
        present[w] &= answers->good[w];
    for (size_t i = 0; a->list != NULL && i < b->n; i++)
        if (bit_of(present, i) && !confirm_has(a->now.list, b, i))
            present[i / 64] &= ~((uint64_t)1 << i % 64);
    for (size_t i = 0; a->counts && i < b->n; i++)
        if (!bit_of(present, i))
            answers->count[i] = 0;
    return a->list == NULL || confirm_sound(a->now.list, err);
}

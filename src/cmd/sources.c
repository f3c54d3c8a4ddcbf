/* SPDX-License-Identifier: MIT */
#include "cmd/sources.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/say.h"
#include "cmd/warn.h"
#include "file/header.h"

bool sources_add(struct sources *s, size_t at, const char *path, struct err *err)
{
    struct source_filter *filter = realloc(s->filter, (s->n + 1) * sizeof *filter);
    if (filter == NULL)
        return fail(err, "out of memory");
    s->filter = filter;
    memmove(filter + at + 1, filter + at, (s->n++ - at) * sizeof *filter);
    filter[at] = (struct source_filter){.path = path};
    return true;
}

bool sources_take(void *sources, struct opt_parser *p, int id)
{
    struct sources *s = sources;
    struct err err;
    (void)id;
    return sources_add(s, s->n, p->value, &err) || say_failure(&err);
}

/* Is filter i for the same keys as the others? Adopts its key preparation. */
static bool adopt_filter(const struct sources *s, size_t i, struct err *err)
{
    const struct source_filter *f = &s->filter[i];
    const struct store *first = s->sink != NULL ? s->sink : s->filter[0].now;
    if (s->counts && !store_check_counts(f->now, err))
        return false;
    s->keyopt->rule.bytes |= f->now->wants_bytes;
    if (s->sink != NULL && store_same(s->sink, f->now))
        return fail(err, "'%s' is the filter itself: --also is for others", f->path);
    /* The rule has the options of the first one already. */
    if (first != f->now && !header_check_same(first->header, first->name, f->now->header, f->path,
                                              "queried together", err))
        return false;
    return keyopt_adopt(s->keyopt, f->now->header, f->now->name, err);
}

/* If the filters' key lengths differ, keys of any length are accepted. */
static void join_lengths(struct sources *s)
{
    if (s->n == 0)
        return;
    const struct store *first = s->sink != NULL ? s->sink : s->filter[0].now;
    unsigned len = format_key_len(first->header);
    for (size_t i = 0; i < s->n && s->sink == NULL; i++)
        if (format_key_len(s->filter[i].now->header) != len)
            len = 0;
    if (s->keyopt->rule.key_len != len) /* with a sink it stays, and other threads may read it */
        s->keyopt->rule.key_len = len;
}

/* Opens the list; again if it is open. */
static bool open_list(struct sources *s, struct err *err)
{
    if (s->list_path == NULL)
        return true;
    struct confirm *list = malloc(sizeof *list);
    if (list == NULL)
        return fail(err, "out of memory");
    if (!confirm_open(list, s->list_path, &s->keyopt->rule, err)) {
        free(list);
        return false;
    }
    if (s->list != NULL)
        confirm_close(s->list);
    free(s->list);
    s->list = list;
    return true;
}

static void warn_opened(const struct store *s)
{
    warn_unclean(s);
    warn_useless(s);
}

bool sources_open(struct sources *s, struct err *err)
{
    s->open.borrow.rule = &s->keyopt->rule;
    for (size_t i = 0; i < s->n; i++) {
        struct source_filter *f = &s->filter[i];
        if (f->now == NULL)
            f->now = store_open(f->path, STORE_READ, &s->open, err);
        if (f->now == NULL || !adopt_filter(s, i, err))
            return false;
        warn_opened(f->now);
    }
    join_lengths(s);
    if (!open_list(s, err))
        return false;
    if (s->list != NULL && s->list->saw_cr && !s->keyopt->rule.crlf)
        say_note("lines of '%s' end in CR, which is taken as part of the key; --crlf drops it",
                 s->list_path);
    return true;
}

void sources_close(struct sources *s)
{
    for (size_t i = 0; i < s->n; i++)
        store_close(s->filter[i].now);
    if (s->list != NULL)
        confirm_close(s->list);
    pthread_rwlock_destroy(&s->lock);
    free(s->filter);
    free(s->list);
}

/* ---- Names that refer to other files. */

static bool any_replaced(const struct sources *s)
{
    bool replaced = false;
    for (size_t i = 0; !replaced && i < s->n; i++)
        replaced = store_replaced(s->filter[i].now);
    return replaced;
}

/* Opens the file that the name refers to now. */
static bool open_again(const struct sources *s, struct source_filter *f, struct err *err)
{
    struct err what;
    struct store *next = store_open(f->path, STORE_READ, &s->open, err);
    if (next == NULL)
        return false;
    bool same = header_same_keys(f->now->header, next->header, &what);
    store_close(f->now);
    f->now = next;
    if (!same)
        return fail(err, "'%s' was replaced by a filter that differs in %s", f->path, what.text);
    warn_opened(next);
    return !s->counts || store_check_counts(next, err);
}

/* Opens what was replaced, and the list with it. The lock is held for writing; another thread may
 * have done the same meanwhile. */
static bool follow(struct sources *s, struct err *err)
{
    for (size_t i = 0; i < s->n; i++)
        if (store_replaced(s->filter[i].now) && !open_again(s, &s->filter[i], err))
            return false;
    join_lengths(s);
    return open_list(s, err);
}

bool sources_enter(struct sources *s, size_t len, struct err *err)
{
    bool ok = true;
    pthread_rwlock_rdlock(&s->lock);
    if (s->follow && any_replaced(s)) {
        pthread_rwlock_unlock(&s->lock);
        pthread_rwlock_wrlock(&s->lock);
        if (s->lost.text[0] == '\0' && !follow(s, err))
            s->lost = *err;
        pthread_rwlock_unlock(&s->lock);
        pthread_rwlock_rdlock(&s->lock);
    }
    if (s->lost.text[0] != '\0')
        ok = fail(err, "%s", s->lost.text);
    for (size_t i = 0; i < s->n; i++) {
        struct err why;
        if (!store_enter(s->filter[i].now, len, &why) && ok)
            ok = fail(err, "%s", why.text);
    }
    return ok;
}

bool sources_leave(struct sources *s, bool ok, bool *again, struct err *err)
{
    for (size_t i = 0; i < s->n; i++)
        ok = store_leave(s->filter[i].now, ok, again, err);
    pthread_rwlock_unlock(&s->lock);
    return ok;
}

/* A file that changes more often while one chunk is asked is written to all the time. */
enum { TRIES = 100 };

bool sources_ask(struct sources *s, struct feed_part *part, sources_asker *ask, void *ctx,
                 void *slot, struct err *err)
{
    bool ok = false, again = true;
    for (int tries = 0; again && tries < TRIES; tries++) {
        again = false;
        if (tries > 0)
            feed_start(part);
        ok = sources_enter(s, part->chunk->len, err);
        ok = sources_leave(s, ok && ask(ctx, slot, err), &again, err);
    }
    return ok;
}

/* ---- Queries. */

static bool ask_counts(struct sources *s, const struct batch *b, struct sources_answers *answers,
                       struct err *err)
{
    if (!store_query_counts(s->filter[0].now, batch_hashes(b), b->n, answers->count, err))
        return false;
    for (size_t i = 0; i < b->n; i++)
        answers->present[i / 64] |= (uint64_t)(answers->count[i] > 0) << i % 64;
    return true;
}

static bool ask_filters(struct sources *s, const struct batch *b, struct sources_answers *answers,
                        struct err *err)
{
    if (s->which)
        memset(answers->holder, 0, sizeof answers->holder);
    for (size_t f = 0; f < s->n; f++) {
        uint64_t present[BATCH_MAX / 64];
        if (!store_query(s->filter[f].now, batch_hashes(b), b->n, present, err))
            return false;
        for (size_t i = 0; s->which && i < b->n; i++)
            if (bit_of(present, i) && !bit_of(answers->present, i))
                answers->holder[i] = (uint16_t)f;
        for (size_t w = 0; w < (b->n + 63) / 64; w++)
            answers->present[w] |= present[w];
    }
    return true;
}

bool sources_query(struct sources *s, const struct batch *b, struct sources_answers *answers,
                   struct err *err)
{
    uint64_t *present = answers->present;
    for (size_t w = 0; w < BATCH_MAX / 64; w++) { /* bits 0 to n - 1, without bad records */
        size_t left = b->n > 64 * w ? b->n - 64 * w : 0;
        answers->good[w] = (left >= 64 ? ~UINT64_C(0) : ((uint64_t)1 << left) - 1) & ~b->bad[w];
    }
    memset(present, 0, sizeof answers->present);
    if (!(s->counts ? ask_counts : ask_filters)(s, b, answers, err))
        return false;
    for (size_t w = 0; w < BATCH_MAX / 64; w++)
        present[w] &= answers->good[w];
    for (size_t i = 0; s->list != NULL && i < b->n; i++)
        if (bit_of(present, i) && !confirm_has(s->list, b, i))
            present[i / 64] &= ~((uint64_t)1 << i % 64);
    for (size_t i = 0; s->counts && i < b->n; i++)
        if (!bit_of(present, i))
            answers->count[i] = 0;
    return s->list == NULL || confirm_sound(s->list, err);
}

bool sources_fpr(const struct sources *s, unsigned threads, double *fpr, struct err *err)
{
    *fpr = 0;
    for (size_t i = 0; i < s->n; i++) {
        struct census census;
        struct err why;
        struct store *store = s->filter[i].now;
        if (!store_census(store, threads, NULL, &census, &why))
            return fail(err, "the false-positive rate of '%s' is unknown: %s", store->name,
                        why.text);
        *fpr += (1 - *fpr) * census.fpr; /* exact for one filter, whose rate may be tiny */
    }
    return true;
}

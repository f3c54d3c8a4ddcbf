/* SPDX-License-Identifier: MIT */
#include "cmd/sources.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "base/say.h"
#include "cmd/warn.h"
#include "file/header.h"

bool sources_add(struct sources *s, size_t at, const char *path, struct store *open,
                 struct err *err)
{
    struct source_filter *filter = realloc(s->filter, (s->n + 1) * sizeof *filter);
    if (filter == NULL) {
        store_close(open);
        return fail(err, "out of memory");
    }
    s->filter = filter;
    memmove(filter + at + 1, filter + at, (s->n++ - at) * sizeof *filter);
    filter[at] = (struct source_filter){.path = path, .now = open};
    return true;
}

/* Opens the file that the name refers to now as `next`, or keeps the one that is open. */
static bool open_next(const struct sources *s, struct source_filter *f, bool looks, struct err *err)
{
    if (f->now != NULL && !(looks && store_replaced(f->now))) {
        f->next = f->now;
        return true;
    }
    struct err what;
    f->next = store_open(f->path, STORE_READ, &s->open, err);
    if (f->next == NULL || f->now == NULL || s->follow != SOURCES_FOLLOW_SAME)
        return f->next != NULL;
    return header_same_keys(f->now->header, f->next->header, &what) ||
           fail(err, "'%s' was replaced by a filter that differs in %s", f->path, what.text);
}

/* Is filter i for the same keys as the others? */
static bool suits(const struct sources *s, size_t i, struct err *err)
{
    const struct source_filter *f = &s->filter[i];
    if (s->sink != NULL && store_same(s->sink, f->next))
        return fail(err, "'%s' is the filter itself: --also is for others", f->path);
    const struct store *first = s->sink != NULL ? s->sink : s->filter[0].next;
    return header_check_same(first->header, first->name, f->next->header, f->path,
                             "queried together", err);
}

/* Adopts the key preparation of filter i, after those before it. If the filters' key lengths
 * differ, keys of any length are accepted. */
static bool adopt(const struct sources *s, size_t i, struct keyopt *keyopt, struct err *err)
{
    const struct store *next = s->filter[i].next;
    unsigned len = keyopt->rule.key_len;
    if (s->counts && !store_check_counts(next, err))
        return false;
    keyopt->rule.bytes |= next->wants_bytes;
    if (!keyopt_adopt(keyopt, next->header, next->name, err))
        return false;
    bool is_first = i == 0 && s->sink == NULL;
    if (!is_first && keyopt->rule.key_len != len)
        keyopt->rule.key_len = s->one_length ? len : 0;
    return true;
}

/* Opens the list; again if it is open. */
static bool open_list(struct sources *s, const struct keyopt *keyopt, struct err *err)
{
    struct confirm *list = malloc(sizeof *list);
    if (list == NULL)
        return fail(err, "out of memory");
    if (!confirm_open(list, s->list_path, &keyopt->rule, err)) {
        free(list);
        return false;
    }
    if (s->list != NULL)
        confirm_close(s->list);
    free(s->list);
    s->list = list;
    return true;
}

/* Opens what is not open, and with `looks` what was replaced; adopts the key preparation of all. */
static bool open_all(struct sources *s, struct keyopt *keyopt, bool looks, struct err *err)
{
    bool ok = true;
    for (size_t i = 0; ok && i < s->n; i++)
        ok =
            open_next(s, &s->filter[i], looks, err) && adopt(s, i, keyopt, err) && suits(s, i, err);
    return ok;
}

/* Ends open_all: uses the new filters, or keeps the old ones. */
static void change(struct sources *s, bool to_new)
{
    for (size_t i = 0; i < s->n; i++) {
        struct source_filter *f = &s->filter[i];
        struct store *used = to_new ? f->next : f->now, *other = to_new ? f->now : f->next;
        if (other != used)
            store_close(other);
        if (f->now != used) {
            warn_unclean(used);
            warn_useless(used);
        }
        f->now = used;
        f->next = NULL;
    }
}

bool sources_open(struct sources *s, struct err *err)
{
    bool ok = open_all(s, s->keyopt, false, err) &&
              (s->list_path == NULL || open_list(s, s->keyopt, err));
    change(s, ok);
    if (ok && s->list != NULL)
        keyopt_hint_crlf(s->keyopt, s->list->saw_cr, s->list_path);
    return ok;
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
    free(s->why);
}

/* ---- Names that refer to other files. What follows them is called with the lock held for writing;
 * another thread may have done the same meanwhile. */

enum { LOOK_MS = 1000 };

/* Is it time to look at the names again? True for one thread only. */
static bool is_time(struct sources *s)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    unsigned long now = (unsigned long)t.tv_sec * 1000 + (unsigned long)t.tv_nsec / 1000000;
    unsigned long then = s->looked; /* the difference is right even if a 32-bit `long` wraps */
    return now - then >= LOOK_MS && atomic_compare_exchange_strong(&s->looked, &then, now);
}

static bool any_replaced(const struct sources *s)
{
    bool replaced = false;
    for (size_t i = 0; !replaced && i < s->n; i++)
        replaced = store_replaced(s->filter[i].now);
    return replaced;
}

/* Prints why the old filters stay in use, unless the last message gave the same reason. */
static void say_kept(struct sources *s, const struct err *err)
{
    if (s->why != NULL && strcmp(s->why->text, err->text) == 0)
        return;
    say_warning("still answering from the filter that was replaced: %s", err->text);
    if (s->why == NULL)
        s->why = malloc(sizeof *s->why);
    if (s->why != NULL)
        *s->why = *err;
}

/* The remaining records are meant for the old preparation. */
static bool keeps_prep(const struct sources *s, const struct keyopt *keyopt, struct err *err)
{
    return keyopt->rule.prep == s->keyopt->rule.prep ||
           fail(err, "'%s' prepares keys in another way", s->filter[0].path);
}

/* Other threads read the other fields without the lock. */
static void take_rule(struct sources *s, const struct key_rule *rule)
{
    s->keyopt->rule.key_len = rule->key_len;
    s->keyopt->rule.hash = rule->hash;
    s->keyopt->rule.seed = rule->seed;
    s->keyopt->rule.mark = rule->mark;
    s->keyopt->rule.bytes = rule->bytes;
}

/* Adopts the key preparation of the files that the names refer to now. The list is opened again,
 * too. */
static bool take_up(struct sources *s, struct err *err)
{
    struct keyopt keyopt = *s->keyopt;
    bool ok = open_all(s, &keyopt, true, err) && keeps_prep(s, &keyopt, err) &&
              (s->list == NULL || open_list(s, &keyopt, err));
    if (ok)
        take_rule(s, &keyopt.rule);
    change(s, ok);
    keyopt_wipe(&keyopt);
    return ok;
}

static bool follow(struct sources *s, struct err *err)
{
    if (!any_replaced(s))
        return true;
    if (!take_up(s, err)) {
        if (s->follow == SOURCES_FOLLOW_SAME)
            return false;
        say_kept(s, err);
        return true;
    }
    free(s->why);
    s->why = NULL;
    return true;
}

bool sources_enter(struct sources *s, size_t len, struct err *err)
{
    bool looks = s->follow == SOURCES_FOLLOW_SAME || (s->follow == SOURCES_FOLLOW && is_time(s));
    bool ok = true;
    pthread_rwlock_rdlock(&s->lock);
    if (looks && any_replaced(s)) {
        pthread_rwlock_unlock(&s->lock);
        pthread_rwlock_wrlock(&s->lock);
        ok = follow(s, err);
        pthread_rwlock_unlock(&s->lock);
        pthread_rwlock_rdlock(&s->lock);
    }
    for (size_t i = 0; i < s->n; i++) {
        struct err why;
        if (!store_enter(s->filter[i].now, len, &why) && ok)
            ok = fail(err, "%s", why.text);
    }
    return ok;
}

bool sources_leave(struct sources *s, bool ok, struct err *err)
{
    for (size_t i = 0; i < s->n; i++)
        ok = store_leave(s->filter[i].now, ok, err);
    pthread_rwlock_unlock(&s->lock);
    return ok;
}

/* ---- Queries. */

/* Sets bits 0..n-1, except those of bad records. */
static void find_good(const struct batch *b, uint64_t good[BATCH_MAX / 64])
{
    for (size_t w = 0; w < BATCH_MAX / 64; w++) {
        size_t left = b->n > 64 * w ? b->n - 64 * w : 0;
        good[w] = (left >= 64 ? ~UINT64_C(0) : ((uint64_t)1 << left) - 1) & ~b->bad[w];
    }
}

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
    find_good(b, answers->good);
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

/* ---- Digests in the other case. */

enum { CASE_BATCHES = 8, CASE_KEYS = 16, FEWEST_DIGITS = 32, MOST_DIGITS = 128 };

/* Copies a digest in hexadecimal digits, with its letters in the other case. False: it is not a
 * digest, or has letters of both cases, or none. */
static bool swap_case(const char *key, size_t len, char *to, bool *capitals)
{
    bool upper = false, lower = false;
    if (len < FEWEST_DIGITS || len > MOST_DIGITS)
        return false;
    for (size_t i = 0; i < len; i++) {
        bool is_letter = key[i] > '9';
        if (!isxdigit((unsigned char)key[i]))
            return false;
        upper |= is_letter && key[i] < 'a';
        lower |= is_letter && key[i] >= 'a';
        to[i] = (char)(is_letter ? key[i] ^ 0x20 : key[i]);
    }
    *capitals = lower;
    return upper != lower;
}

void sources_try_other_case(struct sources *s, const struct batch *b)
{
    struct key_rule rule = {.given = true,
                            .terminator = '\n',
                            .prep = b->rule->prep & PREP_ENCODING,
                            .hash = b->rule->hash,
                            .seed = b->rule->seed,
                            .bytes = b->rule->bytes};
    struct sources_answers answers;
    struct err ignored;
    char text[CASE_KEYS * (MOST_DIGITS + 1)];
    size_t used = 0, len;
    bool capitals = false;
    if (b->rule->secret || prep_in_digits(b->rule->prep) || s->counts ||
        s->other_case.batches >= CASE_BATCHES)
        return;
    s->other_case.batches++;
    for (size_t i = 0; i < b->n && i < CASE_KEYS; i++) {
        const char *key = bit_of(b->bad, i) ? "" : batch_key(b, i, &len);
        if (!bit_of(b->bad, i) && swap_case(key, len, text + used, &capitals)) {
            used += len;
            text[used++] = '\n';
        }
    }
    struct batch *other = batch_new(&rule);
    if (other == NULL)
        return;
    batch_start(other, text, used);
    if (batch_next(other) && sources_query(s, other, &answers, &ignored)) {
        s->other_case.keys += (unsigned)other->n;
        s->other_case.found += (unsigned)bits_count(answers.present, BATCH_MAX);
        s->other_case.capitals = capitals;
    }
    batch_free(other);
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

void sources_warn_reading(const struct sources *s, uint64_t n, uint64_t found)
{
    if (warn_finds_few(n, found) && s->other_case.found > s->other_case.keys / 2)
        say_note("'%s' has these digests in %s: made or imported with %s, it takes either",
                 s->filter[0].path,
                 s->other_case.capitals ? "capitals, not in small letters"
                                        : "small letters, not in capitals",
                 s->other_case.capitals ? "--upper" : "--ignore-case");
    else
        for (size_t i = 0; i < s->n; i++)
            warn_reading(s->filter[i].now, &s->keyopt->rule, n, found);
}

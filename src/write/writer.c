/* SPDX-License-Identifier: MIT */
#include "write/writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port/port.h"
#include "base/bits.h"
#include "base/num.h"
#include "file/chain.h"
#include "file/pages.h"
#include "kind/foreign.h"

static const struct header *header_of(const struct writer *w)
{
    return &w->session.filter->header;
}

static const char *filter_name(const struct writer *w)
{
    return w->session.filter->path;
}

/* The layer that takes keys. */
static const struct layer *newest(const struct writer *w)
{
    return &header_of(w)->layers[w->layer];
}

/* ---- The layer's number of keys, and the limits of the filter's FPR.
 *
 * The counters give the number of keys, the kind's formula the numbers at which the limits are
 * reached. In a small filter, the FPR of the bits differs from the formula's by some per cent. So
 * the bits are counted whenever half of the keys may have come for which there was room at the last
 * count: the last times at every key. Until then the FPR is at most that of the middle, and for
 * each key that was added, at most 1 / (1 - FPR) have come. */

static double keys_in_layer(const struct writer *w)
{
    return w->n + (double)(w->session.counters.keys_added - w->counted) * w->each;
}

static double fpr_at(const struct writer *w, double n)
{
    double fpr = newest(w)->kind->fpr_at(newest(w), n);
    return fpr + w->others_fpr * (1 - fpr); /* precise for the smallest rates, too */
}

/* The number of keys in the layer with which the filter has an FPR. */
static double keys_at(const struct writer *w, double fpr)
{
    return layer_n_at(newest(w), (fpr - w->others_fpr) / (1 - w->others_fpr));
}

/* Of absent keys, at least this part is taken to be new, even if nearly all bits are set. */
static const double LEAST_NEW = 0x1p-30;

static double each_at(const struct writer *w, double n)
{
    return 1 / fmax(LEAST_NEW, 1 - newest(w)->kind->fpr_at(newest(w), n));
}

/* The keys in the layer for which bits are counted: those of the limit or, if there is none, of the
 * warning. */
static double next_limit(const struct writer *w)
{
    bool warns = isinf(w->max_n) && !w->out->too_full && !format_grows(header_of(w));
    return warns ? w->warn_n : w->max_n;
}

static void count_from(struct writer *w, double n)
{
    w->n = n;
    w->counted = w->session.counters.keys_added;
    w->each = each_at(w, n);
    w->each_most = each_at(w, (n + next_limit(w)) / 2);
}

/* Counts the bits of the layer. Its number of keys is then that for which the formula gives the FPR
 * of the bits. */
static void count_bits(struct writer *w)
{
    struct census census;
    filter_expect(w->session.filter, true);
    layers_census(filter_layers(w->session.filter), w->layer, w->options.threads, &census);
    count_from(w, layer_n_at(newest(w), census.fpr));
}

/* Does an exact layer lack room for `more` keys? Keys that change no bit may still be added. */
static bool is_full(const struct writer *w, size_t more)
{
    return w->session.counters.keys_added >= w->most ||
           w->most - w->session.counters.keys_added < more;
}

/* A key whose line is nearly full may raise the FPR by several times what the formula says. So the
 * last key must have room for this number of keys that are new. */
static const double SPARE = 3;

/* With n more keys, may half of the room be taken? */
static bool is_near_limit(const struct writer *w, double n)
{
    double since = (double)(w->session.counters.keys_added - w->counted) * w->each_most;
    return since + n + SPARE * w->each > (next_limit(w) - w->n) / 2;
}

/* Would the FPR be within the limit, if there is one, with n more keys? */
static bool limit_allows(struct writer *w, double n)
{
    if (w->session.counters.keys_added > w->counted && is_near_limit(w, 0))
        count_bits(w);
    return keys_in_layer(w) + n + SPARE * w->each <= w->max_n;
}

static bool is_high(const struct writer *w)
{
    return keys_in_layer(w) > w->warn_n;
}

/* The counters alone are not relied on from this part of the limit on. */
static const double NEAR = 0.9;

/* Finds the layer that takes keys, and how full it is. A call brings n of them. */
static void begin_layer(struct writer *w, size_t n)
{
    const struct header *h = header_of(w);
    double absent = 1, limit = writer_limit(h, &w->options);
    w->has_layer = true;
    memcpy(w->id, h->id, sizeof w->id);
    w->layer = chain_newest(h);
    w->generation = newest(w)->generation;
    w->out->too_full &= !format_forgets(h); /* only a rotation lowers the FPR */
    for (unsigned i = 0; i < h->n_layers; i++)
        absent *= i == w->layer || format_is_over(h, i) ? 1 : 1 - h->layers[i].fpr_closed;
    w->others_fpr = 1 - absent;
    w->takes = chain_takes(h, w->layer);
    bool exact = chain_is_exact(h);
    w->warn_n = exact ? INFINITY : keys_at(w, writer_warn_fpr(h));
    w->most = exact && newest(w)->n_design < UINT64_MAX - newest(w)->n_before
                  ? newest(w)->n_before + newest(w)->n_design
                  : UINT64_MAX;
    w->max_n = limit < 1 ? keys_at(w, limit) : INFINITY;
    count_from(w, chain_distinct(h, &w->session.counters, w->layer));
    if (w->n > NEAR * w->max_n)
        count_bits(w);
    /* Many keys in an empty layer touch nearly all of its pages: the kernel gives them all at once.
     */
    if (keys_in_layer(w) == 0 && n >= layer_pages(newest(w)) / 4 && !layout_is_sparse(newest(w)))
        port_fill(w->session.filter->data[w->layer], (size_t)newest(w)->data_len);
}

bool writer_check(const struct header *h, const char *name, const struct add_options *options,
                  struct err *err)
{
    const struct layer *layer = &h->layers[chain_newest(h)];
    struct err why;
    if (!kind_takes_keys(layer->kind))
        return fail(err, "'%s' is immutable: no keys can be added to it", name);
    if (kind_is_exact(layer->kind) && !layer->kind->check_add(layer, &why))
        return fail(err, "no keys can be added to '%s': %s", name, why.text);
    if (options->rotate && h->period != 0)
        return fail(err, "'%s' keeps keys for a time, so it is not rotated at capacity", name);
    return !options->rotate || format_forgets(h) ||
           fail(err, "'%s' has no generations, so it cannot be rotated", name);
}

/* Says what a writer that ended without leaving may have left undone. */
static void warn_of_dead(struct writer *w)
{
    if (w->session.found_dead)
        snprintf(w->out->warning, sizeof w->out->warning,
                 "'%.300s': a process was killed, or the machine crashed, while keys were added; "
                 "the last of them may be missing",
                 filter_name(w));
    w->session.found_dead = false;
}

bool writer_begin(struct writer *w, struct filter *f, const struct add_options *options,
                  struct add_state *out, struct err *err)
{
    *w = (struct writer){.options = *options, .out = out};
    if (!writer_check(&f->header, f->path, options, err) || !session_begin(&w->session, f, err))
        return false;
    warn_of_dead(w);
    return true;
}

bool writer_end(struct writer *w, bool sync, struct err *err)
{
    if (w->out->n_new > 0)
        w->session.learned = w->out->learned;
    bool ok = session_end(&w->session, sync, err);
    warn_of_dead(w);
    return ok;
}

static bool next_layer(struct writer *w, size_t n, struct err *err)
{
    if (!advance(&w->session, w->options.threads, err))
        return false;
    begin_layer(w, n);
    return true;
}

/* ---- Warnings and refusals. */

double writer_limit(const struct header *h, const struct add_options *options)
{
    if (options->max_fpr != 0)
        return options->max_fpr;
    bool promises = !options->rotate && (h->compat & COMPAT_ASSUMED) == 0 && !format_grows(h) &&
                    !chain_is_exact(h);
    return promises ? fmin(1, WRITER_USELESS * layers_design_fpr(h)) : 1;
}

const char *writer_remedy(const struct header *h)
{
    const struct kind *kind = h->layers[0].kind;
    return format_forgets(h) && h->period == 0
               ? "make room with 'seen rotate' or --rotate-at-capacity"
           : format_forgets(h) || kind_is_foreign(kind) || kind_counts(kind)
               ? "make one with a larger --capacity"
               : "make one with a larger --capacity, or one that grows (without --fixed)";
}

enum add_result writer_refuse(const struct header *h, const char *name,
                              const struct add_options *options, struct err *err)
{
    char limit[NUM_TEXT];
    fail(err, "not added: the false-positive rate of '%s' would pass %s", name,
         num_show_fpr(limit, writer_limit(h, options)));
    if (options->max_fpr == 0)
        fail_more(err, ", 10 times its design rate; %s, or set another limit with --max-fpr",
                  writer_remedy(h));
    return ADD_FULL;
}

double writer_warn_fpr(const struct header *h)
{
    return ((h->compat & COMPAT_ASSUMED) != 0 ? 2 : 1.01) * layers_design_fpr(h);
}

void writer_warn(const struct header *h, const char *name, double fpr, char text[WRITER_WARNING])
{
    char now[NUM_TEXT], design[NUM_TEXT];
    num_show_fpr(now, fpr);
    if ((h->compat & COMPAT_ASSUMED) != 0)
        snprintf(text, WRITER_WARNING,
                 "'%.300s' is more than half full: its current false-positive rate is %s", name,
                 now);
    else if (format_grows(h))
        snprintf(text, WRITER_WARNING,
                 "'%.300s' has a false-positive rate of %s, above its design rate of %s: keys may "
                 "have been chosen to collide, which --secret prevents",
                 name, now, num_show_fpr(design, h->fpr_design));
    else
        snprintf(text, WRITER_WARNING,
                 "'%.300s' is fuller than it was made for: its current false-positive rate is %s, "
                 "its design rate %s",
                 name, now, num_show_fpr(design, layers_shown_fpr(h)));
}

/* ---- A piece: keys that go into a layer together, of up to LAYER_BATCH adjacent records, without
 * those that are known. Key i is that of record done + place[i]. */

enum { PIECE_WORDS = LAYER_BATCH / 64 }; /* of `present`: bit i belongs to key i of a piece */

/* The keys of one writer_add. Bit i of `known` belongs to record i. */
struct call {
    struct hashes keys;
    uint64_t *known;
    size_t n, done; /* records: all, and those that are added or known */
    bool all_found; /* no key of the next piece would change anything */
};

static struct hashes piece_keys(const struct layers_keys *p)
{
    return (struct hashes){p->lane[0], LAYER_BATCH, NULL};
}

/* Takes the keys of the records up to `to` that are not known. */
static void take_piece(const struct writer *w, const struct call *c, size_t to,
                       struct layers_keys *p)
{
    unsigned lanes = header_of(w)->hash->lanes;
    uint64_t any_known = 0;
    for (size_t i = c->done / 64; i * 64 < to; i++)
        any_known |= c->known[i];
    layers_take(p, lanes, hashes_from(c->keys, c->done), to - c->done);
    if (any_known == 0) /* the usual case */
        return;
    uint64_t known[PIECE_WORDS] = {0};
    for (size_t i = 0; i < p->n; i++)
        known[i / 64] |= (uint64_t)bit_of(c->known, c->done + i) << i % 64;
    layers_leave_out(p, lanes, known);
}

/* Marks the keys as known whose bit is set. */
static void mark_known(const struct call *c, const struct layers_keys *p, const uint64_t *present)
{
    bool is_whole = p->n > 0 && p->place[p->n - 1] == p->n - 1;
    if (is_whole && c->done % 64 == 0) { /* a word at a time */
        for (size_t word = 0; word < (p->n + 63) / 64; word++)
            c->known[c->done / 64 + word] |= present[word];
        return;
    }
    for (size_t word = 0; word < PIECE_WORDS; word++)
        for (uint64_t bits = present[word]; bits != 0; bits &= bits - 1)
            bit_set(c->known, c->done + p->place[64 * word + (unsigned)__builtin_ctzll(bits)]);
}

/* ---- Searching layers. These set the bits of the keys that are found. */

/* The layer that takes keys. */
static bool search_newest(const struct writer *w, const struct layers_keys *p, uint64_t *present,
                          struct err *err)
{
    struct filter *f = w->session.filter;
    struct hashes keys = piece_keys(p);
    if (!pages_verify(f, w->layer, keys, p->n, err))
        return false;
    newest(w)->kind->query(newest(w), f->data[w->layer], keys, p->n, present);
    return true;
}

/* Do keys of other layers stay out of the one that takes keys? In a ring they go into it again. */
static bool others_keep_out(const struct writer *w)
{
    return !format_forgets(header_of(w));
}

/* Finds the keys that would change nothing if they were added. */
static bool search_all(const struct writer *w, const struct layers_keys *p, uint64_t *present,
                       struct err *err)
{
    return others_keep_out(w) ? filter_query(w->session.filter, piece_keys(p), p->n, present, err)
                              : search_newest(w, p, present, err);
}

/* ---- Adding. */

/* A call with at most this number of keys looks for them before it inserts them. If the layer has
 * all of them, it writes no page, and no page has to go to disk. For 100 known keys in a file of
 * 1 GiB, writing to disk takes 50 ms. */
enum { FEW = 128 };

/* Inserts a piece. Sets the bits of the keys that the layer had. */
static bool insert(struct writer *w, const struct layers_keys *p, bool few, uint64_t *present,
                   struct err *err)
{
    if (p->n == 0)
        return true;
    if (few && !search_newest(w, p, present, err))
        return false;
    if (bits_count(present, LAYER_BATCH) == p->n)
        return true;
    if (!session_touch(&w->session, w->layer, piece_keys(p), p->n, err))
        return false;
    uint8_t *data = w->session.filter->data[w->layer];
    newest(w)->kind->add(newest(w), data, piece_keys(p), p->n, present);
    return true;
}

/* Adds a piece, counts the keys that were new, and marks the others as known. If it fails, no key
 * was added. */
static bool add_piece(struct writer *w, const struct call *c, struct layers_keys *p,
                      struct err *err)
{
    uint64_t others[PIECE_WORDS] = {0}, present[PIECE_WORDS] = {0};
    size_t n_given = p->n;
    bool keep_out = others_keep_out(w);
    if (header_of(w)->n_layers > 1 &&
        !filter_query_others(w->session.filter, w->layer, piece_keys(p), p->n, others, err))
        return false;
    if (keep_out) {
        mark_known(c, p, others);
        layers_leave_out(p, header_of(w)->hash->lanes, others);
    }
    if (!insert(w, p, c->n <= FEW, present, err))
        return false;
    w->session.counters.keys_added += p->n - bits_count(present, LAYER_BATCH);
    for (size_t i = 0; i < PIECE_WORDS && !keep_out; i++)
        present[i] |= others[i];
    mark_known(c, p, present);
    w->session.counters.records += n_given;
    w->out->n_new += p->n - bits_count(present, LAYER_BATCH);
    return true;
}

static enum add_result refuse_key(const struct writer *w, struct err *err)
{
    const struct header *h = header_of(w);
    fail(err, "not added: '%s' is full: %s %llu keys%s", filter_name(w),
         h->n_layers == 1 ? "it was made for" : "its last layer was made for",
         (unsigned long long)newest(w)->n_design,
         format_grows(h) ? "; it grows only in the program that it comes from" : "");
    return ADD_FULL;
}

/* Adds the keys of records up to `end` one by one, as long as there is room and max_fpr allows. */
static enum add_result add_one_by_one(struct writer *w, struct call *c, size_t end, struct err *err)
{
    for (; c->done < end; c->done++) {
        struct layers_keys one;
        uint64_t present[PIECE_WORDS] = {0};
        take_piece(w, c, c->done + 1, &one);
        if (one.n == 0)
            continue;
        if (!search_all(w, &one, present, err))
            return ADD_FAILED;
        if (bit_of(present, 0)) {
            bit_set(c->known, c->done);
            w->session.counters.records++;
            continue;
        }
        if (is_full(w, 1))
            return refuse_key(w, err);
        if (!limit_allows(w, 0))
            return writer_refuse(header_of(w), filter_name(w), &w->options, err);
        if (!add_piece(w, c, &one, err))
            return ADD_FAILED;
    }
    return ADD_OK;
}

/* Adds the keys of records up to `end`, LAYER_BATCH at most. */
static enum add_result add_some(struct writer *w, struct call *c, size_t end, struct err *err)
{
    struct layers_keys p;
    double n = (double)(end - c->done);
    if (is_full(w, end - c->done) || (is_near_limit(w, n) && !limit_allows(w, 2 * n)))
        return add_one_by_one(w, c, end, err);
    take_piece(w, c, end, &p);
    if (!c->all_found) {
        if (!add_piece(w, c, &p, err))
            return ADD_FAILED;
        c->done = end;
        return ADD_OK;
    }
    w->session.counters.records += p.n;
    while (c->done < end)
        bit_set(c->known, c->done++);
    return ADD_OK;
}

/* ---- Room in the newest layer. */

/* Sets *room to the number of the next records, LAYER_BATCH at most, of whose keys `left` or fewer
 * would change something. So a layer ends at the same key however the input was cut into calls. */
static bool count_room(const struct writer *w, struct call *c, uint64_t left, size_t *room,
                       struct err *err)
{
    struct layers_keys p;
    uint64_t present[PIECE_WORDS] = {0};
    *room = c->n - c->done < LAYER_BATCH ? c->n - c->done : LAYER_BATCH;
    if (left >= *room)
        return true;
    take_piece(w, c, c->done + *room, &p);
    if (!search_all(w, &p, present, err))
        return false;
    c->all_found = bits_count(present, LAYER_BATCH) == p.n;
    for (size_t i = 0; i < p.n; i++)
        if (!bit_of(present, i) && left-- == 0) {
            *room = p.place[i];
            break;
        }
    return true;
}

/* Begins the next layer if this one is full, the filter's policy allows it, and keys need it. Sets
 * *room to the number of records, at least 1, that may go in before the next call. */
static bool make_room(struct writer *w, struct call *c, size_t *room, struct err *err)
{
    const struct header *h = header_of(w);
    *room = LAYER_BATCH;
    c->all_found = false;
    if ((!format_grows(h) || chain_is_exact(h)) && !(format_forgets(h) && w->options.rotate))
        return true;
    uint64_t has = chain_keys_in(h, &w->session.counters, w->layer);
    return count_room(w, c, w->takes > has ? w->takes - has : 0, room, err) &&
           (*room > 0 || (next_layer(w, c->n, err) && make_room(w, c, room, err)));
}

static enum add_result add_all(struct writer *w, struct call *c, struct err *err)
{
    while (c->done < c->n) {
        size_t room;
        if (!make_room(w, c, &room, err))
            return ADD_FAILED;
        size_t end = room < c->n - c->done ? c->done + room : c->n;
        enum add_result result = add_some(w, c, end, err);
        if (result != ADD_OK)
            return result;
        if (w->out->too_full || !is_high(w))
            continue;
        count_bits(w);
        w->out->too_full = is_high(w);
        if (w->out->too_full)
            writer_warn(header_of(w), filter_name(w), fpr_at(w, w->n), w->out->warning);
    }
    return ADD_OK;
}

/* Finds out, under the lock, what other processes have done to the layers. */
static bool catch_up(struct writer *w, size_t n, struct err *err)
{
    const struct header *h = header_of(w);
    bool same_file = w->has_layer && memcmp(w->id, h->id, sizeof h->id) == 0;
    if (same_file && newest(w)->generation == w->generation && chain_newest(h) == w->layer)
        return true;
    if (!same_file && !writer_check(h, filter_name(w), &w->options, err))
        return false;
    begin_layer(w, n);
    return true;
}

enum add_result writer_add(struct writer *w, struct hashes keys, uint64_t *known, size_t n,
                           size_t *done, struct err *err)
{
    struct call call = {.keys = keys, .known = known, .n = n};
    enum add_result result = ADD_FAILED;
    *done = 0;
    w->out->warning[0] = '\0';
    w->out->clock = CLOCK_BELIEVED;
    if (!session_lock(&w->session, err))
        return ADD_FAILED;
    bool on_time = !format_forgets(header_of(w)) ||
                   (advance_finish(&w->session, err) &&
                    advance_by_time(&w->session, w->options.threads, &w->out->clock, err));
    if (on_time && catch_up(w, n, err))
        result = add_all(w, &call, err);
    session_unlock(&w->session);
    *done = call.done;
    uint64_t every = w->options.sync_every;
    if (result == ADD_FAILED || every == 0 || w->out->n_new - w->since_sync < every)
        return result;
    w->since_sync = w->out->n_new;
    return session_sync(&w->session, err) ? result : ADD_FAILED;
}

/* ---- The keys of a chunk. */

/* Makes room for twice as many keys, and a batch. */
static bool double_room(struct writer_keys *keys, unsigned lanes)
{
    size_t room = 2 * keys->room + BATCH_MAX;
    uint64_t *known = realloc(keys->known, room / 64 * sizeof *known);
    if (known == NULL)
        return false;
    keys->known = known;
    uint64_t *hash = realloc(keys->hash, lanes * room * sizeof *hash);
    if (hash == NULL)
        return false;
    keys->hash = hash;
    for (unsigned l = lanes; l-- > 1;)
        memmove(hash + l * room, hash + l * keys->room, keys->n * sizeof *hash);
    keys->room = room;
    return true;
}

/* Copies of prepared keys of a batch. The batch, with its buffers, is reused. */
struct key_copies {
    struct key_copies *next;
    char data[];
};

static void free_copies(struct writer_keys *keys)
{
    while (keys->copies != NULL) {
        struct key_copies *next = keys->copies->next;
        free(keys->copies);
        keys->copies = next;
    }
}

static bool take_bytes(struct writer_keys *keys, const struct batch *b)
{
    struct key_bytes *out = realloc(keys->bytes, keys->room * sizeof *out);
    size_t need = 0;
    if (out == NULL)
        return false;
    keys->bytes = out;
    out += keys->n;
    memcpy(out, b->bytes, b->n * sizeof *out);
    for (size_t i = 0; i < b->n; i++)
        need += batch_key_stays(b, i) ? 0 : out[i].len;
    if (need == 0)
        return true;
    struct key_copies *copies = malloc(sizeof *copies + need);
    if (copies == NULL)
        return false;
    copies->next = keys->copies;
    keys->copies = copies;
    char *to = copies->data;
    for (size_t i = 0; i < b->n; i++)
        if (out[i].len > 0 && !batch_key_stays(b, i)) {
            out[i].data = memcpy(to, out[i].data, out[i].len);
            to += out[i].len;
        }
    return true;
}

bool writer_keys_take(struct writer_keys *keys, const struct batch *b)
{
    const struct hashes from = batch_hashes(b);
    unsigned lanes = key_rule_hash(b->rule)->lanes;
    if (keys->room - keys->n < BATCH_MAX && !double_room(keys, lanes))
        return false;
    if (keys->n == 0)
        free_copies(keys);
    if (b->rule->bytes && !take_bytes(keys, b))
        return false;
    for (unsigned l = 0; l < lanes; l++)
        memcpy(keys->hash + l * keys->room + keys->n, hashes_lane(from, l),
               b->n * sizeof *keys->hash);
    memcpy(keys->known + keys->n / 64, b->bad, sizeof b->bad);
    keys->n += b->n;
    return true;
}

void writer_keys_free(struct writer_keys *keys)
{
    free(keys->hash);
    free(keys->known);
    free(keys->bytes);
    free_copies(keys);
}

/* SPDX-License-Identifier: MIT */
/* seen stats: what is in a filter, how full it is, and its false-positive rate. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/exact.h"
#include "base/num.h"
#include "base/output.h"
#include "base/progress.h"
#include "base/say.h"
#include "cmd/cmd.h"
#include "cmd/keyopt.h"
#include "cmd/redisopt.h"
#include "cmd/report.h"
#include "cmd/warn.h"
#include "keys/digest.h"
#include "keys/encoding.h"
#include "keys/prep.h"
#include "keys/reading.h"
#include "foreign/foreign.h"
#include "file/chain.h"
#include "file/pages.h"
#include "file/session.h"
#include "store/store.h"

struct stats {
    struct keyopt keyopt;
    struct open_options open;
    bool all, json, prometheus, text_printed;
    struct metrics metrics; /* with `prometheus` */
};

static const struct opt own_opts[] = {
    {0, "all", NULL, "print everything that is known about each filter", FLAG(struct stats, all)},
    {0, "json", NULL, "print one line of JSON for each filter", FLAG(struct stats, json)},
    {0, "prometheus", NULL, "print metrics for the textfile collector of Prometheus",
     FLAG(struct stats, prometheus), .not_with = " json"},
    {0, "secret", "FILE", "check that FILTER was made with this secret",
     TEXT(struct stats, keyopt.secret_path)},
    BORROW(struct stats, open.borrow),
    THREADS(struct stats, keyopt.threads),
    {0},
};

static const struct opt_group groups[] = {
    {"Options", own_opts, 0, NULL},
    {"Filters in Redis", redisopt_connect, offsetof(struct stats, open), NULL},
    {0},
};

/* ---- What is found out about one filter, from its header, its pages and its bits. */

enum { MOST_VALUES = 4 }; /* of a layout (layout.facts) */

struct figures {
    struct store *store;
    const struct header *header;
    bool is_file; /* else it has no pages to check */
    struct facts facts;
    unsigned shards; /* 1: the filter is not sharded */
    enum filter_health health;
    struct census all, layer[FORMAT_MAX_LAYERS];
    uint64_t damaged;    /* pages */
    bool counters_known; /* of a clean file: they include only sessions that ended well */
    bool consistent;     /* counters agree with bits; true if counters are unknown */
    double n_bits,
        n_counted; /* keys in all layers, by the bits and by the counters; NAN: unknown */
    char seed[NUM_TEXT], secret_id[SECRET_ID_TEXT];
    char prep[64]; /* the longest is " --trim --ignore-case --hex --digest sha256"; empty: none */
    char reading[READING_TEXT]; /* empty: unknown */
    char profile[PROFILE_TEXT]; /* likewise */
    /* For a filter of another program's layout. */
    const struct layout *layout; /* NULL: none */
    char spec[LAYOUT_TEXT];
    unsigned n_values; /* that the other program stores besides the bits */
    struct {
        char name[NUM_TEXT], text[NUM_TEXT];
    } value[MOST_VALUES];
};

/* Reads all pages and bits. */
static bool read_census(unsigned threads, struct figures *f, struct err *err)
{
    store_describe(f->store, &f->facts);
    f->shards = f->facts.n_shards > 1 ? f->facts.n_shards : 1;
    f->is_file = f->store->file != NULL;
    if (f->is_file) {
        uint64_t unchecked;
        f->health = filter_health(f->store->file);
        progress_begin("checking", false, false);
        f->damaged = pages_check_all(f->store->file, threads, &unchecked, NULL, NULL);
        progress_end();
    }
    return store_census(f->store, threads, f->layer, &f->all, err);
}

/* Header and bits match if nobody has written another header once the bits are read. If writers
 * come and go all the time, every try may fail. Then the file counts as being written, and its
 * counters as unknown. */
enum { TRIES = 5 };

static bool read_every_bit(unsigned threads, struct figures *f)
{
    struct err err;
    bool stable = false;
    uint64_t epoch = 0; /* of the header, when the bits were read */
    for (int tries = 0; !stable && tries <= TRIES; tries++) {
        bool again = false, ok = store_enter(f->store, SIZE_MAX, &err);
        stable = tries > 0 && f->header->epoch == epoch;
        epoch = f->header->epoch;
        ok = ok && (stable || read_census(threads, f, &err));
        if (!store_leave(f->store, ok, &again, &err) && !again)
            return say_failure(&err);
        stable = stable && !again;
    }
    if (!stable)
        f->health = FILTER_WRITING;
    if (stable || f->damaged == 0)
        return true;
    return say_error("'%s' kept changing while it was read", f->store->name);
}

static void note_value(void *ctx, const char *name, const char *text)
{
    struct figures *f = ctx;
    assert(f->n_values < MOST_VALUES);
    snprintf(f->value[f->n_values].name, NUM_TEXT, "%s", name);
    snprintf(f->value[f->n_values++].text, NUM_TEXT, "%s", text);
}

/* Finds which layout of another program the filter has, if any. */
static void find_layout(struct figures *f)
{
    struct layout_filter filter;
    struct err none;
    if (!foreign_filter(f->header, &filter, &none))
        return;
    f->layout = filter.layer[0].kind->layout;
    layout_show(&filter, f->spec, sizeof f->spec);
    if (f->layout->facts != NULL)
        f->layout->facts(&filter, note_value, f);
}

/* How keys are read, prepared and hashed, as text. */
static void choose_keys(struct figures *f)
{
    const struct header *h = f->header;
    const struct digest *d = digest_by_id(prep_digest(h->prep));
    snprintf(f->seed, sizeof f->seed, "0x%016" PRIx64, h->seed);
    secret_id_text(&h->secret, f->secret_id);
    snprintf(f->prep, sizeof f->prep, "%s%s%s%s%s%s", h->prep & PREP_TRIM ? " --trim" : "",
             h->prep & PREP_FOLD ? " --ignore-case" : "", h->prep & PREP_UPPER ? " --upper" : "",
             h->prep & PREP_HEX ? " --hex" : "", d != NULL ? " --digest " : "",
             d != NULL ? d->name : "");
    reading_show(&h->reading, f->reading);
    profile_show(&h->profile, f->profile);
}

static bool check_secret(struct keyopt *keyopt, const struct figures *f)
{
    struct err err;
    if (keyopt->secret_path == NULL)
        return true;
    keyopt->rule.prep = 0; /* forget that of the previous filter */
    return keyopt_adopt(keyopt, f->header, f->store->name, &err) || say_failure(&err);
}

/* Reads the whole filter, with keyopt->threads, and checks the secret that --secret gave. Prints
 * why it fails. The figures point into the store. */
static bool read_figures(struct figures *f, struct store *store, struct keyopt *keyopt)
{
    *f = (struct figures){.store = store, .header = store->header};
    if (!read_every_bit(keyopt->threads, f))
        return false;
    find_layout(f);
    choose_keys(f);
    f->counters_known = f->health == FILTER_CLEAN && f->is_file;
    f->consistent =
        !f->counters_known ||
        layers_counters_agree(f->header, &f->header->counters, f->layer, &f->n_bits, &f->n_counted);
    return check_secret(keyopt, f);
}

/* ---- The rows of a report. */

static enum report_source known(bool is_known, enum report_source source)
{
    return is_known ? source : UNKNOWN;
}

/* The source of what follows from the number of keys. */
static enum report_source by_keys(const struct figures *f)
{
    return f->all.n_exact ? EXACT : ESTIMATED;
}

/* The source of a figure of the design, which may be taken from m and k. */
static enum report_source by_design(const struct header *h)
{
    return (h->compat & COMPAT_ASSUMED) != 0 ? ASSUMED : RECORDED;
}

/* A process that was killed while it was writing leaves nothing to repair. */
static const char *state_name(const struct figures *f)
{
    if (f->health == FILTER_CLEAN)
        return "clean";
    bool lost = f->health == FILTER_DIRTY && f->damaged > 0;
    return lost || (f->is_file && session_is_dirty(f->store->file)) ? "dirty" : "writing";
}

static void add_reading(struct report *r, const struct figures *f)
{
    const struct header *h = f->header;
    const struct encoding *encoding = encoding_by_id(prep_encoding(h->prep));
    const unsigned len = format_key_len(h);
    report_string(r, "hash", "hash", known(!f->facts.closed, RECORDED), h->hash->name);
    report_string(r, "hash seed", "seed", known(!f->facts.closed, RECORDED), f->seed);
    report_flag(r, "secret", "secret", RECORDED, format_has_secret(h));
    report_string(r, "secret's identifier", "secret_id", known(format_has_secret(h), RECORDED),
                  f->secret_id);
    report_string(r, "key preparation", "preparation", RECORDED,
                  f->prep[0] != '\0' ? f->prep + 1 : "none");
    report_string(r, "keys from", "keys_from", known(f->reading[0] != '\0', RECORDED), f->reading);
    report_string(r, "keys look like", "keys_look_like", known(f->profile[0] != '\0', RECORDED),
                  f->profile);
    if ((h->prep & PREP_HEX) != 0)
        report_uint(r, "bytes of each key", "key_bytes", FORM_COUNT, known(len != 0, RECORDED),
                    len);
    report_string(r, "key encoding", "encoding", RECORDED,
                  encoding != NULL ? encoding->name : "none");
}

static void add_file(struct report *r, const struct figures *f)
{
    const struct header *h = f->header;
    report_string(r, "file", "file", EXACT, f->store->name);
    report_uint(r, "format version", "format_version", FORM_COUNT, known(f->is_file, RECORDED),
                FORMAT_VERSION);
    report_string(r, "kind", "kind", RECORDED, format_kind_name(h));
    if (f->layout != NULL)
        report_string(r, "layout", "layout", RECORDED, f->spec);
    if (f->shards > 1)
        report_uint(r, "shards", "shards", FORM_COUNT, EXACT, f->shards);
    for (unsigned i = 0; i < f->n_values; i++)
        report_string(r, f->value[i].name, f->value[i].name, RECORDED, f->value[i].text);
    add_reading(r, f);
    report_string(r, "state", "state", EXACT, state_name(f));
    report_uint(r, "epoch", "epoch", FORM_COUNT, known(f->is_file, RECORDED), h->epoch);
    report_uint(r, "created", "created", FORM_TIME, known(h->created != 0, RECORDED), h->created);
    report_uint(r, "changed", "changed", FORM_TIME, known(h->changed != 0, RECORDED), h->changed);
    report_uint(r, "damaged pages", "pages_damaged", FORM_COUNT,
                known(f->health == FILTER_CLEAN && f->is_file, EXACT), f->damaged);
    report_uint(r, "file size", "bytes", FORM_BYTES, EXACT, f->facts.bytes);
}

static bool is_rough_estimate(const struct figures *f)
{
    return layout_caveat(f->header->layers[0].kind) != NULL;
}

/* Kinds that count have a fingerprint of each key. */
static void add_fingerprints(struct report *r, const struct layer *layer)
{
    struct shape shape = layer->kind->shape(layer);
    if (!kind_counts(layer->kind))
        return;
    report_uint(r, "sum of counts", "counts_total", FORM_COUNT, EXACT, shape.total);
    report_uint(r, "fingerprints", "fingerprints", FORM_COUNT, EXACT, shape.fingerprints);
    report_uint(r, "bits of a fingerprint", "fingerprint_bits", FORM_COUNT, RECORDED,
                shape.fingerprint);
}

static bool is_read_only(const struct header *h)
{
    return format_is_immutable(h) && !kind_counts(h->layers[0].kind);
}

/* Keys in a layer, by its bits; unknown in an intersection or a difference. */
static double keys_in(const struct figures *f, unsigned layer)
{
    bool tells = (f->header->compat & (COMPAT_INTERSECTED | COMPAT_SUBTRACTED)) == 0;
    return tells ? f->layer[layer].n : NAN;
}

static double load_of(const struct figures *f, unsigned layer)
{
    uint64_t room = f->header->layers[layer].n_design;
    return room != 0 ? keys_in(f, layer) / (double)room : NAN;
}

/* The load of a ring, or of a filter that grows, is that of its newest layer. The others take no
 * more keys, even if they have room. */
static void add_loads(struct report *r, const struct figures *f)
{
    const struct header *h = f->header;
    bool of_newest = format_forgets(h) || format_grows(h);
    double capacity = (double)h->n_design * f->shards, room = 0, keys = 0;
    report_number(r, "load", "load", FORM_PERCENT, by_keys(f),
                  of_newest      ? load_of(f, chain_newest(h))
                  : capacity > 0 ? f->all.n / capacity
                                 : NAN);
    if (!format_forgets(h))
        return;
    for (unsigned i = 0; i < h->n_layers; i++) {
        room += (double)h->layers[i].n_design;
        keys += f->layer[i].n;
    }
    report_number(r, "load of all generations", "load_all", FORM_PERCENT, by_keys(f),
                  room > 0 ? keys / room : NAN);
}

/* Keys that the filter takes until it is full, or its FPR reaches the design FPR; NAN: unknown. In
 * a filter that is nearly full, the error of a rough estimate would be larger than they are. */
static double keys_left(const struct figures *f)
{
    const struct header *h = f->header;
    unsigned at = format_forgets(h) ? chain_newest(h) : 0;
    double fpr = f->layer[at].fpr, all = f->all.fpr;
    bool one = format_forgets(h) || h->n_layers == 1;
    if (format_grows(h))
        return chain_is_exact(h) ? NAN : chain_left(h, &h->counters);
    if (is_read_only(h) || !one || h->n_design == 0 || is_rough_estimate(f))
        return NAN;
    double design = layers_shown_fpr(h);
    if (all >= design)
        return 0;
    /* The layer's FPR when the filter reaches the design FPR. All other layers together report an
     * absent key absent with probability (1 - all) / (1 - fpr). */
    double limit = h->n_layers == 1 ? design : 1 - (1 - design) * (1 - fpr) / (1 - all);
    const struct layer *layer = &h->layers[at];
    return fpr < limit ? (layer_n_at(layer, limit) - layer_n_at(layer, fpr)) * f->shards : 0;
}

/* Other programs' filters are commonly rebuilt when half of the bits are set. */
static void add_half(struct report *r, const struct figures *f)
{
    const struct layer *layer = &f->header->layers[0];
    double k = layer->kind->shape(layer).k;
    if (f->layout == NULL || f->header->n_layers != 1 || k == 0)
        return;
    double half = M_LN2 * (double)layer->kind->shape(layer).m / k;
    double left = half * f->shards - f->all.n;
    report_number(r, "keys until half full", "keys_until_half", FORM_KEYS, ESTIMATED,
                  left < 0 ? 0 : left);
}

/* The counters of keys. Some other programs count the keys that changed a bit. */
static void add_counters(struct report *r, const struct figures *f)
{
    const struct counters *c = &f->header->counters;
    bool all = f->counters_known, at_least = false;
    enum report_source how = (f->header->compat & COMPAT_ESTIMATED) != 0 ? ESTIMATED : RECORDED;
    bool counted = f->layout != NULL && f->layout->counts && f->health == FILTER_CLEAN;
    double given, dropped;
    chain_given(f->header, c, &given, &dropped);
    dropped = all ? layers_dropped(dropped, c->keys_added, &f->all, &at_least) : NAN;
    report_uint(r, "records given", "records", FORM_COUNT, known(all, how), c->records);
    report_uint(r, "keys new when added", "keys_added", FORM_COUNT, known(all || counted, how),
                c->keys_added);
    report_range(r, "keys wrongly dropped", "dropped_estimate", NULL, FORM_DECIMAL,
                 known(all, ESTIMATED), dropped, dropped, at_least ? INFINITY : dropped);
    report_flag(r, NULL, "dropped_at_least", known(all, ESTIMATED), at_least);
    report_flag(r, "counters agree with bits", "consistent",
                known(all && isfinite(f->n_bits), EXACT), f->consistent);
}

static const char *when_full(const struct figures *f)
{
    static const char *const policies[] = {"FPR rises", "grows", "rotates"};
    const struct header *h = f->header;
    if (is_read_only(h))
        return "immutable";
    if (chain_is_exact(h))
        return format_grows(h) ? "grows only in Redis" : "refuses keys";
    return format_grows(h) && keys_left(f) == 0 ? "full" : policies[h->policy];
}

/* Of a ring with a period. Other filters have no such rows. */
static void add_times(struct report *r, const struct header *h)
{
    if (h->period == 0)
        return;
    unsigned newest = chain_newest(h);
    report_uint(r, "forgets after", "forget_after_seconds", FORM_AGE, RECORDED, chain_age(h));
    report_uint(r, "has keys until", "kept_until", FORM_TIME,
                known(h->layers[newest].since != 0, RECORDED), chain_ends(h, newest));
}

static void add_key_rows(struct report *r, const struct figures *f)
{
    const struct header *h = f->header;
    const struct census *all = &f->all;
    const unsigned generations = chain_generations(h);
    /* A rough estimate has no interval, and gives no bound. */
    bool rough = is_rough_estimate(f) && !all->n_at_least;
    report_range(r, "distinct keys", "n_estimate", "n", FORM_KEYS, by_keys(f), all->n,
                 rough ? NAN : all->n_low, rough ? NAN : all->n_high);
    add_fingerprints(r, &h->layers[0]);
    report_string(r, "when full", "policy", RECORDED, when_full(f));
    report_uint(r, "generations", "generations", FORM_COUNT, known(generations != 0, RECORDED),
                generations);
    add_times(r, h);
    report_uint(r, "design capacity", "n_design", FORM_COUNT, known(h->n_design != 0, by_design(h)),
                h->n_design * f->shards);
    add_loads(r, f);
    report_number(r, "keys left", "keys_left", format_grows(h) ? FORM_DIGITS : FORM_KEYS, ESTIMATED,
                  keys_left(f));
    add_half(r, f);
    add_counters(r, f);
}

/* That of a classic filter whose positions do not depend on each other. */
static double formula(const struct figures *f)
{
    const struct layer *layer = &f->header->layers[0];
    return pow(f->layer[0].bits_set, layer->kind->shape(layer).k);
}

/* Was the FPR measured with a sample, or estimated? In large filters of most layouts the formula
 * holds. */
static bool is_sampled(const struct figures *f)
{
    const struct kind *kind = f->header->layers[0].kind;
    return f->facts.closed ||
           (kind->sampled_fpr != NULL && (layout_caveat(kind) != NULL || f->header->n_layers > 1 ||
                                          fabs(f->all.fpr - formula(f)) > 1e-6 * formula(f)));
}

/* Of a sampled or estimated FPR: it is right to within this factor. */
static double factor(const struct figures *f)
{
    double sum = 0, layers = f->header->n_layers;
    for (unsigned i = 0; i < f->header->n_layers; i++)
        sum += log1p(-f->layer[i].fpr);
    if (fabs(f->all.fpr / -expm1(sum) - 1) > 1e-6)
        return 1.2;
    return fmax(f->header->layers[0].kind->layout->factor, fmin(layers, 2));
}

/* Layers take their positions from the same hashes. Up to this FPR, what they report together is
 * within 1 % of what it would be if they erred independently; of several layers for 0.5 to 0.9, it
 * was up to 4 % more. */
static const double MOST_EXACT = 0.1;

static void add_fpr(struct report *r, const struct figures *f)
{
    const struct header *h = f->header;
    const struct layer *layer = &h->layers[0];
    bool sampled = is_sampled(f);
    bool one = h->n_layers == 1 && layer->n_design != 0 && !sampled;
    /* Where layers may share keys, they err for the same ones, and the FPR is only a bound. */
    bool exact =
        !sampled && !format_shares_keys(h) && (h->n_layers == 1 || f->all.fpr <= MOST_EXACT);
    report_number(r, "design FPR", "fpr_design", FORM_DIGITS,
                  layers_shown_fpr(h) == h->fpr_design ? by_design(h) : ESTIMATED,
                  layers_shown_fpr(h));
    report_number(r, "current FPR", "fpr_current", FORM_DIGITS, exact ? EXACT : ESTIMATED,
                  f->all.fpr);
    if (sampled)
        report_number(r, "to within a factor of", "fpr_factor", FORM_DIGITS, ESTIMATED, factor(f));
    if (sampled && h->n_layers == 1)
        report_number(r, "FPR by (c/m)^k", "fpr_formula", FORM_DIGITS, EXACT, formula(f));
    report_number(r, "FPR at design capacity", "fpr_at_capacity", FORM_DIGITS, EXACT,
                  one ? layer->kind->fpr_at(layer, (double)layer->n_design) : NAN);
    report_number(r, "FPR of equal hashes", "fpr_hash", FORM_DIGITS,
                  known(!f->facts.closed, ESTIMATED), f->all.n * 0x1p-64);
}

static void add_space(struct report *r, const struct figures *f)
{
    const struct census *all = &f->all;
    double bits = 8 * (double)f->facts.bytes;
    double needed = all->fpr > 0 ? all->n * -exact_log(all->fpr) / exact_log(2) : 0;
    report_number(r, "bits a key", "bits_per_key", FORM_DECIMAL, known(all->n > 0, by_keys(f)),
                  bits / all->n);
    report_number(r, "above the least possible", "overhead", FORM_PERCENT,
                  known(needed > 0, by_keys(f)), bits / needed - 1);
    if (all->bits > 0)
        report_number(r, "bits set", "bits_set", FORM_PERCENT, EXACT, all->bits_set);
    if (all->lines == 0)
        return;
    report_uint(r, "bits in emptiest line", "line_min", FORM_COUNT, EXACT, all->line_min);
    report_uint(r, "bits in fullest line", "line_max", FORM_COUNT, EXACT, all->line_max);
    report_uint(r, "full lines", "lines_full", FORM_COUNT, EXACT, all->lines_full);
}

static void add_shape(struct report *r, const struct shape *shape)
{
    if (shape->pages != 0)
        report_uint(r, NULL, "pages", FORM_COUNT, RECORDED, shape->pages);
    if (shape->m != 0)
        report_uint(r, "m", "m", FORM_COUNT, RECORDED, shape->m);
    if (shape->k != 0)
        report_uint(r, "k", "k", FORM_COUNT, RECORDED, shape->k);
    if (shape->lines != 0)
        report_uint(r, "lines", "lines", FORM_COUNT, RECORDED, shape->lines);
    if (shape->columns != 0)
        report_number(r, "columns", "columns", FORM_DECIMAL, RECORDED, shape->columns);
    if (shape->partitions != 0)
        report_uint(r, "partitions", "partitions", FORM_COUNT, RECORDED, shape->partitions);
}

static void add_layer(struct report *r, const struct figures *f, unsigned i)
{
    const struct layer *layer = &f->header->layers[i];
    const struct census *census = &f->layer[i];
    uint64_t now = format_now();
    struct shape shape = layer->kind->shape(layer);
    report_uint(r, "", NULL, FORM_LAYER, EXACT, i);
    report_string(r, "kind", "kind", RECORDED, layer->kind->name);
    report_uint(r, "size", "bytes", FORM_BYTES, RECORDED, layer->data_len);
    add_shape(r, &shape);
    report_uint(r, "capacity", "n_design", FORM_COUNT, known(layer->n_design != 0, RECORDED),
                layer->n_design);
    report_number(r, "design FPR", "fpr_design", FORM_DIGITS, RECORDED, layer->fpr_design);
    report_number(r, "keys", "n_estimate", FORM_KEYS, ESTIMATED, keys_in(f, i));
    if (kind_is_foreign(layer->kind))
        report_number(r, "bits set", "bits_set", FORM_PERCENT, EXACT, census->bits_set);
    report_number(r, "load", "load", FORM_PERCENT, ESTIMATED, load_of(f, i));
    report_number(r, "FPR", "fpr_current", FORM_DIGITS, EXACT, census->fpr);
    report_uint(r, "generation", "generation", FORM_COUNT, known(layer->generation != 0, RECORDED),
                layer->generation);
    report_uint(r, "age, s", "age_seconds", FORM_COUNT,
                known(layer->since != 0 && layer->since <= now, EXACT), now - layer->since);
    if (f->header->period != 0)
        report_uint(r, "keys until", "kept_until", FORM_TIME,
                    known(layer->since != 0 && !format_is_over(f->header, i), RECORDED),
                    chain_ends(f->header, i));
}

static void add_all_rows(struct report *r, const struct figures *f)
{
    add_file(r, f);
    add_key_rows(r, f);
    add_fpr(r, f);
    add_space(r, f);
    if (is_rough_estimate(f))
        report_string(r, "note", "caveat", EXACT, layout_caveat(f->header->layers[0].kind));
    report_list(r, "layers");
    for (unsigned i = 0; i < f->header->n_layers; i++) {
        report_item(r);
        add_layer(r, f, i);
    }
}

/* How full it is, and what happens then. */
static void pick_load(struct report *r, const struct report *all, const struct figures *f)
{
    const struct header *h = f->header;
    report_pick(r, all, "load");
    if (format_grows(h))
        report_remark(r, keys_left(f) == 0 ? "%s, takes no more keys" : "%s, %s when full",
                      h->n_layers > 1 ? " of the newest layer" : "", when_full(f));
    else if (format_forgets(h))
        report_remark(r, " of the newest generation");
    else if (is_read_only(h))
        report_remark(r, ", takes no more keys");
    else
        report_remark(r, ", %s when full", when_full(f));
}

enum { BRIEF_ROWS = 24 }; /* more than there are in pick_brief */

/* The everyday rows, and those of what is not as usual: at most 12. */
static void pick_brief(struct report *r, const struct report *all, const struct figures *f)
{
    const struct header *h = f->header;
    report_pick(r, all, "file");
    report_pick(r, all, f->layout != NULL ? "layout" : "kind");
    report_pick(r, all, "shards");
    report_pick(r, all, "n_estimate");
    if (format_forgets(h))
        report_pick(r, all, h->period != 0 ? "forget_after_seconds" : "generations");
    if (h->n_design != 0)
        report_pick(r, all, "n_design");
    pick_load(r, all, f);
    if (format_grows(h))
        report_pick(r, all, "keys_left");
    report_pick(r, all, "fpr_current");
    report_pick(r, all, "fpr_design");
    report_pick(r, all, "bytes");
    if (f->all.n > 0)
        report_remark(r, ", %.2f bits a key", 8 * (double)f->facts.bytes / f->all.n);
    if ((h->prep & ~(uint32_t)PREP_ENCODING) != 0)
        report_pick(r, all, "preparation");
    if (prep_encoding(h->prep) != 0)
        report_pick(r, all, "encoding");
    if (format_has_secret(h))
        report_pick(r, all, "secret");
    if (f->health != FILTER_CLEAN)
        report_pick(r, all, "state");
    else if (h->period != 0)
        report_pick(r, all, "kept_until");
    report_pick(r, all, "caveat");
}

/* ---- The command. */

static void print_figures(struct stats *s, const struct figures *f)
{
    struct report_row few[BRIEF_ROWS];
    struct report all = REPORT_DEFAULT, brief = {.sources = true, .room = BRIEF_ROWS, .row = few};
    all.sources = true;
    add_all_rows(&all, f);
    pick_brief(&brief, &all, f);
    if (s->prometheus) {
        metrics_note(&s->metrics, "readable", true);
        metrics_note(&s->metrics, "clean", f->health == FILTER_CLEAN);
        report_metrics(&all, &s->metrics);
    } else if (s->json) {
        report_json(&all, stdout);
    } else {
        fputs(s->text_printed ? "\n" : "", stdout);
        report_text(s->all ? &all : &brief, stdout);
        s->text_printed = true;
    }
}

static void warn_of_figures(const struct figures *f)
{
    const char *name = f->store->name;
    char text[WRITER_WARNING];
    warn_unclean(f->store);
    if (f->damaged != 0)
        say_error("'%s' is damaged: %" PRIu64
                  " page%s not match the checksum, so figures from its bits "
                  "are unreliable; 'seen verify' names the pages",
                  name, f->damaged, f->damaged == 1 ? " does" : "s do");
    else if (!f->consistent)
        warn_disagreement(name, f->n_bits, f->n_counted);
    else if (format_grows(f->header) && f->all.fpr > writer_warn_fpr(f->header)) {
        writer_warn(f->header, name, f->all.fpr, text);
        say_warning("%s", text);
    }
}

static bool stats_of(struct stats *s, const char *path)
{
    struct figures f;
    struct err err;
    struct store *store = store_open(path, STORE_READ, &s->open, &err);
    if (store == NULL) {
        keyopt_advise_list(path, &err);
        return say_failure(&err);
    }
    bool ok = read_figures(&f, store, &s->keyopt);
    if (ok) {
        print_figures(s, &f);
        say_flush();
        warn_of_figures(&f);
    }
    store_close(store);
    return ok && f.damaged == 0;
}

static bool stats_of_each(struct stats *s, char **names, size_t n)
{
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        if (s->prometheus) {
            metrics_next(&s->metrics);
            metrics_note(&s->metrics, "readable", false);
        }
        ok = stats_of(s, names[i]) && ok;
    }
    return ok;
}

static bool metrics_of_each(struct stats *s, char **names, size_t n)
{
    struct err err;
    bool begun = metrics_begin(&s->metrics, names, n, &err) || say_failure(&err);
    bool ok = begun && stats_of_each(s, names, n);
    if (begun)
        metrics_print(&s->metrics, stdout);
    metrics_free(&s->metrics);
    return ok;
}

static int run(struct opt_parser *p)
{
    struct stats s = {.keyopt = KEYOPT_DEFAULT};
    if (!opt_parse(p, &s))
        return p->status;
    struct err err;
    size_t n = (size_t)p->n_operands;
    bool ok = output_is_none_of(p->operand, n, &err) || say_failure(&err);
    ok = ok && (s.prometheus ? metrics_of_each : stats_of_each)(&s, p->operand, n);
    keyopt_free(&s.keyopt);
    return ok ? 0 : EXIT_ERROR;
}

static const struct opt_hint hints[] = {
    {"-k", "'seen query FILTER -k KEY' asks for a key"},
    {"-v", "--all prints all figures"},
    {"--verbose", "--all prints all figures"},
    {0},
};

const struct command cmd_stats = {
    .name = "stats",
    .synopsis = "[OPTION]... FILTER...",
    .summary = "report the contents and false-positive rate of a filter",
    .examples = "  seen stats urls.seen                 how many keys, how full, how exact\n"
                "  seen stats --all urls.seen           all that is known\n"
                "  seen stats --json mon.seen tue.seen  an object for each\n",
    .details =
        "Prints the kind of a filter, its number of distinct keys, how full it is and its "
        "false-positive rate; with --all, everything. Design FPR: the rate that was asked for. "
        "Current FPR: the rate as it is now, computed from the bits. Each figure is marked exact, "
        "estimated (with a 95 % interval in parentheses) or recorded (stored in the file).",
    .groups = groups,
    .hints = hints,
    .operand = "FILTER",
    .least = 1,
    .run = run,
};

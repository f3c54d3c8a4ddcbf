/* seen stats: what is in a filter, how full it is, and its false-positive rate. */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/chi2.h"
#include "base/exact.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/say.h"
#include "cmd/cmd.h"
#include "cmd/keyopt.h"
#include "cmd/report.h"
#include "cmd/trial.h"
#include "cmd/redisopt.h"
#include "cmd/warn.h"
#include "keys/encode.h"
#include "keys/digest.h"
#include "keys/prep.h"
#include "store/chain.h"
#include "store/filter.h"
#include "store/foreign.h"
#include "store/redis/redis.h"
#include "store/store.h"

enum {
    OPT_JSON = 500,
    OPT_PROMETHEUS,
    OPT_MEASURE,
    OPT_NEGATIVES,
    OPT_SECRET,
    OPT_HEADER,
    OPT_CRLF,
    OPT_DIGESTED,
    OPT_SKIP_BAD,
};

static const struct opt own_opts[] = {
    {OPT_JSON, "json", NULL, "print one JSON object for each filter, each on a line", false, 0},
    {OPT_PROMETHEUS, "prometheus", NULL,
     "print metrics in the text format of Prometheus, for its textfile collector", false, 0},
    {OPT_MEASURE, "measure", "N",
     "query N random keys, and report the measured false-positive rate beside "
     "the computed one",
     false, 0},
    {OPT_NEGATIVES, "negatives", "FILE",
     "the same with keys from FILE (- is standard input) that were "
     "never added",
     false, 0},
    {OPT_SECRET, "secret", "FILE",
     "check that FILTER was made with this secret, and query with it (default: the file that "
     "SEEN_SECRET names)",
     false, 0},
    {'j', "threads", "N", "use N threads (default: the CPUs this process may use)", false, 0},
    {0},
};

static const struct opt negatives_opts[] = {
    {'0', "null", NULL, "records end with a NUL byte instead of a newline", false, 0},
    {'z', NULL, NULL, NULL, false, '0'},
    {'d', "delimiter", "C", "with -f: fields end with this one byte (default: TAB)", false, 0},
    {'w', "whitespace", NULL, "with -f: runs of blanks and tabs part fields", false, 0},
    {'f', "field", "N[,N]...",
     "the key is field N of the record, the first is 1, the last is -1; of several, in this order, "
     "with the delimiter between them, or a blank with -w",
     false, 0},
    {OPT_HEADER, "header", "N", "the first N records are no keys", false, 0},
    {OPT_CRLF, "crlf", NULL, "drop one CR before each newline", false, 0},
    {OPT_DIGESTED, "digested", NULL, "the key is its digest already, in hexadecimal digits", false,
     0},
    {OPT_SKIP_BAD, "skip-bad", NULL, "skip records that have no key", false, 0},
    {0},
};

static const struct opt_group groups[] = {
    {"Options", own_opts},
    {"How to read FILE (key preparation is taken from the filter)", negatives_opts},
    {"Filters in Redis", redisopt_connect},
    {0},
};

struct stats {
    struct keyopt keyopt;
    uint64_t measure;      /* random keys to ask; 0: none */
    char *negatives; /* or NULL */
    bool json, prometheus;
    struct metrics metrics; /* with `prometheus` */
};

static const struct field field_file = {"file", "file", FORM_TEXT, NULL, NULL};
static const struct field field_version = {"format version", "format_version", FORM_COUNT, NULL,
                                           NULL};
static const struct field field_kind = {"kind", "kind", FORM_TEXT, NULL, NULL};
static const struct field field_hash = {"hash", "hash", FORM_TEXT, NULL, NULL};
static const struct field field_seed = {"hash seed", "seed", FORM_TEXT, NULL, NULL};
static const struct field field_secret = {"secret", "secret", FORM_FLAG, NULL, NULL};
static const struct field field_secret_id = {"secret's identifier", "secret_id", FORM_TEXT, NULL,
                                             NULL};
static const struct field field_prep = {"key preparation", "preparation", FORM_TEXT, NULL, NULL};
static const struct field field_key_len = {"bytes of each key", "key_bytes", FORM_COUNT, NULL,
                                           NULL};
static const struct field field_encoding = {"key encoding", "encoding", FORM_TEXT, NULL, NULL};
static const struct field field_layout = {"layout", "layout", FORM_TEXT, NULL, NULL};
static const struct field field_shards = {"shards", "shards", FORM_COUNT, NULL, NULL};
static const struct field field_caveat = {"note", "caveat", FORM_TEXT, NULL, NULL};
static const struct field field_state = {"state", "state", FORM_TEXT, NULL, NULL};
static const struct field field_epoch = {"epoch", "epoch", FORM_COUNT, NULL, NULL};
static const struct field field_created = {"created", "created", FORM_TIME, NULL, NULL};
static const struct field field_changed = {"changed", "changed", FORM_TIME, NULL, NULL};
static const struct field field_damaged = {"damaged pages", "pages_damaged", FORM_COUNT, NULL,
                                           NULL};
static const struct field field_bytes = {"file size", "bytes", FORM_BYTES, NULL, NULL};

static const struct field field_policy = {"when full", "policy", FORM_TEXT, NULL, NULL};
static const struct field field_n_design = {"design capacity", "n_design", FORM_COUNT, NULL, NULL};
static const struct field field_records = {"records given", "records", FORM_COUNT, NULL, NULL};
static const struct field field_added = {"keys new when added", "keys_added", FORM_COUNT, NULL,
                                         NULL};
static const struct field field_dropped = {"keys wrongly dropped", "dropped_estimate", FORM_DECIMAL,
                                           NULL, NULL};
static const struct field field_n = {"distinct keys", "n_estimate", FORM_COUNT, "n_low", "n_high"};
static const struct field field_fingerprints = {"fingerprints", "fingerprints", FORM_COUNT, NULL,
                                                NULL};
static const struct field field_fingerprint = {"bits of a fingerprint", "fingerprint_bits",
                                               FORM_COUNT, NULL, NULL};
static const struct field field_total = {"sum of counts", "counts_total", FORM_COUNT, NULL, NULL};
static const struct field field_load = {"load", "load", FORM_PERCENT, NULL, NULL};
static const struct field field_load_all = {"load of all generations", "load_all", FORM_PERCENT,
                                            NULL, NULL};
static const struct field field_left = {"keys left", "keys_left", FORM_COUNT, NULL, NULL};
static const struct field field_half = {"keys until half full", "keys_until_half", FORM_COUNT, NULL,
                                        NULL};
static const struct field field_agree = {"counters agree with bits", "consistent", FORM_FLAG, NULL,
                                         NULL};

static const struct field field_fpr_design = {"design FPR", "fpr_design", FORM_FPR, NULL, NULL};
static const struct field field_fpr_now = {"current FPR", "fpr_current", FORM_FPR, NULL, NULL};
static const struct field field_fpr_formula = {"FPR by (c/m)^k", "fpr_formula", FORM_FPR, NULL,
                                               NULL};
static const struct field field_fpr_full = {"FPR at design capacity", "fpr_at_capacity", FORM_FPR,
                                            NULL, NULL};
static const struct field field_hash_floor = {"FPR of equal hashes", "fpr_hash", FORM_FPR, NULL,
                                              NULL};
static const struct field field_bits_per_key = {"bits a key", "bits_per_key", FORM_DECIMAL, NULL,
                                                NULL};
static const struct field field_overhead = {"above the least possible", "overhead", FORM_PERCENT,
                                            NULL, NULL};
static const struct field field_bits_set = {"bits set", "bits_set", FORM_PERCENT, NULL, NULL};
static const struct field field_line_min = {"bits in emptiest line", "line_min", FORM_COUNT, NULL,
                                            NULL};
static const struct field field_line_max = {"bits in fullest line", "line_max", FORM_COUNT, NULL,
                                            NULL};
static const struct field field_lines_full = {"full lines", "lines_full", FORM_COUNT, NULL, NULL};

static const struct field field_lines_chisq = {"chi-square of lines", "lines_chisq", FORM_DECIMAL,
                                              NULL, NULL};
static const struct field field_lines_freedom = {"degrees of freedom", "lines_freedom", FORM_COUNT,
                                                 NULL, NULL};
static const struct field field_lines_p = {"chance of such lines", "lines_p", FORM_FPR, NULL, NULL};
static const struct field field_line_max_p = {"chance of so full a line", "line_max_p", FORM_FPR,
                                              NULL, NULL};

static const struct field field_fpr_measured = {"measured FPR", "fpr_measured", FORM_FPR, "fpr_low",
                                                "fpr_high"};
static const struct field field_measured_keys = {"random keys asked", "measured_keys", FORM_COUNT,
                                                 NULL, NULL};
static const struct field field_measured_hits = {"random keys present", "measured_hits", FORM_COUNT,
                                                 NULL, NULL};
static const struct field field_measured_verdict = {"current FPR lies", "measured_verdict",
                                                    FORM_TEXT, NULL, NULL};
static const struct field field_fpr_negatives = {"measured FPR, negatives", "negatives_fpr",
                                                 FORM_FPR, "negatives_low", "negatives_high"};
static const struct field field_negatives_keys = {"negatives asked", "negatives_keys", FORM_COUNT,
                                                  NULL, NULL};
static const struct field field_negatives_hits = {"negatives present", "negatives_hits", FORM_COUNT,
                                                  NULL, NULL};
static const struct field field_negatives_verdict = {"current FPR lies, negatives",
                                                     "negatives_verdict",
                                                     FORM_TEXT, NULL, NULL};

static const struct field field_layer_kind = {"kind", "kind", FORM_TEXT, NULL, NULL};
static const struct field field_layer_bytes = {"size", "bytes", FORM_BYTES, NULL, NULL};
static const struct field field_layer_pages = {NULL, "pages", FORM_COUNT, NULL, NULL};
static const struct field field_layer_m = {"m", "m", FORM_COUNT, NULL, NULL};
static const struct field field_layer_k = {"k", "k", FORM_COUNT, NULL, NULL};
static const struct field field_layer_lines = {"lines", "lines", FORM_COUNT, NULL, NULL};
static const struct field field_layer_columns = {"columns", "columns", FORM_DECIMAL, NULL, NULL};
static const struct field field_layer_parts = {"partitions", "partitions", FORM_COUNT, NULL, NULL};
static const struct field field_layer_n_design = {"capacity", "n_design", FORM_COUNT, NULL, NULL};
static const struct field field_layer_fpr_design = {"design FPR", "fpr_design", FORM_FPR, NULL,
                                                    NULL};
static const struct field field_layer_n = {"keys", "n_estimate", FORM_COUNT, NULL, NULL};
static const struct field field_layer_bits = {"bits set", "bits_set", FORM_PERCENT, NULL, NULL};
static const struct field field_layer_load = {"load", "load", FORM_PERCENT, NULL, NULL};
static const struct field field_layer_generation = {"generation", "generation", FORM_COUNT, NULL,
                                                    NULL};
static const struct field field_layer_age = {"age, s", "age_seconds", FORM_COUNT, NULL, NULL};
static const struct field field_layer_fpr = {"FPR", "fpr_current", FORM_FPR, NULL, NULL};

/* Facts of a layout, at most. */
enum { FACTS = 8 };

/* What was found out about one filter. */
struct findings {
    struct store *store;
    const struct header *header;
    const struct filter *file; /* NULL: the store is none, and has no pages to be checked */
    unsigned shards; /* 1: it is whole */
    enum filter_health health;
    struct census all, layer[FORMAT_MAX_LAYERS];
    struct occupancy lines; /* of all layers that have any */
    double lines_p;         /* the chance that random keys leave them so; 1: nothing to compare */
    uint64_t damaged, unchecked; /* pages */
    struct trial random, negatives;
    bool counters_known;
    bool consistent; /* counters and bits; true if counters are unknown */
    double n_bits;   /* keys that the counters should have counted */
    /* Of another program's layout. */
    const struct layout *layout; /* NULL: none */
    char spec[LAYOUT_TEXT];
    struct layout_facts {
        unsigned n;
        struct field field[FACTS];
        char name[FACTS][NUM_TEXT], value[FACTS][NUM_TEXT];
    } facts;
};

/* Counters stand for what was added in sessions that ended well. */
static bool counters_known(const struct findings *found)
{
    return found->health == FILTER_CLEAN && !found->header->counters.unknown;
}

/* Reads all pages and bits. */
static bool read_bits(const struct stats *s, struct findings *found, struct err *err)
{
    struct facts facts;
    store_describe(found->store, &facts);
    found->shards = facts.n_shards > 1 ? facts.n_shards : 1;
    found->health = facts.is_writing ? FILTER_WRITING
                    : facts.is_dirty ? FILTER_DIRTY
                                     : FILTER_CLEAN;
    progress_begin("checking", false, false);
    if (found->file != NULL)
        found->damaged = filter_check_pages(found->file, s->keyopt.threads, &found->unchecked, NULL,
                                            NULL);
    progress_end();
    return store_census(found->store, s->keyopt.threads, found->layer, &found->all, err);
}

/* Header and bits are of one moment if no header was written while the bits were read. With writers
 * that come and go all the time that may never be so; then the file is one that is being written,
 * whose counters are not known. */
enum { TRIES = 5 };

static bool read_all(const struct stats *s, struct findings *found)
{
    struct err err;
    bool stable = false;
    for (int tries = 0; !stable && tries < TRIES; tries++) {
        if (tries > 0 && !store_refresh(found->store, &err))
            return say_failure(&err);
        if (!read_bits(s, found, &err))
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
    facts->field[i] =
        (struct field){facts->name[i], facts->name[i], FORM_TEXT, NULL, NULL};
    facts->n++;
}

/* What the filter is for another program. */
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

/* Are lines filled as random keys fill them? Layers are independent, so what each adds to
 * chi-square can be summed. */
static void compare_lines(const struct stats *s, struct findings *found)
{
    struct facts facts;
    bool any = false;
    store_describe(found->store, &facts);
    for (unsigned i = 0; i < found->header->n_layers; i++) {
        const struct layer *layer = &found->header->layers[i];
        struct occupancy one;
        if (layer->is_void || layer->kind->occupancy == NULL || facts.layers.data[i] == NULL)
            continue;
        layer->kind->occupancy(layer, facts.layers.data[i], s->keyopt.threads, &one);
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

/* Takes over how keys are hashed, if keys are to be asked, or a secret to be checked. */
static bool adopt_keys(struct stats *s, const struct findings *found)
{
    struct err err;
    if (s->measure == 0 && s->negatives == NULL && s->keyopt.secret_path == NULL)
        return true;
    s->keyopt.rule.prep = 0; /* that of the filter before */
    return keyopt_adopt(&s->keyopt, found->header, found->store->name, &err) || say_failure(&err);
}

static bool find_out(struct stats *s, struct store *store, struct findings *found)
{
    struct err none;
    *found = (struct findings){.store = store,
                               .header = store_header(store),
                               .file = store_file(store, &none)};
    if (!read_all(s, found))
        return false;
    find_layout(found);
    compare_lines(s, found);
    found->counters_known = counters_known(found);
    found->consistent = !found->counters_known ||
                        layers_counters_agree(found->header, found->layer, &found->n_bits);
    return adopt_keys(s, found) &&
           (s->measure == 0 || trial_random(store, &s->keyopt, s->measure, &found->random)) &&
           (s->negatives == NULL || trial_keys(store, &s->keyopt, s->negatives, &found->negatives));
}

static const char *health_name(enum filter_health health)
{
    switch (health) {
    case FILTER_CLEAN:
        return "clean";
    case FILTER_WRITING:
        return "writing";
    default:
        return "dirty";
    }
}

/* A figure of which 0 says that it is not known. */
static void report_known(struct report *r, const struct field *field, enum source source,
                         uint64_t value)
{
    if (value != 0)
        report_uint(r, field, source, value);
    else
        report_unknown(r, field);
}

/* The options that prepare keys so. `text` holds the longest, "--trim --ignore-case --digest
 * sha256". */
enum { PREP_TEXT = 64 };

static const char *prep_text(uint32_t prep, char *text)
{
    const struct digest *d = digest_by_id(prep_digest(prep));
    snprintf(text, PREP_TEXT, "%s%s%s%s%s", prep & PREP_TRIM ? " --trim" : "",
             prep & PREP_FOLD ? " --ignore-case" : "", prep & PREP_HEX ? " --hex" : "",
             d != NULL ? " --digest " : "", d != NULL ? d->name : "");
    return text[0] != '\0' ? text + 1 : "none";
}

static void report_file(struct report *r, const struct findings *found)
{
    static char seed[NUM_TEXT], secret_id[SECRET_ID_TEXT], prep[PREP_TEXT];
    const struct header *h = found->header;
    const struct encoding *encoding = encoding_by_id(prep_encoding(h->prep));
    snprintf(seed, sizeof seed, "0x%016" PRIx64, h->seed);
    report_string(r, &field_file, EXACT, found->store->name);
    if (found->file != NULL)
        report_uint(r, &field_version, RECORDED, FORMAT_VERSION);
    else
        report_unknown(r, &field_version);
    report_string(r, &field_kind, RECORDED, format_kind_name(h));
    if (found->layout != NULL)
        report_string(r, &field_layout, RECORDED, found->spec);
    if (found->shards > 1)
        report_uint(r, &field_shards, EXACT, found->shards);
    for (unsigned i = 0; i < found->facts.n; i++)
        report_string(r, &found->facts.field[i], RECORDED, found->facts.value[i]);
    report_string(r, &field_hash, RECORDED, h->hash->name);
    report_string(r, &field_seed, RECORDED, seed);
    report_flag(r, &field_secret, RECORDED, format_has_secret(h));
    secret_id_text(&h->secret, secret_id);
    report_string(r, &field_secret_id, RECORDED, format_has_secret(h) ? secret_id : NULL);
    report_string(r, &field_prep, RECORDED, prep_text(h->prep, prep));
    if ((h->prep & PREP_HEX) != 0)
        report_known(r, &field_key_len, RECORDED, format_key_len(h));
    report_string(r, &field_encoding, RECORDED, encoding != NULL ? encoding->name : "none");
    report_string(r, &field_state, EXACT, health_name(found->health));
    report_known(r, &field_epoch, RECORDED, found->file != NULL ? h->epoch : 0);
    report_known(r, &field_created, RECORDED, h->created);
    report_known(r, &field_changed, RECORDED, h->changed);
    if (found->health == FILTER_CLEAN && found->file != NULL)
        report_uint(r, &field_damaged, EXACT, found->damaged);
    else
        report_unknown(r, &field_damaged);
    report_uint(r, &field_bytes, EXACT, h->file_len);
}

/* Keys that a layer takes until its FPR is `limit`, which is now `fpr`. */
static double keys_until(const struct layer *layer, double limit, double fpr)
{
    return fpr < limit ? layer_n_at(layer, limit) - layer_n_at(layer, fpr) : 0;
}

/* Is a figure of the design recorded, or taken from m and k? */
static enum source design_source(const struct header *h)
{
    return (h->compat & COMPAT_ASSUMED) != 0 ? ASSUMED : RECORDED;
}

/* Other programs' filters are commonly rebuilt when half of the bits are set. */
static void report_half(struct report *r, const struct findings *found)
{
    const struct layer *layer = &found->header->layers[0];
    double k = layer->kind->shape(layer).k;
    if (found->layout == NULL || found->header->n_layers != 1 || k == 0)
        return;
    double half = exp(-M_LN2 * k); /* the FPR at which half of the bits are set: 2^-k */
    report_number(r, &field_half, ESTIMATED,
                  fmax(0, layer_n_at(layer, half) * found->shards - found->all.n));
}

/* What was counted of the keys. Other programs count those that changed a bit, some of them. */
static void report_counters(struct report *r, const struct findings *found)
{
    const struct counters *c = &found->header->counters;
    bool counted =
        found->layout != NULL && found->layout->counts && found->health == FILTER_CLEAN;
    if (found->counters_known)
        report_uint(r, &field_records, RECORDED, c->records);
    else
        report_unknown(r, &field_records);
    if (found->counters_known || counted)
        report_uint(r, &field_added, RECORDED, c->keys_added);
    else
        report_unknown(r, &field_added);
    if (found->counters_known)
        report_number(r, &field_dropped, ESTIMATED, c->dropped);
    else
        report_unknown(r, &field_dropped);
    if (found->counters_known && isfinite(found->n_bits))
        report_flag(r, &field_agree, EXACT, found->consistent);
    else
        report_unknown(r, &field_agree);
}

/* Kinds that count have a fingerprint of each key. */
static void report_fingerprints(struct report *r, const struct layer *layer)
{
    struct shape shape = layer->kind->shape(layer);
    if (layer->kind->counts == NULL)
        return;
    report_uint(r, &field_total, EXACT, shape.total);
    report_uint(r, &field_fingerprints, EXACT, shape.fingerprints);
    report_uint(r, &field_fingerprint, RECORDED, shape.fingerprint);
}

/* A ring is as full as the generation that takes keys: what the others have room for is lost. */
static void report_load(struct report *r, const struct findings *found, enum source source)
{
    const struct header *h = found->header;
    const struct census *all = &found->all;
    double room = 0;
    if (h->policy != POLICY_RING) {
        room = (double)h->n_design * found->shards;
        report_number(r, &field_load, source, room != 0 ? all->n / room : NAN);
        return;
    }
    unsigned newest = chain_newest(h);
    for (unsigned i = 0; i < h->n_layers; i++)
        room += (double)h->layers[i].n_design;
    report_number(r, &field_load, source,
                  found->layer[newest].n / (double)h->layers[newest].n_design);
    report_number(r, &field_load_all, source, all->n / room);
}

/* Keys that the filter takes until its FPR reaches that of its design. */
static void report_left(struct report *r, const struct findings *found)
{
    const struct header *h = found->header;
    unsigned at = h->policy == POLICY_RING ? chain_newest(h) : 0;
    const struct layer *layer = &h->layers[at];
    double fpr = found->layer[at].fpr, all = found->all.fpr;
    bool immutable = format_is_immutable(h) && layer->kind->counts == NULL;
    bool one = h->policy == POLICY_RING || (h->policy == POLICY_FIXED && h->n_layers == 1);
    if (immutable || !one || h->n_design == 0) {
        report_unknown(r, &field_left);
        return;
    }
    /* The layer's share of the design FPR: what a key misses in it, it misses in the others with a
     * chance of (1 - all) / (1 - fpr). */
    double limit = h->n_layers == 1 ? h->fpr_design
                                    : 1 - (1 - h->fpr_design) * (1 - fpr) / (1 - all);
    report_number(r, &field_left, ESTIMATED,
                  all < h->fpr_design ? keys_until(layer, limit, fpr) * found->shards : 0);
}

static void report_keys(struct report *r, const struct findings *found)
{
    const struct header *h = found->header;
    const struct census *all = &found->all;
    enum source source = all->n_exact ? EXACT : ESTIMATED;
    static const char *const policies[] = {"FPR rises", "grows", "rotates"};
    bool immutable = format_is_immutable(h) && h->layers[0].kind->counts == NULL;
    report_range(r, &field_n, source, all->n, all->n_low, all->n_high);
    report_fingerprints(r, &h->layers[0]);
    report_string(r, &field_policy, RECORDED, immutable ? "immutable" : policies[h->policy]);
    report_known(r, &field_n_design, design_source(h), h->n_design * found->shards);
    report_load(r, found, source);
    report_left(r, found);
    report_half(r, found);
    report_counters(r, found);
}

static void report_fpr(struct report *r, const struct findings *found)
{
    const struct header *h = found->header;
    const struct layer *layer = &h->layers[0];
    report_number(r, &field_fpr_design, design_source(h), h->fpr_design);
    /* What generations report that share keys is found out by a sample. */
    bool sampled = h->policy == POLICY_RING || layer->kind->sampled_fpr != NULL;
    report_number(r, &field_fpr_now, sampled ? ESTIMATED : EXACT, found->all.fpr);
    if (layer->kind->sampled_fpr != NULL)
        report_number(r, &field_fpr_formula, EXACT, found->layer[0].fpr);
    if (h->n_layers == 1 && layer->n_design != 0)
        report_number(r, &field_fpr_full, EXACT,
                      layer->kind->fpr_at(layer, (double)layer->n_design));
    else
        report_unknown(r, &field_fpr_full);
    report_number(r, &field_hash_floor, ESTIMATED, found->all.n * 0x1p-64);
}

static void report_space(struct report *r, const struct findings *found)
{
    const struct census *all = &found->all;
    double bits = 8 * (double)found->header->file_len;
    double needed = all->fpr > 0 ? all->n * -exact_log(all->fpr) / exact_log(2) : 0;
    enum source source = all->n_exact ? EXACT : ESTIMATED;
    if (all->n > 0)
        report_number(r, &field_bits_per_key, source, bits / all->n);
    else
        report_unknown(r, &field_bits_per_key);
    if (needed > 0)
        report_number(r, &field_overhead, source, bits / needed - 1);
    else
        report_unknown(r, &field_overhead);
    if (all->bits > 0)
        report_number(r, &field_bits_set, EXACT, all->bits_set);
    if (all->lines == 0)
        return;
    report_uint(r, &field_line_min, EXACT, all->line_min);
    report_uint(r, &field_line_max, EXACT, all->line_max);
    report_uint(r, &field_lines_full, EXACT, all->lines_full);
    bool compared = found->lines.freedom > 0;
    report_number(r, &field_lines_chisq, EXACT, compared ? found->lines.chi2 : NAN);
    report_known(r, &field_lines_freedom, EXACT, found->lines.freedom);
    report_number(r, &field_lines_p, EXACT, compared ? found->lines_p : NAN);
    report_number(r, &field_line_max_p, EXACT, found->lines.fullest);
}

struct trial_fields {
    const struct field *fpr, *keys, *hits, *verdict;
};

static void report_trial(struct report *r, const struct trial_fields *fields,
                         const struct trial *trial, double fpr)
{
    double low, high;
    trial_interval(trial, &low, &high);
    report_range(r, fields->fpr, ESTIMATED, (double)trial->hits / (double)trial->keys, low, high);
    report_uint(r, fields->keys, EXACT, trial->keys);
    report_uint(r, fields->hits, EXACT, trial->hits);
    report_string(r, fields->verdict, ESTIMATED,
                  fpr < low    ? "below the interval"
                  : fpr > high ? "above the interval"
                               : "within the interval");
}

static void report_trials(struct report *r, const struct stats *s, const struct findings *found)
{
    static const struct trial_fields random = {&field_fpr_measured, &field_measured_keys,
                                               &field_measured_hits, &field_measured_verdict};
    static const struct trial_fields own = {&field_fpr_negatives, &field_negatives_keys,
                                            &field_negatives_hits, &field_negatives_verdict};
    if (s->measure != 0)
        report_trial(r, &random, &found->random, found->all.fpr);
    if (s->negatives != NULL)
        report_trial(r, &own, &found->negatives, found->all.fpr);
}

static void report_shape(struct report *r, const struct shape *shape)
{
    if (shape->pages != 0)
        report_uint(r, &field_layer_pages, RECORDED, shape->pages);
    if (shape->m != 0)
        report_uint(r, &field_layer_m, RECORDED, shape->m);
    if (shape->k != 0)
        report_uint(r, &field_layer_k, RECORDED, shape->k);
    if (shape->lines != 0)
        report_uint(r, &field_layer_lines, RECORDED, shape->lines);
    if (shape->columns != 0)
        report_number(r, &field_layer_columns, RECORDED, shape->columns);
    if (shape->partitions != 0)
        report_uint(r, &field_layer_parts, RECORDED, shape->partitions);
}

static void report_layer(struct report *r, const struct layer *layer, const struct census *census,
                         enum policy policy)
{
    uint64_t now = (uint64_t)time(NULL);
    struct shape shape = layer->kind->shape(layer);
    double load = layer->n_design != 0 ? census->n / (double)layer->n_design : NAN;
    report_string(r, &field_layer_kind, RECORDED, layer->kind->name);
    report_uint(r, &field_layer_bytes, RECORDED, layer->data_len);
    report_shape(r, &shape);
    report_known(r, &field_layer_n_design, RECORDED, layer->n_design);
    report_number(r, &field_layer_fpr_design, RECORDED, layer->fpr_design);
    report_number(r, &field_layer_n, ESTIMATED, census->n);
    if (layer->kind->layout != NULL)
        report_number(r, &field_layer_bits, EXACT, census->bits_set);
    report_number(r, &field_layer_load, ESTIMATED, load);
    report_number(r, &field_layer_fpr, EXACT, census->fpr);
    if (policy != POLICY_FIXED)
        report_uint(r, &field_layer_generation, RECORDED, layer->generation);
    else
        report_unknown(r, &field_layer_generation);
    if (layer->since != 0 && layer->since <= now)
        report_uint(r, &field_layer_age, EXACT, now - layer->since);
    else
        report_unknown(r, &field_layer_age);
}

static void report_layers(struct report *r, const struct findings *found)
{
    const struct header *h = found->header;
    report_list(r, "layers");
    for (unsigned i = 0; i < h->n_layers; i++) {
        report_item(r, "layer", i);
        report_layer(r, &h->layers[i], &found->layer[i], h->policy);
        report_item_end(r);
    }
    report_list_end(r);
}

static void report_all(struct stats *s, const struct findings *found)
{
    struct report r;
    if (s->prometheus) {
        report_begin_metrics(&r, &s->metrics);
        metrics_note(&s->metrics, "clean", found->health == FILTER_CLEAN);
    } else {
        report_begin(&r, s->json, stdout);
    }
    report_file(&r, found);
    report_keys(&r, found);
    report_fpr(&r, found);
    report_space(&r, found);
    report_trials(&r, s, found);
    if (found->layout != NULL && found->layout->caveat != NULL)
        report_string(&r, &field_caveat, EXACT, found->layout->caveat);
    report_layers(&r, found);
    report_end(&r);
}

/* Filters of which nobody chose the keys are taken for polluted so seldom. */
static const double ALARM = 1e-6;

static void warn(const struct findings *found)
{
    const char *name = found->store->name;
    char bits[NUM_TEXT], counted[NUM_TEXT];
    warn_unclean(found->store);
    if (found->damaged != 0)
        say_error("'%s' is damaged: %" PRIu64
                  " page%s not match the checksum, so figures from its bits "
                  "are unreliable; 'seen verify' names the pages",
                  name, found->damaged, found->damaged == 1 ? " does" : "s do");
    else if (!found->consistent)
        say_warning(
            "'%s': its bits hold %s keys, but %s were counted: bits are damaged, or keys were "
            "hashed in another way",
            name, num_show_count(bits, found->n_bits),
            num_show_count(counted, found->header->counters.n_keys));
    else if (found->lines_p < ALARM || found->lines.fullest < ALARM)
        say_warning(
            "'%s': random keys fill its lines like this with a probability of %.1g: keys were "
            "chosen to fill it, or bits were set or cleared by other means",
            name, fmin(found->lines_p, found->lines.fullest));
}

static bool stats_of(struct stats *s, const char *path)
{
    struct findings found;
    struct err err;
    struct store *store = store_open(path, STORE_READ, &err);
    if (store == NULL)
        return say_failure(&err);
    bool ok = find_out(s, store, &found);
    if (ok) {
        if (s->prometheus)
            metrics_note(&s->metrics, "readable", true);
        report_all(s, &found);
        say_flush();
        warn(&found);
    }
    store_close(store);
    return ok && found.damaged == 0;
}

static bool stats_of_each(struct stats *s, char **names, size_t n)
{
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && !s->json)
            putchar('\n');
        ok = stats_of(s, names[i]) && ok;
    }
    return ok;
}

static bool metrics_of_each(struct stats *s, char **names, size_t n)
{
    struct err err;
    struct metrics *m = &s->metrics;
    bool ok = metrics_begin(m, names, n, &err) || say_failure(&err);
    bool begun = ok;
    for (size_t i = 0; begun && i < n; i++) {
        metrics_next(m);
        metrics_note(m, "readable", false);
        ok = stats_of(s, names[i]) && ok;
    }
    if (begun)
        metrics_print(m, stdout);
    metrics_free(m);
    return ok;
}

static bool take_option(struct stats *s, struct opt_parser *p, int id)
{
    switch (id) {
    case OPT_JSON:
        return s->json = true;
    case OPT_PROMETHEUS:
        return s->prometheus = true;
    case OPT_MEASURE:
        if (!opt_count(p, &s->measure))
            return false;
        if (s->measure > 0)
            return true;
        opt_misuse(p->command, "option '%s': 0 keys measure nothing", p->name);
        return false;
    case OPT_NEGATIVES:
        s->negatives = p->value;
        return true;
    case OPT_SECRET:
        s->keyopt.secret_path = p->value;
        return true;
    case OPT_HEADER:
        return opt_count(p, &s->keyopt.header);
    case OPT_CRLF:
        return s->keyopt.rule.crlf = true;
    case OPT_DIGESTED:
        return s->keyopt.rule.digested = true;
    case OPT_SKIP_BAD:
        return s->keyopt.rule.skip_bad = true;
    default:
        return redisopt_is(id) ? redisopt_take(p, id) : keyopt_take(&s->keyopt, p, id);
    }
}

static int run(int argc, char **argv)
{
    struct stats s = {.keyopt = KEYOPT_DEFAULT};
    struct opt_parser p;
    int id;
    opt_begin(&p, &cmd_stats, argc, argv);
    while ((id = opt_next(&p)) > 0)
        if (!take_option(&s, &p, id))
            return EXIT_ERROR;
    if (id < 0)
        return p.status;
    if (p.first == argc)
        return opt_misuse(&cmd_stats, "no FILTER given");
    if (s.json && s.prometheus)
        return opt_misuse(&cmd_stats, "only one of --json and --prometheus");
    if (s.negatives != NULL && strcmp(s.negatives, "-") == 0 && argc - p.first > 1)
        return opt_misuse(&cmd_stats, "standard input can be read only once, for one FILTER");
    char *files[] = {s.negatives};
    if (!keyopt_files(&s.keyopt, &cmd_stats, files, s.negatives != NULL))
        return EXIT_ERROR;
    bool ok = (s.prometheus ? metrics_of_each : stats_of_each)(&s, argv + p.first,
                                                                (size_t)(argc - p.first));
    keyopt_free(&s.keyopt);
    return ok ? 0 : EXIT_ERROR;
}

const struct command cmd_stats = {
    .name = "stats",
    .synopsis = "[OPTION]... FILTER...",
    .summary = "report the contents and false-positive rate of a filter",
    .details =
        "Prints what a filter is, the number of distinct keys in it, estimated from its bits, and "
        "its false-positive rate. The design FPR was promised at design capacity, the current FPR "
        "is computed from the present bits, and the measured FPR is the result of a test with keys "
        "that were never added. Each figure is marked exact, estimated (with a 95 % interval in "
        "parentheses), or recorded in the file when it happened.",
    .groups = groups,
    .run = run,
};

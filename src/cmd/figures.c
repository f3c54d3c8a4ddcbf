#include "cmd/figures.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/exact.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/say.h"
#include "keys/digest.h"
#include "keys/encode.h"
#include "keys/prep.h"
#include "store/chain.h"
#include "store/foreign.h"
#include "store/secret.h"

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
static const struct field field_reading = {"keys from", "keys_from", FORM_TEXT, NULL, NULL};
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
static const struct field field_generations = {"generations", "generations", FORM_COUNT, NULL,
                                               NULL};
static const struct field field_n_design = {"design capacity", "n_design", FORM_COUNT, NULL, NULL};
static const struct field field_records = {"records given", "records", FORM_COUNT, NULL, NULL};
static const struct field field_added = {"keys new when added", "keys_added", FORM_COUNT, NULL,
                                         NULL};
static const struct field field_dropped = {"keys wrongly dropped", "dropped_estimate", FORM_DECIMAL,
                                           NULL, NULL};
static const struct field field_dropped_least = {NULL, "dropped_at_least", FORM_FLAG, NULL, NULL};
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

/* Reports a figure, or that it is unknown if its value is 0. */
static void report_known(struct report *r, const struct field *field, enum source source,
                         uint64_t value)
{
    if (value != 0)
        report_uint(r, field, source, value);
    else
        report_unknown(r, field);
}

/* Room for the options of any key preparation. The longest are "--trim --ignore-case --digest
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

static void report_prep(struct report *r, const struct header *h)
{
    static char prep[PREP_TEXT];
    report_string(r, &field_prep, RECORDED, prep_text(h->prep, prep));
}

static void report_encoding(struct report *r, const struct header *h)
{
    const struct encoding *encoding = encoding_by_id(prep_encoding(h->prep));
    report_string(r, &field_encoding, RECORDED, encoding != NULL ? encoding->name : "none");
}

static void report_file(struct report *r, const struct findings *found)
{
    static char seed[NUM_TEXT], secret_id[SECRET_ID_TEXT], reading[READING_TEXT];
    const struct header *h = found->header;
    snprintf(seed, sizeof seed, "0x%016" PRIx64, h->seed);
    report_string(r, &field_file, EXACT, found->store->name);
    if (found->is_file)
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
    report_prep(r, h);
    report_string(r, &field_reading, RECORDED,
                  (h->reading.how & READING_KNOWN) != 0 ? reading_show(&h->reading, reading)
                                                        : NULL);
    if ((h->prep & PREP_HEX) != 0)
        report_known(r, &field_key_len, RECORDED, format_key_len(h));
    report_encoding(r, h);
    report_string(r, &field_state, EXACT, health_name(found->health));
    report_known(r, &field_epoch, RECORDED, found->is_file ? h->epoch : 0);
    report_known(r, &field_created, RECORDED, h->created);
    report_known(r, &field_changed, RECORDED, h->changed);
    if (found->health == FILTER_CLEAN && found->is_file)
        report_uint(r, &field_damaged, EXACT, found->damaged);
    else
        report_unknown(r, &field_damaged);
    report_uint(r, &field_bytes, EXACT, h->file_len);
}

/* Keys that a layer takes until its FPR rises from `fpr`, its value now, to `limit`. */
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
    double left = layer_n_at(layer, half) * found->shards - found->all.n;
    report_number(r, &field_half, ESTIMATED, left < 0 ? 0 : left);
}

/* The counters of keys. Some other programs count the keys that changed a bit. */
static void report_counters(struct report *r, const struct findings *found)
{
    const struct counters *c = &found->header->counters;
    bool counted = found->layout != NULL && found->layout->counts && found->health == FILTER_CLEAN;
    if (found->counters_known)
        report_uint(r, &field_records, RECORDED, c->records);
    else
        report_unknown(r, &field_records);
    if (found->counters_known || counted)
        report_uint(r, &field_added, RECORDED, c->keys_added);
    else
        report_unknown(r, &field_added);
    if (found->counters_known) {
        bool at_least;
        double dropped = layers_dropped(c, &found->all, &at_least);
        report_range(r, &field_dropped, ESTIMATED, dropped, dropped, at_least ? INFINITY : dropped);
        report_flag(r, &field_dropped_least, ESTIMATED, at_least);
    } else {
        report_unknown(r, &field_dropped);
        report_unknown(r, &field_dropped_least);
    }
    if (found->counters_known && isfinite(found->n_bits))
        report_flag(r, &field_agree, EXACT, found->consistent);
    else
        report_unknown(r, &field_agree);
}

static bool is_rough(const struct findings *found)
{
    return layout_caveat(found->header->layers[0].kind) != NULL;
}

/* A rough estimate has no interval, and gives no bound. */
static void report_n(struct report *r, const struct findings *found)
{
    const struct census *all = &found->all;
    bool rough = is_rough(found) && !all->n_at_least;
    report_range(r, &field_n, all->n_exact ? EXACT : ESTIMATED, all->n, rough ? NAN : all->n_low,
                 rough ? NAN : all->n_high);
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

static bool is_immutable(const struct header *h)
{
    return format_is_immutable(h) && h->layers[0].kind->counts == NULL;
}

static double load_of_newest(const struct findings *found)
{
    unsigned newest = chain_newest(found->header);
    uint64_t room = found->header->layers[newest].n_design;
    return room != 0 ? found->layer[newest].n / (double)room : NAN;
}

static double load_of_all(const struct findings *found, double room)
{
    return room != 0 ? found->all.n / room : NAN;
}

/* The load of a ring is that of its newest generation. The others take no more keys, even if they
 * have room. */
static void report_load(struct report *r, const struct findings *found, enum source source)
{
    const struct header *h = found->header;
    double room = 0;
    if (h->policy != POLICY_RING) {
        room = (double)h->n_design * found->shards;
        report_number(r, &field_load, source, load_of_all(found, room));
        return;
    }
    for (unsigned i = 0; i < h->n_layers; i++)
        room += (double)h->layers[i].n_design;
    report_number(r, &field_load, source, load_of_newest(found));
    report_number(r, &field_load_all, source, load_of_all(found, room));
}

/* Keys that the filter takes until its FPR reaches the design FPR. In a filter that is nearly full,
 * the error of a rough estimate would be larger than they are. */
static void report_left(struct report *r, const struct findings *found)
{
    const struct header *h = found->header;
    unsigned at = h->policy == POLICY_RING ? chain_newest(h) : 0;
    const struct layer *layer = &h->layers[at];
    double fpr = found->layer[at].fpr, all = found->all.fpr;
    bool one = h->policy == POLICY_RING || (h->policy == POLICY_FIXED && h->n_layers == 1);
    if (is_immutable(h) || !one || h->n_design == 0 || is_rough(found)) {
        report_unknown(r, &field_left);
        return;
    }
    /* The layer's FPR when the filter reaches the design FPR. All other layers together report an
     * absent key absent with probability (1 - all) / (1 - fpr). */
    double limit =
        h->n_layers == 1 ? h->fpr_design : 1 - (1 - h->fpr_design) * (1 - fpr) / (1 - all);
    report_number(r, &field_left, ESTIMATED,
                  all < h->fpr_design ? keys_until(layer, limit, fpr) * found->shards : 0);
}

static void report_keys(struct report *r, const struct findings *found)
{
    const struct header *h = found->header;
    const struct census *all = &found->all;
    enum source source = all->n_exact ? EXACT : ESTIMATED;
    static const char *const policies[] = {"FPR rises", "grows", "rotates", "grows"};
    report_n(r, found);
    report_fingerprints(r, &h->layers[0]);
    report_string(r, &field_policy, RECORDED, is_immutable(h) ? "immutable" : policies[h->policy]);
    report_known(r, &field_generations, RECORDED, chain_generations(h));
    report_known(r, &field_n_design, design_source(h), h->n_design * found->shards);
    report_load(r, found, source);
    report_left(r, found);
    report_half(r, found);
    report_counters(r, found);
}

/* Generations may share keys, so the FPR of a ring is only a bound. In some layouts, the FPR is
 * measured with a sample. */
static void report_fpr_now(struct report *r, const struct findings *found)
{
    const struct header *h = found->header;
    bool sampled = format_forgets(h) || h->layers[0].kind->sampled_fpr != NULL;
    report_number(r, &field_fpr_now, sampled ? ESTIMATED : EXACT, found->all.fpr);
}

static void report_fpr(struct report *r, const struct findings *found)
{
    const struct header *h = found->header;
    const struct layer *layer = &h->layers[0];
    report_number(r, &field_fpr_design, design_source(h), h->fpr_design);
    report_fpr_now(r, found);
    if (layer->kind->sampled_fpr != NULL)
        report_number(r, &field_fpr_formula, EXACT, found->layer[0].fpr);
    if (h->n_layers == 1 && layer->n_design != 0 && layer->kind->sampled_fpr == NULL)
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

static void report_layer(struct report *r, const struct header *h, const struct layer *layer,
                         const struct census *census)
{
    uint64_t now = format_now();
    struct shape shape = layer->kind->shape(layer);
    double n = (h->compat & (COMPAT_INTERSECTED | COMPAT_SUBTRACTED)) != 0 ? NAN : census->n;
    double load = layer->n_design != 0 ? n / (double)layer->n_design : NAN;
    report_string(r, &field_layer_kind, RECORDED, layer->kind->name);
    report_uint(r, &field_layer_bytes, RECORDED, layer->data_len);
    report_shape(r, &shape);
    report_known(r, &field_layer_n_design, RECORDED, layer->n_design);
    report_number(r, &field_layer_fpr_design, RECORDED, layer->fpr_design);
    report_number(r, &field_layer_n, ESTIMATED, n);
    if (layer->kind->layout != NULL)
        report_number(r, &field_layer_bits, EXACT, census->bits_set);
    report_number(r, &field_layer_load, ESTIMATED, load);
    report_number(r, &field_layer_fpr, EXACT, census->fpr);
    if (h->policy != POLICY_FIXED)
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
        report_layer(r, h, &h->layers[i], &found->layer[i]);
        report_item_end(r);
    }
    report_list_end(r);
}

static void report_caveat(struct report *r, const struct findings *found)
{
    if (is_rough(found))
        report_string(r, &field_caveat, EXACT, layout_caveat(found->header->layers[0].kind));
}

/* How full it is, and what happens then. */
static void brief_load(struct report *r, const struct findings *found)
{
    const struct header *h = found->header;
    enum source source = found->all.n_exact ? EXACT : ESTIMATED;
    if (h->policy == POLICY_FIXED) {
        double load = load_of_all(found, (double)h->n_design * found->shards);
        report_number(r, &field_load, source, load);
        report_append(r, is_immutable(h) ? ", takes no more keys" : ", FPR rises when full");
        return;
    }
    report_number(r, &field_load, source, load_of_newest(found));
    if (h->policy == POLICY_RING)
        report_append(r, " of the newest generation");
    else
        report_append(r, "%s, grows when full", h->n_layers > 1 ? " of the newest layer" : "");
}

/* What is not as usual. */
static void brief_unusual(struct report *r, const struct findings *found)
{
    const struct header *h = found->header;
    if ((h->prep & ~(uint32_t)PREP_ENCODING) != 0)
        report_prep(r, h);
    if (prep_encoding(h->prep) != 0)
        report_encoding(r, h);
    if (format_has_secret(h))
        report_flag(r, &field_secret, RECORDED, true);
    if (found->health != FILTER_CLEAN)
        report_string(r, &field_state, EXACT, health_name(found->health));
    report_caveat(r, found);
}

void figures_brief(struct report *r, const struct findings *found)
{
    const struct header *h = found->header;
    const struct census *all = &found->all;
    report_string(r, &field_file, EXACT, found->store->name);
    if (found->layout != NULL)
        report_string(r, &field_layout, RECORDED, found->spec);
    else
        report_string(r, &field_kind, RECORDED, format_kind_name(h));
    if (found->shards > 1)
        report_uint(r, &field_shards, EXACT, found->shards);
    report_n(r, found);
    if (format_forgets(h))
        report_uint(r, &field_generations, RECORDED, chain_generations(h));
    if (h->n_design != 0)
        report_uint(r, &field_n_design, design_source(h), h->n_design * found->shards);
    if (h->n_design != 0 || h->policy != POLICY_FIXED)
        brief_load(r, found);
    report_fpr_now(r, found);
    report_number(r, &field_fpr_design, design_source(h), h->fpr_design);
    report_uint(r, &field_bytes, EXACT, h->file_len);
    if (all->n > 0)
        report_append(r, ", %.2f bits a key", 8 * (double)h->file_len / all->n);
    brief_unusual(r, found);
}

void figures_report(struct report *r, const struct findings *found)
{
    report_file(r, found);
    report_keys(r, found);
    report_fpr(r, found);
    report_space(r, found);
    report_caveat(r, found);
    report_layers(r, found);
}

/* ---- Finding out. */

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
    layout_show(&filter, found->spec, sizeof found->spec);
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

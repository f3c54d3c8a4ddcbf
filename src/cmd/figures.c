/* SPDX-License-Identifier: MIT */
#include "cmd/figures.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/progress.h"
#include "base/say.h"
#include "keys/digest.h"
#include "keys/prep.h"
#include "foreign/foreign.h"

/* Reads all pages and bits. */
static bool read_census(unsigned threads, struct figures *f, struct err *err)
{
    struct facts facts;
    store_describe(f->store, &facts);
    f->shards = facts.n_shards > 1 ? facts.n_shards : 1;
    f->is_file = f->store->file != NULL;
    if (f->is_file) {
        uint64_t unchecked;
        f->health = filter_health(f->store->file);
        progress_begin("checking", false, false);
        f->damaged = filter_check_pages(f->store->file, threads, &unchecked, NULL, NULL);
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
        bool ok = store_enter(f->store, SIZE_MAX, &err);
        stable = tries > 0 && f->header->epoch == epoch;
        epoch = f->header->epoch;
        ok = ok && (stable || read_census(threads, f, &err));
        if (!store_leave(f->store, ok, &err))
            return say_failure(&err);
    }
    if (!stable)
        f->health = FILTER_WRITING;
    if (stable || f->damaged == 0)
        return true;
    say_error("'%s' kept changing while it was read", f->store->name);
    return false;
}

static void note_fact(void *ctx, const char *name, const char *value)
{
    struct figures *f = ctx;
    if (f->n_facts == FIGURES_FACTS)
        return;
    snprintf(f->fact[f->n_facts].name, NUM_TEXT, "%s", name);
    snprintf(f->fact[f->n_facts++].value, NUM_TEXT, "%s", value);
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
        f->layout->facts(&filter, note_fact, f);
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
}

static bool check_secret(struct keyopt *keyopt, const struct figures *f)
{
    struct err err;
    if (keyopt->secret_path == NULL)
        return true;
    keyopt->rule.prep = 0; /* forget that of the previous filter */
    return keyopt_adopt(keyopt, f->header, f->store->name, &err) || say_failure(&err);
}

bool figures_read(struct figures *f, struct store *store, struct keyopt *keyopt)
{
    *f = (struct figures){.store = store, .header = store->header};
    if (!read_every_bit(keyopt->threads, f))
        return false;
    find_layout(f);
    choose_keys(f);
    f->counters_known = f->health == FILTER_CLEAN && f->is_file;
    f->n_bits = f->n_counted = NAN;
    f->consistent =
        !f->counters_known ||
        layers_counters_agree(f->header, &f->header->counters, f->layer, &f->n_bits, &f->n_counted);
    return check_secret(keyopt, f);
}

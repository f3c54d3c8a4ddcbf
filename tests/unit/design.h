/* SPDX-License-Identifier: MIT */
/* New filters of a layout, and what becomes of a key in them. */
#ifndef DESIGN_H
#define DESIGN_H

#include "check.h"
#include "foreign/layout.h"

/* Makes a filter for n keys; fails in the test if it cannot be made. */
static inline bool design(const char *text, uint64_t n, double p, struct layout_filter *out)
{
    struct layout_spec spec;
    struct err err;
    bool ok = layout_parse(text, &spec, &err) && spec.kind->layout->design(&spec, n, p, out, &err);
    MUST(ok);
    if (ok)
        MUST(spec.kind->check(&out->layer[0], &err));
    return ok;
}

/* Tries it; is the reason for the failure in *err? */
static inline bool is_refused(const char *text, uint64_t n, double p, const char *why)
{
    struct layout_spec spec;
    struct layout_filter filter;
    struct err err = {.text = ""};
    bool ok =
        layout_parse(text, &spec, &err) && spec.kind->layout->design(&spec, n, p, &filter, &err);
    if (!ok && strstr(err.text, why) != NULL)
        return true;
    printf("# %s\n", ok ? "not refused" : err.text);
    return false;
}

static inline void positions_of(const struct layout_filter *f, const char *key, uint64_t *out)
{
    uint64_t hash[HASH_LANES];
    const size_t len = strlen(key);
    f->hash->keys(&key, &len, 1, &(struct hash_seed){.number = f->seed}, hash, 1);
    f->layer[0].kind->layout->positions(&f->layer[0], (struct hashes){hash, 1, NULL}, 1, out);
}

#endif

/* SPDX-License-Identifier: MIT */
#include "file/header.h"

#include <string.h>
#include <unistd.h>

#include "port/port.h"
#include "base/disk.h"
#include "keys/prep.h"
#include "keys/rule.h"
#include "kind/foreign.h"
#include "file/filter.h"

void header_begin(struct header *h, const struct key_rule *rule, bool reproducible)
{
    *h = (struct header){.compat = (uint32_t)rule->key_len << COMPAT_KEY_LEN_SHIFT,
                         .epoch = 1,
                         .state = STATE_CLEAN,
                         .hash = key_rule_hash(rule),
                         .seed = rule->seed.number,
                         .prep = rule->prep,
                         .reading = rule->reading};
    if (rule->profiled) {
        h->compat |= COMPAT_PROFILE;
        h->profile = rule->profile;
    }
    if (h->hash->keyed) {
        h->incompat |= INCOMPAT_SECRET;
        h->secret = rule->mark;
    }
    if (reproducible)
        return;
    h->created = h->changed = format_now();
    if (!port_random(h->id, sizeof h->id))
        memcpy(h->id, &h->created, sizeof h->created);
}

void header_begin_like(struct header *h, const struct header *other, bool reproducible)
{
    const struct key_rule rule = {.hash = other->hash,
                                  .seed.number = other->seed,
                                  .mark = other->secret,
                                  .prep = other->prep,
                                  .reading = other->reading};
    header_begin(h, &rule, reproducible);
    h->compat = other->compat & COMPAT_KNOWN;
    h->profile = other->profile;
}

void header_forget_profile(struct header *h)
{
    h->compat &= ~(uint32_t)COMPAT_PROFILE;
    h->profile = (struct profile){0};
}

void header_join_profiles(struct header *h, const struct filter *in, unsigned n)
{
    struct profile_union all = {0};
    uint32_t may = COMPAT_PROFILE;
    for (unsigned i = 0; i < n; i++) {
        profile_unite(&all, &in[i].header.profile, in[i].header.counters.keys_added);
        may &= in[i].header.compat;
    }
    if (may == 0)
        header_forget_profile(h);
    else
        h->profile = profile_of_union(&all);
}

void header_learn(struct header *h, const struct profile *p, uint64_t before, uint64_t now)
{
    bool fits = h->profile.n > 0 || (p->n >= PROFILE_LEAST && now - before >= before);
    if ((h->compat & COMPAT_PROFILE) != 0 && p->n > 0 && now != before && fits)
        profile_add(&h->profile, p);
}

void header_join_keys(struct header *h, const struct header *other)
{
    if (format_key_len(h) != format_key_len(other))
        h->compat &= ~(uint32_t)COMPAT_KEY_LEN;
    h->compat |= other->compat & (COMPAT_INTERSECTED | COMPAT_SUBTRACTED);
    if (memcmp(&h->reading, &other->reading, sizeof h->reading) != 0)
        h->reading = (struct reading){0};
}

static void name_difference(struct err *list, bool differs, const char *name)
{
    if (differs)
        fail_more(list, "%s%s", list->text[0] != '\0' ? ", " : "", name);
}

/* `path`: the names of both, or NULL. */
static bool same_keys(const struct header *a, const struct header *b, const char *const path[2],
                      struct err *list)
{
    static const struct {
        uint32_t part;
        const char *name;
    } options[] = {{PREP_TRIM, "--trim"},
                   {PREP_FOLD, "--ignore-case"},
                   {PREP_UPPER, "--upper"},
                   {PREP_HEX, "--hex"},
                   {PREP_DIGEST, "--digest"}};
    list->text[0] = '\0';
    name_difference(list, a->hash != b->hash, "hash function");
    name_difference(list, a->seed != b->seed, "hash seed");
    name_difference(list, memcmp(&a->secret, &b->secret, sizeof a->secret) != 0, "secret");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        uint32_t has[2] = {a->prep & options[i].part, b->prep & options[i].part};
        name_difference(list, has[0] != has[1], options[i].name);
        if (path != NULL && has[0] != has[1] && (has[0] == 0 || has[1] == 0))
            fail_more(list, " (of '%s')", path[has[0] == 0]);
    }
    name_difference(list, ((a->prep ^ b->prep) & PREP_ENCODING) != 0, "key encoding");
    return list->text[0] == '\0';
}

bool header_same_keys(const struct header *a, const struct header *b, struct err *err)
{
    return same_keys(a, b, NULL, err);
}

bool header_check_same(const struct header *a, const char *a_path, const struct header *b,
                       const char *b_path, const char *done, struct err *err)
{
    struct err what;
    const char *const path[2] = {a_path, b_path};
    return same_keys(a, b, path, &what) ||
           fail(err, "'%s' and '%s' cannot be %s: they differ in %s", a_path, b_path, done,
                what.text);
}

struct target header_target(struct header *h, unsigned i, int fd, const char *name,
                            unsigned threads)
{
    return (struct target){.layer = &h->layers[i],
                           .seed = format_layer_seed(h, i),
                           .header = h,
                           .place = format_place,
                           .fd = fd,
                           .name = name,
                           .threads = threads};
}

bool header_reserve(const struct header *h, struct newfile *file, struct err *err)
{
    const struct layer *first = &h->layers[0];
    bool holes = h->n_layers == 1 && layout_is_sparse(first);
    return newfile_reserve(file, holes ? first->data_off : h->file_len, h->file_len, err);
}

bool header_write(const struct header *h, int fd, const char *name, struct err *err)
{
    uint8_t slot[FORMAT_MAX_HEADER];
    size_t len = format_encode(h, slot);
    if (!disk_write(fd, slot, len, FORMAT_SLOT_A, name, err))
        return false;
    if (!format_is_immutable(h) && !disk_write(fd, slot, len, FORMAT_SLOT_B, name, err))
        return false;
    return ftruncate(fd, (off_t)h->file_len) == 0 ||
           fail_errno(err, "cannot set the length of '%s'", name);
}

/* SPDX-License-Identifier: MIT */
#include "foreign/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/num.h"

const struct kind *layout_number_of(unsigned i)
{
    const struct kind *kind;
    for (unsigned at = 0; (kind = kind_number(at)) != NULL; at++)
        if (kind_is_foreign(kind) && i-- == 0)
            return kind;
    return NULL;
}

/* Appends to a list of alternatives: "a, b". */
static void list(char *out, size_t room, const char *item, size_t len)
{
    size_t at = strlen(out);
    snprintf(out + at, room - at, "%s%.*s", at > 0 ? ", " : "", (int)len, item);
}

static bool find_kind(const char *name, struct layout_spec *spec, struct err *err)
{
    char known[LAYOUT_TEXT] = "";
    for (unsigned i = 0; (spec->kind = layout_number_of(i)) != NULL; i++) {
        if (strcmp(spec->kind->name, name) == 0)
            return true;
        list(known, sizeof known, spec->kind->name, strlen(spec->kind->name));
    }
    if (known[0] == '\0')
        return fail(err, "no layout '%s': this build has none (it was made with WITH_FOREIGN=no)",
                    name);
    return fail(err, "no layout '%s': there are %s", name, known);
}

/* The index of `value` in "a|b|c", or -1. */
static int find_choice(const char *choices, const char *value)
{
    size_t len = strlen(value);
    for (int i = 0;; i++) {
        size_t n = strcspn(choices, "|");
        if (n == len && memcmp(choices, value, n) == 0)
            return i;
        if (choices[n] == '\0')
            return -1;
        choices += n + 1;
    }
}

static bool check_choice(const struct layout_spec *spec, const struct layout_param *param,
                         const char *value, struct err *err)
{
    char known[LAYOUT_TEXT] = "";
    if (param->choices == NULL || find_choice(param->choices, value) >= 0)
        return true;
    for (const char *at = param->choices;; at++) {
        size_t n = strcspn(at, "|");
        list(known, sizeof known, at, n);
        at += n;
        if (*at == '\0')
            break;
    }
    return fail(err, "layout %s: %s is '%s', but can be %s", spec->kind->name, param->name, value,
                known);
}

static bool take_param(struct layout_spec *spec, char *text, struct err *err)
{
    char known[LAYOUT_TEXT] = "";
    char *equals = strchr(text, '=');
    if (equals != NULL)
        *equals = '\0';
    const struct layout_param *params = spec->kind->layout->params;
    for (unsigned i = 0; params[i].name != NULL; i++) {
        list(known, sizeof known, params[i].name, strlen(params[i].name));
        if (strcmp(params[i].name, text) != 0)
            continue;
        if (spec->value[i] != NULL)
            return fail(err, "layout %s: %s is given twice", spec->kind->name, text);
        spec->value[i] = equals != NULL ? equals + 1 : "";
        return check_choice(spec, &params[i], spec->value[i], err);
    }
    for (unsigned i = 0; equals == NULL && params[i].name != NULL; i++)
        if (params[i].choices != NULL && find_choice(params[i].choices, text) >= 0)
            return fail(err, "layout %s has no parameter '%s'; did you mean %s=%s?",
                        spec->kind->name, text, params[i].name, text);
    return fail(err, "layout %s has no parameter '%s': there are %s", spec->kind->name, text,
                known);
}

bool layout_parse(const char *text, struct layout_spec *spec, struct err *err)
{
    *spec = (struct layout_spec){0};
    size_t len = strlen(text);
    if (len >= sizeof spec->text)
        return fail(err, "the layout is longer than %d bytes", LAYOUT_TEXT - 1);
    memcpy(spec->text, text, len);
    char *colon = strchr(spec->text, ':');
    if (colon != NULL)
        *colon = '\0';
    if (!find_kind(spec->text, spec, err))
        return false;
    for (char *at = colon != NULL ? colon + 1 : NULL, *next; at != NULL; at = next) {
        next = strchr(at, ',');
        if (next != NULL)
            *next++ = '\0';
        if (!take_param(spec, at, err))
            return false;
    }
    return true;
}

unsigned layout_choice(const struct layout_spec *spec, unsigned param)
{
    const char *value = spec->value[param];
    int choice = value != NULL ? find_choice(spec->kind->layout->params[param].choices, value) : 0;
    return (unsigned)choice;
}

bool layout_number(const struct layout_spec *spec, unsigned param, uint64_t max, uint64_t *out,
                   struct err *err)
{
    const char *value = spec->value[param];
    *out = 0;
    return value == NULL || (num_count(value, out) && *out >= 1 && *out <= max) ||
           fail(err, "layout %s: %s is '%s', but must be a number from 1 to %llu", spec->kind->name,
                spec->kind->layout->params[param].name, value, (unsigned long long)max);
}

static void append(char *spec, size_t room, const char *name, const char *value, size_t len)
{
    size_t at = strlen(spec);
    snprintf(spec + at, room - at, "%c%s=%.*s", strchr(spec, ':') == NULL ? ':' : ',', name,
             (int)len, value);
}

void layout_show_choice(char *spec, size_t room, const struct layout_param *param, unsigned choice)
{
    const char *value = param->choices;
    for (; choice > 0; choice--)
        value += strcspn(value, "|") + 1;
    append(spec, room, param->name, value, strcspn(value, "|"));
}

void layout_show_number(char *spec, size_t room, const struct layout_param *param, uint64_t n)
{
    char text[24];
    append(spec, room, param->name, text, (size_t)snprintf(text, sizeof text, "%" PRIu64, n));
}

void layout_show(const struct layout_filter *filter, char *spec, size_t room)
{
    const struct kind *kind = filter->layer[0].kind;
    const struct layout *layout = kind->layout;
    snprintf(spec, room, "%s", kind->name);
    const char *others = layout->params[0].choices;
    if (layout->encodings != NULL && others != NULL) {
        unsigned choice = 0;
        while (layout->encodings[choice] != filter->encoding &&
               (others = strchr(others, '|')) != NULL) {
            others++;
            choice++;
        }
        layout_show_choice(spec, room, &layout->params[0], others != NULL ? choice : 0);
    }
    layout->show(filter, spec, room);
}

void layout_begin(const struct layout_spec *spec, struct layout_filter *out)
{
    const struct layout *layout = spec->kind->layout;
    *out = (struct layout_filter){.hash = layout->hash, .n_layers = 1};
    out->layer[0].kind = spec->kind;
    if (layout->encodings != NULL)
        out->encoding = layout->encodings[layout_choice(spec, 0)];
}

void layout_set_design(struct layout_filter *filter, uint64_t n, double p)
{
    filter->n_design = filter->layer[0].n_design = n;
    filter->fpr_design = filter->layer[0].fpr_design = p;
}

uint64_t layout_trimmed(const uint8_t *bytes, uint64_t len)
{
    while (len >= 8 && get_le64(bytes + len - 8) == 0)
        len -= 8;
    while (len > 0 && bytes[len - 1] == 0)
        len--;
    return len;
}

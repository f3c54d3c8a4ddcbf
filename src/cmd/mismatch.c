/* SPDX-License-Identifier: MIT */
#include "cmd/mismatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/say.h"

/* ---- Other forms of a key. */

enum form {
    FORM_BEGIN, /* `to` for the bytes `from`, at its beginning, ... */
    FORM_END,   /* ... at its end, ... */
    FORM_ALL,   /* ... or everywhere */
    FORM_STRIP, /* without the bytes `from` at either end */
    FORM_PARTS, /* cut at the bytes in `from`: the first parts and the last one */
    FORM_AFTER, /* what follows the last `from` */
    FORM_HEAD,  /* the bytes in `from` that it begins with */
    FORM_FOLD,  /* with letters of the other case than `from`, which is A or a */
};

/* ---- The table: in order of strength, what all asked keys do, or have, or are, and hardly any of
 * the filter's, or the other way round; and what helps then. In the words, N is a field. */

enum {
    CUTS = 1 << 0,   /* the remedy takes a part of the key, which may be another key */
    FIELDS = 1 << 1, /* it tells fields: one key is enough if fields were taken otherwise */
};

static const struct row {
    enum profile_feature feature;
    unsigned least; /* asked keys for a claim without proof */
    unsigned flags;
    const char *what;         /* "end in CR"; NULL: the others are whole sentences */
    const char *asked, *keys; /* what helps if the asked keys do, and if the filter's do, or "" */
} rows[] = {
    {PROFILE_CR, 1, 0, "end in CR", "--crlf", "make it again with --crlf"},
    {PROFILE_CSVQ, 1, CUTS | FIELDS, "are rows of CSV", "--csv -f NAME takes a field",
     "make it again with --csv -f NAME"},
    {PROFILE_QUOTED, 1, 0, "are between quotes", "--csv --no-header -f 1 drops them",
     "make it again with --csv --no-header -f 1"},
    {PROFILE_JSON, 1, CUTS, "are JSON", "--jsonl -f .NAME takes a value",
     "make it again with --jsonl -f .NAME"},
    {PROFILE_HEADHEX, 1, FIELDS, "begin with a digest and go on", "-w -f 1, or -d: -f 1",
     "make it again with -w -f 1, or -d: -f 1"},
    {PROFILE_TAB, 1, CUTS | FIELDS, "have TABs in them", "-f N takes a field",
     "the same -f for both"},
    {PROFILE_PIPE, 5, CUTS | FIELDS, "have '|' in them", "-d'|' -f N takes a field",
     "the same -d and -f for both"},
    {PROFILE_SEMI, 5, CUTS | FIELDS, "have ';' in them", "-d';' -f N takes a field",
     "the same -d and -f for both"},
    {PROFILE_COMMA, 20, CUTS | FIELDS, "have ',' in them", "-d, -f N takes a field",
     "the same -d and -f for both"},
    {PROFILE_LINENUM, 20, 0, "begin with a number and ':'", "-d: -f 2 (grep without -n)",
     "make it again with -d: -f 2"},
    {PROFILE_UUID, 1, 0, "are UUIDs with dashes", "tr -d - <FILE | seen ...", ""},
    {PROFILE_HEXCASE, 1, 0, NULL,
     "these digests have capitals, its keys small letters: make it with --ignore-case",
     "these digests have small letters, its keys capitals: make it with --upper"},
    {PROFILE_HEXSIZE, 1, 0, NULL, "they are other digests", ""},
    {PROFILE_HEXLEN, 1, 0, "are digests", "ask the filter that was made with --digest",
     "make it with --digest NAME --input-digests"},
    {PROFILE_DATE, 5, 0, "begin with a date", "-w -f N takes a word", "make it without the date"},
    {PROFILE_SCHEME, 1, CUTS, "begin with http:// or another scheme", "-d/ -f 3 takes the host",
     ""},
    {PROFILE_HTTPS, 20, 0, "begin with https", "", ""},
    {PROFILE_BLANKEND, 5, 0, "have blanks around them", "-w -f N takes a word",
     "make it again with --trim"},
    {PROFILE_SQUOTED, 5, 0, "are between '", "tr -d \\' <FILE | seen ...", ""},
    {PROFILE_COLON, 20, CUTS | FIELDS, "have ':' in them", "-d: -f N takes a field",
     "the same -d and -f for both"},
    {PROFILE_BLANK, 20, CUTS | FIELDS, "have blanks in them", "-w -f N takes a word",
     "the same -w and -f for both"},
    {PROFILE_WWW, 20, 0, "begin with www.", "", ""},
    {PROFILE_ENDSLASH, 20, 0, "end in '/'", "", ""},
    {PROFILE_DOTSLASH, 5, 0, "begin with ./", "cut -c 3- FILE | seen ...", ""},
    {PROFILE_ABS, 5, 0, "begin with '/'", "", ""},
    {PROFILE_GT, 5, 0, "begin with '<' or '>'", "", ""},
    {PROFILE_AT, 20, CUTS, "have '@' in them", "-d@ -f 2 takes what follows it", ""},
    {PROFILE_PLUS, 5, 0, "begin with '+'", "", ""},
    {PROFILE_BSLASH, 5, CUTS, "have '\\' in them", "", ""},
    {PROFILE_COMB, 1, 0, "are in decomposed form (NFD)", "uconv -x nfc FILE | seen ...",
     "uconv -x nfd FILE | seen ..."},
    {PROFILE_LATIN1, 1, 0, NULL,
     "these are not UTF-8, its keys are: iconv -f latin1 -t utf-8 FILE | seen ...",
     "its keys are not UTF-8, these are: iconv -f utf-8 -t latin1 FILE | seen ..."},
    {PROFILE_ENDDOT, 20, 0, "end in '.'", "", ""},
    {PROFILE_CASE, 20, 0, NULL,
     "these have capitals, its keys small letters: make it with --ignore-case",
     "these have small letters, its keys capitals: make it with --upper"},
    {PROFILE_PAD, 5, 0, "have zeros before them", "", ""},
    {PROFILE_DIGITS, 20, 0, "are numbers", "is it another field (-f)?",
     "is it another field (-f)?"},
    {PROFILE_SLASH, 20, CUTS, "have '/' in them", "-d/ -f -1 takes the name", ""},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

/* The forms of asked keys that may be there. */
static const struct remedy {
    enum profile_feature feature;
    enum profile_side side;
    enum form form;
    const char *from, *to;
} remedies[] = {
    {PROFILE_CR, PROFILE_ASKED_HAVE, FORM_END, "\r", ""},
    {PROFILE_CR, PROFILE_KEYS_HAVE, FORM_END, "", "\r"},
    {PROFILE_CSVQ, PROFILE_ASKED_HAVE, FORM_PARTS, "\"", ""},
    {PROFILE_QUOTED, PROFILE_ASKED_HAVE, FORM_STRIP, "\"", ""},
    {PROFILE_JSON, PROFILE_ASKED_HAVE, FORM_PARTS, "\"", ""},
    {PROFILE_HEADHEX, PROFILE_ASKED_HAVE, FORM_HEAD, "0123456789abcdefABCDEF", ""},
    {PROFILE_TAB, PROFILE_ASKED_HAVE, FORM_PARTS, "\t", ""},
    {PROFILE_PIPE, PROFILE_ASKED_HAVE, FORM_PARTS, "|", ""},
    {PROFILE_SEMI, PROFILE_ASKED_HAVE, FORM_PARTS, ";", ""},
    {PROFILE_COMMA, PROFILE_ASKED_HAVE, FORM_PARTS, ",", ""},
    {PROFILE_UUID, PROFILE_ASKED_HAVE, FORM_ALL, "-", ""},
    {PROFILE_HEXCASE, PROFILE_ASKED_HAVE, FORM_FOLD, "A", ""},
    {PROFILE_HEXCASE, PROFILE_KEYS_HAVE, FORM_FOLD, "a", ""},
    {PROFILE_SCHEME, PROFILE_ASKED_HAVE, FORM_AFTER, "://", ""},
    {PROFILE_SCHEME, PROFILE_ASKED_HAVE, FORM_PARTS, "/", ""},
    {PROFILE_SCHEME, PROFILE_KEYS_HAVE, FORM_BEGIN, "", "http://"},
    {PROFILE_SCHEME, PROFILE_KEYS_HAVE, FORM_BEGIN, "", "https://"},
    {PROFILE_HTTPS, PROFILE_ASKED_HAVE, FORM_BEGIN, "https", "http"},
    {PROFILE_HTTPS, PROFILE_KEYS_HAVE, FORM_BEGIN, "http", "https"},
    {PROFILE_BLANKEND, PROFILE_ASKED_HAVE, FORM_STRIP, " \t", ""},
    {PROFILE_BLANKEND, PROFILE_ASKED_HAVE, FORM_PARTS, " \t", ""},
    {PROFILE_SQUOTED, PROFILE_ASKED_HAVE, FORM_STRIP, "'", ""},
    {PROFILE_COLON, PROFILE_ASKED_HAVE, FORM_PARTS, ":", ""},
    {PROFILE_BLANK, PROFILE_ASKED_HAVE, FORM_PARTS, " \t", ""},
    {PROFILE_BLANK, PROFILE_ASKED_HAVE, FORM_ALL, " ", ""},
    {PROFILE_WWW, PROFILE_ASKED_HAVE, FORM_ALL, "www.", ""},
    {PROFILE_WWW, PROFILE_KEYS_HAVE, FORM_BEGIN, "", "www."},
    {PROFILE_WWW, PROFILE_KEYS_HAVE, FORM_ALL, "://", "://www."},
    {PROFILE_ENDSLASH, PROFILE_ASKED_HAVE, FORM_END, "/", ""},
    {PROFILE_ENDSLASH, PROFILE_KEYS_HAVE, FORM_END, "", "/"},
    {PROFILE_DOTSLASH, PROFILE_ASKED_HAVE, FORM_BEGIN, "./", ""},
    {PROFILE_DOTSLASH, PROFILE_KEYS_HAVE, FORM_BEGIN, "", "./"},
    {PROFILE_ABS, PROFILE_ASKED_HAVE, FORM_BEGIN, "/", ""},
    {PROFILE_ABS, PROFILE_KEYS_HAVE, FORM_BEGIN, "", "/"},
    {PROFILE_GT, PROFILE_ASKED_HAVE, FORM_STRIP, "<>", ""},
    {PROFILE_AT, PROFILE_ASKED_HAVE, FORM_AFTER, "@", ""},
    {PROFILE_PLUS, PROFILE_ASKED_HAVE, FORM_BEGIN, "+", ""},
    {PROFILE_PLUS, PROFILE_ASKED_HAVE, FORM_BEGIN, "+", "00"},
    {PROFILE_PLUS, PROFILE_KEYS_HAVE, FORM_BEGIN, "", "+"},
    {PROFILE_PLUS, PROFILE_KEYS_HAVE, FORM_BEGIN, "00", "+"},
    {PROFILE_BSLASH, PROFILE_ASKED_HAVE, FORM_AFTER, "\\", ""},
    {PROFILE_BSLASH, PROFILE_ASKED_HAVE, FORM_ALL, "\\", "/"},
    {PROFILE_ENDDOT, PROFILE_ASKED_HAVE, FORM_END, ".", ""},
    {PROFILE_ENDDOT, PROFILE_KEYS_HAVE, FORM_END, "", "."},
    {PROFILE_CASE, PROFILE_ASKED_HAVE, FORM_FOLD, "A", ""},
    {PROFILE_CASE, PROFILE_KEYS_HAVE, FORM_FOLD, "a", ""},
    {PROFILE_SLASH, PROFILE_ASKED_HAVE, FORM_AFTER, "/", ""},
};

enum { N_REMEDIES = sizeof remedies / sizeof *remedies };

/* ---- Making the forms. */

enum { PARTS = 9 }; /* the first 8, and the last */

struct text {
    char *data; /* room for all forms of a key (ROOM) */
    size_t len;
};

static void put_form(struct text *t, const char *data, size_t len)
{
    memcpy(t->data + t->len, data, len);
    t->len += len;
}

static bool is_one_of(const char *bytes, char c)
{
    return c != '\0' && strchr(bytes, c) != NULL;
}

/* Part `number` of what the bytes r->from separate, from 0; the last one for PARTS - 1. Words are
 * not empty; of parts between quotes, every second is a string. */
static void take_part(const struct mismatch_key *key, const struct remedy *r, unsigned number,
                      struct text *t)
{
    bool words = r->from[0] == ' ', strings = r->from[0] == '"', last = number == PARTS - 1;
    unsigned n = 0;
    for (size_t i = 0, at = 0; at <= key->len && (last || n <= number); i++) {
        size_t end = at;
        while (end < key->len && !is_one_of(r->from, key->text[end]))
            end++;
        if (words ? end > at : !strings || i % 2 == 1) {
            n++;
            t->len = 0;
            put_form(t, key->text + at, end - at);
        }
        at = end + 1;
    }
    if (!last && n <= number)
        t->len = 0;
}

static bool matches(const struct mismatch_key *key, size_t at, const char *text)
{
    size_t len = strlen(text);
    return key->len - at >= len && memcmp(key->text + at, text, len) == 0;
}

/* Puts r->to in place of r->from, where it is at the beginning or the end, or everywhere. */
static void swap(const struct mismatch_key *key, const struct remedy *r, struct text *t)
{
    size_t len = strlen(r->from), only = r->form == FORM_END ? key->len - len : 0, next = 0;
    for (size_t i = 0; i <= key->len; i++) {
        if (i >= next && (r->form == FORM_ALL || i == only) && matches(key, i, r->from)) {
            put_form(t, r->to, strlen(r->to));
            next = i + len;
        }
        put_form(t, key->text + i, i >= next && i < key->len);
    }
}

static void strip(const struct mismatch_key *key, const char *bytes, struct text *t)
{
    size_t from = 0, to = key->len;
    while (from < to && is_one_of(bytes, key->text[from]))
        from++;
    while (from < to && is_one_of(bytes, key->text[to - 1]))
        to--;
    put_form(t, key->text + from, to - from);
}

static void take_after(const struct mismatch_key *key, const char *text, struct text *t)
{
    size_t at = key->len;
    while (at > 0 && !matches(key, at - 1, text))
        at--;
    at = at > 0 ? at - 1 + strlen(text) : 0;
    put_form(t, key->text + at, key->len - at);
}

static void fold_form(const struct mismatch_key *key, char first, struct text *t)
{
    for (size_t i = 0; i < key->len; i++) {
        char c = key->text[i];
        c = (uint8_t)(c - first) < 26 ? (char)(c ^ 0x20) : c;
        put_form(t, &c, 1);
    }
}

/* Writes the key in another form, or the part `number` of it. False: it has none. */
static bool reform(const struct mismatch_key *key, const struct remedy *r, unsigned number,
                   struct text *t)
{
    if (r->form == FORM_PARTS)
        take_part(key, r, number, t);
    else if (number > 0)
        return false;
    else if (r->form == FORM_STRIP)
        strip(key, r->from, t);
    else if (r->form == FORM_AFTER)
        take_after(key, r->from, t);
    else if (r->form == FORM_HEAD)
        while (t->len < key->len && is_one_of(r->from, key->text[t->len]))
            put_form(t, key->text + t->len, 1);
    else if (r->form == FORM_FOLD)
        fold_form(key, r->from[0], t);
    else
        swap(key, r, t);
    return t->len > 0 && (t->len != key->len || memcmp(t->data, key->text, t->len) != 0);
}

/* ---- The keys that are asked. */

/* A batch of these records' keys, as prepared by trimming and folding. NULL: out of memory. */
static struct batch *cut_again(struct key_rule *rule, const struct chunk *chunk)
{
    rule->prep &= PREP_TRIM | PREP_CASE;
    rule->hash = NULL;
    rule->bytes = false;
    rule->skip_bad = true;
    struct batch *b = batch_new(rule);
    if (b == NULL)
        return NULL;
    b->columns = &chunk->columns;
    b->first = chunk->first;
    batch_start(b, chunk->data, chunk->len);
    return b;
}

void mismatch_take(struct mismatch *m, const struct chunk *chunk)
{
    struct key_rule rule = *m->rule;
    struct batch *b = profile_suits(m->rule) ? cut_again(&rule, chunk) : NULL;
    while (b != NULL && m->asked.n < MISMATCH_KEYS && batch_next(b))
        for (size_t i = 0; i < b->n && m->asked.n < MISMATCH_KEYS; i++) {
            size_t key_len;
            if (bit_of(b->bad, i))
                continue;
            const char *key = batch_key(b, i, &key_len);
            profile_count(&m->asked, profile_features(key, key_len), key_len);
            if (m->n_tried == MISMATCH_TRIED || key_len > MISMATCH_LEN)
                continue;
            m->key[m->n_tried].len = key_len;
            memcpy(m->key[m->n_tried++].text, key, key_len);
        }
    batch_free(b);
}

/* ---- Proof. */

/* A difference. */
struct finding {
    const struct row *row;
    enum profile_side side;
};

/* One of which the filter has the other form. */
struct proof {
    struct finding of; /* row NULL: none */
    unsigned part, hits;
    char example[80]; /* empty: a longer one */
};

enum {
    ROOM = 4 * MISMATCH_LEN + 64
}; /* for all forms of a key in one row: "://" may become 7 bytes */

/* The forms of the keys that a difference proposes. */
struct forms {
    char text[MISMATCH_TRIED * ROOM]; /* each with a terminator */
    size_t len;
    unsigned n;
    const struct remedy *remedy[BATCH_MAX];
    unsigned part[BATCH_MAX];
};

static void propose(const struct mismatch *m, const struct finding *of, struct forms *f)
{
    bool cuts = (of->row->flags & CUTS) != 0;
    f->n = 0;
    f->len = 0;
    for (unsigned i = 0; i < m->n_tried * N_REMEDIES * PARTS && f->n < BATCH_MAX; i++) {
        const struct remedy *r = &remedies[i / PARTS % N_REMEDIES];
        struct text t = {f->text + f->len, 0};
        if (r->feature != of->row->feature || r->side != of->side ||
            !reform(&m->key[i / PARTS / N_REMEDIES], r, i % PARTS, &t) ||
            (m->asked.n < 5 && cuts && t.len < 8) ||
            memchr(t.data, m->rule->terminator, t.len) != NULL)
            continue;
        f->remedy[f->n] = r;
        f->part[f->n++] = i % PARTS;
        t.data[t.len] = m->rule->terminator;
        f->len += t.len + 1;
    }
}

/* Asks for the forms; one that is there for more keys than best->hits replaces that. */
static void ask(const struct mismatch *m, struct store *s, const struct finding *of,
                struct forms *f, struct proof *best)
{
    const struct key_rule rule = {.given = true,
                                  .terminator = m->rule->terminator,
                                  .prep = m->rule->prep & PREP_ENCODING,
                                  .hash = m->rule->hash,
                                  .seed = m->rule->seed,
                                  .bytes = m->rule->bytes,
                                  .skip_bad = true};
    uint64_t present[BATCH_MAX / 64];
    unsigned hits[N_REMEDIES][PARTS] = {{0}}, n = m->asked.n;
    unsigned least = n < 5 ? 1 : n < 8 ? 2 : (n < MISMATCH_TRIED ? n : MISMATCH_TRIED) / 4;
    struct err ignored;
    propose(m, of, f);
    struct batch *b = f->n > 0 ? batch_new(&rule) : NULL;
    if (b == NULL)
        return;
    batch_start(b, f->text, f->len);
    bool ok = batch_next(b) && store_query(s, batch_hashes(b), b->n, present, &ignored);
    for (size_t i = 0; ok && i < b->n; i++) {
        const struct remedy *r = f->remedy[i];
        unsigned *found = &hits[r - remedies][f->part[i]];
        if (!bit_of(present, i) || bit_of(b->bad, i) || ++*found < least || *found <= best->hits)
            continue;
        size_t len = (size_t)(b->record[i + 1] - b->record[i]) - 1;
        bool fields = r->form == FORM_PARTS && r->from[0] != '"';
        *best = (struct proof){*of, fields ? f->part[i] + 1 : 0, *found, ""};
        if (len < sizeof best->example)
            memcpy(best->example, b->record[i], len);
    }
    batch_free(b);
}

/* What the table says of the keys. */
struct verdict {
    struct finding found[N_ROWS];
    unsigned n, weak;
};

static void judge(const struct profile *keys, const struct profile *asked, struct verdict *v)
{
    v->n = v->weak = 0;
    for (unsigned i = 0; i < N_ROWS; i++) {
        enum profile_side side = profile_differs(keys, asked, rows[i].feature);
        if (side == PROFILE_SAME)
            continue;
        v->found[v->n++] = (struct finding){&rows[i], side};
        v->weak += rows[i].least >= 5;
    }
}

/* One key may be found by chance: not where that is more likely than this. */
static const double CHANCE = 1e-3;

/* Asks the filter for the forms that the differences propose. */
static void seek_proof(const struct mismatch *m, struct store *s, struct proof *best)
{
    struct verdict v;
    const struct profile *keys = &s->header->profile;
    bool lucky = m->asked.n == 1 && s->header->fpr_design > CHANCE, strong = keys->n == 0;
    struct forms *f = lucky ? NULL : malloc(sizeof *f);
    for (int round = 0; f != NULL && round < (strong ? 2 : 1); round++) {
        /* For a filter without a profile: everything that the asked keys have differs. */
        struct profile none = {.n = PROFILE_MOST};
        none.count[PROFILE_HEXLEN] = PROFILE_MOST;
        none.count[round == 1 ? PROFILE_UPPER : PROFILE_LOWER] = PROFILE_MOST;
        judge(strong ? &none : keys, &m->asked, &v);
        for (unsigned i = 0; i < v.n; i++) {
            const struct row *row = v.found[i].row;
            bool word =
                row->feature == PROFILE_BLANK || row->feature == PROFILE_AT; /* of a phrase */
            if (m->asked.n >= 5 || (!word && (!strong || row->least <= 1)))
                ask(m, s, &v.found[i], f, best);
        }
    }
    free(f);
}

/* ---- What is likely without proof. */

/* Sets *of to the first difference, if any is clear enough for so many asked and sampled keys. */
static bool is_likely(const struct mismatch *m, const struct profile *keys, bool cut_otherwise,
                      struct finding *of)
{
    struct verdict v;
    unsigned n = m->asked.n;
    judge(keys, &m->asked, &v);
    *of = v.found[0];
    for (unsigned i = 0; i < v.n; i++) {
        const struct row *row = v.found[i].row;
        bool many = n >= row->least || (n >= 5 && v.weak >= 3) ||
                    (cut_otherwise && (row->flags & FIELDS) != 0);
        bool some = n >= row->least && n >= 5 && row->least < 20;
        if (keys->n >= 250 ? many : keys->n > 0 && some)
            return true;
    }
    return false;
}

/* ---- Words. */

/* Adds "none of these 200 keys is in 'f'". */
static void add_none(const struct mismatch *m, const char *name, struct err *err)
{
    const char *these = m->asked.n == MISMATCH_KEYS ? "the first" : "these";
    if (m->asked.n == 1)
        fail_more(err, "this key is not in '%s'", name);
    else if (m->found == 0)
        fail_more(err, "none of %s %u keys is in '%s'", these, m->asked.n, name);
    else
        fail_more(err, "only %u of %s %u keys %s in '%s'", m->found, these, m->asked.n,
                  m->found == 1 ? "is" : "are", name);
}

/* "these end in CR, its keys do not: --crlf" */
static void add_difference(const struct finding *of, unsigned part, const struct mismatch *m,
                           const struct profile *keys, struct err *err)
{
    const char *what = of->row->what;
    bool asked = of->side == PROFILE_ASKED_HAVE;
    const char *helps = asked ? of->row->asked : of->row->keys;
    const char *field = part > 0 ? strstr(helps, "-f N") : NULL;
    if (of->row->feature == PROFILE_HEXSIZE)
        fail_more(err, "these have %u hexadecimal digits, its keys %u: ", m->asked.longest,
                  keys->longest);
    if (what != NULL) {
        const char *verb = strncmp(what, "are ", 4) == 0    ? "are"
                           : strncmp(what, "have ", 5) == 0 ? "have"
                                                            : "do";
        fail_more(err, "%s %s, %s %s not%s", asked ? "these" : "its keys", what,
                  asked ? "its keys" : "these", verb, helps[0] != '\0' ? ": " : "");
    }
    if (field != NULL)
        fail_more(err, "%.*s-f %d%s", (int)(field - helps), helps, part < PARTS ? (int)part : -1,
                  field + strlen("-f N"));
    else
        fail_more(err, "%s", helps);
}

bool mismatch_finds_few(const struct mismatch *m)
{
    unsigned n = m->asked.n;
    return n > 0 && m->found <= (n < 128 ? n >= 16 : n / 64);
}

bool mismatch_note(struct mismatch *m, struct store *s)
{
    struct proof best = {0};
    struct err what;
    char options[READING_TEXT];
    const struct reading *theirs = &s->header->reading, now = reading_of(m->rule);
    const struct profile *keys = &s->header->profile;
    bool cut_otherwise = reading_differs(theirs, &now);
    seek_proof(m, s, &best);
    if (best.of.row == NULL && !is_likely(m, keys, cut_otherwise, &best.of))
        return false;
    fail(&what, "%s", "");
    add_none(m, s->name, &what);
    if (best.example[0] != '\0')
        fail_more(&what, ", but '%s' is", best.example);
    fail_more(&what, ": ");
    add_difference(&best.of, best.part, m, keys, &what);
    bool whole = theirs->field[0] == 0 && (theirs->how & (READING_CSV | READING_JSONL)) == 0;
    if (cut_otherwise && best.part == 0 && !whole)
        fail_more(&what, "; its keys were taken with%s", reading_options(theirs, options));
    say_note("%s", what.text);
    return true;
}

/* Are many of them one key, as URLs are before their colon? */
static bool is_monotone(const struct mismatch *m)
{
    unsigned same = 0;
    for (unsigned i = 0; i < m->n_tried; i++)
        same += m->key[i].len == m->key[0].len &&
                memcmp(m->key[i].text, m->key[0].text, m->key[0].len) == 0;
    return same > 1 && same * 4 > m->n_tried;
}

bool mismatch_recut(struct mismatch *m, const struct store *s, const struct chunk *chunk,
                    struct err *err)
{
    struct key_rule rule = *m->rule;
    struct mismatch again = {.rule = &rule};
    struct verdict v;
    struct finding ignored;
    char options[READING_TEXT];
    const struct header *h = s->header;
    const struct reading now = reading_of(m->rule);
    if (!reading_differs(&h->reading, &now) || !reading_rule(&h->reading, &rule) ||
        !is_likely(m, &h->profile, true, &ignored))
        return false;
    mismatch_take(&again, chunk);
    judge(&h->profile, &again.asked, &v);
    if (is_monotone(&again) || again.asked.n < m->asked.n - m->asked.n / 10 || v.n > 0)
        return false;
    fail(err, "nothing was added: ");
    add_none(m, s->name, err);
    fail_more(err,
              "; its keys were taken with%s, which fits these records too (-f 0 takes them whole)",
              reading_options(&h->reading, options));
    return true;
}

/* SPDX-License-Identifier: MIT */
#include "cmd/advice.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "base/say.h"
#include "base/visible.h"
#include "keys/content.h"
#include "keys/digest.h"

/* Of each input. Records of a file tend to be alike. */
enum { LOOK_BYTES = 64 << 10 };

/* What is looked at: the first records of a chunk. */
struct look {
    const struct key_rule *rule; /* of the command */
    const struct chunk *chunk;
    unsigned wanted, found; /* bit i: look i of the table */
    uint64_t number[32];    /* of the first record that it has found, from 0 */
    size_t n, count[32];    /* records, and those that it has found */
    size_t digits;          /* set by is_counted: the number of hexadecimal digits */
};

struct record {
    const char *data;
    size_t len;      /* without its terminator, and without the CR that --crlf drops */
    bool ended;      /* false: the last one, without its terminator, or only the beginning */
    bool has_key;    /* else key and key_len are not set */
    const char *key; /* cut, but not prepared */
    size_t key_len;
};

static bool ends_in(const char *data, size_t len, char c)
{
    return len > 0 && data[len - 1] == c;
}

/* ---- The looks. */

static bool is_cr(struct look *l, const struct record *r)
{
    return !l->rule->crlf && ends_in(r->data, r->len, '\r') && r->has_key &&
           memchr(r->key, '\r', r->key_len) != NULL;
}

static size_t count_digits(const char *data, size_t len)
{
    size_t n = 0;
    while (n < len && isxdigit((unsigned char)data[n]))
        n++;
    return n;
}

enum { RANGE_DIGITS = 35 };

/* Lists of stolen passwords have lines like this: a digest of 16 to 64 bytes in hexadecimal, or all
 * but the first 5 digits of one of SHA-1, a colon, and a count. Not if the rule takes a field of
 * hexadecimal digits, or of text, as the key. */
static bool has_count(const struct key_rule *rule, const struct record *r, bool range)
{
    size_t digits = count_digits(r->data, r->len), i = digits + 1;
    size_t len = r->len - ends_in(r->data, r->len, '\r');
    if (rule->field[0] &&
        (rule->digested || (rule->prep & PREP_FLAGS) || rule->field[0] != 1 || rule->field[1]))
        return false;
    if (digits < 32 || digits > 128 || (range ? digits != RANGE_DIGITS : digits % 2 != 0))
        return false;
    if (len < digits + 2 || r->data[digits] != ':')
        return false;
    while (i < len && r->data[i] >= '0' && r->data[i] <= '9')
        i++;
    return i == len;
}

static bool is_counted(struct look *l, const struct record *r)
{
    if (!has_count(l->rule, r, false))
        return false;
    l->digits = count_digits(r->data, r->len);
    return true;
}

static bool is_range(struct look *l, const struct record *r)
{
    return has_count(l->rule, r, true);
}

/* Is the record all of the chunk, without its terminator; does it end in this byte, and look like
 * text? */
static bool is_all(const struct look *l, const struct record *r, char end)
{
    const struct chunk *c = l->chunk;
    bool text = !r->ended && ends_in(c->data, c->len, end) &&
                memchr(c->data, l->rule->terminator, c->len) == NULL;
    for (size_t i = 0; text && i < c->len && i < 64; i++)
        text = c->data[i] == end || (unsigned char)c->data[i] >= '\t';
    return text;
}

static bool ends_in_nul(struct look *l, const struct record *r)
{
    return l->rule->terminator != 0 && is_all(l, r, '\0');
}

static bool ends_in_newline(struct look *l, const struct record *r)
{
    return l->rule->terminator == 0 && is_all(l, r, '\n');
}

static bool is_comment(struct look *l, const struct record *r)
{
    return !l->rule->comments && r->len > 0 && r->data[0] == '#' &&
           (r->len == 1 || strchr(" \t\r#!", r->data[1]) != NULL);
}

static bool is_between_quotes(struct look *l, const struct record *r)
{
    return l->rule->field[0] == 0 && r->len > 1 && r->data[0] == '"' &&
           memchr(r->data + 1, '"', r->len - 1) == r->data + r->len - 1;
}

/* Is the chunk one line? */
static bool is_one_line(const struct chunk *c)
{
    return memchr(c->data, '\n', c->len - ends_in(c->data, c->len, '\n')) == NULL;
}

/* Do CRs end lines, without newlines? */
static bool is_cr_alone(struct look *l, const struct record *r)
{
    size_t len = r->len - ends_in(r->data, r->len, '\r');
    const char *inner = memchr(r->data, '\r', len);
    return inner != NULL && is_one_line(l->chunk) &&
           (len < r->len || memchr(inner + 1, '\r', len - (size_t)(inner + 1 - r->data)) != NULL);
}

/* Skips blanks, and newlines if there are any. */
static const char *skip_white(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || (*p >= '\t' && *p <= '\r')))
        p++;
    return p;
}

static bool has_start(const char *p, const char *end, const char *text)
{
    size_t len = strlen(text);
    return (size_t)(end - p) >= len && strncasecmp(p, text, len) == 0;
}

static const char *skip_mark(const char *p, const char *end)
{
    return skip_white(p + content_mark(p, (size_t)(end - p)), end);
}

static bool is_page(struct look *l, const struct record *r)
{
    const char *end = l->chunk->data + l->chunk->len, *p = skip_mark(l->chunk->data, end);
    (void)r;
    return has_start(p, end, "<!doctype html") || has_start(p, end, "<html") ||
           has_start(p, end, "<?xml ");
}

/* Is all of it one array of JSON, on one line or on several? Not if the filter's keys are such. */
static bool is_array(struct look *l, const struct record *r)
{
    const struct chunk *c = l->chunk;
    const char *end = c->data + c->len, *p = skip_mark(c->data, end), *last = end;
    (void)r;
    if (p == end || *p != '[' || l->rule->profile.count[PROFILE_JSON] > 0)
        return false;
    const char *next = skip_white(p + 1, end);
    if (next == end || (*next != '{' && *next != '[' && *next != '"'))
        return false;
    while (skip_white(last - 1, last) == last)
        last--;
    return memchr(p, '\n', (size_t)(next - p)) != NULL ||
           (is_one_line(c) && last[-1] == ']' && memchr(p, ',', (size_t)(last - p)) != NULL);
}

/* Does the input begin with the byte order mark of UTF-8, and the key too? */
static bool has_mark(struct look *l, const struct record *r)
{
    bool first = l->rule->field[0] == 0;
    for (const int *field = l->rule->field; *field != 0; field++)
        first |= *field == 1;
    return first && content_mark(r->data, r->len) > 0;
}

/* Does the rule take digests of keys, and does the key look like such a digest? */
static bool is_digest(struct look *l, const struct record *r)
{
    const struct digest *d = l->rule->digested ? NULL : digest_by_id(prep_digest(l->rule->prep));
    if (d == NULL || !r->has_key)
        return false;
    size_t len = r->key_len - ends_in(r->key, r->key_len, '\r');
    return len == 2 * d->len && count_digits(r->key, len) == len;
}

static bool is_hex_escape(struct look *l, const struct record *r)
{
    (void)l;
    return r->has_key && r->key_len > 6 && memcmp(r->key, "$HEX[", 5) == 0 &&
           ends_in(r->key, r->key_len, ']');
}

/* GNU's sha1sum and its like put a backslash before a digest if the name behind it is escaped. */
static bool is_escaped(struct look *l, const struct record *r)
{
    (void)l;
    if (!r->has_key || r->key_len < 33 || r->key[0] != '\\')
        return false;
    size_t digits = count_digits(r->key + 1, r->key_len - 1), end = digits + 1;
    return digits >= 32 && digits <= 128 && digits % 8 == 0 &&
           (end == r->key_len || r->key[end] == ' ');
}

/* Does the field begin with a quote that ends in a later one or, if fields are counted from the
 * end, end with one that begins in an earlier one? */
static bool is_torn(const char *p, const char *end, bool from_end)
{
    bool begins = p < end && *p == '"', ends = p < end && end[-1] == '"', alone = end - p == 1;
    return (from_end ? ends : begins) && (alone || begins != ends);
}

/* In CSV, a field that contains delimiters is quoted. Is that field, or one before it, torn? */
static bool is_field_torn(const struct key_rule *rule, const struct record *r, int field)
{
    const char *p = r->data, *end = p + r->len;
    bool torn = false;
    for (; !torn && field > 0 && p <= end; field--) {
        const char *d = memchr(p, rule->delimiter, (size_t)(end - p));
        torn = is_torn(p, d != NULL ? d : end, false);
        p = d != NULL ? d + 1 : end + 1;
    }
    for (; !torn && field < 0 && p <= end; field++) {
        const char *d = bytes_last(p, rule->delimiter, (size_t)(end - p));
        torn = is_torn(d != NULL ? d + 1 : p, end, true);
        end = d != NULL ? d : p - 1;
    }
    return torn;
}

static bool is_quoted(struct look *l, const struct record *r)
{
    bool torn = false;
    for (const int *field = l->rule->field; *field != 0 && !torn && !l->rule->whitespace; field++)
        torn = is_field_torn(l->rule, r, *field);
    return torn;
}

/* Which records a look is for. */
enum {
    OF_LINES = 1 << 0, /* not with -0 */
    OF_GIVEN = 1 << 1, /* keys of -k, too */
    AT_BEGIN = 1 << 2, /* the chunk begins its input */
    FIRST_8 = 1 << 3,  /* no more than that of an input */
    EACH = 1 << 4,     /* each of these must be so, not any ... */
    SOME = 1 << 5,     /* ... or one in 16 */
    NAMED = 1 << 6,    /* the message names the first such record, not the input */
    REFUSED = 1 << 7,  /* if a filter is made ... */
    NOT_TEXT = 1 << 8, /* ... unless keys are prepared as text */
    MADE = 1 << 9,     /* only if a filter is made */
    TWICE = 1 << 10,   /* not for one record alone */
    WHOLE = 1 << 11,   /* what the input is; nothing else is said then */
};

enum { LOOK_COUNTED = 1, LOOK_DIGESTS = 5 }; /* of the table */

static const struct {
    unsigned how;
    bool (*is)(struct look *l, const struct record *r);
    const char *text; /* after "records in 'FILE' " */
} looks[] = {
    {OF_LINES | SOME, is_cr, "end in CR, which is taken as part of the key; --crlf drops it"},
    {OF_LINES | FIRST_8 | REFUSED | NOT_TEXT, is_counted,
     "look like DIGEST:COUNT; to take only the digests as keys, give -d: -f1 and --hex, or "
     "--input-digests if the filter has --digest"},
    {AT_BEGIN, ends_in_nul,
     "end in NUL, not in newlines, so that all of them are one key; -0 separates them"},
    {AT_BEGIN, ends_in_newline,
     "end in newlines, not in NUL, so that all of them are one key; without -0 they are separate"},
    {AT_BEGIN, has_mark,
     "begin with a byte order mark, which is taken as part of the first key; 'tail -c +4' drops "
     "it"},
    {OF_GIVEN | FIRST_8 | EACH | REFUSED, is_digest,
     "look like digests already: add --input-digests, or make the filter without --digest to store "
     "them as text"},
    {OF_LINES | FIRST_8 | REFUSED | NOT_TEXT, is_range,
     "lack the first 5 of 40 digits, which are in the names of range files: seen-passwords(7) has "
     "the command that joins them"},
    {OF_LINES, is_hex_escape,
     "are like $HEX[6b6579], which is taken as it is; perl -pe "
     "'s/^\\$HEX\\[(.*)]$/pack \"H*\", $1/e' writes the bytes that are meant"},
    {OF_LINES | NAMED, is_quoted, "there is a delimiter between quotes: --csv understands quotes"},
    {OF_LINES | NAMED, is_escaped,
     "sha1sum and its like put a backslash before the digest of a file whose name has one, or a "
     "newline; sha1sum -z ... | seen ... -0 has none"},
    {OF_LINES | AT_BEGIN | WHOLE, is_cr_alone,
     "end in CR alone, so that all of them are one key; tr '\\r' '\\n' <FILE | seen ... separates "
     "them"},
    {OF_LINES | AT_BEGIN | WHOLE | REFUSED | NOT_TEXT, is_page,
     "are lines of a web page or of XML; 'curl -f' fails where a server answers with an error "
     "page"},
    {OF_LINES | AT_BEGIN | WHOLE, is_array,
     "are one array of JSON; python3 -c 'import json,sys; [print(json.dumps(x)) for x in "
     "json.load(sys.stdin)]' <FILE | seen ... --jsonl takes its elements"},
    {OF_LINES | FIRST_8 | MADE | TWICE, is_comment,
     "begin with #, and are keys as others; --comments leaves them out"},
    {OF_LINES | FIRST_8 | MADE | TWICE | EACH, is_between_quotes,
     "are between quotes, which are taken as part of the key; --csv --no-header -f 1 drops them"},
};

enum { N_LOOKS = sizeof looks / sizeof *looks }; /* at most 32 */

/* ---- Looking. */

static struct record record_of(const struct batch *b, size_t i)
{
    const struct key_rule *rule = b->rule;
    struct record r = {.data = b->record[i], .len = (size_t)(b->record[i + 1] - b->record[i])};
    r.ended = ends_in(r.data, r.len, rule->terminator);
    r.len -= r.ended;
    r.len -= rule->crlf && r.ended && ends_in(r.data, r.len, '\r');
    r.has_key = !bit_of(b->bad, i);
    if (r.has_key)
        r.key = batch_key(b, i, &r.key_len);
    return r;
}

/* Record `number` of its input, from 0. */
static void look_at_record(struct advice *a, struct look *l, const struct record *r,
                           uint64_t number)
{
    for (unsigned i = 0; i < N_LOOKS; i++) {
        unsigned bit = 1U << i;
        if ((l->wanted & bit) == 0 || (number >= 8 && (looks[i].how & FIRST_8) != 0) ||
            (number > 0 && (looks[i].how & AT_BEGIN) != 0))
            continue;
        if (!looks[i].is(l, r))
            a->not_each |= bit;
        else if (l->count[i]++ == 0)
            l->number[i] = number;
    }
}

/* The looks that have not been reported, and are for such records. */
static unsigned wanted_looks(const struct advice *a, uint64_t n)
{
    const struct key_rule *rule = &a->keyopt->rule;
    unsigned wanted = 0;
    for (unsigned i = 0; i < N_LOOKS; i++) {
        unsigned how = looks[i].how;
        if ((a->said >> i & 1) == 0 && ((how & OF_LINES) == 0 || rule->terminator == '\n') &&
            ((how & OF_GIVEN) != 0 || !rule->given) && ((how & AT_BEGIN) == 0 || n == 0) &&
            ((how & MADE) == 0 || a->makes))
            wanted |= 1U << i;
    }
    return wanted;
}

/* The bytes of the chunk that are looked at: whole records, or the beginning of a long one. */
static size_t first_bytes(struct advice *a, const struct chunk *chunk)
{
    size_t len = chunk->len < a->left ? chunk->len : a->left;
    const char *end = bytes_last(chunk->data, a->rule.terminator, len);
    a->left -= len;
    return len < chunk->len && end != NULL ? (size_t)(end + 1 - chunk->data) : len;
}

static bool begin(struct advice *a)
{
    if (a->batch != NULL)
        return true;
    a->rule = a->keyopt->rule;
    a->rule.prep = 0;
    a->rule.hash = NULL;
    a->rule.digested = a->rule.bytes = false;
    a->rule.skip_bad = true;
    a->batch = batch_new(&a->rule);
    return a->batch != NULL;
}

/* Does the command refuse keys that look i finds? */
static bool is_refused(const struct advice *a, unsigned i)
{
    bool text = (a->keyopt->rule.prep & PREP_FLAGS) != 0;
    return a->makes && (looks[i].how & REFUSED) != 0 && !(text && (looks[i].how & NOT_TEXT) != 0);
}

/* The whole command for a list of counted digests. */
static void refuse_counted(const char *where, size_t digits)
{
    const char *digest = digits == 40   ? "--digest sha1 --input-digests"
                         : digits == 64 ? "--digest sha256 --input-digests"
                         : digits == 32 ? "--digest ntlm --input-digests"
                                        : "--hex";
    say_error("records in '%s' look like DIGEST:COUNT; this takes their digests: seen create "
              "%s -d: -f1 FILTER %s (--trim takes records as they are)",
              where, digest, strcmp(where, "(standard input)") == 0 ? "<FILE" : SHELL_FILE(where));
}

/* Prints what look i has found; false: it is refused. */
static bool say_look(struct advice *a, unsigned i, const char *where, const struct look *l)
{
    const char *text = looks[i].text, *prefix = is_refused(a, i) ? "" : "note: ";
    a->said |= 1U << i;
    if (is_refused(a, i) && i == LOOK_COUNTED)
        refuse_counted(where, l->digits);
    else if ((looks[i].how & NAMED) != 0)
        say(prefix, "%s:%llu: %s", where, (unsigned long long)l->number[i] + 1, text);
    else if (a->keyopt->rule.given)
        say(prefix, "keys %s", text);
    else
        say(prefix, "records in '%s' %s", where, text);
    return !is_refused(a, i);
}

/* Sets l->found, without what others say better. */
static void choose(const struct advice *a, struct look *l)
{
    for (unsigned i = 0; i < N_LOOKS; i++) {
        size_t least = (looks[i].how & SOME) != 0    ? (l->n + 15) / 16
                       : (looks[i].how & TWICE) != 0 ? 2
                                                     : 1;
        bool each = (looks[i].how & EACH) == 0 || (a->not_each >> i & 1) == 0;
        if (l->n > 0 && l->count[i] >= least && each)
            l->found |= 1U << i;
    }
    if ((l->found >> LOOK_DIGESTS & 1) != 0 && !is_refused(a, LOOK_COUNTED))
        l->found &= ~(1U << LOOK_COUNTED);
    for (unsigned i = 0; i < N_LOOKS; i++)
        if ((l->found >> i & 1) != 0 && (looks[i].how & WHOLE) != 0)
            l->found = 1U << i;
}

/* Does compressed data follow text in the first bytes, or at the end of a chunk? So it does in
 * files that were joined. Not if keys may be any bytes. */
static bool has_packed(struct advice *a, const struct chunk *chunk, uint64_t n)
{
    const struct keyopt *keyopt = a->keyopt;
    size_t first = chunk->len < LOOK_BYTES ? chunk->len : LOOK_BYTES;
    if (keyopt->no_gzip || a->questions || keyopt->rule.given || keyopt->rule.terminator != '\n')
        return false;
    if (n == 0)
        a->text = content_is_text(chunk->data, first < CONTENT_TAIL ? first : CONTENT_TAIL);
    return (n == 0 && content_find_gzip(chunk->data, first) != NULL) ||
           (a->text && chunk->len >= CONTENT_TAIL &&
            content_is_packed(chunk->data + chunk->len - CONTENT_TAIL));
}

static bool look_at_start(struct advice *a, const char *where, const struct chunk *chunk,
                          uint64_t n)
{
    struct look l = {.rule = &a->keyopt->rule, .chunk = chunk, .wanted = wanted_looks(a, n)};
    bool ok = true;
    if (n == 0) {
        a->left = LOOK_BYTES;
        a->not_each = 0;
    }
    const struct key_rule *rule = &a->keyopt->rule;
    if (rule->csv != NULL || rule->paths != NULL || chunk->header > 0 || a->left == 0 ||
        l.wanted == 0 || !begin(a))
        return true;
    struct batch *b = a->batch;
    batch_start(b, chunk->data, first_bytes(a, chunk));
    while (batch_next(b))
        for (size_t i = 0; i < b->n; i++) {
            const struct record r = record_of(b, i);
            look_at_record(a, &l, &r, n + l.n++);
        }
    choose(a, &l);
    for (unsigned i = 0; ok && i < N_LOOKS; i++)
        if ((l.found >> i & 1) != 0)
            ok = say_look(a, i, where, &l);
    return ok;
}

bool advice_look(struct advice *a, const char *where, const struct chunk *chunk, uint64_t n)
{
    struct err err;
    if (has_packed(a, chunk, n))
        return content_fail_joined(where, &err) || say_failure(&err);
    return look_at_start(a, where, chunk, n);
}

void advice_end(struct advice *a)
{
    batch_free(a->batch);
    a->batch = NULL;
}

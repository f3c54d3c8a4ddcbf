/* SPDX-License-Identifier: MIT */
#include "keys/profile.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "base/visible.h"
#include "keys/batch.h"
#include "keys/prep.h"

/* ---- Features. */

#define BIT(feature) (UINT64_C(1) << (feature))

/* Bits of bytes: of features that a key has if one of its bytes has it, or needs such a byte for;
 * and others. */
#define IS_QUOTE BIT(61)
#define NO_DIGIT BIT(62)
#define NO_HEX   BIT(63)

static const uint64_t BY_BYTE = BIT(PROFILE_TAB) | BIT(PROFILE_PIPE) | BIT(PROFILE_SEMI) |
                                BIT(PROFILE_COMMA) | BIT(PROFILE_UPPER) | BIT(PROFILE_LOWER) |
                                BIT(PROFILE_SLASH) | BIT(PROFILE_AT) | BIT(PROFILE_BSLASH);
static const uint64_t DELIMITERS = BIT(PROFILE_COMMA) | BIT(PROFILE_SEMI) | BIT(PROFILE_TAB);

#define BETWEEN(c, a, b)     ((c) >= (a) && (c) <= (b))
#define IF(c, byte, feature) ((c) == (byte) ? BIT(feature) : 0)
#define CLASS(c)                                                                                   \
    (IF(c, '\t', PROFILE_TAB) | IF(c, '|', PROFILE_PIPE) | IF(c, ';', PROFILE_SEMI) |              \
     IF(c, ',', PROFILE_COMMA) | IF(c, ':', PROFILE_COLON) | IF(c, ' ', PROFILE_BLANK) |           \
     IF(c, '/', PROFILE_SLASH) | IF(c, '@', PROFILE_AT) | IF(c, '\\', PROFILE_BSLASH) |            \
     (BETWEEN(c, 'A', 'Z') ? BIT(PROFILE_UPPER) : 0) |                                             \
     (BETWEEN(c, 'a', 'z') ? BIT(PROFILE_LOWER) : 0) | ((c) > 0x7f ? BIT(PROFILE_HIGH) : 0) |      \
     ((c) == '"' ? IS_QUOTE : 0) | (BETWEEN(c, '0', '9') ? 0 : NO_DIGIT) |                         \
     (BETWEEN(c, '0', '9') || BETWEEN((c) | 0x20, 'a', 'f') ? 0 : NO_HEX))
#define CLASS4(c)  CLASS(c), CLASS((c) + 1), CLASS((c) + 2), CLASS((c) + 3)
#define CLASS16(c) CLASS4(c), CLASS4((c) + 4), CLASS4((c) + 8), CLASS4((c) + 12)
#define CLASS64(c) CLASS16(c), CLASS16((c) + 16), CLASS16((c) + 32), CLASS16((c) + 48)

static const uint64_t class_of[256] = {CLASS64(0), CLASS64(64), CLASS64(128), CLASS64(192)};

static bool is(char c, uint64_t classes)
{
    return (class_of[(uint8_t)c] & classes) != 0;
}

static size_t span(const char *key, size_t len, uint64_t not_classes)
{
    size_t n = 0;
    while (n < len && !is(key[n], not_classes))
        n++;
    return n;
}

static bool has_prefix(const char *key, size_t len, const char *with)
{
    size_t n = strlen(with);
    return len >= n && memcmp(key, with, n) == 0;
}

/* The length of a scheme and its "://", as in "http://"; 0: there is none. */
static size_t scheme_len(const char *key, size_t len, bool small)
{
    size_t n = 0;
    while (n < len && n < 10 &&
           (is(key[n], BIT(PROFILE_LOWER)) ||
            (n == 0 && !small && is(key[n], BIT(PROFILE_UPPER))) ||
            (n > 0 && !small && (key[n] == '+' || !is(key[n], NO_DIGIT)))))
        n++;
    return n > 0 && has_prefix(key + n, len - n, "://") ? n + 3 : 0;
}

static bool has_colon(const char *key, size_t len)
{
    const char *end = key + len, *c = key;
    while (c < end && (c = memchr(c, ':', (size_t)(end - c))) != NULL) {
        if (!has_prefix(c, (size_t)(end - c), "://"))
            return true;
        c += 3;
    }
    return false;
}

static bool is_white(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool has_inner_blank(const char *key, size_t len)
{
    while (len > 0 && is_white(key[len - 1]))
        len--;
    while (len > 0 && is_white(*key)) {
        key++;
        len--;
    }
    return memchr(key, ' ', len) != NULL;
}

static bool has_quoted_delimiter(const char *key, size_t len)
{
    for (size_t i = 0; i + 2 < len; i++)
        if (key[i] == '"' && key[i + 2] == '"' && is(key[i + 1], DELIMITERS))
            return true;
    return false;
}

static uint64_t bit(bool is, enum profile_feature feature)
{
    return (uint64_t)is << feature;
}

/* Features of text with bytes above 0x7f. */
static uint64_t high_features(const char *key, size_t len)
{
    uint64_t f = bit(true, PROFILE_HIGH);
    for (size_t i = 0; i + 1 < len; i++) {
        uint8_t a = (uint8_t)key[i], b = (uint8_t)key[i + 1];
        if ((a == 0xcc && BETWEEN(b, 0x80, 0xbf)) || (a == 0xcd && BETWEEN(b, 0x80, 0xaf)))
            f |= bit(true, PROFILE_COMB);
    }
    size_t n = 1;
    for (size_t i = 0; i < len && n > 0; i += n)
        n = utf8_len(key + i, len - i);
    return f | bit(n == 0, PROFILE_LATIN1);
}

/* Is it 4 digits, -, 2 digits, -, 2 digits, perhaps after a bracket? */
static bool has_date(const char *key, size_t len)
{
    size_t at = len > 0 && key[0] == '[', i = 0;
    for (; at + i < len && i < 10; i++)
        if (i == 4 || i == 7 ? key[at + i] != '-' : is(key[at + i], NO_DIGIT))
            return false;
    return i == 10;
}

static bool has_uuid(const char *key, size_t len)
{
    size_t at = len > 0 && key[0] == '{';
    return len >= at + 14 && span(key + at, 8, NO_HEX) == 8 && key[at + 8] == '-' &&
           span(key + at + 9, 4, NO_HEX) == 4 && key[at + 13] == '-';
}

static bool is_json(const char *key, size_t len)
{
    size_t n = len - (len > 0 && key[len - 1] == '\r');
    return n > 1 && (key[0] == '{' || key[0] == '[') && (key[n - 1] == '}' || key[n - 1] == ']');
}

static bool is_digest_len(size_t len)
{
    return len == 32 || len == 40 || len == 56 || len == 64 || len == 96 || len == 128;
}

static bool is_between(const char *key, size_t len, char quote)
{
    return len > 1 && key[0] == quote && key[len - 1] == quote;
}

uint64_t profile_features(const char *key, size_t len)
{
    uint64_t has = 0;
    for (size_t i = 0; i < len; i++)
        has |= class_of[(uint8_t)key[i]];
    char first = len > 0 ? key[0] : '\0', last = len > 0 ? key[len - 1] : '\0';
    size_t digits = span(key, len, NO_DIGIT), scheme = scheme_len(key, len, true);
    bool all_hex = (has & NO_HEX) == 0;
    bool quoted_fields = (has & IS_QUOTE) && (has & DELIMITERS) && has_quoted_delimiter(key, len);
    return (has & BY_BYTE) | bit(last == '\r', PROFILE_CR) | bit(quoted_fields, PROFILE_CSVQ) |
           bit(is_between(key, len, '"') && memchr(key + 1, '"', len - 2) == NULL, PROFILE_QUOTED) |
           bit(is_json(key, len), PROFILE_JSON) |
           bit(!all_hex && span(key, len, NO_HEX) >= 32, PROFILE_HEADHEX) |
           bit((has & BIT(PROFILE_COLON)) && has_colon(key, len), PROFILE_COLON) |
           bit((has & BIT(PROFILE_BLANK)) && has_inner_blank(key, len), PROFILE_BLANK) |
           bit(first == ' ' || first == '\t' || last == ' ' || last == '\t', PROFILE_BLANKEND) |
           bit(all_hex && is_digest_len(len), PROFILE_HEXLEN) |
           bit(has_uuid(key, len), PROFILE_UUID) |
           bit(scheme_len(key, len, false) > 5, PROFILE_SCHEME) |
           bit(has_prefix(key + scheme, len - scheme, "www."), PROFILE_WWW) |
           bit(last == '/' && len > 1, PROFILE_ENDSLASH) | bit(first == '/', PROFILE_ABS) |
           (has & BIT(PROFILE_HIGH) ? high_features(key, len) : 0) |
           bit(has_date(key, len), PROFILE_DATE) | bit(digits == len && len > 0, PROFILE_DIGITS) |
           bit(first == '0', PROFILE_ZERO) | bit(has_prefix(key, len, "https://"), PROFILE_HTTPS) |
           bit(first == '<' || first == '>', PROFILE_GT) |
           bit(has_prefix(key, len, "./"), PROFILE_DOTSLASH) |
           bit(digits > 0 && digits < len && (key[digits] == ':' || key[digits] == '\t'),
               PROFILE_LINENUM) |
           bit(is_between(key, len, '\''), PROFILE_SQUOTED) | bit(last == '.', PROFILE_ENDDOT) |
           bit(first == '+', PROFILE_PLUS);
}

/* ---- Counts. */

enum { LEN_MOST = 65535 };

void profile_count(struct profile *p, uint64_t features, size_t len)
{
    unsigned bytes = len < LEN_MOST ? (unsigned)len : LEN_MOST;
    p->shortest = p->n == 0 || bytes < p->shortest ? bytes : p->shortest;
    p->longest = bytes > p->longest ? bytes : p->longest;
    p->n++;
    for (unsigned i = 0; i < PROFILE_FEATURES; i++)
        p->count[i] = (uint16_t)(p->count[i] + (features >> i & 1));
}

/* A count after scaling to n keys: what some keys had, some have still; and what more than an odd
 * key had, more than an odd key has still, so that a feed of another form is not forgotten. */
static unsigned keep_some(unsigned count, unsigned n, bool any, bool many)
{
    unsigned least = many ? n / 64 + 1 : any;
    return count < least && least < n ? least : count;
}

static bool is_many(unsigned count, unsigned n)
{
    return count > n / 256;
}

static void halve(struct profile *p)
{
    unsigned n = p->n / 2;
    for (unsigned i = 0; i < PROFILE_FEATURES; i++) {
        unsigned have = p->count[i], rest = p->n - have;
        unsigned count = keep_some(have < p->n ? have / 2 : n, n, have > 0, is_many(have, p->n));
        p->count[i] = (uint16_t)(n - keep_some(n - count, n, rest > 0, is_many(rest, p->n)));
    }
    p->n = n;
}

static void widen_lengths(struct profile *p, const struct profile *other)
{
    if (p->n == 0 || other->shortest < p->shortest)
        p->shortest = other->shortest;
    if (other->longest > p->longest)
        p->longest = other->longest;
}

void profile_add(struct profile *p, const struct profile *other)
{
    widen_lengths(p, other);
    p->n += other->n; /* at most 2 * PROFILE_MOST */
    for (unsigned i = 0; i < PROFILE_FEATURES; i++)
        p->count[i] = (uint16_t)(p->count[i] + other->count[i]);
    if (p->n > PROFILE_MOST)
        halve(p);
}

enum { SHARE = 1 << 12 };

/* Filters of more keys weigh no more, so that no sum overflows. */
static const uint64_t HEAVIEST = UINT64_C(1) << 40;

void profile_unite(struct profile_union *u, const struct profile *p, uint64_t n)
{
    n = n < HEAVIEST ? n : HEAVIEST;
    if (n == 0)
        return;
    u->unknown |= p->n == 0;
    u->keys += n;
    if (p->n == 0)
        return;
    widen_lengths(&u->all, p);
    u->all.n = p->n > u->all.n ? p->n : u->all.n;
    for (unsigned i = 0; i < PROFILE_FEATURES; i++) {
        unsigned have = p->count[i], rest = p->n - have;
        u->sum[i] += n * ((have * SHARE + p->n / 2) / p->n);
        u->any |= (uint64_t)(have > 0) << i;
        u->many |= (uint64_t)is_many(have, p->n) << i;
        u->any_rest |= (uint64_t)(rest > 0) << i;
        u->many_rest |= (uint64_t)is_many(rest, p->n) << i;
    }
}

struct profile profile_of_union(const struct profile_union *u)
{
    struct profile p = u->all;
    if (u->unknown || p.n == 0)
        return (struct profile){0};
    for (unsigned i = 0; i < PROFILE_FEATURES; i++) {
        uint64_t share = (u->sum[i] + u->keys / 2) / u->keys;
        unsigned count = (unsigned)((share * p.n + SHARE / 2) / SHARE);
        count = keep_some(count, p.n, u->any >> i & 1, u->many >> i & 1);
        count = p.n - keep_some(p.n - count, p.n, u->any_rest >> i & 1, u->many_rest >> i & 1);
        p.count[i] = (uint16_t)count;
    }
    return p;
}

/* ---- Bytes. */

/* The version in a byte, a zero, the number sampled; both lengths; the counts; two zeros. */
enum { AT_VERSION = 0, AT_LENGTHS = 4, AT_COUNTS = 8, VERSION = 1 };

void profile_encode(const struct profile *p, uint8_t to[PROFILE_BYTES])
{
    memset(to, 0, PROFILE_BYTES);
    if (p->n == 0)
        return;
    put_le32(to + AT_VERSION, VERSION | (uint32_t)p->n << 16);
    put_le32(to + AT_LENGTHS, p->shortest | (uint32_t)p->longest << 16);
    for (unsigned i = 0; i < PROFILE_FEATURES; i += 2) { /* two counts of 12 bits in 3 bytes */
        uint8_t *at = to + AT_COUNTS + i / 2 * 3;
        unsigned a = p->count[i], b = p->count[i + 1];
        at[0] = (uint8_t)a;
        at[1] = (uint8_t)(a >> 8 | (b & 15) << 4);
        at[2] = (uint8_t)(b >> 4);
    }
}

bool profile_decode(const uint8_t from[PROFILE_BYTES], struct profile *p)
{
    uint8_t same[PROFILE_BYTES];
    uint32_t lengths = get_le32(from + AT_LENGTHS);
    *p = (struct profile){.n = get_le32(from + AT_VERSION) >> 16,
                          .shortest = lengths & LEN_MOST,
                          .longest = lengths >> 16};
    bool ok = p->n <= PROFILE_MOST && p->shortest <= p->longest;
    for (unsigned i = 0; i < PROFILE_FEATURES; i++) {
        const uint8_t *at = from + AT_COUNTS + i / 2 * 3;
        unsigned pair = at[0] | (unsigned)at[1] << 8 | (unsigned)at[2] << 16;
        p->count[i] = (uint16_t)(i % 2 == 0 ? pair & 0xfff : pair >> 12);
        ok = ok && p->count[i] <= p->n;
    }
    profile_encode(p, same); /* what must be zero */
    return ok && memcmp(from, same, sizeof same) == 0;
}

/* ---- Comparing. */

enum {
    ALL = 255,
    SOME = 25,        /* a tenth */
    FULL_RULES = 200, /* sampled keys: an odd one among them is no exception */
};

/* The share of keys that have a feature: 0 to 255, which are exactly none and all. */
static unsigned share_of(const struct profile *p, enum profile_feature f)
{
    unsigned have = p->count[f], q = p->n == 0 ? 0 : (ALL * have + p->n / 2) / p->n;
    return have == 0 ? 0 : have == p->n ? ALL : q < 1 ? 1 : q > ALL - 1 ? ALL - 1 : q;
}

static bool nearly_all(const struct profile *p, enum profile_feature f)
{
    return share_of(p, f) >= ALL - 1;
}

static bool hardly_any(const struct profile *p, enum profile_feature f)
{
    return share_of(p, f) <= 1;
}

/* Have practically all letters that occur this case? */
static bool has_case(const struct profile *p, bool capitals)
{
    return nearly_all(p, capitals ? PROFILE_UPPER : PROFILE_LOWER) &&
           hardly_any(p, capitals ? PROFILE_LOWER : PROFILE_UPPER);
}

static bool has_one_len(const struct profile *p)
{
    return p->shortest == p->longest;
}

/* Are they digits of one length, some with zeros before them, and the others digits without, and
 * not longer? */
static bool is_padded(const struct profile *p, const struct profile *others)
{
    return nearly_all(p, PROFILE_DIGITS) && nearly_all(others, PROFILE_DIGITS) && has_one_len(p) &&
           p->longest >= others->longest && share_of(p, PROFILE_ZERO) >= SOME &&
           hardly_any(others, PROFILE_ZERO);
}

/* Have some of them such letters, and the others none, but text that could have them? */
static bool has_letters(const struct profile *p, const struct profile *others,
                        enum profile_feature f, bool any_text)
{
    return share_of(p, f) >= SOME && share_of(others, f) == 0 &&
           (any_text || share_of(others, PROFILE_HIGH) >= SOME);
}

static enum profile_side side_of(bool asked_have, bool keys_have)
{
    return asked_have ? PROFILE_ASKED_HAVE : keys_have ? PROFILE_KEYS_HAVE : PROFILE_SAME;
}

enum profile_side profile_differs(const struct profile *keys, const struct profile *asked,
                                  enum profile_feature f)
{
    bool digests = nearly_all(keys, PROFILE_HEXLEN) && share_of(asked, PROFILE_HEXLEN) == ALL;
    unsigned odd = keys->n >= FULL_RULES;
    if (f == PROFILE_CASE || (f == PROFILE_HEXCASE && digests))
        return side_of(has_case(keys, false) && has_case(asked, true),
                       has_case(keys, true) && has_case(asked, false));
    if (f == PROFILE_HEXSIZE)
        return side_of(digests && has_one_len(keys) && has_one_len(asked) &&
                           asked->longest != keys->longest,
                       false);
    if (f == PROFILE_PAD)
        return side_of(is_padded(asked, keys),
                       is_padded(keys, asked) && (asked->n < 20 || !has_one_len(asked)));
    if (f >= PROFILE_FEATURES)
        return PROFILE_SAME;
    bool letters = (f == PROFILE_COMB || f == PROFILE_LATIN1) && asked->n >= 5;
    unsigned has = share_of(keys, f), asks = share_of(asked, f);
    if (letters && has_letters(asked, keys, f, f == PROFILE_LATIN1))
        return PROFILE_ASKED_HAVE;
    if (letters && has_letters(keys, asked, f, false))
        return PROFILE_KEYS_HAVE;
    return side_of(has <= odd && asks >= ALL - odd, has >= ALL - odd && asks <= odd);
}

/* ---- Words. */

__attribute__((format(printf, 2, 3))) static void append(char *text, const char *fmt, ...)
{
    size_t len = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + len, PROFILE_TEXT - len, fmt, ap);
    va_end(ap);
}

static const char *const names[PROFILE_FEATURES] = {
    [PROFILE_CR] = "CR at the end",
    [PROFILE_CSVQ] = "quotes around fields",
    [PROFILE_QUOTED] = "between quotes",
    [PROFILE_JSON] = "JSON",
    [PROFILE_HEADHEX] = "a digest first",
    [PROFILE_TAB] = "TAB",
    [PROFILE_PIPE] = "'|'",
    [PROFILE_SEMI] = "';'",
    [PROFILE_COMMA] = "','",
    [PROFILE_COLON] = "':'",
    [PROFILE_BLANK] = "blanks",
    [PROFILE_BLANKEND] = "blanks around them",
    [PROFILE_UUID] = "UUID",
    [PROFILE_SCHEME] = "a scheme first",
    [PROFILE_WWW] = "'www.'",
    [PROFILE_ENDSLASH] = "'/' at the end",
    [PROFILE_SLASH] = "'/'",
    [PROFILE_ABS] = "'/' first",
    [PROFILE_AT] = "'@'",
    [PROFILE_COMB] = "combining letters",
    [PROFILE_HIGH] = "letters beyond ASCII",
    [PROFILE_LATIN1] = "not UTF-8",
    [PROFILE_DATE] = "a date first",
    [PROFILE_ZERO] = "0 first",
    [PROFILE_HTTPS] = "'https://' first",
    [PROFILE_GT] = "'<' or '>' first",
    [PROFILE_DOTSLASH] = "'./' first",
    [PROFILE_LINENUM] = "a number and ':' first",
    [PROFILE_SQUOTED] = "between '",
    [PROFILE_ENDDOT] = "'.' at the end",
    [PROFILE_BSLASH] = "'\\'",
    [PROFILE_PLUS] = "'+' first",
};

const char *profile_show(const struct profile *p, char *text)
{
    text[0] = '\0';
    if (p->n == 0)
        return text;
    append(text, "%u", p->shortest);
    if (p->longest != p->shortest)
        append(text, " to %u%s", p->longest, p->longest == LEN_MOST ? " or more" : "");
    append(text, " %s",
           nearly_all(p, PROFILE_DIGITS)   ? "digits"
           : nearly_all(p, PROFILE_HEXLEN) ? "hexadecimal digits"
                                           : "bytes");
    for (unsigned i = 0; i < PROFILE_FEATURES; i++)
        if (names[i] != NULL && nearly_all(p, (enum profile_feature)i))
            append(text, ", %s", names[i]);
    if (has_case(p, true) || has_case(p, false))
        append(text, ", %s", has_case(p, true) ? "capitals" : "small letters");
    return text;
}

/* ---- Sampling. */

bool profile_suits(const struct key_rule *rule)
{
    return !rule->secret && !rule->digested && !key_rule_hash(rule)->keyed &&
           !prep_in_digits(rule->prep);
}

void profile_sample_begin(struct profile_sample *s)
{
    s->limit = UINT64_MAX;
    s->n = 0;
    memset(s->known, 0, sizeof s->known);
}

/* The place of a hash in the sample, or where it belongs. */
static unsigned sample_place(const struct profile_sample *s, uint64_t hash)
{
    unsigned low = 0, high = s->n;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (s->key[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void keep_least(struct profile_sample *s, struct profile_key key)
{
    unsigned at = sample_place(s, key.hash);
    if (at < s->n && s->key[at].hash == key.hash)
        return;
    s->n -= s->n == PROFILE_SAMPLE;
    memmove(s->key + at + 1, s->key + at, (s->n - at) * sizeof *s->key);
    s->key[at] = key;
    s->n++;
    if (s->n == PROFILE_SAMPLE)
        s->limit = s->key[PROFILE_SAMPLE - 1].hash;
}

static void look_at_text(struct profile_sample *s, const struct batch *b, size_t i)
{
    uint64_t hash = b->hash[i];
    uint64_t *known = &s->known[hash % (sizeof s->known / sizeof *s->known)];
    size_t len;
    if (*known == hash || bit_of(b->bad, i))
        return;
    *known = hash;
    const char *key = batch_text(b, i, (char[ENCODE_PLAIN_MAX]){0}, &len);
    keep_least(s, (struct profile_key){hash, profile_features(key, len), len});
}

/* A branch that is hardly ever taken costs a quarter of a nanosecond a key; vectors without a
 * comparison of 64 bits, as those of SSE2, cost more. */
void profile_sample_take(struct profile_sample *s, const struct batch *b)
{
    const size_t n = b->n;
    uint64_t limit = s->limit;
    for (size_t i = 0; i < n; i++)
        if (b->hash[i] < limit) {
            look_at_text(s, b, i);
            limit = s->limit;
        }
}

void profile_sample_join(struct profile_sample *s, const struct profile_sample *other)
{
    for (unsigned i = 0; i < other->n; i++)
        if (other->key[i].hash < s->limit)
            keep_least(s, other->key[i]);
}

struct profile profile_of_sample(const struct profile_sample *s)
{
    struct profile p = {0};
    for (unsigned i = 0; i < s->n; i++)
        profile_count(&p, s->key[i].features, s->key[i].len);
    return p;
}

/* SPDX-License-Identifier: MIT
 * Any bytes cut by any rule: the batches must yield what a loop yields that handles one byte after
 * the other. The first six bytes of the input make the rule, the rest are the records.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys/batch.h"
#include "foreign/encode.h"
#include "keys/digest.h"
#include "keys/prep.h"
#include "keys/xxh3.h"
#include "choose.h"
#include "must.h"

enum {
    HEAD = 6,
    DIGEST_MAX = 32, /* SHA-256 */
};

static int digit_value(char c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *d = c ? strchr(digits, c) : NULL;
    return d ? (int)(d - digits) % 16 : -1;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Begin and end of field number `field`; false if there are fewer. */
static bool find_field(const char *p, size_t len, int field, char delimiter, size_t *begin,
                       size_t *end)
{
    int n = 1, at = 1;
    for (size_t i = 0; i < len; i++)
        n += p[i] == delimiter;
    int wanted = field > 0 ? field : n + 1 + field;
    if (wanted < 1 || wanted > n)
        return false;
    *begin = 0;
    *end = len;
    for (size_t i = 0; i < len; i++) {
        if (p[i] != delimiter)
            continue;
        if (at == wanted) {
            *end = i;
            return true;
        }
        at++;
        *begin = i + 1;
    }
    return true;
}

/* The same of fields between runs of blanks. */
static bool find_word(const char *p, size_t len, int field, size_t *begin, size_t *end)
{
    int n = 0, at = 0;
    for (size_t i = 0; i < len; i++)
        n += !is_blank(p[i]) && (i == 0 || is_blank(p[i - 1]));
    int wanted = field > 0 ? field : n + 1 + field;
    if (wanted < 1 || wanted > n)
        return false;
    for (size_t i = 0; i < len; i++) {
        at += !is_blank(p[i]) && (i == 0 || is_blank(p[i - 1]));
        if (at == wanted) {
            *begin = i;
            for (*end = i; *end < len && !is_blank(p[*end]); ++*end)
                ;
            return true;
        }
    }
    return false;
}

/* The whole record or its fields, joined into `to`, which has room for three times as much; the
 * length, or -1 for none. */
static long cut(const struct key_rule *rule, const char *record, size_t len, char *to)
{
    size_t n = 0;
    for (size_t f = 0; rule->field[f] != 0; f++) {
        size_t begin = 0, end = 0;
        int field = rule->field[f];
        char delimiter = rule->delimiter;
        if (rule->whitespace ? !find_word(record, len, field, &begin, &end)
                             : !find_field(record, len, field, delimiter, &begin, &end))
            return -1;
        if (f > 0)
            to[n++] = rule->whitespace ? ' ' : delimiter;
        bool rest = rule->rest && rule->field[f + 1] == 0;
        if (rest && !rule->whitespace)
            end = len;
        while (begin < end)
            to[n++] = record[begin++];
        while (rest && rule->whitespace && find_word(record, len, ++field, &begin, &end))
            for (to[n++] = ' '; begin < end; begin++)
                to[n++] = record[begin];
    }
    bool empty = rule->field[0] != 0 && !rule->whitespace;
    for (size_t i = 0; i < n; i++)
        empty = empty && to[i] == rule->delimiter;
    if (rule->field[0] == 0)
        memcpy(to, record, n = len);
    return empty ? -1 : (long)n;
}

/* The characters of s; their number, or -1 if it is not UTF-8. */
static long characters(const char *s, long n, uint32_t *to)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    long count = 0;
    for (long i = 0; i < n;) {
        unsigned first = (unsigned char)s[i++];
        int more = first < 0x80 ? 0 : first < 0xc0 ? -1 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
        if (more < 0 || first >= 0xf8 || i + more > n)
            return -1;
        uint32_t c = more == 0 ? first : first & (0x3fU >> more);
        for (int j = 0; j < more; j++, i++) {
            if (((unsigned char)s[i] & 0xc0) != 0x80)
                return -1;
            c = c * 64 + (s[i] & 0x3f);
        }
        if (c < least[more] || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
            return -1;
        to[count++] = c;
    }
    return count;
}

static char *put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 + c / 64);
        *to++ = (char)(0x80 + c % 64);
    } else {
        *to++ = (char)(0xe0 + c / 4096);
        *to++ = (char)(0x80 + c / 64 % 64);
        *to++ = (char)(0x80 + c % 64);
    }
    return to;
}

/* A UTF-16 code unit in the encoding's form. */
static char *put_unit(unsigned encoding, char *to, uint32_t unit)
{
    static const char escaped[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    if (encoding == ENCODE_UTF16) {
        *to++ = (char)(unit % 256);
        *to++ = (char)(unit / 256);
    } else if (encoding != ENCODE_JSON) {
        return put_utf8(to, unit);
    } else if (unit != 0 && unit < 128 && strchr(escaped, (int)unit) != NULL) {
        *to++ = '\\';
        *to++ = letters[strchr(escaped, (int)unit) - escaped];
    } else if (unit < 32 || (unit >= 0xd800 && unit < 0xe000)) {
        to += sprintf(to, "\\u%04X", unit);
    } else {
        return put_utf8(to, unit);
    }
    return to;
}

static char *put_kryo_head(char *to, long units)
{
    unsigned long v = (unsigned long)units + 1;
    if (v < 64) {
        *to++ = (char)(0x80 + v);
        return to;
    }
    *to++ = (char)(0xc0 + v % 64);
    for (v /= 64; v >= 128; v /= 128)
        *to++ = (char)(0x80 + v % 128);
    *to++ = (char)v;
    return to;
}

static long encode_text(unsigned encoding, const char *key, long n, char *out)
{
    uint32_t *c = malloc(((size_t)n + 1) * sizeof *c);
    MUST(c);
    long count = characters(key, n, c), units = count;
    bool ascii = true;
    for (long i = 0; i < count; i++) {
        units += c[i] > 0xffff;
        ascii &= c[i] < 0x80;
    }
    char *to = out;
    bool kryo = encoding == ENCODE_KRYO5 || encoding == ENCODE_KRYO5_REF;
    bool is_short = kryo && ascii && units >= 2 && units <= 32;
    if (encoding == ENCODE_JSON)
        *to++ = '"';
    if (kryo)
        *to++ = 3;
    if (encoding == ENCODE_KRYO5_REF)
        *to++ = 1;
    if (kryo && !is_short)
        to = put_kryo_head(to, units);
    for (long i = 0; i < count; i++) {
        if (c[i] <= 0xffff) {
            to = put_unit(encoding, to, c[i]);
        } else {
            to = put_unit(encoding, to, 0xd800 + (c[i] - 0x10000) / 0x400);
            to = put_unit(encoding, to, 0xdc00 + c[i] % 0x400);
        }
    }
    if (is_short)
        to[-1] = (char)(to[-1] + 128);
    if (encoding == ENCODE_JSON)
        *to++ = '"';
    free(c);
    if (count < 0)
        return -1;
    if (encoding == ENCODE_UTF8)
        memcpy(out, key, (size_t)n);
    return encoding == ENCODE_UTF8 ? n : to - out;
}

static long encode_integer(unsigned encoding, const char *key, long n, char *out)
{
    bool wide =
        encoding == ENCODE_INT64 || encoding == ENCODE_DECIMAL || encoding == ENCODE_KRYO5_LONG;
    bool kryo = encoding == ENCODE_KRYO5_LONG || encoding == ENCODE_KRYO5_INT;
    char *text = malloc((size_t)n + 1);
    MUST(text);
    memcpy(text, key, (size_t)n);
    text[n] = 0;
    long sign = n > 0 && (key[0] == '+' || key[0] == '-'), digits = 0;
    while (sign + digits < n && key[sign + digits] >= '0' && key[sign + digits] <= '9')
        digits++;
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    bool good = digits > 0 && sign + digits == n && errno == 0;
    free(text);
    if (!good || (!wide && (value < INT32_MIN || value > INT32_MAX)))
        return -1;
    if (encoding == ENCODE_DECIMAL || encoding == ENCODE_DECIMAL32)
        return sprintf(out, "%lld", value);
    uint64_t bits = (uint64_t)value;
    int len = wide ? 8 : 4;
    if (!kryo) {
        for (int i = 0; i < len; i++)
            out[i] = (char)(bits >> 8 * i);
        return len;
    }
    bits = value < 0 ? 2 * (0 - bits) - 1 : 2 * bits;
    out[0] = wide ? 9 : 2;
    len = 1;
    while (bits >= 128 && len < 9) {
        out[len++] = (char)(128 + bits % 128);
        bits /= 128;
    }
    out[len++] = (char)bits;
    return len;
}

/* Into `out`, which has room for six bytes for each of the key and 20 more. */
static long reference_encode(unsigned encoding, const char *key, long n, char *out)
{
    if (encoding != ENCODE_NONE && n >= 0)
        return encoding_by_id(encoding)->integer ? encode_integer(encoding, key, n, out)
                                                 : encode_text(encoding, key, n, out);
    memcpy(out, key, n < 0 ? 0 : (size_t)n);
    return n;
}

/* The digest of a key of n bytes, or -1 for none; its length is then the key's. Made in a block of
 * just the room that it takes. */
static long reference_digest(const struct key_rule *rule, char *key, long n)
{
    const struct digest *d = digest_by_id(prep_digest(rule->prep));
    if (d == NULL || n < 0)
        return n;
    if (rule->digested)
        return n == (long)d->len ? n : -1;
    char *out = malloc(d->fixed + d->per_byte * (size_t)n);
    MUST(out);
    bool made = d->make(key, (size_t)n, out);
    memcpy(key, out, made ? d->len : 0);
    free(out);
    return made ? (long)d->len : -1;
}

static bool is_comment(const struct key_rule *rule, const char *record, size_t len)
{
    return rule->comments && len > 0 && record[0] == '#' && rule->terminator != '#';
}

/* The key of one record, into `key`, which has room for three times as much; its length, or -1 for
 * none. */
static long reference(const struct key_rule *rule, const char *record, size_t len, char *key)
{
    size_t begin = 0, end = len;
    if (is_comment(rule, record, len))
        return -1;
    char *whole = malloc(3 * len + 1);
    MUST(whole);
    if (end && record[end - 1] == rule->terminator) {
        end--;
        if (rule->crlf && end && record[end - 1] == '\r')
            end--;
    }
    long n = cut(rule, record, end, whole);
    if (n < 0) {
        free(whole);
        return -1;
    }
    end = (size_t)n;
    if (rule->prep & PREP_TRIM) {
        while (begin < end && is_blank(whole[begin]))
            begin++;
        while (begin < end && is_blank(whole[end - 1]))
            end--;
    }
    n = 0;
    for (size_t i = begin; i < end; i++) {
        char c = whole[i];
        if ((rule->prep & PREP_FOLD) && c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if ((rule->prep & PREP_UPPER) && c >= 'a' && c <= 'z')
            c = (char)(c - 'a' + 'A');
        key[n++] = c;
    }
    free(whole);
    if (rule->field[0] != 0 && n == 0)
        return -1;
    if (!(rule->prep & PREP_HEX) && !rule->digested)
        return n;
    for (long i = 0; i < n; i += 2) {
        if (i + 1 == n || digit_value(key[i]) < 0 || digit_value(key[i + 1]) < 0)
            return -1;
        key[i / 2] = (char)(digit_value(key[i]) * 16 + digit_value(key[i + 1]));
    }
    return n / 2;
}

static size_t record_len(const char *p, const char *end, char terminator)
{
    const char *t = p;
    while (t < end && *t != terminator)
        t++;
    return (size_t)(t - p) + (t < end);
}

/* Four bits, as a number from -8 to 7. */
static int nibble(unsigned bits)
{
    return (int)(bits & 7U) - (int)(bits & 8U);
}

/* Up to three fields; the list ends at a 0 or a number that comes again. */
static void put_fields(int *field, const uint8_t *data)
{
    const int number[] = {nibble(data[1] >> 4), nibble(data[5]), nibble(data[5] >> 4)};
    for (size_t n = 0; n < 3 && number[n] != 0; n++) {
        for (size_t i = 0; i < n; i++)
            if (number[i] == number[n])
                return;
        field[n] = number[n];
    }
}

/* Is no field named that follows the last one, which is counted from the front? */
static bool may_have_rest(const int *field)
{
    int most = 0, last = 0;
    for (; *field != 0; field++) {
        last = *field;
        most = last > most ? last : most;
    }
    return last == most && last > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD)
        return 0;
    struct key_rule rule = {
        .terminator = data[0] & 1 ? '\n' : (char)data[4],
        .crlf = data[0] & 2,
        .skip_bad = data[0] & 4,
        .prep = (uint32_t)data[0] >> 3 & PREP_FLAGS,
        .whitespace = data[0] & 128,
        .delimiter = (char)data[2],
        .seed.number = data[3],
    };
    if ((rule.prep & PREP_CASE) == PREP_CASE)
        rule.prep &= ~(uint32_t)PREP_UPPER;
    put_fields(rule.field, data);
    rule.rest = data[0] & 1 && data[4] & 1 && may_have_rest(rule.field);
    rule.comments = data[0] & 1 && data[4] & 2;
    unsigned encoding = encoding_by_id(data[1] & 15) != NULL ? data[1] & 15 : ENCODE_NONE;
    rule.prep |= encoding << PREP_ENCODING_SHIFT;
    unsigned number = data[1] & 15U, last = ENCODE_KRYO5_REF;
    if (number > last && digest_by_id(number - last) != NULL) {
        rule.prep &= ~(uint32_t)PREP_HEX;
        rule.prep |= (number - last) << PREP_DIGEST_SHIFT;
        rule.digested = data[0] & 64;
    }
    choose_variant(&xxh3_variants, choose_variant(&split_variants, data[3]));
    size_t len = size - HEAD;
    char *text = malloc(len + !len), *key = malloc(3 * len + DIGEST_MAX);
    char *encoded = malloc(18 * len + DIGEST_MAX);
    MUST(text && key && encoded);
    memcpy(text, data + HEAD, len);

    struct batch *b = batch_new(&rule);
    MUST(b);
    batch_start(b, text, len);
    const char *at = text, *end = text + len;
    size_t before = 0;
    while (batch_next(b)) {
        MUST(b->n > 0 && b->n <= BATCH_MAX && b->n_before == before);
        for (size_t i = 0; i < b->n; i++) {
            size_t n = record_len(at, end, rule.terminator);
            MUST(n > 0 && b->record[i] == at && b->record[i + 1] == at + n);
            long key_len = reference(&rule, at, n, key);
            key_len = reference_digest(&rule, key, key_len);
            key_len = reference_encode(encoding, key, key_len, encoded);
            bool bad = b->bad[i / 64] >> i % 64 & 1;
            MUST(bad == (key_len < 0));
            MUST(bad || b->hash[i] == xxh3_bytes(encoded, (size_t)key_len, rule.seed.number));
            MUST(!bad || rule.skip_bad || is_comment(&rule, at, n));
            at += n;
        }
        before += b->n;
    }
    if (b->bad_record) {
        size_t n = record_len(at, end, rule.terminator);
        long key_len = reference(&rule, at, n, key);
        key_len = reference_digest(&rule, key, key_len);
        MUST(!rule.skip_bad && b->n_before == before);
        MUST(reference_encode(encoding, key, key_len, encoded) < 0);
    } else {
        MUST(at == end);
    }
    batch_free(b);
    free(text);
    free(key);
    free(encoded);
    return 0;
}

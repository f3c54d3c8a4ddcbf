/* SPDX-License-Identifier: MIT */
#include "keys/prepare.h"

#include <string.h>

#include "base/bytes.h"
#include "keys/digest.h"
#include "keys/encoding.h"
#include "keys/prep.h"

static void trim(struct slice *key)
{
    while (key->len && byte_is_blank(key->data[0])) {
        key->data++;
        key->len--;
    }
    while (key->len && byte_is_blank(key->data[key->len - 1]))
        key->len--;
}

/* The compiler's generic vectors: SSE2 and NEON have all operations used here. */
typedef uint8_t vec8 __attribute__((vector_size(8)));
typedef uint8_t vec16 __attribute__((vector_size(16)));
typedef uint16_t pairs8 __attribute__((vector_size(16)));

/* Changes the case of the 26 letters from `first` on: with 'A', capitals become small letters. */
static char fold1(char c, char first)
{
    return (uint8_t)(c - first) < 26 ? (char)(c ^ 0x20) : c;
}

static void fold8(const char *from, char *to, char first)
{
    vec8 c;
    memcpy(&c, from, sizeof c);
    c ^= (vec8)(c - (uint8_t)first < 26) & 0x20;
    memcpy(to, &c, sizeof c);
}

static void fold16(const char *from, char *to, char first)
{
    vec16 c;
    memcpy(&c, from, sizeof c);
    c ^= (vec16)(c - (uint8_t)first < 26) & 0x20;
    memcpy(to, &c, sizeof c);
}

/* The first of the letters whose case is changed. */
static char folded_from(uint32_t prep)
{
    return prep & PREP_UPPER ? 'a' : 'A';
}

/* Folds in whole steps; the last step overlaps the previous one. */
static void fold_case(struct slice *key, char first, char *to)
{
    const char *from = key->data;
    size_t len = key->len;
    key->data = to;
    if (len >= 16) {
        for (size_t i = 0; i + 16 < len; i += 16)
            fold16(from + i, to + i, first);
        fold16(from + len - 16, to + len - 16, first);
    } else if (len >= 8) {
        fold8(from, to, first);
        fold8(from + len - 8, to + len - 8, first);
    } else {
        for (size_t i = 0; i < len; i++)
            to[i] = fold1(from[i], first);
    }
}

/* The value of a hexadecimal digit; above 15 for any other byte. */
static unsigned hex_value(char c)
{
    unsigned digit = (unsigned char)c - (unsigned)'0';
    unsigned letter = ((unsigned char)c | 0x20U) - (unsigned)'a';
    return digit < 10 ? digit : letter < 6 ? letter + 10 : 16;
}

/* Converts sixteen digits to eight bytes. The result is not zero if one is not a digit. */
static vec16 unhex16(const char *from, char *to)
{
    vec16 c;
    memcpy(&c, from, sizeof c);
    vec16 digit = (vec16)(c - '0' < 10), letter = (vec16)((c | 0x20) - 'a' < 6);
    vec16 value = (c & 0x0f) + (letter & 9); /* 'a' & 15 is 1 */
    pairs8 pair = (pairs8)value;
    /* The first digit is the high half of the byte. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    vec8 byte = __builtin_convertvector(pair >> 4 | pair, vec8);
#else
    vec8 byte = __builtin_convertvector(pair << 4 | pair >> 8, vec8);
#endif
    memcpy(to, &byte, sizeof byte);
    return ~(digit | letter);
}

static bool is_zero(vec16 v)
{
    uint64_t half[2];
    memcpy(half, &v, sizeof half);
    return !(half[0] | half[1]);
}

static bool unhex(struct slice *key, char *to)
{
    const char *from = key->data;
    size_t len = key->len;
    if (len % 2)
        return false;
    key->data = to;
    key->len = len / 2;
    if (len >= 16) {
        vec16 wrong = {0};
        for (size_t i = 0; i + 16 < len; i += 16)
            wrong |= unhex16(from + i, to + i / 2);
        return is_zero(wrong | unhex16(from + len - 16, to + len / 2 - 8));
    }
    unsigned all = 0;
    for (size_t i = 0; i < len; i += 2) {
        unsigned high = hex_value(from[i]), low = hex_value(from[i + 1]);
        all |= high | low;
        to[i / 2] = (char)(high << 4 | low);
    }
    return all < 16;
}

enum key_verdict prepare_key(struct slice *key, const struct key_rule *rule, char *to)
{
    if (rule->prep & PREP_TRIM)
        trim(key);
    /* Case does not matter to digits, so no folding first. */
    if (rule->digested)
        return unhex(key, to) ? KEY_GOOD : KEY_NO_DIGEST;
    if (rule->prep & PREP_HEX) {
        if (!unhex(key, to))
            return KEY_NOT_HEX;
        return rule->key_len == 0 || key->len == rule->key_len ? KEY_GOOD : KEY_WRONG_LEN;
    }
    if (rule->prep & PREP_CASE)
        fold_case(key, folded_from(rule->prep), to);
    return KEY_GOOD;
}

bool prepare_copies(const struct key_rule *rule)
{
    return rule->digested || (rule->prep & (PREP_CASE | PREP_HEX));
}

enum key_verdict prepare_digest(struct slice *key, const struct key_rule *rule,
                                const struct digest *d, char **to)
{
    if (rule->digested)
        return key->len == d->len ? KEY_GOOD : KEY_NO_DIGEST;
    if (!d->make(key->data, key->len, *to))
        return KEY_NOT_DIGESTED;
    *key = (struct slice){*to, d->len};
    *to += d->len;
    return KEY_GOOD;
}

static const char *unprepared_digits(const char *text, size_t len)
{
    bool upper = false, lower = false;
    for (size_t i = 0; i < len; i++) {
        if (hex_value(text[i]) >= 16)
            return "is not hexadecimal";
        upper |= text[i] >= 'A' && text[i] <= 'F';
        lower |= text[i] >= 'a';
    }
    return len % 2 ? "is not hexadecimal" : upper && lower ? "mixes upper and lower case" : NULL;
}

static const char *unprepared_plain(const struct encoding *e, const char *text, size_t len)
{
    char buffer[ENCODE_PLAIN_MAX];
    size_t plain_len;
    const char *plain = e->plain(text, len, buffer, &plain_len);
    if (e->integer == 0)
        return plain == NULL ? "is not UTF-8" : NULL;
    /* Other forms of an integer are longer. */
    bool same = plain != NULL && plain_len == len;
    return same ? NULL : "is not an integer in plain decimal";
}

const char *prepare_differs(uint32_t prep, const char *text, size_t len)
{
    if ((prep & PREP_TRIM) && len > 0 && (byte_is_blank(text[0]) || byte_is_blank(text[len - 1])))
        return "has blanks around it";
    const struct encoding *e = encoding_by_id(prep_encoding(prep));
    if (prep & PREP_HEX) {
        const char *why = unprepared_digits(text, len);
        if (why != NULL || e == NULL || e->integer == 0)
            return why;
        char plain[ENCODE_PLAIN_MAX]; /* the characters of an integer */
        struct slice key = {text, len};
        bool fits = len <= 2 * sizeof plain && unhex(&key, plain);
        return unprepared_plain(e, key.data, fits ? key.len : 0);
    }
    const struct digest *d = digest_by_id(prep_digest(prep));
    if (d != NULL) {
        const char *why = unprepared_digits(text, len);
        return why == NULL && len != 2 * d->len ? d->wrong : why;
    }
    const char first = folded_from(prep);
    for (size_t i = 0; (prep & PREP_CASE) && i < len; i++)
        if (fold1(text[i], first) != text[i])
            return first == 'A' ? "has capital letters" : "has small letters";
    return e != NULL ? unprepared_plain(e, text, len) : NULL;
}

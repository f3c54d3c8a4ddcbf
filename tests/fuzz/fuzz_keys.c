/*
 * Any bytes cut by any rule: the batches must yield what a loop yields that handles one byte after
 * the other. The first five bytes of the input make the rule, the rest are the records.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys/batch.h"
#include "keys/xxh3.h"
#include "store/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)                                                                                 \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond);                     \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static int digit_value(char c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *d = c ? strchr(digits, c) : NULL;
    return d ? (int)(d - digits) % 16 : -1;
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

/* The key of one record, into `key`, which has room; its length, or -1 for none. */
static long reference(const struct key_rule *rule, const char *record, size_t len, char *key)
{
    size_t begin = 0, end = len;
    if (end && record[end - 1] == rule->terminator) {
        end--;
        if (rule->crlf && end && record[end - 1] == '\r')
            end--;
    }
    if (rule->field && !find_field(record, end, rule->field, rule->delimiter, &begin, &end))
        return -1;
    if (rule->prep & PREP_TRIM) {
        while (begin < end && (record[begin] == ' ' || record[begin] == '\t'))
            begin++;
        while (begin < end && (record[end - 1] == ' ' || record[end - 1] == '\t'))
            end--;
    }
    long n = 0;
    for (size_t i = begin; i < end; i++) {
        char c = record[i];
        if ((rule->prep & PREP_FOLD) && c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        key[n++] = c;
    }
    if (!(rule->prep & PREP_HEX))
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

/* Lets the input choose among what this CPU can run. */
static unsigned choose_variant(struct variants *variants, unsigned n)
{
    const struct variant *here[sizeof variants->all / sizeof *variants->all];
    unsigned count = 0;
    for (const struct variant *const *v = variants->all; *v != NULL; v++)
        if (variant_runs_here(*v))
            here[count++] = *v;
    MUST(variant_use(variants, here[n % count]->name));
    return n / count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 5)
        return 0;
    struct key_rule rule = {
        .terminator = data[0] & 1 ? '\n' : (char)data[4],
        .crlf = data[0] & 2,
        .skip_bad = data[0] & 4,
        .prep = (uint32_t)data[0] >> 3 & PREP_FLAGS,
        .field = (int8_t)data[1] / 16,
        .delimiter = (char)data[2],
        .seed = data[3],
    };
    choose_variant(&xxh3_variants, choose_variant(&split_variants, data[3]));
    size_t len = size - 5;
    char *text = malloc(len + !len), *key = malloc(len + 1);
    MUST(text && key);
    memcpy(text, data + 5, len);

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
            bool bad = b->bad[i / 64] >> i % 64 & 1;
            MUST(bad == (key_len < 0));
            MUST(bad || b->hash[i] == xxh3_bytes(key, (size_t)key_len, rule.seed));
            MUST(!bad || rule.skip_bad);
            at += n;
        }
        before += b->n;
    }
    if (b->bad_record) {
        size_t n = record_len(at, end, rule.terminator);
        MUST(!rule.skip_bad && b->n_before == before && reference(&rule, at, n, key) < 0);
    } else {
        MUST(at == end);
    }
    batch_free(b);
    free(text);
    free(key);
    return 0;
}

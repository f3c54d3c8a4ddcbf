/* SPDX-License-Identifier: MIT */
/* From bytes to keys: the hash of each record must be that of the key that its rule makes.
 * tags: portable */
#include <stdint.h>
#include <stdlib.h>

#include "check.h"
#include "keys/batch.h"
#include "foreign/encode.h"
#include "keys/prepare.h"
#include "keys/xxh3.h"
#include "write/writer.h"

#define TEXT(s)       (s), sizeof(s) - 1
#define ENCODED(name) (ENCODE_##name << PREP_ENCODING_SHIFT)

/* Keys are separated by '|' in `want`; a '!' stands for a record without a key. */
struct row {
    int line;
    struct key_rule rule;
    const char *input;
    size_t len;
    const char *want;
    size_t want_len;
};

#define ROW(input, want, ...)                                                                      \
    {                                                                                              \
        __LINE__, {__VA_ARGS__}, TEXT(input), TEXT(want)                                           \
    }

static const struct row rows[] = {
    /* Records. */
    ROW("", "", .terminator = '\n'),
    ROW("\n", "|", .terminator = '\n'),
    ROW("\n\n", "||", .terminator = '\n'),
    ROW("a", "a|", .terminator = '\n'),
    ROW("a\n", "a|", .terminator = '\n'),
    ROW("a\nb", "a|b|", .terminator = '\n'),
    ROW("a\n\nb\n", "a||b|", .terminator = '\n'),
    ROW(" a\tb \n", " a\tb |", .terminator = '\n'),
    ROW("a\0b\n\0\n\xff\n", "a\0b|\0|\xff|", .terminator = '\n'),
    ROW("a\nb\0c\0\0", "a\nb|c||", .terminator = 0),
    ROW("a\nb\0c", "a\nb|c|", .terminator = 0),
    /* CR. */
    ROW("a\r\nb\n\r\n", "a\r|b|\r|", .terminator = '\n'),
    ROW("a\r\nb\n\r\n", "a|b||", .terminator = '\n', .crlf = true),
    ROW("a\r\r\n\rb\r\n", "a\r|\rb|", .terminator = '\n', .crlf = true),
    ROW("a\r\nb\r", "a|b\r|", .terminator = '\n', .crlf = true),
    /* Fields from the left. */
    ROW("a,b,c\n", "a|", .terminator = '\n', .field = {1}, .delimiter = ','),
    ROW("a,b,c\n", "b|", .terminator = '\n', .field = {2}, .delimiter = ','),
    ROW("a,b,c\n", "c|", .terminator = '\n', .field = {3}, .delimiter = ','),
    ROW("a,b,c\n", "!|", .terminator = '\n', .field = {4}, .delimiter = ',', .skip_bad = true),
    ROW("\na\n,\n,,\n", "!|a|!|!|", .terminator = '\n', .field = {1}, .delimiter = ',',
        .skip_bad = true),
    ROW("\na\n,\n,,\n", "!|!|!|!|", .terminator = '\n', .field = {2}, .delimiter = ',',
        .skip_bad = true),
    ROW("a,b\nc\nd,e,f", "b|!|e|", .terminator = '\n', .field = {2}, .delimiter = ',',
        .skip_bad = true),
    /* Fields from the right. */
    ROW("a,b,c\n", "c|", .terminator = '\n', .field = {-1}, .delimiter = ','),
    ROW("a,b,c\n", "b|", .terminator = '\n', .field = {-2}, .delimiter = ','),
    ROW("a,b,c\n", "a|", .terminator = '\n', .field = {-3}, .delimiter = ','),
    ROW("a,b,c\n", "!|", .terminator = '\n', .field = {-4}, .delimiter = ',', .skip_bad = true),
    ROW("\na\n,\n,a\na,\n", "!|a|!|a|!|", .terminator = '\n', .field = {-1}, .delimiter = ',',
        .skip_bad = true),
    ROW("a\n,\n,a\nb,", "!|!|!|b|", .terminator = '\n', .field = {-2}, .delimiter = ',',
        .skip_bad = true),
    /* Several, joined in the order of the list. */
    ROW("a,b,c\n", "a,c|", .terminator = '\n', .field = {1, 3}, .delimiter = ','),
    ROW("a,b,c\n", "c,a|", .terminator = '\n', .field = {3, 1}, .delimiter = ','),
    ROW("a,b,c\nd", "b,c,a|!|", .terminator = '\n', .field = {2, -1, -3}, .delimiter = ',',
        .skip_bad = true),
    ROW("a,b\na\n,\n", "b,b,a,a|!|!|", .terminator = '\n', .field = {2, -1, 1, -2},
        .delimiter = ',', .skip_bad = true),
    ROW(",a\na,\n,\n", ",a|a,|!|", .terminator = '\n', .field = {1, 2}, .delimiter = ',',
        .skip_bad = true),
    ROW("a,b\r\nc,d\r", "b,a|d\r,c|", .terminator = '\n', .crlf = true, .field = {2, 1},
        .delimiter = ','),
    ROW(" A , B \n", "b , a|", .terminator = '\n', .field = {2, 1}, .delimiter = ',',
        .prep = PREP_TRIM | PREP_FOLD),
    ROW("404b\n", "@K|", .terminator = '\n', .field = {1, 2}, .delimiter = '0', .prep = PREP_HEX),
    ROW("b;\xc3\xa9;a\nc", "a\0;\0b\0|!|", .terminator = '\n', .field = {3, 1}, .delimiter = ';',
        .prep = ENCODED(UTF16), .skip_bad = true),
    /* A field and all that follow. */
    ROW("a,b,c\na,b\na\nb,,\nb,,c", "b,c|b|!|!|,c|", .terminator = '\n', .field = {2}, .rest = true,
        .delimiter = ',', .skip_bad = true),
    ROW("a,b,c,d,\na,b,c\na,,,\n", "a,c,d,|a,c|a,,|", .terminator = '\n', .field = {1, 3},
        .rest = true, .delimiter = ','),
    ROW("a,b,c\r\n", "c,b,c|", .terminator = '\n', .crlf = true, .field = {-1, 2}, .rest = true,
        .delimiter = ','),
    ROW("a  b \t c d \nb\n\na  b", "b c d|!|!|b|", .terminator = '\n', .field = {2}, .rest = true,
        .whitespace = true, .skip_bad = true),
    ROW(" a b  c d\r\n", "d a b c d|", .terminator = '\n', .crlf = true, .field = {-1, 1},
        .rest = true, .whitespace = true),
    /* Comments. */
    ROW("#a\n a\n#\na#\n\n#", "!| a|!|a#||!|", .terminator = '\n', .comments = true),
    ROW("#a\0\n#b\0", "!|\n#b|", .terminator = 0, .comments = true),
    ROW("#,a\nb,#a\n", "!|#a|", .terminator = '\n', .comments = true, .field = {2},
        .delimiter = ','),
    /* Runs of blanks. */
    ROW("a b\n \t a\t b \nb\n \n\n", "b|b|!|!|!|", .terminator = '\n', .field = {2},
        .whitespace = true, .skip_bad = true),
    ROW("a b\n \t a\t b \nb\n \n\n", "a|a|b|!|!|", .terminator = '\n', .field = {1},
        .whitespace = true, .skip_bad = true),
    ROW("a b\n \t a\t b \nb\n \n\n", "b|b|b|!|!|", .terminator = '\n', .field = {-1},
        .whitespace = true, .skip_bad = true),
    ROW("a b\n \t a\t b \nb\n \nx y z", "a|a|!|!|y|", .terminator = '\n', .field = {-2},
        .whitespace = true, .skip_bad = true),
    ROW("a  bb\tc \r\n d e f", "c bb bb|f d e|", .terminator = '\n', .field = {3, -3, 2},
        .whitespace = true),
    ROW("a  bb\tc\r\n d e f\r", "c a bb|f\r d e|", .terminator = '\n', .crlf = true,
        .field = {3, -3, 2}, .whitespace = true),
    ROW("A  b\0", "b A|", .terminator = 0, .field = {2, 1}, .whitespace = true),
    /* Any byte may delimit. */
    ROW("a\0b\n", "b|", .terminator = '\n', .field = {2}, .delimiter = 0),
    ROW("a\xff"
        "b\n",
        "b|", .terminator = '\n', .field = {-1}, .delimiter = (char)0xff),
    ROW("a\nb\0", "b|", .terminator = 0, .field = {2}, .delimiter = '\n'),
    /* Trim, fold, hex. */
    ROW(" \ta b\t \n \n\n\va\n", "a b|||\va|", .terminator = '\n', .prep = PREP_TRIM),
    ROW("AbZ@[`{\n\xc9\n", "abz@[`{|\xc9|", .terminator = '\n', .prep = PREP_FOLD),
    ROW("aBy@[`{\nz0123456789abcde\nabcdefg\n", "ABY@[`{|Z0123456789ABCDE|ABCDEFG|",
        .terminator = '\n', .prep = PREP_UPPER),
    ROW("4a\n4A4b\n\n00fF\n", "J|JK||\0\xff|", .terminator = '\n', .prep = PREP_HEX),
    ROW("4\n4a4\n4g\n 4a\n4a \n0x4a\n4a", "!|!|!|!|!|!|J|", .terminator = '\n', .prep = PREP_HEX,
        .skip_bad = true),
    /* And their order. */
    ROW(" A ; B \r\n", "b|", .terminator = '\n', .crlf = true, .field = {2}, .delimiter = ';',
        .prep = PREP_TRIM | PREP_FOLD),
    ROW("4A:1\r\n 4b :2\r\n", "J|K|", .terminator = '\n', .crlf = true, .field = {1},
        .delimiter = ':', .prep = PREP_TRIM | PREP_FOLD | PREP_HEX),
    ROW("x\r\n", "x\r|", .terminator = '\n', .prep = PREP_TRIM),
    ROW(" \r\n", "|", .terminator = '\n', .crlf = true, .prep = PREP_TRIM),
    ROW("a \nb c\n", "!|c|", .terminator = '\n', .field = {2}, .delimiter = ' ', .skip_bad = true),
    ROW("a, \t\n", "!|", .terminator = '\n', .field = {2}, .delimiter = ',', .prep = PREP_TRIM,
        .skip_bad = true),
    ROW(" a \n", "a|", .terminator = '\n', .field = {2}, .delimiter = ' ', .prep = PREP_TRIM),
    /* Encodings, which come last. */
    ROW("ab\n\n\xc3\xa9", "a\0b\0||\xe9\0|", .terminator = '\n', .prep = ENCODED(UTF16)),
    ROW("a\n\xc3\nb", "a|!|b|", .terminator = '\n', .prep = ENCODED(UTF8), .skip_bad = true),
    ROW("7\n 7\n-0\n\n99999999999", "\7\0\0\0|!|\0\0\0\0|!|!|", .terminator = '\n',
        .prep = ENCODED(INT32), .skip_bad = true),
    ROW(" +07\r\n", "7|", .terminator = '\n', .crlf = true, .prep = PREP_TRIM | ENCODED(DECIMAL)),
    ROW("1;+2\n3\n4;x\n5;6", "2|!|!|6|", .terminator = '\n', .field = {2}, .delimiter = ';',
        .prep = ENCODED(DECIMAL32), .skip_bad = true),
    ROW("\1\n\1\2A\n", "\"\\u0001\"|\"\\u0001\\u0002a\"|", .terminator = '\n',
        .prep = PREP_FOLD | ENCODED(JSON)),
    ROW("C3A9\nff\nf\n0a41\n", "\xe9\0|!|!|\n\0A\0|", .terminator = '\n',
        .prep = PREP_HEX | ENCODED(UTF16), .skip_bad = true),
    ROW("313\n2b37\n2B3\n", "!|\7\0\0\0\0\0\0\0|!|", .terminator = '\n',
        .prep = PREP_HEX | ENCODED(INT64), .skip_bad = true),
    ROW("AB\nc",
        "\3a\xe2|\3\x82"
        "c|",
        .terminator = '\n', .prep = PREP_FOLD | ENCODED(KRYO5)),
};

/* Are these the bytes of the keys? Those of bad records are empty. */
static bool are_bytes(const struct writer_keys *keys, const char *want, size_t want_len)
{
    const struct hashes h = writer_keys_hashes(keys);
    const char *w = want;
    for (size_t i = 0; i < keys->n; i++) {
        const char *bar = memchr(w, '|', (size_t)(want + want_len - w));
        bool bad = keys->known[i / 64] >> i % 64 & 1;
        size_t len = bad ? 0 : (size_t)(bar - w);
        const struct key_bytes *key = hashes_from(h, i).bytes;
        if (key == NULL || key->len != len || memcmp(key->data, w, len) != 0)
            return false;
        w = bar + 1;
    }
    return true;
}

/* Does the batch yield these keys for input, which is copied to a block of just its size? */
static bool yields(const struct key_rule *plain_rule, const char *input, size_t len,
                   const char *want, size_t want_len)
{
    char *copy = malloc(len + !len);
    struct key_rule with_bytes = *plain_rule, *rule = &with_bytes;
    rule->bytes = true;
    struct batch *b = batch_new(rule);
    struct writer_keys keys = {0};
    memcpy(copy, input, len);
    batch_start(b, copy, len);
    const char *w = want, *record = copy;
    bool ok = true;
    size_t before = 0, n_bad = 0;
    while (batch_next(b)) {
        ok &= b->n_before == before;
        for (size_t i = 0; i < b->n && ok; i++) {
            const char *bar = memchr(w, '|', (size_t)(want + want_len - w));
            if (!bar)
                return false;
            bool bad = bar == w + 1 && *w == '!';
            ok &= bad == (b->bad[i / 64] >> i % 64 & 1) && b->record[i] == record;
            ok &= bad || b->hash[i] == xxh3_bytes(w, (size_t)(bar - w), rule->seed.number);
            record = b->record[i + 1];
            n_bad += bad;
            w = bar + 1;
        }
        ok &= b->n_bad + b->n_comments == n_bad && writer_keys_take(&keys, b);
        before += b->n;
    }
    ok &= !b->bad_record && w == want + want_len && record == copy + len;
    ok = ok && are_bytes(&keys, want, want_len);
    writer_keys_free(&keys);
    batch_free(b);
    free(copy);
    return ok;
}

/* The encodings of other programs may be left out (WITH_FOREIGN=no). */
static bool is_built(uint32_t prep)
{
    return prep_encoding(prep) == ENCODE_NONE || encoding_by_id(prep_encoding(prep)) != NULL;
}

TEST(rules_make_the_keys_they_should)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        struct key_rule rule = r->rule;
        for (rule.seed.number = 0; rule.seed.number < 2; rule.seed.number++)
            if (is_built(rule.prep) && !yields(&rule, r->input, r->len, r->want, r->want_len)) {
                printf("# the row of line %d\n", r->line);
                CHECK(false);
            }
    }
}

/* The n records of one digit, in order, whatever the batches. */
TEST(many_records_come_in_batches)
{
    static const size_t counts[] = {1, 255, 256, 257, 511, 512, 513, 4096, 10001};
    for (unsigned open_end = 0; open_end < 2; open_end++)
        for (unsigned empty = 0; empty < 2; empty++)
            for (unsigned crlf = 0; crlf < 2; crlf++)
                for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                    size_t n = counts[c], len = 0, want_len = 0;
                    char *input = malloc(2 * n), *want = malloc(2 * n);
                    for (size_t i = 0; i < n; i++) {
                        if (!empty || (open_end && i == n - 1))
                            input[len++] = want[want_len++] = (char)('0' + i % 10);
                        input[len++] = '\n';
                        want[want_len++] = '|';
                    }
                    struct key_rule rule = {.terminator = '\n', .crlf = crlf};
                    CHECK(yields(&rule, input, len - open_end, want, want_len));
                    free(input);
                    free(want);
                }
}

/* Whether a batch has made other keys since, and where the key lies. */
/* In a full batch an empty record is told from the lengths of all. */
TEST(empty_records_are_counted_wherever_they_are)
{
    const struct key_rule rule = {.terminator = '\n'};
    struct batch *b = batch_new(&rule);
    for (size_t at = 0; at <= BATCH_MAX; at++) {
        char text[2 * BATCH_MAX];
        size_t len = 0;
        for (size_t i = 0; i < BATCH_MAX; i++) {
            if (i != at)
                text[len++] = 'a';
            text[len++] = '\n';
        }
        batch_start(b, text, len);
        CHECK(batch_next(b) && b->n == BATCH_MAX);
        CHECK(batch_count_empty(b) == (at < BATCH_MAX));
    }
    batch_free(b);
}

TEST(bytes_of_keys_stay_when_the_batch_is_used_again)
{
    enum { N = 3 * BATCH_MAX };
    static char input[6 * N], want[6 * N];
    static const uint32_t preps[] = {0, PREP_TRIM, PREP_FOLD, ENCODED(DECIMAL)};
    size_t len = 0;
    for (unsigned i = 0; i < N; i++)
        len += (size_t)sprintf(input + len, "%04u\n", i);
    for (size_t p = 0; p < sizeof preps / sizeof *preps; p++) {
        size_t want_len = 0;
        for (unsigned i = 0; i < N; i++)
            want_len +=
                (size_t)sprintf(want + want_len, preps[p] == ENCODED(DECIMAL) ? "%u|" : "%04u|", i);
        struct key_rule rule = {.terminator = '\n', .prep = preps[p]};
        CHECK(!is_built(preps[p]) || yields(&rule, input, len, want, want_len));
    }
}

TEST(good_keys_keep_their_bytes)
{
    struct key_rule rule = {.terminator = '\n', .prep = PREP_HEX, .skip_bad = true, .bytes = true};
    struct batch *b = batch_new(&rule);
    batch_start(b, TEXT("41\nx\n42\n"));
    CHECK(batch_next(b) && batch_keep_good(b) == 2);
    const struct hashes h = batch_hashes(b);
    CHECK(h.bytes != NULL && h.bytes[0].data[0] == 'A' && h.bytes[1].data[0] == 'B' &&
          h.bytes[1].len == 1);
    CHECK(h.lane0[1] == xxh3_bytes("B", 1, 0));
    rule.bytes = false;
    CHECK(batch_hashes(b).bytes == NULL);
    batch_free(b);
}

TEST(a_bad_record_ends_the_batches)
{
    static const size_t places[] = {0, 1, 63, 255, 256, 257, 600};
    for (size_t c = 0; c < sizeof places / sizeof *places; c++) {
        char input[4 * 700];
        size_t n = 0, len = 0;
        for (size_t i = 0; i < 700; i++) {
            memcpy(input + len, i == places[c] || i == 650 ? "xy\n" : "4a\n", 3);
            len += 3;
        }
        struct key_rule rule = {.terminator = '\n', .prep = PREP_HEX};
        struct batch *b = batch_new(&rule);
        batch_start(b, input, len);
        while (batch_next(b)) {
            for (size_t i = 0; i < b->n; i++)
                CHECK(b->hash[i] == xxh3_bytes("J", 1, 0));
            n += b->n;
        }
        CHECK(n == places[c]);
        CHECK(b->bad_record && b->n_before == places[c]);
        CHECK_STR(b->bad_reason.text, "not hexadecimal");
        CHECK(!batch_next(b) && b->n_before == places[c]);

        /* A batch may be used again. */
        batch_start(b, "4a\n", 3);
        CHECK(!b->bad_record && batch_next(b) && b->n == 1 && !batch_next(b) && b->n_before == 1);

        rule.skip_bad = true;
        batch_start(b, input, len);
        n = 0;
        for (size_t at = 0; batch_next(b); at += b->n) {
            n = b->n_bad;
            if (places[c] >= at && places[c] < at + b->n) {
                size_t i = places[c] - at;
                CHECK(b->bad[i / 64] >> i % 64 & 1);
            }
        }
        CHECK(n == 2 && !b->bad_record && b->n_before == 700);
        batch_free(b);
    }
}

TEST(what_makes_no_key_is_named)
{
    static const struct {
        uint32_t prep;
        int field[3];
        const char *record, *reason;
    } cases[] = {
        {PREP_HEX, {3}, "a\tb", "has no field 3 (--skip-bad skips such records)"},
        {PREP_HEX, {-3}, "a\tb", "has no field -3 (--skip-bad skips such records)"},
        {PREP_HEX, {2, -4}, "a\tb", "has no field -4 (--skip-bad skips such records)"},
        {PREP_HEX, {1, 2}, "\t", "all fields of the key are empty (--skip-bad skips such records)"},
        {PREP_HEX, {1}, "\t", "field 1 is empty (--skip-bad skips such records)"},
        {ENCODED(UTF16), {0}, "\x80", "not UTF-8"},
        {PREP_TRIM | ENCODED(KRYO5_INT), {0}, "2147483648", "not an integer of 32 bits"},
        {PREP_HEX | ENCODED(DECIMAL), {0}, "xx", "not hexadecimal"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!is_built(cases[i].prep))
            continue;
        struct key_rule rule = {.terminator = '\n', .delimiter = '\t', .prep = cases[i].prep};
        memcpy(rule.field, cases[i].field, sizeof cases[i].field);
        struct batch *b = batch_new(&rule);
        batch_start(b, cases[i].record, strlen(cases[i].record));
        CHECK(!batch_next(b) && b->bad_record && b->n_before == 0);
        CHECK_STR(b->bad_reason.text, cases[i].reason);
        batch_free(b);
    }
}

TEST(what_cannot_be_encoded_ends_the_batches)
{
    struct key_rule rule = {.terminator = '\n', .prep = ENCODED(UTF16)};
    struct batch *b = batch_new(&rule);
    batch_start(b, TEXT("a\nb\n\x80\nc\n"));
    CHECK(batch_next(b) && b->n == 2 && b->hash[1] == xxh3_bytes("b\0", 2, 0));
    CHECK(!batch_next(b) && b->bad_record && b->n_before == 2);
    batch_free(b);
}

static bool text_is(const struct batch *b, size_t i, const char *want, size_t want_len)
{
    char plain[ENCODE_PLAIN_MAX];
    size_t len;
    const char *text = batch_text(b, i, plain, &len);
    return len == want_len && memcmp(text, want, len) == 0;
}

/* Two keys as records, with every preparation and encoding: what is hashed and what is listed. */
static bool next_of(struct batch *b, const char *text, const char *end)
{
    batch_start(b, text, (size_t)(end - text));
    return batch_next(b);
}

TEST(an_encoded_key_keeps_its_text)
{
    static const char text[] = " +0A\n-12\n+07";
    const char *const end = text + sizeof text - 1;
    struct key_rule rule = {.terminator = '\n', .skip_bad = true};
    struct batch *b = batch_new(&rule);
    for (uint32_t prep = 0; prep <= (PREP_TRIM | PREP_FOLD); prep++)
        for (unsigned id = 1; encoding_by_id(id) != NULL; id++) {
            bool integer = encoding_by_id(id)->integer != 0, fold = prep & PREP_FOLD;
            rule.prep = prep | id << PREP_ENCODING_SHIFT;
            CHECK(next_of(b, text, end) && b->n_bad == integer);
            for (size_t i = integer; i < 3; i++) {
                size_t len;
                const char *key = batch_key(b, i, &len);
                CHECK(b->hash[i] == xxh3_bytes(key, len, 0));
            }
            CHECK(text_is(b, 1, TEXT("-12")));
            CHECK(integer ? text_is(b, 2, TEXT("7")) : text_is(b, 2, TEXT("+07")));
            if (!integer && prep & PREP_TRIM)
                CHECK(fold ? text_is(b, 0, TEXT("+0a")) : text_is(b, 0, TEXT("+0A")));
        }
    rule.prep = PREP_FOLD;
    CHECK(next_of(b, text, end) && text_is(b, 0, TEXT(" +0a")));
    rule.prep = 0;
    CHECK(next_of(b, text, end) && text_is(b, 0, TEXT(" +0A")));
    batch_free(b);
}

/* Each encoding makes of these as many bytes as it ever does. */
TEST(encoded_keys_have_room)
{
    static const struct {
        uint32_t encoding;
        char byte;
        unsigned per_byte;
    } rows_of[] = {{ENCODED(UTF16), 'a', 2}, {ENCODED(JSON), 1, 6}};
    for (size_t r = 0; r < 2; r++) {
        struct key_rule rule = {.terminator = '\n', .prep = PREP_FOLD | rows_of[r].encoding};
        struct batch *b = batch_new(&rule);
        static char text[300 * 40];
        size_t len = 0, n = 0;
        for (size_t i = 0; i < 300; i++) {
            memset(text + len, rows_of[r].byte, i % 40);
            len += i % 40;
            text[len++] = '\n';
        }
        for (batch_start(b, text, len); batch_next(b); n += b->n)
            for (size_t i = 0; i < b->n; i++) {
                size_t fixed = encoding_by_id(prep_encoding(rule.prep))->fixed, key_len;
                batch_key(b, i, &key_len);
                CHECK(key_len == fixed + rows_of[r].per_byte * ((n + i) % 40));
            }
        CHECK(n == 300);
        batch_free(b);
    }
}

/* Makes the one record of a batch, which has room for it. Its key's hash in *hash. */
static bool take_given(struct batch *b, const char *key, size_t len, uint64_t *hash)
{
    char record[200];
    memcpy(record, key, len);
    record[len] = b->rule->terminator;
    bool ok = next_of(b, record, record + len + 1);
    CHECK(ok == (b->n == 1) && ok == !b->bad_record);
    *hash = ok ? b->hash[0] : 0;
    return ok;
}

/* Every byte at every place of keys of many lengths. */
TEST(fold_changes_letters_and_nothing_else)
{
    struct key_rule rule = {.prep = PREP_FOLD, .given = true};
    struct batch *b = batch_new(&rule);
    for (size_t len = 0; len < 70; len++)
        for (unsigned c = 0; c < 256; c++) {
            char key[70], want[70];
            for (size_t i = 0; i < len; i++) {
                key[i] = (char)(c + i);
                want[i] = key[i];
                if (key[i] >= 'A' && key[i] <= 'Z')
                    want[i] = (char)(key[i] - 'A' + 'a');
            }
            uint64_t hash = 0;
            rule.terminator = (char)(c - 1); /* not in the key */
            CHECK(take_given(b, key, len, &hash) && hash == xxh3_bytes(want, len, 0));
        }
    batch_free(b);
}

TEST(hex_spells_every_byte)
{
    struct key_rule rule = {.prep = PREP_HEX, .given = true};
    struct batch *b = batch_new(&rule);
    for (size_t len = 0; len < 80; len += 2)
        for (unsigned c = 0; c < 256; c++) {
            char upper[84], lower[84], want[40];
            for (size_t i = 0; i < len / 2; i++) {
                want[i] = (char)(c + 37 * i);
                snprintf(upper + 2 * i, 3, "%02X", (unsigned char)want[i]);
                snprintf(lower + 2 * i, 3, "%02x", (unsigned char)want[i]);
            }
            uint64_t hash = 0;
            CHECK(take_given(b, upper, len, &hash) && hash == xxh3_bytes(want, len / 2, 0));
            hash = 0;
            CHECK(take_given(b, lower, len, &hash) && hash == xxh3_bytes(want, len / 2, 0));
        }
    batch_free(b);
}

TEST(hex_takes_nothing_but_digits)
{
    struct key_rule rule = {.prep = PREP_HEX, .given = true};
    struct batch *b = batch_new(&rule);
    for (size_t len = 2; len < 70; len += len < 40 ? 2 : 14)
        for (size_t at = 0; at < len; at++)
            for (unsigned c = 0; c < 256; c++) {
                char key[70];
                memset(key, '7', sizeof key);
                key[at] = (char)c;
                bool digit =
                    (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
                uint64_t hash;
                rule.terminator = c == 0 ? '\n' : 0;
                CHECK(take_given(b, key, len, &hash) == digit);
            }
    for (size_t len = 1; len < 70; len += 2) {
        char key[70];
        uint64_t hash;
        memset(key, '7', sizeof key);
        b->bad_reason.text[0] = 0;
        CHECK(!take_given(b, key, len, &hash));
        CHECK_STR(b->bad_reason.text, "not hexadecimal");
    }
    batch_free(b);
}

static bool key_is(const struct batch *b, size_t i, const char *want, size_t want_len)
{
    size_t len;
    const char *key = batch_key(b, i, &len);
    return len == want_len && memcmp(key, want, len) == 0;
}

TEST(a_key_given_as_such_is_prepared_but_not_cut)
{
    struct key_rule rule = {.terminator = '\n',
                            .crlf = true,
                            .field = {2},
                            .delimiter = ',',
                            .prep = PREP_TRIM | PREP_FOLD,
                            .given = true,
                            .seed.number = 5};
    struct batch *b = batch_new(&rule);
    uint64_t hash;
    CHECK(take_given(b, TEXT(" A,b \r"), &hash));
    CHECK(hash == xxh3_bytes(TEXT("a,b \r"), 5));
    rule.prep = 0;
    CHECK(take_given(b, "", 0, &hash) && hash == xxh3_bytes("", 0, 5));
    batch_free(b);
}

/* What batch_key has is what is hashed. */
TEST(a_batch_of_records)
{
    static const char text[] = "1,\tA\r\n2,bb\n\n3,c\r";
    const char *const end = text + sizeof text - 1;
    struct key_rule rule = {.terminator = '\n', .seed.number = 7};
    struct batch *b = batch_new(&rule);
    CHECK(next_of(b, text, end) && b->n == 4);
    CHECK(key_is(b, 0, TEXT("1,\tA\r")) && key_is(b, 1, TEXT("2,bb")) && key_is(b, 2, "", 0));
    CHECK(key_is(b, 3, TEXT("3,c\r"))); /* it has no terminator */
    for (unsigned how = 0; how < 8; how++) {
        rule = (struct key_rule){
            .terminator = '\n', .delimiter = ',', .seed.number = 7, .skip_bad = true};
        rule.crlf = how & 1;
        rule.field[0] = how & 2;
        rule.prep = how & 4 ? PREP_TRIM | PREP_FOLD : 0;
        CHECK(next_of(b, text, end) && b->n == 4 && b->n_bad == (how & 2 ? 1 : 0));
        for (size_t i = 0; i < 4; i++) {
            if (b->bad[0] >> i & 1)
                continue;
            size_t len;
            const char *key = batch_key(b, i, &len);
            CHECK(b->hash[i] == xxh3_bytes(key, len, 7));
        }
        bool cr = !rule.crlf;
        CHECK(rule.field[0] || rule.prep || key_is(b, 0, "1,\tA\r", 4U + cr));
        CHECK(!rule.field[0] || !rule.prep || key_is(b, 0, "a\r", 1U + cr));
        CHECK(!rule.field[0] || key_is(b, 3, TEXT("c\r")));
    }
    rule.field[0] = 2;
    rule.skip_bad = false;
    CHECK(next_of(b, text, end) && b->n == 2 && b->bad_record);
    CHECK_STR(b->bad_reason.text, "has no field 2 (--skip-bad skips such records)");
    CHECK(!next_of(b, text + 11, end) && b->bad_record);
    CHECK(!next_of(b, text, text) && !b->bad_record);
    batch_free(b);
}

TEST(what_cannot_be_a_prepared_key)
{
    CHECK(prepare_differs(0, TEXT(" A\t")) == NULL);
    CHECK(prepare_differs(PREP_TRIM, TEXT("A b")) == NULL);
    CHECK(prepare_differs(PREP_TRIM, "", 0) == NULL);
    CHECK_STR(prepare_differs(PREP_TRIM, TEXT(" a")), "has blanks around it");
    CHECK_STR(prepare_differs(PREP_TRIM, TEXT("a\t")), "has blanks around it");
    CHECK(prepare_differs(PREP_FOLD, TEXT("a@[`{\xc4")) == NULL);
    CHECK_STR(prepare_differs(PREP_FOLD, TEXT("aZ")), "has capital letters");
    CHECK(prepare_differs(PREP_HEX | PREP_FOLD, TEXT("00AF")) == NULL);
    CHECK(prepare_differs(PREP_HEX, TEXT("00af")) == NULL);
    CHECK(prepare_differs(PREP_HEX, "", 0) == NULL);
    CHECK_STR(prepare_differs(PREP_HEX, TEXT("0aF0")), "mixes upper and lower case");
    CHECK_STR(prepare_differs(PREP_HEX, TEXT("012")), "is not hexadecimal");
    CHECK_STR(prepare_differs(PREP_HEX, TEXT("0g")), "is not hexadecimal");
}

TEST(what_cannot_be_a_key_before_it_is_encoded)
{
    CHECK(prepare_differs(ENCODED(UTF16), TEXT("a \xc3\xa9")) == NULL);
    CHECK_STR(prepare_differs(ENCODED(UTF16), TEXT("\xa9")), "is not UTF-8");
    CHECK_STR(prepare_differs(PREP_FOLD | ENCODED(JSON), TEXT("A")), "has capital letters");
    CHECK(prepare_differs(ENCODED(INT32), TEXT("-12")) == NULL);
    static const char *const not_plain[] = {"",   "+1", "01",         "-0",
                                            "1 ", "x",  "2147483648", "-12345678901234567890"};
    for (size_t i = 0; i < sizeof not_plain / sizeof *not_plain; i++)
        CHECK_STR(prepare_differs(ENCODED(INT32), not_plain[i], strlen(not_plain[i])),
                  "is not an integer in plain decimal");
    CHECK(prepare_differs(PREP_HEX | ENCODED(INT64), TEXT("2d37")) == NULL);
    CHECK(prepare_differs(PREP_HEX | ENCODED(INT64),
                          TEXT("2d39323233333732303336383534373735383038")) == NULL);
    CHECK(prepare_differs(PREP_HEX | ENCODED(UTF8), TEXT("2b37")) == NULL);
    CHECK_STR(prepare_differs(PREP_HEX | ENCODED(INT64), TEXT("2b37")),
              "is not an integer in plain decimal");
    CHECK_STR(prepare_differs(PREP_HEX | ENCODED(INT64),
                              TEXT("303030303030303030303030303030303030303030")),
              "is not an integer in plain decimal");
    CHECK_STR(prepare_differs(PREP_HEX | ENCODED(INT64), TEXT("3g")), "is not hexadecimal");
}

TEST(a_record_may_be_very_long)
{
    size_t len = 9 << 20;
    char *input = malloc(len + 3), *want = malloc(len + 3);
    memset(input, 'A', len);
    memset(want, 'a', len);
    memcpy(input + len, "\nB\n", 3);
    memcpy(want + len, "|b|", 3);
    struct key_rule rule = {.terminator = '\n', .prep = PREP_FOLD};
    CHECK(yields(&rule, input, len + 3, want, len + 3));
    rule.prep = PREP_HEX;
    memset(want, 0xaa, len / 2);
    memcpy(want + len / 2, "|!|", 3);
    rule.skip_bad = true;
    CHECK(yields(&rule, input, len + 3, want, len / 2 + 3));
    memset(input, '0', len);
    rule.prep = ENCODED(DECIMAL);
    CHECK(!is_built(rule.prep) || yields(&rule, input, len + 3, TEXT("0|!|")));
    free(input);
    free(want);
}

int main(void)
{
    RUN(rules_make_the_keys_they_should);
    RUN(many_records_come_in_batches);
    RUN(empty_records_are_counted_wherever_they_are);
    RUN(bytes_of_keys_stay_when_the_batch_is_used_again);
    RUN(good_keys_keep_their_bytes);
    RUN(a_bad_record_ends_the_batches);
    RUN(what_makes_no_key_is_named);
    if (is_built(ENCODED(UTF8))) {
        RUN(what_cannot_be_encoded_ends_the_batches);
        RUN(an_encoded_key_keeps_its_text);
        RUN(encoded_keys_have_room);
        RUN(what_cannot_be_a_key_before_it_is_encoded);
    }
    RUN(fold_changes_letters_and_nothing_else);
    RUN(hex_spells_every_byte);
    RUN(hex_takes_nothing_but_digits);
    RUN(a_key_given_as_such_is_prepared_but_not_cut);
    RUN(a_batch_of_records);
    RUN(what_cannot_be_a_prepared_key);
    RUN(a_record_may_be_very_long);
    return check_done();
}

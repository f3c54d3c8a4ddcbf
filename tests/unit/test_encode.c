/* SPDX-License-Identifier: MIT */
/* Encodings against what other programs make of the same keys, and at their edges.
 * tags: portable foreign */
#include <stdint.h>
#include <stdlib.h>

#include "check.h"
#include "foreign/encode.h"

#define TEXT(s) (s), sizeof(s) - 1

/* Encodes a copy of the key, into memory of just the size that the encoding asks for. The caller
 * frees it. NULL: a bad key. */
static char *encoded(const struct encoding *e, const char *key, size_t len, size_t *out_len)
{
    size_t room = e->fixed + e->per_byte * len;
    char *copy = malloc(len + !len), *out = malloc(room + !room);
    memcpy(copy, key, len);
    const char *got = e->encode(copy, len, out, out_len);
    if (got == copy) {
        free(out);
        return copy;
    }
    free(copy);
    if (got != NULL) {
        CHECK(got == out && *out_len <= room);
        return out;
    }
    free(out);
    return NULL;
}

static bool gives(const struct encoding *e, const char *key, size_t len, const char *want,
                  size_t want_len)
{
    size_t got_len;
    char *got = encoded(e, key, len, &got_len);
    bool same = got != NULL && got_len == want_len && memcmp(got, want, want_len) == 0;
    free(got);
    return same;
}

static bool is_bad(unsigned id, const char *key, size_t len)
{
    size_t got_len;
    char *got = encoded(encoding_by_id(id), key, len, &got_len);
    free(got);
    return got == NULL;
}

static size_t hex(const char *digits, char *out)
{
    size_t n = 0;
    for (unsigned byte; sscanf(digits + 2 * n, "%2x", &byte) == 1; n++)
        out[n] = (char)byte;
    return n;
}

/* "length:first bytes", and perhaps ":last bytes". */
static bool agrees(const struct encoding *e, const char *key, size_t len, const char *want)
{
    char digits[2][41] = {"", ""}, bytes[20];
    size_t want_len, got_len;
    bool ok = sscanf(want, "%zu:%40[0-9a-f]:%40[0-9a-f]", &want_len, digits[0], digits[1]) >= 2;
    char *got = encoded(e, key, len, &got_len);
    ok = ok && got != NULL && got_len == want_len;
    for (int end = 0; end < 2 && ok; end++) {
        size_t n = hex(digits[end], bytes);
        ok = n <= got_len && memcmp(got + (end ? got_len - n : 0), bytes, n) == 0;
    }
    free(got);
    return ok;
}

static FILE *open_vectors(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", VECTORS, name);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        perror(path);
    return f;
}

/* Reads a line without its newline. */
static bool read_line(FILE *f, char **line, size_t *room, size_t *len)
{
    ssize_t n = getline(line, room, f);
    if (n < 0)
        return false;
    *len = (size_t)n - ((*line)[n - 1] == '\n');
    (*line)[*len] = '\0';
    return true;
}

static const struct encoding *by_name(const char *name)
{
    const struct encoding *e = encoding_list_foreign;
    while (e->id != ENCODE_NONE && strcmp(e->name, name) != 0)
        e++;
    return e->id != ENCODE_NONE ? e : NULL;
}

/* Returns how many values were compared. */
static unsigned compare_all(const char *vectors, const char *keys)
{
    enum { MAX_COLUMNS = 8 };
    const struct encoding *column[MAX_COLUMNS] = {NULL};
    FILE *vector_file = open_vectors(vectors), *key_file = open_vectors(keys);
    char *line = NULL, *key = NULL;
    size_t line_room = 0, key_room = 0, line_len = 0, key_len = 0;
    unsigned compared = 0;
    bool head = true;
    CHECK(vector_file != NULL && key_file != NULL);
    while (vector_file != NULL && key_file != NULL &&
           read_line(vector_file, &line, &line_room, &line_len)) {
        if (line[0] == '#')
            continue;
        if (!head && !read_line(key_file, &key, &key_room, &key_len))
            break;
        size_t i = 0;
        for (char *at = line, *field; (field = strsep(&at, " ")) != NULL && i < MAX_COLUMNS; i++) {
            if (head) {
                column[i] = by_name(field);
                CHECK(column[i] != NULL);
            } else if (column[i] != NULL) {
                bool same = agrees(column[i], key, key_len, field);
                if (!same)
                    printf("# %s of '%.60s': want %s\n", column[i]->name, key, field);
                CHECK(same);
                compared++;
            }
        }
        head = false;
    }
    free(line);
    free(key);
    if (vector_file != NULL)
        fclose(vector_file);
    if (key_file != NULL)
        fclose(key_file);
    return compared;
}

TEST(text_is_encoded_as_other_programs_do)
{
    CHECK(compare_all("encode/text", "keys/keys.txt") == 20 * 4);
}

TEST(integers_are_encoded_as_other_programs_do)
{
    CHECK(compare_all("encode/integers", "keys/longs.txt") == 20 * 3);
}

struct row {
    int line;
    unsigned id;
    const char *key;
    size_t len;
    const char *want;
    size_t want_len;
};

#define ROW(id, key, want)                                                                         \
    {                                                                                              \
        __LINE__, id, TEXT(key), TEXT(want)                                                        \
    }
#define ROW_32 "abcdefghijklmnopqrstuvwxyzABCDEF"

static const struct row rows[] = {
    ROW(ENCODE_UTF8, "", ""),
    ROW(ENCODE_UTF8, "a\0\x7f\xc2\x80\xef\xbf\xbf", "a\0\x7f\xc2\x80\xef\xbf\xbf"),
    ROW(ENCODE_UTF16, "", ""),
    ROW(ENCODE_UTF16, "a\0", "a\0\0\0"),
    ROW(ENCODE_UTF16, "\xf4\x8f\xbf\xbf", "\xff\xdb\xff\xdf"),
    ROW(ENCODE_INT32, "0", "\0\0\0\0"),
    ROW(ENCODE_INT32, "-0", "\0\0\0\0"),
    ROW(ENCODE_INT32, "+0000000000007", "\7\0\0\0"),
    ROW(ENCODE_INT32, "-1", "\xff\xff\xff\xff"),
    ROW(ENCODE_INT32, "2147483647", "\xff\xff\xff\x7f"),
    ROW(ENCODE_INT32, "-2147483648", "\0\0\0\x80"),
    ROW(ENCODE_INT64, "-00", "\0\0\0\0\0\0\0\0"),
    ROW(ENCODE_INT64, "+9223372036854775807", "\xff\xff\xff\xff\xff\xff\xff\x7f"),
    ROW(ENCODE_INT64, "-000009223372036854775808", "\0\0\0\0\0\0\0\x80"),
    ROW(ENCODE_DECIMAL, "-0", "0"),
    ROW(ENCODE_DECIMAL, "+0012", "12"),
    ROW(ENCODE_DECIMAL, "-9223372036854775808", "-9223372036854775808"),
    ROW(ENCODE_DECIMAL32, "-02147483648", "-2147483648"),
    ROW(ENCODE_DECIMAL32, "+2147483647", "2147483647"),
    ROW(ENCODE_JSON, "", "\"\""),
    ROW(ENCODE_JSON, "\b\t\n\f\r\"\\/\x7f'", "\"\\b\\t\\n\\f\\r\\\"\\\\/\x7f'\""),
    ROW(ENCODE_JSON, "\0\1\x0b\x0e\x1f", "\"\\u0000\\u0001\\u000B\\u000E\\u001F\""),
    ROW(ENCODE_JSON, "0123456\"89abcdef0123\\56789\x1f",
        "\"0123456\\\"89abcdef0123\\\\56789\\u001F\""),
    ROW(ENCODE_JSON, "\xf0\x90\x80\x80", "\"\\uD800\\uDC00\""),
    ROW(ENCODE_JSON, "\xef\xbf\xbf\xf4\x8f\xbf\xbf", "\"\xef\xbf\xbf\\uDBFF\\uDFFF\""),
    ROW(ENCODE_KRYO5, "", "\3\x81"),
    ROW(ENCODE_KRYO5, "a",
        "\3\x82"
        "a"),
    ROW(ENCODE_KRYO5, "ab",
        "\3"
        "a\xe2"),
    ROW(ENCODE_KRYO5, "a\0",
        "\3"
        "a\x80"),
    ROW(ENCODE_KRYO5, ROW_32,
        "\3"
        "abcdefghijklmnopqrstuvwxyzABCDE\xc6"),
    ROW(ENCODE_KRYO5, ROW_32 "G", "\3\xa2" ROW_32 "G"),
    ROW(ENCODE_KRYO5, "\xc3\xa9", "\3\x82\xc3\xa9"),
    ROW(ENCODE_KRYO5, "a\xf0\x90\x80\x80",
        "\3\x84"
        "a\xed\xa0\x80\xed\xb0\x80"),
    /* 62 and 63 characters: the length in one byte, and in two. */
    ROW(ENCODE_KRYO5, ROW_32 "abcdefghijklmnopqrstuvwxyzABCD",
        "\3\xbf" ROW_32 "abcdefghijklmnopqrstuvwxyzABCD"),
    ROW(ENCODE_KRYO5, ROW_32 "abcdefghijklmnopqrstuvwxyzABCDE",
        "\3\xc0\1" ROW_32 "abcdefghijklmnopqrstuvwxyzABCDE"),
    ROW(ENCODE_KRYO5_REF, "", "\3\1\x81"),
    ROW(ENCODE_KRYO5_REF, "ab",
        "\3\1"
        "a\xe2"),
    ROW(ENCODE_KRYO5_LONG, "-0", "\x09\0"),
    ROW(ENCODE_KRYO5_LONG, "63", "\x09\x7e"),
    ROW(ENCODE_KRYO5_LONG, "64", "\x09\x80\1"),
    ROW(ENCODE_KRYO5_INT, "+1", "\2\2"),
    ROW(ENCODE_KRYO5_INT, "2147483647", "\2\xfe\xff\xff\xff\x0f"),
    ROW(ENCODE_KRYO5_INT, "-2147483648", "\2\xff\xff\xff\xff\x0f"),
};

TEST(edges)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        bool same = gives(encoding_by_id(r->id), r->key, r->len, r->want, r->want_len);
        if (!same)
            printf("# the row of line %d\n", r->line);
        CHECK(same);
    }
}

/* 8190 and 8191 characters: the length in two bytes and in three. */
TEST(a_length_in_groups_of_bits)
{
    enum { MOST = 8191 };
    static char key[MOST], want[MOST + 4];
    memset(key, 'x', sizeof key);
    memset(want, 'x', sizeof want);
    memcpy(want, "\3\xff\x7f", 3);
    CHECK(gives(encoding_by_id(ENCODE_KRYO5), key, MOST - 1, want, MOST + 2));
    memcpy(want, "\3\xc0\x80\1", 4);
    CHECK(gives(encoding_by_id(ENCODE_KRYO5), key, MOST, want, MOST + 4));
}

TEST(what_is_not_utf8_is_a_bad_key)
{
    static const unsigned of_text[] = {ENCODE_UTF8, ENCODE_UTF16, ENCODE_JSON, ENCODE_KRYO5,
                                       ENCODE_KRYO5_REF};
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {
        {TEXT("\x80")},         {TEXT("\xc3")},         {TEXT("\xc0\xaf")},
        {TEXT("\xe0\x9f\xbf")}, {TEXT("\xed\xa0\x80")}, {TEXT("\xf0\x8f\xbf\xbf")},
        {TEXT("\xff")},         {TEXT("\xe2\x82")},     {TEXT("\xf4\x90\x80\x80")},
    };
    for (size_t e = 0; e < sizeof of_text / sizeof *of_text; e++) {
        CHECK_STR(encoding_by_id(of_text[e])->bad, "not UTF-8");
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            for (size_t before = 0; before < 20; before++) {
                char key[32] = "0123456789abcdefghijklmnop";
                memcpy(key + before, bad[i].bytes, bad[i].len);
                CHECK(is_bad(of_text[e], key, before + bad[i].len));
                key[before + bad[i].len] = 'z';
                CHECK(is_bad(of_text[e], key, before + bad[i].len + 9));
            }
        }
    }
}

/* What may follow the first of three bytes, at the end of a key and before more. */
TEST(characters_of_three_bytes)
{
    for (unsigned first = 0xe0; first < 0xf0; first++)
        for (unsigned second = 0; second < 256; second++)
            for (unsigned third = 0x40; third < 256; third += 0x3f) {
                char key[] = {(char)first, (char)second, (char)third, 'z'};
                unsigned least = first == 0xe0 ? 0xa0 : 0x80, most = first == 0xed ? 0x9f : 0xbf;
                bool good = second >= least && second <= most && third >= 0x80 && third < 0xc0;
                CHECK(is_bad(ENCODE_UTF8, key, 3) == !good);
                CHECK(is_bad(ENCODE_UTF16, key, 4) == !good);
                CHECK(is_bad(ENCODE_UTF8, key, 4) == !good);
            }
}

TEST(what_is_no_integer_is_a_bad_key)
{
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {
        {TEXT("")},
        {TEXT("+")},
        {TEXT("-")},
        {TEXT("+-1")},
        {TEXT(" 1")},
        {TEXT("1 ")},
        {TEXT("1.0")},
        {TEXT("0x1")},
        {TEXT("1_0")},
        {TEXT("--1")},
        {TEXT("1\0")},
        {TEXT("/")},
        {TEXT(":")},
        {TEXT("1L")},
        {TEXT("\xef\xbc\x91")},
        {TEXT("9223372036854775808")},
        {TEXT("-9223372036854775809")},
        {TEXT("18446744073709551617")},
        {TEXT("99999999999999999999999")},
    };
    for (unsigned id = 0; id < 256; id++) {
        const struct encoding *e = encoding_by_id(id);
        if (e == NULL || e->integer == 0)
            continue;
        CHECK_STR(e->bad,
                  e->integer == 32 ? "not an integer of 32 bits" : "not an integer of 64 bits");
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
            CHECK(is_bad(id, bad[i].bytes, bad[i].len));
        CHECK(is_bad(id, TEXT("2147483648")) == (e->integer == 32));
        CHECK(is_bad(id, TEXT("-2147483649")) == (e->integer == 32));
        CHECK(is_bad(id, TEXT("4294967297")) == (e->integer == 32));
        CHECK(!is_bad(id, TEXT("2147483647")) && !is_bad(id, TEXT("-2147483648")));
    }
}

/* Every character, behind ASCII of every length up to a step of the search for others, and last or
 * not. */
TEST(every_character_in_utf16)
{
    const struct encoding *e = encoding_by_id(ENCODE_UTF16);
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char key[16], want[32];
        size_t before = c % 9, len = before, n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        static const unsigned first[] = {0, 0, 0xc0, 0xe0, 0xf0};
        if (c >= 0xd800 && c < 0xe000)
            continue;
        memset(key, 'k', before);
        key[len++] = (char)(first[n] | c >> 6 * (n - 1));
        for (size_t i = n - 1; i-- > 0;)
            key[len++] = (char)(0x80 | (c >> 6 * i & 0x3f));
        for (size_t i = 0; i < before; i++)
            memcpy(want + 2 * i, "k", 2);
        uint32_t units[] = {c, 0};
        if (n == 4) {
            units[0] = 0xd7c0 + (c >> 10);
            units[1] = 0xdc00 + c % 0x400;
        }
        size_t n_units = n == 4 ? 2 : 1;
        for (size_t i = 0; i < n_units; i++) {
            want[2 * (before + i)] = (char)(units[i] % 256);
            want[2 * (before + i) + 1] = (char)(units[i] / 256);
        }
        if (c % 2) {
            key[len++] = 'z';
            memcpy(want + 2 * (before + n_units++), "z", 2);
        }
        size_t got_len;
        char out[32];
        const char *got = e->encode(key, len, out, &got_len);
        if (got == NULL || got_len != 2 * (before + n_units) || memcmp(got, want, got_len) != 0) {
            printf("# U+%04X\n", c);
            CHECK(false);
            return;
        }
    }
}

TEST(encodings_have_names_and_numbers)
{
    unsigned n = 0;
    CHECK(encoding_by_id(ENCODE_NONE) == NULL && by_name("none") == NULL);
    for (unsigned id = 0; id < 256; id++) {
        const struct encoding *e = encoding_by_id(id);
        if (e != NULL) {
            CHECK(e->id == id && by_name(e->name) == e);
            n++;
        }
    }
    CHECK(n == 11);
}

static bool plain_is(unsigned id, const char *key, const char *want)
{
    char plain[ENCODE_PLAIN_MAX];
    size_t len = 0;
    const char *got = encoding_by_id(id)->plain(key, strlen(key), plain, &len);
    return got == NULL ? want == NULL
                       : want != NULL && len == strlen(want) && memcmp(got, want, len) == 0;
}

TEST(the_text_in_lists)
{
    CHECK(plain_is(ENCODE_INT32, "+07", "7") && plain_is(ENCODE_KRYO5_LONG, "-0", "0"));
    CHECK(plain_is(ENCODE_DECIMAL, "-9223372036854775808", "-9223372036854775808"));
    CHECK(plain_is(ENCODE_INT32, "2147483648", NULL) && plain_is(ENCODE_INT64, "x", NULL));
    CHECK(plain_is(ENCODE_UTF16, "+07", "+07") && plain_is(ENCODE_JSON, "\xff", NULL));
}

int main(void)
{
    RUN(text_is_encoded_as_other_programs_do);
    RUN(integers_are_encoded_as_other_programs_do);
    RUN(edges);
    RUN(a_length_in_groups_of_bits);
    RUN(what_is_not_utf8_is_a_bad_key);
    RUN(characters_of_three_bytes);
    RUN(what_is_no_integer_is_a_bad_key);
    RUN(every_character_in_utf16);
    RUN(encodings_have_names_and_numbers);
    RUN(the_text_in_lists);
    return check_done();
}

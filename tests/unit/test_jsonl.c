/* SPDX-License-Identifier: MIT */
/* tags: computing portable */
#include "keys/jsonl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* What is found at the path: the key, or "-" and the enum's name. Line and room are as long as they
 * must be, so that a checker of memory sees what goes beyond. */
static const char *look(const char *text, const char *line, size_t len)
{
    static const char *const names[] = {
        [JSONL_MISSING] = "-missing",     [JSONL_NULL] = "-null",
        [JSONL_CONTAINER] = "-container", [JSONL_SURROGATE] = "-surrogate",
        [JSONL_BROKEN] = "-broken",
    };
    static char key[1000];
    struct jsonl_path path;
    struct err err;
    if (!jsonl_path(&path, &text, &err))
        return "-path";
    char *copy = malloc(len + 1), *room = malloc(len + 1);
    char *at = copy + 1, *to = room + 1; /* malloc(0) may be NULL */
    memcpy(at, line, len);
    struct jsonl found = jsonl_find(&path, at, len, to);
    snprintf(key, sizeof key, "%.*s", found.is == JSONL_KEY ? (int)found.len : 0, found.key);
    free(copy);
    free(room);
    return found.is == JSONL_KEY ? key : names[found.is];
}

TEST(values)
{
    static const struct {
        const char *path, *line, *want;
    } rows[] = {
        {".", "\"a\"", "a"},
        {".", " 12345678901234567890 ", "12345678901234567890"},
        {".", "1e400", "1e400"},
        {".", "-0", "-0"},
        {".", "true", "true"},
        {".", "null", "-null"},
        {".a", "{\"a\":false}", "false"},
        {".", "fals", "-broken"},
        {".", "-", "-broken"},
        {".", "1e5", "1e5"},
        {".", "1E+5", "1E+5"},
        {".", "1e-5", "1e-5"},
        {".", "1e.5", "-broken"},
        {".", "1e", "-broken"},
        {".", "1E-", "-broken"},
        {".", "[", "-broken"},
        {".", "{", "-broken"},
        {".", "{\"a\"", "-broken"},
        {".", "{\"a\":1", "-broken"},
        {".", "{\"a\":1,", "-broken"},
        {".[1]", "[1\r\n,\t2\n]", "2"},
        {".", "[]", "-container"},
        {".", "", "-broken"},
        {".", "NaN", "-broken"},
        {".", "01", "-broken"},
        {".", "1.", "-broken"},
        {".", "+1", "-broken"},
        {".", "1 2", "-broken"},
        {".", "tru", "-broken"},
        {".a", "{\"a\":\"\"}", ""},
        {".a", "{\"b\":1,\"a\":2}", "2"},
        {".a", "{\"a\":1,\"a\":2}", "2"},
        {".a", "{\"a\":1,\"a\":null}", "-null"},
        {".a", "{\"a\":{}}", "-container"},
        {".a", "{}", "-missing"},
        {".a", "[1]", "-missing"},
        {".a", "{\"\\u0061\":1}", "1"},
        {".a.b", "{\"a\":{\"b\":1},\"a\":{\"c\":2}}", "-missing"},
        {".a.b", "{\"a\":{\"b\":1},\"a\":3}", "-missing"},
        {".a[1]", "{\"a\":[1,[2],3]}", "-container"},
        {".a[1][0]", "{\"a\":[1,[2],3]}", "2"},
        {".a[1].b", "{\"a\":[{\"b\":1},{\"b\":2}]}", "2"},
        {".[1]", "[1,2]", "2"},
        {"[2]", "[1,2]", "-missing"},
        {".\"a b\"", "{\"a b\":1}", "1"},
        {".[\"a.b\"]", "{\"a.b\":1}", "1"},
        {".\"\\u00e9\"", "{\"\xc3\xa9\":1}", "1"},
        {".\xc3\xa9", "{\"\\u00E9\":1}", "1"},
        {".\"\"", "{\"\":1}", "1"},
        /* A name with an escape is decoded behind a key that was, not over it. */
        {".a", "{\"a\":\"\\u0041\\u0042\",\"\\u0062\":1}", "AB"},
        {".", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
        {".", "\"\\u20ac \\ud83d\\ude00\"", "\xe2\x82\xac \xf0\x9f\x98\x80"},
        {".", "\"\\ud83d\"", "-surrogate"},
        {".", "\"\\udfff\"", "-surrogate"},
        {".", "\"\\ude00\\ud83d\"", "-surrogate"},
        {".", "\"\\ud83d\\u0041\"", "-surrogate"},
        {".", "\"\\ud83d\\ud83d\"", "-surrogate"},
        {".", "\"\\ud83d\\udbff\"", "-surrogate"},
        {".", "\"\\ud83d\\ue000\"", "-surrogate"},
        {".", "\"\\ud83dxudc00\"", "-surrogate"},
        {".", "\"\\ud83d\\ndc00\"", "-surrogate"},
        {".", "\"\\u007f\\u0080\\u07ff\\u0800\"", "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80"},
        {".", "\"\\ud7ff\\ue000\\uffff\"", "\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"},
        {".", "\"\\ud800\\udc00\\udbff\\udfff\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
        {".a", "{\"b\":\"\\ud83d\",\"a\":1}", "1"},
        {".", "\"\xc2\x80 \xdf\xbf\"", "\xc2\x80 \xdf\xbf"},
        {".", "\"\xe0\xa0\x80 \xed\x9f\xbf\"", "\xe0\xa0\x80 \xed\x9f\xbf"},
        {".", "\"\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf\"", "\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"},
        {".", "\"\xe0\x9f\xbf\"", "-broken"},
        {".", "\"\xf0\x8f\xbf\xbf\"", "-broken"},
        {".", "\"\xf5\x80\x80\x80\"", "-broken"},
        {".", "\"\xc1\xbf\"", "-broken"},
        {".", "\"\xe2\x82\"", "-broken"},
        {".", "\"\xe2\x82", "-broken"},
        {".", "\"\\", "-broken"},
        {".", "\"\\u004", "-broken"},
        {".", "\"\\x\"", "-broken"},
        {".", "\"\\u12g4\"", "-broken"},
        {".", "\"\t\"", "-broken"},
        {".", "\"\xff\"", "-broken"},
        {".", "\"\xc0\x80\"", "-broken"},
        {".", "\"\xed\xa0\x80\"", "-broken"},
        {".", "\"\xf4\x90\x80\x80\"", "-broken"},
        {".", "\"a", "-broken"},
        {".a", "{\"a\":1}}", "-broken"},
        {".a", "{\"a\":1}{\"a\":2}", "-broken"},
        {".a", "{\"a\":1,}", "-broken"},
        {".a", "{,}", "-broken"},
        {".a", "{\"a\" 1}", "-broken"},
        {".a", "{1:2}", "-broken"},
        {".", "[1}", "-broken"},
        {".", "[1,]", "-broken"},
        {"a", "{}", "-path"},
        {".a.", "{}", "-path"},
        {"..a", "{}", "-path"},
        {".[]", "{}", "-path"},
        {".a[-1]", "{}", "-path"},
        {"[18446744073709551616]", "[1]", "-path"},
        {"[18446744073709551617]", "[1,2]", "-path"},
        {".a b", "{}", "-path"},
        {".\"a", "{}", "-path"},
        {".a[1", "{}", "-path"},
        {".a\"b\"", "{}", "-path"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *got = look(rows[i].path, rows[i].line, strlen(rows[i].line));
        CHECK_STR(got, rows[i].want);
        if (!check_ok)
            printf("# %s of %s\n", rows[i].path, rows[i].line);
    }
}

/* Plain text is skipped 16 bytes at a time: what is not plain is seen at every place. */
TEST(strings_of_every_length)
{
    static const char *const odd[] = {"\"", "\\n", "\xc3\xa9", "\x01", "\x80"};
    static const char *const then[] = {"-broken", NULL, NULL, "-broken", "-broken"};
    for (size_t before = 0; before < 40; before++) {
        for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
            char line[100], want[100];
            int len = snprintf(line, sizeof line, "\"%.*s%s%s\"", (int)before,
                               "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", odd[i], "tail");
            snprintf(want, sizeof want, "%.*s%s%s", (int)before,
                     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", i == 1 ? "\n" : odd[i], "tail");
            CHECK_STR(look(".", line, (size_t)len), then[i] != NULL ? then[i] : want);
        }
    }
}

TEST(depth)
{
    char line[2 * JSONL_DEPTH + 3];
    for (size_t n = JSONL_DEPTH; n <= JSONL_DEPTH + 1; n++) {
        memset(line, '[', n);
        memset(line + n, ']', n);
        CHECK_STR(look(".", line, 2 * n), n == JSONL_DEPTH ? "-container" : "-broken");
    }
    struct jsonl_path path;
    struct err err;
    const char *text = ".a";
    char room[sizeof line], want[80];
    CHECK(jsonl_path(&path, &text, &err));
    struct jsonl found = jsonl_find(&path, line, sizeof line - 1, room);
    CHECK(!jsonl_why(&found, line, sizeof line - 1, &err));
    snprintf(want, sizeof want, "is not JSON of at most %d levels (column %d)", JSONL_DEPTH,
             JSONL_DEPTH + 1);
    CHECK_STR(err.text, want);
}

TEST(a_list_of_paths)
{
    struct jsonl_path path;
    struct err err;
    const char *text = ".a,.\"b,c\"[3],.";
    CHECK(jsonl_path(&path, &text, &err) && path.n == 1 && *text == ',');
    text++;
    CHECK(jsonl_path(&path, &text, &err) && path.n == 2 && path.step[0].len == 3 && *text == ',');
    CHECK(path.step[1].name == NULL && path.step[1].index == 3);
    text++;
    CHECK(jsonl_path(&path, &text, &err) && path.n == 0 && *text == '\0');
    char deep[4 * JSONL_STEPS] = "";
    for (int i = 0; i <= JSONL_STEPS; i++)
        strcat(deep, "[0]");
    text = deep;
    CHECK(!jsonl_path(&path, &text, &err));
    char wide[JSONL_NAMES + 2] = ".";
    memset(wide + 1, 'x', JSONL_NAMES);
    text = wide;
    CHECK(!jsonl_path(&path, &text, &err));
}

TEST(reasons)
{
    static const struct {
        const char *line, *want;
    } rows[] = {
        {"{\"a\": x}", "is not JSON (column 7)"},
        {"{\"a\": NaN}", "is not JSON: NaN and Infinity are no numbers there (column 7)"},
        {"{\"a\": Infinity}", "is not JSON: NaN and Infinity are no numbers there (column 7)"},
        {"{\"a\": -Infinity}", "is not JSON: NaN and Infinity are no numbers there (column 7)"},
        {"{\"a\": ", "is not JSON: it ends too early (column 7)"},
        {"{", "is not JSON: it ends too early (column 2); each value must be on one line"},
        {"", "is not JSON: it ends too early (column 1)"},
        {"[1]", "has no such member: it is an array"},
        {"{\"b\":1}", "has no such member"},
        {"{\"a\":null}", "has null there"},
        {"{\"a\":[]}", "has an object or an array there"},
        {"{\"a\":\"\\ud800\"}", "has half a surrogate pair there, which UTF-8 cannot spell"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct jsonl_path path;
        struct err err;
        const char *text = ".a";
        char room[20];
        CHECK(jsonl_path(&path, &text, &err));
        size_t len = strlen(rows[i].line);
        struct jsonl found = jsonl_find(&path, rows[i].line, len, room);
        CHECK(!jsonl_why(&found, rows[i].line, len, &err));
        CHECK_STR(err.text, rows[i].want);
    }
}

int main(void)
{
    RUN(values);
    RUN(strings_of_every_length);
    RUN(depth);
    RUN(a_list_of_paths);
    RUN(reasons);
    return check_done();
}

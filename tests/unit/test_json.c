/* SPDX-License-Identifier: MIT */
/* tags: portable */
#include "base/json.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"

/* Collects what is written between begin() and end(). */
static char *text;
static size_t text_len;
static struct json json;

static void begin(void)
{
    json = (struct json){.out = open_memstream(&text, &text_len)};
}

#define END_AND_CHECK(want)                                                                        \
    do {                                                                                           \
        fclose(json.out);                                                                          \
        CHECK_STR(text, want);                                                                     \
        free(text);                                                                                \
    } while (0)

TEST(empty_things)
{
    begin();
    json_open(&json, '{');
    json_close(&json, '}');
    json_open(&json, '[');
    json_close(&json, ']');
    END_AND_CHECK("{}\n[]\n");
}

TEST(commas_stand_between)
{
    begin();
    json_open(&json, '{');
    json_key(&json, "a");
    json_uint(&json, 1);
    json_key(&json, "list");
    json_open(&json, '[');
    json_open(&json, '{');
    json_key(&json, "x");
    json_bool(&json, true);
    json_key(&json, "y");
    json_bool(&json, false);
    json_close(&json, '}');
    json_open(&json, '{');
    json_close(&json, '}');
    json_null(&json);
    json_close(&json, ']');
    json_key(&json, "empty");
    json_open(&json, '[');
    json_close(&json, ']');
    json_key(&json, "z");
    json_string(&json, "end");
    json_close(&json, '}');
    END_AND_CHECK(
        "{\"a\":1,\"list\":[{\"x\":true,\"y\":false},{},null],\"empty\":[],\"z\":\"end\"}\n");
}

TEST(strings_are_escaped)
{
    begin();
    json_string(&json, "a\"b\\c/\b\f\n\r\t\x01\x1f\x7f");
    END_AND_CHECK("\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\"\n");
    begin();
    json_open(&json, '{');
    json_key(&json, "a\nb");
    json_string(&json, "");
    json_close(&json, '}');
    END_AND_CHECK("{\"a\\nb\":\"\"}\n");
}

TEST(utf8_passes_and_other_bytes_do_not)
{
#define BAD "\xef\xbf\xbd"
    begin();
    json_string(&json, "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80 \xef\xbf\xbf \xf4\x8f\xbf\xbf");
    END_AND_CHECK("\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80 \xef\xbf\xbf \xf4\x8f\xbf\xbf\"\n");
    begin();
    json_string(&json, "\xff|\xc3|\x80|\xe2\x82|\xf0\x9f\x98");
    END_AND_CHECK("\"" BAD "|" BAD "|" BAD "|" BAD BAD "|" BAD BAD BAD "\"\n");
    begin(); /* overlong forms, a surrogate, beyond U+10FFFF */
    json_string(&json, "\xc0\x80|\xe0\x9f\xbf|\xed\xa0\x80|\xf0\x8f\xbf\xbf|\xf4\x90\x80\x80");
    END_AND_CHECK("\"" BAD BAD "|" BAD BAD BAD "|" BAD BAD BAD "|" BAD BAD BAD BAD
                  "|" BAD BAD BAD BAD "\"\n");
    begin(); /* a character cut short by a quote must not swallow it */
    json_string(&json, "\xe2\"");
    END_AND_CHECK("\"" BAD "\\\"\"\n");
}

TEST(numbers_keep_every_digit)
{
    begin();
    json_open(&json, '[');
    json_uint(&json, UINT64_MAX);
    json_double(&json, 0.1);
    json_double(&json, 0.001);
    json_double(&json, 1.0 / 3);
    json_double(&json, 0.1 + 0.2);
    json_double(&json, 1e22);
    json_double(&json, 5);
    json_double(&json, 0);
    json_double(&json, -1.5);
    json_double(&json, 5e-324);
    json_close(&json, ']');
    END_AND_CHECK("[18446744073709551615,0.1,0.001,0.3333333333333333,0.30000000000000004,1e+22,5,"
                  "0,-1.5,4.94065645841247e-324]\n");
}

TEST(no_number_is_null)
{
    begin();
    json_open(&json, '{');
    json_key(&json, "a");
    json_double(&json, (double)NAN);
    json_key(&json, "b");
    json_double(&json, -(double)INFINITY);
    json_key(&json, "c");
    json_double(&json, 1);
    json_close(&json, '}');
    END_AND_CHECK("{\"a\":null,\"b\":null,\"c\":1}\n");
}

/* Doubles spread over all exponents come back the same. */
TEST(doubles_come_back)
{
    double v = 1e-300;
    for (int i = 0; i < 2000; i++, v *= 1.9371) {
        if (!isfinite(v))
            break;
        begin();
        json_double(&json, v);
        fclose(json.out);
        CHECK(strtod(text, NULL) == v);
        free(text);
    }
}

int main(void)
{
    RUN(empty_things);
    RUN(commas_stand_between);
    RUN(strings_are_escaped);
    RUN(utf8_passes_and_other_bytes_do_not);
    RUN(numbers_keep_every_digit);
    RUN(no_number_is_null);
    RUN(doubles_come_back);
    return check_done();
}

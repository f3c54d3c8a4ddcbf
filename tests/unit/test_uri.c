/* SPDX-License-Identifier: MIT */
/* Addresses of values in Redis: what they say, and what is refused.
 * tags: portable */
#include "redis/uri.h"

#include <stdlib.h>

#include "base/disk.h"
#include "check.h"

static struct uri uri;
static struct err err;

static bool parse(const char *text)
{
    uri_free(&uri);
    err.text[0] = '\0';
    return uri_parse(text, &uri, &err);
}

/* The text's address is refused for this reason. */
static void refused(const char *text, const char *reason)
{
    char want[2048];
    snprintf(want, sizeof want, "cannot use '%s': %s", text, reason);
    CHECK(!parse(text));
    CHECK_STR(err.text, want);
    CHECK(uri.store == NULL);
}

static void check_key(const char *want, size_t len)
{
    CHECK(uri.key_len == len && memcmp(uri.key, want, len + 1) == 0);
}

TEST(what_is_an_address)
{
    CHECK(disk_is_address("redis://host/key") && disk_is_address("redis+unix:///s?key=k") &&
          disk_is_address("rediss://h/k"));
    CHECK(disk_is_address("REDIS://host/key") && disk_is_address("redis://"));
    CHECK(!disk_is_address("redis:/host") && !disk_is_address("./redis://h/k") &&
          !disk_is_address("") && !disk_is_address("a.seen"));
}

TEST(shortest_form)
{
    MUST(parse("redis://h/k"));
    CHECK_STR(uri.host, "h");
    check_key("k", 1);
    CHECK(uri.port == URI_PORT && uri.socket == NULL && uri.user == NULL && uri.layout == NULL);
    CHECK(uri.db == 0 && uri.shards == 1);
}

TEST(all_parts)
{
    MUST(parse("redis://al%40ice@db.example:7000/a/b%00c#+%25?layout=php:functions=X+Y,z=%26"
               "&db=15&shards=16384"));
    CHECK_STR(uri.host, "db.example");
    CHECK_STR(uri.user, "al@ice");
    check_key("a/b\0c#+%", 8);
    CHECK_STR(uri.layout, "php:functions=X+Y,z=&");
    CHECK(uri.port == 7000 && uri.db == 15 && uri.shards == 16384);
    MUST(parse("redis://h:1/k?shards=1&db=2147483647&layout=a"));
    CHECK(uri.port == 1 && uri.db == 2147483647 && uri.shards == 1);
    MUST(parse("redis://h:65535/%3F%2f"));
    CHECK(uri.port == 65535);
    check_key("?/", 2);
}

TEST(ipv6)
{
    MUST(parse("redis://[::1]/k"));
    CHECK_STR(uri.host, "::1");
    CHECK(uri.port == URI_PORT);
    MUST(parse("redis://u@[fe80::1%25eth0]:6380/k"));
    CHECK_STR(uri.host, "fe80::1%eth0");
    CHECK(uri.port == 6380);
    refused("redis://::1/k", "an IPv6 address must stand in brackets, as in redis://[::1]/KEY");
    refused("redis://[::1/k", "there is no ']' to the '['");
    refused("redis://[::1]7/k", "only ':' and a port can follow the ']'");
    refused("redis://[]/k", "the host is empty");
}

TEST(socket)
{
    MUST(parse("redis+unix:///run/redis%20x/s.sock?key=a%00/b&db=3&layout=gozero:bits=9"));
    CHECK_STR(uri.socket, "/run/redis x/s.sock");
    check_key("a\0/b", 4);
    CHECK_STR(uri.layout, "gozero:bits=9");
    CHECK(uri.db == 3 && uri.host == NULL && uri.user == NULL);
    MUST(parse("redis+unix://u@/s?layout=x&key=k"));
    CHECK_STR(uri.user, "u");
    CHECK_STR(uri.socket, "/s");

    const char *absolute = "the path of the socket must be absolute: redis+unix:///SOCKET?key=KEY";
    refused("redis+unix://run/s?key=k", absolute);
    refused("redis+unix://?key=k", absolute);
    refused("redis+unix:///s", "it names no key: redis+unix:///SOCKET?key=KEY");
    refused("redis+unix:///s?key=", "the key is empty");
    refused("redis+unix:///s%00?key=k", "the socket's path holds a NUL");
    refused("redis+unix:///s?kez=k",
            "unknown parameter 'kez'; known are: layout, db, shards, key, timeout");

    char text[256];
    for (int len = URI_MAX_SOCKET; len <= URI_MAX_SOCKET + 1; len++) {
        snprintf(text, sizeof text, "redis+unix:///%0*d?key=k", len - 1, 0);
        CHECK(parse(text) == (len == URI_MAX_SOCKET));
    }
}

TEST(refusals)
{
    refused("file:///x", "it does not begin with redis://, rediss:// or redis+unix://");
    refused("redis://", "the host is empty");
    refused("redis:///k", "the host is empty");
    refused("redis://u@/k", "the host is empty");
    refused("redis://@h/k", "the user is empty");
    refused("redis://h", "it names no key: redis://HOST/KEY");
    refused("redis://h?db=1", "it names no key: redis://HOST/KEY");
    refused("redis://h/", "it names no key: redis://HOST/KEY");
    refused("redis://h/k?key=k", "parameter 'key' is given twice");
    refused("redis://h%00/k", "the host holds a NUL");
    refused("redis://u%00@h/k", "the user holds a NUL");
    refused("redis://h/k?layout=%00", "the layout holds a NUL");
    refused("redis://h/k?layout=", "the layout is empty");
    const char *password = "a password on the command line can be seen by other users; put it into "
                           "REDISCLI_AUTH or a file for --password-file";
    refused("redis://u:secret@h/k", password);
    refused("redis://:secret@h/k", password);
    refused("redis+unix://:secret@/s?key=k", password);
    refused("redis://u%3Asecret@h/k", password);
    refused("redis://h/k?password=secret", password);
    refused("redis://h/0/urls",
            "a database is given by ?db=0 (in a key that begins so, write the / as "
            "%2F)");
    refused("redis://h/19/a?db=1",
            "a database is given by ?db=19 (in a key that begins so, write the "
            "/ as %2F)");
    MUST(parse("redis://h/0%2Furls"));
    check_key("0/urls", 6);
    MUST(parse("redis://h/0"));
    MUST(parse("redis://h/a/0/b"));
    MUST(parse("redis://h//a"));
    check_key("/a", 2);
    MUST(parse("redis+unix:///s?key=0/urls"));
}

TEST(other_schemes)
{
    MUST(parse("rediss://u@h:1/k?timeout=2.5"));
    CHECK(uri.tls && uri.port == 1 && uri.timeout_ms == 2500);
    MUST(parse("redis://h/k"));
    CHECK(!uri.tls && uri.timeout_ms == 0);
    static const char *const local[] = {"unix:///s?key=k", "redis-socket:///s?key=k"};
    for (size_t i = 0; i < 2; i++) {
        MUST(parse(local[i]));
        CHECK_STR(uri.socket, "/s");
        CHECK(disk_is_address(local[i]));
    }
    static const char *const keys[] = {"redis://h?key=a/b", "redis://h/?key=a/b"};
    for (size_t i = 0; i < 2; i++) {
        MUST(parse(keys[i]));
        check_key("a/b", 3);
    }
    static const char *const times[] = {"", "0", "-1", "1s", "1e9", "0.0001"};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        char text[60];
        snprintf(text, sizeof text, "redis://h/k?timeout=%s", times[i]);
        refused(text, *times[i] != '\0' ? "timeout takes seconds from 0.001 to 1000000"
                                        : "the timeout is empty");
    }
    refused("redis://h/k?layout=gozero&bits=9", "unknown parameter 'bits'; if it is one of the "
                                                "layout, write layout=gozero:bits=9");
    refused("redis://h/k?layout=redisson:bits=9&k=3", "unknown parameter 'k'; if it is one of the "
                                                      "layout, write layout=redisson:bits=9,k=3");
}

TEST(percent_signs)
{
    const char *reason =
        "'%' is not followed by two hexadecimal digits (write %25 for a percent sign)";
    refused("redis://h/%", reason);
    refused("redis://h/%2", reason);
    refused("redis://h/%2?db=1", reason);
    refused("redis://h/%g0", reason);
    refused("redis://h/%0g", reason);
    refused("redis://%+1/k", reason);
    refused("redis://h/k?layout=%", reason);
    MUST(parse("redis://h/%fF%Ff%00"));
    check_key("\xff\xff\0", 3);
}

TEST(parameters)
{
    const char *known = "; known are: layout, db, shards, key, timeout";
    char want[200];
    static const char *const unknown[] = {"", "Db", "Key", "layout2", "d"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        char text[100];
        snprintf(text, sizeof text, "redis://h/k?%s=1", unknown[i]);
        snprintf(want, sizeof want, "unknown parameter '%s'%s", unknown[i], known);
        refused(text, want);
    }
    snprintf(want, sizeof want, "unknown parameter ''%s", known);
    refused("redis://h/k?", want);
    refused("redis://h/k?db=1&", want);
    refused("redis://h/k?db=1&db=1", "parameter 'db' is given twice");
    refused("redis://h/k?db", "parameter 'db' has no value");
    static const char *const bad_db[] = {
        "", "-1", "+1", " 1", "1x", "0x1", "2147483648", "99999999999999999999999", "%31"};
    for (size_t i = 0; i < sizeof bad_db / sizeof *bad_db; i++) {
        char text[100];
        snprintf(text, sizeof text, "redis://h/k?db=%s", bad_db[i]);
        refused(text, "db takes a number from 0 to 2147483647");
    }
    refused("redis://h/k?shards=0", "shards takes a number from 1 to 16384");
    refused("redis://h/k?shards=16385", "shards takes a number from 1 to 16384");
    refused("redis://h:/k", "the port takes a number from 1 to 65535");
    refused("redis://h:0/k", "the port takes a number from 1 to 65535");
    refused("redis://h:65536/k", "the port takes a number from 1 to 65535");
    refused("redis://[::1]:x/k", "the port takes a number from 1 to 65535");
}

/* The reason is not cut off. */
TEST(long_text)
{
    enum { LEN = 100000 };
    char *text = malloc(LEN + 1);
    CHECK(text != NULL);
    if (text == NULL)
        return;
    memset(text, 'k', LEN);
    text[LEN] = '\0';
    memcpy(text, "redis://h/", 10);
    MUST(parse(text));
    CHECK(uri.key_len == LEN - 10);
    text[LEN - 1] = '%';
    CHECK(!parse(text));
    CHECK(strstr(err.text, "(write %25 for a percent sign)") != NULL);
    free(text);
}

int main(void)
{
    RUN(what_is_an_address);
    RUN(shortest_form);
    RUN(all_parts);
    RUN(ipv6);
    RUN(socket);
    RUN(refusals);
    RUN(other_schemes);
    RUN(percent_signs);
    RUN(parameters);
    RUN(long_text);
    uri_free(&uri);
    return check_done();
}

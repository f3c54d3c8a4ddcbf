/* SPDX-License-Identifier: MIT */
/* What is sent to Redis, byte for byte; slots; answers in plain words; passwords. */
#include "redis/messages.h"

#include <stdint.h>

#include "check.h"
#include "scratchdir.h"
#include "redis/password.h"

static unsigned slot(const char *key)
{
    return slot_of(key, strlen(key));
}

/* Values of the cluster specification and of CLUSTER KEYSLOT. */
TEST(slots)
{
    CHECK(slot("123456789") == 0x31c3);
    CHECK(slot("foo") == 12182);
    CHECK(slot("") == 0);
    CHECK(slot_of("a\0b", 3) != slot("a"));
    CHECK(slot("{user1000}.following") == slot("user1000"));
    CHECK(slot("x{foo}{bar}") == slot("foo"));
    CHECK(slot("{foo}{bar}") == slot("foo"));
    CHECK(slot("foo{{bar}}zap") == slot("{bar"));
    CHECK(slot("foo{}{bar}") == 8363);
    CHECK(slot("foo{bar") == 15278 && slot("foo}bar{") == 11073);
    CHECK(slot("{") == 4092 && slot("{}") == 15257 && slot("x{}y}z") == 9493);
}

TEST(encoding)
{
    struct requests rq = {0};
    size_t len;
    requests_begin(&rq, 4, "SETBIT");
    requests_key(&rq, "a\0b", 3);
    requests_number(&rq, UINT64_MAX);
    requests_number(&rq, 0);
    requests_begin(&rq, 2, "ECHO");
    requests_bytes(&rq, "", 0);
    requests_begin(&rq, 3, "RENAME");
    requests_key(&rq, "foo", 3);
    requests_key(&rq, "bar", 3);
    requests_begin(&rq, 3, "WAIT");
    requests_number(&rq, 1);
    requests_number(&rq, 10);
    static const char want[] = "*4\r\n$6\r\nSETBIT\r\n$3\r\na\0b\r\n$20\r\n18446744073709551615\r\n"
                               "$1\r\n0\r\n*2\r\n$4\r\nECHO\r\n$0\r\n\r\n"
                               "*3\r\n$6\r\nRENAME\r\n$3\r\nfoo\r\n$3\r\nbar\r\n"
                               "*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$2\r\n10\r\n";
    CHECK(rq.len == sizeof want - 1 && memcmp(rq.data, want, rq.len) == 0);
    CHECK(rq.n == 4 && !rq.no_memory);
    CHECK(rq.list[0].slot == (int)slot_of("a\0b", 3) && rq.list[1].slot == REQUESTS_ANY_SLOT);
    CHECK(rq.list[2].slot == 12182 && rq.list[3].slot == REQUESTS_ANY_SLOT);
    CHECK(memcmp(requests_text(&rq, 1, &len), "*2\r\n$4\r\nECHO", 12) == 0 && len == 20);
    CHECK(requests_text(&rq, 3, &len) + len == rq.data + rq.len);
    requests_clear(&rq);
    CHECK(rq.n == 0 && rq.len == 0);
    requests_free(&rq);
}

/* A block is one request, and its first key has the slot. */
TEST(blocks)
{
    struct requests rq = {0};
    size_t len;
    requests_begin(&rq, 1, "PING");
    requests_block(&rq);
    requests_begin(&rq, 1, "MULTI");
    requests_begin(&rq, 2, "GET");
    requests_key(&rq, "foo", 3);
    requests_begin(&rq, 2, "GET");
    requests_key(&rq, "bar", 3);
    requests_block_end(&rq);
    requests_begin(&rq, 1, "PING");
    CHECK(rq.n == 3 && rq.list[0].n == 1 && rq.list[1].n == 3 && rq.list[2].n == 1);
    CHECK(rq.list[0].slot == REQUESTS_ANY_SLOT && rq.list[2].slot == REQUESTS_ANY_SLOT);
    CHECK(rq.list[1].slot == 12182);
    const char *text = requests_text(&rq, 1, &len);
    CHECK(memcmp(text, "*1\r\n$5\r\nMULTI\r\n*2", 17) == 0);
    CHECK(memcmp(text + len - 9, "$3\r\nbar\r\n", 9) == 0);
    requests_free(&rq);
}

/* Many and long ones, some of which fill the room to its last byte; what cannot be had is said, and
 * not written. */
TEST(growth)
{
    struct requests rq = {0};
    static char big[100000];
    memset(big, 'x', sizeof big);
    for (int i = 0; i < 1000; i++) {
        requests_begin(&rq, 2, "ECHO");
        requests_bytes(&rq, big, i % 100 == 0 ? sizeof big : 3);
    }
    size_t len;
    CHECK(rq.n == 1000 && !rq.no_memory);
    CHECK(memcmp(requests_text(&rq, 999, &len), "*2\r\n$4\r\nECHO\r\n$3\r\nxxx\r\n", 23) == 0);
    CHECK(len == 23);
    size_t before = rq.len;
    requests_bytes(&rq, big, SIZE_MAX / 2);
    CHECK(rq.no_memory && rq.len == before);
    requests_word(&rq, "x");
    CHECK(rq.len == before);
    requests_clear(&rq);
    CHECK(!rq.no_memory);
    requests_free(&rq);
    for (size_t n = 16000; n < 17000; n++) {
        requests_bytes(&rq, big, n);
        CHECK(!rq.no_memory && rq.len == n + strlen("$16000\r\n\r\n"));
        requests_free(&rq);
    }
}

static const char *reason(const char *text)
{
    static char buf[REPLY_REASON];
    struct reply r = {.type = REPLY_ERROR, .n = strlen(text), .text = text};
    return reply_reason(&r, buf);
}

TEST(reasons)
{
    CHECK_STR(reason("WRONGTYPE Operation against a key holding the wrong kind of value"),
              "the key holds a value of another type");
    CHECK_STR(reason("CLUSTERDOWN"), "the cluster is down, or nobody serves this key's slot");
    CHECK_STR(reason("OOMX no"), "the server says 'OOMX no'");
    CHECK_STR(reason(""), "the server says ''");
    char buf[REPLY_REASON], text[1000];
    CHECK_STR(reply_reason(&(struct reply){.type = REPLY_INTEGER}, buf),
              "the server's answer is of an unexpected type");
    snprintf(text, sizeof text, "%0900d", 0);
    CHECK(strlen(reason(text)) < REPLY_REASON);
}

TEST(reply_memory)
{
    struct replies rs = {0};
    for (size_t round = 0; round < 3; round++) {
        unsigned char *p[2000];
        for (size_t i = 0; i < 2000; i++) {
            size_t len = i % 500 == 0 ? 5 << 20 : i;
            p[i] = reply_alloc(&rs, len);
            CHECK(p[i] != NULL && (uintptr_t)p[i] % _Alignof(max_align_t) == 0);
            if (p[i] != NULL && len > 0)
                p[i][0] = p[i][len - 1] = (unsigned char)i;
        }
        for (size_t i = 1; i < 2000; i++)
            CHECK(p[i] != NULL && p[i][0] == (unsigned char)i);
        reply_free(&rs);
    }
    CHECK(reply_alloc(&rs, SIZE_MAX - 8) == NULL);
}

static struct err err;

static bool password_of(const char *text, size_t len, char **out)
{
    FILE *f = fopen("password", "w");
    if (f == NULL)
        return false;
    fwrite(text, 1, len, f);
    fclose(f);
    return password_read("password", out, &err);
}

TEST(passwords)
{
    static const struct {
        const char *text, *want;
    } good[] = {{"secret", "secret"},
                {"secret\n", "secret"},
                {" two words \r\nmore\n", " two words "},
                {"secret\r", "secret\r"}};
    char *password;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK(password_of(good[i].text, strlen(good[i].text), &password));
        CHECK_STR(password, good[i].want);
        password_free(password);
    }
    CHECK(!password_of("", 0, &password) && password == NULL);
    CHECK(!password_of("\nsecret", 7, &password));
    CHECK_STR(err.text, "cannot use 'password': it begins with an empty line, not a password");
    CHECK(!password_of("a\0b", 3, &password));
    CHECK_STR(err.text, "cannot use 'password': a password holds no NUL");
    static char big[5000];
    memset(big, 'x', sizeof big);
    CHECK(password_of(big, 4096, &password));
    password_free(password);
    CHECK(!password_of(big, 4097, &password));
    CHECK_STR(err.text, "cannot use 'password': a password has at most 4096 bytes");
    CHECK(!password_read("absent", &password, &err));
    CHECK_STR(err.text, "cannot open 'absent': No such file or directory");
    CHECK(!password_read(".", &password, &err));
    CHECK_STR(err.text, "cannot read '.': Is a directory");

    setenv("REDISCLI_AUTH", "from outside", 1);
    CHECK(password_read(NULL, &password, &err));
    CHECK_STR(password, "from outside");
    password_free(password);
    setenv("REDISCLI_AUTH", "", 1);
    CHECK(password_read(NULL, &password, &err) && password == NULL);
    unsetenv("REDISCLI_AUTH");
    CHECK(password_read(NULL, &password, &err) && password == NULL);
}

int main(void)
{
    RUN(slots);
    RUN(encoding);
    RUN(blocks);
    RUN(growth);
    RUN(reasons);
    RUN(reply_memory);
    if (!scratchdir_enter())
        return 1;
    RUN(passwords);
    scratchdir_leave();
    return check_done();
}

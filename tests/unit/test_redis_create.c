/* SPDX-License-Identifier: MIT
 * Filters in Redis that several processes make at once, in the orders in which it matters: all have
 * found nothing, then one after the other makes it.
 *
 * tags: redis
 */
#include "redis_servers.h"
#include "store/store.h"

static struct err err;
static char layout[LAYOUT_TEXT];

/* Variables of the servers' shell in the address are expanded. */
static const char *address(const char *rest)
{
    static char text[sizeof shell.out];
    CHECK(sh("echo \"redis+unix://$REDIS_DIR/a/socket?key=%s\"", rest) == 0);
    snprintf(text, sizeof text, "%s", shell.out);
    return text;
}

enum { ABSENT = false, THERE = true }; /* all of it, or not */

static struct store *prepare(const char *name, uint64_t n, bool wanted)
{
    bool there = true;
    const struct store_plan plan = {.n = n, .p = 0.01};
    struct store *s = store_prepare(name, &plan, NULL, &there, &err);
    MUST(s != NULL);
    CHECK(there == wanted);
    return s;
}

static void asks(const char *command, const char *answer)
{
    CHECK(sh("redis a %s", command) == 0);
    CHECK_STR(shell.out, answer);
}

TEST(keys_of_the_first_stay)
{
    const char *name = address("k&layout=gozero:bits=1003");
    struct store *first = prepare(name, 0, ABSENT);
    struct store *second = prepare(name, 0, ABSENT);
    asks("EXISTS k", "0");
    MUST(store_make(first, layout, &err));
    CHECK_STR(layout, "");
    asks("STRLEN k", "126");
    asks("SETBIT k 1002 1", "0");
    MUST(store_make(second, layout, &err));
    asks("GETBIT k 1002", "1");
    asks("BITCOUNT k", "1");
    asks("DBSIZE", "1");
    store_close(first);
    store_close(second);
    store_close(prepare(name, 0, THERE));
    asks("DEL k", "1");
}

TEST(another_size_does_not_fit)
{
    const char *name = address("k&layout=gozero");
    struct store *first = prepare(name, 100, ABSENT);
    struct store *same = prepare(name, 100, ABSENT);
    struct store *other = prepare(name, 1000, ABSENT);
    MUST(store_make(first, layout, &err));
    CHECK_STR(layout, "gozero:bits=1101");
    asks("STRLEN k", "138");
    MUST(store_make(same, layout, &err));
    CHECK_STR(layout, "");
    CHECK(!store_make(other, layout, &err));
    CHECK(strstr(err.text, "is a string of 138 bytes, and one of this size has 1376") != NULL);
    asks("STRLEN k", "138");
    store_close(first);
    store_close(same);
    store_close(other);
    asks("DEL k", "1");
}

/* Whoever comes later takes the configuration that is there, even if it is only in part. */
TEST(one_configuration)
{
    const char *name = address("k&layout=redisson&shards=3");
    struct store *first = prepare(name, 300, ABSENT);
    struct store *second = prepare(name, 600, ABSENT);
    MUST(store_make(first, layout, &err));
    CHECK_STR(layout, "");
    MUST(store_make(second, layout, &err));
    for (unsigned lost = 0; lost < 3; lost++) {
        CHECK(sh("redis a DEL 'k:{%u}:config'", lost) == 0);
        CHECK(store_open(name, STORE_READ, NULL, &err) == NULL);
        CHECK(strstr(err.text, ": some of its shards have a configuration, and some have none"));
        struct store *third = prepare(name, 900, ABSENT);
        MUST(store_make(third, layout, &err));
        store_close(third);
    }
    for (unsigned i = 0; i < 3; i++) {
        CHECK(sh("redis a HMGET 'k:{%u}:config' size expectedInsertions falseProbability", i) == 0);
        CHECK_STR(shell.out, "958\n100\n0.01");
    }
    asks("DBSIZE", "3");
    /* Two at once, with different options: refused, and no key is in. */
    asks("DEL 'k:{1}:config' 'k:{2}:config' 'k:{0}:config'", "3");
    struct store *fourth = prepare(name, 300, ABSENT);
    struct store *fifth = prepare(name, 900, ABSENT);
    MUST(store_make(fourth, layout, &err));
    asks("DEL 'k:{1}:config'", "1");
    CHECK(!store_make(fifth, layout, &err));
    CHECK(strstr(err.text, ": its shards have different configurations: delete them") != NULL);
    store_close(first);
    store_close(second);
    store_close(fourth);
    store_close(fifth);
    asks("FLUSHALL", "OK");
}

#define TESTS(do)                                                                                  \
    do                                                                                             \
    (keys_of_the_first_stay) do(another_size_does_not_fit) do(one_configuration)

int main(void)
{
    const char *missing = servers_begin();
    if (missing != NULL) {
#define DO_SKIP(name) SKIP(name, missing);
        TESTS(DO_SKIP)
    } else {
        CHECK(sh("redis_start a") == 0);
#define DO_RUN(name) RUN(name);
        TESTS(DO_RUN)
    }
    if (shell.to != NULL)
        servers_end();
    return check_done();
}

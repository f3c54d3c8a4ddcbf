/* SPDX-License-Identifier: MIT
 * Filters that the Bloom module makes are those that their layout designs, and are told by their
 * headers alone. tests/lib/bloom.bash says what server this is.
 *
 * tags: redis
 */
#include "check.h"
#include "redis_servers.h"
#include "redis/module.h"

static struct redis *connect_key(const char *key)
{
    static char name[512];
    struct err err;
    CHECK(sh("printf 'redis+unix://%%s/m/socket?layout=redisbloom&key=%%s' \"$REDIS_DIR\" %s",
             key) == 0);
    snprintf(name, sizeof name, "%.500s", shell.out);
    struct redis *r = redis_connect(name, NULL, &err);
    if (!did(r != NULL, err.text))
        exit(1);
    return r;
}

static const struct {
    const char *spec;
    uint64_t n;
    double p;
} designs[] = {{"redisbloom", 1000, 0.01},
               {"redisbloom:expansion=4", 77, 0.001},
               {"redisbloom:expansion=1", 1, 0.1},
               {"redisbloom:scaling=no", 5000, 1e-9},
               {"redisbloom", 100, 0.2}};

static bool same_layer(const struct layer *a, const struct layer *b)
{
    return memcmp(a->geometry, b->geometry, sizeof a->geometry) == 0 &&
           memcmp(&a->fpr_design, &b->fpr_design, sizeof a->fpr_design) == 0 &&
           a->n_design == b->n_design && a->data_len == b->data_len;
}

TEST(what_is_made_is_what_was_designed)
{
    for (size_t i = 0; i < sizeof designs / sizeof *designs; i++) {
        struct layout_spec spec;
        struct layout_filter filter, made;
        struct err err;
        bool there;
        char key[24];
        snprintf(key, sizeof key, "k%zu", i);
        struct redis *r = connect_key(key);
        MUST(layout_parse(designs[i].spec, &spec, &err));
        MUST(spec.kind->layout->design(&spec, designs[i].n, designs[i].p, &filter, &err));
        MUST(module_look(r, &made, &there, &err));
        CHECK(!there);
        MUST(module_create(r, &filter, &err));
        MUST(module_look(r, &made, &there, &err));
        CHECK(there && made.n_layers == 1 && same_layer(&made.layer[0], &filter.layer[0]));
        CHECK(made.seed == filter.seed && made.hash == filter.hash);
        CHECK(made.n_design == filter.n_design && made.n_added == 0);

        /* What is there stays. */
        CHECK(sh("redis m BF.ADD %s a", key) == 0);
        MUST(module_create(r, &filter, &err));
        CHECK(sh("redis m BF.EXISTS %s a | grep -q 1", key) == 0);
        redis_close(r);
    }
}

TEST(a_value_of_another_type_is_not_replaced)
{
    struct layout_spec spec;
    struct layout_filter filter;
    struct err err;
    struct redis *r = connect_key("text");
    CHECK(sh("redis m SET text x") == 0);
    MUST(layout_parse("redisbloom", &spec, &err));
    MUST(spec.kind->layout->design(&spec, 10, 0.1, &filter, &err));
    CHECK(!module_create(r, &filter, &err));
    CHECK(strstr(err.text, ": the key holds a value of another type") != NULL);
    redis_close(r);
}

#define TESTS(DO)                                                                                  \
    DO(what_is_made_is_what_was_designed)                                                          \
    DO(a_value_of_another_type_is_not_replaced)

int main(void)
{
    const char *missing = servers_begin();
    if (missing == NULL && sh("command -v python3 >/dev/null") != 0)
        missing = "python3 is not installed";
    if (missing != NULL) {
#define DO_SKIP(name) SKIP(name, missing);
        TESTS(DO_SKIP)
    } else if (sh(". \"${SOURCE:-.}/tests/lib/bloom.bash\" && bloom_start m") != 0) {
        return 1;
    } else {
#define DO_RUN(name) RUN(name);
        TESTS(DO_RUN)
    }
    if (shell.to != NULL)
        servers_end();
    return check_done();
}

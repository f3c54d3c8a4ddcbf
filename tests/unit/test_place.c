/* SPDX-License-Identifier: MIT */
/* A new place for filters is one line of store_servers: this program knows a toy, whose filters
 * have even keys and can only be asked, and a place that it was built without. */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/disk.h"
#include "check.h"
#include "file/design.h"
#include "file/header.h"

struct toy {
    struct store store;
    struct header header;
};

static void toy_describe(const struct store *s, struct facts *facts)
{
    *facts = (struct facts){.layers.header = s->header, .counters = s->header->counters};
}

static bool toy_query(struct store *s, struct hashes keys, size_t n, uint64_t *present,
                      struct err *err)
{
    (void)s;
    (void)err;
    memset(present, 0, (n + 63) / 64 * sizeof *present);
    for (size_t i = 0; i < n; i++)
        present[i / 64] |= (uint64_t)(keys.lane0[i] % 2 == 0) << i % 64;
    return true;
}

static void toy_close(struct store *s)
{
    free(s);
}

static const struct store_ops toy_ops = {
    .describe = toy_describe, .query = toy_query, .close = toy_close};

static struct store *toy_open(const char *name, enum store_mode mode,
                              const struct open_options *options, struct err *err)
{
    static const struct key_rule rule;
    (void)options;
    struct toy *t = calloc(1, sizeof *t);
    bool ok = t != NULL && (mode == STORE_READ || fail(err, "'%s' takes no keys", name));
    if (ok) {
        header_begin(&t->header, &rule, true);
        ok = header_design(&t->header, &(struct design){.n = 100, .p = 0.01}, 0, err);
        t->store = (struct store){.ops = &toy_ops, .name = name, .header = &t->header};
    }
    if (!ok)
        free(t);
    return ok ? &t->store : NULL;
}

const struct store_place store_servers[] = {{.prefix = "toy://", .open = toy_open},
                                            {.prefix = "far://", .needs = "a telescope"},
                                            {.prefix = NULL}};

TEST(a_toy_is_asked)
{
    static const uint64_t hash[] = {0, 1, 2, 3};
    uint64_t present;
    bool again = false;
    struct err err;
    struct facts facts;
    struct store *s = store_open("toy://k", STORE_READ, NULL, &err);
    CHECK(s != NULL);
    if (s == NULL)
        return;
    CHECK(!store_is_file("toy://k") && !store_replaced(s) && store_same(s, s));
    store_describe(s, &facts);
    CHECK(facts.layers.header->n_design == 100);
    MUST(store_enter(s, sizeof hash, &err));
    MUST(store_query(s, hashes_of(hash), 4, &present, &err));
    CHECK(store_leave(s, true, &again, &err) && !again && present == 5);
    store_close(s);
}

TEST(what_it_cannot_is_refused)
{
    static const struct store_plan plan;
    struct layout_filter filter = {0};
    struct layout_bits bits;
    struct store_push push = {0};
    bool there;
    struct err err;
    CHECK(store_open("toy://k", STORE_WRITE, NULL, &err) == NULL);
    CHECK_STR(err.text, "'toy://k' takes no keys");
    CHECK(store_prepare("toy://k", &plan, NULL, &there, &err) == NULL);
    CHECK_STR(err.text, "cannot make 'toy://k': filters there are only asked");
    CHECK(!store_pull("toy://k", NULL, &filter, &bits, &err));
    CHECK_STR(err.text, "cannot copy 'toy://k': filters there are only asked");
    CHECK(!store_push("toy://k", &filter, NULL, &push, &err));
    CHECK_STR(err.text, "cannot copy 'toy://k': filters there are only asked");
}

TEST(addresses_of_other_schemes_are_no_files)
{
    struct err err;
    CHECK(store_open("far://k", STORE_READ, NULL, &err) == NULL);
    CHECK_STR(err.text, "cannot connect to 'far://k': this program was built without a telescope");
    CHECK(store_open("redis://h/k", STORE_READ, NULL, &err) == NULL);
    CHECK_STR(err.text, "cannot open 'redis://h/k': no filters are known at such an address");
    CHECK(store_is_file("toy:/k") && store_is_file("./toy://k") && store_is_file("://k"));
    CHECK(store_open("toy:/k", STORE_READ, NULL, &err) == NULL);
    CHECK_STR(err.text, "cannot open 'toy:/k': No such file or directory");
}

int main(void)
{
    RUN(a_toy_is_asked);
    RUN(what_it_cannot_is_refused);
    RUN(addresses_of_other_schemes_are_no_files);
    return check_done();
}

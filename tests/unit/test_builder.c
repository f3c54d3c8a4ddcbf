/* SPDX-License-Identifier: MIT */
/* What the builder refuses. What it builds is tested by test_assembly.c and the commands.
 * tags: foreign */
#include "write/builder.h"

#include <string.h>

#include "check.h"
#include "foreign/layout.h"
#include "random.h"

enum { BATCH = LAYER_BATCH };

TEST(a_design_that_cannot_be_made_is_refused)
{
    const struct design impossible = {.n = 1000, .p = 1e-30};
    const struct key_rule rule = {0};
    struct assembly a = {.out = "k", .threads = 1};
    struct builder b = {
        .to = &a, .design = &impossible, .rule = &rule, .memory = 64 << 20, .scratch_dir = "/tmp"};
    struct err err = {.text = ""};
    CHECK(!builder_begin(&b, &err));
    CHECK(strstr(err.text, "an FPR of 1e-30 is too small") == err.text);
    builder_free(&b);
}

/* A filter of a layout gets keys until one is refused, since there is no scratch; returns how many
 * it took. */
static uint64_t add_without_scratch(uint64_t n, uint64_t most)
{
    struct layout_spec spec;
    const struct design design = {.layout = &spec, .n = n, .p = 0.01};
    struct key_rule rule = {0};
    struct assembly a = {.out = "k", .threads = 1};
    struct builder b = {
        .to = &a, .design = &design, .rule = &rule, .scratch_dir = "/nonexistent/dir"};
    struct err err = {.text = ""};
    MUST(layout_parse("guava", &spec, &err) && design_rule(&design, &rule, &err));
    b.memory = builder_min_memory(&design);
    MUST(builder_begin(&b, &err));
    uint64_t lane[HASH_LANES][BATCH], added = 0;
    for (bool ok = true; ok && added < most; added += ok ? BATCH : 0) {
        uint64_t known[BATCH / 64] = {0};
        size_t done;
        for (unsigned i = 0; i < HASH_LANES * BATCH; i++)
            lane[i / BATCH][i % BATCH] = draw();
        ok = builder_add(&b, (struct hashes){lane[0], BATCH, NULL}, known, BATCH, &done, &err);
    }
    CHECK(strstr(err.text, "/nonexistent/dir") != NULL);
    builder_free(&b);
    return added;
}

/* A keyset counts the first 2^19 keys, and spills some of them; if their number decides the size,
 * all wait in a file. */
TEST(keys_without_scratch_are_refused)
{
    enum { COUNTED = 1 << 19 };
    uint64_t added = add_without_scratch(COUNTED, COUNTED);
    CHECK(added > COUNTED / 8 && added < COUNTED);
    CHECK(add_without_scratch(0, COUNTED) == 0);
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(a_design_that_cannot_be_made_is_refused);
    RUN(keys_without_scratch_are_refused);
    return check_done();
}

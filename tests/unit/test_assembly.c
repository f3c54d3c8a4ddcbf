/* SPDX-License-Identifier: MIT */
/* How a file comes to be: a case for each origin of a layer, and what the assembly promises of
 * names, inputs and IDs. What the plans put into headers is tested by the commands. */
#include "write/assembly.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "keys/xxh3.h"
#include "scratchdir.h"
#include "file/design.h"
#include "file/layers.h"
#include "file/pages.h"
#include "write/builder.h"
#include "write/combine.h"
#include "write/shrink.h"
#include "write/unite.h"

enum { KEYS = 20000, BATCH = LAYER_BATCH };

static const struct key_rule rule;

static void hashes(uint64_t first, uint64_t *hash)
{
    for (uint64_t i = 0; i < BATCH; i++) {
        uint64_t key = first + i;
        hash[i] = xxh3_bytes(&key, sizeof key, 0);
    }
}

/* Makes a filter of keys `first` and following. */
static bool make(const char *path, const struct design *design, uint64_t first, unsigned threads)
{
    struct err err;
    struct assembly a = {.out = path, .replace = true, .reproducible = true, .threads = threads};
    struct builder b = {
        .to = &a, .design = design, .rule = &rule, .memory = 64 << 20, .scratch_dir = "."};
    bool ok = assembly_begin(&a, &err) && builder_begin(&b, &err);
    for (uint64_t i = 0; ok && i < KEYS; i += BATCH) {
        uint64_t hash[BATCH];
        hashes(first + i, hash);
        ok = builder_put(&b, 0, hashes_of(hash), KEYS - i < BATCH ? KEYS - i : BATCH, &err);
    }
    ok = ok && builder_write(&b, KEYS, &err) && assembly_commit(&a, &err);
    builder_free(&b);
    assembly_close(&a);
    return did(ok, err.text);
}

/* Those of keys `first` and following that a sound file has; -1: it is damaged. */
static int held(const char *path, uint64_t first)
{
    struct err err;
    struct filter f;
    int n = 0;
    if (!did(filter_open(&f, path, FILTER_READ, &err), err.text))
        return -1;
    if (!did(pages_check_sound(&f, 2, &err), err.text))
        n = -1;
    for (uint64_t i = 0; n >= 0 && i < KEYS; i += BATCH) {
        uint64_t hash[BATCH], present[BATCH / 64] = {0};
        unsigned some = KEYS - i < BATCH ? (unsigned)(KEYS - i) : BATCH;
        hashes(first + i, hash);
        MUST(filter_query(&f, hashes_of(hash), some, present, &err));
        for (unsigned k = 0; k < some; k++)
            n += (int)(present[k / 64] >> k % 64 & 1);
    }
    filter_close(&f);
    return n;
}

static bool same_bytes(const char *a, const char *b)
{
    char command[100];
    snprintf(command, sizeof command, "cmp %s %s", a, b);
    return system(command) == 0; /* NOLINT(cert-env33-c) */
}

static bool begin(struct assembly *a, const char *one, const char *other, struct err *err)
{
    const char *const paths[] = {one, other};
    return assembly_begin(a, err) &&
           assembly_inputs(a, paths, other != NULL ? 2 : 1, "merged", err) &&
           assembly_check_sound(a, err);
}

static bool end(struct assembly *a, bool ok, struct err *err)
{
    ok = ok && assembly_commit(a, err);
    assembly_close(a);
    return did(ok, err->text);
}

static const struct design plain = {.n = 2 * KEYS, .p = 0.001}, growing = {.grow = true};

TEST(nothing_is_an_empty_filter)
{
    struct err err;
    struct header h;
    header_begin(&h, &rule, true);
    MUST(header_design(&h, &plain, 0, &err) && assembly_empty("e", &h, &err));
    CHECK(held("e", 0) == 0);
    CHECK(make("k", &plain, 0, 1));
    MUST(assembly_empty("k", &h, &err)); /* it is there already */
    CHECK(held("k", 0) == KEYS);
    CHECK(!assembly_empty("no/e", &h, &err));
    CHECK(scratchdir_files() == 2);
}

TEST(keys_are_built)
{
    CHECK(make("one", &growing, 0, 1) && make("four", &growing, 0, 4));
    CHECK(held("one", 0) == KEYS && held("one", KEYS) < KEYS / 500);
    CHECK(same_bytes("one", "four"));
}

TEST(tables_are_united_intersected_and_folded)
{
    struct err err;
    struct assembly u = {.out = "u", .threads = 2}, i = {.out = "i", .threads = 1},
                    s = {.out = "s", .threads = 1};
    CHECK(make("a", &plain, 0, 1) && make("b", &plain, KEYS / 2, 1));
    CHECK(end(&u, begin(&u, "a", "b", &err) && unite_inputs(&u, false, 1, &err), &err));
    CHECK(held("u", 0) == KEYS && held("u", KEYS / 2) == KEYS && u.header.n_layers == 1);
    CHECK(end(&i, begin(&i, "a", "b", &err) && unite_inputs(&i, true, 1, &err), &err));
    CHECK(held("i", 0) < KEYS / 2 + KEYS / 500 && i.loses_keys);
    const struct design large = {.n = 50 * KEYS, .p = 0.001, .foldable = true};
    CHECK(make("l", &large, 0, 1));
    CHECK(end(&s, begin(&s, "l", NULL, &err) && shrink_input(&s, 0, &err), &err));
    CHECK(held("s", 0) == KEYS && s.header.file_len < s.header.layers[0].n_design * 3);
}

TEST(copies_and_memory_are_sound)
{
    struct err err;
    struct assembly a = {.out = "copy", .threads = 2}, b = {.out = "memory", .threads = 2};
    CHECK(make("k", &plain, 0, 1));
    bool ok = begin(&a, "k", NULL, &err);
    a.header = b.header = a.in[0].header;
    assembly_take(&a, 0, FROM_COPY, &a.in[0].header.layers[0], a.in[0].data[0]);
    assembly_take(&b, 0, FROM_MEMORY, &a.in[0].header.layers[0], a.in[0].data[0]);
    MUST(ok && assembly_begin(&b, &err) && assembly_write(&b, &err));
    CHECK(end(&b, true, &err));
    CHECK(end(&a, ok && assembly_write(&a, &err), &err));
    CHECK(held("copy", 0) == KEYS && held("memory", 0) == KEYS);
    CHECK(held("copy", KEYS) == held("k", KEYS));
}

TEST(longer_fingerprints_are_cut)
{
    struct err err;
    struct assembly a = {.out = "s", .threads = 1};
    const struct design compact = {.kind = kind_compact(), .p = 0.001};
    CHECK(make("c", &compact, 0, 1));
    CHECK(end(&a, begin(&a, "c", NULL, &err) && shrink_input(&a, 0.01, &err), &err));
    CHECK(held("s", 0) == KEYS && a.census.fpr > 0.005 && a.census.fpr < 0.011);
}

TEST(counts_are_combined)
{
    struct err err;
    struct assembly a = {.out = "sum", .threads = 1};
    const struct design counted = {.kind = kind_counting(), .exact = true};
    CHECK(make("a", &counted, 0, 1) && make("b", &counted, KEYS / 2, 1));
    bool ok = begin(&a, "a", "b", &err);
    const struct layer *layer[] = {&a.in[0].header.layers[0], &a.in[1].header.layers[0]};
    const uint8_t *data[] = {a.in[0].data[0], a.in[1].data[0]};
    const struct union_of parts = {.n = 2, .layer = layer, .data = data};
    combine_plan(&a, COUNTS_SUBTRACT, &parts, 0);
    CHECK(end(&a, ok && combine_write(&a, &err), &err));
    CHECK(held("sum", 0) == KEYS / 2 && held("sum", KEYS / 2) == 0);
    CHECK(a.seen.made == KEYS / 2 && a.header.counters.keys_added == KEYS / 2);
}

/* Those of a layout come in its own order; any layer takes them. */
TEST(foreign_bits_are_taken)
{
    struct err err;
    struct assembly in = {.threads = 1}, a = {.out = "f", .threads = 1};
    const char *path = "k";
    CHECK(make("k", &plain, 0, 1));
    MUST(assembly_inputs(&in, &path, 1, "", &err) && assembly_begin(&a, &err));
    const struct layer *from = &in.in[0].header.layers[0];
    const struct layout_bits bits = {.data = in.in[0].data[0], .len = from->data_len};
    a.header = in.in[0].header;
    a.origin[0] = (struct origin){.how = FROM_FOREIGN, .bits = &bits};
    MUST(assembly_write(&a, &err) && assembly_measure(&a, false, &err));
    assembly_count(&a, NULL);
    CHECK(a.header.counters.keys_added > KEYS * 0.98 && a.header.made < KEYS * 1.02);
    CHECK((a.header.compat & COMPAT_ESTIMATED) != 0);
    assembly_close(&in);
    CHECK(end(&a, true, &err));
    CHECK(held("f", 0) == KEYS);
}

/* The second header is for more keys than fit into the first: nothing of the first stays. */
TEST(a_file_is_written_anew)
{
    struct err err;
    struct assembly a = {.out = "twice", .threads = 1, .reproducible = true};
    const struct design large = {.n = 10 * KEYS, .p = 0.001};
    MUST(assembly_begin(&a, &err));
    header_begin(&a.header, &rule, true);
    MUST(header_design(&a.header, &large, 0, &err) && assembly_write(&a, &err));
    header_begin(&a.header, &rule, true);
    MUST(header_design(&a.header, &plain, 0, &err) && assembly_write(&a, &err));
    CHECK(end(&a, true, &err));
    struct header h;
    header_begin(&h, &rule, true);
    MUST(header_design(&h, &plain, 0, &err) && assembly_empty("once", &h, &err));
    CHECK(same_bytes("once", "twice"));
}

TEST(without_a_commit_nothing_stays)
{
    struct err err;
    struct assembly a = {.out = "k", .replace = true, .threads = 1};
    CHECK(make("k", &plain, 0, 1));
    MUST(begin(&a, "k", NULL, &err) && unite_inputs(&a, false, 1, &err));
    assembly_close(&a);
    CHECK(held("k", 0) == KEYS && scratchdir_files() == 1);
}

/* Writers of a replaced file find the next one by its ID. */
TEST(a_result_succeeds_the_input_that_it_replaces)
{
    struct err err;
    uint8_t id[2][sizeof((struct header *)0)->id];
    struct assembly a = {.out = "k", .replace = true, .threads = 1},
                    b = {.out = "other", .threads = 1};
    CHECK(make("k", &plain, 0, 1));
    MUST(begin(&a, "k", NULL, &err));
    CHECK(a.replaces_input);
    for (int i = 0; i < 2; i++) {
        assembly_like(&a);
        assembly_succeed(&a);
        memcpy(id[i], a.header.id, sizeof id[i]);
    }
    CHECK(memcmp(id[0], id[1], sizeof id[0]) == 0);
    MUST(begin(&b, "k", NULL, &err));
    CHECK(!b.replaces_input && !b.file.held);
    assembly_like(&b);
    assembly_succeed(&b);
    CHECK(memcmp(id[0], b.header.id, sizeof id[0]) != 0);
    assembly_close(&a);
    assembly_close(&b);
}

TEST(an_input_that_is_overwritten_is_noticed)
{
    struct err err;
    struct assembly a = {.out = "new", .threads = 1};
    CHECK(make("k", &plain, 0, 1));
    MUST(begin(&a, "k", NULL, &err) && unite_inputs(&a, false, 1, &err));
    CHECK(truncate("k", 4096) == 0);
    CHECK(!assembly_commit(&a, &err));
    assembly_close(&a);
    CHECK(access("new", F_OK) != 0 && scratchdir_files() == 1);
}

int main(void)
{
    if (!scratchdir_enter())
        return 1;
    RUN_CLEAN(nothing_is_an_empty_filter);
    RUN_CLEAN(keys_are_built);
    RUN_CLEAN(tables_are_united_intersected_and_folded);
    RUN_CLEAN(copies_and_memory_are_sound);
    RUN_CLEAN(longer_fingerprints_are_cut);
    RUN_CLEAN(counts_are_combined);
    RUN_CLEAN(foreign_bits_are_taken);
    RUN_CLEAN(a_file_is_written_anew);
    RUN_CLEAN(without_a_commit_nothing_stays);
    RUN_CLEAN(a_result_succeeds_the_input_that_it_replaces);
    RUN_CLEAN(an_input_that_is_overwritten_is_noticed);
    scratchdir_leave();
    return check_done();
}

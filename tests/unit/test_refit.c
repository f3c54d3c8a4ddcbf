/* SPDX-License-Identifier: MIT */
/* A filter that is made anew for its keys: more than are kept, and what is in the way.
 * The rest is in grow.bats.
 * tags: threads slow */
#include "write/refit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "check.h"
#include "keys/xxh3.h"
#include "scratchdir.h"
#include "file/chain.h"
#include "file/session.h"
#include "file/design.h"
#include "write/assembly.h"
#include "store/store.h"

static const char path[] = "f.seen";
static const struct key_rule rule;

/* N keys, which take two layers, the first of 2^20; then the first of them again. */
enum { BATCH = 2048, N = 586 * BATCH, GIVEN = N + 49 * BATCH };

static void make(struct header *h)
{
    struct err err;
    const struct design design = {.grow = true};
    remove(path);
    header_begin(h, &rule, false);
    MUST(header_design(h, &design, 0, &err) && assembly_empty(path, h, &err));
}

/* The hashes of BATCH keys from `first` on. */
static void hash_batch(unsigned first, uint64_t hash[BATCH])
{
    for (uint64_t i = 0; i < BATCH; i++) {
        uint64_t key = (first + i) % N;
        hash[i] = xxh3_bytes(&key, sizeof key, 0);
    }
}

/* Adds all keys to the file and puts them; the last `only_added` are not put. Each is new the first
 * time, but for some that are wrongly taken for known, and known the second time. */
static void add(struct refit *r, unsigned only_added)
{
    struct err err;
    struct store *s;
    size_t done, n_known = 0;
    const struct add_options options = {.threads = 1};
    MUST((s = store_open(path, STORE_WRITE, NULL, &err)) != NULL &&
         store_add_begin(s, &options, &err));
    if (s == NULL)
        return;
    for (unsigned first = 0; first < GIVEN; first += BATCH) {
        uint64_t hash[BATCH], known[BATCH / 64 + 1] = {0};
        hash_batch(first, hash);
        size_t n = first + BATCH == GIVEN ? BATCH - only_added : BATCH;
        for (size_t at = 0; at < n; at += LAYER_BATCH)
            refit_put(r, first / BATCH % 2, hashes_of(hash + at),
                      n - at < LAYER_BATCH ? n - at : LAYER_BATCH);
        MUST(store_add(s, hashes_of(hash), known, BATCH, &done, &err) == ADD_OK);
        if (first < N)
            n_known += bits_count(known, BATCH);
        else
            CHECK(bits_count(known, BATCH) == BATCH);
    }
    CHECK(n_known < N / 100); /* 0.1 % were promised */
    MUST(store_add_end(s, true, &err));
    store_close(s);
}

static void copy_to(const char *to)
{
    uint8_t part[4096];
    size_t n;
    FILE *in = fopen(path, "rb"), *out = fopen(to, "wb");
    CHECK(in != NULL && out != NULL);
    if (in == NULL || out == NULL)
        return;
    while ((n = fread(part, 1, sizeof part, in)) > 0)
        CHECK(fwrite(part, 1, n, out) == n);
    CHECK(fclose(in) == 0 && fclose(out) == 0);
}

/* What happens to the file before it would be replaced. */
enum event { NOTHING, COPIED, LINKED };

struct run {
    uint64_t most, in_memory; /* 0: all of them */
    unsigned threads, only_added;
    enum event event;
};

/* Was the file replaced? It has all keys in either case. */
static bool is_replaced(struct run run)
{
    struct header h;
    struct stat before, after, used;
    struct err err;
    remove("other.seen");
    make(&h);
    CHECK(stat(path, &before) == 0);
    const struct refit_limits limits = {.most = run.most,
                                        .in_memory = run.in_memory != 0 ? run.in_memory : run.most,
                                        .scratch_dir = ".",
                                        .threads = run.threads};
    struct refit *r = refit_new(&h, &before, &rule, &limits);
    CHECK(r != NULL);
    if (r == NULL)
        return false;
    add(r, run.only_added);
    if (run.event == COPIED) {
        copy_to("other.seen");
        CHECK(rename("other.seen", path) == 0);
    } else if (run.event == LINKED) {
        CHECK(link(path, "other.seen") == 0);
    }
    /* A writer that waits for its turn goes on with what has the name then. */
    struct filter waiting;
    struct session session;
    MUST(filter_open(&waiting, path, FILTER_WRITE, &err));
    CHECK(stat(path, &before) == 0);
    refit_apply(r, path, false);
    refit_free(r);
    CHECK(stat(path, &after) == 0);
    MUST(session_begin(&session, &waiting, &err) && session_end(&session, true, &err));
    CHECK(fstat(waiting.fd, &used) == 0 && used.st_ino == after.st_ino);
    filter_close(&waiting);
    struct store *s = store_open(path, STORE_READ, NULL, &err);
    MUST(s != NULL);
    if (s == NULL)
        return false;
    for (unsigned first = 0; first < N; first += BATCH) {
        uint64_t hash[BATCH], present[BATCH / 64] = {0};
        hash_batch(first, hash);
        for (unsigned at = 0; at < BATCH; at += LAYER_BATCH)
            CHECK(store_query(s, hashes_of(hash + at), LAYER_BATCH, present + at / 64, &err));
        CHECK(bits_count(present, BATCH) == BATCH);
    }
    store_close(s);
    CHECK((before.st_ino != after.st_ino) == (after.st_size < before.st_size));
    return before.st_ino != after.st_ino;
}

TEST(it_gets_the_size_of_its_keys)
{
    CHECK(is_replaced((struct run){.most = GIVEN, .threads = 2}));
}

TEST(so_it_does_with_many_threads)
{
    CHECK(is_replaced((struct run){.most = GIVEN, .threads = 200}));
}

TEST(so_it_does_with_most_keys_in_scratch)
{
    CHECK(is_replaced((struct run){.most = GIVEN, .in_memory = 1, .threads = 2}));
}

TEST(it_keeps_its_size_if_more_keys_come_than_are_kept)
{
    CHECK(!is_replaced((struct run){.most = GIVEN - 1, .threads = 2}));
    CHECK(!is_replaced((struct run){.most = N / 2, .threads = 2}));
}

TEST(it_keeps_its_size_if_it_has_more_keys)
{
    CHECK(!is_replaced((struct run){.most = GIVEN, .threads = 2, .only_added = 1}));
}

TEST(a_copy_in_its_place_stays)
{
    CHECK(!is_replaced((struct run){.most = GIVEN, .threads = 2, .event = COPIED}));
}

TEST(it_stays_if_it_has_another_name)
{
    CHECK(!is_replaced((struct run){.most = GIVEN, .threads = 2, .event = LINKED}));
}

int main(void)
{
    if (!scratchdir_enter())
        return 1;
    RUN(it_gets_the_size_of_its_keys);
    RUN(so_it_does_with_many_threads);
    RUN(so_it_does_with_most_keys_in_scratch);
    RUN(it_keeps_its_size_if_more_keys_come_than_are_kept);
    RUN(it_keeps_its_size_if_it_has_more_keys);
    RUN(a_copy_in_its_place_stays);
    RUN(it_stays_if_it_has_another_name);
    scratchdir_leave();
    return check_done();
}

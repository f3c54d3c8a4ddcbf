/* A filter that is made anew for its keys: what does not fit into memory, and what is in the way.
 * The rest is in grow.bats. */
#include "store/refit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"
#include "keys/xxh3.h"
#include "scratchdir.h"
#include "store/chain.h"
#include "store/filter_build.h"
#include "store/store.h"

static const char path[] = "f.seen";
static const struct key_rule rule;

enum { N = 700000, BATCH = 1000 };

static void make(struct header *h)
{
    struct err err;
    const struct design design = {.grow = true};
    remove(path);
    header_begin(h, &rule, false);
    MUST(header_design(h, &design, 0, &err) && filter_build_empty_file(path, h, &err));
}

/* Adds N keys to the file and puts them; the last `only_added` keys are not put. */
static void add(struct refit *r, unsigned only_added)
{
    struct err err;
    struct store *s;
    size_t done;
    const struct add_options options = {.threads = 1};
    MUST((s = store_open(path, STORE_WRITE, &err)) != NULL && store_add_begin(s, &options, &err));
    if (s == NULL)
        return;
    for (unsigned first = 0; first < N; first += BATCH) {
        uint64_t hash[BATCH], known[BATCH / 64 + 1] = {0};
        for (uint64_t i = 0; i < BATCH; i++) {
            uint64_t key = first + i;
            hash[i] = xxh3_bytes(&key, sizeof key, 0);
        }
        size_t n = first + BATCH == N ? BATCH - only_added : BATCH;
        refit_put(r, first / BATCH % 2, hashes_of(hash), known, n);
        MUST(store_add(s, hashes_of(hash), known, NULL, BATCH, &done, &err) == ADD_OK);
    }
    MUST(store_add_end(s, true, &err));
    store_close(s);
}

/* Was the file replaced? It has all keys in either case. */
static bool is_replaced(uint64_t memory, unsigned only_added)
{
    struct header h;
    struct stat before, after;
    struct err err;
    make(&h);
    struct refit *r = refit_new(&h, &rule, memory, 2);
    CHECK(r != NULL);
    if (r == NULL)
        return false;
    add(r, only_added);
    CHECK(stat(path, &before) == 0);
    refit_apply(r, path, false);
    refit_free(r);
    CHECK(stat(path, &after) == 0);
    struct store *s = store_open(path, STORE_READ, &err);
    MUST(s != NULL);
    if (s == NULL)
        return false;
    for (uint64_t key = 0; key < N; key++) {
        uint64_t present, hash = xxh3_bytes(&key, sizeof key, 0);
        CHECK(store_query(s, hashes_of(&hash), 1, &present, &err) && (present & 1));
    }
    store_close(s);
    CHECK((before.st_ino != after.st_ino) == (after.st_size < before.st_size));
    return before.st_ino != after.st_ino;
}

TEST(it_gets_the_size_of_its_keys)
{
    CHECK(is_replaced(64 << 20, 0));
}

TEST(it_keeps_its_size_if_memory_is_short)
{
    CHECK(!is_replaced(9 << 20, 0));
}

TEST(it_keeps_its_size_if_it_has_more_keys)
{
    CHECK(!is_replaced(64 << 20, 1));
}

int main(void)
{
    if (!scratchdir_enter())
        return 1;
    RUN(it_gets_the_size_of_its_keys);
    RUN(it_keeps_its_size_if_memory_is_short);
    RUN(it_keeps_its_size_if_it_has_more_keys);
    scratchdir_leave();
    return check_done();
}

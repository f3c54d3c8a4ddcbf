/* A filter that is made anew for its keys: more than are kept, and what is in the way.
 * The rest is in grow.bats. */
#include "store/refit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    uint64_t most;
    unsigned threads, only_added;
    enum event event;
};

/* Was the file replaced? It has all keys in either case. */
static bool is_replaced(struct run run)
{
    struct header h;
    struct stat before, after;
    struct err err;
    remove("other.seen");
    make(&h);
    CHECK(stat(path, &before) == 0);
    struct refit *r = refit_new(&h, &before, &rule, run.most, run.threads);
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
    CHECK(is_replaced((struct run){.most = N, .threads = 2}));
}

TEST(so_it_does_with_many_threads)
{
    CHECK(is_replaced((struct run){.most = N, .threads = 200}));
}

TEST(it_keeps_its_size_if_more_keys_come_than_are_kept)
{
    CHECK(!is_replaced((struct run){.most = N - 1, .threads = 2}));
}

TEST(it_keeps_its_size_if_it_has_more_keys)
{
    CHECK(!is_replaced((struct run){.most = N, .threads = 2, .only_added = 1}));
}

TEST(a_copy_in_its_place_stays)
{
    CHECK(!is_replaced((struct run){.most = N, .threads = 2, .event = COPIED}));
}

TEST(it_stays_if_it_has_another_name)
{
    CHECK(!is_replaced((struct run){.most = N, .threads = 2, .event = LINKED}));
}

int main(void)
{
    if (!scratchdir_enter())
        return 1;
    RUN(it_gets_the_size_of_its_keys);
    RUN(so_it_does_with_many_threads);
    RUN(it_keeps_its_size_if_more_keys_come_than_are_kept);
    RUN(it_keeps_its_size_if_it_has_more_keys);
    RUN(a_copy_in_its_place_stays);
    RUN(it_stays_if_it_has_another_name);
    scratchdir_leave();
    return check_done();
}

/* Bloom layers as bloom_build() makes them, range by range and with all threads, against insertions
 * one after another; and what it finds out about repeats.
 * tags: threads */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "check.h"
#include "kind/bloom/bloom.h"
#include "random.h"
#include "store/header.h"

struct made {
    struct header header;
    struct bloom bloom;
    int fd;
    struct census census;
    struct err err;
};

static bool put_in(struct keyset *keys, uint64_t n, uint64_t repeated, unsigned threads,
                   struct err *err)
{
    bool ok = true;
    for (uint64_t i = 0; ok && i < n; i++) {
        uint64_t hash = random_at(i == n - 1 && repeated < n ? repeated : i);
        ok = keyset_put(keys, (unsigned)(i % threads), hashes_of(&hash), 1, err);
    }
    return ok;
}

/* A filter of n keys, the last of which repeats the one numbered `repeated`, if there is such. */
static bool make(struct made *m, uint64_t n, uint64_t repeated, unsigned threads, bool presumed)
{
    struct keyset_spec spec = {
        .workers = threads, .memory = keyset_min_memory(threads), .scratch_dir = "/tmp"};
    struct keyset *keys = keyset_new(&spec, &m->err);
    CHECK(keys != NULL && put_in(keys, n, repeated, threads, &m->err));
    m->header =
        (struct header){.epoch = 1, .hash = hash_usual(), .fpr_design = 0.01, .n_layers = 1};
    m->header.layers[0].id = 1;
    bloom_to(&m->bloom, &m->header.layers[0]);
    format_place(&m->header);
    m->fd = memfd_create("bloom", MFD_CLOEXEC);
    CHECK(m->fd >= 0 && ftruncate(m->fd, (off_t)m->header.file_len) == 0);
    struct target target = header_target(&m->header, 0, m->fd, "test", threads);
    target.n = n;
    target.presumed = presumed;
    bool ok = bloom_build(&target, keys, &m->census, &m->err);
    keyset_free(keys);
    return ok;
}

static void check_data(const struct made *m, uint64_t n)
{
    size_t len = (size_t)m->bloom.pages * BLOOM_PAGE;
    uint8_t *want = aligned_alloc(BLOOM_PAGE, len), *got = malloc(len);
    if (want == NULL || got == NULL)
        exit(1);
    memset(want, 0, len);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t hash = random_at(i);
        bloom_insert(&m->bloom, want, 0, &hash, 1);
    }
    const struct layer *layer = &m->header.layers[0];
    CHECK(pread(m->fd, got, len, (off_t)layer->data_off) == (ssize_t)len);
    CHECK(memcmp(want, got, len) == 0);
    uint64_t seed = format_layer_seed(&m->header, layer), wrong = 0;
    for (uint64_t page = 0; page < m->bloom.pages; page++) {
        uint8_t sum[4];
        CHECK(pread(m->fd, sum, sizeof sum, (off_t)(layer->sums_off + 4 * page)) == 4);
        wrong += get_le32(sum) != layer_page_sum(seed, page, want + page * BLOOM_PAGE, BLOOM_PAGE);
    }
    CHECK(wrong == 0);
    free(want);
    free(got);
}

/* Regions smaller than a range's pages, of its size, and larger; with many keys and with few. */
TEST(data_and_checksums)
{
    static const uint64_t regions[] = {1, 2, 7, 64, 1024}, pages[] = {1, 300, 4001};
    for (size_t r = 0; r < sizeof regions / sizeof *regions; r++)
        for (size_t p = 0; p < sizeof pages / sizeof *pages; p++)
            for (unsigned presumed = 0; presumed < 2; presumed++) {
                struct made m = {.bloom = {.pages = pages[p], .k = 6, .lines = 1}};
                uint64_t n = p == 2 && r % 2 == 0 ? 40 : 20000;
                bloom_build_region = regions[r];
                CHECK(make(&m, n, n, 1 + (unsigned)r % 3, presumed));
                check_data(&m, n);
                close(m.fd);
            }
    bloom_build_region = 1024;
}

TEST(a_repeat_is_found_where_none_is_presumed)
{
    enum { N = 30000 };
    for (uint64_t region = 1; region <= 1024; region *= 32)
        for (uint64_t repeated = 0; repeated < N - 1; repeated += 4321) {
            struct made m = {.bloom = {.pages = 700, .k = 9, .lines = 1}};
            bloom_build_region = region;
            CHECK(!make(&m, N, repeated, 2, true));
            close(m.fd);
            CHECK(make(&m, N, repeated, 2, false));
            check_data(&m, N - 1);
            close(m.fd);
        }
    bloom_build_region = 1024;
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(data_and_checksums);
    RUN(a_repeat_is_found_where_none_is_presumed);
    return check_done();
}

/* SPDX-License-Identifier: MIT */
/* Bloom layers as bloom_build() makes them, partition by partition and with all threads, against
 * insertions one after another; and what it finds out about repeats. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "check.h"
#include "faulty.h"
#include "kind/bloom/bloom.h"
#include "random.h"
#include "file/header.h"

struct made {
    struct header header;
    struct bloom bloom;
    int fd;
    struct census census;
    struct err err;
};

/* The hashes 0 to n - 1, and the first ones once more. */
static bool put_in(struct keyset *keys, uint64_t n, uint64_t repeats, unsigned threads,
                   struct err *err)
{
    bool ok = true;
    for (uint64_t i = 0; ok && i < n + repeats; i++) {
        uint64_t hash = random_at(i < n ? i : i - n);
        ok = keyset_put(keys, (unsigned)(i % threads), &hash, 1, err);
    }
    return ok;
}

static bool make(struct made *m, uint64_t n, uint64_t repeats, unsigned threads, bool presumed)
{
    struct keyset_spec spec = {
        .workers = threads, .memory = keyset_min_memory(threads), .scratch_dir = "/tmp"};
    struct keyset *keys = keyset_new(&spec, &m->err);
    CHECK(keys != NULL && put_in(keys, n, repeats, threads, &m->err));
    m->header =
        (struct header){.epoch = 1, .hash = hash_usual(), .fpr_design = 0.01, .n_layers = 1};
    bloom_to(&m->bloom, &m->header.layers[0]);
    format_place(&m->header);
    m->fd = memfd_create("bloom", MFD_CLOEXEC);
    CHECK(m->fd >= 0 && ftruncate(m->fd, (off_t)m->header.file_len) == 0);
    struct target target = header_target(&m->header, 0, m->fd, "test", threads);
    target.n = n + repeats;
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
    uint64_t seed = format_layer_seed(&m->header, 0), wrong = 0;
    for (uint64_t page = 0; page < m->bloom.pages; page++) {
        uint8_t sum[4];
        CHECK(pread(m->fd, sum, sizeof sum, (off_t)(layer->sums_off + 4 * page)) == 4);
        wrong += get_le32(sum) != layer_page_sum(seed, page, want + page * BLOOM_PAGE, BLOOM_PAGE);
    }
    CHECK(wrong == 0);
    free(want);
    free(got);
}

/* Partitions smaller than a page, and larger; many keys and few. */
TEST(data_and_checksums)
{
    static const uint64_t pages[] = {1, 2, 300, 512, 4001};
    for (size_t p = 0; p < sizeof pages / sizeof *pages; p++)
        for (unsigned threads = 1; threads <= 3; threads++) {
            struct made m = {.bloom = {.pages = pages[p], .k = 6, .lines = 1}};
            uint64_t n = p == 4 && threads == 2 ? 40 : 20000;
            CHECK(make(&m, n, 0, threads, false));
            check_data(&m, n);
            close(m.fd);
        }
}

/* Of pages, their checksums, and the pages and checksums that partitions share. */
TEST(writes_that_fail_are_told)
{
    bool failed = true;
    for (long n = 0; failed; n += n < 2 ? 1 : 97) {
        struct made m = {.bloom = {.pages = 1024, .k = 6, .lines = 1}};
        faulty_begin(n);
        bool ok = make(&m, 1000, 0, 1, false);
        failed = faulty_end();
        CHECK(ok != failed);
        if (failed)
            CHECK_STR(m.err.text, check_errno("cannot write 'test'", ENOSPC));
        close(m.fd);
    }
}

TEST(many_repeats_are_found_where_none_are_presumed)
{
    enum { N = 300000 };
    for (unsigned k = 1; k <= 16; k *= 4) {
        struct made m = {.bloom = {.pages = 150, .k = k, .lines = k > 10 ? 2 : 1}};
        m.bloom.pages *= k;
        CHECK(make(&m, N, 0, 2, true));
        check_data(&m, N);
        close(m.fd);
        CHECK(!make(&m, N, N / 100, 2, true));
        CHECK_STR(m.err.text, "some keys are repeated");
        close(m.fd);
        CHECK(make(&m, N, N / 100, 2, false));
        check_data(&m, N);
        close(m.fd);
    }
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(data_and_checksums);
    RUN(writes_that_fail_are_told);
    RUN(many_repeats_are_found_where_none_are_presumed);
    return check_done();
}

/* SPDX-License-Identifier: MIT */
/* Hashes as nobody's keys have them by chance, but anyone's can have: XXH3 of short keys is easily
 * inverted. Every kind must hold them all, whatever their number, the threads and the memory.
 * tags: computing slow */
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "check.h"
#include "keys/keyset.h"
#include "keys/sort.h"
#include "kind/bloom/bloom.h"
#include "kind/ribbon/ribbon.h"
#include "kind/ribbon/key.h"
#include "random.h"
#include "file/filter.h"
#include "file/format.h"
#include "file/header.h"
#include "file/pages.h"

enum { MOST = 1000000 };

static uint64_t one_partition(uint64_t i)
{
    return random_at(i) >> 1 | (uint64_t)1 << 63;
}

/* All in one partition of a keyset. */
static uint64_t one_prefix(uint64_t i)
{
    return random_at(i) >> 8 | (uint64_t)0xa5 << 56;
}

static uint64_t top_20_bits_shared(uint64_t i)
{
    return random_at(i) >> 20 | (uint64_t)0x12345 << 44;
}

static uint64_t one_page(uint64_t i)
{
    return random_at(i) >> 40 | (uint64_t)0xabcdef << 40;
}

/* The page comes from the top bits of the hash, and the line from a mix of all. */
static uint64_t one_line(uint64_t i)
{
    static uint64_t found[MOST], n, tried;
    while (n <= i && i < MOST) {
        uint64_t h = random_at(tried++) >> 20 | (uint64_t)0x54321 << 44;
        found[n] = h;
        n += (ribbon_mix(h + 0xa0761d6478bd642f) & 63) == 5;
    }
    return found[i];
}

/* Every two differ in the top bit alone. */
static uint64_t pairs(uint64_t i)
{
    return random_at(i / 2) >> 1 | i << 63;
}

static uint64_t neighbours(uint64_t i)
{
    return (random_at(i / 2) & ~(uint64_t)1) | (i & 1);
}

static uint64_t from_zero(uint64_t i)
{
    return i;
}

static uint64_t to_the_end(uint64_t i)
{
    return UINT64_MAX - i;
}

static uint64_t runs(uint64_t i)
{
    return random_at(i / 1000) + i % 1000;
}

static uint64_t two_clusters(uint64_t i)
{
    return (i % 2 ? (uint64_t)0xffffffff << 32 : (uint64_t)0x7fffff << 40) + i;
}

static uint64_t both_ends(uint64_t i)
{
    return i % 2 ? i : UINT64_MAX - i;
}

static uint64_t equal_low_bits(uint64_t i)
{
    return i << 44 | 0x123;
}

/* At each bit a hash leaves the others. */
static uint64_t a_comb(uint64_t i)
{
    uint64_t trunk = 0x5555555555555555;
    return i < 44 ? trunk ^ (uint64_t)1 << (63 - i) : (trunk ^ (trunk & 0xfffff)) + i;
}

/* Many close ones come first, and then others of the same partition. */
static uint64_t a_wrong_sample(uint64_t i)
{
    return i < 30000 ? ((uint64_t)0xb333 << 48) + i : one_partition(i);
}

static uint64_t all_equal(uint64_t i)
{
    (void)i;
    return UINT64_MAX;
}

static uint64_t zeroes(uint64_t i)
{
    (void)i;
    return 0;
}

/* Half of them one hash, half of them distinct and close to it. */
static uint64_t half_repeated(uint64_t i)
{
    return ((uint64_t)0x77777 << 44) + (i % 2 ? i : 0);
}

/* Of a layer of these hashes: they are chosen for 1, and turned for 0. */
static unsigned prefix_bits;

/* Is it in the lower half of the starts of these tables that create --compact makes, whichever of
 * its first seeds is taken? Then they bump it, when most are. */
static bool is_bumped(uint64_t hash, unsigned tables, unsigned seeds)
{
    uint64_t x0 = ribbon_turn(hash, 1), all = 0;
    for (unsigned seed = 0; seed < seeds; seed++)
        for (unsigned t = 0; t < tables; t++)
            all |= ribbon_x(x0, t, seed);
    return all >> 63 == 0;
}

struct chosen {
    uint64_t found[MOST], n, tried;
};

static uint64_t choose(struct chosen *c, uint64_t i, unsigned tables, unsigned seeds)
{
    while (c->n <= i && i < MOST) {
        c->found[c->n] = random_at(c->tried++) >> 1;
        c->n += is_bumped(c->found[c->n], tables, seeds);
    }
    return ribbon_turn(c->found[i], 1 - prefix_bits);
}

/* No table can hold any of them. */
static uint64_t in_no_table(uint64_t i)
{
    static struct chosen chosen;
    return choose(&chosen, i, RIBBON_TABLES, 2);
}

/* All come to the last table, which can hold them. */
static uint64_t in_the_last_table(uint64_t i)
{
    static struct chosen chosen;
    return choose(&chosen, i, RIBBON_TABLES - 1, 2);
}

/* With the second seed they are as any others. */
static uint64_t against_the_first_seed(uint64_t i)
{
    static struct chosen chosen;
    return choose(&chosen, i, RIBBON_TABLES, 1);
}

/* Each table bumps as many as it may, about. */
static uint64_t many_bumped(uint64_t i)
{
    if (i % 16 != 0)
        return ribbon_turn(random_at(i) >> 1, 1 - prefix_bits);
    return i % 64 ? in_the_last_table(i / 16) : in_no_table(i / 16);
}

struct crowd {
    const char *name;
    uint64_t (*hash)(uint64_t);
};

static const struct crowd crowds[] = {
    {"random", random_at},
    {"one partition", one_partition},
    {"one prefix", one_prefix},
    {"top 20 bits shared", top_20_bits_shared},
    {"one page", one_page},
    {"one line", one_line},
    {"pairs", pairs},
    {"neighbours", neighbours},
    {"from zero", from_zero},
    {"to the end", to_the_end},
    {"runs", runs},
    {"two clusters", two_clusters},
    {"both ends", both_ends},
    {"equal low bits", equal_low_bits},
    {"a comb", a_comb},
    {"a wrong sample", a_wrong_sample},
    {"all equal", all_equal},
    {"zeroes", zeroes},
    {"half repeated", half_repeated},
    {"in no table", in_no_table},
    {"in the last table", in_the_last_table},
    {"many bumped", many_bumped},
    {"against the first seed", against_the_first_seed},
};

enum { CROWDS = sizeof crowds / sizeof *crowds };

/* How a file is made of them. */
struct way {
    const struct kind *kind;
    unsigned threads;
    bool ample; /* memory */
};

struct made {
    struct header header;
    struct census census;
    int fd;
    char path[40];
};

/* Crowds are sorted in memory. */
static uint64_t memory_for(const struct way *way, uint64_t n)
{
    uint64_t least = keyset_min_memory(way->threads) + keyset_part_memory((size_t)n, false);
    if (way->kind == &kind_ribbon)
        least += way->threads * keyset_part_memory(RIBBON_LARGEST, false);
    return way->ample ? least + (256 << 20) : least;
}

static bool put_all(struct keyset *keys, const struct crowd *crowd, uint64_t n, unsigned threads,
                    struct err *err)
{
    bool ok = true;
    for (uint64_t i = 0; ok && i < n; i += 256) {
        uint64_t some[256];
        size_t count = n - i < 256 ? (size_t)(n - i) : 256;
        for (size_t j = 0; j < count; j++)
            some[j] = crowd->hash(i + j);
        ok = keyset_put(keys, (unsigned)(i / 256 % threads), some, count, err);
    }
    return ok;
}

static void plan_layer(struct header *h, const struct kind *kind, uint64_t n)
{
    *h = (struct header){.epoch = 1, .hash = hash_usual(), .fpr_design = 0.01, .n_layers = 1};
    h->layers[0].fpr_design = 0.01;
    h->layers[0].n_design = n;
    if (kind == &kind_ribbon) {
        struct ribbon ribbon = {.bits = ribbon_bits(n)};
        ribbon_columns(0.01, &ribbon.columns, &ribbon.wide);
        h->incompat = INCOMPAT_IMMUTABLE;
        h->layers[0].data_len = ribbon_directory_len(&ribbon);
        ribbon_to(&ribbon, &h->layers[0]);
    } else {
        struct bloom bloom = {.pages = n * 10 / 8 / BLOOM_PAGE + 1, .k = 6, .lines = 1};
        bloom_to(&bloom, &h->layers[0]);
    }
    format_place(h);
}

static bool build_file(struct made *m, const struct way *way, struct keyset *keys, uint64_t n,
                       bool presumed, struct err *err)
{
    plan_layer(&m->header, way->kind, n);
    m->fd = memfd_create("crafted", MFD_CLOEXEC);
    snprintf(m->path, sizeof m->path, "/proc/self/fd/%d", m->fd);
    struct target target = header_target(&m->header, 0, m->fd, "test", way->threads);
    target.n = n;
    target.presumed = presumed;
    return m->fd >= 0 && ftruncate(m->fd, (off_t)m->header.file_len) == 0 &&
           way->kind->building->build(&target, keys, &m->census, err) &&
           header_write(&m->header, m->fd, "test", err);
}

static bool make(struct made *m, const struct way *way, const struct crowd *crowd, uint64_t n,
                 uint64_t n_distinct)
{
    struct err err = {.text = ""};
    struct keyset_spec spec = {.workers = way->threads,
                               .memory = memory_for(way, n),
                               .scratch_dir = "/tmp",
                               .part = way->kind == &kind_ribbon ? RIBBON_LARGEST : 0};
    struct keyset *keys = keyset_new(&spec, &err);
    uint64_t counted = 0;
    bool ok = keys != NULL && put_all(keys, crowd, n, way->threads, &err);
    /* With repeats this must fail, without it may, so that they are counted. */
    bool presumed = ok && build_file(m, way, keys, n, true, &err);
    if (!presumed) {
        close(m->fd);
        err.text[0] = '\0';
        ok = ok && keyset_count(keys, &counted, &err) &&
             build_file(m, way, keys, counted, false, &err);
        CHECK(counted == n_distinct);
    }
    CHECK(!presumed || n_distinct == n);
    CHECK_STR(err.text, "");
    keyset_free(keys);
    return ok;
}

/* Hashes of the crowd that the filter does not have. */
static uint64_t count_absent(struct filter *f, const struct crowd *crowd, uint64_t n)
{
    uint64_t absent = 0;
    for (uint64_t i = 0; i < n; i += LAYER_BATCH) {
        uint64_t some[LAYER_BATCH], present[LAYER_BATCH / 64];
        size_t count = n - i < LAYER_BATCH ? (size_t)(n - i) : LAYER_BATCH;
        struct err err;
        for (size_t j = 0; j < count; j++)
            some[j] = crowd->hash(i + j);
        MUST(filter_query(f, hashes_of(some), count, present, &err));
        for (size_t j = 0; j < count; j++)
            absent += !bit_of(present, j);
    }
    return absent;
}

static uint64_t distinct_of(const struct crowd *crowd, uint64_t n)
{
    uint64_t *a = malloc((size_t)n * sizeof *a), *tmp = malloc((size_t)n * sizeof *a), count = 0;
    if (a == NULL || tmp == NULL)
        exit(1);
    for (uint64_t i = 0; i < n; i++)
        a[i] = crowd->hash(i);
    sort_hashes(a, tmp, (size_t)n, 64);
    for (uint64_t i = 0; i < n; i++)
        count += i == 0 || a[i] != a[i - 1];
    free(a);
    free(tmp);
    return count;
}

/* What `query`, `verify` and `stats` do with a file of n such hashes. Returns the CPU seconds that
 * it took to make. */
static double check_made(const struct way *way, const struct crowd *crowd, uint64_t n,
                         uint64_t distinct)
{
    struct made m = {.fd = -1};
    struct filter f;
    struct err err;
    uint64_t unchecked;
    bool failed_before = !check_ok;
    check_ok = true;
    prefix_bits = ribbon_bits(n);
    clock_t begin = clock();
    bool is_made = make(&m, way, crowd, n, distinct);
    clock_t end = clock();
    CHECK(is_made);
    if (is_made) {
        MUST(filter_open(&f, m.path, FILTER_READ, &err));
        CHECK(count_absent(&f, crowd, n) == 0);
        CHECK(pages_check_all(&f, 1, &unchecked, NULL, NULL) == 0);
        struct census census;
        layers_census_all(filter_layers(&f), 1, &census);
        CHECK(census.fpr == m.census.fpr);
        if (way->kind == &kind_ribbon) {
            double bits = 8 * (double)m.header.layers[0].data_len / (double)distinct;
            CHECK(census.n == (double)distinct);
            CHECK(crowd->hash != in_no_table || n < 5000 || bits > 50);
            CHECK(crowd->hash != against_the_first_seed || n < 5000 || bits < 7);
        }
        filter_close(&f);
        close(m.fd);
    }
    if (!check_ok)
        printf("# %llu of %s in a %s, %u threads, %s memory\n", (unsigned long long)n, crowd->name,
               way->kind->name, way->threads, way->ample ? "ample" : "little");
    check_ok = check_ok && !failed_before;
    return (double)(end - begin) / CLOCKS_PER_SEC;
}

/* With one thread and little memory, and with several and more. If it is timed, no crowd may take
 * far longer than the first one, which is random: CPU time, of which crafted hashes take one to
 * four times as much. Where it grew with the square of their number it was 100 times as much or
 * more. */
static void check_in_all_kinds(uint64_t n, unsigned threads, bool timed)
{
    enum { WAYS = 4, FAR = 25 };
    const struct way ways[WAYS] = {{&kind_bloom, 1, false},
                                   {&kind_bloom, threads, true},
                                   {&kind_ribbon, 1, false},
                                   {&kind_ribbon, threads, true}};
    double usual[WAYS] = {0};
    for (size_t s = check_is_brief() ? n % 3 : 0; s < CROWDS; s += check_is_brief() ? 3 : 1) {
        uint64_t distinct = distinct_of(&crowds[s], n);
        for (size_t w = 0; w < WAYS; w++) {
            double taken = check_made(&ways[w], &crowds[s], n, distinct);
            if (s == 0)
                usual[w] = taken + 0.01;
            CHECK(!timed || taken < FAR * usual[w]);
            if (timed && taken >= FAR * usual[w])
                printf("# %s: %g s, usually %g s\n", crowds[s].name, taken, usual[w]);
        }
    }
}

TEST(few)
{
    static const uint64_t numbers[] = {1, 2, 3, 64, 65, 300, 5000};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        check_in_all_kinds(numbers[i], 3, false);
}

/* A checker slows everything down, and is not timed. */
TEST(many)
{
    check_in_all_kinds(check_is_brief() ? 60000 : 310000, 2, getenv("SANITIZER") == NULL);
}

/* As many as one partition of a compact filter may have. */
TEST(the_largest_partition)
{
    for (size_t s = check_is_brief() ? 4 : 0; s < CROWDS; s += check_is_brief() ? 5 : 1) {
        check_made(&(struct way){&kind_ribbon, 1 + (unsigned)(s % 2), false}, &crowds[s],
                   RIBBON_LARGEST, distinct_of(&crowds[s], RIBBON_LARGEST));
    }
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(few);
    RUN(many);
    RUN(the_largest_partition);
    return check_done();
}

/* SPDX-License-Identifier: MIT */
/* Counted sets: their bytes and sizes, reading, queries; hostile data.
 * tags: portable threads */
#include <malloc.h>
#include <math.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "base/variant.h"
#include "counted_sets.h"
#include "variants.h"

static const unsigned widths[] = {64, 1, 2, 7, 10, 17, 20, 33, 51, 63};
enum { WIDTHS = sizeof widths / sizeof *widths };

TEST(writers_take_the_smallest_low_for_the_buckets)
{
    for (unsigned w = 0; w < WIDTHS; w++)
        for (uint64_t n = 0; n < (uint64_t)1 << 48; n = 3 * n + 1) {
            struct counted c = {.bits = widths[w]};
            uint64_t most = (n > 0 ? n : 1) * 7 / 4;
            counted_design(&c, n);
            CHECK(counted_last_bucket(&c) < most || c.low == 63);
            if (c.low > 0) {
                c.low--;
                CHECK(counted_last_bucket(&c) >= most);
            }
        }
}

/* Bytes that are written once and for all: man pages and readers elsewhere rely on them. */
static void check_bytes(const struct counted *design, const struct entries *e, const char *hex)
{
    struct counted_memory m = make_set(design, e);
    char got[512] = "";
    for (size_t i = 0; i < m.len && i < 200; i++)
        sprintf(got + 2 * i, "%02x", m.data[i]);
    CHECK_STR(got, hex);
    free(m.data);
}

TEST(sets_have_these_bytes)
{
    uint64_t value[] = {3, 4, 130, 700, 999}, one[] = {1, 1, 1, 1, 1}, some[] = {1, 2, 1, 300, 2};
    uint64_t many[] = {1000, 1001, 1002, 1003, 1004};
    uint64_t odd[] = {70, 1, 80, 1, 90};
    struct counted small = {.bits = 10}, full = {.bits = 64};
    struct counted_memory m = make_set(&small, &(struct entries){value, one, 5});
    CHECK(m.counted.low == 7 && m.counted.entries == 5 && m.counted.total == 5 && m.len == 16);
    free(m.data);
    check_bytes(&small, &(struct entries){NULL, NULL, 0}, "00000000000000000000");
    check_bytes(&small, &(struct entries){value, one, 5}, "00000000000000000600f4f6cc131006");
    check_bytes(&small, &(struct entries){value, some, 5},
                "00000000000000000a00f41640eb6fe5cc131006");
    check_bytes(&small, &(struct entries){value, many, 5},
                "00000000000000001100f496f0ffff3fb88f3fbffefde0cc131006");
    check_bytes(&small, &(struct entries){value, odd, 5},
                "00000000000000000b00f4b6a01ea48be3cc131006");
    value[4] = UINT64_MAX;
    check_bytes(&full, &(struct entries){value, one, 5},
                "00000000000000002800f097ffffffffffffffcf2b00000000"
                "00000401000000000000010000000000001800000000000000");
}

/* Fingerprints of random hashes, and of hashes that are in the set. */
static void check_queries(const struct counted_set *set, const struct entries *e)
{
    enum { N = 700 };
    uint64_t hash[N], present[(N + 63) / 64] = {0}, count[N];
    const struct counted *c = &set->counted;
    for (size_t i = 0; i < N; i++) {
        hash[i] = draw();
        if (i % 2 == 0 && e->n > 0 && c->bits == 64)
            hash[i] = e->value[draw() % e->n];
        if (i < 2)
            hash[i] = i == 0 ? 0 : UINT64_MAX;
    }
    counted_query(set, hash, N, present);
    counted_query_counts(set, hash, N, count);
    size_t wrong = 0;
    for (size_t i = 0; i < N; i++) {
        uint64_t v = hash[i] >> (64 - c->bits);
        uint64_t want = count_in(e, v);
        wrong += bit_of(present, i) != (want > 0) || count[i] != want;
    }
    CHECK(wrong == 0);
}

static void check_both_ways(const struct counted *design, const struct entries *e)
{
    static struct counted_reader r;
    struct entries got;
    struct err err;
    struct counted_memory m = make_set(design, e);
    struct counted_set set = open_set(&m);
    MUST(check_set(&set, &err));
    CHECK(m.counted.entries == e->n);
    counted_read(&r, &set);
    MUST(take_all(&r.stream, e->n, &got, &err));
    CHECK(same_entries(e, &got));
    free_entries(&got);
    check_queries(&set, e);
    free(m.data);
}

TEST_EACH_VARIANT(sets_hold_what_was_put_in, counted_variants)
{
    static const size_t sizes[] = {0, 1, 2, 3, 100, 1000, 4000};
    random_restart(1);
    for (unsigned w = 0; w < WIDTHS; w++)
        for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            struct counted c = {.bits = widths[w]};
            struct entries e = draw_entries(sizes[s], counted_top(&c), (w + s) % COUNTS);
            check_both_ways(&c, &e);
            free_entries(&e);
        }
}

TEST_EACH_VARIANT(counts_of_all_kinds_are_kept, counted_variants)
{
    random_restart(2);
    for (unsigned counts = 0; counts < COUNTS; counts++) {
        struct counted c = {.bits = counts % 2 == 0 ? 64 : 20};
        struct entries e = draw_entries(9000, counted_top(&c), counts);
        check_both_ways(&c, &e);
        free_entries(&e);
    }
}

/* Keys that were chosen to be in few blocks. Their blocks and groups are large. */
TEST_EACH_VARIANT(crowded_keys_are_found, counted_variants)
{
    random_restart(3);
    for (unsigned counts = 0; counts < COUNTS; counts++)
        for (unsigned bits = 8; bits <= 24; bits += 4) {
            struct counted c = {.bits = 64};
            struct entries few = draw_entries(2000, UINT64_MAX, ALL_ONE);
            struct entries e = draw_entries(3000, ((uint64_t)1 << bits) - 1, counts);
            size_t crowd = e.n;
            /* They begin at the 1000th of the others. */
            e.value = realloc(e.value, (e.n + few.n) * 8);
            e.count = realloc(e.count, (e.n + few.n) * 8);
            memmove(e.value + 1000, e.value, crowd * 8);
            memmove(e.count + 1000, e.count, crowd * 8);
            for (size_t i = 0; i < crowd; i++)
                e.value[1000 + i] += few.value[999] + 1;
            e.n = 1000;
            memcpy(e.value, few.value, 8000);
            for (size_t i = 0; i < 1000; i++)
                e.count[i] = 1;
            e.n += crowd;
            for (size_t i = 1000; i < few.n; i++)
                if (few.value[i] > e.value[e.n - 1]) {
                    e.value[e.n] = few.value[i];
                    e.count[e.n++] = 1;
                }
            /* So that ONE_HUGE fits. */
            for (size_t i = 0; i < e.n; i++)
                e.count[i] = e.count[i] > UINT64_MAX / 2 ? UINT64_MAX / 2 : e.count[i];
            check_both_ways(&c, &e);
            free_entries(&e);
            free_entries(&few);
        }
}

/* Is each value, and none beside it, found in a batch of all? Counts are 1, 2, 3 and so on. */
static void check_neighbours(const struct counted_set *set, const struct entries *e)
{
    enum { MOST_HASHES = 3 * COUNTED_ENTRIES };
    uint64_t hash[MOST_HASHES], present[MOST_HASHES / 64] = {0}, count[MOST_HASHES];
    for (size_t i = 0; i < 3 * e->n; i++)
        hash[i] = e->value[i / 3] + i % 3 - 1;
    counted_query(set, hash, 3 * e->n, present);
    counted_query_counts(set, hash, 3 * e->n, count);
    size_t wrong = 0;
    for (size_t i = 0; i < 3 * e->n; i++)
        wrong += bit_of(present, i) != (i % 3 == 1) || count[i] != (i % 3 == 1 ? i / 3 + 1 : 0);
    CHECK(wrong == 0);
}

/* All in one bucket: the most that a block may have that is not large, or fewer. */
TEST_EACH_VARIANT(long_buckets_are_searched, counted_variants)
{
    static const size_t sizes[] = {1, 2, 8, 9, 10, 56, 57, 63, 64, 65, 128, 200, 383, 384};
    random_restart(13);
    struct counted c = {.bits = 64};
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n = sizes[s];
        struct entries e = draw_entries(2000, UINT64_MAX, ALL_ONE);
        for (size_t i = 0; i < n; i++) {
            e.value[i] = 5 + 3 * i;
            e.count[i] = i + 1;
        }
        struct counted_memory m = make_set(&c, &e);
        struct counted_set set = open_set(&m);
        size_t all = e.n;
        e.n = n;
        check_neighbours(&set, &e);
        e.n = all;
        free(m.data);
        free_entries(&e);
    }
}

/* All blocks are small, but not the groups: the counts take most. */
TEST_EACH_VARIANT(groups_with_long_counts_are_large, counted_variants)
{
    random_restart(4);
    struct counted c = {.bits = 64};
    struct entries e = draw_entries(8000, UINT64_MAX, MANY);
    /* More in one bucket than the zero bits of a word that a query reads. */
    for (unsigned i = 0; i < 60; i++)
        e.value[i] = i;
    static struct counted_array a;
    struct err err;
    struct counted_memory m;
    counted_array(&a, e.value, e.count, e.n);
    /* Designed for half of them: 32 blocks of 250. More than 384 are 8 deviations off. */
    MUST(counted_make(&m, &c, 4000, &a.stream, &err));
    const uint8_t *table = m.data + counted_directory_len(&m.counted);
    CHECK(counted_blocks(&m.counted) == 32 && get_le64(m.data) >> 63 == 1);
    for (unsigned i = 0; i < COUNTED_BLOCKS; i++)
        CHECK(get_le64(table + 8 * i) >> 63 == 0);
    struct counted_set set = open_set(&m);
    MUST(check_set(&set, &err));
    static struct counted_reader r;
    struct entries got;
    counted_read(&r, &set);
    MUST(take_all(&r.stream, e.n, &got, &err));
    CHECK(same_entries(&e, &got));
    check_queries(&set, &e);
    free_entries(&got);
    free_entries(&e);
    free(m.data);
}

static double bits_of(unsigned bits, size_t n, enum counts counts)
{
    struct counted c = {.bits = bits};
    struct entries e = draw_entries(n, counted_top(&c), counts);
    struct counted_memory m = make_set(&c, &e);
    double expected = (double)counted_expected_len(&c, e.n), off = (double)m.len - expected;
    if (counts == ALL_ONE)
        CHECK(off < 32 + expected / 50 && off > -32 - expected / 50);
    free_entries(&e);
    free(m.data);
    return 8 * (double)m.len;
}

/* Numbers of one seed; others differ by 0.02 bits a key. */
TEST(sizes_are_within_2_3_bits_of_the_logarithm)
{
    random_restart(5);
    for (size_t n = 1000; n <= 100000; n *= 10)
        for (unsigned bits = 20; bits <= 64; bits += 4) {
            double least = bits - log2((double)n);
            CHECK(bits_of(bits, n, ALL_ONE) < (double)n * (least + 2.3) + 200);
        }
}

/* Entropies: 0.19 bits a key for FEW, 2 for GEOMETRIC, 2.95 for ZIPF. Seeds differ by 0.02. */
TEST(counts_cost_little)
{
    enum { N = 50000 };
    random_restart(6);
    struct counted c = {.bits = 29};
    static const double most[COUNTS] = {
        [FEW] = 0.35 * N, [GEOMETRIC] = 2.3 * N, [ONE_HUGE] = 200, [ZIPF] = 3.3 * N};
    struct entries e = draw_entries(N, counted_top(&c), ALL_ONE);
    struct counted_memory plain = make_set(&c, &e);
    for (unsigned counts = 0; counts < COUNTS; counts++) {
        for (size_t i = 0; i < e.n; i++)
            e.count[i] = draw_count(counts, i, e.n);
        struct counted_memory m = make_set(&c, &e);
        if (most[counts] > 0)
            CHECK(8 * (double)(m.len - plain.len) < most[counts]);
        CHECK(counts == ALL_ONE || m.len > plain.len);
        free(m.data);
    }
    free(plain.data);
    free_entries(&e);
}

/* Encodes groups [first, end) of the entries. */
static struct counted_part encode_part(const struct counted *c, const struct entries *e,
                                       uint64_t first, uint64_t end)
{
    static struct counted_array a;
    struct counted_part part;
    struct err err;
    size_t from = 0, to;
    while (from < e->n && e->value[from] < counted_group_first(c, first))
        from++;
    for (to = from; to < e->n; to++)
        if (end < counted_groups(c) && e->value[to] >= counted_group_first(c, end))
            break;
    counted_array(&a, e->value + from, e->count + from, to - from);
    MUST(counted_encode(c, first, end, &a.stream, &part, &err));
    CHECK(part.entries == to - from);
    return part;
}

TEST(parts_joined_are_the_bytes_of_the_whole)
{
    random_restart(7);
    struct counted c = {.bits = 64};
    struct entries e = draw_entries(40000, UINT64_MAX, ZIPF);
    struct counted_memory m = make_set(&c, &e);
    c = m.counted;
    uint64_t groups = counted_groups(&c);
    CHECK(groups >= 10);
    for (uint64_t parts = 1; parts <= groups; parts += 3) {
        uint8_t *line = m.data, *group = m.data + counted_directory_len(&c);
        uint64_t at = 0;
        for (uint64_t part = 0; part < parts; part++) {
            struct counted_part p =
                encode_part(&c, &e, part * groups / parts, (part + 1) * groups / parts);
            counted_move_lines(p.lines, p.lines_len, at);
            CHECK(memcmp(line, p.lines, p.lines_len) == 0);
            CHECK(memcmp(group, p.groups, p.groups_len) == 0);
            line += p.lines_len;
            group += p.groups_len;
            at += p.groups_len;
            counted_part_free(&p);
        }
        CHECK(line == m.data + counted_directory_len(&c) && group == m.data + m.len);
    }
    free(m.data);
    free_entries(&e);
}

static bool encode_two(uint64_t v, uint64_t count, uint64_t v2, uint64_t count2, struct err *err)
{
    static struct counted_array a;
    struct counted c = {.bits = 20, .low = 0};
    uint64_t value[] = {v, v2}, counts[] = {count, count2};
    struct counted_part part;
    err->text[0] = '\0';
    counted_array(&a, value, counts, 2);
    bool ok = counted_encode(&c, 1, 2, &a.stream, &part, err);
    counted_part_free(&part);
    return ok;
}

/* No memory is taken for as many entries of a group as somebody may choose. */
TEST(the_encoder_refuses_a_crowded_group)
{
    static struct counted_array a;
    static uint64_t value[COUNTED_CROWD + 2];
    const struct counted c = {.bits = 64, .low = 40};
    const uint64_t next_group = counted_group_first(&c, 1);
    for (unsigned n = COUNTED_CROWD; n <= COUNTED_CROWD + 1; n++) {
        struct counted_part part;
        struct err err = {""};
        for (unsigned i = 0; i < n; i++)
            value[i] = next_group - n + i;
        value[n] = next_group;
        counted_array(&a, value, NULL, n + 1);
        CHECK(counted_encode(&c, 0, 2, &a.stream, &part, &err) == (n == COUNTED_CROWD));
        CHECK_STR(err.text, n == COUNTED_CROWD
                                ? ""
                                : "the hashes of more than 65536 keys are too close together: such "
                                  "keys were chosen to do harm; a filter made with --secret takes "
                                  "them");
        counted_part_free(&part);
    }
}

TEST(the_encoder_refuses_what_is_no_set)
{
    struct err err;
    const char *order = "the fingerprints of a counted set are not in order";
    const char *counts = "the counts of a counted set do not fit 64 bits";
    CHECK(encode_two(4000, 1, 4001, UINT64_MAX - 1, &err));
    CHECK(!encode_two(4000, 1, 4000, 1, &err));
    CHECK_STR(err.text, order);
    CHECK(!encode_two(4000, 1, 3999, 1, &err));
    CHECK_STR(err.text, order);
    CHECK(!encode_two(4000, 1, 1 << 20, 1, &err));
    CHECK_STR(err.text, order);
    CHECK(!encode_two(4000, 1, 4001, UINT64_MAX, &err));
    CHECK_STR(err.text, counts);
    CHECK(!encode_two(4000, 0, 4001, 1, &err));
    CHECK_STR(err.text, counts);
    /* Before and after the group. */
    CHECK(!encode_two(3583, 1, 4001, 1, &err));
    CHECK_STR(err.text, order);
    CHECK(encode_two(3584, 1, 7167, 1, &err));
    CHECK(!encode_two(3584, 1, 7168, 1, &err));
    CHECK_STR(err.text, order);
}

/* ---- Hostile data. */

static bool touch(void *ctx, uint64_t page)
{
    const struct counted_set *set = ctx;
    CHECK(page * 4096 < set->len);
    return true;
}

/* All uses of a set that passed the check of its geometry. Sanitizers look for reads outside. */
static void use(const struct counted_set *set)
{
    static struct counted_reader r;
    struct counted_run run;
    struct err err;
    uint64_t hash[64], present = 0, count[64], entries = 0, previous = 0;
    for (unsigned i = 0; i < 64; i++)
        hash[i] = i < 32 ? draw() : (uint64_t)i << 59;
    counted_query(set, hash, 64, &present);
    counted_query_counts(set, hash, 64, count);
    for (unsigned i = 0; i < 64; i += 8)
        counted_pages(set, &hash[i], 1, touch, (void *)(uintptr_t)set);
    for (uint64_t page = 0; page * 4096 < set->directory_len; page++)
        counted_check_page(set, page, &err);
    counted_read(&r, set);
    bool ok, ordered = true;
    while ((ok = counted_next(&r.stream, &run, &err)) && run.n > 0) {
        for (size_t i = 0; i < run.n; i++) {
            ordered &= (entries == 0 && i == 0) || run.value[i] > previous;
            ordered &= run.value[i] <= counted_top(&set->counted) && run.count[i] > 0;
            previous = run.value[i];
        }
        entries += run.n;
    }
    CHECK(ordered);
    CHECK(entries <= 8 * set->len);
    CHECK(!ok || entries == r.entries);
}

/* A change of bytes that the page checks accept is found when all is read, or it is another set. */
static void mutate(struct counted_memory *m, unsigned rounds)
{
    struct counted_memory bad = *m;
    for (unsigned round = 0; round < rounds; round++) {
        bad.len = draw() % 4 == 0 ? draw() % m->len : m->len;
        bad.data = malloc(bad.len + 1);
        memcpy(bad.data, m->data, bad.len);
        for (unsigned i = (unsigned)(draw() % 5); i < 5 && bad.len > 0; i++) {
            /* Half of them in the directory and near it. */
            size_t near = draw() % 2 == 0 && bad.len > 40 ? 40 : bad.len, at = draw() % near;
            bad.data[at] = draw() % 3 == 0 ? 0xff : (uint8_t)draw();
        }
        bad.data = realloc(bad.data, bad.len > 0 ? bad.len : 1);
        struct layer layer = {.data_len = bad.len};
        struct err err;
        counted_to(&bad.counted, &layer);
        if (round % 5 == 0)
            layer.geometry[draw() % 4] ^= draw() >> draw() % 64;
        if (counted_check(&layer, &err)) {
            struct counted c = counted_of(&layer);
            struct counted_set set = counted_set(&c, bad.data, bad.len);
            use(&set);
        }
        free(bad.data);
    }
}

TEST_EACH_VARIANT(damaged_sets_are_read_in_bounds, counted_variants)
{
    random_restart(8);
    for (unsigned counts = 0; counts < COUNTS; counts++)
        for (unsigned kind = 0; kind < 4; kind++) {
            struct counted c = {.bits = kind % 2 == 0 ? 64 : 12};
            struct entries e =
                draw_entries(kind < 2 ? 300 : 4000, kind == 2 ? 1 << 13 : counted_top(&c), counts);
            struct counted_memory m = make_set(&c, &e);
            mutate(&m, 60);
            free(m.data);
            free_entries(&e);
        }
}

/* Each line points to the first group, which would be read as often as there are groups. */
TEST(groups_that_overlap_are_refused)
{
    random_restart(9);
    static struct counted_reader r;
    struct counted c = {.bits = 64};
    struct entries e = draw_entries(20000, UINT64_MAX, ALL_ONE), got;
    struct counted_memory m = make_set(&c, &e);
    struct counted_set set = open_set(&m);
    struct err err;
    put_le64(m.data + COUNTED_LINE, get_le64(m.data));
    CHECK(!counted_check_page(&set, 0, &err));
    CHECK_STR(err.text, "line 1 of its directory is not valid");
    counted_read(&r, &set);
    CHECK(!take_all(&r.stream, e.n, &got, &err));
    CHECK_STR(err.text, "the data of a counted set is not valid");
    free_entries(&got);
    free_entries(&e);
    free(m.data);
}

TEST(bytes_between_groups_are_refused)
{
    random_restart(11);
    static struct counted_reader r;
    struct counted c = {.bits = 64};
    struct entries e = draw_entries(20000, UINT64_MAX, ALL_ONE), got;
    struct counted_memory m = make_set(&c, &e);
    size_t groups = (size_t)counted_groups(&m.counted);
    size_t second = (size_t)counted_directory_len(&m.counted) + get_le64(m.data + COUNTED_LINE);
    m.data = realloc(m.data, m.len + 1);
    memmove(m.data + second + 1, m.data + second, m.len - second);
    m.len++;
    counted_move_lines(m.data + COUNTED_LINE, (groups - 1) * COUNTED_LINE, 1);
    struct counted_set set = open_set(&m);
    struct err err;
    MUST(check_set(&set, &err));
    counted_read(&r, &set);
    CHECK(!take_all(&r.stream, e.n, &got, &err));
    CHECK_STR(err.text, "the data of a counted set is not valid");
    free_entries(&got);
    free_entries(&e);
    free(m.data);
}

TEST_EACH_VARIANT(sets_cut_anywhere_are_read_in_bounds, counted_variants)
{
    random_restart(12);
    struct counted c = {.bits = 64};
    struct entries e = draw_entries(400, 1 << 20, FEW);
    struct counted_memory m = make_set(&c, &e);
    size_t directory = (size_t)counted_directory_len(&m.counted);
    for (size_t len = directory; len < m.len; len += len < directory + 100 ? 1 : 97) {
        uint8_t *cut = malloc(len);
        memcpy(cut, m.data, len);
        struct counted_set set = counted_set(&m.counted, cut, len);
        use(&set);
        free(cut);
    }
    free(m.data);
    free_entries(&e);
}

TEST(geometry_is_checked)
{
    struct err err;
    struct layer good = {.data_len = 17}, bad;
    counted_to(&(struct counted){.bits = 10, .low = 7, .entries = 5, .total = 5}, &good);
    MUST(counted_check(&good, &err));
#define BAD(change, why)                                                                           \
    bad = good;                                                                                    \
    bad.change;                                                                                    \
    CHECK(!counted_check(&bad, &err));                                                             \
    CHECK_STR(err.text, why)
    BAD(geometry[0] = 0, "its number of fingerprint bits is out of range");
    BAD(geometry[0] = 65, "its number of fingerprint bits is out of range");
    BAD(geometry[0] |= (uint64_t)1 << 32, "its number of fingerprint bits is out of range");
    BAD(geometry[1] = 64, "its number of fingerprint bits is out of range");
    BAD(geometry[1] |= (uint64_t)1 << 32, "its number of fingerprint bits is out of range");
    BAD(data_len = 9, "its directory does not fit its length");
    BAD(data_len = (uint64_t)1 << 60, "its directory does not fit its length");
    BAD(geometry[0] = 64, "its directory does not fit its length");
    BAD(geometry[2] = 6, "its number of keys is out of range");
    BAD(geometry[2] = 0, "its number of keys is out of range");
    BAD(geometry[2] = 1025; bad.geometry[3] = 1025, "its number of keys is out of range");
    BAD(geometry[2] = 900; bad.geometry[3] = 900, "its number of keys is out of range");
#undef BAD
}

/* What pages decide about a key: no byte of the others may matter. */
struct pages {
    uint64_t bits[16];
};

static bool note(void *ctx, uint64_t page)
{
    bit_set(((struct pages *)ctx)->bits, page);
    return true;
}

static bool refuse(void *ctx, uint64_t page)
{
    (void)page;
    return (*(unsigned *)ctx)-- > 0;
}

/* The values are below 2^64 >> shift. `most`: pages for a key. */
static void check_pages(unsigned shift, unsigned most)
{
    struct counted c = {.bits = 64};
    struct entries e = draw_entries(7000, UINT64_MAX >> shift, ZIPF);
    struct counted_memory m = make_set(&c, &e);
    struct counted_set set = open_set(&m), other = set;
    for (unsigned i = 0; i < 200; i++) {
        uint64_t hash = i % 2 == 0 ? draw() >> shift : e.value[draw() % e.n], present = 0, count;
        struct pages pages = {{0}};
        CHECK(counted_pages(&set, &hash, 1, note, &pages));
        unsigned asked = bits_count(pages.bits, 1024), left = asked - 1;
        CHECK(asked >= 1 && asked <= most);
        CHECK(!counted_pages(&set, &hash, 1, refuse, &left));
        uint8_t *copy = malloc(m.len);
        memset(copy, 0xa5, m.len);
        for (size_t page = 0; page * 4096 < m.len; page++)
            if (bit_of(pages.bits, page))
                memcpy(copy + page * 4096, m.data + page * 4096,
                       m.len - page * 4096 < 4096 ? m.len - page * 4096 : 4096);
        other.data = copy;
        counted_query(&other, &hash, 1, &present);
        counted_query_counts(&other, &hash, 1, &count);
        CHECK(present == (count_in(&e, hash) > 0) && count == count_in(&e, hash));
        free(copy);
    }
    free(m.data);
    free_entries(&e);
}

TEST(pages_decide_about_a_key)
{
    random_restart(10);
    check_pages(0, 4);
    /* One large block. A binary search of its some 25 pages, after the directory and the table. */
    check_pages(40, 2 + 1 + 5 + 2);
}

/* The pages of a batch are those of its keys. */
TEST(pages_of_a_batch_are_those_of_its_keys)
{
    enum { N = 300 }; /* more than are searched at once */
    random_restart(14);
    for (unsigned shift = 0; shift <= 40; shift += 20) {
        struct counted c = {.bits = 64};
        struct entries e = draw_entries(9000, UINT64_MAX >> shift, FEW);
        struct counted_memory m = make_set(&c, &e);
        struct counted_set set = open_set(&m);
        struct pages all = {{0}}, each = {{0}};
        uint64_t hash[N];
        for (unsigned i = 0; i < N; i++) {
            hash[i] = draw() >> (i % 4 == 0 ? 0 : shift);
            CHECK(counted_pages(&set, &hash[i], 1, note, &each));
        }
        CHECK(counted_pages(&set, hash, N, note, &all));
        CHECK(memcmp(&all, &each, sizeof all) == 0);
        free(m.data);
        free_entries(&e);
    }
}

TEST(every_variant_is_there)
{
    static const struct variant expected[] = {{"bmi2", cpu_has_avx2}, {"plain", NULL}};
    CHECK_VARIANTS(&counted_variants, expected);
}

int main(int argc, char **argv)
{
#ifdef M_PERTURB
    mallopt(M_PERTURB, 0x5a); /* what is not written is not zero */
#endif
    random_begin(argc, argv);
    RUN(writers_take_the_smallest_low_for_the_buckets);
    RUN(sets_have_these_bytes);
    RUN(sets_hold_what_was_put_in);
    RUN(counts_of_all_kinds_are_kept);
    RUN(crowded_keys_are_found);
    RUN(long_buckets_are_searched);
    RUN(groups_with_long_counts_are_large);
    RUN(sizes_are_within_2_3_bits_of_the_logarithm);
    RUN(counts_cost_little);
    RUN(parts_joined_are_the_bytes_of_the_whole);
    RUN(the_encoder_refuses_a_crowded_group);
    RUN(the_encoder_refuses_what_is_no_set);
    RUN(damaged_sets_are_read_in_bounds);
    RUN(groups_that_overlap_are_refused);
    RUN(bytes_between_groups_are_refused);
    RUN(sets_cut_anywhere_are_read_in_bounds);
    RUN(geometry_is_checked);
    RUN(pages_decide_about_a_key);
    RUN(pages_of_a_batch_are_those_of_its_keys);
    RUN(every_variant_is_there);
    return check_done();
}

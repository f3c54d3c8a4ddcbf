/* SPDX-License-Identifier: MIT */
/* Counted sets: their bytes and sizes, reading, queries; hostile data.
 * tags: portable threads */
#include <malloc.h>
#include <math.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "base/variant.h"
#include "counted_sets.h"
#include "fenced.h"
#include "kind/counted/parts.h"
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

/* Of two entries in bucket 0, one in 1, one in 5 and one in 7. */
#define MARKS       "f4f6ffffffffffffffffffffffffffff7f"
#define SLACK_BYTES "00000000000000000000000000000000"

TEST(sets_have_these_bytes)
{
    uint64_t value[] = {3, 4, 130, 700, 999}, one[] = {1, 1, 1, 1, 1}, some[] = {1, 2, 1, 300, 2};
    uint64_t many[] = {1000, 1001, 1002, 1003, 1004};
    uint64_t odd[] = {70, 1, 80, 1, 90};
    struct counted small = {.bits = 10}, full = {.bits = 64};
    struct counted_memory m = make_set(&small, &(struct entries){value, one, 5});
    CHECK(m.counted.low == 7 && m.counted.entries == 5 && m.counted.total == 5 && m.len == 45);
    free(m.data);
    check_bytes(&small, &(struct entries){NULL, NULL, 0}, "0000000000000000" SLACK_BYTES);
    check_bytes(&small, &(struct entries){value, one, 5},
                "1500000000000500" MARKS "4010f0ce" SLACK_BYTES);
    check_bytes(&small, &(struct entries){value, some, 5},
                "1900000000000500" MARKS "4010f0ce011d60cb" SLACK_BYTES);
    check_bytes(&small, &(struct entries){value, many, 5},
                "2000000000000500" MARKS "4010f0ce04e07d103f981fd40fee07" SLACK_BYTES);
    check_bytes(&small, &(struct entries){value, odd, 5},
                "1b00000000000500" MARKS "4010f0ce0596816f600e" SLACK_BYTES);
    value[4] = UINT64_MAX;
    check_bytes(&full, &(struct entries){value, one, 5},
                "3700000000000500f0f7ffffffffffffffffffffffffffff7f0000000000000010000000"
                "0000000041000000000000c02b000000000000feffffffffffff3f" SLACK_BYTES);
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
    struct err err;
    struct counted_memory m = make_set(design, e);
    struct counted_set set = open_set(&m);
    MUST(check_set(&set, &err));
    CHECK(m.counted.entries == e->n);
    CHECK(holds(&set, e));
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

/* Keys that were chosen to be in few blocks. */
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
    enum { MOST_HASHES = 3 * 384 };
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

/* All in one bucket: more than the marks of a word. */
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

/* Chosen keys: as many as a block may have, in one bucket, and in all buckets of a block. */
TEST_EACH_VARIANT(full_blocks_are_searched, counted_variants)
{
    enum { OTHERS = 9000 };
    random_restart(4);
    for (unsigned stride = 11; stride <= 24; stride += 13) {
        struct counted c = {.bits = 50};
        struct entries e = draw_entries(COUNTED_CROWD + OTHERS, counted_top(&c), ALL_ONE);
        for (size_t i = 0; i < COUNTED_CROWD; i++)
            e.value[i] = (uint64_t)i << stride;
        struct counted_memory m = make_set(&c, &e);
        struct counted_set set = open_set(&m);
        struct counted_entries got;
        struct counted_sums read;
        struct err err;
        CHECK(get_le64(m.data) >> COUNTED_END_BITS == COUNTED_CROWD);
        MUST(check_set(&set, &err));
        MUST(counted_read(&set, &got, &read, &err));
        CHECK(same_entries(&e, &got));
        check_queries(&set, &e);
        uint64_t hash[64], present = 0;
        for (unsigned i = 0; i < 64; i++)
            hash[i] = (e.value[i * 1023] + i % 2) << 14;
        counted_query(&set, hash, 64, &present);
        CHECK(present == 0x5555555555555555);
        free(got.at);
        free(m.data);
        free_entries(&e);
    }
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
TEST(sizes_are_within_2_9_bits_of_the_logarithm)
{
    random_restart(5);
    for (size_t n = 1000; n <= 100000; n *= 10)
        for (unsigned bits = 20; bits <= 64; bits += 4) {
            double least = bits - log2((double)n);
            CHECK(bits_of(bits, n, ALL_ONE) < (double)n * (least + 2.9) + 300);
        }
}

/* Entropies: 0.19 bits a key for FEW, 2 for GEOMETRIC, 2.95 for ZIPF. Seeds differ by 0.02. */
TEST(counts_cost_little)
{
    enum { N = 50000 };
    random_restart(6);
    struct counted c = {.bits = 29};
    static const double most[COUNTS] = {
        [FEW] = 1.2 * N, [GEOMETRIC] = 2.5 * N, [ONE_HUGE] = 400, [ZIPF] = 3.3 * N};
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

/* Encodes blocks [first, end) of the entries. */
static struct counted_part encode_part(const struct counted *c, const struct counted_entries *e,
                                       uint64_t first, uint64_t end)
{
    struct counted_part part;
    struct err err;
    size_t from = 0, to;
    while (from < e->n && counted_block_of(c, e->at[from].value) < first)
        from++;
    for (to = from; to < e->n && counted_block_of(c, e->at[to].value) < end; to++)
        ;
    MUST(counted_encode(c, first, end, e->at + from, to - from, &part, &err));
    CHECK(part.sums.entries == to - from);
    return part;
}

TEST(parts_joined_are_the_bytes_of_the_whole)
{
    random_restart(7);
    struct counted c = {.bits = 64};
    struct entries e = draw_entries(40000, UINT64_MAX, ZIPF);
    struct counted_entries array = array_of(&e);
    struct counted_memory m = make_set(&c, &e);
    c = m.counted;
    uint64_t blocks = counted_blocks(&c);
    CHECK(blocks >= 256);
    for (uint64_t parts = 1; parts <= blocks; parts = 3 * parts + 1) {
        uint8_t *line = m.data, *block = m.data + counted_directory_len(&c);
        uint64_t at = 0;
        for (uint64_t part = 0; part < parts; part++) {
            struct counted_part p =
                encode_part(&c, &array, part * blocks / parts, (part + 1) * blocks / parts);
            counted_move_lines(p.lines, p.lines_len, at);
            CHECK(memcmp(line, p.lines, p.lines_len) == 0);
            CHECK(memcmp(block, p.blocks, p.blocks_len) == 0);
            line += p.lines_len;
            block += p.blocks_len;
            at += p.blocks_len;
            counted_part_free(&p);
        }
        CHECK(line == m.data + counted_directory_len(&c) &&
              block + COUNTED_SLACK == m.data + m.len);
    }
    free(m.data);
    free(array.at);
    free_entries(&e);
}

/* All in one block, or in two of a stretch; the next one is of another. */
TEST(the_encoder_refuses_a_crowded_stretch)
{
    static struct counted_entry e[COUNTED_CROWD + 2];
    const struct counted c = {.bits = 64, .low = 40};
    const uint64_t next = counted_block_first(&c, COUNTED_STRETCH);
    for (unsigned i = 0; i < 4; i++) {
        const unsigned n = COUNTED_CROWD + i % 2;
        struct counted_part part;
        struct err err = {.text = ""};
        for (unsigned k = 0; k <= n; k++)
            e[k] = (struct counted_entry){next - n + k, 1};
        for (unsigned k = 0; i >= 2 && k < 30000; k++)
            e[k].value -= (uint64_t)31 << 47;
        CHECK(counted_encode(&c, 0, 2 * COUNTED_STRETCH, e, n + 1, &part, &err) == (i % 2 == 0));
        CHECK_STR(err.text, i % 2 == 0
                                ? ""
                                : "the hashes of more than 65535 keys are too close together: such "
                                  "keys were chosen to do harm; a filter made with --secret takes "
                                  "them");
        counted_part_free(&part);
    }
}

/* ---- Hostile data. */

static bool touch(void *ctx, uint64_t page)
{
    const struct counted_set *set = ctx;
    CHECK(page * 4096 < set->len);
    return true;
}

/* All uses of a set that passed the check of its geometry. Sanitizers look for reads outside. All
 * variants give the same answers. */
static void use(const struct counted_set *set)
{
    struct err err;
    uint64_t hash[64], first = 0, count[64];
    for (unsigned i = 0; i < 64; i++)
        hash[i] = i < 32 ? draw() : (uint64_t)i << 59;
    for (const struct variant *const *v = counted_variants.all; *v != NULL; v++) {
        uint64_t present = 0;
        if (!variant_use(&counted_variants, (*v)->name))
            continue;
        counted_query(set, hash, 64, &present);
        CHECK(v == counted_variants.all || present == first);
        first = present;
    }
    counted_query_counts(set, hash, 64, count);
    for (unsigned i = 0; i < 64; i += 8)
        counted_pages(set, &hash[i], 1, touch, (void *)(uintptr_t)set);
    for (uint64_t page = 0; page * 4096 < set->directory_len; page++)
        counted_check_page(set, page, &err);
    struct counted_entries got;
    struct counted_sums read;
    bool ok = counted_read(set, &got, &read, &err), ordered = true;
    for (size_t i = 0; i < got.n; i++) {
        ordered &= i == 0 || got.at[i].value > got.at[i - 1].value;
        ordered &= got.at[i].value <= counted_top(&set->counted) && got.at[i].count > 0;
    }
    CHECK(ordered);
    CHECK(got.n <= 8 * set->len);
    CHECK(!ok || got.n == read.entries);
    free(got.at);
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
        uint8_t *fenced = fenced_copy(bad.data, bad.len);
        free(bad.data);
        struct layer layer = {.data_len = bad.len};
        struct err err;
        counted_to(&bad.counted, &layer);
        if (round % 5 == 0)
            layer.geometry[draw() % 4] ^= draw() >> draw() % 64;
        if (counted_check(&layer, &err)) {
            struct counted c = counted_of(&layer);
            struct counted_set set = counted_set(&c, fenced, bad.len);
            use(&set);
        }
        fenced_free(fenced, bad.len);
    }
}

TEST(damaged_sets_are_read_in_bounds)
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

static const char damaged[] = "the data of a counted set is not valid";

TEST(lines_that_go_back_are_refused)
{
    random_restart(9);
    struct counted c = {.bits = 64};
    struct entries e = draw_entries(20000, UINT64_MAX, ALL_ONE);
    struct counted_memory m = make_set(&c, &e);
    struct counted_set set = open_set(&m);
    struct err err;
    uint64_t was = get_le64(m.data + COUNTED_LINE);
    put_le64(m.data + COUNTED_LINE, get_le64(m.data) - 1);
    CHECK(!counted_check_page(&set, 0, &err));
    CHECK_STR(err.text, "line 1 of its directory is not valid");
    CHECK_STR(refusal(&set), damaged);
    put_le64(m.data + COUNTED_LINE, was);
    MUST(counted_check_directory(&set, &err));
    /* The second block has no entries, but bytes. */
    put_le64(m.data + COUNTED_LINE, counted_line_end(was));
    CHECK(!counted_check_directory(&set, &err));
    CHECK_STR(err.text, "line 1 of its directory is not valid");
    /* Neither. */
    for (uint64_t line = 1; line < counted_blocks(&set.counted); line++)
        put_le64(m.data + COUNTED_LINE * line, counted_line_end(get_le64(m.data)));
    CHECK(!counted_check_directory(&set, &err));
    CHECK_STR(err.text, "its directory is not that of its keys");
    free_entries(&e);
    free(m.data);
}

/* Its last byte belongs to the next block, or it has more entries than its bytes can hold. The
 * sanitizers watch what is read. */
TEST(blocks_shorter_than_their_entries_are_refused)
{
    random_restart(10);
    struct counted c = {.bits = 64};
    struct entries e = draw_entries(20000, UINT64_MAX, ALL_ONE);
    struct counted_memory m = make_set(&c, &e);
    const uint64_t blocks = counted_blocks(&m.counted);
    for (uint64_t number = 0; number < blocks; number += blocks - 1) {
        struct counted_set set = open_set(&m);
        uint8_t *line = m.data + COUNTED_LINE * number;
        uint64_t was = get_le64(line);
        struct counted_block b;
        struct err err;
        char wanted[64];
        snprintf(wanted, sizeof wanted, "line %u of its directory is not valid", (unsigned)number);
        MUST(counted_check_directory(&set, &err));
        CHECK(counted_find_block(&set, number, &b) && b.n > 0);
        put_le64(line, was - 1);
        CHECK(!counted_find_block(&set, number, &b));
        CHECK(!counted_check_directory(&set, &err));
        CHECK_STR(err.text, wanted);
        CHECK_STR(refusal(&set), damaged);
        for (uint64_t n = (was >> COUNTED_END_BITS) + 1; n <= UINT16_MAX; n += 1 + n / 4) {
            put_le64(line, counted_line_end(was) | n << COUNTED_END_BITS);
            CHECK(!counted_find_block(&set, number, &b));
            CHECK(!counted_check_page(&set, number * COUNTED_LINE / 4096, &err));
            CHECK_STR(err.text, wanted);
            CHECK_STR(refusal(&set), damaged);
            use(&set);
        }
        put_le64(line, was);
    }
    free_entries(&e);
    free(m.data);
}

/* Blocks that are long enough each, of one stretch. */
TEST(lines_of_a_crowd_are_refused)
{
    enum { LONG = 32768 };
    const struct counted c = {.bits = 20, .low = 0};
    const uint64_t bytes = (COUNTED_BUCKETS + (uint64_t)LONG) / 8;
    struct counted_set set = counted_set(&c, NULL, 0);
    set.len = set.directory_len + 2 * bytes + COUNTED_SLACK;
    uint8_t *data = calloc(set.len, 1);
    set.data = data;
    for (unsigned apart = 1; apart <= COUNTED_STRETCH; apart += COUNTED_STRETCH - 1)
        for (uint64_t page = 0; page < 2; page++) {
            struct err err;
            memset(data, 0, set.directory_len);
            const uint64_t first = 512 * page;
            for (uint64_t line = first; line < counted_blocks(&c); line++)
                put_le64(data + 8 * line, line < first + apart ? bytes : 2 * bytes);
            data[8 * first + 7] = data[8 * (first + apart) + 7] = LONG >> 8;
            CHECK(counted_check_page(&set, page, &err) == (apart == COUNTED_STRETCH));
            if (apart == 1 && page == 1)
                CHECK_STR(err.text, "line 513 of its directory is not valid");
        }
    /* The first line of a page is behind all room. */
    struct err err;
    memset(data, 0, set.directory_len);
    MUST(counted_check_page(&set, 0, &err));
    put_le64(data + 4096, 2 * bytes + 1);
    CHECK(!counted_check_page(&set, 1, &err));
    CHECK_STR(err.text, "line 512 of its directory is not valid");
    free(data);
}

/* Bytes behind the first block, as if they were counts: of k and no more; all 1. */
TEST(bytes_behind_entries_are_refused)
{
    random_restart(11);
    for (unsigned more = 1; more <= 40; more += 39) {
        struct counted c = {.bits = 64};
        struct entries e = draw_entries(20000, UINT64_MAX, ALL_ONE);
        struct counted_memory m = make_set(&c, &e);
        size_t end =
            (size_t)(counted_directory_len(&m.counted) + counted_line_end(get_le64(m.data)));
        unsigned n = (unsigned)(get_le64(m.data) >> COUNTED_END_BITS);
        m.data = realloc(m.data, m.len + more);
        memmove(m.data + end + more, m.data + end, m.len - end);
        memset(m.data + end, 0, more);
        m.len += more;
        counted_move_lines(m.data, (size_t)counted_directory_len(&m.counted), more);
        struct counted_set set = counted_set(&m.counted, m.data, m.len);
        struct counted_block b;
        CHECK(counted_find_block(&set, 0, &b) && n < 8 * 39);
        struct counted_writer w = {m.data, counted_counts_at(&set, &b) + 8};
        for (unsigned i = 0; more > 1 && i < n; i++, w.bit++)
            m.data[w.bit / 8] |= (uint8_t)(1U << w.bit % 8);
        /* The block ends where they do. */
        uint64_t cut = more > 1 ? b.end - (w.bit + 7) / 8 : 0;
        memmove(m.data + b.end - cut, m.data + b.end, m.len - (size_t)b.end);
        m.len -= cut;
        counted_move_lines(m.data, (size_t)counted_directory_len(&m.counted), 0 - cut);
        set = open_set(&m);
        struct err err;
        MUST(counted_check_directory(&set, &err));
        CHECK_STR(refusal(&set), damaged);
        free_entries(&e);
        free(m.data);
    }
}

/* The bits between the last count, or remainder, and the end of the block. */
TEST(padding_and_slack_are_zero)
{
    uint64_t value[] = {3, 4, 130, 700, 999}, one[] = {1, 1, 1, 1, 1};
    const struct counted c = {.bits = 10};
    struct counted_memory m = make_set(&c, &(struct entries){value, one, 5});
    struct counted_set set = open_set(&m);
    struct err err;
    MUST(counted_check_directory(&set, &err));
    CHECK_STR(refusal(&set), "");
    for (unsigned i = 1; i <= COUNTED_SLACK; i++) {
        m.data[m.len - i]++;
        CHECK(!counted_check_directory(&set, &err));
        CHECK_STR(err.text, "its blocks do not end where its data does");
        m.data[m.len - i]--;
    }
    /* 128 + 5 + 5 * 7 bits are 21 bytes. */
    CHECK(m.len == 8 + 21 + COUNTED_SLACK);
    free(m.data);
    m = make_set(&c, &(struct entries){value, one, 4});
    set = open_set(&m);
    CHECK(m.len == 8 + 21 + COUNTED_SLACK);
    m.data[8 + 20] |= 0x80;
    MUST(counted_check_directory(&set, &err));
    CHECK_STR(refusal(&set), damaged);
    free(m.data);
}

TEST(sets_cut_anywhere_are_read_in_bounds)
{
    random_restart(12);
    struct counted c = {.bits = 64};
    struct entries e = draw_entries(400, 1 << 20, FEW);
    struct counted_memory m = make_set(&c, &e);
    size_t directory = (size_t)counted_directory_len(&m.counted);
    for (size_t len = directory; len < m.len; len += len < directory + 100 ? 1 : 97) {
        uint8_t *cut = fenced_copy(m.data, len);
        struct counted_set set = counted_set(&m.counted, cut, len);
        use(&set);
        fenced_free(cut, len);
    }
    free(m.data);
    free_entries(&e);
}

/* No bucket ends in them. */
TEST(marks_of_zeros_are_read_in_bounds)
{
    random_restart(13);
    struct counted c = {.bits = 64};
    struct entries e = draw_entries(400, 1 << 20, FEW);
    struct counted_memory m = make_set(&c, &e);
    uint8_t *zeros = fenced_copy(m.data, m.len);
    size_t directory = (size_t)counted_directory_len(&m.counted);
    memset(zeros + directory, 0, m.len - directory);
    struct counted_set set = counted_set(&m.counted, zeros, m.len);
    use(&set);
    fenced_free(zeros, m.len);
    free(m.data);
    free_entries(&e);
}

/* Of the only entry, in bucket 0. */
TEST(marks_that_disagree_with_the_line_are_refused_and_read_in_bounds)
{
    enum { MARKS_LEN = 17, LEN = COUNTED_LINE + MARKS_LEN + COUNTED_SLACK };
    const struct counted one = {.bits = 7, .low = 0, .entries = 1, .total = 1};
    uint8_t data[LEN] = {0}, *marks = data + COUNTED_LINE;
    put_le64(data, MARKS_LEN | (uint64_t)1 << COUNTED_END_BITS);
    memset(marks, 0xff, MARKS_LEN - 1);
    marks[MARKS_LEN - 1] = 1;
    marks[0] = 0xfe;
    struct counted_set set = counted_set(&one, data, LEN);
    CHECK_STR(refusal(&set), "");
    marks[0] = 0xff;
    CHECK_STR(refusal(&set), damaged);
    /* No bucket ends in them, but many do behind them. */
    memset(marks, 0, MARKS_LEN);
    memset(marks + MARKS_LEN, 0xff, COUNTED_SLACK);
    uint8_t *fenced = fenced_copy(data, LEN);
    set = counted_set(&one, fenced, LEN);
    use(&set);
    fenced_free(fenced, LEN);
}

/* A set with one entry, whose count is in the code of order k with c zeros and the number m. */
static struct counted_set one_count(struct counted_memory *m, unsigned k, unsigned c, uint64_t rest,
                                    unsigned more)
{
    struct counted one = {.bits = 10, .entries = 1};
    static uint8_t data[256];
    counted_design(&one, 1);
    memset(data, 0, sizeof data);
    memset(data + 8, 0xff, 17);
    struct counted_writer w = {data + 8, COUNTED_BUCKETS + 1};
    data[8] = 0xfe;
    counted_write(&w, 77, one.low);
    counted_write(&w, k, 8);
    counted_write(&w, (uint64_t)1 << c, c + 1);
    counted_write(&w, rest & counted_mask(c + k), c + k < 64 ? c + k : 64);
    uint64_t len = (w.bit + 7) / 8 + more;
    put_le64(data, len | (uint64_t)1 << COUNTED_END_BITS);
    m->counted = one;
    m->len = 8 + len + COUNTED_SLACK;
    m->data = malloc(m->len);
    memcpy(m->data, data, m->len);
    return counted_set(&m->counted, m->data, m->len);
}

TEST(counts_are_below_2_to_the_64)
{
    static const uint64_t top = (uint64_t)1 << 63;
    static const struct {
        unsigned k, c;
        uint64_t rest;
        unsigned more;
        uint64_t count; /* 0: not valid */
    } cases[] = {
        {0, 1, 0, 0, 2},        {0, 1, 0, 1, 0},
        {3, 0, 6, 0, 7},        {63, 1, top - 2, 0, UINT64_MAX},
        {63, 1, top - 1, 0, 0}, {63, 1, top, 0, 0},
        {63, 2, 0, 0, 0},       {64, 0, 5, 0, 0},
        {0, 0, 0, 0, 0},        {4, 0, 6, 0, 7}, /* whole bytes: none may follow */
        {4, 0, 6, 1, 0},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct counted_memory m;
        struct counted_set set =
            one_count(&m, cases[i].k, cases[i].c, cases[i].rest, cases[i].more);
        uint64_t hash = (uint64_t)77 << 54, count = 0;
        struct err err;
        MUST(counted_check_directory(&set, &err));
        CHECK_STR(refusal(&set), cases[i].count > 0 ? "" : damaged);
        set.counted.total = 2; /* not all are 1 */
        counted_query_counts(&set, &hash, 1, &count);
        if (cases[i].more == 0 && cases[i].c + cases[i].k > 0)
            CHECK(count == cases[i].count);
        free(m.data);
    }
}

/* There are 8 buckets. */
TEST(a_bucket_behind_the_last_one_is_refused)
{
    uint64_t value[] = {3, 4, 130, 700, 999}, one[] = {1, 1, 1, 1, 1};
    struct counted_memory m =
        make_set(&(struct counted){.bits = 10}, &(struct entries){value, one, 5});
    struct counted_set set = open_set(&m);
    CHECK_STR(refusal(&set), "");
    CHECK(m.data[8 + 1] == 0xf6);
    m.data[8 + 1] = 0xee;
    CHECK_STR(refusal(&set), damaged);
    free(m.data);
}

TEST(geometry_is_checked)
{
    static const char buckets[] = "its number of buckets is not that for its keys";
    static const char bits[] = "its number of fingerprint bits is out of range";
    static const char keys[] = "its number of keys is out of range";
    static const char length[] = "its directory does not fit its length";
    struct err err;
    struct layer good = {.data_len = 45}, bad;
    counted_to(&(struct counted){.bits = 10, .low = 7, .entries = 5, .total = 5}, &good);
    MUST(counted_check(&good, &err));
#define BAD(change, why)                                                                           \
    bad = good;                                                                                    \
    bad.change;                                                                                    \
    CHECK(!counted_check(&bad, &err));                                                             \
    CHECK_STR(err.text, why)
    BAD(geometry[0] = 0, bits);
    BAD(geometry[0] = 65, bits);
    BAD(geometry[0] |= (uint64_t)1 << 32, bits);
    BAD(geometry[0] = 11, buckets);
    BAD(geometry[1] = 6, buckets);
    BAD(geometry[1] = 8, buckets);
    BAD(geometry[1] |= (uint64_t)1 << 32, buckets);
    BAD(data_len = 23, length);
    BAD(data_len = 0, length);
    BAD(data_len = ((uint64_t)1 << 48) + 1, length);
    BAD(geometry[2] = 6, keys);
    BAD(geometry[2] = 0, keys);
    BAD(geometry[2] = 1025; bad.geometry[3] = 1025, keys);
    BAD(geometry[2] = 900; bad.geometry[3] = 900, keys);
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
    /* One block of some 12 pages: all of them, and one or two of the directory. */
    check_pages(40, 2 + 16);
}

/* A block begins where the one before it ends, which the page before may say. */
TEST(the_line_before_is_announced)
{
    random_restart(15);
    struct counted c = {.bits = 64};
    struct entries e = draw_entries(80000, UINT64_MAX, ALL_ONE);
    struct counted_memory m = make_set(&c, &e);
    struct counted_set set = open_set(&m);
    CHECK(set.directory_len == 8192);
    for (uint64_t block = 511; block <= 513; block++) {
        struct pages pages = {{0}};
        uint64_t hash = counted_block_first(&set.counted, block);
        CHECK(counted_pages(&set, &hash, 1, note, &pages));
        CHECK(bit_of(pages.bits, 0) == (block <= 512) && bit_of(pages.bits, 1) == (block >= 512));
    }
    free(m.data);
    free_entries(&e);
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
    static const struct variant expected[] = {{"popcnt", cpu_has_popcnt}, {"plain", NULL}};
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
    RUN(full_blocks_are_searched);
    RUN(sizes_are_within_2_9_bits_of_the_logarithm);
    RUN(counts_cost_little);
    RUN(parts_joined_are_the_bytes_of_the_whole);
    RUN(the_encoder_refuses_a_crowded_stretch);
    RUN(damaged_sets_are_read_in_bounds);
    RUN(lines_that_go_back_are_refused);
    RUN(blocks_shorter_than_their_entries_are_refused);
    RUN(lines_of_a_crowd_are_refused);
    RUN(bytes_behind_entries_are_refused);
    RUN(padding_and_slack_are_zero);
    RUN(sets_cut_anywhere_are_read_in_bounds);
    RUN(marks_of_zeros_are_read_in_bounds);
    RUN(marks_that_disagree_with_the_line_are_refused_and_read_in_bounds);
    RUN(counts_are_below_2_to_the_64);
    RUN(a_bucket_behind_the_last_one_is_refused);
    RUN(geometry_is_checked);
    RUN(pages_decide_about_a_key);
    RUN(the_line_before_is_announced);
    RUN(pages_of_a_batch_are_those_of_its_keys);
    RUN(every_variant_is_there);
    return check_done();
}

/* SPDX-License-Identifier: MIT */
/* tags: computing portable */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/variant.h"
#include "kind/ribbon/key.h"
#include "random.h"
#include "variants.h"

TEST(all_that_this_cpu_has_is_listed)
{
    static const struct variant expected[] = {
        {"avx512", cpu_has_avx512_bits},
        {"avx2", cpu_has_avx2},
        {"neon", cpu_has_neon},
        {"plain", NULL},
    };
    CHECK_VARIANTS(&ribbon_variants, expected);
}

TEST_EACH_VARIANT(derived_equations, ribbon_variants)
{
    static const uint64_t starts[] = {1, 65, 505953, ((uint64_t)1 << 22) - 63, UINT32_MAX};
    struct ribbon_equations want, got;
    uint64_t x[RIBBON_GROUP + 7];
    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++)
        for (size_t n = 0; n <= RIBBON_GROUP; n += 1 + n / 9) {
            for (size_t i = 0; i < sizeof x / sizeof *x; i++)
                x[i] = i == 1 ? 0 : i == 2 ? UINT64_MAX : draw();
            ribbon_plain.derive(x, n, starts[s], &want);
            ribbon_in_use()->derive(x, n, starts[s], &got);
            CHECK(memcmp(want.start, got.start, n * sizeof *want.start) == 0);
            CHECK(memcmp(want.coefficients, got.coefficients, n * sizeof *want.coefficients) == 0);
            CHECK(memcmp(want.fingerprint, got.fingerprint, n * sizeof *want.fingerprint) == 0);
        }
}

enum { SLOTS = 640 };

struct table {
    uint64_t coefficients[SLOTS];
    uint32_t bits[SLOTS];
};

static void solution(const struct ribbon_variant *v, const struct table *t, unsigned columns,
                     uint64_t s[SLOTS / RIBBON_WIDTH][RIBBON_MAX_COLUMNS])
{
    uint64_t column[RIBBON_MAX_COLUMNS] = {0};
    for (size_t i = SLOTS / RIBBON_WIDTH; i-- > 0;) {
        v->solve(t->coefficients + i * RIBBON_WIDTH, t->bits + i * RIBBON_WIDTH, columns, column);
        memcpy(s[i], column, sizeof column);
    }
}

/* Whether an equation holds in a solution. */
static bool holds(uint64_t s[SLOTS / RIBBON_WIDTH][RIBBON_MAX_COLUMNS], unsigned columns,
                  uint32_t start, uint64_t c, uint32_t bits)
{
    for (unsigned j = 0; j < columns; j++) {
        unsigned sum = bits >> j & 1;
        for (unsigned i = start; i < start + RIBBON_WIDTH; i++)
            sum ^= (unsigned)(c >> (i - start) & s[i / RIBBON_WIDTH][j] >> i % RIBBON_WIDTH) & 1;
        if (sum != 0)
            return false;
    }
    return true;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* n equations that start in [first, first + span). If `wrong`, the last two contradict each
 * other. */
static void draw_group(struct ribbon_equations *e, size_t n, uint32_t first, uint32_t span,
                       bool wrong)
{
    for (size_t i = 0; i < n; i++)
        e->start[i] = first + (uint32_t)(draw() % span);
    qsort(e->start, n, sizeof *e->start, by_value);
    for (size_t i = 0; i < n; i++) {
        e->coefficients[i] = draw() | 1;
        e->fingerprint[i] = (uint32_t)draw();
    }
    if (wrong && n >= 2) {
        e->start[n - 2] = e->start[n - 1];
        e->coefficients[n - 2] = e->coefficients[n - 1];
    }
}

/* Groups are added to two tables, by the variant in use and in plain C. Both must say the same of
 * each, have rows for the same slots, and come to the same solution, in which what was added
 * holds. */
static void compare_added(unsigned columns, unsigned load)
{
    enum { GROUPS = 3 * (SLOTS / RIBBON_BUCKET - 1) };
    static struct table want, got;
    static struct ribbon_equations e[GROUPS];
    static uint64_t s[SLOTS / RIBBON_WIDTH][RIBBON_MAX_COLUMNS];
    static uint64_t t[SLOTS / RIBBON_WIDTH][RIBBON_MAX_COLUMNS];
    size_t n[GROUPS];
    bool added[GROUPS];
    struct ribbon_rows a = {want.coefficients, want.bits}, b = {got.coefficients, got.bits};
    memset(&want, 0, sizeof want);
    memset(&got, 0, sizeof got);
    for (size_t g = 0; g < GROUPS; g++) {
        unsigned level = 3 - (unsigned)(g % 3);
        uint32_t first = (uint32_t)(g / 3 * RIBBON_BUCKET) + ribbon_limit[level - 1];
        uint32_t span = (uint32_t)(ribbon_limit[level] - ribbon_limit[level - 1]);
        n[g] = (size_t)(draw() % (2 * span * load / 100 + 1));
        if (n[g] > RIBBON_GROUP)
            n[g] = RIBBON_GROUP;
        draw_group(&e[g], n[g], first, span, draw() % 16 == 0);
        added[g] = ribbon_plain.add(&a, columns, &e[g], n[g]);
        CHECK(ribbon_in_use()->add(&b, columns, &e[g], n[g]) == added[g]);
        for (size_t i = 0; i < SLOTS; i++)
            CHECK((want.coefficients[i] != 0) == (got.coefficients[i] != 0));
    }
    solution(&ribbon_plain, &want, columns, s);
    solution(ribbon_in_use(), &got, columns, t);
    CHECK(memcmp(s, t, sizeof s) == 0);
    for (size_t g = 0; g < GROUPS; g++)
        for (size_t i = 0; added[g] && i < n[g]; i++)
            CHECK(holds(s, columns, e[g].start[i], e[g].coefficients[i], e[g].fingerprint[i]));
}

TEST_EACH_VARIANT(added_equations, ribbon_variants)
{
    static const unsigned columns[] = {1, 7, 8, 15, 16, 17, 24, 31, 32};
    static const unsigned loads[] = {20, 80, 104, 130}; /* percent, of slots */
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
        for (size_t l = 0; l < sizeof loads / sizeof *loads; l++)
            for (unsigned round = 0; round < 20; round++)
                compare_added(columns[c], loads[l]);
}

/* A layer of random bytes with a directory of entries, of which many are valid and others are not
 * in one way or another. */
enum { DATA = 1 << 16, PREFIX_BITS = 6, ENTRIES = 1 << PREFIX_BITS };

static void put_random_entry(uint8_t *to)
{
    static const uint32_t sizes[] = {0, 1, 2, 7, 60, 300, 70000, 1 << 17, UINT32_MAX};
    uint64_t kind = draw();
    struct ribbon_entry e = {.at = draw() % (DATA / 2) / 8 * 8,
                             .segments = {1 + (uint32_t)(draw() % 60), draw() % 2, 0},
                             .listed = draw() % 4,
                             .keys = (uint32_t)draw()};
    if (kind % 4 == 0)
        e.seed = (uint8_t)draw();
    if (kind % 16 == 2)
        e.at = draw() >> draw() % 64;
    if (kind % 16 == 3)
        e.segments[draw() % 3] = sizes[draw() % (sizeof sizes / sizeof *sizes)];
    if (kind % 16 == 4)
        e.listed = (uint32_t)draw();
    ribbon_put_entry(&e, to);
}

static bool same_probe(const struct ribbon_probes *p, const struct ribbon_probes *q, unsigned i)
{
    return p->low[i] == q->low[i] && p->high[i] == q->high[i] &&
           p->threshold[i] == q->threshold[i] && p->in_first[i] == q->in_first[i] &&
           p->in_next[i] == q->in_next[i] && p->start[i] == q->start[i] &&
           p->fingerprint[i] == q->fingerprint[i] && p->columns[i] == q->columns[i];
}

TEST_EACH_VARIANT(probes_and_answers, ribbon_variants)
{
    static uint8_t data[DATA];
    const struct ribbon_variant *v = ribbon_in_use();
    unsigned known = 0, unknown = 0, yes = 0;
    for (unsigned round = 0; round < 400; round++) {
        struct ribbon_source s = {.ribbon = {.bits = round % 8 == 0 ? 0 : PREFIX_BITS,
                                             .columns = 1 + round % 31,
                                             .wide = round % 3 ? (uint32_t)draw() : 0},
                                  .data = data,
                                  .len = DATA};
        for (size_t i = 0; i < DATA; i++)
            data[i] = (uint8_t)draw();
        for (size_t i = 0; i < ENTRIES; i++)
            put_random_entry(data + DATA - (ENTRIES - i) * RIBBON_ENTRY);
        for (unsigned group = 0; group < 50; group++) {
            uint64_t hash[RIBBON_PROBES];
            struct ribbon_probes want, got;
            for (unsigned i = 0; i < RIBBON_PROBES; i++)
                hash[i] = draw();
            unsigned all = ribbon_plain.aim(&s, hash, &want);
            CHECK(v->aim(&s, hash, &got) == all);
            for (unsigned i = 0; i < RIBBON_PROBES; i++) {
                CHECK((all >> i & 1) == 0 || same_probe(&want, &got, i));
                known += all >> i & 1;
                unknown += ~all >> i & 1;
            }
            for (unsigned i = 0; i < RIBBON_PROBES; i++)
                if ((all >> i & 1) == 0)
                    ribbon_no_probe(&want, i);
            unsigned most = s.ribbon.columns + (s.ribbon.wide != 0);
            unsigned answer = ribbon_plain.answer(data, &want, most, &want);
            CHECK(v->answer(data, &want, most, &want) == answer);
            yes += (unsigned)__builtin_popcount(answer & all);
        }
    }
    CHECK(known > 50000 && unknown > 10000 && yes > 1000);
}

/* The parity of each column's selected bits. */
static uint32_t agreeing(const uint8_t *data, const struct ribbon_probes *p, unsigned i)
{
    uint32_t odd = 0;
    for (unsigned j = 0; j < p->columns[i]; j++) {
        uint64_t a = get_le64(data + p->low[i] + 8 * j) & p->in_first[i];
        uint64_t b = get_le64(data + p->high[i] + 8 * j) & p->in_next[i];
        odd |= (uint32_t)__builtin_parityll(a ^ b) << j;
    }
    return odd;
}

/* Probe i of columns anywhere in `len` bytes, often at their beginning or end. */
static void put_probe(struct ribbon_probes *p, unsigned i, unsigned columns, size_t len)
{
    bool alone = draw() % 8 == 0;
    uint64_t last = len / 8 - (alone ? 1 : 2) * columns;
    uint64_t places[] = {0, last, draw() % (last + 1)};
    p->low[i] = 8 * places[draw() % 3];
    p->high[i] = p->low[i] + (alone ? 0 : 8 * columns);
    p->in_first[i] = draw();
    p->in_next[i] = alone ? 0 : draw();
    p->columns[i] = columns;
}

/* Answers depend on each column, and on no other byte: there is no memory around the columns. */
TEST_EACH_VARIANT(every_column_counts, ribbon_variants)
{
    const struct ribbon_variant *v = ribbon_in_use();
    const size_t len = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *around = mmap(NULL, 3 * len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *data = around + len;
    CHECK(around != MAP_FAILED && mprotect(data, len, PROT_READ | PROT_WRITE) == 0);
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)draw();
    for (unsigned round = 0; round < 1000; round++)
        for (unsigned most = 1; most <= RIBBON_MAX_COLUMNS; most++) {
            struct ribbon_probes p = {0};
            unsigned want = 0;
            for (unsigned i = 0; i < RIBBON_PROBES; i++) {
                unsigned columns = most - (most > 1 && draw() % 2);
                uint32_t flip = draw() % 2 ? (uint32_t)1 << draw() % columns : 0;
                uint32_t unused = columns < 32 ? (uint32_t)draw() << columns : 0;
                put_probe(&p, i, columns, len);
                p.fingerprint[i] = agreeing(data, &p, i) ^ flip ^ unused;
                if (draw() % 16 == 0) {
                    ribbon_no_probe(&p, i);
                    flip = 0;
                }
                want |= (unsigned)(flip == 0) << i;
            }
            CHECK(v->answer(data, &p, most, &p) == want);
        }
    munmap(around, 3 * len);
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    RUN(all_that_this_cpu_has_is_listed);
    RUN(derived_equations);
    RUN(added_equations);
    RUN(probes_and_answers);
    RUN(every_column_counts);
    return check_done();
}

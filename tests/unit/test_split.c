/* SPDX-License-Identifier: MIT */
/* Every variant of split() against a loop that looks at one byte after the other.
 * tags: portable */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/variant.h"
#include "check.h"
#include "keys/split.h"
#include "random.h"
#include "variants.h"

enum { MAX = 300 };

/* Memory with unmapped pages on both sides: a read outside ends the test. */
static char *fenced;
static size_t fenced_len;

static void make_fences(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    fenced_len = (9000 / page + 1) * page;
    char *p = mmap(NULL, fenced_len + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fenced = p + page;
    if (p == MAP_FAILED || mprotect(fenced, fenced_len, PROT_READ | PROT_WRITE) != 0)
        abort();
}

/* One call compared with the loop. Behind what split() may write lies a mark that must stay. */
static bool agrees(const char *p, size_t len, char terminator, size_t max)
{
    static const char mark;
    const char *next[MAX + SPLIT_SLACK + 1], *want[MAX + SPLIT_SLACK];
    for (size_t i = 0; i < sizeof next / sizeof *next; i++)
        next[i] = &mark;
    size_t scanned = SIZE_MAX, n = split(p, len, terminator, next, max, &scanned), m = 0;
    if (scanned > len || n >= max + SPLIT_SLACK || (n < max && scanned != len))
        return false;
    for (size_t i = 0; i < scanned; i++)
        if (p[i] == terminator) {
            if (m == n)
                return false;
            want[m++] = p + i + 1;
        }
    return m == n && (!n || memcmp(next, want, n * sizeof *next) == 0) &&
           next[max + SPLIT_SLACK] == &mark;
}

/* Bytes that equal the terminator, with probability 1/every, or nearly do. */
static void fill(char *p, size_t len, char terminator, unsigned every)
{
    for (size_t i = 0; i < len; i++) {
        uint64_t r = draw();
        char other = (char)((unsigned char)terminator ^ 1U << (r >> 32) % 8);
        p[i] = r % every == 0 ? terminator : other;
    }
}

static bool short_texts_at_both_fences(void)
{
    bool ok = true;
    for (size_t len = 0; len <= 260; len++)
        for (unsigned round = 0; round < 8; round++) {
            char terminator = round % 2 ? '\n' : (char)draw();
            unsigned every = 1 + (unsigned)(draw() % 70);
            char *at_end = fenced + fenced_len - len;
            fill(fenced, len, terminator, every);
            fill(at_end, len, terminator, every);
            size_t max = 1 + draw() % MAX;
            ok &= agrees(fenced, len, terminator, max) && agrees(at_end, len, terminator, max);
        }
    return ok;
}

static bool long_texts_at_any_alignment(void)
{
    bool ok = true;
    for (unsigned round = 0; round < 1500; round++) {
        char terminator = round % 3 ? '\n' : 0;
        size_t at = draw() % 300, len = draw() % (fenced_len - at);
        fill(fenced + at, len, terminator, 1 + (unsigned)(draw() % (round % 2 ? 100 : 3)));
        ok &= agrees(fenced + at, len, terminator, 1 + draw() % MAX);
    }
    return ok;
}

/* Called again and again where it stopped, it finds everything once. */
static bool resumes(void)
{
    bool ok = true;
    for (unsigned round = 0; round < 200; round++) {
        size_t len = draw() % fenced_len, found = 0, want = 0;
        fill(fenced, len, 0, 1 + (unsigned)(draw() % 40));
        for (size_t i = 0; i < len; i++)
            want += fenced[i] == 0;
        const char *next[MAX + SPLIT_SLACK], *last = fenced;
        for (size_t at = 0; at < len;) {
            size_t scanned, n = split(fenced + at, len - at, 0, next, 1 + draw() % MAX, &scanned);
            ok &= scanned > 0;
            if (!ok)
                return false;
            for (size_t i = 0; i < n; i++) {
                ok &= next[i] > last && next[i][-1] == 0;
                last = next[i];
            }
            found += n;
            at += scanned;
        }
        ok &= found == want;
    }
    return ok;
}

TEST_EACH_VARIANT(every_variant_agrees_with_the_loop, split_variants)
{
    CHECK(short_texts_at_both_fences());
    CHECK(long_texts_at_any_alignment());
    CHECK(resumes());
}

TEST(all_that_this_cpu_has_is_listed)
{
    static const struct variant expected[] = {
        {"avx512vbmi2", cpu_has_avx512_bits},
        {"avx2", cpu_has_avx2},
#ifdef __x86_64__
        {"sse2", NULL},
#endif
        {"neon", cpu_has_neon},
        {"plain", NULL},
    };
    CHECK_VARIANTS(&split_variants, expected);
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    make_fences();
    RUN(every_variant_agrees_with_the_loop);
    RUN(all_that_this_cpu_has_is_listed);
    return check_done();
}

/* SPDX-License-Identifier: MIT */
/* Every variant of split_csv() and split_csv_ends() against the rule, a byte at a time; and which
 * columns -f names.
 * tags: portable */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/variant.h"
#include "check.h"
#include "keys/csv.h"
#include "keys/split.h"
#include "random.h"
#include "variants.h"

enum { MOST = 700 };

/* Memory with an unmapped page behind it: a read beyond the end ends the test. */
static char *fence;

static void make_fence(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || page < MOST || munmap(p + page, page) != 0)
        abort();
    fence = p + page;
}

/* Text in which each byte that matters is frequent. */
static size_t fill(char *p, size_t most)
{
    static const char *const alike[] = {"\",\n", "\",\n\rab", "\"\"\"\",\na\r\n", "abcdefgh\",\n",
                                        "abcdefgh,,\n"};
    const char *bytes = alike[draw() % 5];
    size_t len = (size_t)(draw() % (most + 1)), kinds = strlen(bytes);
    for (size_t i = 0; i < len; i++)
        p[i] = bytes[draw() % kinds];
    return len;
}

/* Text that keeps the rule, but for one byte in some cases. */
static size_t fill_valid(char *p, size_t most)
{
    size_t n = 0;
    while (n + 40 < most) {
        bool quoted = draw() % 2 == 0;
        if (quoted)
            p[n++] = '"';
        for (uint64_t left = draw() % 12; left > 0; left--) {
            char c = (quoted ? "ab,\n\r\"" : "abcde f")[draw() % (quoted ? 6 : 7)];
            p[n++] = c;
            if (c == '"')
                p[n++] = '"';
        }
        if (quoted)
            p[n++] = '"';
        if (draw() % 3 != 0) {
            p[n++] = ',';
        } else {
            if (draw() % 2 == 0)
                p[n++] = '\r';
            p[n++] = '\n';
        }
    }
    if (n > 0 && draw() % 4 == 0)
        p[draw() % n] = "\",\n\ra"[draw() % 5];
    return n;
}

/* The rule. Returns the number of separators; *bad is SIZE_MAX without a wrong byte. */
static size_t by_bytes(const char *p, size_t len, uint32_t *place, size_t *bad, uint64_t *inner)
{
    enum { BEGIN, BARE, INSIDE, CLOSED } state = BEGIN;
    size_t n = 0;
    bool cr = false;
    *bad = SIZE_MAX;
    *inner = 0;
    for (size_t i = 0; i < len; i++) {
        char c = p[i];
        bool ends = state != INSIDE && (c == ',' || c == '\n');
        if ((cr && c != '\n') || (state == CLOSED && !ends && c != '"' && c != '\r') ||
            (state == BARE && c == '"')) {
            *bad = i;
            return n;
        }
        cr = state != INSIDE && c == '\r';
        if (state == INSIDE) {
            *inner += c == '\n';
            state = c == '"' ? CLOSED : INSIDE;
        } else if (ends) {
            place[n++] = (uint32_t)i;
            state = BEGIN;
        } else {
            state = c == '"' ? INSIDE : c == '\r' && state == CLOSED ? CLOSED : BARE;
        }
    }
    return n;
}

/* Are these the newlines among the n places of p? */
static bool are_newlines(const char *p, const uint32_t *place, size_t n, const uint32_t *end)
{
    for (size_t i = 0; i < n; i++)
        if (p[place[i]] == '\n' && *end++ != place[i])
            return false;
    return *end == UINT32_MAX;
}

static bool cuts(const char *p, size_t len)
{
    uint32_t want[MOST], got[MOST + SPLIT_SLACK], end[MOST + SPLIT_SLACK];
    size_t bad;
    uint64_t inner;
    size_t n = by_bytes(p, len, want, &bad, &inner);
    struct csv_scan whole = {.may_open = true};
    bool ok = split_csv(&whole, p, len, ',', got, end) == n;
    ok &= memcmp(got, want, n * sizeof *got) == 0 && are_newlines(p, got, n, end);
    ok &= whole.broken == (bad != SIZE_MAX) && (!whole.broken || whole.bad == bad);
    ok &= whole.newlines == inner;
    /* In pieces: the state passes from one to the next. */
    struct csv_scan part = {.may_open = true};
    size_t at = 0, m = 0;
    while (at < len && !part.broken) {
        size_t piece = 1 + (size_t)draw() % (len - at);
        size_t found = split_csv(&part, p + at, piece, ',', got, end);
        ok &= are_newlines(p + at, got, found, end);
        for (size_t i = 0; i < found; i++)
            ok &= m < n && got[i] + at == want[m++];
        if (part.broken)
            ok &= part.bad + at == bad;
        at += piece;
    }
    ok &= m == n && part.broken == whole.broken;
    return ok && part.newlines == inner && (part.broken || part.inside == whole.inside);
}

static bool all_cuts(void)
{
    bool ok = true;
    char text[MOST];
    for (unsigned round = 0; round < 20000; round++) {
        size_t len = round % 2 ? fill(text, MOST) : fill_valid(text, 1 + (size_t)(draw() % MOST));
        memcpy(fence - len, text, len);
        ok &= cuts(fence - len, len);
    }
    return ok;
}

static bool all_ends(void)
{
    bool ok = true;
    for (unsigned round = 0; round < 20000; round++) {
        char text[MOST];
        size_t len = fill(text, MOST), from = len > 0 ? (size_t)(draw() % (len + 3)) : 0;
        const char *p = memcpy(fence - len, text, len);
        bool inside = draw() % 2 == 0, in = inside;
        size_t first = SIZE_MAX, last = SIZE_MAX, want_first = SIZE_MAX, want_last = SIZE_MAX;
        for (size_t i = 0; i < len; i++) {
            in ^= p[i] == '"';
            if (p[i] != '\n' || in)
                continue;
            want_last = i + 1;
            if (want_first == SIZE_MAX && i >= from)
                want_first = i + 1;
        }
        split_csv_ends(p, len, &inside, from, &first, &last);
        ok &= inside == in && first == want_first && last == want_last;
    }
    return ok;
}

TEST_EACH_VARIANT(every_variant_keeps_the_rule, split_variants)
{
    CHECK(all_cuts());
    CHECK(all_ends());
}

/* Why the list, or a file with these columns, is refused; the numbers of the columns, if not. */
static const char *columns_of(const char *list, const char *first)
{
    static struct csv csv;
    static struct err err;
    struct csv_columns c;
    csv = (struct csv){.delimiter = ','};
    if (!csv_want(&csv, list, &err) || !csv_resolve(&csv, first, strlen(first), &c, &err))
        return err.text;
    err.text[0] = '\0';
    for (unsigned i = 0; i < c.used; i++)
        sprintf(err.text + strlen(err.text), "%d ", c.column[i]);
    return strcat(err.text, c.rest ? "-" : "");
}

TEST(columns)
{
    static const char *const rows[][3] = {
        {"c,a", "a,b,c", "2 0 "},
        {"-1,2", "a,b,c", "2 1 "},
        {"1-3", "a,b,c", "0 1 2 "},
        {"-3,2-", "a,b,c", "0 1 -"},
        {"2-", "a,b,c", "1 -"},
        {"3-", "a,b,c", "2 "},
        {"1,2-", "a,b", "0 1 -"},
        {"3,1,4-", "a,b,c,d,e", "2 0 3 -"},
        {"5,1,3-", "a,b,c,d,e", "has column 5, which -f names twice"},
        {"a", "a,b,a,a", "has two columns 'a', 1 and 3 (-f 1 takes the first)"},
        {"\"2\"", "a,2", "1 "},
        {"\"a\"\"b\",\"x,y\"", "\"x,y\",\"a\"\"b\"", "1 0 "},
        {"2-1,b-2,1-b", "1-b,b-2,2-1", "2 1 0 "},
        {"0", "a", "columns are counted from 1, or from -1 backwards"},
        {"2-,1", "a,b", "nothing can follow all columns to the last"},
        {",a", "a", "a name or a number is missing"},
        {"a,", "a", "a name or a number is missing"},
        {"\"a", "a", "a quote is not closed"},
        {"\"a\"b", "a", "a quote is not closed"},
        {"a\"", "a",
         "a quote is inside a name: names with quotes stand in quotes, and each quote twice"},
        {"1-17", "a", "more than 16 columns"},
        {"a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "a", "more than 16 columns"},
        {"3", "a,b", "has 2 columns, no column 3"},
        {"-3", "a,b", "has 2 columns, no column -3"},
        {"b,2", "a,b", "has column 2, which -f names twice"},
        {"2,1-", "a,b", "has column 2, which -f names twice"},
        {"1", "\xef\xbb\xbf",
         "begins with a byte order mark on a line of its own: leave out that line"},
        {"1", "\xef\xbb\xbf\"\"", "0 "},
        {"a", "sep=;", "begins with 'sep=;': leave out that line, and give -d';'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_STR(columns_of(rows[i][0], rows[i][1]), rows[i][2]);
    char names[200] = "c0";
    for (unsigned i = 1; i < 42; i++)
        sprintf(names + strlen(names), ",c%u", i);
    const char *why = columns_of("x", names);
    CHECK(strncmp(why, "has no column 'x'; its columns are 'c0', 'c1', ", 47) == 0);
    CHECK_STR(why + strlen(why) - 23, "'c38', 'c39' and 2 more");
    char many[CSV_NAMES + 2];
    memset(many, 'a', sizeof many - 1);
    many[CSV_NAMES + 1] = '\0';
    CHECK_STR(columns_of(many, many), "more than 1024 bytes of names");
    CHECK_STR(columns_of(many + 1, many + 1), "0 ");
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    make_fence();
    RUN(every_variant_keeps_the_rule);
    RUN(columns);
    return check_done();
}

/* SPDX-License-Identifier: MIT */
#include "keys/content.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Files are not joined as they are: the last line of one may lack its newline. */
#define AND_ALL " && find DIR -type f -exec awk 1 {} + | seen ..."

/* The first one that fits. */
static const struct content contents[] = {
    {"\x89seen\r", 6, 0, "a filter",
     "'seen merge' unites filters, 'seen query --also' asks several", CONTENT_OTHER},
    {"\x1f\x8b\x08\0", 4, 0, "gzip data", "gzip -dc FILE | seen ...", CONTENT_OTHER},
    {"\x1f\x8b\x08\x08", 4, 0, "gzip data", "gzip -dc FILE | seen ...", CONTENT_OTHER},
    {"\3757zXZ\0", 6, 0, "xz data", "xz -dc FILE | seen ...", CONTENT_OTHER},
    {"\x28\xb5\x2f\xfd", 4, 0, "zstd data", "zstd -dc FILE | seen ...", CONTENT_OTHER},
    {"BZh?1AY&SY", 10, 0, "bzip2 data", "bzip2 -dc FILE | seen ...", CONTENT_OTHER},
    {"\x04\x22\x4d\x18", 4, 0, "lz4 data", "lz4 -dc FILE | seen ...", CONTENT_OTHER},
    {"LZIP\1", 5, 0, "lzip data", "lzip -dc FILE | seen ...", CONTENT_OTHER},
    {"\x1f\x9d", 2, 0, "data of compress", "gzip -dc FILE | seen ...", CONTENT_OTHER},
    {"PK\3\4", 4, 0, "a zip archive", "unzip -qd DIR FILE" AND_ALL, CONTENT_OTHER},
    {"7z\xbc\xaf\x27\x1c", 6, 0, "a 7-Zip archive", "7z x -oDIR FILE >&2" AND_ALL, CONTENT_OTHER},
    {"Rar!\x1a\x07", 6, 0, "a RAR archive", "unrar x -inul FILE DIR/" AND_ALL, CONTENT_OTHER},
    {"ustar", 5, 257, "a tar archive", "tar -xf FILE --to-command='awk 1' | seen ...",
     CONTENT_OTHER},
    {"SQLite format 3", 16, 0, "an SQLite database",
     "sqlite3 FILE 'SELECT column FROM table' | seen ...", CONTENT_OTHER},
    {"%PDF-?.", 7, 0, "a PDF document", "pdftotext FILE - | seen ...", CONTENT_OTHER},
    {"version https://git-lfs.github.com/spec/v", 41, 0, "a pointer of Git LFS",
     "'git lfs pull' puts the file itself in its place", CONTENT_OTHER},
    /* Filters of other programs that have a layout. */
    {"\xac\xed\0\5sr??com.google.common.hash.BloomFilter", 42, 0,
     "a BloomFilter of Guava in Java's serialization", "'seen import --layout guava' reads it",
     CONTENT_LAYOUT},
    {"\0\0\0\1\0\0\0", 7, 0, "a BloomFilter of Spark", "'seen import --layout spark' reads it",
     CONTENT_LAYOUT},
    {"\0\0\0\2\0\0\0", 7, 0, "a BloomFilter of Spark, version 2",
     "'seen import --layout spark' reads it", CONTENT_LAYOUT},
    /* Filters of other programs, or files that have some. */
    {"\xac\xed\0\5sr??org.apache.spark.util.sketch.BloomFilter", 48, 0,
     "a BloomFilter of Spark in Java's serialization",
     "its writeTo() writes what 'seen import --layout spark' reads", CONTENT_FILTER},
    {"\xac\xed\0\5sr", 6, 0, "a serialized Java object",
     "if it has a BloomFilter of Guava, its writeTo() writes what 'seen import --layout guava' "
     "reads",
     CONTENT_FILTER},
    {"\2?\0\0\0\0\0\0?????\0\0\0", 16, 0, "a filter of poppy, version 2",
     "'poppy create --version 1' makes what 'seen import --layout dcso' reads", CONTENT_FILTER},
    {"PAR1\x15", 5, 0, "a Parquet file",
     "duckdb -list -noheader -c \"SELECT column FROM 'FILE'\" | seen ...; DuckDB also asks the "
     "Bloom filters in such files",
     CONTENT_FILTER},
};

static bool has_magic(const uint8_t *head, size_t n, const char *magic, size_t len, size_t at)
{
    if (n < at + len)
        return false;
    for (size_t i = 0; i < len; i++)
        if (magic[i] != '?' && head[at + i] != (uint8_t)magic[i])
            return false;
    return true;
}

/* {"m":M,"k":K,"b":"AAAA..." with any numbers: b begins with m in eight bytes, the first three of
 * which are 0 below 2^40 bits. */
static bool is_bitsandblooms(const void *head, size_t n)
{
    char start[64];
    int end = 0;
    snprintf(start, sizeof start, "%.*s", (int)(n < sizeof start ? n : sizeof start),
             (const char *)head);
    (void)sscanf(start, "{\"m\":%*[0-9],\"k\":%*[0-9],\"b\":\"AAAA%n", &end);
    return end > 0;
}

const struct content *content_find(const void *head, size_t n)
{
    static const struct content json = {.what = "a BloomFilter of bits-and-blooms",
                                        .reader = "'seen import --layout bitsandblooms' reads it",
                                        .is = CONTENT_LAYOUT};
    if (is_bitsandblooms(head, n))
        return &json;
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++)
        if (has_magic(head, n, contents[i].magic, contents[i].len, contents[i].at))
            return &contents[i];
    return NULL;
}

const char *content_find_gzip(const char *data, size_t n)
{
    static const char magic[] = "\x1f\x8b\x08";
    for (const char *p = data, *end = data + n; p < end; p++) {
        p = memchr(p, magic[0], (size_t)(end - p));
        if (p == NULL || end - p < 4)
            return NULL;
        if (memcmp(p, magic, 3) == 0 && (p[3] == 0 || p[3] == '\b'))
            return p;
    }
    return NULL;
}

struct bytes {
    size_t n, nul[2]; /* at even and at odd offsets */
    size_t controls, different, high;
    size_t lines, wide_lines; /* newlines, and those of two bytes in UTF-16 */
};

static struct bytes count_bytes(const uint8_t *head, size_t n)
{
    struct bytes b = {.n = n};
    bool seen[256] = {0};
    for (size_t i = 0; i < n; i++) {
        uint8_t c = head[i];
        b.nul[i % 2] += c == 0;
        b.high += c > 0x7f;
        if (c == '\n') {
            b.lines++;
            b.wide_lines += (i ^ 1) < n && head[i ^ 1] == 0;
        }
        /* Control characters that text does not have. Some lists have one between fields. */
        if (c < '\a' || (c > '\r' && c < ' ' && c != '\x1b') || c == '\x7f') {
            b.controls++;
            b.different += !seen[c];
            seen[c] = true;
        }
    }
    return b;
}

/* The name of the encoding; NULL: it is neither UTF-16 nor marked as UTF-32. In UTF-16, most
 * characters of European languages have one byte that is NUL. */
static const char *wide_name(const struct bytes *b, const uint8_t *head)
{
    size_t most = b->nul[0] > b->nul[1] ? b->nul[0] : b->nul[1];
    size_t nul = b->nul[0] + b->nul[1];
    if (has_magic(head, b->n, "\xff\xfe\0\0", 4, 0) || has_magic(head, b->n, "\0\0\xfe\xff", 4, 0))
        return "UTF-32";
    if (has_magic(head, b->n, "\xff\xfe", 2, 0) || has_magic(head, b->n, "\xfe\xff", 2, 0))
        return "UTF-16";
    if (b->lines == 0 || b->wide_lines < b->lines || most < 8 || most * 20 < nul * 19)
        return NULL;
    return nul * 5 < b->n * 2 ? NULL : b->nul[0] > b->nul[1] ? "UTF-16BE" : "UTF-16LE";
}

/* A byte in ten of compressed or random data is a control character, of 25 different ones. */
static bool is_binary(const struct bytes *b)
{
    size_t nul = b->nul[0] + b->nul[1];
    return (b->n >= 64 && nul * 4 >= b->n) ||
           (b->controls >= 8 && b->different >= 8 && b->controls * 12 >= b->n);
}

bool content_is_text(const void *data, size_t n)
{
    return count_bytes(data, n).controls == 0;
}

bool content_is_packed(const char data[CONTENT_TAIL])
{
    const struct bytes b = count_bytes((const uint8_t *)data, CONTENT_TAIL);
    return b.different >= 4 && b.high * 4 >= b.n;
}

bool content_fail_joined(const char *name, struct err *err)
{
    return fail(err,
                "'%s' has compressed data behind text: for f in FILE...; do gzip -cdf <\"$f\" | "
                "awk 1; done | seen ...",
                name);
}

/* Before a command that reads NEW. */
#define UNPACK "gzip -dc FILE >NEW && "

bool content_check(const char *name, const void *head, size_t n, char terminator, bool zipped,
                   struct err *err)
{
    n = n < CONTENT_HEAD ? n : CONTENT_HEAD;
    const char *within = zipped ? " in gzip data" : "";
    const struct content *c = content_find(head, n);
    const char *file = c != NULL && zipped ? strstr(c->reader, "FILE") : NULL;
    if (file != NULL)
        return fail(err, "'%s' is %s%s, not a list of keys: " UNPACK "%.*sNEW%s", name, c->what,
                    within, (int)(file - c->reader), c->reader, file + strlen("FILE"));
    if (c != NULL)
        return fail(err, "'%s' is %s%s, not a list of keys: %s", name, c->what, within, c->reader);
    const struct bytes b = count_bytes(head, n);
    if (terminator != '\n')
        return true;
    const char *wide = wide_name(&b, head);
    if (wide != NULL)
        return fail(err,
                    "'%s' is %.6s text%s, and keys are taken byte for byte: %s"
                    "iconv -f %s -t UTF-8 %s | seen ...",
                    name, wide, within, zipped ? UNPACK : "", wide, zipped ? "NEW" : "FILE");
    size_t nul = b.nul[0] + b.nul[1];
    if (b.lines == 0 && nul >= 8 && nul == b.controls) /* records that end in NUL */
        return fail(err, "records in '%s' end in NUL, not in newlines: -0 separates them", name);
    if (content_find_gzip(head, n) != NULL)
        return content_fail_joined(name, err);
    if (is_binary(&b))
        return fail(err,
                    "'%s' is binary data%s, not lines: -0 if its records end in NUL, --no-gzip to "
                    "take it as it is",
                    name, within);
    return true;
}

#include "keys/confirm.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/output.h"
#include "base/sig.h"
#include "store/format.h"

/* Lines that are compared with each other, and each with the one behind it, when the list is
 * opened. */
enum { TRIALS = 1000 };

/* The line that holds byte `at`: its beginning, and its length without the terminator. */
static const char *line_at(const struct confirm *c, size_t at, size_t *len)
{
    const char *p = at == 0 ? NULL : memrchr(c->map, c->terminator, at);
    const char *start = p == NULL ? c->map : p + 1;
    const char *end = memchr(start, c->terminator, (size_t)(c->map + c->len - start));
    *len = (size_t)((end == NULL ? c->map + c->len : end) - start);
    return start;
}

static int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static bool in_order(const struct confirm *c, size_t at, size_t later)
{
    size_t len, later_len;
    const char *line = line_at(c, at, &len), *later_line = line_at(c, later, &later_len);
    return compare(line, len, later_line, later_len) <= 0;
}

static bool is_sorted_at(const struct confirm *c, size_t at)
{
    size_t len;
    const char *line = line_at(c, at, &len);
    size_t next = (size_t)(line - c->map) + len + 1;
    return next >= c->len || in_order(c, at, next);
}

static bool seems_sorted(const struct confirm *c)
{
    size_t before = 0;
    for (size_t i = 0; i <= TRIALS; i++) {
        size_t at = (size_t)((double)(c->len - 1) * (double)i / TRIALS);
        if (!in_order(c, before, at) || !is_sorted_at(c, at))
            return false;
        before = at;
    }
    return true;
}

static bool fail_unsorted(const struct confirm *c, struct err *err)
{
    return fail(err, "'%s' is not sorted as LC_ALL=C sort does it", c->path);
}

/* As key.c does with records. */
static bool some_end_in_cr(const struct confirm *c)
{
    size_t at = 0;
    for (int i = 0; i < 8 && at < c->len; i++) {
        size_t len;
        const char *line = line_at(c, at, &len);
        if (len > 0 && line[len - 1] == '\r')
            return true;
        at += len + 1;
    }
    return false;
}

static const unsigned char gzip_magic[] = {0x1f, 0x8b, 8};

bool confirm_open(struct confirm *c, const char *path, char terminator, struct err *err)
{
    struct stat st;
    *c = (struct confirm){.path = path, .terminator = terminator};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return fail_errno(err, "cannot open '%s'", path);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return fail(err, "'%s' is not a regular file", path);
    }
    if (!output_is_apart(fd, path, err)) {
        close(fd);
        return false;
    }
    if (st.st_size == 0) {
        close(fd);
        return true;
    }
    c->len = (size_t)st.st_size;
    void *map = mmap(NULL, c->len, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return fail_errno(err, "cannot map '%s'", path);
    c->map = map;
    sig_guard(c->map, c->len, path, -1);
    bool gzip = c->len >= sizeof gzip_magic && memcmp(map, gzip_magic, sizeof gzip_magic) == 0;
    bool filter = format_is_filter(map, c->len);
    if (!gzip && !filter && seems_sorted(c)) {
        c->saw_cr = terminator == '\n' && some_end_in_cr(c);
        return true;
    }
    confirm_close(c);
    if (filter)
        return fail(err, "'%s' is a seen filter, not a sorted list", path);
    return gzip ? fail(err, "'%s' is gzip data, in which nothing can be searched: inflate it first",
                       path)
                : fail_unsorted(c, err);
}

void confirm_close(struct confirm *c)
{
    if (c->map == NULL)
        return;
    sig_unguard(c->map);
    munmap(c->map, c->len);
    c->map = NULL;
}

/* Where a key belongs compared with a line; with_cr: the key and a CR. */
static int compare_key(const char *key, size_t len, bool with_cr, const char *line, size_t line_len)
{
    if (!with_cr || line_len <= len || memcmp(key, line, len) != 0)
        return compare(key, len, line, line_len);
    return compare("\r", 1, line + len, line_len - len);
}

/* Bytes [low, high) of the list always begin and end where lines do. The line before them is less
 * than the key, and the one behind them greater. A line between them that is less than the key must
 * not be less than the former, one that is greater must not be greater than the latter. */
static bool search(struct confirm *c, const char *key, size_t len, bool with_cr)
{
    size_t low = 0, high = c->len, low_len = 0, high_len = 0;
    const char *low_line = NULL, *high_line = NULL;
    while (low < high) {
        size_t line_len;
        const char *line = line_at(c, low + (high - low) / 2, &line_len);
        int order = compare_key(key, len, with_cr, line, line_len);
        if (order == 0)
            return true;
        bool sorted;
        if (order < 0) {
            sorted = high_line == NULL || compare(line, line_len, high_line, high_len) <= 0;
            high_line = line;
            high_len = line_len;
            high = (size_t)(line - c->map);
        } else {
            sorted = low_line == NULL || compare(low_line, low_len, line, line_len) <= 0;
            low_line = line;
            low_len = line_len;
            low = (size_t)(line - c->map) + line_len + 1;
        }
        if (!sorted) {
            c->unsorted = true;
            return false;
        }
    }
    return false;
}

static bool is_listed(struct confirm *c, const char *key, size_t len)
{
    return search(c, key, len, false) || (c->crlf && c->saw_cr && search(c, key, len, true));
}

/* Longer keys than this, in hexadecimal, are not looked for in pieces. */
enum { LONGEST_HEX = 4096 };

static bool is_listed_hex(struct confirm *c, const char *key, size_t len, const char *digits)
{
    char text[2 * LONGEST_HEX];
    if (len > LONGEST_HEX)
        return true;
    for (size_t i = 0; i < len; i++) {
        text[2 * i] = digits[(unsigned char)key[i] >> 4];
        text[2 * i + 1] = digits[(unsigned char)key[i] & 15];
    }
    return is_listed(c, text, 2 * len);
}

bool confirm_has(struct confirm *c, const struct batch *b, size_t i)
{
    size_t len;
    const char *key = batch_key(b, i, &len);
    if (b->rule->prep & PREP_HEX)
        return is_listed_hex(c, key, len, "0123456789ABCDEF") ||
               is_listed_hex(c, key, len, "0123456789abcdef");
    return is_listed(c, key, len);
}

bool confirm_sound(const struct confirm *c, struct err *err)
{
    return !c->unsorted || fail_unsorted(c, err);
}

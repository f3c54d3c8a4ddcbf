#include "confirm.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format.h"
#include "sig.h"

/* Lines that are compared with the one behind them when the list is opened. */
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

static bool is_sorted_at(const struct confirm *c, size_t at)
{
    size_t len, next_len;
    const char *line = line_at(c, at, &len);
    size_t next_at = (size_t)(line - c->map) + len + 1;
    if (next_at >= c->len)
        return true;
    const char *next = line_at(c, next_at, &next_len);
    return compare(line, len, next, next_len) <= 0;
}

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
    sig_guard(c->map, c->len, path);
    for (size_t i = 0; i < TRIALS; i++)
        if (!is_sorted_at(c, (size_t)((double)(c->len - 1) * (double)i / TRIALS))) {
            confirm_close(c);
            return fail(err, "'%s' is not sorted as LC_ALL=C sort does it", path);
        }
    return true;
}

void confirm_close(struct confirm *c)
{
    if (c->map == NULL)
        return;
    sig_unguard(c->map);
    munmap(c->map, c->len);
    c->map = NULL;
}

/* Bytes [low, high) of the list always begin and end where lines do. */
static bool is_listed(const struct confirm *c, const char *key, size_t len)
{
    size_t low = 0, high = c->len;
    while (low < high) {
        size_t line_len;
        const char *line = line_at(c, low + (high - low) / 2, &line_len);
        int order = compare(key, len, line, line_len);
        if (order == 0)
            return true;
        size_t start = (size_t)(line - c->map);
        if (order < 0)
            high = start;
        else
            low = start + line_len + 1;
    }
    return false;
}

/* Longer keys than this, in hexadecimal, are not looked for in pieces. */
enum { LONGEST_HEX = 4096 };

static bool is_listed_hex(const struct confirm *c, const char *key, size_t len, const char *digits)
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

bool confirm_has(const struct confirm *c, const struct batch *b, size_t i)
{
    size_t len;
    const char *key = batch_key(b, i, &len);
    if (b->rule->prep & PREP_HEX)
        return is_listed_hex(c, key, len, "0123456789ABCDEF") ||
               is_listed_hex(c, key, len, "0123456789abcdef");
    return is_listed(c, key, len);
}

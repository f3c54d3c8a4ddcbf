/* SPDX-License-Identifier: MIT */
#include "keys/confirm.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/output.h"
#include "keys/content.h"
#include "keys/prep.h"
#include "keys/prepare.h"

/* When the list is opened, up to TRIALS sampled lines are checked. Each is compared with the sample
 * before it and with the line after it. In a list of SHORT_LIST bytes or less, which rarely has
 * more lines, all lines are checked. */
enum { TRIALS = 1000, SHORT_LIST = 16 * TRIALS };

/* The line that holds byte `at`: returns its beginning and its length without the terminator. */
static const char *line_at(const struct confirm *c, size_t at, size_t *len)
{
    const char *before = bytes_last(c->list.data, c->terminator, at);
    const char *start = before != NULL ? before + 1 : c->list.data;
    const char *end = memchr(start, c->terminator, (size_t)(c->list.data + c->list.len - start));
    *len = (size_t)((end == NULL ? c->list.data + c->list.len : end) - start);
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
    size_t next = (size_t)(line - c->list.data) + len + 1;
    return next >= c->list.len || in_order(c, at, next);
}

static bool fail_unsorted(const struct confirm *c, struct err *err)
{
    return fail(err, "'%s' is not sorted as LC_ALL=C sort does it", c->path);
}

/* Is it as the lines of lists of stolen passwords, DIGEST:COUNT? */
static bool is_counted_line(const char *line, size_t len)
{
    size_t digits = 0, end;
    while (digits < len && isxdigit((unsigned char)line[digits]))
        digits++;
    for (end = digits + 1; end < len && line[end] >= '0' && line[end] <= '9'; end++)
        ;
    len -= end + 1 == len && line[end] == '\r';
    return digits >= 32 && end == len && len > digits + 1 && line[digits] == ':';
}

/* Can the line be a key of the filter? If not, the lines are not prepared as keys, and some would
 * never be found. */
static bool is_key(const struct confirm *c, const char *line, size_t len, struct err *err)
{
    bool cr = c->crlf && len > 0 && line[len - 1] == '\r';
    const char *why = prepare_differs(c->prep, line, len - cr);
    bool digests = prep_in_digits(c->prep) || (c->prep & PREP_FLAGS) == 0;
    if (digests && is_counted_line(line, len - cr))
        return fail(
            err,
            "lines of '%s' look like DIGEST:COUNT; 'cut -d: -f1 FILE >LIST' makes a list of "
            "keys",
            c->path);
    return why == NULL || (cr && prepare_differs(c->prep, line, len) == NULL) ||
           fail(err, "a line of '%s' %s: keys are listed as the filter prepares them", c->path,
                why);
}

/* Checks the line that holds byte `at`; `before` is a byte of an earlier line. */
static bool try_line(const struct confirm *c, size_t before, size_t at, struct err *err)
{
    size_t len;
    const char *line = line_at(c, at, &len);
    return ((in_order(c, before, at) && is_sorted_at(c, at)) || fail_unsorted(c, err)) &&
           is_key(c, line, len, err);
}

/* Checks lines spread over the whole list, including the first and the last. */
static bool try_lines(const struct confirm *c, struct err *err)
{
    size_t size = c->list.len, step = size <= SHORT_LIST ? 1 : size / TRIALS;
    size_t before = 0;
    for (size_t at = 0; at < size;) {
        size_t len;
        size_t line = (size_t)(line_at(c, at, &len) - c->list.data);
        if (!try_line(c, before, at, err))
            return false;
        before = at;
        at = line + len + 1 > at + step ? line + len + 1 : at + step;
    }
    return try_line(c, before, size - 1, err);
}

/* Does one of the first lines end in CR? */
static bool some_end_in_cr(const struct confirm *c)
{
    size_t at = 0;
    for (int i = 0; i < 8 && at < c->list.len; i++) {
        size_t len;
        const char *line = line_at(c, at, &len);
        if (len > 0 && line[len - 1] == '\r')
            return true;
        at += len + 1;
    }
    return false;
}

bool confirm_open(struct confirm *c, const char *path, const struct key_rule *rule, struct err *err)
{
    struct stat st;
    *c = (struct confirm){
        .path = path, .terminator = rule->terminator, .crlf = rule->crlf, .prep = rule->prep};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return fail_errno(err, "cannot open '%s'", path);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return fail(err, "'%s' is not a regular file", path);
    }
    bool ok = output_is_apart(fd, path, err);
    if (ok && st.st_size > 0)
        ok = mapped_open(&c->list, fd, (uint64_t)st.st_size, path) ||
             fail_errno(err, "cannot map '%s'", path);
    close(fd);
    if (!ok || st.st_size == 0)
        return ok;
    const struct mapped *list = &c->list;
    const struct content *content = content_find(list->data, list->len);
    if (content != NULL)
        fail(err, "'%s' is %s, not a sorted list", path, content->what);
    else if (try_lines(c, err)) {
        c->saw_cr = c->terminator == '\n' && some_end_in_cr(c);
        return true;
    }
    confirm_close(c);
    return false;
}

void confirm_close(struct confirm *c)
{
    mapped_close(&c->list);
}

/* A key, as it is spelled in the list. */
struct spelling {
    const char *key;
    size_t len;
    const char *digits; /* its hexadecimal digits; NULL: the bytes themselves */
    bool with_cr;       /* followed by a CR */
};

/* Compares the first n bytes of the spelling with as many of a line. */
static int compare_spelled(const struct spelling *s, const char *line, size_t n)
{
    if (s->digits == NULL)
        return memcmp(s->key, line, n);
    for (size_t i = 0; i < n; i++) {
        unsigned byte = (unsigned char)s->key[i / 2];
        int order = s->digits[i % 2 ? byte & 15 : byte >> 4] - (int)(unsigned char)line[i];
        if (order != 0)
            return order;
    }
    return 0;
}

/* Compares a key with a line, in the order of the list. */
static int compare_key(const struct spelling *s, const char *line, size_t line_len)
{
    size_t len = s->digits != NULL ? 2 * s->len : s->len;
    int order = compare_spelled(s, line, len < line_len ? len : line_len);
    if (order != 0)
        return order;
    if (len < line_len)
        return s->with_cr ? compare("\r", 1, line + len, line_len - len) : -1;
    return len > line_len || s->with_cr;
}

/* Bytes [low, high) of the list always begin and end at line boundaries. The line before them is
 * less than the key, and the line after them is greater. A line between them that is less than the
 * key must not be less than the line before; one that is greater must not be greater than the line
 * after. Otherwise the list is not sorted. */
static bool search_list(struct confirm *c, const struct spelling *s)
{
    size_t low = 0, high = c->list.len, low_len = 0, high_len = 0;
    const char *low_line = NULL, *high_line = NULL;
    while (low < high) {
        size_t line_len;
        const char *line = line_at(c, low + (high - low) / 2, &line_len);
        int order = compare_key(s, line, line_len);
        if (order == 0)
            return true;
        bool sorted;
        if (order < 0) {
            sorted = high_line == NULL || compare(line, line_len, high_line, high_len) <= 0;
            high_line = line;
            high_len = line_len;
            high = (size_t)(line - c->list.data);
        } else {
            sorted = low_line == NULL || compare(low_line, low_len, line, line_len) <= 0;
            low_line = line;
            low_len = line_len;
            low = (size_t)(line - c->list.data) + line_len + 1;
        }
        if (!sorted) {
            c->unsorted = true;
            return false;
        }
    }
    return false;
}

static bool list_has(struct confirm *c, struct spelling *s)
{
    s->with_cr = false;
    if (search_list(c, s))
        return true;
    s->with_cr = true;
    return c->crlf && search_list(c, s);
}

bool confirm_has(struct confirm *c, const struct batch *b, size_t i)
{
    char plain[ENCODE_PLAIN_MAX];
    struct spelling s = {0};
    s.key = batch_text(b, i, plain, &s.len);
    if (!prep_in_digits(c->prep))
        return list_has(c, &s);
    s.digits = "0123456789ABCDEF";
    if (list_has(c, &s))
        return true;
    s.digits = "0123456789abcdef";
    return list_has(c, &s);
}

bool confirm_sound(const struct confirm *c, struct err *err)
{
    if (c->list.data != NULL && !mapped_whole(&c->list))
        return fail(err, "cannot read '%s': it was changed, or the disk failed", c->path);
    return !c->unsorted || fail_unsorted(c, err);
}

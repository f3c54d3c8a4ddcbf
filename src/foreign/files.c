/* SPDX-License-Identifier: MIT */
#include "foreign/files.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "file/design.h"
#include "keys/content.h"
#include "keys/gzip.h"

/* ---- Reading. */

/* The first bytes of a file, which hold the header of every layout, and the size of a read. */
enum { HEAD = 1 << 16 };

static bool fail_long(const struct foreign_files *f, unsigned i, uint64_t most, struct err *err)
{
    return fail(err,
                "'%s' has more than %" PRIu64 " bytes, the length of such a filter: 'head -c "
                "%" PRIu64 "' drops what follows",
                f->in.name[i], most, most);
}

/* A file that is read from its current position on, and inflated if it is compressed. */
struct reader {
    struct source src;
    struct gzip gzip; /* of a layout with compressed files */
    enum source_end end;
    atomic_bool stopped;
    _Atomic uint64_t done;
};

/* Deflate adds less than an eighth, however often it is flushed in writing. */
static uint64_t most_compressed(uint64_t len)
{
    return len < UINT64_MAX / 2 ? len + len / 8 + HEAD : UINT64_MAX;
}

static bool reader_begin(struct reader *r, const struct foreign_files *f, unsigned i, int fd,
                         struct err *err)
{
    r->src = (struct source){.fd = fd,
                             .name = f->in.name[i],
                             .most = most_compressed(HEAD),
                             .stopped = &r->stopped,
                             .done = &r->done};
    if (!f->spec->kind->layout->gzip)
        return true;
    return (gzip_begin(&r->gzip, &r->src, err) || fail(err, "out of memory")) &&
           r->gzip.raw_end != SOURCE_BROKEN;
}

/* Reads HEAD bytes, or fewer if the file ends. Returns their number, or -1 on an error. */
static ssize_t reader_next(struct reader *r, uint8_t *buf, struct err *err)
{
    z_stream *raw = &r->gzip.z;
    size_t n = 0;
    if (r->gzip.found) {
        while (n < HEAD && r->end == SOURCE_GOES_ON)
            n += gzip_read(&r->gzip, &r->src, buf + n, HEAD - n, true, &r->end, err);
        return r->end == SOURCE_BROKEN ? -1 : (ssize_t)n;
    }
    for (; raw->avail_in > 0 && n < HEAD; raw->avail_in--)
        buf[n++] = *raw->next_in++;
    ssize_t got = disk_read_next(r->src.fd, buf + n, HEAD - n);
    if (got < 0)
        fail_errno(err, "cannot read '%s'", r->src.name);
    return got < 0 ? -1 : (ssize_t)n + got;
}

/* Reads the rest of a file, whose first HEAD bytes were read, into a scratch file. That takes
 * disk space but no memory. */
static bool spill_foreign(struct foreign_files *f, unsigned i, struct reader *r, int scratch,
                          uint64_t most, struct err *err)
{
    uint8_t *buf = f->read[i];
    uint64_t len = 0;
    ssize_t got = HEAD;
    r->src.most = most_compressed(most);
    while (got > 0) {
        if (len + (size_t)got > most)
            return fail_long(f, i, most, err);
        if (!disk_write(scratch, buf, (size_t)got, len, "a scratch file", err))
            return false;
        len += (size_t)got;
        got = reader_next(r, buf, err);
    }
    if (got < 0)
        return false;
    if (!mapped_open(&f->mapped[i], scratch, len, f->in.name[i]))
        return fail_errno(err, "cannot read '%s'", f->in.name[i]);
    f->in.data[i] = (const uint8_t *)f->mapped[i].data;
    f->in.len[i] = len;
    return true;
}

/* The most bytes that FOREIGN can have, if that follows from the layout alone. Rounded up: a bitmap
 * may be stored in whole words. */
static uint64_t most_bytes(const struct layout_spec *spec)
{
    struct layout_filter filter;
    struct err ignored;
    const struct layout *layout = spec->kind->layout;
    if (!design_fixes_size(spec, spec->p) || !layout->design(spec, 1, spec->p, &filter, &ignored))
        return UINT64_MAX;
    return (layout->file_len(&filter) + 7) / 8 * 8;
}

/* Reads a file to its end, but not beyond what its header claims. */
static bool read_to_end(struct foreign_files *f, unsigned i, struct reader *r, struct err *err)
{
    const struct layout *layout = f->spec->kind->layout;
    uint8_t *head = f->read[i] = malloc(HEAD);
    if (head == NULL)
        return fail(err, "cannot read '%s': out of memory", f->in.name[i]);
    ssize_t got = reader_next(r, head, err);
    if (got < 0)
        return false;
    f->in.data[i] = head;
    f->in.len[i] = (size_t)got;
    f->in.zipped = r->gzip.found;
    if (f->dir == NULL)
        return true;
    uint64_t most = most_bytes(f->spec);
    if (layout->claims != NULL) {
        uint64_t claimed = layout->claims(head, (size_t)got);
        if (claimed == 0)
            return true; /* layout->read says what is wrong with the header */
        most = claimed < most ? claimed : most;
    }
    if (got < HEAD)
        return (size_t)got <= most || fail_long(f, i, most, err);
    int scratch = disk_scratch(f->dir, err);
    bool ok = scratch >= 0 && spill_foreign(f, i, r, scratch, most, err);
    if (scratch >= 0)
        close(scratch);
    return ok;
}

static bool is_compressed(const struct foreign_files *f, int fd)
{
    unsigned char first[GZIP_MAGIC];
    size_t got;
    return f->spec->kind->layout->gzip && disk_read(fd, first, GZIP_MAGIC, 0, &got) &&
           got == GZIP_MAGIC && gzip_like(first, got);
}

static bool may_be_base64(char c)
{
    return isalnum((unsigned char)c) || c == '+' || c == '/' || c == '=';
}

/* Is this more than one text in base64? Encoders write one line, or lines of equal length, at most
 * 76 (RFC 2045), and a last one that may be shorter. */
static bool is_several(const char *text, size_t len)
{
    enum { LINE = 76 };
    size_t first = 0, line = 0;
    bool ended = false;
    for (size_t at = 0; at < len; at++) {
        if (text[at] == '\n' && line > 0) {
            first = first > 0 ? first : line;
            if (line > first)
                return true;
            ended = line > LINE || line != first;
            line = 0;
        } else if (may_be_base64(text[at])) {
            if (ended)
                return true;
            line++;
        }
    }
    return first > 0 && line > first;
}

/* Replaces the text of a mapped file by the bytes that it stands for. */
static bool unfold_base64(struct foreign_files *f, unsigned i, struct err *err)
{
    const struct mapped *map = &f->mapped[i];
    uint8_t *bytes = f->read[i] = malloc(map->len);
    size_t n = 0, len;
    bool ok = true;
    if (bytes == NULL)
        return fail(err, "cannot read '%s': out of memory", f->in.name[i]);
    for (size_t at = 0; at < map->len && ok; at++)
        if (memchr(" \t\r\n", map->data[at], 4) == NULL) {
            ok = may_be_base64(map->data[at]);
            bytes[n++] = (uint8_t)map->data[at];
        }
    f->in.data[i] = bytes; /* whose length does not grow */
    if (!ok || !base64_decode(BASE64_STANDARD, (const char *)bytes, n, bytes, &len))
        return fail(err,
                    "'%s' is not one filter in base64 with padding (RFC 4648); 'sed -n 1p' takes "
                    "the first of several lines",
                    f->in.name[i]);
    if (is_several(map->data, map->len))
        return fail(err,
                    "'%s' is the base64 of several filters, or of one on lines of over 76 "
                    "characters: give one, on one line",
                    f->in.name[i]);
    f->in.len[i] = len;
    return true;
}

static bool take_foreign(struct foreign_files *f, unsigned i, int fd, struct err *err)
{
    struct stat st;
    struct mapped map;
    if (fstat(fd, &st) != 0)
        return fail_errno(err, "cannot read '%s'", f->in.name[i]);
    f->size += (uint64_t)st.st_size;
    if (f->spec->base64 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return fail(err, "--base64 needs a file with text: 'base64 -d' decodes what a pipe has");
    if (!S_ISREG(st.st_mode) || st.st_size == 0 || (!f->spec->base64 && is_compressed(f, fd))) {
        struct reader r = {.end = SOURCE_GOES_ON}; /* it cannot be mapped as it is */
        bool ok = reader_begin(&r, f, i, fd, err) && read_to_end(f, i, &r, err);
        gzip_end(&r.gzip);
        return ok;
    }
    if (!mapped_open(&map, fd, (uint64_t)st.st_size, f->in.name[i]))
        return fail_errno(err, "cannot read '%s'", f->in.name[i]);
    f->mapped[i] = map;
    f->in.data[i] = (const uint8_t *)map.data;
    f->in.len[i] = (uint64_t)st.st_size;
    return !f->spec->base64 || unfold_base64(f, i, err);
}

static bool open_one(struct foreign_files *f, unsigned i, const char *name, const char *suffix,
                     struct err *err)
{
    bool is_stdin = strcmp(name, "-") == 0 && suffix[0] == '\0';
    size_t base = layout_base(f->spec->kind->layout, name);
    size_t len = base + strlen(suffix) + sizeof "standard input";
    f->name[i] = malloc(len);
    if (f->name[i] == NULL)
        return fail(err, "out of memory");
    if (is_stdin)
        snprintf(f->name[i], len, "standard input");
    else
        snprintf(f->name[i], len, "%.*s%s", (int)base, name, suffix);
    f->in.name[i] = f->name[i];
    if (is_stdin)
        return take_foreign(f, i, STDIN_FILENO, err);
    int fd = open(f->name[i], O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(err, "cannot open '%s'", f->name[i]);
    bool ok = take_foreign(f, i, fd, err);
    close(fd);
    return ok;
}

bool foreign_open(struct foreign_files *f, const char *name, const struct layout_spec *spec,
                  const char *dir, struct err *err)
{
    const struct layout *layout = spec->kind->layout;
    *f = (struct foreign_files){.spec = spec, .dir = dir};
    if (layout->suffix[0] == NULL)
        return open_one(f, 0, name, "", err);
    for (unsigned i = 0; i < LAYOUT_FILES && layout->suffix[i] != NULL; i++)
        if (!open_one(f, i, name, layout->suffix[i], err))
            return false;
    return true;
}

bool foreign_whole(const struct foreign_files *f, struct err *err)
{
    for (unsigned i = 0; i < LAYOUT_FILES; i++)
        if (f->mapped[i].data != NULL && (f->read[i] == NULL || f->spec->base64) &&
            !mapped_whole(&f->mapped[i]))
            return fail(err, "'%s' was changed while it was read, or the disk failed",
                        f->in.name[i]);
    return true;
}

/* What the content says that contradicts the layout. */
static bool check_content(const struct foreign_files *f, const char *anyway, struct err *err)
{
    const char *name = f->in.name[0];
    const struct kind *own = f->spec->kind, *kind;
    size_t len = f->in.len[0] < CONTENT_HEAD ? (size_t)f->in.len[0] : CONTENT_HEAD;
    const struct content *c = content_find(f->in.data[0], len);
    if (c != NULL && c->is == CONTENT_OTHER && f->spec->base64)
        return fail(err, "'%s' is %s in base64: 'base64 -d' decodes it%s", name, c->what, anyway);
    if (c != NULL && c->is != CONTENT_LAYOUT)
        return fail(err, "'%s' is %s: %s%s", name, c->what, c->reader, anyway);
    for (unsigned i = 0; (kind = layout_number_of(i)) != NULL; i++)
        if (kind != own && kind->layout->recognize != NULL && kind->layout->recognize(&f->in))
            return fail(err, "'%s' looks like one of %s, not of %s%s", name, kind->name, own->name,
                        anyway);
    return true;
}

bool foreign_check(const struct foreign_files *f, const char *name, struct err *err)
{
    const struct layout *layout = f->spec->kind->layout;
    const uint8_t *data = f->in.data[0];
    size_t len = (size_t)f->in.len[0]; /* of a mapping */
    if (format_is_filter(data, len))
        return fail(err, "'%s' is a seen filter already; 'seen export' writes another program's",
                    name);
    if (len >= 8 && memcmp(data, "PAR1", 4) == 0 && memcmp(data + len - 4, "PAR1", 4) == 0)
        return fail(err, "'%s' is a Parquet file: DuckDB and parquet-cli ask its Bloom filters",
                    name);
    if (layout->recognize == NULL) /* a bitmap may begin with any bytes */
        return f->spec->forced || check_content(f, " ('seen import --force' imports it)", err);
    return layout->recognize(&f->in) || check_content(f, "", err);
}

bool foreign_read(struct foreign_files *f, const char *name, const struct layout_spec *spec,
                  const char *dir, const char *done, struct layout_filter *filter,
                  struct layout_bits bits[LAYOUT_LAYERS], struct err *err)
{
    struct err why;
    if (!foreign_open(f, name, spec, dir, err) || !foreign_check(f, name, err))
        return false;
    if (spec->kind->layout->read(spec, &f->in, filter, bits, &why))
        return true;
    fail(err, "cannot %s '%s' as %s: %s", done, name, spec->kind->name, why.text);
    err->helps = why.helps;
    return false;
}

void foreign_close(struct foreign_files *f)
{
    for (unsigned i = 0; i < LAYOUT_FILES; i++) {
        mapped_close(&f->mapped[i]);
        free(f->read[i]);
        free(f->name[i]);
    }
}

bool foreign_recognize(const char *name, bool base64, struct layout_spec *out, struct err *err)
{
    const struct kind *kind, *found = NULL;
    bool any = false, other = false;
    struct err why;
    if (layout_number_of(0) == NULL)
        return layout_parse("auto", out, err);
    for (unsigned i = 0; (kind = layout_number_of(i)) != NULL; i++) {
        struct foreign_files files;
        const struct layout_spec spec = {.kind = kind, .base64 = base64};
        const struct layout *layout = kind->layout;
        if (layout->recognize == NULL)
            continue;
        bool opened = foreign_open(&files, name, &spec, NULL, err);
        any |= opened;
        bool fits = opened && layout->recognize(&files.in);
        other |= opened && !foreign_check(&files, name, &why);
        foreign_close(&files);
        if (fits && found != NULL)
            return fail(err, "'%s' may be of layout %s or %s: --layout says which", name,
                        found->name, kind->name);
        if (fits)
            found = kind;
    }
    if (!any)
        return false;
    if (found == NULL && other)
        return fail(err, "%s", why.text);
    if (found == NULL)
        return fail(err, "the layout of '%s' cannot be recognised by its content: give --layout",
                    name);
    *out = (struct layout_spec){.kind = found};
    return true;
}

/* ---- Writing. */

static bool to_file(void *ctx, unsigned file, const void *data, size_t len, struct err *err)
{
    struct foreign_output *o = ctx;
    uint64_t at = o->len[file];
    o->len[file] += len;
    return disk_write(o->file[file].fd, data, len, at, o->name[file], err);
}

static bool to_stdout(void *ctx, unsigned file, const void *data, size_t len, struct err *err)
{
    const char *at = data;
    (void)ctx, (void)file;
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, at, len);
        if (n < 0 && errno != EINTR)
            return fail_errno(err, "cannot write standard output");
        at += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool create_one(struct foreign_output *o, const char *suffix, struct err *err)
{
    unsigned i = o->n;
    size_t len = strlen(o->sink.name) + strlen(suffix) + 1;
    char *name = malloc(len);
    if (name == NULL)
        return fail(err, "out of memory");
    snprintf(name, len, "%s%s", o->sink.name, suffix);
    if (!newfile_open_foreign(&o->file[i], name, o->force, err)) {
        free(name);
        return false;
    }
    o->name[i] = name;
    o->n++;
    return true;
}

bool foreign_create(struct foreign_output *o, const char *name, const struct kind *kind, bool force,
                    struct err *err)
{
    bool is_stdout = strcmp(name, "-") == 0;
    *o = (struct foreign_output){
        .sink = {.write = is_stdout ? to_stdout : to_file, .ctx = o, .name = name}, .force = force};
    if (is_stdout)
        return kind->layout->suffix[0] == NULL ||
               fail(err, "layout %s has two files, which cannot go to standard output", kind->name);
    if (kind->layout->suffix[0] == NULL)
        return create_one(o, "", err);
    for (unsigned i = 0; i < LAYOUT_FILES && kind->layout->suffix[i] != NULL; i++)
        if (!create_one(o, kind->layout->suffix[i], err))
            return false;
    return true;
}

/* Commits the last file first. The first file describes the others, so it must appear last. */
bool foreign_commit(struct foreign_output *o, struct err *err)
{
    for (unsigned i = o->n; i-- > 0;)
        if (!newfile_commit(&o->file[i], err))
            return false;
    return true;
}

void foreign_end(struct foreign_output *o)
{
    for (unsigned i = 0; i < o->n; i++) {
        newfile_close(&o->file[i]);
        free(o->name[i]);
    }
}

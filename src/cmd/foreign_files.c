#include "cmd/foreign_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/disk.h"
#include "keys/gzip.h"

/* The first bytes of a file, which hold the header of every layout, and the size of a read. */
enum { HEAD = 1 << 16 };

static bool fail_read(const struct foreign_files *f, unsigned i, struct err *err)
{
    return fail_errno(err, "cannot read '%s'", f->in.name[i]);
}

static bool fail_long(const struct foreign_files *f, unsigned i, uint64_t most, struct err *err)
{
    return fail(err, "'%s' has more than %" PRIu64 " bytes, all that such a filter takes",
                f->in.name[i], most);
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
static bool spill(struct foreign_files *f, unsigned i, struct reader *r, int scratch, uint64_t most,
                  struct err *err)
{
    uint8_t *buf = f->read[i];
    uint64_t len = 0, room;
    ssize_t got = HEAD;
    if (!disk_space(f->dir, &room, err))
        return false;
    r->src.most = most_compressed(most);
    while (got > 0) {
        if (len + (size_t)got > most)
            return fail_long(f, i, most, err);
        if (len + (size_t)got > room)
            return fail(err, "'%s' has more bytes than '%s' has room for", f->in.name[i], f->dir);
        if (!disk_write(scratch, buf, (size_t)got, len, "a scratch file", err))
            return false;
        len += (size_t)got;
        got = reader_next(r, buf, err);
    }
    if (got < 0)
        return false;
    if (!mapped_open(&f->mapped[i], scratch, len))
        return fail_read(f, i, err);
    f->in.data[i] = (const uint8_t *)f->mapped[i].data;
    f->in.len[i] = len;
    return true;
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
    uint64_t most = f->most;
    if (layout->claims != NULL) {
        uint64_t claimed = layout->claims(f->spec, head, (size_t)got);
        if (claimed == 0)
            return true; /* layout->read says what is wrong with the header */
        most = claimed < most ? claimed : most;
    }
    if (got < HEAD)
        return (size_t)got <= most || fail_long(f, i, most, err);
    int scratch = disk_scratch(f->dir, err);
    bool ok = scratch >= 0 && spill(f, i, r, scratch, most, err);
    if (scratch >= 0)
        close(scratch);
    return ok;
}

/* For a file that cannot be mapped as it is: a pipe, or compressed. */
static bool read_all(struct foreign_files *f, unsigned i, int fd, struct err *err)
{
    struct reader r = {.end = SOURCE_GOES_ON};
    bool ok = reader_begin(&r, f, i, fd, err) && read_to_end(f, i, &r, err);
    gzip_end(&r.gzip);
    return ok;
}

static bool is_compressed(const struct foreign_files *f, int fd)
{
    unsigned char magic[GZIP_MAGIC];
    size_t got;
    return f->spec->kind->layout->gzip && disk_read(fd, magic, GZIP_MAGIC, 0, &got) &&
           got == GZIP_MAGIC && gzip_like(magic, got);
}

static bool take(struct foreign_files *f, unsigned i, int fd, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail_errno(err, "cannot read '%s'", f->in.name[i]);
    if (!S_ISREG(st.st_mode) || st.st_size == 0 || is_compressed(f, fd))
        return read_all(f, i, fd, err);
    if (!mapped_open(&f->mapped[i], fd, (uint64_t)st.st_size))
        return fail_errno(err, "cannot read '%s'", f->in.name[i]);
    f->in.data[i] = (const uint8_t *)f->mapped[i].data;
    f->in.len[i] = (uint64_t)st.st_size;
    return true;
}

static bool open_one(struct foreign_files *f, unsigned i, const char *name, const char *suffix,
                     struct err *err)
{
    bool is_stdin = strcmp(name, "-") == 0 && suffix[0] == '\0';
    size_t len = strlen(name) + strlen(suffix) + sizeof "standard input";
    f->name[i] = malloc(len);
    if (f->name[i] == NULL)
        return fail(err, "out of memory");
    snprintf(f->name[i], len, "%s%s", is_stdin ? "standard input" : name, suffix);
    f->in.name[i] = f->name[i];
    if (is_stdin)
        return take(f, i, STDIN_FILENO, err);
    int fd = open(f->name[i], O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(err, "cannot open '%s'", f->name[i]);
    bool ok = take(f, i, fd, err);
    close(fd);
    return ok;
}

bool foreign_open(struct foreign_files *f, const char *name, const struct layout_spec *spec,
                  uint64_t most, const char *dir, struct err *err)
{
    const struct layout *layout = spec->kind->layout;
    *f = (struct foreign_files){.spec = spec, .most = most, .dir = dir};
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
        if (f->mapped[i].data != NULL && !mapped_whole(&f->mapped[i], f->mapped[i].len))
            return fail(err, "'%s' was changed while it was read, or the disk failed",
                        f->in.name[i]);
    return true;
}

void foreign_close(struct foreign_files *f)
{
    for (unsigned i = 0; i < LAYOUT_FILES; i++) {
        mapped_close(&f->mapped[i]);
        free(f->read[i]);
        free(f->name[i]);
    }
}

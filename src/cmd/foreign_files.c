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

/* The first bytes of a pipe, which hold the header of every layout, and the size of a read. */
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

/* Reads the rest of a pipe, whose first HEAD bytes were read, into a scratch file. That takes
 * disk space but no memory. */
static bool spill(struct foreign_files *f, unsigned i, int fd, int scratch, uint64_t most,
                  struct err *err)
{
    uint8_t *buf = f->read[i];
    uint64_t len = 0, room;
    ssize_t got = HEAD;
    if (!disk_space(f->dir, &room, err))
        return false;
    while (got > 0) {
        if (len + (size_t)got > most)
            return fail_long(f, i, most, err);
        if (len + (size_t)got > room)
            return fail(err, "'%s' has more bytes than '%s' has room for", f->in.name[i], f->dir);
        if (!disk_write(scratch, buf, (size_t)got, len, "a scratch file", err))
            return false;
        len += (size_t)got;
        got = disk_read_next(fd, buf, HEAD);
    }
    if (got < 0)
        return fail_read(f, i, err);
    if (!mapped_open(&f->map[i], scratch, len))
        return fail_read(f, i, err);
    f->in.data[i] = (const uint8_t *)f->map[i].data;
    f->in.len[i] = len;
    return true;
}

/* Reads a file that cannot be mapped, such as a pipe, to its end, but not beyond what its header
 * claims. */
static bool read_all(struct foreign_files *f, unsigned i, int fd, struct err *err)
{
    const struct layout *layout = f->spec->kind->layout;
    uint8_t *head = f->read[i] = malloc(HEAD);
    if (head == NULL)
        return fail(err, "cannot read '%s': out of memory", f->in.name[i]);
    ssize_t got = disk_read_next(fd, head, HEAD);
    if (got < 0)
        return fail_read(f, i, err);
    f->in.data[i] = head;
    f->in.len[i] = (size_t)got;
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
    bool ok = scratch >= 0 && spill(f, i, fd, scratch, most, err);
    if (scratch >= 0)
        close(scratch);
    return ok;
}

static bool take(struct foreign_files *f, unsigned i, int fd, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail_errno(err, "cannot read '%s'", f->in.name[i]);
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return read_all(f, i, fd, err);
    if (!mapped_open(&f->map[i], fd, (uint64_t)st.st_size))
        return fail_errno(err, "cannot read '%s'", f->in.name[i]);
    f->in.data[i] = (const uint8_t *)f->map[i].data;
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
        if (f->map[i].data != NULL && !mapped_whole(&f->map[i], f->map[i].len))
            return fail(err, "'%s' was changed while it was read, or the disk failed",
                        f->in.name[i]);
    return true;
}

void foreign_close(struct foreign_files *f)
{
    for (unsigned i = 0; i < LAYOUT_FILES; i++) {
        mapped_close(&f->map[i]);
        free(f->read[i]);
        free(f->name[i]);
    }
}

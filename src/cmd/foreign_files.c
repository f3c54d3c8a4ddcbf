#include "cmd/foreign_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads a file that cannot be mapped, such as a pipe, to its end, which comes after f->most bytes
 * at the latest. */
static bool read_all(struct foreign_files *f, unsigned i, int fd, struct err *err)
{
    size_t room = 1 << 16, len = 0;
    uint8_t *data = malloc(room);
    ssize_t got = 1;
    while (data != NULL && got > 0) {
        if (len == room) {
            uint8_t *more = room <= SIZE_MAX / 2 ? realloc(data, room *= 2) : NULL;
            if (more == NULL)
                break;
            data = more;
        }
        do
            got = read(fd, data + len, room - len);
        while (got < 0 && errno == EINTR);
        len += got > 0 ? (size_t)got : 0;
        if (len > f->most) {
            free(data);
            return fail(err, "'%s' has more than %" PRIu64 " bytes, all that such a filter takes",
                        f->in.name[i], f->most);
        }
    }
    f->read[i] = data;
    f->in.data[i] = data;
    f->in.len[i] = len;
    if (got < 0)
        return fail_errno(err, "cannot read '%s'", f->in.name[i]);
    return got == 0 || fail(err, "cannot read '%s': out of memory", f->in.name[i]);
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

bool foreign_open(struct foreign_files *f, const char *name, const struct layout *layout,
                  uint64_t most, struct err *err)
{
    *f = (struct foreign_files){.most = most};
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

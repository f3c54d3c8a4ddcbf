/* SPDX-License-Identifier: MIT */
#include "write/borrow.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/disk.h"
#include "base/num.h"
#include "base/ram.h"
#include "keys/rule.h"
#include "file/design.h"
#include "file/header.h"
#include "foreign/files.h"
#include "foreign/layout.h"
#include "port/port.h"
#include "write/assembly.h"

/* May this be another program's filter? A chain of RedisBloom is in two files beside the name. */
static bool may_be_foreign(const char *path)
{
    struct stat st;
    uint8_t head[16] = {0};
    size_t n = 0;
    if (strcmp(path, "-") == 0 || disk_is_address(path))
        return false;
    if (stat(path, &st) != 0)
        return true;
    if (!S_ISREG(st.st_mode))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool own = fd >= 0 && disk_read(fd, head, sizeof head, 0, &n) && format_is_filter(head, n);
    if (fd >= 0)
        close(fd);
    return !own;
}

/* For what does not fit into memory, and for inflated files. */
static const char *scratch_dir(void)
{
    const char *dir = getenv("TMPDIR");
    return dir != NULL && dir[0] != '\0' ? dir : "/tmp";
}

/* Makes a file of `len` zero bytes. Returns its descriptor, or -1 and err. */
static int open_room(uint64_t len, const char *path, struct err *err)
{
    char need[NUM_TEXT];
    int fd = len <= ram_limit() / 2 ? port_memory_file() : -1;
    if (fd < 0)
        fd = disk_scratch(scratch_dir(), err);
    if (fd < 0 || ftruncate(fd, (off_t)len) == 0)
        return fd;
    fail_errno(err, "cannot make %s for '%s'", num_show_bytes(need, len), path);
    close(fd);
    return -1;
}

/* Opens the copy of a filter that was read. */
static bool open_copy(struct filter *f, const char *path, const struct layout_filter *filter,
                      const struct layout_bits *bits, const struct borrow *how, struct err *err)
{
    struct assembly a = {.out = path, .reproducible = true, .threads = 1, .file.fd = -1};
    struct key_rule rule = {.terminator = '\n', .delimiter = '\t'};
    if (how->rule != NULL)
        rule = *how->rule;
    if (!header_take_rule(filter, &rule, err))
        return false;
    header_begin_foreign(&a.header, filter, &rule, true);
    int fd = a.file.fd = open_room(a.header.file_len, path, err);
    if (fd < 0)
        return false;
    bool ok =
        assembly_adopt(&a, filter, bits, &rule, err) && header_write(&a.header, fd, path, err);
    if (!ok)
        close(fd);
    return ok && filter_open_unnamed(f, fd, path, err);
}

static bool open_foreign(struct filter *f, const char *path, const struct layout_spec *spec,
                         const struct borrow *how, struct err *err)
{
    struct foreign_files files;
    struct layout_filter filter;
    struct layout_bits bits[LAYOUT_LAYERS] = {{0}};
    char text[LAYOUT_TEXT];
    bool ok = foreign_read(&files, path, spec, scratch_dir(), "read", &filter, bits, err) &&
              open_copy(f, path, &filter, bits, how, err);
    if (ok && !foreign_whole(&files, err)) {
        filter_close(f);
        ok = false;
    }
    f->foreign = files.size;
    if (ok && how->told != NULL) {
        layout_show(&filter, text, sizeof text);
        how->told(path, text);
    }
    foreign_close(&files);
    for (unsigned i = 0; i < LAYOUT_LAYERS; i++)
        free(bits[i].owned);
    return ok;
}

/* A file of seen is read by its header: a layout that was given has an effect on others only. */
static bool check_own(struct filter *f, const struct layout_spec *spec, struct err *err)
{
    if (f->header.layers[0].kind == spec->kind)
        return true;
    fail(err, "'%s' is a filter of seen, not of layout %s: --layout is for other programs' files",
         f->path, spec->kind->name);
    filter_close(f);
    return false;
}

bool borrow_open(struct filter *f, const char *path, const struct borrow *how, struct err *err)
{
    struct layout_spec spec;
    struct err ignored;
    bool given = how != NULL && how->layout != NULL;
    if (given && !layout_parse(how->layout, &spec, err))
        return false;
    if (filter_open(f, path, FILTER_READ, err))
        return !given || check_own(f, &spec, err);
    return how != NULL && may_be_foreign(path) &&
           (given || foreign_recognize(path, false, &spec, &ignored)) &&
           open_foreign(f, path, &spec, how, err);
}

bool borrow_read_header(const char *path, const struct borrow *how, struct header *h,
                        struct err *err)
{
    struct filter f;
    if (!borrow_open(&f, path, how, err))
        return false;
    *h = f.header;
    filter_close(&f);
    return true;
}

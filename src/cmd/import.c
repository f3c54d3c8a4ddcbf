/* SPDX-License-Identifier: MIT */
/* seen import: makes a filter file from a filter of another program, in files or at an address. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/disk.h"
#include "base/err.h"
#include "base/magic.h"
#include "base/parallel.h"
#include "base/say.h"
#include "base/sig.h"
#include "cmd/cmd.h"
#include "cmd/keyopt.h"
#include "cmd/redisopt.h"
#include "cmd/report.h"
#include "cmd/warn.h"
#include "keys/content.h"
#include "keys/gzip.h"
#include "foreign/layout.h"
#include "foreign/foreign.h"
#include "file/header.h"
#include "write/make.h"

/* ---- FOREIGN: the files of another program's filter, each mapped. A pipe is copied to a scratch
 * file, and a compressed file inflated into one, unless it is short.
 *
 *     struct foreign_files files;
 *     if (foreign_open(&files, "name", &spec, most, dir, &err)) ...  // name, or its two files
 *     ... files.in ...
 *     if (!foreign_whole(&files, &err)) ...  // a file was cut while it was read
 *     foreign_close(&files);                 // in any case
 */

struct foreign_files {
    struct layout_foreign in;
    /* The rest is private. */
    const struct layout_spec *spec;
    uint64_t most;
    const char *dir;
    char *name[LAYOUT_FILES];
    struct mapped mapped[LAYOUT_FILES]; /* a regular file, or a scratch file */
    uint8_t *read[LAYOUT_FILES];        /* the first bytes of what goes into a scratch file */
};

/* The first bytes of a file, which hold the header of every layout, and the size of a read. */
enum { HEAD = 1 << 16 };

static bool fail_read(const struct foreign_files *f, unsigned i, struct err *err)
{
    return fail_errno(err, "cannot read '%s'", f->in.name[i]);
}

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
    bool ok = scratch >= 0 && spill_foreign(f, i, r, scratch, most, err);
    if (scratch >= 0)
        close(scratch);
    return ok;
}

/* For a file that cannot be mapped as it is: a pipe, or compressed. */
static bool read_unmapped(struct foreign_files *f, unsigned i, int fd, struct err *err)
{
    struct reader r = {.end = SOURCE_GOES_ON};
    bool ok = reader_begin(&r, f, i, fd, err) && read_to_end(f, i, &r, err);
    gzip_end(&r.gzip);
    return ok;
}

static bool is_compressed(const struct foreign_files *f, int fd)
{
    unsigned char first[GZIP_MAGIC];
    size_t got;
    return f->spec->kind->layout->gzip && disk_read(fd, first, GZIP_MAGIC, 0, &got) &&
           got == GZIP_MAGIC && gzip_like(first, got);
}

static bool take_foreign(struct foreign_files *f, unsigned i, int fd, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail_errno(err, "cannot read '%s'", f->in.name[i]);
    if (!S_ISREG(st.st_mode) || st.st_size == 0 || is_compressed(f, fd))
        return read_unmapped(f, i, fd, err);
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

/* Opens the files of a layout. `name` "-" is standard input, for layouts of one file. A pipe or a
 * compressed file is an error if it has more than `most` bytes, more than its header claims, or
 * more than fit into `dir`, the directory of the scratch file. With `dir` NULL, only its first
 * bytes are read. */
static bool foreign_open(struct foreign_files *f, const char *name, const struct layout_spec *spec,
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

static bool foreign_whole(const struct foreign_files *f, struct err *err)
{
    for (unsigned i = 0; i < LAYOUT_FILES; i++)
        if (f->mapped[i].data != NULL && !mapped_whole(&f->mapped[i], f->mapped[i].len))
            return fail(err, "'%s' was changed while it was read, or the disk failed",
                        f->in.name[i]);
    return true;
}

/* Fails if the first bytes show that no layout fits. A bitmap may begin with any bytes, so little
 * is refused as one; of a Parquet file, both ends are checked. */
static bool check_content(const struct foreign_files *f, const char *name, struct err *err)
{
    enum { LEN = sizeof MAGIC_PARQUET - 1 };
    const uint8_t *data = f->in.data[0];
    size_t len = (size_t)f->in.len[0]; /* of a mapping */
    const struct content *c = NULL;
    if (magic_begins(data, len))
        return fail(err, "'%s' is a seen filter already; 'seen export' writes another program's",
                    name);
    if (len >= LEN && magic_parquet(data, LEN) && magic_parquet(data + len - LEN, LEN))
        return fail(err, "'%s' " MAGIC_PARQUET_IS, name);
    if (f->spec->kind->layout->recognize != NULL)
        c = content_find_filter(data, len < CONTENT_HEAD ? (size_t)len : CONTENT_HEAD);
    return c == NULL || fail(err, "'%s' is %s: %s", name, c->what, c->reader);
}

static void foreign_close(struct foreign_files *f)
{
    for (unsigned i = 0; i < LAYOUT_FILES; i++) {
        mapped_close(&f->mapped[i]);
        free(f->read[i]);
        free(f->name[i]);
    }
}

/* ---- The command. */

struct import {
    const char *layout; /* NULL: FOREIGN is an address */
    const char *foreign;
    struct open_options open;
    uint64_t n;
    double p;
    struct keyopt keyopt;
    struct layout_spec spec;
    struct foreign_files files;
    char *dir; /* of `out`, for scratch */
    struct layout_bits bits[LAYOUT_LAYERS];
    struct layout_filter filter;
    struct make make; /* without inputs */
    struct census census;
};

#define FOR_FILES "is for files, since an address says what is there (URI?layout=SPEC)"

static const struct opt import_opts[] = {
    {0, "layout", "SPEC",
     "the format of FOREIGN: NAME[:PARAM=VALUE,...], or 'auto' to recognise it by its content; "
     "seen-layouts(7) describes the formats",
     TEXT(struct import, layout), .not_with = " URI", .why = FOR_FILES},
    {'o', "output", "FILTER", "the filter file to make", TEXT(struct import, make.out)},
    {'n', "capacity", "N", "the number of keys that FOREIGN was made for", AMOUNT(struct import, n),
     .not_with = " URI", .why = FOR_FILES},
    {'p', "fpr", "P", "the false-positive rate that it was made for", FPR(struct import, p),
     .not_with = " URI", .why = FOR_FILES},
    {0, "force", NULL,
     "replace an existing FILTER atomically; take a bitmap whose bits contradict its size",
     FLAG(struct import, make.replace)},
    {0, "reproducible", NULL, "leave out times and the random file id",
     FLAG(struct import, make.reproducible), .env = "SOURCE_DATE_EPOCH"},
    {0, "json", NULL, "print a summary as JSON", FLAG(struct import, make.prints)},
    {'j', "threads", "N", "use N threads (default: one for each CPU that this process may use)",
     THREADS(struct import, make.threads)},
    {0},
};

static const struct opt_group groups[] = {
    {"Options", import_opts, 0, NULL},
    {"Key preparation, stored in the filter and applied by every later command", keyopt_prep_opts,
     offsetof(struct import, keyopt), keyopt_take},
    {"Filters in Redis", redisopt_connect, offsetof(struct import, open), NULL},
    {0},
};

/* Finds the one layout that fits the contents of FOREIGN, and sets im->spec to it. */
static bool recognize(struct import *im, struct err *err)
{
    const struct kind *kind, *found = NULL;
    for (unsigned i = 0; (kind = layout_number_of(i)) != NULL; i++) {
        struct foreign_files files;
        struct layout_spec spec;
        struct err ignored;
        const struct layout *layout = kind->layout;
        if (layout->recognize == NULL || !layout_parse(kind->name, &spec, &ignored))
            continue;
        bool opened = foreign_open(&files, im->foreign, &spec, UINT64_MAX, NULL, &ignored);
        bool fits = opened && layout->recognize(&files.in);
        bool ok = !opened || check_content(&files, im->foreign, err);
        foreign_close(&files);
        if (!ok)
            return false;
        if (fits && found != NULL)
            return fail(err, "'%s' may be of layout %s or %s: --layout says which", im->foreign,
                        found->name, kind->name);
        if (fits)
            found = kind;
    }
    if (found == NULL)
        return fail(err, "the layout of '%s' cannot be recognised by its content: give --layout",
                    im->foreign);
    return layout_parse(found->name, &im->spec, err);
}

/* The most bytes that FOREIGN can have, if that follows from the layout alone. Rounded up: a bitmap
 * may be stored in whole words. */
static uint64_t most_bytes(const struct import *im)
{
    struct layout_filter filter;
    struct err ignored;
    const struct layout *layout = im->spec.kind->layout;
    if (!design_fixes_size(&im->spec, im->p) ||
        !layout->design(&im->spec, 1, im->p, &filter, &ignored))
        return UINT64_MAX;
    return (layout->file_len(&filter) + 7) / 8 * 8;
}

static bool read_foreign(struct import *im, struct err *err)
{
    struct err why;
    bool is_auto = strcmp(im->layout, "auto") == 0;
    if (is_auto && strcmp(im->foreign, "-") == 0)
        return fail(err, "standard input can be read only once: --layout auto needs a file");
    if (is_auto ? !recognize(im, err) : !layout_parse(im->layout, &im->spec, err))
        return false;
    im->spec.n = im->n;
    im->spec.p = im->p;
    im->spec.forced = im->make.replace;
    const struct layout *layout = im->spec.kind->layout;
    if (!foreign_open(&im->files, im->foreign, &im->spec, most_bytes(im), im->dir, err))
        return false;
    if (!check_content(&im->files, im->foreign, err))
        return false;
    if (!layout->read(&im->spec, &im->files.in, &im->filter, im->bits, &why)) {
        fail(err, "cannot import '%s' as %s: %s", im->foreign, im->spec.kind->name, why.text);
        const struct kind *kind;
        for (unsigned i = 0; (kind = layout_number_of(i)) != NULL; i++)
            if (kind != im->spec.kind && kind->layout->recognize != NULL &&
                kind->layout->recognize(&im->files.in))
                fail_more(err, "; it looks like one of %s", kind->name);
        return false;
    }
    for (unsigned i = 0; i < im->filter.n_layers; i++)
        if (!im->filter.layer[i].kind->check(&im->filter.layer[i], &why))
            return fail(err, "cannot import '%s' as %s: %s", im->foreign, im->spec.kind->name,
                        why.text);
    if (is_auto) {
        char spec[LAYOUT_TEXT];
        layout_show(&im->filter, spec, sizeof spec);
        say_note("'%s' is taken for %s", im->foreign, spec);
    }
    return true;
}

static bool write_filter(struct import *im, struct err *err)
{
    if (!header_take_rule(&im->filter, &im->keyopt.rule, err))
        return false;
    struct make *m = &im->make;
    header_begin_foreign(&m->header, &im->filter, &im->keyopt.rule, m->reproducible);
    return foreign_write(&m->header, &im->filter, im->bits, &m->file, m->out, m->threads,
                         &im->census, err) &&
           foreign_whole(&im->files, err) && make_commit(m, err);
}

static void print_imported(const struct import *im)
{
    struct report r = {0};
    char spec[LAYOUT_TEXT];
    layout_show(&im->filter, spec, sizeof spec);
    report_made(&r, im->make.out, &im->make.header, im->census.fpr, im->census.n);
    report_string(&r, NULL, "layout", RECORDED, spec);
    report_json(&r, stdout);
}

static bool import(struct import *im)
{
    struct err err;
    struct make *m = &im->make;
    if (!make_open_one(m, NULL, &err))
        return say_failure(&err);
    im->dir = disk_dir_of(m->out);
    bool ok =
        (im->dir != NULL || fail(&err, "out of memory")) &&
        (im->layout != NULL ? read_foreign(im, &err)
                            : store_pull(im->foreign, &im->open, &im->filter, im->bits, &err)) &&
        write_filter(im, &err);
    warn_attached(&m->file, m->out);
    foreign_close(&im->files);
    free(im->dir);
    for (unsigned i = 0; i < LAYOUT_LAYERS; i++)
        free(im->bits[i].owned);
    if (!ok)
        return sig_caught() == 0 && say_failure(&err);
    if (m->prints)
        print_imported(im);
    return true;
}

static int run(int argc, char **argv)
{
    struct import im = {.keyopt = KEYOPT_DEFAULT, .make.threads = parallel_cpus()};
    struct opt_parser p;
    if (!opt_parse(&p, &cmd_import, argc, argv, &im))
        return p.status;
    im.foreign = argv[p.first];
    if (!p.address && im.layout == NULL)
        return opt_misuse(&cmd_import, "--layout is missing: it names the layout of FOREIGN; "
                                       "'--layout auto' recognises a file by its content");
    if (p.address)
        sig_catch();
    bool ok = import(&im);
    make_close(&im.make);
    return ok ? EXIT_SELECTED : sig_caught() ? 128 + sig_caught() : EXIT_ERROR;
}

const struct command cmd_import = {
    .name = "import",
    .synopsis = "[OPTION]... [--layout SPEC] FOREIGN -o FILTER",
    .summary = "make a filter file from a filter of another program",
    .details =
        "Reads FOREIGN, a Bloom filter as another program stores it, and makes the filter file "
        "FILTER. The bits stay the same: query and add work as in the other program, and 'seen "
        "export' writes the filter back for it. FOREIGN is a file, or an address in Redis: "
        "redis://HOST/KEY?layout=SPEC or redis+unix:///SOCKET?key=KEY&layout=SPEC.",
    .groups = groups,
    .operand = "FOREIGN filter",
    .least = 1,
    .most = 1,
    .output = "FILTER",
    .run = run,
};

/* SPDX-License-Identifier: MIT */
/* Whatever the source, the chunk length and the number of threads: the same records.
 * tags: threads */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "base/sig.h"
#include "check.h"
#include "keys/content.h"
#include "keys/input.h"
#include "random.h"
#include "scratchdir.h"

/* "/dev/fd/" and an int. */
enum { FD_PATH = 20 };

static char *fd_path(int fd, char *path)
{
    snprintf(path, FD_PATH, "/dev/fd/%d", fd);
    return path;
}

struct text {
    char *data;
    size_t len;
};

static void append(struct text *t, const void *data, size_t len)
{
    t->data = realloc(t->data, t->len + len + 1);
    memcpy(t->data + t->len, data, len);
    t->len += len;
}

static void write_all(int fd, const char *data, size_t len, bool in_pieces)
{
    while (len) {
        size_t n = in_pieces ? 1 + draw() % 3000 : len;
        ssize_t w = write(fd, data, n < len ? n : len);
        if (w < 0)
            return; /* the reader has gone */
        data += w;
        len -= (size_t)w;
    }
}

/* Returns the name, as an input takes it. */
static char *file_of(const char *name, struct text t)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    write_all(fd, t.data, t.len, false);
    close(fd);
    return (char *)(uintptr_t)name;
}

/* One gzip member. */
static void append_gzip(struct text *t, const char *data, size_t len)
{
    z_stream z = {0};
    deflateInit2(&z, 6, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY);
    size_t room = deflateBound(&z, len);
    unsigned char *out = malloc(room);
    unsigned char *in = malloc(len + 1);
    memcpy(in, data, len);
    z.next_in = in;
    z.avail_in = (uInt)len;
    z.next_out = out;
    z.avail_out = (uInt)room;
    deflate(&z, Z_FINISH);
    append(t, out, z.total_out);
    deflateEnd(&z);
    free(out);
    free(in);
}

/* Records of all kinds: empty, with NULs, short, and now and then longer than a small chunk. */
static struct text random_records(size_t len, char terminator)
{
    struct text t = {malloc(len + 1), len};
    size_t at = 0;
    while (at < len) {
        size_t record = draw() % 8 == 0 ? 0 : draw() % 60;
        if (draw() % 500 == 0)
            record = draw() % 9000;
        for (; record && at < len; record--) {
            char c = draw() % 200 == 0 ? '\0' : (char)(draw() | 0x20); /* not binary data */
            t.data[at++] = c == terminator ? 'x' : c;
        }
        if (at < len)
            t.data[at++] = terminator;
    }
    return t;
}

/* What came, a piece for each seq. */
struct seen {
    struct input *in;
    pthread_mutex_t lock;
    size_t n, room, finished;
    struct piece {
        enum input_got got;
        bool given;
        size_t file, too_long;
        uint64_t header;
        bool first_header;
        struct text text;
        char why[300];
    } * piece;
};

static void *collect(void *arg)
{
    struct seen *s = arg;
    struct chunk chunk = {0};
    struct err err;
    enum input_got got;
    while ((got = input_next(s->in, &chunk, &err)) != INPUT_END) {
        pthread_mutex_lock(&s->lock);
        if (chunk.seq >= s->room) {
            size_t room = 2 * (chunk.seq + 50);
            s->piece = realloc(s->piece, room * sizeof *s->piece);
            memset(s->piece + s->room, 0, (room - s->room) * sizeof *s->piece);
            s->room = room;
        }
        struct piece *p = &s->piece[chunk.seq];
        CHECK(!p->given);
        p->given = true;
        p->got = got;
        p->file = chunk.file;
        p->header = chunk.header;
        p->too_long = chunk.too_long;
        p->first_header = chunk.first_header;
        append(&p->text, chunk.data, got == INPUT_CHUNK_READ ? chunk.len : 0);
        if (got == INPUT_FAILED)
            snprintf(p->why, sizeof p->why, "%.299s", err.text);
        if (s->n <= chunk.seq)
            s->n = chunk.seq + 1;
        while (s->finished < s->n && s->piece[s->finished].given)
            s->finished++;
        input_finished(s->in, s->finished);
        pthread_mutex_unlock(&s->lock);
    }
    chunk_free(&chunk);
    return NULL;
}

/* Reads all of an input. */
static struct seen read_input(const struct input_spec *spec, unsigned threads)
{
    struct seen s = {0};
    struct err err;
    pthread_mutex_init(&s.lock, NULL);
    s.in = input_open(spec, &err);
    CHECK(s.in != NULL);
    pthread_t thread[8];
    for (unsigned i = 1; i < threads; i++)
        pthread_create(&thread[i], NULL, collect, &s);
    collect(&s);
    for (unsigned i = 1; i < threads; i++)
        pthread_join(thread[i], NULL);
    for (size_t i = 0; i < s.n; i++)
        CHECK(s.piece[i].given);
    input_close(s.in);
    return s;
}

static void seen_free(struct seen *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->piece[i].text.data);
    free(s->piece);
    pthread_mutex_destroy(&s->lock);
}

static struct seen read_file(char *path, char terminator, size_t chunk_len, unsigned threads)
{
    struct input_spec spec = {.files = &path,
                              .n_files = 1,
                              .terminator = terminator,
                              .gzip = true,
                              .chunk_len = chunk_len};
    return read_input(&spec, threads);
}

static bool same(struct text a, const char *b, size_t len)
{
    return a.len == len && (!len || memcmp(a.data, b, len) == 0);
}

/* Do the pieces that are not empty match the definition of a chunk, byte by byte? */
static bool chunks_match(const struct seen *s, struct text want, char terminator, size_t chunk_len)
{
    size_t i = 0;
    for (size_t begin = 0, end; begin < want.len; begin = end) {
        size_t limit = (begin / chunk_len + 1) * chunk_len;
        end = begin;
        do
            end++;
        while (end < want.len && !(end >= limit && want.data[end - 1] == terminator));
        while (i < s->n && s->piece[i].text.len == 0 && s->piece[i].got == INPUT_CHUNK_READ)
            i++;
        if (i == s->n || !same(s->piece[i].text, want.data + begin, end - begin))
            return false;
        i++;
    }
    for (; i < s->n; i++)
        if (s->piece[i].text.len || s->piece[i].got != INPUT_CHUNK_READ)
            return false;
    return true;
}

struct writer {
    int fd;
    struct text text;
};

static void *write_pipe(void *arg)
{
    struct writer *w = arg;
    write_all(w->fd, w->text.data, w->text.len, true);
    close(w->fd);
    return NULL;
}

/* With the specification's files replaced. */
static struct seen read_pipe_as(struct text text, struct input_spec spec, unsigned threads)
{
    int fds[2];
    if (pipe(fds) != 0)
        abort();
    struct writer w = {fds[1], text};
    pthread_t thread;
    pthread_create(&thread, NULL, write_pipe, &w);
    char path[FD_PATH], *file = fd_path(fds[0], path);
    spec.files = &file;
    spec.n_files = 1;
    struct seen s = read_input(&spec, threads);
    pthread_join(thread, NULL);
    close(fds[0]);
    return s;
}

static struct seen read_pipe(struct text text, char terminator, size_t chunk_len, bool prompt,
                             unsigned threads)
{
    struct input_spec spec = {
        .terminator = terminator, .gzip = true, .prompt = prompt, .chunk_len = chunk_len};
    return read_pipe_as(text, spec, threads);
}

static const size_t chunk_lens[] = {1, 7, 64, 5000, 256 << 10};
static const unsigned thread_counts[] = {1, 3};

#define EACH(i, array) (size_t i = 0; i < sizeof(array) / sizeof *(array); i++)

TEST(every_source_gives_the_same_chunks)
{
    for (unsigned round = 0; round < 6; round++) {
        char terminator = round % 2 ? '\n' : 0;
        struct text t = random_records(round == 0 ? 0 : 1 + draw() % 40000, terminator);
        struct text gz = {0};
        size_t cut = t.len ? draw() % t.len : 0;
        append_gzip(&gz, t.data, cut);
        append_gzip(&gz, "", 0);
        append_gzip(&gz, t.data + cut, t.len - cut);
        char *plain_file = file_of("plain", t), *gzip_file = file_of("gz", gz);
        for
            EACH(c, chunk_lens)
            {
            for
                EACH(k, thread_counts)
                {
                    size_t len = chunk_lens[c];
                    unsigned threads = thread_counts[k];
                    struct seen s[4] = {read_file(plain_file, terminator, len, threads),
                                        read_file(gzip_file, terminator, len, threads),
                                        read_pipe(t, terminator, len, false, threads),
                                        read_pipe(gz, terminator, len, false, threads)};
                    for (int i = 0; i < 4; i++) {
                        CHECK(chunks_match(&s[i], t, terminator, len));
                        seen_free(&s[i]);
                    }
                }
            }
        free(t.data);
        free(gz.data);
    }
}

/* Joins the pieces. */
static struct text joined(const struct seen *s)
{
    struct text all = {0};
    append(&all, "", 0);
    for (size_t i = 0; i < s->n; i++)
        if (s->piece[i].text.len)
            append(&all, s->piece[i].text.data, s->piece[i].text.len);
    return all;
}

TEST(prompt_chunks_hold_the_same_records)
{
    for (unsigned round = 0; round < 4; round++) {
        struct text t = random_records(30000, '\n'), gz = {0};
        append_gzip(&gz, t.data, t.len);
        for
            EACH(c, chunk_lens)
            {
                struct seen s[2] = {read_pipe(t, '\n', chunk_lens[c], true, 2),
                                    read_pipe(gz, '\n', chunk_lens[c], true, 2)};
                for (int i = 0; i < 2; i++) {
                    struct text all = joined(&s[i]);
                    CHECK(same(all, t.data, t.len));
                    for (size_t j = 0; j + 1 < s[i].n; j++)
                        CHECK(s[i].piece[j].text.data[s[i].piece[j].text.len - 1] == '\n');
                    free(all.data);
                    seen_free(&s[i]);
                }
            }
        free(t.data);
        free(gz.data);
    }
}

/* The length of the first `records` records, fewer if there are no more; *n says how many. */
static size_t len_of_records(struct text t, char terminator, size_t records, size_t *n)
{
    size_t len = 0;
    for (*n = 0; *n < records && len < t.len; ++*n) {
        const char *end = memchr(t.data + len, terminator, t.len - len);
        len = end ? (size_t)(end - t.data) + 1 : t.len;
    }
    return len;
}

/* Does the header come first, in a chunk of its own, and is the rest chunked as if it were all? */
static bool header_matches(const struct seen *s, struct text t, const struct input_spec *spec)
{
    size_t n, len = len_of_records(t, spec->terminator, spec->header, &n);
    struct text after = {t.data + len, t.len - len};
    struct seen rest = {.n = s->n - 1, .piece = s->piece + 1};
    for (size_t i = 0; i < rest.n; i++)
        if (rest.piece[i].header != 0 || rest.piece[i].first_header)
            return false;
    struct text all = joined(&rest);
    bool chunked = spec->prompt ? same(all, after.data, after.len)
                                : chunks_match(&rest, after, spec->terminator, spec->chunk_len);
    free(all.data);
    return chunked && s->piece[0].header == n && s->piece[0].first_header &&
           same(s->piece[0].text, t.data, len);
}

TEST(a_header_comes_in_a_chunk_of_its_own)
{
    for (unsigned round = 0; round < 10; round++) {
        char terminator = round % 2 ? '\n' : 0;
        struct text t = random_records(1 + draw() % 40000, terminator), gz = {0};
        append_gzip(&gz, t.data, t.len);
        size_t n;
        len_of_records(t, terminator, SIZE_MAX, &n);
        const uint64_t headers[] = {1, 3, 1 + draw() % n, n, n + 5};
        char *plain_file = file_of("plain", t), *gzip_file = file_of("gz", gz);
        for
            EACH(h, headers)
            {
                struct input_spec spec = {.n_files = 1,
                                          .terminator = terminator,
                                          .gzip = true,
                                          .prompt = draw() % 2,
                                          .chunk_len = chunk_lens[draw() % 5],
                                          .header = headers[h]};
                struct seen s[4];
                spec.files = &plain_file;
                s[0] = read_input(&spec, 3);
                spec.files = &gzip_file;
                s[1] = read_input(&spec, 2);
                s[2] = read_pipe_as(t, spec, 2);
                s[3] = read_pipe_as(gz, spec, 1);
                for (int i = 0; i < 4; i++) {
                    CHECK(header_matches(&s[i], t, &spec));
                    seen_free(&s[i]);
                }
            }
        free(t.data);
        free(gz.data);
    }
}

TEST(a_mapped_file_has_a_header_too)
{
    struct text t = random_records(3 << 20, '\n');
    size_t n;
    len_of_records(t, '\n', 1000, &n);
    char *file = file_of("large", t);
    struct input_spec spec = {
        .files = &file, .n_files = 1, .terminator = '\n', .chunk_len = 512 << 10, .header = 1000};
    struct seen s = read_input(&spec, 3);
    CHECK(n == 1000 && s.n > 3);
    CHECK(header_matches(&s, t, &spec));
    seen_free(&s);
    free(t.data);
}

TEST(each_file_has_a_header_and_one_is_the_first)
{
    struct text t = random_records(500, '\n'), gz = {0}, none = {0};
    append_gzip(&gz, t.data, t.len);
    char *files[] = {file_of("none", none), file_of("gz", gz), file_of("plain", t)};
    struct input_spec spec = {
        .files = files, .n_files = 3, .terminator = '\n', .gzip = true, .header = 2};
    for
        EACH(k, thread_counts)
        {
            struct seen s = read_input(&spec, thread_counts[k]);
            size_t with[3] = {0};
            for (size_t i = 0; i < s.n; i++) {
                with[s.piece[i].file] += s.piece[i].header;
                CHECK(s.piece[i].first_header == (s.piece[i].file == 1 && s.piece[i].header == 2));
            }
            CHECK(with[0] == 0 && with[1] == 2 && with[2] == 2);
            seen_free(&s);
        }
    free(t.data);
    free(gz.data);
}

TEST(a_header_that_cannot_be_read_is_reported_once)
{
    struct text t = random_records(300, '\n'), gz = {0}, packed = {0};
    append_gzip(&gz, t.data, t.len);
    gz.len -= 9; /* of its end */
    append(&packed, "BZh91AY&SY\nx\n", 13);
    char *files[] = {file_of("gz", gz), file_of("packed", packed), file_of("plain", t)};
    struct input_spec spec = {
        .files = files, .n_files = 3, .terminator = '\n', .gzip = true, .header = 10000};
    struct seen s = read_input(&spec, 2);
    size_t failed[3] = {0};
    for (size_t i = 0; i < s.n; i++) {
        failed[s.piece[i].file] += s.piece[i].got == INPUT_FAILED;
        CHECK(s.piece[i].file != 1 || s.piece[i].text.len == 0);
    }
    CHECK(failed[0] == 1 && failed[1] == 1 && failed[2] == 0);
    CHECK(s.n > 0 && same(s.piece[s.n - 1].text, t.data, t.len));
    seen_free(&s);
    free(t.data);
    free(gz.data);
    free(packed.data);
}

/* A pipe that is read promptly while it is written. */
struct live {
    int fds[2];
    char path[FD_PATH], *file;
    struct input *in;
    struct chunk chunk;
};

static void live_open(struct live *live, size_t chunk_len, uint64_t header)
{
    struct err err;
    *live = (struct live){0};
    if (pipe(live->fds) != 0)
        abort();
    live->file = fd_path(live->fds[0], live->path);
    struct input_spec spec = {.files = &live->file,
                              .n_files = 1,
                              .terminator = '\n',
                              .gzip = true,
                              .prompt = true,
                              .chunk_len = chunk_len,
                              .header = header};
    live->in = input_open(&spec, &err);
    CHECK(live->in != NULL);
}

static void live_send(struct live *live, const char *text)
{
    write_all(live->fds[1], text, strlen(text), false);
}

/* Is this the next chunk? */
static bool live_gives(struct live *live, const char *text)
{
    struct err err;
    return input_next(live->in, &live->chunk, &err) == INPUT_CHUNK_READ &&
           live->chunk.len == strlen(text) && memcmp(live->chunk.data, text, live->chunk.len) == 0;
}

/* Closes the pipe; then this is the last chunk. */
static void live_ends(struct live *live, const char *text)
{
    struct err err;
    close(live->fds[1]);
    CHECK(live_gives(live, text));
    for (int i = 0; i < 2; i++)
        CHECK(input_next(live->in, &live->chunk, &err) == INPUT_END);
    chunk_free(&live->chunk);
    input_close(live->in);
    close(live->fds[0]);
}

TEST(prompt_does_not_wait_for_more_than_a_record)
{
    struct live live;
    live_open(&live, 0, 0);
    live_send(&live, "a\nb\nc");
    CHECK(live_gives(&live, "a\nb\n"));
    live_send(&live, "d\n");
    CHECK(live_gives(&live, "cd\n"));
    live_send(&live, "e");
    live_ends(&live, "e");
}

TEST(prompt_gives_each_full_chunk)
{
    struct live live;
    live_open(&live, 4, 0);
    live_send(&live, "aaa\nbbb\ncc");
    CHECK(live_gives(&live, "aaa\n"));
    CHECK(live_gives(&live, "bbb\n"));
    live_ends(&live, "cc");
}

TEST(a_header_of_which_a_part_came_waits_for_its_end)
{
    struct live live;
    live_open(&live, 0, 2);
    live_send(&live, "a\nb\nc\nd");
    CHECK(live_gives(&live, "a\nb\n") && live.chunk.header == 2);
    CHECK(live_gives(&live, "c\n") && live.chunk.header == 0);
    live_ends(&live, "d");
}

TEST(one_record_may_be_longer_than_many_chunks)
{
    struct text t = {0};
    size_t huge = 20u << 20;
    append(&t, "first\n", 6);
    char *x = malloc(huge);
    memset(x, 'x', huge);
    append(&t, x, huge);
    append(&t, "\nlast", 5);
    struct text gz = {0};
    append_gzip(&gz, t.data, t.len);
    struct seen s[3] = {read_file(file_of("plain", t), '\n', 0, 3),
                        read_file(file_of("gz", gz), '\n', 0, 3), read_pipe(t, '\n', 0, true, 2)};
    for (int i = 0; i < 2; i++)
        CHECK(chunks_match(&s[i], t, '\n', INPUT_CHUNK));
    for (int i = 0; i < 3; i++) {
        struct text all = joined(&s[i]);
        CHECK(same(all, t.data, t.len));
        free(all.data);
        seen_free(&s[i]);
    }
    free(x);
    free(t.data);
    free(gz.data);
}

/* The same by every way: a record of `longest` bytes is read, one of more ends its chunk, and what
 * follows it in a stream is not read. */
TEST(a_record_that_is_too_long_ends_its_chunk)
{
    enum { LONGEST = 10000, SIZE = 4096 };
    for (unsigned round = 0; round < 48; round++) {
        size_t len = LONGEST + round % 2, before = round / 2 % 4 * 1500;
        const char *after = round / 8 % 3 == 0 ? "" : round / 8 % 3 == 1 ? "\n" : "\nmore\n";
        uint64_t header = round < 24 ? 0 : before > 0 ? 3 : 1; /* the long record is its last */
        char *x = malloc(len + before + 1);
        memset(x, 'x', len + before);
        x[before / 2] = before > 0 ? '\n' : 'x';
        x[before > 0 ? before - 1 : 0] = before > 0 ? '\n' : 'x';
        struct text t = {0}, gz = {0};
        append(&t, x, before + len);
        append(&t, after, strlen(after));
        append_gzip(&gz, t.data, t.len);
        char *plain = file_of("plain", t), *zipped = file_of("gz", gz);
        struct input_spec spec = {.files = &plain,
                                  .n_files = 1,
                                  .terminator = '\n',
                                  .gzip = true,
                                  .chunk_len = SIZE,
                                  .longest = LONGEST,
                                  .header = header};
        struct input_spec gz_spec = spec, prompt = spec;
        gz_spec.files = &zipped;
        prompt.prompt = true;
        struct seen s[4] = {read_input(&spec, 1 + round % 3), read_input(&gz_spec, 2),
                            read_pipe_as(t, spec, 2), read_pipe_as(t, prompt, 1)};
        for (int i = 0; i < 4; i++) {
            size_t n_long = 0, so_far = 0;
            for (size_t p = 0; p < s[i].n; p++) {
                n_long += s[i].piece[p].too_long > 0;
                so_far += s[i].piece[p].too_long;
                CHECK(s[i].piece[p].got == INPUT_CHUNK_READ);
            }
            struct text all = joined(&s[i]);
            if (round % 2 == 0)
                CHECK(n_long == 0 && same(all, t.data, t.len));
            else
                CHECK(n_long == 1 && so_far > LONGEST && all.len >= before &&
                      memcmp(all.data, t.data, before) == 0);
            if (round % 2 == 1 && i > 0)
                CHECK(all.len == before);
            free(all.data);
            seen_free(&s[i]);
        }
        free(x);
        free(t.data);
        free(gz.data);
    }
}

/* Chunks of the usual size; with a terminator at every place around a piece's end, a
 * file's end there too, records that reach far beyond it, and a start within a page. */
TEST(large_files_give_the_same_chunks)
{
    enum { PIECE = INPUT_CHUNK };
    for (unsigned round = 0; round < 14; round++) {
        size_t len = 2 * PIECE - 2 + (round < 5 ? round : draw() % PIECE);
        struct text t = random_records(len, '\n');
        memset(t.data + PIECE - 3, 'x', 8);
        t.data[PIECE - 3 + round % 8] = '\n';
        if (round == 6) /* more than is read behind a piece's end */
            memset(t.data + PIECE - 100, 'x', 3000);
        if (round == 7) /* a piece in which no record begins */
            memset(t.data + 10, 'x', 2 * PIECE);
        int saved = dup(0), fd = open(file_of("x", t), O_RDONLY);
        size_t skip = round % 3 == 0 ? 0 : draw() % 9000;
        dup2(fd, 0);
        for
            EACH(k, thread_counts)
            {
                lseek(0, (off_t)skip, SEEK_SET);
                struct input_spec spec = {.terminator = '\n', .gzip = true, .prompt = round % 2};
                struct seen s = read_input(&spec, thread_counts[k]);
                struct text want = {t.data + skip, len - skip};
                CHECK(chunks_match(&s, want, '\n', PIECE));
                CHECK(lseek(0, 0, SEEK_CUR) == (off_t)len);
                seen_free(&s);
            }
        dup2(saved, 0);
        close(saved);
        close(fd);
        free(t.data);
    }
}

/* What comes of one file: joined data, then the message if there is one. */
static char *outcome(struct text t)
{
    static char text[600];
    struct seen s = read_file(file_of("x", t), '\n', 4, 1);
    struct text all = joined(&s);
    const char *why = "";
    for (size_t i = 0; i < s.n; i++)
        if (s.piece[i].got == INPUT_FAILED) {
            CHECK(i == s.n - 1);
            why = s.piece[i].why;
        }
    size_t skip = strncmp(why, "'x'", 3) == 0 ? 3 : 0;
    snprintf(text, sizeof text, "%.*s|%s", (int)all.len, all.data, why + skip);
    free(all.data);
    seen_free(&s);
    return text;
}

TEST(gzip_that_is_not_whole_is_an_error)
{
    struct text gz = {0}, t;
    append_gzip(&gz, "one\ntwo\nthree\n", 14);

    CHECK_STR(outcome(gz), "one\ntwo\nthree\n|");
    for (size_t len = 3; len < gz.len; len++) {
        t = (struct text){gz.data, len};
        const char *got = outcome(t);
        const char *bar = strchr(got, '|');
        CHECK_STR(bar, "| is truncated gzip data");
        CHECK(strncmp(got, "one\ntwo\nthree\n", (size_t)(bar - got)) == 0);
        CHECK(bar == got || bar[-1] == '\n'); /* no part of a record */
    }
    /* Two bytes do not tell: they are a key. */
    t = (struct text){gz.data, 2};
    CHECK_STR(outcome(t), "\x1f\x8b|");

    gz.data[gz.len - 8] ^= 1;
    CHECK_STR(outcome(gz), "one\ntwo\nthree\n| is damaged gzip data: incorrect data check");
    gz.data[gz.len - 8] ^= 1;
    gz.data[gz.len - 4] ^= 1;
    CHECK_STR(outcome(gz), "one\ntwo\nthree\n| is damaged gzip data: incorrect length check");
    gz.data[gz.len - 4] ^= 1;
    gz.data[10] = (char)0xff; /* the last two bits of the block type: no such type */
    CHECK_STR(outcome(gz), "| is damaged gzip data: invalid block type");
    gz.data[3] = (char)0xe0; /* reserved flags: so it is not gzip */
    CHECK(strncmp(outcome(gz), "\x1f\x8b\x08\xe0", 4) == 0);
    free(gz.data);
}

TEST(only_zeroes_may_follow_gzip)
{
    struct text gz = {0};
    char zeroes[100000] = {0};
    append_gzip(&gz, "one\n", 4);
    size_t one = gz.len;
    append(&gz, zeroes, 1);
    CHECK_STR(outcome(gz), "one\n|");
    append(&gz, zeroes, sizeof zeroes);
    CHECK_STR(outcome(gz), "one\n|");
    append(&gz, "x", 1);
    CHECK_STR(outcome(gz), "one\n| has other data after its gzip data");
    gz.len = one;
    append(&gz, "junk", 4);
    CHECK_STR(outcome(gz), "one\n| has other data after its gzip data");
    gz.len = one;
    append(&gz, "\x1f", 1);
    CHECK_STR(outcome(gz), "one\n| is truncated gzip data");
    append(&gz, "\x8b\x07", 2);
    CHECK_STR(outcome(gz), "one\n| has other data after its gzip data");
    gz.len = one;
    append_gzip(&gz, "two", 3);
    CHECK_STR(outcome(gz), "one\ntwo|");
    gz.len -= 5;
    CHECK_STR(outcome(gz), "one\n| is truncated gzip data");
    free(gz.data);
}

TEST(no_gzip_means_bytes_as_they_are)
{
    struct text gz = {0};
    append_gzip(&gz, "one\n", 4);
    char *path = file_of("x", gz);
    struct input_spec spec = {.files = &path, .n_files = 1, .terminator = '\n'};
    struct seen s = read_input(&spec, 1);
    struct text all = joined(&s);
    CHECK(same(all, gz.data, gz.len));
    free(all.data);
    seen_free(&s);
    free(gz.data);
}

TEST(failures_stand_in_line)
{
    struct stat st;
    struct text a = {(char[]){"a1\na2"}, 5}, b = {(char[]){"b1\n"}, 3};
    char *files[] = {file_of("a", a), (char[]){"missing"}, (char[]){"."}, file_of("b", b),
                     file_of("filter", (struct text){0})};
    stat("filter", &st);
    for
        EACH(k, thread_counts)
        {
            struct input_spec spec = {
                .files = files, .n_files = 5, .terminator = '\n', .gzip = true, .filter = &st};
            struct seen s = read_input(&spec, thread_counts[k]);
            CHECK(s.n == 5);
            CHECK(same(s.piece[0].text, "a1\na2", 5) && s.piece[0].file == 0);
            CHECK_STR(s.piece[1].why,
                      "cannot open 'missing': No such file or directory (-k gives a key)");
            CHECK_STR(s.piece[2].why, "cannot read '.': Is a directory");
            CHECK(same(s.piece[3].text, "b1\n", 3) && s.piece[3].file == 3);
            CHECK_STR(s.piece[4].why, "'filter' is the filter itself");
            CHECK(s.piece[4].file == 4);
            seen_free(&s);
        }
}

/* /proc/self/mem opens and is no directory, and its first page cannot be read. */
TEST(a_failed_read_names_the_file)
{
    char *file = (char[]){"/proc/self/mem"};
    struct seen s = read_file(file, '\n', 0, 2);
    CHECK(s.n == 1 && s.piece[0].got == INPUT_FAILED);
    CHECK_STR(s.piece[0].why, check_errno("cannot read '/proc/self/mem'", EIO));
    seen_free(&s);
}

TEST(files_without_a_size_are_read)
{
    char *file = (char[]){"/proc/self/status"};
    struct seen s = read_file(file, '\n', 0, 1);
    CHECK(s.n >= 1 && s.piece[0].text.len > 5 && memcmp(s.piece[0].text.data, "Name:", 5) == 0);
    seen_free(&s);
}

TEST(standard_input_is_read_from_where_it_is)
{
    struct text t = {(char[]){"first\nsecond\nthird\n"}, 19};
    int fd = open(file_of("x", t), O_RDONLY), saved = dup(0);
    dup2(fd, 0);
    for
        EACH(c, chunk_lens)
        {
            lseek(0, 6, SEEK_SET);
            struct input_spec spec = {.terminator = '\n', .gzip = true, .chunk_len = chunk_lens[c]};
            struct seen s = read_input(&spec, 3);
            struct text want = {t.data + 6, 13};
            CHECK(chunks_match(&s, want, '\n', chunk_lens[c]));
            CHECK(lseek(0, 0, SEEK_CUR) == 19);
            seen_free(&s);
        }
    dup2(saved, 0);
    close(saved);
    close(fd);
}

TEST(standard_input_may_be_named_once)
{
    char *twice[] = {(char[]){"-"}, (char[]){"x"}, (char[]){"-"}};
    struct input_spec spec = {.files = twice, .n_files = 3, .terminator = '\n'};
    struct err err;
    CHECK(!input_open(&spec, &err));
    CHECK_STR(err.text, "'-' is given twice");
    spec.n_files = 2;
    struct input *in = input_open(&spec, &err);
    CHECK(in != NULL);
    CHECK_STR(input_name(in, 0), "(standard input)");
    CHECK_STR(input_name(in, 1), "x");
    input_close(in);
}

TEST(progress_ends_at_the_total)
{
    struct text t = random_records(30000, '\n'), gz = {0};
    append_gzip(&gz, t.data, t.len);
    char *files[] = {file_of("a", t), file_of("b", gz)};
    for
        EACH(c, chunk_lens)
        {
            struct input_spec spec = {.files = files,
                                      .n_files = 2,
                                      .terminator = '\n',
                                      .gzip = true,
                                      .chunk_len = chunk_lens[c]};
            struct err err;
            struct chunk chunk = {0};
            struct input *in = input_open(&spec, &err);
            uint64_t done, total;
            while (input_next(in, &chunk, &err) != INPUT_END)
                ;
            input_progress(in, &done, &total);
            CHECK(total == t.len + gz.len);
            CHECK(done == total);
            chunk_free(&chunk);
            input_close(in);
        }
    free(t.data);
    free(gz.data);
}

TEST(the_total_is_unknown_with_what_is_no_file)
{
    struct text t = random_records(10, '\n');
    char null[] = "/dev/null", *files[] = {file_of("a", t), null};
    struct input_spec spec = {.files = files, .n_files = 2, .terminator = '\n'};
    struct err err;
    struct input *in = input_open(&spec, &err);
    uint64_t done, total;
    input_progress(in, &done, &total);
    CHECK(total == 0);
    input_close(in);
    free(t.data);
}

/* What was read before stays as it was. */
TEST(a_file_that_shrinks_is_a_failure)
{
    struct text t = random_records(3 << 20, '\n');
    char *file = file_of("x", t);
    struct input_spec spec = {.files = &file, .n_files = 1, .terminator = '\n'};
    struct err err;
    struct chunk first = {0}, next = {0};
    struct input *in = input_open(&spec, &err);
    CHECK(input_next(in, &first, &err) == INPUT_CHUNK_READ && first.len >= 512 << 10);
    CHECK(truncate(file, 5000) == 0);
    CHECK(memcmp(first.data, t.data, first.len) == 0);
    CHECK(input_next(in, &next, &err) == INPUT_FAILED);
    CHECK(strstr(err.text, ": it became shorter") != NULL);
    CHECK(input_next(in, &next, &err) == INPUT_END);
    chunk_free(&first);
    chunk_free(&next);
    input_close(in);
    free(t.data);
}

/* A child waits in the middle of a record until a signal comes; a sibling thread may take it. */
static int wait_for_signal(int input_fd, int ready_fd)
{
    char path[FD_PATH], *file = fd_path(input_fd, path);
    struct input_spec spec = {.files = &file, .n_files = 1, .terminator = '\n', .prompt = true};
    struct err err;
    struct chunk chunk = {0};
    sig_catch();
    struct input *in = input_open(&spec, &err);
    int status = input_next(in, &chunk, &err) == INPUT_CHUNK_READ && chunk.len == 2 ? 0 : 1;
    write_all(ready_fd, "x", 1, false);
    if (status == 0 && input_next(in, &chunk, &err) != INPUT_END)
        status = 2;
    chunk_free(&chunk);
    input_close(in);
    return status;
}

TEST(a_signal_ends_a_waiting_read)
{
    int fds[2], ready[2], status;
    if (pipe(fds) != 0 || pipe(ready) != 0)
        abort();
    write_all(fds[1], "a\npart of b", 11, false);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(60); /* instead of hanging */
        _exit(wait_for_signal(fds[0], ready[1]));
    }
    char c;
    close(ready[1]);
    CHECK(read(ready[0], &c, 1) == 1);
    kill(child, SIGTERM);
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(fds[0]);
    close(fds[1]);
    close(ready[0]);
}

/* The bounds of what is taken for binary data, UTF-16, or records that end in NUL. */
TEST(what_is_no_list_of_keys)
{
#define X8       "xxxxxxxx"
#define X16      X8 X8
#define N7       "\0\0\0\0\0\0\0"
#define N15      N7 "\0" N7
#define IN(text) text, sizeof text - 1
    static const char binary[] = "'f' is binary data, not lines: -0 if its records end in NUL, "
                                 "--no-gzip to take it as it is",
                      ended[] = "records in 'f' end in NUL, not in newlines: -0 separates them",
                      joined[] = "'f' has compressed data behind text: for f in FILE...; do gzip "
                                 "-cdf <\"$f\" | awk 1; done | seen ...";
#define WIDE(name, from)                                                                           \
    "'f' is " name " text, and keys are taken byte for byte: iconv -f " from                       \
    " -t UTF-8 FILE | seen ..."
    static const struct {
        const char *text;
        size_t len;
        const char *why;
    } rows[] = {
        /* a quarter of 64 bytes or more is NUL */
        {IN(X16 X16 X8 "xxxxxxx\n" N15 "\0"), binary},
        {IN(X16 X16 X8 "xxxxxxx\n" N15 "xx"), ""},
        {IN(X16 X16 X8 "xxxxxx\n" N15 "\0"), ""},
        /* eight control characters, all different, are a twelfth */
        {IN(X16 X16 X16 X16 X16 X8 "\1\2\3\4\5\6\x0e\x1f"), binary},
        {IN(X16 X16 X16 X16 X16 X8 "x\1\2\3\4\5\6\x0e\x1f"), ""},
        {IN("\1\2\3\4\5\6\x7f\x10"), binary},
        {IN("\1\2\3\4\5\6\x0e"), ""},
        {IN("\1\2\3\4\5\6\x0e\1\1"), ""},
        {IN("\1\2\3\4\5\6\x0e\a\r\x1b "), ""},
        /* records that end in NUL: eight, and no other control character */
        {IN("a" N7 "\0"), ended},
        {IN("a" N7), ""},
        {IN("a" N7 "\0\1"), ""},
        {IN("a\n" N7 "\0"), ""},
        /* UTF-16: each newline, and 19 of 20 NULs are on one side, eight at least; 80 % */
        {IN("a\0b\0c\0d\0e\0f\0g\0\n\0"), WIDE("UTF-16", "UTF-16LE")},
        {IN("\0a\0b\0c\0d\0e\0f\0g\0\n"), WIDE("UTF-16", "UTF-16BE")},
        {IN("a\0b\0c\0d\0e\0f\0\n\0"), ""},
        {IN("a\0b\0c\0d\0e\0f\0g\0\n\0\n\n"), ""},
        {IN("a\0b\0c\0d\0e\0f\0g\0xxxx\n\0"), WIDE("UTF-16", "UTF-16LE")},
        {IN("a\0b\0c\0d\0e\0f\0g\0xxxxxx\n\0"), ""},
        {IN("a\0b\0c\0d\0e\0f\0g\0\n\0\0x"), ""},
        {IN("\xff\xfe"
            "a"),
         WIDE("UTF-16", "UTF-16")},
        {IN("\xfe\xff"
            "a"),
         WIDE("UTF-16", "UTF-16")},
        {IN("\xff\xfe\0\0"), WIDE("UTF-32", "UTF-32")},
        {IN("\0\0\xfe\xff"), WIDE("UTF-32", "UTF-32")},
        {IN("text\n\x1f\x8b\x08\0"), joined},
        {IN("text\n\x1f\x1f\x8b\x08\b"), joined},
        {IN("text\n\x1f\x8b\x08"), ""},
        {IN("text\n\x1f\x8b\x08\1"), ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {.text = ""};
        bool ok = content_check("f", rows[i].text, rows[i].len, '\n', false, &err);
        CHECK(ok == (rows[i].why[0] == '\0'));
        CHECK_STR(err.text, rows[i].why);
    }
    char tail[CONTENT_TAIL];
    memset(tail, 'x', sizeof tail);
    memset(tail, 0x80, sizeof tail / 4);
    memcpy(tail + sizeof tail - 4, "\1\2\3\4", 4);
    CHECK(content_is_packed(tail));
    tail[sizeof tail - 1] = 'x';
    CHECK(!content_is_packed(tail));
    tail[sizeof tail - 1] = '\4';
    tail[0] = 'x';
    CHECK(!content_is_packed(tail));
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    if (!scratchdir_enter())
        return 2;
    RUN(every_source_gives_the_same_chunks);
    RUN(prompt_chunks_hold_the_same_records);
    RUN(a_header_comes_in_a_chunk_of_its_own);
    RUN(a_mapped_file_has_a_header_too);
    RUN(each_file_has_a_header_and_one_is_the_first);
    RUN(a_header_that_cannot_be_read_is_reported_once);
    RUN(prompt_does_not_wait_for_more_than_a_record);
    RUN(prompt_gives_each_full_chunk);
    RUN(a_header_of_which_a_part_came_waits_for_its_end);
    RUN(one_record_may_be_longer_than_many_chunks);
    RUN(a_record_that_is_too_long_ends_its_chunk);
    RUN(large_files_give_the_same_chunks);
    RUN(a_file_that_shrinks_is_a_failure);
    RUN(gzip_that_is_not_whole_is_an_error);
    RUN(only_zeroes_may_follow_gzip);
    RUN(no_gzip_means_bytes_as_they_are);
    RUN(failures_stand_in_line);
    RUN(a_failed_read_names_the_file);
    RUN(files_without_a_size_are_read);
    RUN(standard_input_is_read_from_where_it_is);
    RUN(standard_input_may_be_named_once);
    RUN(progress_ends_at_the_total);
    RUN(the_total_is_unknown_with_what_is_no_file);
    RUN(a_signal_ends_a_waiting_read);
    RUN(what_is_no_list_of_keys);
    scratchdir_leave();
    return check_done();
}

/* SPDX-License-Identifier: MIT
 * least FILE FILTER: the least CPU time, in seconds, that jobs on the records of FILE can take with
 * a Bloom filter of the size of FILTER, by loops that do nothing else. Prints a stage a line, each
 * the middle of three:
 *
 *     records    find the records of the file, and hash them; without reading the file
 *     insert     set the bits of all keys in fresh memory, in one of two ways, whichever is faster:
 *                as they come, or sorted by the first 8 bits of their hashes, as create does
 *     add        set the bits of all keys as they come, and tell which keys were new
 *     answers    records, and test the bits of their keys in the filter, mapped anew; copy those
 *                whose bits are set, and write them to /dev/null
 *     print      write the bytes of FILE into a file beside FILTER
 *     filter     write the bytes of FILTER into a file beside it
 *     merge      the same, and read FILTER twice
 *     compact    collect the hashes of all keys in memory, sort them, solve their equations for an
 *                FPR of 0.001, and write a compact filter into a file beside FILTER
 *
 * Linked with the program's own loops, so that a stage cannot take less because it does less.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/output.h"
#include "file/filter.h"
#include "file/header.h"
#include "keys/hash.h"
#include "keys/keyset.h"
#include "keys/split.h"
#include "kind/bloom/bloom.h"
#include "kind/ribbon/ribbon.h"

enum { CHUNK = 256 << 10, BATCH = HASH_BATCH, PARTS = 256, HUGE_PAGE = 2 << 20 };

struct job {
    int fd;
    size_t len, filter_len; /* bytes of FILE, of FILTER */
    uint64_t *hash;         /* of all records */
    size_t n;
    struct filter filter;
    struct bloom bloom;
    char out[4096]; /* a file that may be overwritten */
};

static char buffer[CHUNK + 1];
static volatile uint64_t sink; /* so that nothing is left out */

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *fresh(size_t len)
{
    size_t all = len + HUGE_PAGE;
    char *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        die("mmap");
    p += -(uintptr_t)p % HUGE_PAGE;
    madvise(p, len, MADV_HUGEPAGE);
    return p; /* kept until the end: the next call shall not get it again */
}

/* Appends those of n records that are in the filter to `out`. */
static void select_present(const struct job *j, const char *const *record, const uint64_t *hash,
                           size_t n, struct output *out)
{
    uint64_t present[(BATCH + SPLIT_SLACK) / 64 + 1] = {0};
    kind_bloom.query(&j->filter.header.layers[0], j->filter.data[0], hashes_of(hash), n, present);
    if (!output_select(out, record, n, present, buffer + sizeof buffer))
        die("memory");
}

enum depth { READ, HASH, ANSWER };

/* Reads the file, and finds and hashes its records, and answers for them, as deep as told. */
static void read_records(struct job *j, enum depth depth)
{
    const struct hash_seed seed = {0};
    const char *record[BATCH + SPLIT_SLACK + 1];
    uint64_t hash[BATCH + SPLIT_SLACK];
    struct output out = {0};
    int null = open("/dev/null", O_WRONLY);
    ssize_t got;
    size_t held = 0; /* bytes of a record that began in the last chunk */
    j->n = 0;
    for (off_t at = 0; (got = pread(j->fd, buffer + held, CHUNK - held, at)) > 0; at += got) {
        const char *from = buffer, *end = buffer + held + (size_t)got;
        for (size_t n = 1; depth > READ && n > 0; j->n += n) {
            uint64_t *to = depth == HASH ? j->hash + j->n : hash;
            size_t scanned;
            record[0] = from;
            n = split(from, (size_t)(end - from), '\n', record + 1, BATCH, &scanned);
            hash_usual()->keys(record, NULL, n, &seed, to, 0);
            if (depth == ANSWER)
                select_present(j, record, hash, n, &out);
            from = record[n];
        }
        if (write(null, out.data, out.len) < 0)
            die("/dev/null");
        out.len = 0;
        held = depth > READ ? (size_t)(end - from) : 0;
        memmove(buffer, from, held);
    }
    output_free(&out);
    close(null);
}

static void records(struct job *j)
{
    read_records(j, HASH);
}

static void only_read(struct job *j)
{
    read_records(j, READ);
}

static void map_filter(struct job *j, const char *path)
{
    struct err err;
    if (filter_open(&j->filter, path, FILTER_READ, &err))
        return;
    fprintf(stderr, "%s\n", err.text);
    exit(2);
}

static void answers(struct job *j)
{
    const char *path = j->filter.path;
    filter_close(&j->filter);
    map_filter(j, path);
    read_records(j, ANSWER);
}

static void insert_as_they_come(struct job *j)
{
    uint8_t *data = fresh(j->bloom.pages * BLOOM_PAGE);
    for (size_t i = 0; i < j->n; i += BATCH)
        bloom_insert(&j->bloom, data, 0, j->hash + i, j->n - i < BATCH ? j->n - i : BATCH);
}

static void insert_sorted(struct job *j)
{
    uint8_t *data = fresh(j->bloom.pages * BLOOM_PAGE);
    size_t room = j->n / PARTS + j->n / PARTS / 4 + 1024, n[PARTS] = {0};
    uint64_t *part = fresh(PARTS * room * sizeof *part);
    for (size_t i = 0; i < j->n; i++) {
        size_t to = j->hash[i] >> 56;
        part[to * room + n[to]] = j->hash[i];
        n[to] += n[to] + 1 < room;
    }
    for (size_t p = 0; p < PARTS; p++)
        bloom_insert(&j->bloom, data, 0, part + p * room, n[p]);
}

static void add(struct job *j)
{
    uint8_t *data = fresh(j->bloom.pages * BLOOM_PAGE);
    struct layer layer;
    bloom_to(&j->bloom, &layer);
    for (size_t i = 0; i < j->n; i += BATCH) {
        uint64_t present[BATCH / 64] = {0};
        size_t n = j->n - i < BATCH ? j->n - i : BATCH;
        kind_bloom.add(&layer, data, hashes_of(j->hash + i), n, present);
        sink += present[0];
    }
}

static void write_bytes(const struct job *j, size_t len)
{
    int fd = open(j->out, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    for (size_t done = 0; done < len; done += CHUNK)
        if (write(fd, buffer, len - done < CHUNK ? len - done : CHUNK) < 0)
            die(j->out);
    close(fd);
}

static void print(struct job *j)
{
    write_bytes(j, j->len);
}

static void write_filter(struct job *j)
{
    write_bytes(j, j->filter_len);
}

static void merge(struct job *j)
{
    for (int twice = 0; twice < 2; twice++)
        for (size_t at = 0; at < j->filter_len; at += CHUNK)
            if (pread(j->filter.fd, buffer, CHUNK, (off_t)at) < 0)
                die("read");
    write_filter(j);
}

static void compact(struct job *j)
{
    struct err err;
    struct ribbon ribbon;
    struct census census;
    struct keyset_spec spec = {.workers = 1, .memory = 4ULL << 30, .part = RIBBON_LARGEST};
    struct header h = {.incompat = INCOMPAT_IMMUTABLE,
                       .hash = hash_usual(),
                       .n_layers = 1,
                       .layers[0] = {.fpr_design = 0.001, .data_len = RIBBON_ENTRY}};
    struct keyset *keys = keyset_new(&spec, &err);
    bool ok = keys != NULL;
    for (size_t i = 0; ok && i < j->n; i += BATCH)
        ok = keyset_put(keys, 0, j->hash + i, j->n - i < BATCH ? j->n - i : BATCH, &err);
    ribbon_design(j->n, 0.001, &ribbon);
    ribbon_to(&ribbon, &h.layers[0]);
    format_place(&h);
    int fd = open(j->out, O_RDWR | O_CREAT | O_TRUNC, 0666);
    struct target target = header_target(&h, 0, fd, j->out, 1);
    target.n = j->n;
    target.presumed = true;
    if (!ok || !ribbon_build(&target, keys, &census, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(2);
    }
    close(fd);
    keyset_free(keys);
}

static double least_of(double a, double b)
{
    return a < b ? a : b;
}

static double time_of(void (*stage)(struct job *), struct job *j)
{
    double t[3];
    for (int round = 0; round < 3; round++) {
        double start = now();
        stage(j);
        t[round] = now() - start;
    }
    double low = least_of(t[0], t[1]), high = t[0] + t[1] - low;
    return t[2] < low ? low : least_of(t[2], high);
}

static size_t size_of(int fd)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        die("usage: least FILE FILTER");
    return (size_t)st.st_size;
}

int main(int argc, char **argv)
{
    struct job j = {.fd = argc == 3 ? open(argv[1], O_RDONLY) : -1};
    j.len = size_of(j.fd);
    map_filter(&j, argv[2]);
    j.filter_len = size_of(j.filter.fd);
    j.bloom = bloom_of(&j.filter.header.layers[0]);
    j.hash = fresh((j.len + 1) * sizeof *j.hash); /* pages that are not used cost nothing */
    snprintf(j.out, sizeof j.out, "%s.least", argv[2]);
    only_read(&j); /* into memory */
    double read = time_of(only_read, &j);
    printf("answers %.6f\n", time_of(answers, &j) - read);
    printf("records %.6f\n", time_of(records, &j) - read);
    printf("insert %.6f\n", least_of(time_of(insert_as_they_come, &j), time_of(insert_sorted, &j)));
    printf("add %.6f\n", time_of(add, &j));
    printf("print %.6f\n", time_of(print, &j));
    printf("filter %.6f\n", time_of(write_filter, &j));
    printf("merge %.6f\n", time_of(merge, &j));
    printf("compact %.6f\n", time_of(compact, &j));
    unlink(j.out);
    filter_close(&j.filter);
    return 0;
}

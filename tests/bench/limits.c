/* SPDX-License-Identifier: MIT
 * limits FILE [FILTER BITS]: what memory allows on this machine, in nanoseconds of CPU time, by
 * loops that do nothing else: to look at each byte of a file that is in the page cache, to fetch
 * lines of memory from random places, to touch fresh memory, and to read what queries of FILTER
 * read, which is compact and has BITS bits a key.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum { LINE = 64, PIECE = 1 << 20, AHEAD = 8 };

static volatile uint64_t sink; /* so that nothing is left out */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static uint64_t look(const char *p, size_t len)
{
    uint64_t sum = 0;
    for (size_t i = 0; i + 8 <= len; i += 8)
        sum += *(const uint64_t *)(const void *)(p + i);
    return sum;
}

static double read_file(int fd, size_t len)
{
    char *buffer = aligned_alloc(4096, PIECE / 4);
    double start = now();
    for (size_t at = 0; at < len; at += PIECE / 4) {
        ssize_t got = pread(fd, buffer, PIECE / 4, (off_t)at);
        if (got < 0)
            die("read");
        sink += look(buffer, (size_t)got);
    }
    double ns = now() - start;
    free(buffer);
    return ns / (double)len;
}

static double map_file(int fd, size_t len)
{
    char *map = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        die("mmap");
    double start = now();
    for (size_t at = 0; at < len; at += PIECE) {
        size_t n = len - at < PIECE ? len - at : PIECE;
        for (size_t page = 0; page < n; page += 64 << 10)
            madvise(map + at + page, 1, MADV_POPULATE_READ);
        sink += look(map + at, n);
        madvise(map + at, n, MADV_DONTNEED);
    }
    double ns = now() - start;
    munmap(map, len);
    return ns / (double)len;
}

static uint64_t scatter(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static char *fresh(size_t len, int advice)
{
    char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        die("mmap");
    madvise(p, len, advice);
    return p;
}

static double touch(size_t len)
{
    char *p = fresh(len, MADV_HUGEPAGE);
    double start = now();
    for (size_t i = 0; i < len; i += 4096)
        p[i] = 1;
    double ns = now() - start;
    munmap(p, len);
    return ns / (double)len;
}

/* So many lines in a row, each time at a random place, fetched AHEAD places before. */
static double random_lines(const char *p, size_t len, unsigned lines)
{
    enum { PLACES = 4000000 };
    uint64_t all = len / LINE - lines, sum = 0;
    double start = now();
    for (uint64_t i = 0; i < PLACES; i++) {
        const char *next = p + (size_t)(scatter(i + AHEAD) % all) * LINE;
        const char *here = p + (size_t)(scatter(i) % all) * LINE;
        for (unsigned l = 0; l < lines; l++)
            __builtin_prefetch(next + l * LINE);
        for (unsigned l = 0; l < lines; l++)
            sum += (unsigned char)here[l * LINE];
    }
    sink += sum;
    return (now() - start) / PLACES;
}

/* The columns of two segments, words in a row at a random place, and one byte of the thresholds,
 * which have 2 bits for 128 slots of `bits` bits (src/kind/ribbon/ribbon.h). */
struct reads {
    const char *columns, *threshold;
};

static struct reads reads_of(const char *p, size_t len, size_t bits, uint64_t key)
{
    uint64_t places = (len - 16 * bits) / 8, place = (scatter(key) >> 32) * places >> 32;
    return (struct reads){p + 8 * place, p + place / (8 * bits)};
}

/* In batches of 256 keys, fetched 24 keys before, as src/kind/ribbon/query.c does. */
static double compact_reads(const char *p, size_t len, size_t bits)
{
    enum { BATCHES = 16000, BATCH = 256, BEFORE = 24 };
    uint64_t sum = 0;
    double start = now();
    for (uint64_t batch = 0; batch < BATCHES; batch++)
        for (uint64_t i = 0; i < BATCH + BEFORE; i++) {
            if (i < BATCH) {
                struct reads next = reads_of(p, len, bits, batch * BATCH + i);
                __builtin_prefetch(next.threshold);
                for (size_t at = 0; at < 16 * bits; at += LINE)
                    __builtin_prefetch(next.columns + at, 0, 2);
                __builtin_prefetch(next.columns + 16 * bits - 1, 0, 2);
            }
            if (i >= BEFORE) {
                struct reads here = reads_of(p, len, bits, batch * BATCH + i - BEFORE);
                sum += (unsigned char)*here.threshold;
                for (size_t at = 0; at < 16 * bits; at += LINE)
                    sum += (unsigned char)here.columns[at];
                sum += (unsigned char)here.columns[16 * bits - 1];
            }
        }
    sink += sum;
    return (now() - start) / (BATCHES * BATCH);
}

static double least_of(const char *p, size_t len, size_t bits)
{
    double least = compact_reads(p, len, bits);
    for (int run = 0; run < 4; run++) {
        double ns = compact_reads(p, len, bits);
        least = ns < least ? ns : least;
    }
    return least;
}

static void print_compact(const char *filter, size_t bits)
{
    struct stat st;
    int fd = open(filter, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) != 0)
        die(filter);
    size_t len = (size_t)st.st_size;
    if (bits < 1 || len < 64 * bits)
        die("usage: limits FILE [FILTER BITS]");
    char *map = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
    char *small = fresh(len, MADV_NOHUGEPAGE), *huge = fresh(len, MADV_HUGEPAGE);
    if (map == MAP_FAILED)
        die("mmap");
    memcpy(small, map, len);
    memcpy(huge, map, len);
    printf("reads of a compact query in %.1f MB: %zu bytes in a row, %.1f lines, and a threshold: "
           "mapped %.1f, in memory %.1f, in huge pages %.1f\n",
           (double)len / 1e6, 16 * bits, 1 + (double)(16 * bits - 8) / LINE,
           least_of(map, len, bits), least_of(small, len, bits), least_of(huge, len, bits));
    munmap(map, len);
    munmap(small, len);
    munmap(huge, len);
    close(fd);
}

int main(int argc, char **argv)
{
    int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        die("usage: limits FILE [FILTER BITS]");
    size_t len = (size_t)st.st_size;
    read_file(fd, len);
    printf("64 bytes of a file: read %.1f, mapped %.1f\n", 64 * read_file(fd, len),
           64 * map_file(fd, len));
    printf("8 bytes of fresh memory: %.1f\n", 8 * touch((size_t)100 << 20));
    for (size_t mib = 16; mib <= 1024; mib *= 8) {
        char *p = fresh(mib << 20, MADV_HUGEPAGE);
        for (size_t i = 0; i < mib << 20; i += 4096)
            p[i] = 1;
        printf("random lines of %zu MiB:", mib);
        for (unsigned lines = 1; lines <= 4; lines *= 2)
            printf(" %u in a row %.1f%s", lines, random_lines(p, mib << 20, lines),
                   lines < 4 ? "," : "\n");
        munmap(p, mib << 20);
    }
    if (argc > 3)
        print_compact(argv[2], (size_t)atoi(argv[3]));
    return 0;
}

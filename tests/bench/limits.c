/*
 * limits FILE: what memory allows on this machine, in nanoseconds of CPU time, by loops that do
 * nothing else: to look at each byte of a file that is in the page cache, to fetch lines of memory
 * from random places, and to touch fresh memory.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

static char *fresh(size_t len)
{
    char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        die("mmap");
    madvise(p, len, MADV_HUGEPAGE);
    return p;
}

static double touch(size_t len)
{
    char *p = fresh(len);
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

int main(int argc, char **argv)
{
    int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        die("usage: limits FILE");
    size_t len = (size_t)st.st_size;
    read_file(fd, len);
    printf("64 bytes of a file: read %.1f, mapped %.1f\n", 64 * read_file(fd, len),
           64 * map_file(fd, len));
    printf("8 bytes of fresh memory: %.1f\n", 8 * touch((size_t)100 << 20));
    for (size_t mib = 16; mib <= 1024; mib *= 8) {
        char *p = fresh(mib << 20);
        for (size_t i = 0; i < mib << 20; i += 4096)
            p[i] = 1;
        printf("random lines of %zu MiB:", mib);
        for (unsigned lines = 1; lines <= 4; lines *= 2)
            printf(" %u in a row %.1f%s", lines, random_lines(p, mib << 20, lines),
                   lines < 4 ? "," : "\n");
        munmap(p, mib << 20);
    }
    return 0;
}

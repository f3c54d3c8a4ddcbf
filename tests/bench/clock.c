/* SPDX-License-Identifier: MIT
 * clock FILE COMMAND [ARG]...: runs the command and writes to FILE its wall time in seconds, the
 * peak memory in bytes of the largest of its processes, and the CPU time of them all in seconds.
 * Exits with the command's status.
 *
 * Before that, another process takes memory and gives it back. The host of a virtual machine may
 * have taken unused memory back from it: then the first process that uses it pays for getting it
 * again, which doubles the CPU time of some jobs, in some runs.
 *
 * Small on purpose: a process starts out with the peak of the one that started it, so a large
 * parent would hide what a small command takes.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

enum { TAKEN = 1 << 30, PAGE = 4096 };

static void take_memory(void)
{
    char *p = mmap(NULL, TAKEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return;
    madvise(p, TAKEN, MADV_HUGEPAGE);
    for (size_t at = 0; at < TAKEN; at += PAGE)
        p[at] = 1;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    pid_t other = fork();
    if (other == 0) {
        take_memory();
        _exit(0);
    }
    waitpid(other, NULL, 0);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) < 0)
        return 2;
    clock_gettime(CLOCK_MONOTONIC, &end);
    FILE *f = fopen(argv[1], "w");
    if (!f)
        return 2;
    fprintf(f, "%.9f %ld %.6f\n",
            (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9,
            usage.ru_maxrss * 1024, seconds(usage.ru_utime) + seconds(usage.ru_stime));
    fclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

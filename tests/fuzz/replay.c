/* SPDX-License-Identifier: MIT
 * A main() for a fuzz target where there is no libFuzzer: runs it over the files given, and those
 * in directories given; over the target's corpus if there are none. Prints TAP.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef CORPUS
#define CORPUS "."
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long runs;

static void run_file(const char *path)
{
    FILE *in = fopen(path, "rb");
    struct stat st;
    if (!in || fstat(fileno(in), &st) != 0) {
        perror(path);
        exit(2);
    }
    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size ? size : 1); /* of just this size, for sanitizers */
    if (!data || fread(data, 1, size, in) != size) {
        perror(path);
        exit(2);
    }
    fclose(in);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    runs++;
}

static void run_directory(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir) {
        perror(path);
        exit(2);
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char file[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        run_file(file);
    }
    closedir(dir);
}

static void run(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        run_directory(path);
    else
        run_file(path);
}

int main(int argc, char **argv)
{
    /* One that hangs is seen soon. Under a checker, tests/run has a longer limit. */
    if (getenv("SANITIZER") == NULL)
        alarm(60);
    for (int i = 1; i < argc; i++)
        run(argv[i]);
    if (argc == 1)
        run(CORPUS);
    /* A corpus that is not there is no success; an input that fails never gets here. */
    printf("%s 1 - %s: %lu inputs replayed\n1..1\n", runs ? "ok" : "not ok", argv[0], runs);
    return runs == 0;
}

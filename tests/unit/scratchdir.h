/* SPDX-License-Identifier: MIT */
/* An empty working directory for tests that make files, removed at the end. */
#ifndef SCRATCHDIR_H
#define SCRATCHDIR_H

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

static char scratchdir[256];

static void scratchdir_clear(void)
{
    DIR *dir = opendir(scratchdir);
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
        if (e->d_name[0] != '.' || e->d_name[1] != '\0')
            unlinkat(dirfd(dir), e->d_name, 0);
    if (dir != NULL)
        closedir(dir);
}

/* Goes there; false if it cannot be made. */
static bool scratchdir_enter(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(scratchdir, sizeof scratchdir, "%s/seen-test.XXXXXX", tmp != NULL ? tmp : "/tmp");
    return mkdtemp(scratchdir) != NULL && chdir(scratchdir) == 0;
}

static void scratchdir_leave(void)
{
    scratchdir_clear();
    if (chdir("/") == 0)
        rmdir(scratchdir);
}

/* Entries in it, "." and ".." aside. */
static inline int scratchdir_files(void)
{
    int n = -2;
    DIR *dir = opendir(scratchdir);
    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

/* Tests begin in an empty directory. */
#define RUN_CLEAN(name)                                                                            \
    do {                                                                                           \
        RUN(name);                                                                                 \
        scratchdir_clear();                                                                        \
    } while (0)

#endif

/* SPDX-License-Identifier: MIT */
#include "base/ram.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "port/port.h"

static uint64_t smaller_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The limit of a group. UINT64_MAX: there is none ("max"), or no such file. */
static uint64_t read_limit(const char *folder)
{
    char path[PATH_MAX + 32], text[24] = "", *end; /* 20 digits and a newline */
    snprintf(path, sizeof path, "%s/memory.max", folder);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return UINT64_MAX;
    bool found = fgets(text, sizeof text, f) != NULL && text[0] >= '0' && text[0] <= '9';
    fclose(f);
    return found ? strtoull(text, &end, 10) : UINT64_MAX;
}

/* The least limit of `group`, a path below `root`, and of the groups above it. */
static uint64_t tree_limit(const char *root, const char *group)
{
    char folder[PATH_MAX];
    size_t top = strlen(root);
    uint64_t limit = UINT64_MAX;
    int len = snprintf(folder, sizeof folder, "%s%s", root, group);
    if ((size_t)len >= sizeof folder)
        return limit;
    for (char *end = folder + len; end != NULL; end = strrchr(folder + top, '/')) {
        *end = '\0';
        limit = smaller_of(limit, read_limit(folder));
    }
    return limit;
}

uint64_t ram_group_limit(const char *membership, const char *root)
{
    char line[PATH_MAX + 256];
    uint64_t limit = UINT64_MAX;
    FILE *f = fopen(membership, "r");
    if (f == NULL)
        return limit;
    while (fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::", 3) == 0) /* 0::PATH; other lines are of version 1 */
            limit = tree_limit(root, line + 3);
    }
    fclose(f);
    return limit;
}

#ifndef RLIMIT_AS
#define RLIMIT_AS RLIMIT_DATA /* OpenBSD */
#endif

uint64_t ram_limit(void)
{
    struct rlimit space;
    uint64_t limit = ram_group_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    limit = smaller_of(limit, port_ram());
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        limit = smaller_of(limit, (uint64_t)space.rlim_cur);
    return limit;
}

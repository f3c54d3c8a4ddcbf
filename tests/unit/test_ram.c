/* SPDX-License-Identifier: MIT */
#include "base/ram.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "check.h"

static char top[] = "/tmp/test_ram.XXXXXX";

/* Writes a file below `top`, and makes the folders on the way. */
static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", top, name);
    for (char *p = path + strlen(top) + 1; (p = strchr(p, '/')) != NULL; *p++ = '/') {
        *p = '\0';
        mkdir(path, 0777);
    }
    FILE *f = fopen(path, "w");
    if (f == NULL)
        abort();
    fputs(text, f);
    fclose(f);
}

static uint64_t limit_of(const char *membership)
{
    char path[256];
    put("membership", membership);
    snprintf(path, sizeof path, "%s/membership", top);
    return ram_group_limit(path, top);
}

static void groups_limit(void)
{
    put("a/b/memory.max", "max\n");
    put("a/memory.max", "5000\n");
    put("memory.max", "9000\n");
    put("none/memory.max", "0\n");
    put("memory/x/memory.limit_in_bytes", "3000\n"); /* of version 1 */
    CHECK(limit_of("0::/a/b\n") == 5000);
    CHECK(limit_of("0::/a/b/none\n") == 5000);
    CHECK(limit_of("0::/\n") == 9000);
    CHECK(limit_of("0::/c\n") == 9000);
    CHECK(limit_of("0::/none\n") == 0);
    CHECK(limit_of("9:cpu,memory:/x\n0::/a\n") == 5000);
    CHECK(limit_of("9:cpu,memory:/x\n") == UINT64_MAX);
    CHECK(limit_of("nonsense\n") == UINT64_MAX);
    static char deep[PATH_MAX + 100] = "0::/"; /* longer than any path */
    memset(deep + 4, 'x', PATH_MAX);
    CHECK(limit_of(deep) == UINT64_MAX);
    deep[3 + PATH_MAX - strlen(top)] = '\0'; /* no room for the NUL */
    CHECK(limit_of(deep) == UINT64_MAX);
    deep[3 + PATH_MAX - strlen(top) - 1] = '\0';
    CHECK(limit_of(deep) == 9000);
    CHECK(ram_group_limit("/nowhere", top) == UINT64_MAX);
}

static void address_space_limits(void)
{
    struct rlimit old, small;
    CHECK(getrlimit(RLIMIT_AS, &old) == 0);
    small = old;
    small.rlim_cur = 50 << 20;
    uint64_t before = ram_limit();
    CHECK(before > small.rlim_cur);
    CHECK(setrlimit(RLIMIT_AS, &small) == 0);
    CHECK(ram_limit() == small.rlim_cur);
    CHECK(setrlimit(RLIMIT_AS, &old) == 0);
}

int main(void)
{
    if (mkdtemp(top) == NULL)
        return 1;
    RUN(groups_limit);
    RUN(address_space_limits);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", top);
    return system(command) == 0 ? check_done() : 1;
}

/* SPDX-License-Identifier: MIT
 * How much memory this process may use.
 *
 *     uint64_t limit = ram_limit();
 *     uint64_t memory = limit / 2 < wanted ? limit / 2 : wanted;
 */
#ifndef BASE_RAM_H
#define BASE_RAM_H

#include <stdint.h>

/* Bytes: the least of the machine's memory, the limits of the process's control groups (version 2,
 * see cgroups(7)) and RLIMIT_AS. UINT64_MAX: no limit is known. */
uint64_t ram_limit(void);

/* The part of control groups, for tests: `membership` is /proc/self/cgroup, `root` /sys/fs/cgroup.
 * A group's limit is also that of the groups above it. */
uint64_t ram_group_limit(const char *membership, const char *root);

#endif

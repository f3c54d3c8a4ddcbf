/* SPDX-License-Identifier: MIT */
#include "base/private.h"

#include <string.h>
#include <sys/resource.h>

#include "port/port.h"

void private_process(void)
{
    const struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    port_hide_process();
}

/* More than all stack frames of a query together. */
enum { STACK = 64 << 10 };

__attribute__((noinline)) void private_clean_stack(void)
{
    char below[STACK];
    port_wipe(below, sizeof below);
}

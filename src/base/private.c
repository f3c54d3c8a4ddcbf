#include "base/private.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

void private_process(void)
{
    const struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* More than all stack frames of a query together. */
enum { STACK = 64 << 10 };

__attribute__((noinline)) void private_clean_stack(void)
{
    char below[STACK];
    explicit_bzero(below, sizeof below);
}

#include "base/private.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

void private_process(void)
{
    const struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

void *private_alloc(size_t len)
{
    void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    private_keep(p, len);
    return p;
}

void private_keep(void *p, size_t len)
{
    (void)mlock(p, len);
    (void)madvise(p, len, MADV_DONTDUMP);
}

void private_free(void *p, size_t len)
{
    if (p == NULL)
        return;
    explicit_bzero(p, len);
    munmap(p, len);
}

/* More than all stack frames of a query together. */
enum { STACK = 64 << 10 };

__attribute__((noinline)) void private_clean_stack(void)
{
    char below[STACK];
    explicit_bzero(below, sizeof below);
}

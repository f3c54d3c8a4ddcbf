#include "store/memory.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/num.h"
#include "store/filter_build.h"

bool memory_open(struct filter *f, char path[MEMORY_PATH], struct header *h, struct err *err)
{
    static const char name[] = "a filter in memory";
    struct sysinfo info;
    if (sysinfo(&info) == 0 && h->file_len / info.mem_unit > info.totalram) {
        char need[NUM_TEXT];
        return fail(err, "cannot make %s: %s are needed", name,
                    num_show_bytes(need, h->file_len));
    }
    int fd = memfd_create("seen", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)h->file_len) != 0) {
        if (fd >= 0)
            close(fd);
        return fail_errno(err, "cannot make %s", name);
    }
    /* The descriptor stays open while the process lives, or the path would mean nothing. */
    snprintf(path, MEMORY_PATH, "/proc/self/fd/%d", fd);
    return filter_build_empty(fd, h, name, err) && filter_open(f, path, FILTER_WRITE, err);
}

#include "base/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sig.h"

bool mapped_open(struct mapped *m, int fd, uint64_t len)
{
    m->data = NULL;
    m->lost = false;
    if (len > SIZE_MAX) {
        errno = EFBIG;
        return false;
    }
    m->len = (size_t)len;
    struct stat st;
    m->fd = fstat(fd, &st) == 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (m->fd < 0)
        return false;
    m->modified = st.st_mtim;
    void *data = mmap(NULL, m->len, PROT_READ, MAP_SHARED, m->fd, 0);
    if (data != MAP_FAILED && sig_bear(data, len, &m->lost)) {
        m->data = data;
        return true;
    }
    int why = errno;
    if (data != MAP_FAILED)
        munmap(data, m->len);
    close(m->fd);
    errno = why;
    return false;
}

bool mapped_whole(const struct mapped *m, size_t len)
{
    /* The page with the end of a truncated file reads as zeroes past the end, without a fault. */
    struct stat st;
    return !m->lost && fstat(m->fd, &st) == 0 && (uint64_t)st.st_size >= len &&
           st.st_mtim.tv_sec == m->modified.tv_sec && st.st_mtim.tv_nsec == m->modified.tv_nsec;
}

void mapped_close(struct mapped *m)
{
    if (m->data == NULL)
        return;
    sig_unguard(m->data);
    munmap(m->data, m->len);
    close(m->fd);
    m->data = NULL;
}

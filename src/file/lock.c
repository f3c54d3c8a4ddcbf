#include "file/lock.h"

#include <errno.h>

#include "base/sig.h"

static bool call(int fd, int cmd, short type, off_t byte, struct flock *l)
{
    *l = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, cmd, l) == 0;
}

bool lock_wait(int fd, short type, off_t byte, bool give_up)
{
    struct flock l;
    while (!call(fd, F_OFD_SETLKW, type, byte, &l))
        if (errno != EINTR || (give_up && sig_caught()))
            return false;
    return true;
}

bool lock_try(int fd, short type, off_t byte)
{
    struct flock l;
    return call(fd, F_OFD_SETLK, type, byte, &l);
}

bool lock_others(int fd, bool *others)
{
    struct flock l;
    if (!call(fd, F_OFD_GETLK, F_WRLCK, LOCK_SESSION, &l))
        return false;
    *others = l.l_type != F_UNLCK;
    return true;
}

bool lock_alive(int fd)
{
    bool others;
    return lock_others(fd, &others) && others;
}

bool lock_held(int fd)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_TURN, .l_len = 2};
    return fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

bool lock_turn(int fd)
{
    if (lock_wait(fd, F_WRLCK, LOCK_TURN, true))
        return true;
    /* fd is read-only: a shared lock keeps writers out as well. */
    return errno == EBADF && lock_wait(fd, F_RDLCK, LOCK_TURN, true);
}

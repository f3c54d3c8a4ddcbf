/* SPDX-License-Identifier: MIT */
#include "redis/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/sig.h"

uint64_t dial_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* A signal may come to another thread, so poll ends once a second to look. */
enum { LOOK_MS = 1000 };

bool dial_wait(int fd, short events, uint64_t until)
{
    for (uint64_t now; (now = dial_now()) < until && !sig_caught();) {
        struct pollfd p = {.fd = fd, .events = events};
        uint64_t left = until - now;
        if (poll(&p, 1, left < LOOK_MS ? (int)left : LOOK_MS) > 0)
            return true;
    }
    return false;
}

/* Connects by that time. On failure closes the socket, and errno has the reason. */
static int connect_by(int fd, const struct sockaddr *address, socklen_t len, uint64_t until)
{
    int why = 0;
    socklen_t size = sizeof why;
    if (fd < 0)
        return -1;
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0 ||
        connect(fd, address, len) != 0)
        why = errno;
    /* EAGAIN: the queue of a Unix socket is full. */
    if (why == EINPROGRESS || why == EINTR) {
        if (!dial_wait(fd, POLLOUT, until))
            why = sig_caught() ? EINTR : ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &size) != 0)
            why = errno;
    }
    if (why == 0)
        return fd;
    close(fd);
    errno = why;
    return -1;
}

int dial_socket(const char *path, uint64_t until, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = connect_by(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address,
                        sizeof address, until);
    if (fd < 0)
        fail(err, "%s", strerror(errno));
    return fd;
}

int dial_host(const char *host, unsigned port, uint64_t until, struct err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    char service[12];
    int fd = -1, on = 1;
    unsigned left = 0;
    snprintf(service, sizeof service, "%u", port);
    int unknown = getaddrinfo(host, service, &hints, &all);
    if (unknown != 0) {
        fail(err, "%s", unknown == EAI_SYSTEM ? strerror(errno) : gai_strerror(unknown));
        return -1;
    }
    for (const struct addrinfo *a = all; a != NULL; a = a->ai_next)
        left++;
    for (const struct addrinfo *a = all; a != NULL && fd < 0; a = a->ai_next, left--) {
        uint64_t now = dial_now(), share = now < until ? (until - now) / left : 0;
        fd = connect_by(socket(a->ai_family, SOCK_STREAM, 0), a->ai_addr, a->ai_addrlen,
                        now + share);
    }
    if (fd < 0) {
        fail(err, "%s", strerror(errno));
    } else {
        /* Commands go out at once; a server that vanished is noticed. */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    }
    freeaddrinfo(all);
    return fd;
}

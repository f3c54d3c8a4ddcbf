/* SPDX-License-Identifier: MIT
 * setbits COMMAND KEY COUNT K M [SOCKET BATCH]: what a simple client of Redis sends for COUNT keys
 * of a filter of M bits: K commands SETBIT or GETBIT each, at positions as good as random.
 *
 * With SOCKET, they are sent to the server there: those of BATCH keys at once, then the replies are
 * read. Without, they are printed, for `redis-cli --pipe`.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* splitmix64's output function. */
static uint64_t scatter(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(2);
}

static int connect_to(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof to.sun_path) {
        fprintf(stderr, "setbits: the path of the socket is too long\n");
        exit(2);
    }
    memcpy(to.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        die(path);
    return fd;
}

/* Replies are ":0\r\n" or ":1\r\n"; an error begins with '-'. */
static void read_replies(int fd, size_t count)
{
    static char buf[1 << 16];
    while (count > 0) {
        ssize_t got = read(fd, buf, sizeof buf);
        if (got <= 0 || memchr(buf, '-', (size_t)got) != NULL) {
            fprintf(stderr, "setbits: the server refuses, or has closed\n");
            exit(2);
        }
        for (ssize_t i = 0; i < got; i++)
            count -= buf[i] == '\n';
    }
}

int main(int argc, char **argv)
{
    if (argc != 6 && argc != 8) {
        fprintf(stderr, "usage: setbits SETBIT|GETBIT KEY COUNT K M [SOCKET BATCH]\n");
        return 2;
    }
    const char *command = argv[1], *key = argv[2];
    int set = strcmp(command, "SETBIT") == 0;
    size_t count = strtoull(argv[3], NULL, 10), k = strtoull(argv[4], NULL, 10);
    uint64_t m = strtoull(argv[5], NULL, 10);
    int fd = argc == 8 ? connect_to(argv[6]) : STDOUT_FILENO;
    size_t batch = argc == 8 ? strtoull(argv[7], NULL, 10) : 1000;
    /* A command: the key, a position of at most 20 digits, and less than 64 bytes between them. */
    char *buf = malloc(batch * k * (strlen(key) + 20 + 64));
    if (buf == NULL || batch == 0)
        return 2;
    for (size_t i = 0; i < count;) {
        size_t end = count - i < batch ? count : i + batch, commands = (end - i) * k;
        char *at = buf;
        for (; i < end; i++)
            for (size_t j = 0; j < k; j++) {
                unsigned long long position = scatter(i * k + j) % m;
                at += sprintf(at, "*%d\r\n$6\r\n%s\r\n$%zu\r\n%s\r\n$%d\r\n%llu\r\n%s", set ? 4 : 3,
                              command, strlen(key), key, snprintf(NULL, 0, "%llu", position),
                              position, set ? "$1\r\n1\r\n" : "");
            }
        for (char *from = buf; from < at;) {
            ssize_t sent = write(fd, from, (size_t)(at - from));
            if (sent <= 0)
                die("write");
            from += sent;
        }
        if (argc == 8)
            read_replies(fd, commands);
    }
    free(buf);
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "redis/password.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "port/port.h"
#include "base/disk.h"

/* A file with a longer first line is probably the wrong file. */
enum { MAX_PASSWORD = 4096 };

static bool from_environment(char **out, struct err *err)
{
    const char *value = getenv("REDISCLI_AUTH");
    if (value == NULL || value[0] == '\0')
        return true;
    *out = strdup(value);
    return *out != NULL || fail_errno(err, "cannot read REDISCLI_AUTH");
}

/* Takes the first line of buf, without its line ending. */
static bool take_line(const char *file, char *buf, size_t n, char **out, struct err *err)
{
    char *newline = memchr(buf, '\n', n);
    size_t len = newline != NULL ? (size_t)(newline - buf) : n;
    if (newline != NULL && len > 0 && buf[len - 1] == '\r')
        len--;
    if (len == 0)
        return fail(err, "cannot use '%s': it begins with an empty line, not a password", file);
    if (len > MAX_PASSWORD)
        return fail(err, "cannot use '%s': a password has at most %d bytes", file, MAX_PASSWORD);
    if (memchr(buf, '\0', len) != NULL)
        return fail(err, "cannot use '%s': a password holds no NUL", file);
    *out = strndup(buf, len);
    return *out != NULL || fail_errno(err, "cannot read '%s'", file);
}

static bool from_file(const char *file, char **out, struct err *err)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(err, "cannot open '%s'", file);
    char buf[MAX_PASSWORD + 2]; /* with CR and newline */
    ssize_t n = disk_read_next(fd, buf, sizeof buf);
    bool ok = n >= 0 ? take_line(file, buf, (size_t)n, out, err)
                     : fail_errno(err, "cannot read '%s'", file);
    port_wipe(buf, sizeof buf);
    close(fd);
    return ok;
}

bool password_read(const char *file, char **out, struct err *err)
{
    *out = NULL;
    return file != NULL ? from_file(file, out, err) : from_environment(out, err);
}

void password_free(char *password)
{
    if (password != NULL)
        port_wipe(password, strlen(password));
    free(password);
}

/* SPDX-License-Identifier: MIT
 * Built without OpenSSL: no context can be opened, so no other function is ever called.
 */
#include "redis/tls.h"

struct tls_context *tls_open(const struct tls_files *files, struct err *err)
{
    (void)files;
    fail(err, "this program was built without OpenSSL, which rediss:// needs (on Debian, install "
              "libssl-dev and build it again)");
    return NULL;
}

void tls_close(struct tls_context *ctx)
{
    (void)ctx;
}

struct tls *tls_begin(const struct tls_context *ctx, int fd, const char *host, struct err *err)
{
    (void)ctx, (void)fd, (void)host, (void)err;
    return NULL;
}

enum tls_state tls_shake(struct tls *t, short *events, struct err *err)
{
    (void)t, (void)events, (void)err;
    return TLS_REFUSED;
}

ssize_t tls_send(struct tls *t, const void *data, size_t len)
{
    (void)t, (void)data, (void)len;
    return -1;
}

ssize_t tls_recv(struct tls *t, void *data, size_t len)
{
    (void)t, (void)data, (void)len;
    return -1;
}

const char *tls_trouble(const struct tls *t, bool *refused)
{
    (void)t;
    *refused = true;
    return "";
}

bool tls_is_quiet(struct tls *t)
{
    (void)t;
    return false;
}

void tls_end(struct tls *t)
{
    (void)t;
}

const char *tls_version(void)
{
    return NULL;
}

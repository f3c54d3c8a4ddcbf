/* SPDX-License-Identifier: MIT */
#include "redis/tls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <sys/socket.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

/* ---- The library. */

/* All that is called of it; what OpenSSL's headers call by a macro is called by its function. */
#define FUNCTIONS(f)                                                                               \
    f(BIO_clear_flags) f(BIO_get_data) f(BIO_get_new_index) f(BIO_meth_free) f(BIO_meth_new) f(    \
        BIO_meth_set_ctrl) f(BIO_meth_set_create) f(BIO_meth_set_read) f(BIO_meth_set_write)       \
        f(BIO_new) f(BIO_set_data) f(BIO_set_flags) f(BIO_set_init) f(ERR_clear_error) f(          \
            ERR_peek_error) f(ERR_reason_error_string) f(SSL_CTX_check_private_key)                \
            f(SSL_CTX_ctrl) f(SSL_CTX_free) f(SSL_CTX_get0_param) f(                               \
                SSL_CTX_load_verify_locations) f(SSL_CTX_new) f(SSL_CTX_set_default_passwd_cb)     \
                f(SSL_CTX_set_default_passwd_cb_userdata) f(SSL_CTX_set_default_verify_dir) f(     \
                    SSL_CTX_set_default_verify_file) f(SSL_CTX_set_options) f(SSL_CTX_set_verify)  \
                    f(SSL_CTX_use_PrivateKey_file) f(SSL_CTX_use_certificate_chain_file)           \
                        f(SSL_connect) f(SSL_ctrl) f(SSL_free) f(SSL_get0_param) f(SSL_get_error)  \
                            f(SSL_get_verify_result) f(SSL_new) f(SSL_peek) f(SSL_read)            \
                                f(SSL_set_bio) f(SSL_shutdown) f(SSL_write) f(TLS_client_method)   \
                                    f(X509_VERIFY_PARAM_set1_host)                                 \
                                        f(X509_VERIFY_PARAM_set1_ip_asc)                           \
                                            f(X509_VERIFY_PARAM_set_flags)                         \
                                                f(X509_VERIFY_PARAM_set_hostflags)                 \
                                                    f(X509_get_default_cert_dir)                   \
                                                        f(X509_get_default_cert_dir_env)           \
                                                            f(X509_get_default_cert_file_env)      \
                                                                f(X509_verify_cert_error_string)

#define MEMBER(name) __typeof__(&(name)) name;
static struct {
    FUNCTIONS(MEMBER)
} lib;
#undef MEMBER

/* Linux and the BSDs name it so. */
#define LIBRARY_OF(version)   "libssl.so." LIBRARY_TEXT(version)
#define LIBRARY_TEXT(version) #version
#define LIBRARY               LIBRARY_OF(OPENSSL_SHLIB_VERSION)

static bool load_library(struct err *err)
{
    /* All symbols now: a call that looks one up later would spill registers, and with them what
     * they hold of a password, to the stack. */
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return fail(err, "cannot load %s, which rediss:// needs (on Debian, install libssl3)",
                    LIBRARY);
    const char *missing = NULL;
    void *found;
#define LOAD(name)                                                                                 \
    found = dlsym(handle, #name);                                                                  \
    memcpy(&lib.name, &found, sizeof lib.name);                                                    \
    missing = found == NULL ? #name : missing;
    FUNCTIONS(LOAD)
#undef LOAD
    if (missing != NULL) {
        dlclose(handle);
        return fail(err, "cannot use %s: it has no %s", LIBRARY, missing);
    }
    return true;
}

const char *tls_version(void)
{
    return "OpenSSL " OPENSSL_VERSION_STR;
}

/* The first error of the last call: later ones say where it was met. */
static const char *last_reason(void)
{
    unsigned long code = lib.ERR_peek_error();
    const char *reason = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code))
                         : code != 0            ? lib.ERR_reason_error_string(code)
                                                : NULL;
    return reason != NULL ? reason : "no reason given";
}

/* ---- A context: what is the same for all connections. */

struct tls_context {
    struct tls_files files;
    SSL_CTX *ssl;
    BIO_METHOD *method;
};

/* Called for an encrypted key: OpenSSL would ask at the terminal. */
static int refuse_to_ask(char *to, int size, int writing, void *asked)
{
    (void)to, (void)size, (void)writing;
    *(bool *)asked = true;
    return 0;
}

/* Are there certificates under the names by which OpenSSL looks them up: 8 hexadecimal digits, a
 * dot and a number? */
static bool has_hashed_names(const char *path)
{
    DIR *dir = opendir(path);
    bool found = false;
    for (const struct dirent *e; dir != NULL && !found && (e = readdir(dir)) != NULL;)
        found = strspn(e->d_name, "0123456789abcdef") == 8 && e->d_name[8] == '.';
    if (dir != NULL)
        closedir(dir);
    return found;
}

/* Trusts the system's certificates. Its directory costs nothing until one is looked up there; to
 * read the file with all of them takes 16 ms. */
static bool trust_system(SSL_CTX *ssl)
{
    const char *dir = getenv(lib.X509_get_default_cert_dir_env());
    bool needs_file = getenv(lib.X509_get_default_cert_file_env()) != NULL ||
                      !has_hashed_names(dir != NULL ? dir : lib.X509_get_default_cert_dir());
    return lib.SSL_CTX_set_default_verify_dir(ssl) == 1 &&
           (!needs_file || lib.SSL_CTX_set_default_verify_file(ssl) == 1);
}

static bool fail_file(const char *option, const char *path, struct err *err)
{
    return fail(err, "cannot use %s '%s': %s", option, path, last_reason());
}

static bool read_files(struct tls_context *ctx, struct err *err)
{
    const struct tls_files *f = &ctx->files;
    SSL_CTX *ssl = ctx->ssl;
    bool asked = false;
    if (f->ca == NULL ? !trust_system(ssl)
                      : lib.SSL_CTX_load_verify_locations(ssl, f->ca, NULL) != 1)
        return f->ca != NULL
                   ? fail_file("--tls-ca", f->ca, err)
                   : fail(err, "cannot read the system's certificates: %s", last_reason());
    if (f->cert == NULL)
        return true;
    const char *key = f->key != NULL ? f->key : f->cert;
    const char *option = f->key != NULL ? "--tls-key" : "--tls-cert";
    if (lib.SSL_CTX_use_certificate_chain_file(ssl, f->cert) != 1)
        return fail_file("--tls-cert", f->cert, err);
    lib.SSL_CTX_set_default_passwd_cb(ssl, refuse_to_ask);
    lib.SSL_CTX_set_default_passwd_cb_userdata(ssl, &asked);
    bool ok = lib.SSL_CTX_use_PrivateKey_file(ssl, key, SSL_FILETYPE_PEM) == 1;
    lib.SSL_CTX_set_default_passwd_cb_userdata(ssl, NULL);
    if (asked)
        return fail(err, "cannot use %s '%s': the key is encrypted ('openssl pkey' decrypts it)",
                    option, key);
    return ok && lib.SSL_CTX_check_private_key(ssl) == 1 ? true : fail_file(option, key, err);
}

/* ---- Bytes: OpenSSL's own functions for sockets would let a server that goes away kill us by
 * SIGPIPE. */

struct tls {
    const struct tls_context *ctx;
    SSL *ssl;
    int fd;
    bool gone;    /* what is sent is lost; there may be words of the server left to read */
    bool refused; /* see tls_trouble */
    struct err trouble;
    char host[256];
};

enum { RETRY = BIO_FLAGS_READ | BIO_FLAGS_WRITE | BIO_FLAGS_IO_SPECIAL | BIO_FLAGS_SHOULD_RETRY };

static int take_or_retry(BIO *bio, ssize_t n, int direction)
{
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        lib.BIO_set_flags(bio, direction | BIO_FLAGS_SHOULD_RETRY);
    return (int)n;
}

static int send_bytes(BIO *bio, const char *data, int len)
{
    struct tls *t = lib.BIO_get_data(bio);
    lib.BIO_clear_flags(bio, RETRY);
    ssize_t n = send(t->fd, data, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
        t->gone = true;
        errno = EAGAIN; /* as a failure, it would keep OpenSSL from reading what has come */
    }
    return take_or_retry(bio, n, BIO_FLAGS_WRITE);
}

static int receive_bytes(BIO *bio, char *data, int len)
{
    struct tls *t = lib.BIO_get_data(bio);
    lib.BIO_clear_flags(bio, RETRY);
    ssize_t n = recv(t->fd, data, (size_t)len, MSG_DONTWAIT);
    return take_or_retry(bio, n, BIO_FLAGS_READ);
}

static long control_bytes(BIO *bio, int command, long n, void *p)
{
    (void)bio, (void)n, (void)p;
    return command == BIO_CTRL_FLUSH;
}

static int create_bytes(BIO *bio)
{
    lib.BIO_set_init(bio, 1);
    return 1;
}

static BIO_METHOD *make_method(void)
{
    BIO_METHOD *m = lib.BIO_meth_new(lib.BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    if (m != NULL && lib.BIO_meth_set_write(m, send_bytes) == 1 &&
        lib.BIO_meth_set_read(m, receive_bytes) == 1 &&
        lib.BIO_meth_set_ctrl(m, control_bytes) == 1 &&
        lib.BIO_meth_set_create(m, create_bytes) == 1)
        return m;
    lib.BIO_meth_free(m);
    return NULL;
}

struct tls_context *tls_open(const struct tls_files *files, struct err *err)
{
    struct tls_context *ctx = NULL;
    if (!load_library(err))
        return NULL;
    ctx = calloc(1, sizeof *ctx);
    if (ctx == NULL) {
        fail(err, "out of memory");
        return NULL;
    }
    ctx->files = *files;
    lib.ERR_clear_error();
    ctx->ssl = lib.SSL_CTX_new(lib.TLS_client_method());
    ctx->method = make_method();
    bool ok = ctx->ssl != NULL && ctx->method != NULL;
    if (!ok) {
        fail(err, "cannot use %s: %s", LIBRARY, last_reason());
    } else {
        /* The buffer of what is sent moves when it grows. */
        long mode = SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER;
        X509_VERIFY_PARAM *param = lib.SSL_CTX_get0_param(ctx->ssl);
        lib.SSL_CTX_ctrl(ctx->ssl, SSL_CTRL_MODE, mode, NULL);
        lib.SSL_CTX_ctrl(ctx->ssl, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
        lib.SSL_CTX_set_options(ctx->ssl, SSL_OP_NO_RENEGOTIATION);
        lib.SSL_CTX_set_verify(ctx->ssl, SSL_VERIFY_PEER, NULL);
        lib.X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_PARTIAL_CHAIN);
        lib.X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        ok = read_files(ctx, err);
    }
    if (ok)
        return ctx;
    tls_close(ctx);
    return NULL;
}

void tls_close(struct tls_context *ctx)
{
    if (ctx == NULL)
        return;
    lib.SSL_CTX_free(ctx->ssl);
    lib.BIO_meth_free(ctx->method);
    free(ctx);
}

/* ---- A connection. */

/* The name that the certificate must bear; and, unless it is an address, the one that is asked
 * for: a server may have several. */
static bool set_name(const struct tls *t, const char *name)
{
    X509_VERIFY_PARAM *param = lib.SSL_get0_param(t->ssl);
    union {
        const char *text;
        void *p; /* SSL_ctrl's type; it is only read */
    } asked = {name};
    unsigned char ignored[16];
    if (inet_pton(AF_INET, name, ignored) == 1 || inet_pton(AF_INET6, name, ignored) == 1)
        return lib.X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1;
    return lib.X509_VERIFY_PARAM_set1_host(param, name, 0) == 1 &&
           lib.SSL_ctrl(t->ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, asked.p) ==
               1;
}

struct tls *tls_begin(const struct tls_context *ctx, int fd, const char *host, struct err *err)
{
    const char *name = ctx->files.name != NULL ? ctx->files.name : host;
    struct tls *t = calloc(1, sizeof *t);
    BIO *bio = NULL;
    if (t != NULL) {
        *t = (struct tls){.ctx = ctx, .fd = fd, .ssl = lib.SSL_new(ctx->ssl)};
        snprintf(t->host, sizeof t->host, "%s", name);
        bio = t->ssl != NULL ? lib.BIO_new(ctx->method) : NULL;
    }
    if (bio != NULL) {
        lib.BIO_set_data(bio, t);
        lib.SSL_set_bio(t->ssl, bio, bio); /* owns it */
        if (set_name(t, name))
            return t;
        fail(err, "'%.255s' is not a name that a certificate can bear", name);
    } else {
        fail(err, "out of memory");
    }
    if (t != NULL)
        lib.SSL_free(t->ssl);
    free(t);
    return NULL;
}

/* What the server's certificate lacks. */
static void blame_certificate(struct tls *t, long why)
{
    const char *text = lib.X509_verify_cert_error_string(why);
    switch (why) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        fail(&t->trouble, "its certificate is not for '%s' (--tls-name tells the name to expect)",
             t->host);
        break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        fail(&t->trouble, "its certificate has expired");
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        fail(&t->trouble,
             "no trusted certificate vouches for its certificate: %s (--tls-ca names "
             "the ones to trust)",
             text);
        break;
    default:
        fail(&t->trouble, "its certificate is not valid: %s", text);
    }
    t->refused = true;
}

/* The server, or OpenSSL, has ended the conversation for the reason at the head of its queue. */
static void blame_protocol(struct tls *t)
{
    unsigned long code = lib.ERR_peek_error();
    int reason = ERR_GET_REASON(code);
    bool has_cert = t->ctx->files.cert != NULL;
    t->refused = true;
    if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG)
        fail(&t->trouble, "it does not speak TLS (without TLS, write redis://)");
    else if (reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED ||
             (reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE && !has_cert))
        fail(&t->trouble, "it wants a certificate of this client (--tls-cert and --tls-key): %s",
             last_reason());
    else
        fail(&t->trouble, "TLS failed: %s", last_reason());
}

/* Sets errno for the call that returned `got`, and the trouble with EPROTO. */
static void take_failure(struct tls *t, int got)
{
    int system = errno;
    long why = lib.SSL_get_verify_result(t->ssl);
    switch (lib.SSL_get_error(t->ssl, got)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return;
    case SSL_ERROR_ZERO_RETURN: /* the server's goodbye */
    case SSL_ERROR_SYSCALL:
        errno = system != 0 && system != EAGAIN ? system : ECONNRESET;
        return;
    default:
        break;
    }
    if (why != X509_V_OK)
        blame_certificate(t, why);
    else
        blame_protocol(t);
    errno = EPROTO;
}

enum tls_state tls_shake(struct tls *t, short *events, struct err *err)
{
    lib.ERR_clear_error();
    errno = 0;
    int got = lib.SSL_connect(t->ssl);
    if (got == 1)
        return TLS_DONE;
    bool writes = lib.SSL_get_error(t->ssl, got) == SSL_ERROR_WANT_WRITE;
    take_failure(t, got);
    if (errno == EAGAIN && !t->gone) {
        *events = writes ? POLLOUT : POLLIN;
        return TLS_WAIT;
    }
    if (errno == EPROTO)
        fail(err, "%s", t->trouble.text);
    else
        fail(err, "%s", strerror(errno == EAGAIN ? ECONNRESET : errno));
    return t->refused ? TLS_REFUSED : TLS_FAILED;
}

ssize_t tls_send(struct tls *t, const void *data, size_t len)
{
    lib.ERR_clear_error();
    errno = 0;
    int n = lib.SSL_write(t->ssl, data, len < INT32_MAX ? (int)len : INT32_MAX);
    if (n > 0)
        return n;
    take_failure(t, n);
    if (errno == EAGAIN && t->gone)
        errno = EPIPE;
    return -1;
}

ssize_t tls_recv(struct tls *t, void *data, size_t len)
{
    lib.ERR_clear_error();
    errno = 0;
    int n = lib.SSL_read(t->ssl, data, len < INT32_MAX ? (int)len : INT32_MAX);
    if (n > 0)
        return n;
    take_failure(t, n);
    return -1;
}

const char *tls_trouble(const struct tls *t, bool *refused)
{
    *refused = t->refused;
    return t->trouble.text;
}

bool tls_is_quiet(struct tls *t)
{
    char byte;
    lib.ERR_clear_error();
    errno = 0;
    int n = lib.SSL_peek(t->ssl, &byte, 1);
    return n <= 0 && lib.SSL_get_error(t->ssl, n) == SSL_ERROR_WANT_READ;
}

void tls_end(struct tls *t)
{
    if (t == NULL)
        return;
    lib.ERR_clear_error();
    (void)lib.SSL_shutdown(t->ssl);
    lib.SSL_free(t->ssl);
    free(t);
}

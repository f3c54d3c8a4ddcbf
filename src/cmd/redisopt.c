/* SPDX-License-Identifier: MIT */
#include "cmd/redisopt.h"

#include <sys/stat.h>

#include "base/say.h"

#define PASSWORD_FILE                                                                              \
    {                                                                                              \
        0, "password-file", "FILE",                                                                \
            "the password is the first line of FILE (default: REDISCLI_AUTH)",                     \
            TEXT(struct open_options, password_file), .needs = " URI"                              \
    }

#define CONNECT                                                                                    \
    PASSWORD_FILE,                                                                                 \
        {0,                                                                                        \
         "timeout",                                                                                \
         "SECONDS",                                                                                \
         "give up if connecting or a reply takes longer (default: 5 and 30)",                      \
         SECONDS(struct open_options, timeout_ms),                                                 \
         .needs = " URI"},                                                                         \
        {0,                                                                                        \
         "tls-ca",                                                                                 \
         "FILE",                                                                                   \
         "rediss://: trust the certificates in FILE (default: the system's)",                      \
         TEXT(struct open_options, tls_ca),                                                        \
         .needs = " URI"},                                                                         \
        {0,                                                                                        \
         "tls-cert",                                                                               \
         "FILE",                                                                                   \
         "rediss://: this client's certificate",                                                   \
         TEXT(struct open_options, tls_cert),                                                      \
         .needs = " URI"},                                                                         \
        {0,                                                                                        \
         "tls-key",                                                                                \
         "FILE",                                                                                   \
         "rediss://: its private key (default: in the same file)",                                 \
         TEXT(struct open_options, tls_key),                                                       \
         .needs = " tls-cert"},                                                                    \
    {                                                                                              \
        0, "tls-name", "NAME", "rediss://: the name in the server's certificate (default: HOST)",  \
            TEXT(struct open_options, tls_name), .needs = " URI"                                   \
    }

const struct opt redisopt_connect[] = {CONNECT, {0}};
const struct opt redisopt_write[] = {
    {0, "wait", "N", "wait until N replicas have what is written, fail after 5 s",
     FEW(struct open_options, replicas), .needs = " URI"},
    CONNECT,
    {0},
};

/* Bytes of keys that take seconds to send. */
enum { MANY_BYTES = 32 << 20 };

void redisopt_hint_many(const struct store *s, const struct keyopt *keyopt, const char *way)
{
    struct facts facts;
    struct stat st;
    uint64_t bytes = 0;
    store_describe(s, &facts);
    const struct header *h = facts.layers.header;
    for (size_t i = 0; i < keyopt->n_files; i++)
        if (stat(keyopt->files[i], &st) == 0 && S_ISREG(st.st_mode))
            bytes += (uint64_t)st.st_size;
    /* One bitmap: neither shards nor the Bloom module can be united with a file. */
    bool is_bitmap = facts.n_shards == 1 && h->layers[0].kind->layout->redis != NULL;
    if (is_bitmap && bytes >= MANY_BYTES && bytes > h->file_len)
        say_note("with this number of keys a copy of the filter is faster: %s", way);
}

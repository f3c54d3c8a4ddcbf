/* SPDX-License-Identifier: MIT */
#include "keys/digest.h"

#include <string.h>
#include <strings.h>

#include "keys/utf16.h"

#ifdef SEEN_LIBMD

#include <md4.h>
#include <md5.h>
#include <sha1.h>
#include <sha2.h>

const char *digest_missing(void)
{
    return NULL;
}

/* Defines a function that makes a digest, from libmd's prefix and context. */
#define MAKE_DIGEST(name, prefix, context)                                                         \
    static bool name(const char *key, size_t len, char *out)                                       \
    {                                                                                              \
        context state;                                                                             \
        prefix##Init(&state);                                                                      \
        prefix##Update(&state, (const uint8_t *)key, len);                                         \
        prefix##Final((uint8_t *)out, &state);                                                     \
        return true;                                                                               \
    }

MAKE_DIGEST(make_sha1, SHA1, SHA1_CTX)
MAKE_DIGEST(make_sha256, SHA256, SHA2_CTX)
MAKE_DIGEST(make_md5, MD5, MD5_CTX)
MAKE_DIGEST(make_md4, MD4, MD4_CTX)

static bool make_ntlm(const char *key, size_t len, char *out)
{
    size_t units_len;
    return utf16_encode(key, len, out, &units_len) != NULL && make_md4(out, units_len, out);
}

#else

const char *digest_missing(void)
{
    return "this program was built without libmd (on Debian, install libmd-dev and build it again)";
}

static bool make_none(const char *key, size_t len, char *out)
{
    (void)key, (void)len, (void)out;
    return false;
}

#define make_sha1   make_none
#define make_sha256 make_none
#define make_md5    make_none
#define make_ntlm   make_none

#endif

/* For NTLM, the UTF-16 of the key is written where the digest goes afterwards. In UTF-16, an ASCII
 * byte takes 2 bytes. */
static const struct digest digests[] = {
    {DIGEST_SHA1, "sha1", 20, 20, 0, make_sha1, "not digested",
     "is not a SHA-1 digest (40 hexadecimal digits)"},
    {DIGEST_SHA256, "sha256", 32, 32, 0, make_sha256, "not digested",
     "is not a SHA-256 digest (64 hexadecimal digits)"},
    {DIGEST_MD5, "md5", 16, 16, 0, make_md5, "not digested",
     "is not an MD5 digest (32 hexadecimal digits)"},
    {DIGEST_NTLM, "ntlm", 16, 16, 2, make_ntlm, "not UTF-8",
     "is not an NTLM digest (32 hexadecimal digits)"},
};

const struct digest *digest_by_id(unsigned id)
{
    for (size_t i = 0; i < sizeof digests / sizeof *digests; i++)
        if (digests[i].id == id)
            return &digests[i];
    return NULL;
}

const struct digest *digest_by_name(const char *name)
{
    for (size_t i = 0; i < sizeof digests / sizeof *digests; i++)
        if (strcasecmp(digests[i].name, name) == 0)
            return &digests[i];
    return NULL;
}

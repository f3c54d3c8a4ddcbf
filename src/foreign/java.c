/* SPDX-License-Identifier: MIT
 * Java's Object Serialization Stream Protocol, version 5. Numbers are big-endian. An object of a
 * class that was not described before begins with the class: its name, a version of 8 bytes, flags,
 * fields and its superclass. Later objects refer to it. */
#include "foreign/java.h"

#include <string.h>

#include "base/bytes.h"

/* The parts of the header: its class with four fields; k; the class of an array of longs; the
 * number of words. The compiler adds the zero at the end of a string. */
static const char class[] = "\xac\xed\0\5sr\0-com.google.common.hash.BloomFilter$SerialForm"
                            "\0\0\0\0\0\0\0\1\2\0\4I\0\x10numHashFunctions[\0\4datat\0\2[J"
                            "L\0\6funnelt\0\x1fLcom/google/common/hash/Funnel;"
                            "L\0\10strategyt\0-Lcom/google/common/hash/BloomFilter$Strategy;xp";
static const char array[] = "ur\0\2[Jx \4\xb5\x12\xb1u\x93\2\0\0xp";

enum { K_AT = sizeof class - 1, ARRAY_AT = K_AT + 4, WORDS_AT = ARRAY_AT + sizeof array - 1 };
_Static_assert(WORDS_AT + 4 == JAVA_HEADER, "java.h");

bool java_begins(const uint8_t *p, uint64_t len)
{
    return len >= JAVA_HEADER && memcmp(p, class, K_AT) == 0 &&
           memcmp(p + ARRAY_AT, array, sizeof array - 1) == 0;
}

void java_get(const uint8_t header[JAVA_HEADER], uint32_t *k, uint32_t *words)
{
    *k = get_be32(header + K_AT);
    *words = get_be32(header + WORDS_AT);
}

void java_put(uint8_t header[JAVA_HEADER], uint32_t k, uint32_t words)
{
    memcpy(header, class, K_AT);
    put_be32(header + K_AT, k);
    memcpy(header + ARRAY_AT, array, sizeof array - 1);
    put_be32(header + WORDS_AT, words);
}

#define PACKAGE "com.google.common.hash."

/* What follows the name of a class without fields; the last one is that of an enumeration. */
static const char version[] = "\0\0\0\0\0\0\0\0\x12\0";
static const char enumeration[] = "\0xr\0\16java.lang.Enum\0\0\0\0\0\0\0\0\x12\0\0xp";
static const char enumeration_again[] = "\0xq\0~\0\10"; /* the object that was number 8 */

/* The funnel of UTF-8 is an object with the name of the charset, the others are constants. */
static const char utf8[] = "sr\0A" PACKAGE "Funnels$StringCharsetFunnel$SerializedForm"
                           "\0\0\0\0\0\0\0\0\2\0\1L\0\x14"
                           "charsetCanonicalNamet\0\x12Ljava/lang/String;xpt\0\5UTF-8";
static const char *const constants[] = {NULL, "Funnels$UnencodedCharsFunnel",
                                        "Funnels$ByteArrayFunnel", "Funnels$IntegerFunnel",
                                        "Funnels$LongFunnel"};

static uint8_t *add_bytes(uint8_t *to, const char *bytes, size_t n)
{
    memcpy(to, bytes, n);
    return to + n;
}

static uint8_t *add_text(uint8_t *to, const char *package, const char *text)
{
    size_t first = strlen(package), n = strlen(text);
    *to++ = 0;
    *to++ = (uint8_t)(first + n);
    return add_bytes(add_bytes(to, package, first), text, n);
}

/* A constant of an enumeration. `again`: there was one before. */
static uint8_t *add_constant(uint8_t *to, const char *name, bool again, const char *constant)
{
    to = add_bytes(to, "~r", 2);
    to = add_text(to, PACKAGE, name);
    to = add_bytes(to, version, sizeof version - 1);
    to = again ? add_bytes(to, enumeration_again, sizeof enumeration_again - 1)
               : add_bytes(to, enumeration, sizeof enumeration - 1);
    *to++ = 't';
    return add_text(to, "", constant);
}

static const char strategy_64[] = "MURMUR128_MITZ_64", strategy_32[] = "MURMUR128_MITZ_32";

size_t java_tail(unsigned funnel, bool is_64, uint8_t out[JAVA_TAIL])
{
    bool constant = constants[funnel] != NULL;
    uint8_t *to = constant ? add_constant(out, constants[funnel], false, "INSTANCE")
                           : add_bytes(out, utf8, sizeof utf8 - 1);
    to = add_constant(to, "BloomFilterStrategies", constant, is_64 ? strategy_64 : strategy_32);
    return (size_t)(to - out);
}

bool java_strategy(const uint8_t *tail, uint64_t len, bool *is_64)
{
    const size_t n = sizeof strategy_64 - 1;
    *is_64 = len >= n && memcmp(tail + len - n, strategy_64, n) == 0;
    return *is_64 || (len >= n && memcmp(tail + len - n, strategy_32, n) == 0);
}

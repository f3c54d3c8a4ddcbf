/* SPDX-License-Identifier: MIT */
/* The hash is part of the file format: it may never change, on any machine, in any variant.
 * tags: computing portable */
#include <stdint.h>
#include <stdlib.h>

#include "base/variant.h"
#include "check.h"
#include "keys/xxh3.h"
#include "random.h"
#include "variants.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static const uint64_t seeds[] = {0, 1, 0x9e3779b97f4a7c15, UINT64_MAX};

#define EACH(i, array) (size_t i = 0; i < sizeof(array) / sizeof *(array); i++)

static unsigned char pattern[10000];

static void make_pattern(void)
{
    for
        EACH(i, pattern)
    pattern[i] = (unsigned char)(i * 131 + 7);
}

/* Hashes of the first `len` bytes of 7, 138, 13, ... (i * 131 + 7 mod 256), as xxHash 0.8.1
 * computes them; the manual of the format prints some. */
static const struct {
    size_t len;
    uint64_t seed_0, seed_golden; /* 0x9e3779b97f4a7c15 */
} by_length[] = {
    {0, 0x2d06800538d394c2, 0x602b0e2cd6662c8b},    {1, 0x4c5cca45d0f4811f, 0x2f3acd3805f81de3},
    {2, 0x29c60963cbfa4e6e, 0x28a7b77c08c091eb},    {3, 0x6e3e2670e61106ac, 0xbc74611d87f659e0},
    {4, 0x5c4c63133443d03f, 0x6c3753177c607de4},    {5, 0x49f5eb3111280b63, 0xc527066b4c496b85},
    {7, 0x46a5c724d51fe43f, 0x3e7941a452179655},    {8, 0xf9fd4dd0b04d78f5, 0xbc72d0531396303f},
    {9, 0x7c20df9712c26edf, 0x93c5aa006102daf5},    {12, 0x16d2dff54dc2ee45, 0xfe7ffcdd4d01fe31},
    {15, 0xb345a7b2698ba575, 0x082933f851ba6e46},   {16, 0x86abf6baccea0858, 0x69d001b16ecf450a},
    {17, 0xb58bf5dc5022d071, 0xb7c99d19be27eb69},   {24, 0x08ce26a7964ba200, 0x4bb8532c0f764b96},
    {31, 0x48442fcd5518b086, 0x4d0ca634ab4ca4f4},   {32, 0xe3712ed84c04a66e, 0xe5fb38c81d49c6f5},
    {33, 0xa4dee99b093e1f73, 0x5a46a370c35146ac},   {48, 0xd8d1caaa06ae1e99, 0xb6bb2844b1f4f204},
    {63, 0x30ca01f63dcc223b, 0x92944c1b6245dd77},   {64, 0x1291d2d4042330dd, 0x543fa55d8db03991},
    {65, 0x97c6bf83217e5ec9, 0xf3efe40559a76a28},   {80, 0xc50c581cf16b1ed6, 0x3ece3407cc66467e},
    {95, 0x31bc916970f3868d, 0xa6a6f32944967813},   {96, 0x81296929fc063365, 0x260f288635623ee8},
    {97, 0xf145a45b658ab9dd, 0x58817b2a6ec0ed2e},   {112, 0xc787b705cf40bb90, 0xd9d2d133216de047},
    {127, 0xed4cf62104020db5, 0x12557eb9b4c6d9c6},  {128, 0x10d17f72c0ccba41, 0x49b81c6e0abb9305},
    {129, 0x1648bdc3db49d1a2, 0x5e3831b221810b00},  {143, 0xd05ced598f7f87b3, 0x83c8b9b72442a01f},
    {144, 0xb46dbfc6d9e31aba, 0xb72649ca087ff203},  {160, 0x655c8dc33b4b4c4a, 0x3c40f880a7d41ebf},
    {239, 0xf0d154819adb16cd, 0x23ad00dea6ed6611},  {240, 0xb6cfaf343fab81e6, 0x76a73ec26433f82c},
    {241, 0x956cae592c67279e, 0x2be236ba3bacf75c},  {242, 0x9222dbafc36cba83, 0x195879999044ae68},
    {255, 0x64a6073025eb7929, 0x407522ce8ddf4b58},  {256, 0xb15e550733c5dfac, 0x92999d62f0815eef},
    {257, 0x87b3bf2d941cf085, 0x49d44ae56fae6e04},  {260, 0xa6265e298f5111fd, 0xae316c6c1c2c8eba},
    {511, 0x5a17da924907228a, 0x4978d24ee7555891},  {512, 0xa0e9790eb93990d7, 0x36385c68aa6755ea},
    {513, 0x984828b9efd042cb, 0xf6248b1a08dae670},  {1023, 0xa94ffcd2254368e4, 0x4de00b8ba99fe3ea},
    {1024, 0x70bd377d9574f4bb, 0xd8cf6b464541f232}, {1025, 0x66c4487c41e127a7, 0x8dc3a55e9c26d886},
    {1026, 0x9ad3ed683f0ee4be, 0x39b32fac38a4765e}, {2048, 0x8b46caa67dab3a30, 0x9f2f0261a2592b60},
    {4096, 0x9ddd66c14af0daff, 0xc7bc989f5d547a4d}, {10000, 0x9e5d23d943285455, 0x7f7e8216c8a754ff},
};

static const struct {
    const char *key;
    size_t len;
    uint64_t hash; /* seed 0 */
} by_text[] = {
    {"a", 1, 0xe6c632b61e964e1f},
    {"\xff", 1, 0xd6bcec3c6b29d72e},
    {"\0", 1, 0xc44bdff4074eecdb},
    {"\r", 1, 0x8a21d78b1538b1c0},
    {"seen", 4, 0xa3417ed7e3fefb81},
    {"a\0b", 3, 0xd5a06cd078125351},
    {"\xc3\xa9t\xc3\xa9", 5, 0x4527085b35eb8255},
    {"http://example.org/", 19, 0xb73dc5b066f53581},
    {"\x80\x81\xfe\xff\x80\x81\xfe\xff\x80\x81\xfe\xff\x80\x81\xfe\xff\x80", 17,
     0x91d2dd0edcc91c2d},
};

static const char *in_use(void)
{
    return variant_in_use(&xxh3_variants)->name;
}

TEST_EACH_VARIANT(hashes_are_those_of_the_format, xxh3_variants)
{
    for
        EACH(i, by_length)
        {
            CHECK(xxh3_bytes(pattern, by_length[i].len, 0) == by_length[i].seed_0);
            CHECK(xxh3_bytes(pattern, by_length[i].len, 0x9e3779b97f4a7c15) ==
                  by_length[i].seed_golden);
        }
    for
        EACH(i, by_text)
    CHECK(xxh3_bytes(by_text[i].key, by_text[i].len, 0) == by_text[i].hash);
}

/* Each in a block of its own size, so that a sanitizer sees any read behind it. */
TEST_EACH_VARIANT(every_length_agrees_with_the_library, xxh3_variants)
{
    for (size_t len = 0; len <= 1100; len++) {
        unsigned char *copy = malloc(len + !len);
        if (!copy)
            abort();
        memcpy(copy, pattern, len);
        for
            EACH(s, seeds)
            {
                uint64_t want = XXH3_64bits_withSeed(copy, len, seeds[s]);
                if (xxh3_bytes(copy, len, seeds[s]) != want) {
                    printf("# variant %s, length %zu, seed %zu\n", in_use(), len, s);
                    CHECK(false);
                }
            }
        free(copy);
    }
    unsigned char page[4096];
    for (unsigned round = 0; round < 20; round++) {
        for
            EACH(i, page)
        page[i] = (unsigned char)draw();
        uint64_t seed = draw();
        CHECK(xxh3_bytes(page, sizeof page, seed) == XXH3_64bits_withSeed(page, sizeof page, seed));
    }
}

enum { KEYS = 1100 };

/* A length of a kind of mixture: all alike, of two neighbouring ways, or anything. */
static size_t random_length(unsigned mixture)
{
    static const size_t edges[] = {0,  1,  3,  4,   8,   9,   16,  17,  32,  33, 64,
                                   65, 96, 97, 128, 129, 240, 241, 255, 256, 257};
    switch (mixture) {
    case 0:
        return 12;
    case 1:
        return 60 + draw() % 10;
    case 2:
        return edges[draw() % (sizeof edges / sizeof *edges)];
    default:
        return draw() % 320;
    }
}

TEST_EACH_VARIANT(many_at_once_hash_as_one_at_a_time, xxh3_variants)
{
    const char *data[KEYS + 1], *from = (const char *)pattern;
    size_t len[KEYS];
    uint64_t got[KEYS + 1];
    for (unsigned round = 0; round < 60; round++) {
        uint64_t seed = round % 2 ? draw() : 0;
        size_t n = round < 8 ? round : draw() % KEYS;
        if (round % 5 == 0)
            n = 256 * (1 + draw() % 4);
        for (size_t i = 0; i < n; i++) {
            len[i] = random_length(round % 4);
            data[i] = from + draw() % 5000;
        }
        got[n] = 42;
        hash_xxh3_64.keys(data, len, n, &(struct hash_seed){.number = seed}, got, 0);
        bool ok = got[n] == 42;
        for (size_t i = 0; i < n; i++)
            ok &= got[i] == XXH3_64bits_withSeed(data[i], len[i], seed);

        /* The same lengths as records, as far as the bytes go. */
        size_t m = 0;
        for (const char *p = from; m < n && p + len[m] + 1 <= from + sizeof pattern; m++) {
            data[m] = p;
            p += len[m] + 1;
            data[m + 1] = p;
        }
        got[m] = 42;
        hash_xxh3_64.keys(data, NULL, m, &(struct hash_seed){.number = seed}, got, 0);
        ok &= got[m] == 42;
        for (size_t i = 0; i < m; i++)
            ok &= got[i] == XXH3_64bits_withSeed(data[i], len[i], seed);
        if (!ok)
            printf("# variant %s, round %u, %zu keys\n", in_use(), round, n);
        CHECK(ok);
    }
}

TEST(all_that_this_cpu_has_is_listed)
{
    static const struct variant expected[] = {
        {"avx512", cpu_has_avx512},
        {"avx2", cpu_has_avx2},
        {"plain", NULL},
    };
    CHECK_VARIANTS(&xxh3_variants, expected);
}

int main(int argc, char **argv)
{
    random_begin(argc, argv);
    make_pattern();
    RUN(hashes_are_those_of_the_format);
    RUN(every_length_agrees_with_the_library);
    RUN(many_at_once_hash_as_one_at_a_time);
    RUN(all_that_this_cpu_has_is_listed);
    return check_done();
}

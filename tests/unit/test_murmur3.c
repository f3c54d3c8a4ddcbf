/* SPDX-License-Identifier: MIT */
/* MurmurHash3 is part of the file format, and of other programs' formats: it may never change.
 * tags: computing portable foreign */
#include "check.h"
#include "keys/hash.h"

enum { LONGEST = 40 };

/* Hashes with seed 0 of the first `len` bytes of 11, 48, 85, ... (i * 37 + 11 mod 256), as Guava's
 * murmur3_128 computes them. */
static const struct {
    size_t len;
    uint64_t lane[2];
} vectors[] = {
    {0, {0x0000000000000000, 0x0000000000000000}},  {1, {0x932fc7cce617f1e7, 0x7a434b816c4508dc}},
    {7, {0x8340cc686662983b, 0xa08f38dfaa7ff6f9}},  {8, {0xf0b144007f89ced7, 0xd02221832d7af9a1}},
    {9, {0xdbb3088eaec8a0b1, 0xcbde24182efe09a9}},  {15, {0x2906f047b67f83ff, 0x49ca338fe7701fac}},
    {16, {0xda9c66580c5ef0fb, 0x885aae87bb6c5ff7}}, {17, {0x78b8ee9a775e07d1, 0xe36790301698fce0}},
    {24, {0x8372e2feeb61eb1c, 0xe8f405aaf3f01b03}}, {31, {0xb1ca061ed4c5532f, 0xcb6926489e7b3763}},
    {32, {0xaf7374eb8efe799b, 0x3a5200924dcdd6ff}}, {33, {0x08b88a88c3099ba9, 0x15c06fbdb5df8af9}},
    {40, {0xbf77aa22e65e7cfc, 0x15f2951b4c05748b}},
};

enum { N_VECTORS = sizeof vectors / sizeof *vectors };

static const struct hash_fn *murmur3(void)
{
    return hash_by_id(2);
}

/* All keys, one behind the other, each with a terminator. */
struct records {
    char data[N_VECTORS * (LONGEST + 1)];
    const char *begin[N_VECTORS + 1];
    size_t len[N_VECTORS];
};

static void make_records(struct records *r)
{
    char *at = r->data;
    for (size_t v = 0; v < N_VECTORS; v++) {
        r->begin[v] = at;
        r->len[v] = vectors[v].len;
        for (size_t i = 0; i < vectors[v].len; i++)
            *at++ = (char)(i * 37 + 11);
        *at++ = '\n';
    }
    r->begin[N_VECTORS] = at;
}

TEST(it_has_an_id_and_two_lanes)
{
    CHECK(murmur3() != NULL && murmur3()->lanes == 2);
    CHECK_STR(murmur3()->name, "murmur3-128");
}

TEST(keys_hash_as_elsewhere)
{
    struct records r;
    uint64_t hash[2 * N_VECTORS];
    const struct hash_seed seed = {.number = 0};
    make_records(&r);
    murmur3()->keys(r.begin, r.len, N_VECTORS, &seed, hash, N_VECTORS);
    for (size_t v = 0; v < N_VECTORS; v++)
        CHECK(hash[v] == vectors[v].lane[0] && hash[N_VECTORS + v] == vectors[v].lane[1]);
}

TEST(records_hash_as_keys)
{
    struct records r;
    uint64_t of_keys[2 * N_VECTORS], of_records[2 * N_VECTORS];
    const struct hash_seed seed = {.number = 0x123456789abcdef0};
    make_records(&r);
    murmur3()->keys(r.begin, r.len, N_VECTORS, &seed, of_keys, N_VECTORS);
    murmur3()->keys(r.begin, NULL, N_VECTORS, &seed, of_records, N_VECTORS);
    CHECK(memcmp(of_keys, of_records, sizeof of_keys) == 0);
    CHECK(of_keys[0] != vectors[0].lane[0]);
}

int main(void)
{
    RUN(it_has_an_id_and_two_lanes);
    RUN(keys_hash_as_elsewhere);
    RUN(records_hash_as_keys);
    return check_done();
}

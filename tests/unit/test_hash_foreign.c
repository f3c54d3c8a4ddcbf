/* SPDX-License-Identifier: MIT
 * The hash functions of other programs: they may never change. tests/vectors/hash has what these
 * programs make of some keys; its file `keys` has a key in hexadecimal in each line, and that of a
 * function, in the same line, the lanes.
 *
 * tags: computing portable foreign
 */
#include "check.h"
#include "golden.h"
#include "keys/hash.h"
#include "foreign/hash.h"

#include <stdlib.h>

/* TAILS keys of 0 to 64 bytes, then some URLs, words and numbers, of up to 5 KB. */
enum { TAILS = 65, N_KEYS = 85, SUFFIXED = N_KEYS - TAILS, GAP = 3, STRIDE = N_KEYS + GAP };

static const uint64_t UNTOUCHED = 0x0123456789abcdef;

struct keys {
    char *data[N_KEYS]; /* each in memory of its own, of exactly its length */
    size_t len[N_KEYS];
    char *all; /* the same one behind the other, with a byte behind each */
    const char *record[N_KEYS + 1];
} keys;

static FILE *open_golden(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/hash/%s", VECTORS, name);
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        printf("# no %s\n", path);
        exit(1);
    }
    return f;
}

static void *get_memory(size_t n)
{
    void *p = malloc(n);
    if (p == NULL)
        exit(1);
    return p;
}

static void read_keys(void)
{
    static char line[1 << 14];
    size_t sum = 0;
    FILE *f = open_golden("keys");
    for (size_t k = 0; k < N_KEYS; k++) {
        if (fgets(line, sizeof line, f) == NULL || strchr(line, '\n') == NULL)
            exit(1);
        keys.len[k] = strcspn(line, "\n") / 2;
        keys.data[k] = get_memory(keys.len[k]);
        for (size_t i = 0; i < keys.len[k]; i++) {
            const char digits[] = {line[2 * i], line[2 * i + 1], 0};
            keys.data[k][i] = (char)strtoul(digits, NULL, 16);
        }
        sum += keys.len[k] + 1;
    }
    fclose(f);
    char *at = keys.all = get_memory(sum);
    for (size_t k = 0; k < N_KEYS; k++) {
        keys.record[k] = at;
        if (keys.len[k] > 0)
            memcpy(at, keys.data[k], keys.len[k]);
        at += keys.len[k];
        *at++ = '\n';
    }
    keys.record[N_KEYS] = at;
}

static void free_keys(void)
{
    for (size_t k = 0; k < N_KEYS; k++)
        free(keys.data[k]);
    free(keys.all);
}

static void clear(uint64_t *hash)
{
    for (size_t i = 0; i < HASH_LANES * STRIDE; i++)
        hash[i] = UNTOUCHED;
}

static void hash_keys(const struct hash_fn *fn, uint64_t seed, uint64_t *hash)
{
    const struct hash_seed start = {.number = seed};
    clear(hash);
    fn->keys((const char *const *)keys.data, keys.len, N_KEYS, &start, hash, STRIDE);
}

static const uint64_t ALL_OF_PHP = 0x87654321, REDISBLOOM = 0xc6a4a7935bd1e995,
                      REDISBLOOM_32 = 0x9747b28c;

static const struct function {
    uint32_t id;
    const char *name;
    unsigned lanes;
    uint64_t seed;
} functions[] = {
    {2, "murmur3-128", 2, 0},
    {3, "murmur3-128-suffix", 14, 0},
    {4, "highway-128", 2, 0},
    {5, "murmur64a-pair", 2, REDISBLOOM},
    {6, "murmur2-pair", 2, REDISBLOOM_32},
    {8, "fnv1-64", 1, 0},
    {9, "php-32", 8, ALL_OF_PHP},
    {11, "murmur3-128-twice", 4, 0},
    {12, "murmur3-spark", 2, 0},
};

enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

TEST(functions_have_their_names)
{
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        const struct function *f = &functions[i];
        const struct hash_fn *fn = hash_by_id(f->id);
        CHECK(fn != NULL && fn->id == f->id && fn->lanes == f->lanes);
        CHECK_STR(fn->name, f->name);
    }
    CHECK(hash_by_id(0) == NULL && hash_by_id(UINT32_MAX) == NULL);
}

/* Of go-zero's function the programs gave the first lane, the last, and all of them modulo
 * SUFFIX_BITS, for the keys behind the tails. */
enum { SUFFIX_BITS = 20000 };

TEST(keys_hash_as_elsewhere)
{
    static uint64_t hash[HASH_LANES * STRIDE];
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        const struct hash_fn *fn = hash_by_id(functions[i].id);
        size_t wrong = 0;
        if (fn->id == 3 || fn->id > 10) /* they have tests of their own */
            continue;
        FILE *f = open_golden(fn->name);
        hash_keys(fn, functions[i].seed, hash);
        for (size_t k = 0; k < N_KEYS; k++)
            for (unsigned l = 0; l < fn->lanes; l++) {
                unsigned long long want;
                CHECK(fscanf(f, "%llx", &want) == 1);
                wrong += hash[l * STRIDE + k] != want;
            }
        if (wrong > 0)
            printf("# %s: %zu wrong\n", fn->name, wrong);
        CHECK(wrong == 0);
        fclose(f);
    }
}

/* A function's values for the keys in the first column of a table. */
static void hash_row(struct golden_table *t, uint32_t id, uint64_t hash[HASH_LANES])
{
    struct golden key = {(uint8_t *)t->field[0], 0};
    if (strcmp(t->field[0], "-") != 0)
        key = golden_hex(t->field[0]);
    const char *data = (const char *)key.data;
    hash_by_id(id)->keys(&data, &key.len, 1, &(struct hash_seed){.number = 0}, hash, 1);
}

/* The program gave the first eight sums, of which positions are the remainders. */
TEST(two_hashes_of_a_key_sum_as_elsewhere)
{
    struct golden_table t = golden_table("bitsandblooms/hash_tails.tsv");
    size_t rows = 0;
    for (; golden_row(&t); rows++) {
        uint64_t h[HASH_LANES];
        hash_row(&t, 11, h);
        for (uint64_t i = 0; i < 8; i++) {
            uint64_t start = i % 2 == 0 ? h[0] : h[1], step = i % 4 % 3 == 0 ? h[2] : h[3];
            CHECK(start + i * step == strtoull(t.field[i + 1], NULL, 16));
        }
    }
    CHECK(rows == TAILS);
    free(t.text.data);
}

TEST(bytes_behind_the_words_hash_as_in_spark)
{
    struct golden_table t = golden_table("spark/hash_tails.tsv");
    size_t rows = 0;
    for (; golden_row(&t); rows++) {
        uint64_t h[HASH_LANES];
        hash_row(&t, 12, h);
        CHECK(h[0] == strtoull(t.field[1], NULL, 16) && h[1] == strtoull(t.field[2], NULL, 16));
    }
    CHECK(rows == TAILS);
    free(t.text.data);
}

TEST(suffixed_keys_hash_as_elsewhere)
{
    static uint64_t hash[HASH_LANES * STRIDE];
    FILE *f = open_golden("murmur3-128-suffix");
    hash_keys(hash_by_id(3), 0, hash);
    for (size_t k = TAILS; k < N_KEYS; k++) {
        unsigned long long first, last;
        CHECK(fscanf(f, "%llx %llx", &first, &last) == 2);
        CHECK(hash[k] == first && hash[13 * STRIDE + k] == last);
        for (unsigned l = 0; l < 14; l++) {
            unsigned position;
            CHECK(fscanf(f, "%u", &position) == 1);
            CHECK(hash[l * STRIDE + k] % SUFFIX_BITS == position);
        }
    }
    fclose(f);
}

TEST(a_suffix_is_one_more_byte)
{
    static uint64_t hash[HASH_LANES * STRIDE];
    const struct hash_seed seed = {.number = 0x1122334455667788};
    hash_keys(hash_by_id(3), seed.number, hash);
    for (size_t k = 0; k < TAILS; k++)
        for (unsigned l = 0; l < 14; l++) {
            char longer[TAILS];
            const char *data = longer;
            uint64_t of_longer[2];
            size_t len = keys.len[k] + 1;
            if (keys.len[k] > 0)
                memcpy(longer, keys.data[k], keys.len[k]);
            longer[keys.len[k]] = (char)l;
            hash_by_id(2)->keys(&data, &len, 1, &seed, of_longer, 1);
            CHECK(hash[l * STRIDE + k] == of_longer[0]);
        }
}

TEST(records_hash_as_keys)
{
    static uint64_t of_keys[HASH_LANES * STRIDE], of_records[HASH_LANES * STRIDE];
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        const struct hash_fn *fn = hash_by_id(functions[i].id);
        hash_keys(fn, functions[i].seed, of_keys);
        const struct hash_seed seed = {.number = functions[i].seed};
        clear(of_records);
        fn->keys(keys.record, NULL, N_KEYS, &seed, of_records, STRIDE);
        CHECK(memcmp(of_keys, of_records, sizeof of_keys) == 0);
    }
}

TEST(nothing_else_is_written)
{
    static uint64_t hash[HASH_LANES * STRIDE];
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        hash_keys(hash_by_id(functions[i].id), functions[i].seed, hash);
        size_t touched = 0;
        for (size_t at = 0; at < HASH_LANES * STRIDE; at++)
            if (at % STRIDE >= N_KEYS || at / STRIDE >= functions[i].lanes)
                touched += hash[at] != UNTOUCHED;
        CHECK(touched == 0);
    }
}

/* Modules before 2.0.2 have a seed of 32 bits, and cut that of the second lane to them. */
TEST(murmur64a_cuts_seeds_of_32_bits)
{
    static uint64_t hash[HASH_LANES * STRIDE];
    static const uint64_t seeds[] = {0, 0x5bd1e995, UINT32_MAX, (uint64_t)UINT32_MAX + 1,
                                     REDISBLOOM};
    for (size_t s = 0; s < sizeof seeds / sizeof *seeds; s++) {
        hash_keys(hash_by_id(5), seeds[s], hash);
        for (size_t k = 0; k < N_KEYS; k++) {
            uint64_t second[2];
            const struct hash_seed seed = {.number = s < 3 ? hash[k] & UINT32_MAX : hash[k]};
            const char *data = keys.data[k];
            hash_by_id(5)->keys(&data, &keys.len[k], 1, &seed, second, 1);
            CHECK(hash[STRIDE + k] == second[0]);
        }
    }
}

TEST(seeds_count_where_they_should)
{
    static uint64_t hash[HASH_LANES * STRIDE], other[HASH_LANES * STRIDE];
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        const struct hash_fn *fn = hash_by_id(functions[i].id);
        bool fixed = fn->id == 4 || fn->id == 8;
        hash_keys(fn, functions[i].seed, hash);
        hash_keys(fn, functions[i].seed ^ 1 << 4, other);
        for (size_t k = 0; k < N_KEYS && fn->id != 9; k++)
            CHECK((hash[k] == other[k]) == fixed);
    }
}

TEST(a_php_seed_lists_functions)
{
    static uint64_t all[HASH_LANES * STRIDE], some[HASH_LANES * STRIDE];
    const struct hash_fn *fn = hash_by_id(9);
    hash_keys(fn, ALL_OF_PHP, all);
    hash_keys(fn, 0x7117, some);
    for (size_t k = 0; k < N_KEYS; k++) {
        CHECK(some[k] == all[6 * STRIDE + k] && some[3 * STRIDE + k] == some[k]);
        CHECK(some[STRIDE + k] == all[k] && some[2 * STRIDE + k] == all[k]);
        for (unsigned l = 4; l < fn->lanes; l++)
            CHECK(some[l * STRIDE + k] == 0);
    }
    /* No lists: they hash all keys to 0. */
    static const uint64_t wrong[] = {0, 0x10, 0x1201, 9, 0xf1, 0x111111111, UINT64_MAX};
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        CHECK(php_functions(wrong[w]) == 0);
        hash_keys(fn, wrong[w], some);
        for (unsigned l = 0; l < fn->lanes; l++)
            CHECK(some[l * STRIDE + 5] == 0);
    }
    CHECK(php_functions(5) == 1 && php_functions(0x7117) == 4 && php_functions(ALL_OF_PHP) == 8);
}

TEST(php_functions_have_names)
{
    static const char *const names[] = {"BKDRHash", "SDBMHash", "JSHash",  "DJBHash",
                                        "DEKHash",  "FNVHash",  "ELFHash", "PJWHash"};
    for (unsigned f = 1; f <= PHP_LAST; f++) {
        CHECK_STR(php_name(f), names[f - 1]);
        CHECK(php_by_name(names[f - 1]) == f);
    }
    CHECK(php_name(0) == NULL && php_name(PHP_LAST + 1) == NULL && php_by_name("BKDR") == 0);
}

int main(void)
{
    read_keys();
    RUN(functions_have_their_names);
    RUN(keys_hash_as_elsewhere);
    RUN(two_hashes_of_a_key_sum_as_elsewhere);
    RUN(bytes_behind_the_words_hash_as_in_spark);
    RUN(suffixed_keys_hash_as_elsewhere);
    RUN(a_suffix_is_one_more_byte);
    RUN(records_hash_as_keys);
    RUN(nothing_else_is_written);
    RUN(murmur64a_cuts_seeds_of_32_bits);
    RUN(seeds_count_where_they_should);
    RUN(a_php_seed_lists_functions);
    RUN(php_functions_have_names);
    free_keys();
    return check_done();
}

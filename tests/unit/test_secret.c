/* SPDX-License-Identifier: MIT */
/* SipHash-2-4 and the files of secrets, against the vectors of the paper and of seen(5). */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "file/format.h"
#include "file/newfile.h"
#include "file/secret.h"

#ifdef SEEN_SODIUM
#include "scratchdir.h"

static struct err err;

/* Bytes 0, 1, 2 and so on. */
static struct secret counting(void)
{
    struct secret secret;
    for (size_t i = 0; i < sizeof secret.bytes; i++)
        secret.bytes[i] = (uint8_t)i;
    return secret;
}

/* Of the bytes 0, 1, ... up to len. */
static uint64_t hash_of(const struct hash_seed *seed, const char *key, size_t len)
{
    uint64_t hash;
    hash_keyed()->keys(&key, &len, 1, seed, &hash, 1);
    return hash;
}

TEST(the_function_has_an_id_and_a_key)
{
    CHECK(hash_by_id(10) == hash_keyed() && hash_keyed()->keyed && hash_keyed()->lanes == 1);
    CHECK_STR(hash_keyed()->name, "siphash-2-4");
    CHECK(!hash_usual()->keyed);
}

/* The first are of the reference implementation's vectors_sip64, read as numbers; the paper has
 * that of 15 bytes. */
TEST(it_is_siphash)
{
    static const uint64_t first[] = {0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a,
                                     0x85676696d7fb7e2d, 0xcf2794e0277187b7, 0x18765564cd99a68d,
                                     0xcbc9466e58fee3ce, 0xab0200f58b01d137};
    char bytes[15];
    struct hash_seed seed = {.number = 7};
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    for (size_t i = 0; i < sizeof seed.key; i++)
        seed.key[i] = (uint8_t)i;
    for (size_t len = 0; len < sizeof first / sizeof *first; len++)
        CHECK(hash_of(&seed, bytes, len) == first[len]);
    CHECK(hash_of(&seed, bytes, 15) == 0xa129ca6149be45e5);
}

TEST(records_hash_as_keys)
{
    static const char text[] = "a\n\nlonger than one word\n";
    const char *record[] = {text, text + 2, text + 3, text + sizeof text - 1};
    const struct hash_seed seed = {.key = {1, 2, 3}};
    uint64_t hash[3];
    hash_keyed()->keys(record, NULL, 3, &seed, hash, 3);
    for (size_t i = 0; i < 3; i++)
        CHECK(hash[i] == hash_of(&seed, record[i], (size_t)(record[i + 1] - record[i]) - 1));
}

TEST(keys_are_derived_as_the_manual_says)
{
    struct secret secret = counting();
    struct hash_seed seed = {.number = 0}, other = {.number = 0x123456789abcdef0};
    secret_seed(&secret, &seed);
    secret_seed(&secret, &other);
    CHECK(hash_of(&seed, "", 0) == 0x6138374c20365338);
    CHECK(hash_of(&seed, "apple", 5) == 0x31a00976ca157e79);
    CHECK(hash_of(&other, "apple", 5) == 0x73ce980250e1d3ae);
}

TEST(a_mark_tells_secrets_apart_and_proves_the_header)
{
    static const uint8_t proof[] = {0xb4, 0x76, 0xce, 0x80, 0x58, 0x88, 0x68, 0x3d,
                                    0xba, 0x23, 0x99, 0xa0, 0x79, 0x7d, 0x9b, 0x1e};
    struct secret secret = counting(), other = counting();
    struct header h = {.hash = hash_keyed(), .prep = 3};
    char text[SECRET_ID_TEXT];
    secret_mark(&secret, h.hash, h.seed, h.prep, &h.secret);
    secret_id_text(&h.secret, text);
    CHECK_STR(text, "b642c91b763587f336ddeeb31f4e0ad3");
    CHECK(memcmp(h.secret.proof, proof, sizeof proof) == 0);
    MUST(secret_check(&secret, &h, "f", &err));
    other.bytes[31] ^= 1;
    CHECK(!secret_check(&other, &h, "f", &err));
    CHECK_STR(err.text, "is not the secret of 'f': its identifier is "
                        "ffc2fdcaeba9d6f497fd27847655ac4f, the filter needs "
                        "b642c91b763587f336ddeeb31f4e0ad3");
    /* Each field that the proof covers. */
    static const char forged[] = "is the secret that 'f' names, but its header was not signed "
                                 "with it: the filter is forged";
    struct header changed[] = {h, h, h, h};
    changed[0].seed = 1;
    changed[1].prep = 0;
    changed[2].hash = hash_usual();
    changed[3].secret.proof[15] ^= 0x80;
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
        CHECK(!secret_check(&secret, &changed[i], "f", &err));
        CHECK_STR(err.text, forged);
    }
}

TEST(a_wiped_secret_is_gone)
{
    struct secret secret = counting();
    const struct secret none = {0};
    secret_wipe(&secret);
    CHECK(memcmp(&secret, &none, sizeof none) == 0);
}

static void write_bytes(const char *path, size_t n, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    static const char bytes[100] = {1, 2};
    CHECK(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && fchmod(fd, mode) == 0);
    close(fd);
}

TEST(files_of_another_length_are_refused)
{
    struct secret secret;
    bool others;
    write_bytes("s", 31, 0600);
    CHECK(!secret_read(&secret, "s", &others, &err));
    CHECK_STR(err.text, "'s' is not a valid secret: it has 31 bytes, not 32");
    write_bytes("s", 33, 0600);
    CHECK(!secret_read(&secret, "s", &others, &err));
    CHECK_STR(err.text, "'s' is not a valid secret: it is longer than 32 bytes");
    write_bytes("s", 0, 0600);
    CHECK(!secret_read(&secret, "s", &others, &err));
    write_bytes("s", 32, 0600);
    MUST(secret_read(&secret, "s", &others, &err));
    CHECK(!others);
}

static bool reads(const char bytes[static SECRET_LEN])
{
    struct secret secret;
    bool others;
    FILE *f = fopen("s", "w");
    CHECK(f != NULL && fwrite(bytes, 1, SECRET_LEN, f) == SECRET_LEN && fclose(f) == 0);
    return secret_read(&secret, "s", &others, &err);
}

TEST(secrets_that_can_be_guessed_are_refused)
{
    char text[] = " 2345678901234567890123456789012~";
    CHECK(!reads(text));
    CHECK_STR(
        err.text,
        "'s' is not a valid secret: it is text, which can be guessed; --new-secret makes one");
    for (unsigned i = 0; i < SECRET_LEN; i += SECRET_LEN - 1) {
        char kept = text[i];
        text[i] = 0x7f;
        CHECK(reads(text));
        text[i] = kept;
    }
    char equal[SECRET_LEN] = {0};
    CHECK(!reads(equal));
    CHECK_STR(err.text, "'s' is not a valid secret: it is one byte repeated, which can be guessed; "
                        "--new-secret makes one");
    equal[SECRET_LEN - 1] = 1;
    CHECK(reads(equal));
}

TEST(who_else_can_read_or_change_it_is_told)
{
    static const mode_t shared[] = {0640, 0620, 0604, 0602, 0666};
    struct secret secret;
    bool others;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        write_bytes("s", 32, shared[i]);
        CHECK(secret_read(&secret, "s", &others, &err) && others);
    }
    write_bytes("s", 32, 0700);
    CHECK(secret_read(&secret, "s", &others, &err) && !others);
    write_bytes("s", 32, 0400);
    CHECK(secret_read(&secret, "s", &others, &err) && !others);
    unlink("s");
}

static void make_one(void)
{
    struct secret a, b;
    struct stat st;
    bool others;
    umask(0);
    MUST(secret_make("a", &err));
    CHECK(stat("a", &st) == 0 && st.st_size == SECRET_LEN && (st.st_mode & 07777) == 0600);
    MUST(secret_make("b", &err));
    MUST(secret_read(&a, "a", &others, &err));
    MUST(secret_read(&b, "b", &others, &err));
    CHECK(memcmp(&a, &b, sizeof a) != 0);
    /* Never overwritten. */
    CHECK(!secret_make("a", &err));
    MUST(secret_read(&b, "a", &others, &err));
    CHECK(memcmp(&a, &b, sizeof a) == 0);
    CHECK(umask(022) == 0);
    unlink("a");
    unlink("b");
}

TEST(a_new_secret_is_its_owners_alone)
{
    make_one();
    CHECK(!secret_make("none/a", &err));
}

int main(void)
{
    if (!scratchdir_enter())
        return 1;
    RUN(the_function_has_an_id_and_a_key);
    RUN(it_is_siphash);
    RUN(records_hash_as_keys);
    RUN(keys_are_derived_as_the_manual_says);
    RUN(a_mark_tells_secrets_apart_and_proves_the_header);
    RUN(a_wiped_secret_is_gone);
    RUN(files_of_another_length_are_refused);
    RUN(secrets_that_can_be_guessed_are_refused);
    RUN(who_else_can_read_or_change_it_is_told);
    RUN(a_new_secret_is_its_owners_alone);
    scratchdir_leave();
    return check_done();
}
#else
/* Without libsodium no secret is read or made, and the reason is told. */
TEST(what_is_missing_is_told)
{
    static const char why[] = "cannot use secret 's': this program was built without libsodium (on "
                              "Debian, install libsodium-dev and build it again)";
    struct secret secret;
    struct err err;
    bool others;
    CHECK(!secret_make("s", &err));
    CHECK_STR(err.text, why);
    CHECK(!secret_read(&secret, "s", &others, &err));
    CHECK_STR(err.text, why);
    CHECK(secret_sodium_version() == NULL && hash_by_id(10) == hash_keyed());
}

int main(void)
{
    RUN(what_is_missing_is_told);
    return check_done();
}
#endif

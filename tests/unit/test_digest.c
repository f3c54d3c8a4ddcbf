/* SPDX-License-Identifier: MIT */
/* Digests: known ones, of keys of every length, in as much room as they say that they need.
 * tags: portable */
#include <stdint.h>
#include <stdlib.h>

#include "check.h"
#include "keys/batch.h"
#include "keys/digest.h"
#include "keys/prep.h"
#include "keys/prepare.h"
#include "keys/xxh3.h"

#define TEXT(s)      (s), sizeof(s) - 1
#define DIGEST(name) ((uint32_t)DIGEST_##name << PREP_DIGEST_SHIFT)

/* Makes the digest in a block of just the room that it takes. */
static bool has_digest(const char *name, const char *key, size_t len, const char *want)
{
    const struct digest *d = digest_by_name(name);
    char *out = malloc(d->fixed + d->per_byte * len), text[65] = "";
    bool made = d->make(key, len, out);
    for (size_t i = 0; made && i < d->len; i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned char)out[i]);
    free(out);
    return strcmp(text, want) == 0;
}

/* From RFC 3174, 6234 and 1321; that of "password" for NTLM is widely known. */
TEST(known_digests)
{
    CHECK(has_digest("sha1", TEXT(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709"));
    CHECK(has_digest("sha1", TEXT("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d"));
    CHECK(has_digest("sha256", TEXT("abc"),
                     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
    CHECK(has_digest("md5", TEXT("message digest"), "f96b697d7cb7938d525a2f31aaf161d0"));
    CHECK(has_digest("ntlm", TEXT(""), "31d6cfe0d16ae931b73c59d7e0c089c0"));
    CHECK(has_digest("ntlm", TEXT("password"), "8846f7eaee8fb117ad06bdd830b7586c"));
    CHECK(has_digest("ntlm", TEXT("a\xff"), ""));
    CHECK(has_digest("ntlm", TEXT("\xed\xa0\xbd\xed\xb8\x80"), ""));
}

TEST(digests_have_names_and_numbers)
{
    static const struct {
        unsigned id;
        const char *name;
        size_t len;
    } all[] = {{1, "sha1", 20}, {2, "sha256", 32}, {3, "md5", 16}, {4, "ntlm", 16}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct digest *d = digest_by_id(all[i].id);
        CHECK(d != NULL && d == digest_by_name(all[i].name) && d->len == all[i].len);
        CHECK(strstr(DIGEST_NAMES, all[i].name) != NULL);
    }
    CHECK(digest_by_id(0) == NULL && digest_by_id(5) == NULL);
    CHECK(digest_by_name("none") == NULL && digest_by_name("SHA1") == digest_by_id(1));
}

/* Makes one batch of the input, in a block of just its size, as keys given by that rule. */
static struct batch *batch_of(const struct key_rule *rule, char **copy, const char *input,
                              size_t len)
{
    struct batch *b = batch_new(rule);
    *copy = malloc(len);
    memcpy(*copy, input, len);
    batch_start(b, *copy, len);
    return b;
}

/* 300 keys, which are folded; those in digits are their digests. */
TEST(a_batch_digests_its_keys_or_takes_digests)
{
    for (unsigned id = DIGEST_SHA1; id <= DIGEST_NTLM; id++) {
        const struct digest *d = digest_by_id(id);
        char keys[300 * 302], digits[300 * 65], *copy;
        size_t len = 0, digits_len = 0;
        uint64_t want[300];
        for (size_t i = 0; i < 300; i++) {
            char key[300], out[600];
            memset(key, 'a' + (int)(i % 26), i);
            CHECK(d->make(key, i, out));
            want[i] = xxh3_bytes(out, d->len, 0);
            memset(keys + len, 'A' + (int)(i % 26), i);
            len += i;
            keys[len++] = '\n';
            for (size_t j = 0; j < d->len; j++, digits_len += 2)
                snprintf(digits + digits_len, 3, i % 2 ? "%02x" : "%02X", (unsigned char)out[j]);
            digits[digits_len++] = '\n';
        }
        for (int digested = 0; digested <= 1; digested++) {
            const struct key_rule rule = {.terminator = '\n',
                                          .prep = PREP_FOLD | id << PREP_DIGEST_SHIFT,
                                          .digested = digested};
            struct batch *b = digested ? batch_of(&rule, &copy, digits, digits_len)
                                       : batch_of(&rule, &copy, keys, len);
            size_t n = 0;
            for (; batch_next(b); n += b->n)
                for (size_t i = 0; i < b->n; i++)
                    CHECK(b->hash[i] == want[n + i] && !batch_key_stays(b, i));
            CHECK(n == 300 && !b->bad_record);
            batch_free(b);
            free(copy);
        }
    }
}

TEST(records_that_are_no_digests)
{
    static const struct {
        uint32_t prep;
        bool digested;
        const char *text, *why;
    } bad[] = {
        {DIGEST(MD5), true, "", "is not an MD5 digest (32 hexadecimal digits)"},
        {DIGEST(MD5), true, "0", "is not an MD5 digest (32 hexadecimal digits)"},
        {DIGEST(MD5), true, "0123456789abcdef0123456789abcdeg",
         "is not an MD5 digest (32 hexadecimal digits)"},
        {DIGEST(SHA1), true, "0123456789abcdef0123456789abcdef",
         "is not a SHA-1 digest (40 hexadecimal digits)"},
        {DIGEST(SHA256), true, "0123456789abcdef0123456789abcdef01234567",
         "is not a SHA-256 digest (64 hexadecimal digits)"},
        {DIGEST(NTLM), true, "0123456789abcdef0123456789abcdef00",
         "is not an NTLM digest (32 hexadecimal digits)"},
        {DIGEST(NTLM), false, "\xc0\x80", "not UTF-8"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct key_rule rule = {
            .terminator = 0, .prep = bad[i].prep, .digested = bad[i].digested, .given = true};
        struct batch *b = batch_new(&rule);
        batch_start(b, bad[i].text, strlen(bad[i].text) + 1);
        CHECK(!batch_next(b) && b->bad_record);
        CHECK_STR(b->bad_reason.text, bad[i].why);
        rule.skip_bad = true;
        batch_start(b, bad[i].text, strlen(bad[i].text) + 1);
        CHECK(batch_next(b) && b->n_bad == 1 && batch_keep_good(b) == 0);
        batch_free(b);
    }
}

/* A coprocess wipes after each question. */
TEST(a_short_key_costs_no_more_after_a_long_one)
{
    const struct key_rule rule = {.terminator = '\n', .prep = DIGEST(NTLM) | PREP_FOLD};
    enum { LONG = 100000 };
    struct batch *b = batch_new(&rule);
    char *text = malloc(LONG + 1);
    memset(text, 'A', LONG);
    text[LONG] = '\n';
    batch_start(b, text, LONG + 1);
    CHECK(batch_next(b) && b->scratch_used > LONG);
    batch_wipe(b);
    batch_start(b, text + LONG - 10, 11);
    CHECK(batch_next(b) && b->scratch_used > 10 && b->scratch_used < 100);
    CHECK(b->scratch_len > LONG); /* wiped already */
    for (size_t i = b->scratch_used; i < LONG; i++)
        CHECK(b->scratch[i] == 0);
    batch_free(b);
    free(text);
}

TEST(digests_in_lists)
{
    const uint32_t prep = DIGEST(MD5) | PREP_FOLD;
    CHECK(prepare_differs(prep, TEXT("0123456789ABCDEF0123456789ABCDEF")) == NULL);
    CHECK(prepare_differs(prep, TEXT("0123456789abcdef0123456789abcdef")) == NULL);
    CHECK_STR(prepare_differs(prep, TEXT("0123456789abcdef0123456789abcdeF")),
              "mixes upper and lower case");
    CHECK(prepare_differs(PREP_UPPER, TEXT("A[Z")) == NULL);
    CHECK_STR(prepare_differs(PREP_UPPER, TEXT("AbZ")), "has small letters");
    CHECK_STR(prepare_differs(prep, TEXT("0123")), "is not an MD5 digest (32 hexadecimal digits)");
    CHECK_STR(prepare_differs(prep, TEXT("dragon")), "is not hexadecimal");
    CHECK_STR(prepare_differs(prep | PREP_TRIM, TEXT(" 00")), "has blanks around it");
    CHECK(prep_in_digits(prep) && prep_in_digits(PREP_HEX) && !prep_in_digits(PREP_FOLD));
}

int main(void)
{
    const char *missing = digest_missing();
    if (missing == NULL) {
        RUN(known_digests);
        RUN(a_batch_digests_its_keys_or_takes_digests);
        RUN(records_that_are_no_digests);
        RUN(a_short_key_costs_no_more_after_a_long_one);
    } else {
        SKIP(known_digests, missing);
        SKIP(a_batch_digests_its_keys_or_takes_digests, missing);
        SKIP(records_that_are_no_digests, missing);
        SKIP(a_short_key_costs_no_more_after_a_long_one, missing);
    }
    RUN(digests_have_names_and_numbers);
    RUN(digests_in_lists);
    return check_done();
}

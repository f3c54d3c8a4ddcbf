/* SPDX-License-Identifier: MIT */
/* keys/profile.c: the features of keys, their counts, samples and bytes. */
#include "check.h"

#include "keys/batch.h"
#include "keys/profile.h"

static bool has(const char *key, enum profile_feature feature)
{
    return profile_features(key, strlen(key)) >> feature & 1;
}

/* A key with each feature, and one that comes near. */
TEST(each_feature_is_told_from_what_is_near)
{
#define HEX32 "0123456789abcdefABCDEF0123456789"
    static const struct {
        enum profile_feature feature;
        const char *with, *without;
    } cases[] = {
        {PROFILE_CR, "a\r", "a\rb"},
        {PROFILE_CSVQ, "\"a\",\"b\"", "\"a\", \"b\""},
        {PROFILE_QUOTED, "\"a b\"", "\"a\"b\""},
        {PROFILE_QUOTED, "\"\"", "\""},
        {PROFILE_JSON, "{\"a\":1}\r", "{\"a\":1}x"},
        {PROFILE_JSON, "[1]", "["},
        {PROFILE_HEADHEX, HEX32 "  name", HEX32},
        {PROFILE_HEADHEX, HEX32 ":1", "123:1"},
        {PROFILE_TAB, "a\tb", "a b"},
        {PROFILE_PIPE, "a|b", "a;b"},
        {PROFILE_SEMI, "a;b", "a|b"},
        {PROFILE_COMMA, "a,b", "a.b"},
        {PROFILE_COLON, "http://a:80", "http://a"},
        {PROFILE_BLANK, "a b", " ab \r"},
        {PROFILE_BLANKEND, "ab\t", "a b"},
        {PROFILE_BLANKEND, " ab", "a\tb"},
        {PROFILE_HEXLEN, HEX32, HEX32 "0"},
        {PROFILE_HEXLEN, HEX32 "01234567", HEX32 "012345678"},
        {PROFILE_HEXLEN, HEX32 "012345670123456701234567", HEX32 "0123456701234567"},
        {PROFILE_HEXLEN, HEX32 HEX32, HEX32 HEX32 "0"},
        {PROFILE_HEXLEN, HEX32 HEX32 HEX32, HEX32 HEX32 HEX32 "0"},
        {PROFILE_HEXLEN, HEX32 HEX32 HEX32 HEX32, HEX32 HEX32 HEX32 HEX32 "0"},
        {PROFILE_UPPER, "aZ", "az[@"},
        {PROFILE_LOWER, "Az", "AZ{`"},
        {PROFILE_UUID, "{01234567-89aB-", "0123456-89ab-"},
        {PROFILE_UUID, "01234567-89ab-", "01234567-89ag-"},
        {PROFILE_UUID, "01234567-89ab-", "01234567-89ab_"},
        {PROFILE_UUID, "01234567-89ab-", "01234567_89ab-"},
        {PROFILE_SCHEME, "Git+ssh://a", "ab://c"},
        {PROFILE_SCHEME, "abcdefghij://", "abcdefghijk://"},
        {PROFILE_WWW, "https://www.a", "http://awww.a"},
        {PROFILE_WWW, "www.", "wwwa."},
        {PROFILE_ENDSLASH, "a/", "/"},
        {PROFILE_SLASH, "a/b", "a\\b"},
        {PROFILE_ABS, "/a", "a/"},
        {PROFILE_AT, "a@b", "a"},
        {PROFILE_COMB, "e\xcc\x81", "\xc3\xa9"},
        {PROFILE_COMB, "\xcd\xaf", "\xcd\xb0"},
        {PROFILE_HIGH, "\xc3\xa9", "e"},
        {PROFILE_LATIN1, "\xe9", "\xc3\xa9"},
        {PROFILE_LATIN1, "\xed\xa0\x80", "\xed\x9f\xbf"},
        {PROFILE_LATIN1, "\xf4\x90\x80\x80", "\xf4\x8f\xbf\xbf"},
        {PROFILE_LATIN1, "\xc0\x80", "\xc2\x80"},
        {PROFILE_DATE, "[2026-01-02 x", "2026-1-02x"},
        {PROFILE_DIGITS, "0123", "012a"},
        {PROFILE_ZERO, "0a", "a0"},
        {PROFILE_HTTPS, "https://", "https:/"},
        {PROFILE_GT, "<a>", "a>"},
        {PROFILE_DOTSLASH, "./a", ".a/"},
        {PROFILE_LINENUM, "12:a", "12"},
        {PROFILE_LINENUM, "1\t", ":1"},
        {PROFILE_SQUOTED, "'a'", "'"},
        {PROFILE_ENDDOT, "a.", "a.b"},
        {PROFILE_BSLASH, "a\\b", "a/b"},
        {PROFILE_PLUS, "+1", "1+"},
    };
    uint64_t all = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(has(cases[i].with, cases[i].feature));
        CHECK(!has(cases[i].without, cases[i].feature));
        all |= UINT64_C(1) << cases[i].feature;
    }
    CHECK(all == (UINT64_C(1) << PROFILE_FEATURES) - 1);
    CHECK(profile_features("", 0) == 0);
}

static struct profile counted(unsigned n, unsigned with, enum profile_feature feature)
{
    struct profile p = {0};
    for (unsigned i = 0; i < n; i++)
        profile_count(&p, (uint64_t)(i < with) << feature, 10 + i % 3);
    return p;
}

TEST(bytes_keep_each_count_and_damage_is_refused)
{
    uint8_t bytes[PROFILE_BYTES], again[PROFILE_BYTES];
    struct profile p = {.n = PROFILE_MOST, .shortest = 0, .longest = 65535}, got;
    for (unsigned i = 0; i < PROFILE_FEATURES; i++)
        p.count[i] = (uint16_t)(PROFILE_MOST - 100 * i);
    profile_encode(&p, bytes);
    CHECK(profile_decode(bytes, &got));
    profile_encode(&got, again);
    CHECK(memcmp(bytes, again, sizeof bytes) == 0 && got.count[35] == PROFILE_MOST - 3500);
    static const unsigned zero[] = {0, 1, 62, 63};
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++) {
        bytes[zero[i]] ^= 0x80;
        CHECK(!profile_decode(bytes, &got));
        bytes[zero[i]] ^= 0x80;
    }
    p = counted(100, 100, PROFILE_PLUS);
    p.shortest = p.longest + 1;
    profile_encode(&p, bytes);
    CHECK(!profile_decode(bytes, &got));
    p = counted(PROFILE_MOST + 1, 0, PROFILE_PLUS);
    profile_encode(&p, bytes);
    CHECK(!profile_decode(bytes, &got));
    p = counted(100, 100, PROFILE_PLUS);
    p.count[PROFILE_PLUS]++;
    profile_encode(&p, bytes);
    CHECK(!profile_decode(bytes, &got)); /* more than are sampled */
    memset(bytes, 0, sizeof bytes);
    CHECK(profile_decode(bytes, &got) && got.n == 0);
    bytes[30] = 1;
    CHECK(!profile_decode(bytes, &got));
}

/* Of a long history, what is rare is neither forgotten nor taken for nothing or all. */
TEST(added_counts_are_halved_and_keep_what_some_have)
{
    struct profile p = counted(64, 0, PROFILE_AT);
    const struct profile one = counted(1, 1, PROFILE_AT), many = counted(256, 0, PROFILE_AT);
    profile_add(&p, &one);
    CHECK(p.n == 65 && p.count[PROFILE_AT] == 1 && p.shortest == 10 && p.longest == 12);
    for (int i = 0; i < 1000; i++)
        profile_add(&p, &many);
    CHECK(p.n <= PROFILE_MOST && p.n > PROFILE_MOST / 2 - 256);
    CHECK(p.count[PROFILE_AT] >= 1 && p.count[PROFILE_AT] < p.n / 256);
    /* A feed of that form, once, stays. */
    const struct profile feed = counted(256, 256, PROFILE_AT);
    profile_add(&p, &feed);
    for (int i = 0; i < 400; i++)
        profile_add(&p, &many);
    CHECK(p.count[PROFILE_AT] > p.n / 256);
    struct profile q = counted(256, 256, PROFILE_AT);
    profile_add(&q, &many);
    for (int i = 0; i < 400; i++)
        profile_add(&q, &feed);
    CHECK(q.n - q.count[PROFILE_AT] > q.n / 256);
}

static struct profile united(const struct profile *p, uint64_t n, const struct profile *q,
                             uint64_t n_q)
{
    struct profile_union one = {0}, other = {0};
    profile_unite(&one, p, n);
    profile_unite(&one, q, n_q);
    profile_unite(&other, q, n_q);
    profile_unite(&other, p, n);
    const struct profile got = profile_of_union(&one), same = profile_of_union(&other);
    CHECK(memcmp(&got, &same, sizeof got) == 0);
    return got;
}

TEST(a_union_weighs_by_keys_in_any_order)
{
    const struct profile with = counted(256, 256, PROFILE_AT), none = {0};
    const struct profile without = counted(256, 0, PROFILE_AT), large = counted(4000, 4000, 0);
    struct profile p = united(&without, 3000, &with, 1000);
    CHECK(p.n == 256 && p.count[PROFILE_AT] == 64 && p.shortest == 10 && p.longest == 12);
    p = united(&without, UINT64_MAX, &with, 1);
    CHECK(p.n == 256 && p.count[PROFILE_AT] == 256 / 64 + 1); /* more than an odd key */
    p = united(&large, 1, &large, 1);
    CHECK(memcmp(&p, &large, sizeof p) == 0);
    p = united(&with, 1, &none, 0); /* an empty filter */
    CHECK(p.n == 256 && p.count[PROFILE_AT] == 256);
    p = united(&with, 1, &none, 1); /* one whose keys are unknown */
    CHECK(p.n == 0);
}

/* Samples records of a text, in as many chunks as there are samples. */
static struct profile profile_of(const char *text, unsigned samples)
{
    static struct profile_sample s[4];
    const struct key_rule rule = {.terminator = '\n'};
    struct batch *b = batch_new(&rule);
    size_t len = strlen(text), at = 0;
    for (unsigned i = 0; i < samples; i++) {
        size_t end = len * (i + 1) / samples;
        while (end < len && text[end - 1] != '\n')
            end++;
        profile_sample_begin(&s[i]);
        batch_start(b, text + at, end - at);
        while (batch_next(b))
            profile_sample_take(&s[i], b);
        at = end;
    }
    batch_free(b);
    for (unsigned i = 1; i < samples; i++)
        profile_sample_join(&s[0], &s[i]);
    return profile_of_sample(&s[0]);
}

/* Of the same keys it is the same, in any order, however often they come, on any threads. */
TEST(a_sample_depends_on_the_keys_alone)
{
    static char text[4][200000];
    for (int way = 0; way < 4; way++) {
        char *to = text[way];
        for (unsigned i = 0, n = 5000; i < n; i++) {
            unsigned k = way == 1 ? n - 1 - i : way == 2 ? i * 7 % n : i;
            for (int times = way == 3 && i % 5 == 0 ? 3 : 1; times > 0; times--)
                to += sprintf(to, "%u%s\n", k, k % 3 == 0 ? "@x" : "");
        }
    }
    const struct profile want = profile_of(text[0], 1);
    CHECK(want.n == PROFILE_SAMPLE);
    CHECK(want.count[PROFILE_AT] > 60 && want.count[PROFILE_AT] < 110);
    for (int way = 0; way < 4; way++)
        for (unsigned samples = 1; samples <= 4; samples++) {
            const struct profile got = profile_of(text[way], samples);
            CHECK(memcmp(&got, &want, sizeof got) == 0);
        }
    const struct profile few = profile_of("a\nb\na\na\nb\nccc\n", 2);
    CHECK(few.n == 3 && few.shortest == 1 && few.longest == 3);
}

TEST(what_differs_is_told_by_sides)
{
    const struct profile keys = counted(256, 256, PROFILE_CR), none = counted(20, 0, PROFILE_CR);
    CHECK(profile_differs(&keys, &none, PROFILE_CR) == PROFILE_KEYS_HAVE);
    CHECK(profile_differs(&none, &keys, PROFILE_CR) == PROFILE_ASKED_HAVE);
    CHECK(profile_differs(&keys, &keys, PROFILE_CR) == PROFILE_SAME);
    const struct profile odd = counted(256, 255, PROFILE_CR), some = counted(256, 250, PROFILE_CR);
    CHECK(profile_differs(&odd, &none, PROFILE_CR) == PROFILE_KEYS_HAVE);
    CHECK(profile_differs(&some, &none, PROFILE_CR) == PROFILE_SAME);
    const struct profile few = counted(100, 99, PROFILE_CR);
    CHECK(profile_differs(&few, &none, PROFILE_CR) == PROFILE_SAME);
    struct profile small = counted(256, 256, PROFILE_HEXLEN), large = small;
    small.count[PROFILE_LOWER] = large.count[PROFILE_UPPER] = 256;
    CHECK(profile_differs(&small, &large, PROFILE_HEXCASE) == PROFILE_ASKED_HAVE);
    CHECK(profile_differs(&large, &small, PROFILE_HEXCASE) == PROFILE_KEYS_HAVE);
    CHECK(profile_differs(&small, &small, PROFILE_HEXCASE) == PROFILE_SAME);
    small.shortest = small.longest = 32;
    large.shortest = large.longest = 40;
    CHECK(profile_differs(&small, &large, PROFILE_HEXSIZE) == PROFILE_ASKED_HAVE);
    CHECK(profile_differs(&small, &small, PROFILE_HEXSIZE) == PROFILE_SAME);
    struct profile mixed = small;
    mixed.longest = 40;
    CHECK(profile_differs(&small, &mixed, PROFILE_HEXSIZE) == PROFILE_SAME);
    CHECK(profile_differs(&mixed, &small, PROFILE_HEXSIZE) == PROFILE_SAME);
    /* Combining letters tell only against text that could have them, Latin-1 against any. */
    const struct profile ascii = counted(256, 0, PROFILE_HIGH),
                         high = counted(256, 99, PROFILE_HIGH);
    struct profile comb = counted(256, 99, PROFILE_COMB), latin1 = counted(256, 99, PROFILE_LATIN1);
    CHECK(profile_differs(&ascii, &comb, PROFILE_COMB) == PROFILE_SAME);
    CHECK(profile_differs(&high, &comb, PROFILE_COMB) == PROFILE_ASKED_HAVE);
    CHECK(profile_differs(&comb, &high, PROFILE_COMB) == PROFILE_KEYS_HAVE);
    CHECK(profile_differs(&comb, &ascii, PROFILE_COMB) == PROFILE_SAME);
    struct profile both = comb;
    both.count[PROFILE_HIGH] = 99;
    CHECK(profile_differs(&both, &comb, PROFILE_COMB) == PROFILE_SAME);
    CHECK(profile_differs(&ascii, &latin1, PROFILE_LATIN1) == PROFILE_ASKED_HAVE);
    CHECK(profile_differs(&latin1, &ascii, PROFILE_LATIN1) == PROFILE_SAME);
    CHECK(profile_differs(&latin1, &high, PROFILE_LATIN1) == PROFILE_KEYS_HAVE);
    char text[PROFILE_TEXT];
    CHECK_STR(profile_show(&large, text), "40 hexadecimal digits, capitals");
    large.longest = 65535;
    CHECK_STR(profile_show(&large, text), "40 to 65535 or more hexadecimal digits, capitals");
    large.n = 0;
    CHECK_STR(profile_show(&large, text), "");
}

enum form { PLAIN, PADDED, HEX, ZERO };

/* The profile of the n numbers from `first` on, in this form. */
static struct profile of_numbers(enum form form, unsigned first, unsigned n)
{
    static char text[6 * 400 + 1];
    char *end = text;
    for (unsigned i = first; i < first + n; i++)
        end += form == PLAIN    ? sprintf(end, "%u\n", i)
               : form == PADDED ? sprintf(end, "%04u\n", i)
               : form == HEX    ? sprintf(end, "%04x\n", i)
                                : sprintf(end, "0%u\n", i);
    return profile_of(text, 1);
}

TEST(zeros_are_padding_before_digits_of_one_length)
{
    enum { A = PROFILE_ASKED_HAVE, K = PROFILE_KEYS_HAVE, SAME = PROFILE_SAME };
    static const struct {
        struct {
            enum form form;
            unsigned first, n;
        } keys, asked;
        int side;
    } cases[] = {
        {{PLAIN, 1, 400}, {PADDED, 1, 400}, A},
        {{PADDED, 1, 400}, {PLAIN, 1, 400}, K},
        {{PADDED, 1, 400}, {PADDED, 1, 400}, SAME},
        {{PLAIN, 1, 400}, {HEX, 1, 400}, SAME},
        {{HEX, 4100, 400}, {PADDED, 1, 400}, SAME},
        {{PLAIN, 1000, 400}, {PADDED, 1, 400}, A},
        {{PLAIN, 1, 400}, {ZERO, 9, 300}, SAME},      /* of several lengths */
        {{PLAIN, 9700, 400}, {PADDED, 1, 400}, SAME}, /* some are longer */
        {{PLAIN, 1, 400}, {PADDED, 998, 10}, A},
        {{PLAIN, 1, 400}, {PADDED, 999, 19}, SAME}, /* one in twenty is few */
        {{PADDED, 1, 400}, {PLAIN, 100, 19}, K},
        {{PADDED, 1, 400}, {PLAIN, 100, 20}, SAME}, /* perhaps of another kind */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct profile keys =
            of_numbers(cases[i].keys.form, cases[i].keys.first, cases[i].keys.n);
        const struct profile asked =
            of_numbers(cases[i].asked.form, cases[i].asked.first, cases[i].asked.n);
        CHECK((int)profile_differs(&keys, &asked, PROFILE_PAD) == cases[i].side);
    }
}

int main(void)
{
    RUN(each_feature_is_told_from_what_is_near);
    RUN(bytes_keep_each_count_and_damage_is_refused);
    RUN(added_counts_are_halved_and_keep_what_some_have);
    RUN(a_union_weighs_by_keys_in_any_order);
    RUN(a_sample_depends_on_the_keys_alone);
    RUN(what_differs_is_told_by_sides);
    RUN(zeros_are_padding_before_digits_of_one_length);
    return check_done();
}

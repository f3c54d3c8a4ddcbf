/* SPDX-License-Identifier: MIT
 * What the keys of a filter look like: of a sample of them, how many have each of 36 features, and
 * the shortest and longest. A filter's header has it, so that a command whose keys are in another
 * form, and so are not found, can say in what they differ.
 *
 *     profile_sample_take(sample, batch);                // of each batch, one sample a thread
 *     profile_sample_join(sample, other);                // for each other thread
 *     profile = profile_of_sample(sample);
 *     ...
 *     if (profile_differs(&profile, &asked, PROFILE_CR) == PROFILE_ASKED_HAVE) ...
 *
 * The sample is of the keys with the least hashes, so it depends neither on their order, nor on
 * repeats, nor on threads. It is advice: it may be missing.
 */
#ifndef KEYS_PROFILE_H
#define KEYS_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct batch; /* keys/batch.h */
struct key_rule;

/* Of the bytes of a key. The order is that of the counts in a header (seen(5)). */
enum profile_feature {
    PROFILE_CR,      /* ends in CR */
    PROFILE_CSVQ,    /* has a delimiter (one of , ; TAB) between quotes */
    PROFILE_QUOTED,  /* one pair of quotes, around all */
    PROFILE_JSON,    /* between {} or [] */
    PROFILE_HEADHEX, /* begins with 32 hexadecimal digits or more, and goes on */
    PROFILE_TAB,     /* has one; so the next five */
    PROFILE_PIPE,
    PROFILE_SEMI,
    PROFILE_COMMA,
    PROFILE_COLON,    /* but that of "://" */
    PROFILE_BLANK,    /* within */
    PROFILE_BLANKEND, /* at either end; or a TAB */
    PROFILE_HEXLEN,   /* hexadecimal digits, as many as a digest has */
    PROFILE_UPPER,
    PROFILE_LOWER,
    PROFILE_UUID,
    PROFILE_SCHEME, /* begins with http:// and the like */
    PROFILE_WWW,    /* begins with www., perhaps after a scheme */
    PROFILE_ENDSLASH,
    PROFILE_SLASH,
    PROFILE_ABS, /* begins with a slash */
    PROFILE_AT,
    PROFILE_COMB,   /* U+0300 to U+036F in UTF-8 */
    PROFILE_HIGH,   /* a byte above 0x7f */
    PROFILE_LATIN1, /* not UTF-8 */
    PROFILE_DATE,   /* begins with YYYY-MM-DD */
    PROFILE_DIGITS, /* nothing else */
    PROFILE_ZERO,   /* begins with the digit 0 */
    PROFILE_HTTPS,
    PROFILE_GT,       /* begins with > or < */
    PROFILE_DOTSLASH, /* begins with ./ */
    PROFILE_LINENUM,  /* begins with digits, and a colon or TAB */
    PROFILE_SQUOTED,  /* between ' */
    PROFILE_ENDDOT,
    PROFILE_BSLASH,
    PROFILE_PLUS, /* begins with + */
    PROFILE_FEATURES,
    /* These are only compared: they follow from others, and from the lengths. */
    PROFILE_HEXCASE = PROFILE_FEATURES, /* digests with letters of one case */
    PROFILE_HEXSIZE,                    /* digests of one length */
    PROFILE_CASE,                       /* letters of one case */
    PROFILE_PAD,                        /* digits with zeros before them */
};

enum {
    PROFILE_BYTES = 64,
    PROFILE_MOST = 4095,  /* sampled keys */
    PROFILE_LEAST = 64,   /* for a new profile: of fewer keys, it would tell too much */
    PROFILE_SAMPLE = 256, /* keys of one command */
};

struct profile {
    unsigned n;                 /* keys sampled; 0: no profile */
    unsigned shortest, longest; /* bytes; 65535: that or more */
    uint16_t count[PROFILE_FEATURES];
};

/* Bit i: the key has feature i. */
uint64_t profile_features(const char *key, size_t len);

/* Counts one key more, of at most PROFILE_MOST. */
void profile_count(struct profile *p, uint64_t features, size_t len);

/* Adds another profile: of keys that are added. */
void profile_add(struct profile *p, const struct profile *other);

/* Of filters that are united, in any order. Begin with zero; each has n keys. */
struct profile_union {
    struct profile all; /* lengths, and the largest number sampled */
    uint64_t keys, sum[PROFILE_FEATURES];
    uint64_t any, many, any_rest, many_rest; /* bit i: some keys have feature i, or have it not */
    bool unknown;
};
void profile_unite(struct profile_union *u, const struct profile *p, uint64_t n);

/* None if a filter with keys has none. */
struct profile profile_of_union(const struct profile_union *u);

void profile_encode(const struct profile *p, uint8_t to[PROFILE_BYTES]);

/* False: damaged. */
bool profile_decode(const uint8_t from[PROFILE_BYTES], struct profile *p);

/* ---- Comparing. */

enum profile_side {
    PROFILE_SAME,       /* or not clear */
    PROFILE_ASKED_HAVE, /* all asked keys, and practically none of the filter's */
    PROFILE_KEYS_HAVE,  /* the other way round */
};

/* Does a feature, or what follows from several, tell the asked keys from a filter's? */
enum profile_side profile_differs(const struct profile *keys, const struct profile *asked,
                                  enum profile_feature feature);

/* "40 hexadecimal digits, capitals": what nearly all keys have. Writes PROFILE_TEXT bytes at most;
 * returns `text`. */
enum { PROFILE_TEXT = 600 };
const char *profile_show(const struct profile *p, char *text);

/* ---- Sampling. */

/* May something be told of such keys? Not if they are secret; and not of digits or digests, which
 * have no form of their own. */
bool profile_suits(const struct key_rule *rule);

struct profile_sample {
    uint64_t limit; /* keys with a lower hash belong to the sample */
    unsigned n;
    struct profile_key {
        uint64_t hash, features;
        size_t len;
    } key[PROFILE_SAMPLE]; /* by ascending hash */
    uint64_t known[1024];  /* hashes seen before, by their last bits: repeats cost little */
};

void profile_sample_begin(struct profile_sample *s);

/* Takes the keys of a batch, as prepared by trimming and folding. */
void profile_sample_take(struct profile_sample *s, const struct batch *b);

void profile_sample_join(struct profile_sample *s, const struct profile_sample *other);
struct profile profile_of_sample(const struct profile_sample *s);

#endif

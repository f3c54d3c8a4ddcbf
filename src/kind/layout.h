/*
 * Layouts: the filters of other programs. A layout is a kind (kind.h) with a struct layout. Inside
 * a seen file its layer is like any other; this header describes the border: how a filter of the
 * other program is named, sized, read and written.
 *
 *     struct layout_spec spec;
 *     if (!layout_parse("guava:funnel=utf16", &spec, &err)) ...
 *     const struct layout *layout = spec.kind->layout;
 *     layout->design(&spec, n, p, &filter, &err);                  // a new filter
 *     layout->read(&spec, &foreign, &filter, bits, &err);          // a foreign one
 *     layout->write(&filter, data, &options, &sink, &err);
 *
 * Here is no file and no header of ours: store/foreign.h turns a struct layout_filter into a filter
 * file and back.
 *
 * To add a layout: write a file in the folder of its family (classic/classic.h: k positions in an
 * array of bits) with a struct layout and a struct kind, and name the kind in the list in kind.c.
 */
#ifndef KIND_LAYOUT_H
#define KIND_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kind/kind.h"

enum {
    LAYOUT_PARAMS = 8,  /* parameters of a layout, at most */
    LAYOUT_TEXT = 256,  /* bytes of a spec, NUL included */
    LAYOUT_LAYERS = 29, /* layers of a filter, at most: those of a filter file (store/format.h) */
    LAYOUT_FILES = 2,   /* files of a foreign filter, at most */
    LAYOUT_CONFIG_KEY = 16,
};

struct layout_param {
    const char *name;
    const char *choices; /* "utf8|utf16|bytes", the default first; NULL: a number or a text */
    const char *arg;     /* without choices: its value in help, "M" */
    const char *help;
};

/* A parsed spec: NAME[:PARAM=VALUE[,PARAM=VALUE]...]. */
struct layout_spec {
    const struct kind *kind;
    uint64_t n; /* capacity and FPR, where they are given beside the spec; else 0 */
    double p;
    char text[LAYOUT_TEXT];
    const char *value[LAYOUT_PARAMS]; /* of parameter i of the layout; NULL: not given */
};

/* Parses a spec. Unknown names, parameters and choices fail with a list of the known ones. */
bool layout_parse(const char *text, struct layout_spec *spec, struct err *err);

/* The number of the choice that was made for a parameter, counted from 0: the default. */
unsigned layout_choice(const struct layout_spec *spec, unsigned param);

/* The value of a number; 0: not given. Fails unless it is from 1 to max. */
bool layout_number(const struct layout_spec *spec, unsigned param, uint64_t max, uint64_t *out,
                   struct err *err);

/* Is a new filter at FPR p (0: not given) of the same size whatever its number of keys? Then the
 * spec alone decides on it. */
bool layout_is_sized(const struct layout_spec *spec, double p);

/* For layout->show: append a parameter's choice or number to a spec. */
void layout_show_choice(char *spec, size_t room, const struct layout_param *param,
                        unsigned choice);
void layout_show_number(char *spec, size_t room, const struct layout_param *param, uint64_t n);

/* The index of a value in a table with one value for each choice; 0 if it is not there. */
unsigned layout_index(const uint32_t *table, size_t n, uint32_t value);

/* What a filter of a layout is: all that a header says of it. */
struct layout_filter {
    const struct hash_fn *hash;
    uint64_t seed;
    uint32_t encoding; /* of keys (keys/encode.h) */
    uint64_t n_design; /* 0: it grows */
    double fpr_design;
    bool assumed;      /* the layout states neither: both are taken from m and k */
    uint64_t n_added;  /* keys that changed a bit when they were added; 0 if nobody counts them */
    unsigned n_layers; /* more than one, or n_design 0: they grow by kind->next */
    struct layer layer[LAYOUT_LAYERS]; /* kind, geometry, data_len, n_design, fpr_design */
};

/* The order of bits in foreign bytes. A layer has bit x in byte x / 8 at place x mod 8, counted
 * from the low end. */
enum layout_order {
    ORDER_LOW_FIRST,  /* the same */
    ORDER_HIGH_FIRST, /* bit x is at place 7 - x mod 8 */
    ORDER_BIG_WORDS,  /* words of 64 bits, bit x at place x mod 64 of its word, big-endian */
};

/* Foreign files, whole, in memory. */
struct layout_foreign {
    const char *name[LAYOUT_FILES]; /* in messages */
    const uint8_t *data[LAYOUT_FILES];
    uint64_t len[LAYOUT_FILES];
};

/* The bits of a layer in foreign bytes. Bits behind `len` are zero. */
struct layout_bits {
    const uint8_t *data;
    uint64_t len;
    enum layout_order order;
    const uint8_t *extra; /* bytes that follow the bits in the layer, copied as they are */
    uint64_t extra_len;
    void *owned;          /* to be freed by the caller; or NULL */
};

/* Where a foreign filter is written to: the bytes of each file, in order. */
struct layout_sink {
    bool (*write)(void *ctx, unsigned file, const void *data, size_t len, struct err *err);
    void *ctx;
    const char *name; /* of the foreign filter, as the user gave it; "-": standard output */
    bool pad;         /* write trailing zero bytes of a bitmap too */
};

/* A filter whose bits are a string in Redis: bit x of the layer is what GETBIT x tells. A hash
 * beside it may have the configuration. */
struct layout_redis {
    /* Fields of that hash, NULL after the last, LAYOUT_PARAMS at most. NULL: there is none. */
    const char *const *fields;

    /* Writes the key of the hash for the bits' key of len bytes; returns its length, which is len +
     * LAYOUT_CONFIG_KEY at most. */
    size_t (*config_key)(const char *key, size_t len, char *out);

    /* Completes a spec by the values of the fields; NULL: not there. Fails with a clause if they
     * contradict each other. */
    bool (*configure)(const struct layout_spec *given, const char *const *value,
                      struct layout_spec *out, struct err *err);
};

/* A filter that the Bloom module of a Redis server keeps (BF.RESERVE). File 0 of the layout is the
 * header of BF.SCANDUMP, file 1 its bits; `read` also takes the header alone, data[1] being NULL,
 * and does not set `bits` then. */
struct layout_module {
    /* What BF.RESERVE has to be told to make such a filter. *expansion is 0 for NONSCALING. */
    void (*reserve)(const struct layout_filter *filter, double *error, uint64_t *capacity,
                    uint32_t *expansion);
};

struct layout {
    const char *summary; /* a line for help: whose filters these are */
    const struct layout_param *params; /* ends with name NULL */
    const char *suffix[LAYOUT_FILES];  /* of the names of its files; NULL: there is one file */

    /* Makes the filter that the other program makes for n keys at FPR p; spec parameters go before.
     * p is 0 where none is given: then the program's own default holds, or PLAN_FPR. */
    bool (*design)(const struct layout_spec *spec, uint64_t n, double p,
                   struct layout_filter *out, struct err *err);

    /* Understands foreign files: fills *out, and bits[i] for each of its layers. */
    bool (*read)(const struct layout_spec *spec, const struct layout_foreign *in,
                 struct layout_filter *out, struct layout_bits *bits, struct err *err);

    /* Writes what the other program would write. data[i]: the data of layer i. */
    bool (*write)(const struct layout_filter *filter, const uint8_t *const *data,
                  const struct layout_sink *sink, struct err *err);

    /* Could these files be of this layout, by their contents? NULL: that cannot be told. */
    bool (*recognize)(const struct layout_foreign *in);

    /* Bytes of the other program's files, all in all: of a bitmap, with the zero bytes at its end;
     * before compression. */
    uint64_t (*file_len)(const struct layout_filter *filter);

    /* Writes the spec with which the filter can be imported again. */
    void (*show)(const struct layout_filter *filter, char *out, size_t room);

    /* Calls each(ctx, name, value) for what the other program stores beside the bits, in its own
     * words, for stats. NULL: nothing. */
    void (*facts)(const struct layout_filter *filter,
                  void (*each)(void *ctx, const char *name, const char *value), void *ctx);

    /* Most bits stay zero, and m is large: a new file has holes (store/target.h). */
    bool sparse;

    /* The other program counts keys that change a bit (layout_filter.n_added), so a filter depends
     * on the order of its keys. If not, a layer is the bitwise union of layers that have some of
     * its keys each. */
    bool counts;

    /* Leaves out of a layer what a user put behind the bits: for another filter like it. NULL:
     * there is nothing. */
    void (*strip)(struct layer *layer);

    /* A sentence on what the numbers of stats assume that is not so; NULL: nothing. */
    const char *caveat;

    /* The positions of n keys, k for each, position j of key i at out[i * k + j]; each is below m.
     * (Families with positions only.) */
    void (*positions)(const struct layer *layer, struct hashes keys, size_t n, uint64_t *out);

    /* The census of a layer with so many bits set, which takes them for independent. (Families with
     * positions only.) */
    void (*census_of)(const struct layer *layer, uint64_t set, struct census *out);

    /* NULL: its bits are no string in Redis. */
    const struct layout_redis *redis;

    /* NULL: no module of a Redis server keeps it. */
    const struct layout_module *module;

    /* How many of the m positions can occur. NULL: all. */
    uint64_t (*reach)(const struct layer *layer);
};

static inline bool layout_is_sparse(const struct layer *layer)
{
    return layer->kind->layout != NULL && layer->kind->layout->sparse;
}

/* Layout number i, from 0; NULL after the last. */
const struct kind *layout_number_of(unsigned i);

/* Copies the first `len` bytes of a layer's bits out of foreign bits, from byte `at` on, both
 * multiples of 8. */
void layout_take(const struct layout_bits *bits, uint64_t at, uint8_t *out, size_t len);

/* Writes the first `len` bytes of a layer's bits to a file of the sink, in that order. */
bool layout_put(const struct layout_sink *sink, unsigned file, const uint8_t *bits, uint64_t len,
                enum layout_order order, struct err *err);

/* The length of `len` bytes without the zero bytes at their end. */
uint64_t layout_trimmed(const uint8_t *bytes, uint64_t len);

#endif

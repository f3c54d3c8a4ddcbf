/* SPDX-License-Identifier: MIT
 * Layouts: the filter formats of other programs. A layout is a kind (kind.h) with a struct layout.
 * In a filter file of seen, its layer is like any other. This header is for import and export: it
 * parses the name of a layout, and sizes, reads and writes filters as the other program does.
 *
 *     struct layout_spec spec;
 *     if (!layout_parse("guava:funnel=utf16", &spec, &err)) ...
 *     const struct layout *layout = spec.kind->layout;
 *     layout->design(&spec, n, p, &filter, &err);                  // a new filter
 *     layout->read(&spec, &foreign, &filter, bits, &err);          // a foreign one
 *     layout->write(&filter, data, &sink, &err);
 *
 * This module does not touch filter files: foreign/foreign.h converts between a struct
 * layout_filter and a filter file.
 *
 * To add a layout: write a file in src/foreign (classic.h: k positions in an array of bits) with a
 * struct layout and a struct kind, and add the kind to foreign/list.c.
 */
#ifndef KIND_FOREIGN_H
#define KIND_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "kind/kind.h"

enum {
    LAYOUT_PARAMS = 8,  /* parameters of a layout, at most */
    LAYOUT_TEXT = 256,  /* bytes of a spec, NUL included */
    LAYOUT_LAYERS = 42, /* layers of a filter, at most: those of a filter file (file/format.h) */
    LAYOUT_FILES = 2,   /* files of a foreign filter, at most */
    LAYOUT_CONFIG_KEY = 16,
};

struct layout_param {
    const char *name;
    const char *choices; /* "utf8|utf16|bytes", the default first; NULL: a number or a text */
    const char *arg;     /* without choices: placeholder of the value in help, "M" */
    const char *help;
};

/* A parsed spec: NAME[:PARAM=VALUE[,PARAM=VALUE]...]. */
struct layout_spec {
    const struct kind *kind;
    uint64_t n; /* capacity and FPR, if given in addition to the spec; else 0 */
    double p;
    bool forced; /* read a bitmap even if its content contradicts the spec */
    bool base64; /* the file is text that stands for the other program's */
    char text[LAYOUT_TEXT];
    const char *value[LAYOUT_PARAMS]; /* of the layout's parameter i; NULL: not given */
};

/* Description of a filter of a layout, for its header. */
struct layout_filter {
    const struct hash_fn *hash;
    uint64_t seed;
    uint32_t encoding; /* of keys (keys/encoding.h) */
    uint64_t n_design; /* 0: it grows */
    double fpr_design;
    bool assumed;      /* the layout stores neither n_design nor fpr_design: both from m and k */
    uint64_t n_added;  /* keys that changed a bit when added; 0 if not counted */
    unsigned n_layers; /* above 1, or with n_design 0: the other program may add one */
    struct layer layer[LAYOUT_LAYERS]; /* kind, geometry, data_len, n_design, fpr_design */
};

/* The order of bits in foreign bytes. In a layer, bit x is bit x mod 8 of byte x / 8. Bit 0 of a
 * byte or word is the lowest. */
enum layout_order {
    ORDER_LOW_FIRST,  /* as in a layer */
    ORDER_HIGH_FIRST, /* bit x is bit 7 - x mod 8 of its byte */
    ORDER_BIG_WORDS,  /* big-endian 64-bit words; bit x is bit x mod 64 of its word */
};

/* The contents of the foreign files. */
struct layout_foreign {
    const char *name[LAYOUT_FILES]; /* for messages */
    const uint8_t *data[LAYOUT_FILES];
    uint64_t len[LAYOUT_FILES];
    bool zipped; /* the file was compressed with gzip; `data` is the inflated file */
};

/* The bits of a layer in foreign bytes. Bits after `len` bytes are zero. */
struct layout_bits {
    const uint8_t *data;
    uint64_t len;
    enum layout_order order;
    const uint8_t *extra; /* bytes that follow the bits in the layer, copied unchanged */
    uint64_t extra_len;
    void *owned; /* the caller frees it; may be NULL */
};

/* Output of a foreign filter: `write` gets the bytes of each file in order. */
struct layout_sink {
    bool (*write)(void *ctx, unsigned file, const void *data, size_t len, struct err *err);
    void *ctx;
    const char *name; /* of the foreign filter, as the user gave it; "-": standard output */
    bool pad;         /* write trailing zero bytes of a bitmap too */
};

/* A filter whose bits are a Redis string: bit x of the layer is GETBIT x. A Redis hash may hold the
 * configuration. */
struct layout_redis {
    /* Fields of the configuration hash, at most LAYOUT_PARAMS, NULL after the last. NULL: there is
     * no such hash. */
    const char *const *fields;

    /* `key`, of len bytes, is the Redis key of the bits. Writes the Redis key of the hash to `out`
     * and returns its length, at most len + LAYOUT_CONFIG_KEY. */
    size_t (*config_key)(const char *key, size_t len, char *out);

    /* Completes a spec from the values of the fields; value[i] is NULL if field i is missing. Fails
     * if they contradict each other; the message is then a clause. */
    bool (*configure)(const struct layout_spec *given, const char *const *value,
                      struct layout_spec *out, struct err *err);
};

/* What BF.INFO tells of a filter, as valkey-bloom answers it. */
struct layout_info {
    uint64_t capacity, links, keys; /* of all links */
    uint64_t expansion;             /* 0: NONSCALING */
    double error, tightening;       /* of the first link; of each as a multiple of the one before */
};

/* Members are required unless they say what NULL means. */
struct layout {
    const char *summary;               /* one line for help: the program that makes these filters */
    const struct layout_param *params; /* ends with name NULL */
    const uint32_t *encodings;         /* of the choices of params[0]; NULL: ENCODE_NONE alone */
    const struct hash_fn *hash;        /* NULL: there are several */
    const char *suffix[LAYOUT_FILES];  /* of its files' names; [0] NULL: one file, no suffix */

    /* Sizes a filter for n keys at FPR p as the other program does. Parameters of the spec take
     * precedence over n and p. With p = 0, uses the program's own default; 0.001 if it has none. */
    bool (*design)(const struct layout_spec *spec, uint64_t n, double p, struct layout_filter *out,
                   struct err *err);

    /* Parses foreign files: fills *out, and bits[i] for each layer. */
    bool (*read)(const struct layout_spec *spec, const struct layout_foreign *in,
                 struct layout_filter *out, struct layout_bits *bits, struct err *err);

    /* The other program's files may be compressed with gzip. */
    bool gzip;

    /* The most bytes that a file has which begins with head[0..len), its whole or 64 KiB: as its
     * header claims. 0: the header is not valid, and `read` says why. NULL: the length follows from
     * the spec, or the layout is never read from a pipe. */
    uint64_t (*claims)(const uint8_t *head, uint64_t len);

    /* Writes what the other program would write. data[i]: the data of layer i. */
    bool (*write)(const struct layout_filter *filter, const uint8_t *const *data,
                  const struct layout_sink *sink, struct err *err);

    /* Do the contents of these files look like this layout? NULL: contents cannot tell. */
    bool (*recognize)(const struct layout_foreign *in);

    /* Total bytes of the other program's files, before compression. A bitmap counts with its
     * trailing zero bytes. */
    uint64_t (*file_len)(const struct layout_filter *filter);

    /* Appends to a spec the parameters other than the one of `encodings`. */
    void (*show)(const struct layout_filter *filter, char *spec, size_t room);

    /* For stats: calls each(ctx, name, value) for each value that the other program stores besides
     * the bits, with the program's own names. NULL: there are none. */
    void (*facts)(const struct layout_filter *filter,
                  void (*each)(void *ctx, const char *name, const char *value), void *ctx);

    /* m is large and most bits stay zero: new filter files have holes (kind/target.h). */
    bool sparse;

    /* The other program counts keys that change a bit (layout_filter.n_added), so a filter depends
     * on the order of its keys. If false, the layer for a set of keys is the bitwise union of the
     * layers for its subsets. */
    bool counts;

    /* Removes from a layer's geometry the user's own data after the bits, for a new filter with the
     * same design. NULL: there is no such data. */
    void (*strip)(struct layer *layer);

    /* A caveat for stats, one sentence, if the formulas do not hold for this layout: the number of
     * keys is then a rough estimate. NULL: they hold. */
    const char *caveat;

    /* What must be added to the FPR, with this fraction of the bits set, because the positions of a
     * key depend on each other. NULL: nothing. */
    double (*excess)(const struct layer *layer, double set);

    /* Such an FPR is right to within this factor where it is estimated. */
    double factor;

    /* The positions of n keys, k for each: position j of key i is at out[i * k + j], and is below
     * m. NULL: the family has no positions. */
    void (*positions)(const struct layer *layer, struct hashes keys, size_t n, uint64_t *out);

    /* Where they follow from lanes 0 and 1 of its hash: value(variant, h1, h2, j) mod m is position
     * j of a key in a layer of this variant (foreign/classic.h), and the FPR is that of a sample.
     * NULL: they do not, or it is not needed. */
    uint64_t (*value)(uint64_t variant, uint64_t h1, uint64_t h2, unsigned j);

    /* NULL: the bits are not stored as a Redis string. */
    const struct layout_redis *redis;

    /* The arguments of BF.RESERVE that make such a filter in the Bloom module of a Redis server.
     * *expansion is 0 for NONSCALING. File 0 of such a layout is the header of BF.SCANDUMP, file 1
     * its bits; `read` also accepts the header alone, with data[1] NULL, and then does not set
     * `bits`. NULL: the module does not know the layout. */
    void (*reserve)(const struct layout_filter *filter, double *error, uint64_t *capacity,
                    uint32_t *expansion);

    /* Describes a filter of a module that gives out neither header nor bits (valkey-bloom), by what
     * it tells. Hash and seed are not its own. Set if `reserve` is. */
    bool (*inform)(const struct layout_spec *spec, const struct layout_info *info,
                   struct layout_filter *out, struct err *err);

    /* The number of positions that can occur, of m. NULL: all. */
    uint64_t (*reach)(const struct layer *layer);
};

/* Converts foreign bits, from byte `at` on, to `len` bytes of a layer's bits. `at` and `len` are
 * multiples of 8. */
void layout_take(const struct layout_bits *bits, uint64_t at, uint8_t *out, size_t len);

/* Writes the first `len` bytes of a layer's bits to a file of the sink, in the bit order `order`.
 */
bool layout_put(const struct layout_sink *sink, unsigned file, const uint8_t *bits, uint64_t len,
                enum layout_order order, struct err *err);

/* The length of a file's name without the suffix that files of the layout have. */
static inline size_t layout_base(const struct layout *layout, const char *name)
{
    size_t len = strlen(name);
    for (unsigned i = 0; i < LAYOUT_FILES && layout->suffix[i] != NULL; i++) {
        size_t suffix = strlen(layout->suffix[i]);
        if (len > suffix && strcmp(name + len - suffix, layout->suffix[i]) == 0)
            return len - suffix;
    }
    return len;
}

static inline bool layout_is_sparse(const struct layer *layer)
{
    return kind_is_foreign(layer->kind) && layer->kind->layout->sparse;
}

static inline const char *layout_caveat(const struct kind *kind)
{
    return kind_is_foreign(kind) ? kind->layout->caveat : NULL;
}

#endif

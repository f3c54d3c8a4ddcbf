/*
 * A filter that lives in the memory of this process and ends with it.
 *
 *     struct memory *m = memory_new(&header, &err);              // NULL: see err
 *     if (!memory_add_begin(m, &options, &state, &err)) ...
 *     memory_add(m, keys, known, n, &done, &err);
 *     struct layers layers = memory_layers(m);
 *     memory_free(m);
 */
#ifndef WRITE_MEMORY_H
#define WRITE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "keys/hash.h"
#include "file/format.h"
#include "file/layers.h"
#include "write/writer.h"

/* What messages call it. */
extern const char memory_name[];

/* Private. */
struct memory {
    struct header header;
    uint8_t *data[FORMAT_MAX_LAYERS]; /* NULL: none yet */
    struct backing backing;
    struct writer writer;
};

/* Makes an empty filter with this header. NULL: see err. */
struct memory *memory_new(const struct header *h, struct err *err);
void memory_free(struct memory *m); /* or NULL */

/* Its header has the counters as they are now. */
struct layers memory_layers(const struct memory *m);

/* As layers_census_each and layers_census_whole, with a sample (layers_sample_fpr). */
void memory_census(const struct memory *m, unsigned threads, struct census *layer,
                   struct census *all);

/* As writer_begin, with writer_check; as writer_add and writer_conclude. */
bool memory_add_begin(struct memory *m, const struct add_options *options, struct add_state *state,
                      struct err *err);
enum add_result memory_add(struct memory *m, struct hashes keys, uint64_t *known, size_t n,
                           size_t *done, struct err *err);
void memory_conclude(struct memory *m, bool again);

/* Closes the newest layer and begins another, as a full layer makes a writer do. */
bool memory_next_layer(struct memory *m, struct err *err);

#endif

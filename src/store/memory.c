#include "write/memory.h"

#include <stdlib.h>

#include "store/store.h"

struct memory_store {
    struct store store;
    struct memory *memory;
};

static struct memory *memory_of(const struct store *s)
{
    return ((const struct memory_store *)(const void *)s)->memory;
}

static void describe(const struct store *s, struct facts *facts)
{
    const struct layers layers = memory_layers(memory_of(s));
    *facts = (struct facts){.layers = layers, .counters = layers.header->counters};
}

static bool query(struct store *s, struct hashes keys, size_t n, uint64_t *present, struct err *err)
{
    const struct layers layers = memory_layers(memory_of(s));
    return layers_query(&layers, keys, n, present, NULL, NULL, err);
}

static bool take_census(struct store *s, unsigned threads, struct census *layer, struct census *all,
                        struct err *err)
{
    (void)err;
    memory_census(memory_of(s), threads, layer, all);
    return true;
}

static bool add_begin(struct store *s, const struct add_options *options, struct err *err)
{
    return memory_add_begin(memory_of(s), options, &s->state, err);
}

static enum add_result add(struct store *s, struct hashes keys, uint64_t *known, size_t n,
                           size_t *done, struct err *err)
{
    return memory_add(memory_of(s), keys, known, n, done, err);
}

static void conclude(struct store *s, bool again)
{
    memory_conclude(memory_of(s), again);
}

static void close_memory(struct store *s)
{
    memory_free(memory_of(s));
    free(s);
}

static const struct store_ops ops = {
    .describe = describe,
    .query = query,
    .census = take_census,
    .add_begin = add_begin,
    .add = add,
    .conclude = conclude,
    .close = close_memory,
};

struct store *memory_open(const struct header *h, struct err *err)
{
    struct memory_store *s = calloc(1, sizeof *s);
    if (s == NULL) {
        fail(err, "out of memory");
        return NULL;
    }
    s->store = (struct store){.ops = &ops, .name = memory_name};
    s->memory = memory_new(h, err);
    if (s->memory != NULL)
        return &s->store;
    free(s);
    return NULL;
}

bool memory_advance(struct store *s, struct err *err)
{
    return memory_next_layer(memory_of(s), err);
}

#include "store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/num.h"
#include "base/ram.h"
#include "kind/layout.h"
#include "store/chain.h"
#include "store/writer.h"

static const char NAME[] = "a filter in memory";

struct memory {
    struct store store;
    struct header header;
    uint8_t *data[FORMAT_MAX_LAYERS]; /* NULL: none yet */
    struct backing backing;
    struct writer writer;
};

static struct memory *memory_of(struct store *s)
{
    return (struct memory *)(void *)s;
}

static const struct memory *const_memory_of(const struct store *s)
{
    return (const struct memory *)(const void *)s;
}

static struct layers layers_of(const struct memory *m)
{
    return (struct layers){&m->header, m->data};
}

/* Allocates zeroed memory for the layers of the header that have none. */
static bool get_layers(struct memory *m, const struct header *h, struct err *err)
{
    char need[NUM_TEXT];
    num_show_bytes(need, h->file_len);
    if (h->file_len > ram_limit())
        return fail(err, "cannot make %s: %s are needed", NAME, need);
    for (unsigned i = 0; i < h->n_layers; i++) {
        if (m->data[i] != NULL)
            continue;
        void *data = mmap(NULL, (size_t)h->layers[i].data_len, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED)
            return fail_errno(err, "cannot make %s of %s", NAME, need);
        if (!layout_is_sparse(&h->layers[i]))
            madvise(data, (size_t)h->layers[i].data_len, MADV_HUGEPAGE);
        m->data[i] = data;
    }
    return true;
}

static bool lock(void *place, struct err *err)
{
    (void)place, (void)err;
    return true;
}

static void unlock(void *place)
{
    (void)place;
}

static bool grow(struct memory *m, struct header *h, struct err *err)
{
    if (!chain_grow(h, NAME, err) || !get_layers(m, h, err))
        return false;
    m->header = *h;
    return true;
}

static bool rotate(struct memory *m, struct header *h, struct err *err)
{
    if (!chain_void(h, NAME, err))
        return false;
    unsigned layer = (unsigned)chain_find_void(h);
    if (!chain_renew(h, layer, NAME, err))
        return false;
    memset(m->data[layer], 0, (size_t)h->layers[layer].data_len);
    m->header = *h;
    return true;
}

static bool advance(void *place, unsigned threads, struct err *err)
{
    struct memory *m = place;
    const struct layers layers = layers_of(m);
    struct header h = chain_close(&layers, &m->header.counters, threads);
    return format_forgets(&h) ? rotate(m, &h, err) : grow(m, &h, err);
}

bool memory_advance(struct store *s, struct err *err)
{
    return advance(s, 1, err);
}

static const struct backing_ops backing_ops = {.lock = lock, .unlock = unlock, .advance = advance};

static void describe(const struct store *s, struct facts *facts)
{
    const struct memory *m = const_memory_of(s);
    *facts = (struct facts){.layers = layers_of(m), .counters = m->header.counters};
}

static bool query(struct store *s, struct hashes keys, size_t n, uint64_t *present, struct err *err)
{
    const struct layers layers = layers_of(memory_of(s));
    return layers_query(&layers, keys, n, present, NULL, NULL, err);
}

static bool take_census(struct store *s, unsigned threads, struct census *layer, struct census *all,
                        struct err *err)
{
    const struct layers layers = layers_of(memory_of(s));
    (void)err;
    layers_census_each(&layers, threads, layer);
    layers_census_whole(layers.header, layer, all);
    layers_sample_fpr(&layers, threads, all);
    return true;
}

static bool add_begin(struct store *s, const struct add_options *options, struct err *err)
{
    struct memory *m = memory_of(s);
    if (!writer_check(layers_of(m), NAME, options, err))
        return false;
    m->backing = (struct backing){.ops = &backing_ops,
                                  .place = m,
                                  .name = NAME,
                                  .layers = layers_of(m),
                                  .counters = &m->header.counters};
    writer_begin(&m->writer, &m->backing, options, &s->state);
    return true;
}

static enum add_result add(struct store *s, struct hashes keys, uint64_t *known, size_t n,
                           size_t *done, struct err *err)
{
    return writer_add(&memory_of(s)->writer, keys, known, n, done, err);
}

static void conclude(struct store *s, bool again)
{
    writer_conclude(&memory_of(s)->writer, again);
}

static void close_memory(struct store *s)
{
    struct memory *m = memory_of(s);
    for (unsigned i = 0; i < FORMAT_MAX_LAYERS; i++)
        if (m->data[i] != NULL)
            munmap(m->data[i], (size_t)m->header.layers[i].data_len);
    free(m);
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
    struct memory *m = calloc(1, sizeof *m);
    if (m == NULL) {
        fail(err, "out of memory");
        return NULL;
    }
    m->store = (struct store){.ops = &ops, .name = NAME};
    m->header = *h;
    if (get_layers(m, h, err))
        return &m->store;
    close_memory(&m->store);
    return NULL;
}

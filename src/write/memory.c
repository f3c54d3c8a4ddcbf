#include "write/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/num.h"
#include "base/ram.h"
#include "kind/layout.h"
#include "file/chain.h"

const char memory_name[] = "a filter in memory";

struct layers memory_layers(const struct memory *m)
{
    return (struct layers){&m->header, m->data};
}

/* Allocates zeroed memory for the layers of the header that have none. */
static bool get_layers(struct memory *m, const struct header *h, struct err *err)
{
    char need[NUM_TEXT];
    num_show_bytes(need, h->file_len);
    if (h->file_len > ram_limit())
        return fail(err, "cannot make %s: %s are needed", memory_name, need);
    for (unsigned i = 0; i < h->n_layers; i++) {
        if (m->data[i] != NULL)
            continue;
        void *data = mmap(NULL, (size_t)h->layers[i].data_len, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED)
            return fail_errno(err, "cannot make %s of %s", memory_name, need);
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
    if (!chain_grow(h, memory_name, err) || !get_layers(m, h, err))
        return false;
    m->header = *h;
    return true;
}

static bool rotate(struct memory *m, struct header *h, struct err *err)
{
    if (!chain_void(h, memory_name, err))
        return false;
    unsigned layer = (unsigned)chain_find_void(h);
    if (!chain_renew(h, layer, memory_name, err))
        return false;
    memset(m->data[layer], 0, (size_t)h->layers[layer].data_len);
    m->header = *h;
    return true;
}

static bool advance(void *place, unsigned threads, struct err *err)
{
    struct memory *m = place;
    const struct layers layers = memory_layers(m);
    struct header h = chain_close(&layers, &m->header.counters, threads);
    return format_forgets(&h) ? rotate(m, &h, err) : grow(m, &h, err);
}

bool memory_next_layer(struct memory *m, struct err *err)
{
    return advance(m, 1, err);
}

static const struct backing_ops backing_ops = {.lock = lock, .unlock = unlock, .advance = advance};

void memory_census(const struct memory *m, unsigned threads, struct census *layer,
                   struct census *all)
{
    const struct layers layers = memory_layers(m);
    layers_census_each(&layers, threads, layer);
    layers_census_whole(layers.header, layer, all);
    layers_sample_fpr(&layers, threads, all);
}

bool memory_add_begin(struct memory *m, const struct add_options *options, struct add_state *state,
                      struct err *err)
{
    if (!writer_check(memory_layers(m), memory_name, options, err))
        return false;
    m->backing = (struct backing){.ops = &backing_ops,
                                  .place = m,
                                  .name = memory_name,
                                  .layers = memory_layers(m),
                                  .counters = &m->header.counters};
    writer_begin(&m->writer, &m->backing, options, state);
    return true;
}

enum add_result memory_add(struct memory *m, struct hashes keys, uint64_t *known, size_t n,
                           size_t *done, struct err *err)
{
    return writer_add(&m->writer, keys, known, n, done, err);
}

void memory_conclude(struct memory *m, bool again)
{
    writer_conclude(&m->writer, again);
}

struct memory *memory_new(const struct header *h, struct err *err)
{
    struct memory *m = calloc(1, sizeof *m);
    if (m == NULL) {
        fail(err, "out of memory");
        return NULL;
    }
    m->header = *h;
    if (get_layers(m, h, err))
        return m;
    memory_free(m);
    return NULL;
}

void memory_free(struct memory *m)
{
    for (unsigned i = 0; m != NULL && i < FORMAT_MAX_LAYERS; i++)
        if (m->data[i] != NULL)
            munmap(m->data[i], (size_t)m->header.layers[i].data_len);
    free(m);
}

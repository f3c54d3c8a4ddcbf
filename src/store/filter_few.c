#include "store/filter_few.h"

#include <string.h>

#include "base/bytes.h"
#include "base/disk.h"

static bool read_whole(int fd, uint8_t *out, size_t len, uint64_t off)
{
    size_t got;
    return disk_read(fd, out, len, off, &got) && got == len;
}

/* Reads a page of a layer into `out`, which has room for LAYER_PAGE bytes, and checks it. */
static bool read_page(const struct filter *f, const struct layer *layer, uint64_t page,
                      uint8_t *out)
{
    uint8_t sum[FORMAT_SUM];
    size_t len = layer_page_len(layer, page);
    if (!read_whole(f->fd, out, len, layer->data_off + page * LAYER_PAGE))
        return false;
    return !atomic_load_explicit(&f->verifying, memory_order_relaxed) ||
           (read_whole(f->fd, sum, sizeof sum, layer->sums_off + FORMAT_SUM * page) &&
            format_page_sum(format_layer_seed(&f->header, layer), page, out, len) == get_le32(sum));
}

static bool query_layer(const struct filter *f, const struct layer *layer, struct hashes keys,
                        size_t n, uint64_t *present)
{
    uint64_t page[FILTER_FEW];
    layer->kind->page(layer, keys, n, page);
    for (size_t i = 0; i < n; i++) {
        uint8_t bytes[LAYER_PAGE];
        if (!read_page(f, layer, page[i], bytes))
            return false;
        if (layer->kind->query_page(layer, bytes, page[i], hashes_from(keys, i)))
            present[i / 64] |= (uint64_t)1 << i % 64;
    }
    return true;
}

bool filter_few_query(const struct filter *f, struct hashes keys, size_t n, uint64_t *present)
{
    memset(present, 0, (n + 63) / 64 * sizeof *present);
    for (unsigned i = 0; i < f->header.n_layers; i++) {
        const struct layer *layer = &f->header.layers[i];
        if (!layer->is_void && (layer->kind->query_page == NULL ||
                                !query_layer(f, layer, keys, n, present)))
            return false;
    }
    return true;
}

#include "store/write.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/disk.h"
#include "base/parallel.h"

/* Checksums that are written in one go, and pages that a thread reads back in one go. */
enum { SUMS_AT_ONCE = 1024, PIECE = 256 };

struct sums {
    const struct build_target *target;
    const struct layer *layer;
};

bool build_page_sums(const struct build_target *target, const uint8_t *pages, uint64_t first,
                     uint64_t n, struct err *err)
{
    static const uint8_t zeroes[FORMAT_PAGE];
    const struct layer *layer = &target->header->layers[target->layer];
    uint64_t seed = format_layer_seed(target->header, layer), end = first + n;
    for (uint64_t page = first; page < end;) {
        uint8_t sums[SUMS_AT_ONCE * FORMAT_SUM];
        uint64_t off = layer->sums_off + page * FORMAT_SUM, len = 0;
        for (; len < sizeof sums && page < end; len += FORMAT_SUM, page++) {
            const uint8_t *data = pages == NULL ? zeroes : pages + (page - first) * FORMAT_PAGE;
            put_le32(sums + len,
                     format_page_sum(seed, page, data, layer_page_len(layer, page)));
        }
        if (!disk_write(target->fd, sums, len, off, target->name, err))
            return false;
    }
    return true;
}

bool build_zero_sums(const struct build_target *target, struct err *err)
{
    const struct layer *layer = &target->header->layers[target->layer];
    return build_page_sums(target, NULL, 0, layer_pages(layer), err);
}

static bool read_back(const struct build_target *target, uint8_t *buf, size_t len, uint64_t off,
                      struct err *err)
{
    size_t got;
    if (!disk_read(target->fd, buf, len, off, &got))
        return fail_errno(err, "cannot read '%s'", target->name);
    return got == len || fail(err, "cannot read '%s': it ends early", target->name);
}

static bool sum_pages(const struct sums *s, uint8_t *buf, uint64_t first, uint64_t n,
                      struct err *err)
{
    uint64_t at = first * FORMAT_PAGE, len = s->layer->data_len - at;
    if (len > n * FORMAT_PAGE)
        len = n * FORMAT_PAGE;
    return read_back(s->target, buf, (size_t)len, s->layer->data_off + at, err) &&
           build_page_sums(s->target, buf, first, n, err);
}

static bool sum_piece(void *ctx, unsigned worker, uint64_t i, struct err *err)
{
    const struct sums *s = ctx;
    uint64_t first = i * PIECE, left = layer_pages(s->layer) - first;
    (void)worker;
    uint8_t *buf = malloc((size_t)PIECE * FORMAT_PAGE);
    bool ok = buf != NULL ? sum_pages(s, buf, first, left < PIECE ? left : PIECE, err)
                          : fail(err, "out of memory");
    free(buf);
    return ok;
}

bool build_sums(const struct build_target *target, struct err *err)
{
    const struct layer *layer = &target->header->layers[target->layer];
    struct sums s = {target, layer};
    return parallel_try(target->threads, (layer_pages(layer) + PIECE - 1) / PIECE, sum_piece, &s,
                        err);
}

bool build_copy(const struct build_target *target, const uint8_t *data, struct err *err)
{
    const struct layer *layer = &target->header->layers[target->layer];
    return disk_write(target->fd, data, layer->data_len, layer->data_off, target->name, err) &&
           build_sums(target, err);
}

void build_stamp(struct header *header, bool reproducible)
{
    memset(header->id, 0, sizeof header->id);
    header->created = header->changed = 0;
    if (reproducible)
        return;
    header->created = header->changed = (uint64_t)time(NULL);
    if (getrandom(header->id, sizeof header->id, 0) != (ssize_t)sizeof header->id)
        memcpy(header->id, &header->created, sizeof header->created);
}

bool build_header(const struct header *header, int fd, const char *name, struct err *err)
{
    uint8_t slot[FORMAT_MAX_HEADER];
    size_t len = format_encode(header, slot);
    if (!disk_write(fd, slot, len, FORMAT_SLOT_A, name, err))
        return false;
    if ((header->incompat & INCOMPAT_IMMUTABLE) == 0 &&
        !disk_write(fd, slot, len, FORMAT_SLOT_B, name, err))
        return false;
    return ftruncate(fd, (off_t)header->file_len) == 0 ||
           fail_errno(err, "cannot set the length of '%s'", name);
}

/* SPDX-License-Identifier: MIT
 * Hostile filter files. The input is the beginning of a file. It is opened as it is; and then once
 * more as its author may have meant it: with the checksum that belongs to it, in both slots, and
 * with as many zeroes behind it as its header asks for, so that what is mutated here gets past the
 * door. Whatever is accepted is put to all the uses that commands have for a file.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/disk.h"
#include "keys/xxh3.h"
#include "file/filter.h"
#include "file/pages.h"
#include "file/session.h"
#include "write/advance.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    SLOT_LEN = 12, /* offsets in the header */
    FILE_LEN = 96,
    LARGEST = 1 << 20, /* file to be made; a page of data is as good as many */
};

static void must(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "fuzz_header: %s\n", what);
        abort();
    }
}

static bool inside(void *ctx, uint64_t page)
{
    const struct layer *l = ctx;
    must(page < layer_pages(l), "a key is outside of its layer");
    return true;
}

static void ask(struct filter *f, const uint64_t *hash, size_t n)
{
    struct err err;
    uint64_t present[LAYER_BATCH / 64], page[LAYER_BATCH], unchecked;
    struct census census;
    if (!filter_query(f, hashes_of(hash), n, present, &err))
        must(strstr(err.text, "is damaged: page ") != NULL, err.text);
    for (unsigned i = 0; i < f->header.n_layers; i++) {
        const struct layer *l = &f->header.layers[i];
        l->kind->query(l, f->map + l->data_off, hashes_of(hash), n, present);
        if (l->kind->page != NULL)
            l->kind->page(l, hashes_of(hash), n, page);
        for (size_t j = 0; j < n; j++)
            if (l->kind->page == NULL)
                l->kind->pages(l, f->map + l->data_off, hashes_of(&hash[j]), 1, inside,
                               &f->header.layers[i]);
            else
                must(page[j] < layer_pages(l), "a key is outside of its layer");
    }
    layers_census_all(filter_layers(f), 1, &census);
    must(census.fpr >= 0 && census.fpr <= 1, "the false positive rate is no probability");
    pages_check_all(f, 1, &unchecked, NULL, NULL);
    filter_health(f);
}

static void change(struct filter *f, const uint64_t *hash, size_t n)
{
    struct session s;
    struct err err;
    uint64_t present[LAYER_BATCH / 64] = {0};
    enum advance_clock clock;
    const struct layer *l = &f->header.layers[0];
    if (l->kind->add == NULL)
        return;
    if (!session_begin(&s, f, &err)) {
        must(f->header.state == STATE_DIRTY, err.text);
        return;
    }
    must(session_lock(&s, &err), err.text);
    must(advance_finish(&s, &err) && advance_by_time(&s, 1, &clock, &err), err.text);
    bool sound = session_touch(&s, 0, hashes_of(hash), n, &err);
    if (sound)
        l->kind->add(l, f->map + l->data_off, hashes_of(hash), n, present);
    session_unlock(&s);
    must(session_end(&s, true, &err), err.text);
    if (!sound)
        return;
    memset(present, 0, sizeof present);
    l->kind->query(l, f->map + l->data_off, hashes_of(hash), n, present);
    for (size_t i = 0; i < n; i++)
        must(present[i / 64] >> i % 64 & 1, "a key that was added is absent");
}

static void open_and_use(int fd)
{
    char path[40];
    struct filter f;
    struct err err;
    uint64_t hash[LAYER_BATCH];
    for (uint64_t i = 0; i < LAYER_BATCH; i++)
        hash[i] = xxh3_bytes(&i, sizeof i, 0);
    hash[0] = 0;
    hash[1] = UINT64_MAX;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (filter_open(&f, path, FILTER_READ, &err)) {
        ask(&f, hash, LAYER_BATCH);
        filter_close(&f);
    }
    if (filter_open(&f, path, FILTER_WRITE, &err)) {
        change(&f, hash, 10);
        filter_close(&f);
    }
}

static void try_file(const uint8_t *data, size_t size, uint64_t len)
{
    struct err err;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    must(fd >= 0 && ftruncate(fd, (off_t)len) == 0, "no file in memory");
    must(disk_write(fd, data, size, 0, "fuzz", &err), err.text);
    open_and_use(fd);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t slots[2 * FORMAT_PAGE];
    try_file(data, size, size);
    memset(slots, 0, sizeof slots);
    memcpy(slots, data, size < FORMAT_PAGE ? size : FORMAT_PAGE);
    uint32_t slot_len = get_le32(slots + SLOT_LEN);
    uint64_t file_len = get_le64(slots + FILE_LEN);
    if (slot_len < FILE_LEN || slot_len > FORMAT_PAGE || file_len < slot_len || file_len > LARGEST)
        return 0;
    put_le64(slots + slot_len - 8, xxh3_bytes(slots, slot_len - 8, 0));
    memcpy(slots + FORMAT_PAGE, slots, FORMAT_PAGE);
    try_file(slots, slot_len < FORMAT_PAGE || file_len < sizeof slots ? slot_len : sizeof slots,
             file_len);
    return 0;
}

/* SPDX-License-Identifier: MIT
 * Lists of positions of the PHP class, which are read as a plain loop reads them, and come back
 * sorted; and bitmaps. The first byte chooses the functions, and by its lowest bit the form.
 */
#include <sys/mman.h>

#include "foreign.h"

/* Bytes of a bitmap. */
static const size_t LEN = (size_t)1 << 29;

/* Is this a good list? Its first `n` positions are put into out. */
static bool read_plainly(const uint8_t *data, size_t size, uint64_t *out, size_t *n)
{
    *n = 0;
    for (size_t at = 0; at < size; at++) {
        uint64_t x = 0;
        size_t digits = 0;
        for (; at < size && data[at] != '\n'; at++, digits++) {
            if (data[at] < '0' || data[at] > '9' || digits == 10)
                return false;
            x = 10 * x + (data[at] - '0');
        }
        if (digits == 0 || x > UINT32_MAX)
            return false;
        out[(*n)++] = x;
    }
    return true;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The list of a filter with these bits alone must be these numbers, sorted, each once. */
static void check_list(const struct foreign *f, const uint64_t *position, size_t n)
{
    static uint8_t *bits;
    struct written out, want = {0};
    if (bits == NULL)
        bits = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    MUST(bits != MAP_FAILED);
    for (size_t i = 0; i < n; i++) {
        uint64_t at = position[i] / 64 * 8;
        layout_take(&f->bits[0], at, bits + at, 8);
        if (i == 0 || position[i] != position[i - 1]) {
            char line[16];
            int len = snprintf(line, sizeof line, "%llu\n", (unsigned long long)position[i]);
            foreign_append(&want, 0, line, (size_t)len, NULL);
        }
    }
    foreign_write(f, bits, "a.bits", false, &out);
    MUST(out.len == want.len && (out.len == 0 || memcmp(out.data, want.data, out.len) == 0));
    for (size_t i = 0; i < n; i++)
        bits[position[i] / 8] = 0;
    free(out.data);
    free(want.data);
}

static void try_list(const char *spec, const uint8_t *data, size_t size)
{
    struct foreign f;
    size_t n;
    uint64_t *position = malloc((size + 1) * sizeof *position);
    MUST(position != NULL);
    bool good = read_plainly(data, size, position, &n);
    bool read = foreign_read(&f, spec, "a.bits", data, size);
    MUST(good == read);
    if (read) {
        qsort(position, n, sizeof *position, compare);
        for (size_t i = 0; i < n; i++) {
            const struct layout_bits *b = &f.bits[0];
            MUST(position[i] / 8 < b->len && b->data[position[i] / 8] >> position[i] % 8 & 1);
        }
        /* This looks at 512 MiB. */
        if (size % 16 == 0)
            check_list(&f, position, n);
        foreign_free(&f);
    }
    free(position);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const specs[] = {
        "php", "php:functions=JSHash", "php:functions=PJWHash+ELFHash+DJBHash",
        "php:functions=FNVHash+DEKHash+DJBHash+BKDRHash+SDBMHash+JSHash+PJWHash+ELFHash"};
    if (size == 0)
        return 0;
    const char *spec = specs[(data[0] >> 1) % 4];
    if (data[0] & 1)
        try_list(spec, data + 1, size - 1);
    else
        foreign_bitmap(spec, data + 1, size - 1, 0);
    return 0;
}

/* SPDX-License-Identifier: MIT
 * Dumps as RedisBloom's. The first byte says how the rest is meant: bit 0, with seed=32; bit 1, the
 * data are as long as the header asks for, filled up with zeroes. Then comes the length of the
 * header in two bytes, the header, the data.
 *
 * What is read comes back as it was, and keys have positions in it.
 */
#include "foreign.h"

enum {
    LARGEST = 1 << 20, /* data to be made */
    FILES = 2,
};

static struct foreign f;
static struct written out[FILES];

static bool append(void *ctx, unsigned file, const void *data, size_t len, struct err *err)
{
    (void)ctx;
    MUST(file < FILES);
    struct written *to = &out[file];
    if (to->room - to->len < len) {
        to->room = 2 * (to->len + len);
        to->data = realloc(to->data, to->room);
        MUST(to->data != NULL);
    }
    return foreign_append(to, 0, data, len, err);
}

/* The bytes of all links, as the header says; LARGEST + 1 if they are more. */
static uint64_t bytes_in(const uint8_t *p, size_t len)
{
    uint64_t sum = 0, n = len >= 20 ? get_le32(p + 8) : 0;
    if (n == 0 || n > (len - 16) / 49)
        return 0;
    size_t head = len == 16 + 49 * n ? 16 : 20, link = (len - head) / n;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t bytes = get_le64(p + head + i * link);
        if (bytes > LARGEST || sum + bytes > LARGEST)
            return LARGEST + 1;
        sum += bytes;
    }
    return sum;
}

static void hash_keys(const struct layer *layer)
{
    static uint64_t position[4096 * 2];
    const uint64_t hash[4] = {UINT64_MAX, 12345, UINT64_MAX, 67890};
    layer->kind->layout->positions(layer, (struct hashes){hash, 2, NULL}, 2, position);
    for (unsigned j = 0; j < 2 * (layer->geometry[1] & 0xffff); j++)
        MUST(position[j] < layer->geometry[0]);
}

static void write_again(const struct layout_foreign *in)
{
    const uint8_t *data[LAYOUT_LAYERS];
    uint8_t *owned[LAYOUT_LAYERS];
    struct layout_sink sink = {.write = append, .name = "-"};
    struct err err;
    for (unsigned i = 0; i < f.filter.n_layers; i++) {
        size_t len = f.filter.layer[i].data_len;
        data[i] = owned[i] = malloc(len);
        MUST(owned[i] != NULL);
        layout_take(&f.bits[i], 0, owned[i], len);
    }
    out[0].len = out[1].len = 0;
    MUST(f.spec.kind->layout->write(&f.filter, data, &sink, &err));
    for (unsigned i = 0; i < FILES; i++)
        MUST(out[i].len == in->len[i] && memcmp(out[i].data, in->data[i], out[i].len) == 0);
    for (unsigned i = 0; i < f.filter.n_layers; i++)
        free(owned[i]);
}

static void read_dump(const char *spec, const struct layout_foreign *in)
{
    char shown[LAYOUT_TEXT];
    struct err err = {.text = ""};
    memset(f.bits, 0, sizeof f.bits);
    MUST(layout_parse(spec, &f.spec, &err));
    const struct layout *layout = f.spec.kind->layout;
    if (!layout->read(&f.spec, in, &f.filter, f.bits, &err)) {
        MUST(err.text[0] != '\0');
        return;
    }
    MUST(layout->recognize(in));
    MUST(f.filter.fpr_design > 0 && f.filter.fpr_design < 1);
    for (unsigned i = 0; i < f.filter.n_layers; i++)
        MUST(f.filter.layer[i].kind->check(&f.filter.layer[i], &err));
    write_again(in);
    hash_keys(&f.filter.layer[f.filter.n_layers - 1]);
    layout_show(&f.filter, shown, sizeof shown);
    MUST(layout_parse(shown, &f.spec, &err));
    MUST(layout->read(&f.spec, in, &f.filter, f.bits, &err));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    size_t header_len = get_le32((const uint8_t[4]){data[1], data[2]});
    header_len = header_len < size - 3 ? header_len : size - 3;
    struct layout_foreign in = {.name = {"header", "data"},
                                .data = {data + 3, data + 3 + header_len},
                                .len = {header_len, size - 3 - header_len}};
    uint8_t *filled = NULL;
    uint64_t wanted = bytes_in(in.data[0], header_len);
    if ((data[0] & 2) != 0 && wanted <= LARGEST) {
        filled = calloc(wanted + 1, 1);
        MUST(filled != NULL);
        memcpy(filled, in.data[1], in.len[1] < wanted ? in.len[1] : wanted);
        in.data[1] = filled;
        in.len[1] = wanted;
    }
    read_dump((data[0] & 1) != 0 ? "redisbloom:seed=32" : "redisbloom", &in);
    free(filled);
    return 0;
}

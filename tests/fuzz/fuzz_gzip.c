/* SPDX-License-Identifier: MIT
 * Any bytes as a key file, compressed or not, from a file and through a pipe: refused as no list of
 * keys, or never more than what is in them, never less unless that is said, no part of a record
 * where they break off. The first byte of the input makes the chunk length and says how it is read.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "keys/input.h"
#include "must.h"
#include "source.h"

enum {
    MOST_IN = SOURCE_MOST,
    MOST_OUT = 4 << 20,
};

struct text {
    char *data;
    size_t len, room;
    bool broken;
};

static void append(struct text *t, const void *data, size_t len)
{
    if (t->len + len >= t->room) {
        t->room = 2 * (t->len + len + 1);
        t->data = realloc(t->data, t->room);
        MUST(t->data);
    }
    memcpy(t->data + t->len, data, len);
    t->len += len;
}

/* All that zlib makes of the bytes, member after member. */
static struct text reference(const uint8_t *p, size_t len)
{
    struct text out = {0};
    append(&out, "", 0);
    if (len < 3 || p[0] != 0x1f || p[1] != 0x8b || p[2] != 8 || (len > 3 && (p[3] & 0xe0))) {
        append(&out, p, len);
        return out;
    }
    uint8_t *copy = malloc(len);
    MUST(copy);
    memcpy(copy, p, len);
    z_stream z = {.next_in = copy, .avail_in = (uInt)len};
    MUST(inflateInit2(&z, 16 + 15) == Z_OK);
    int status = Z_OK;
    while (out.len < MOST_OUT) {
        unsigned char block[4096];
        z.next_out = block;
        z.avail_out = sizeof block;
        status = inflate(&z, Z_NO_FLUSH);
        append(&out, block, sizeof block - z.avail_out);
        if (status == Z_STREAM_END) {
            if (!z.avail_in)
                break;
            if (z.next_in[0] != 0x1f || (z.avail_in > 1 && z.next_in[1] != 0x8b) ||
                (z.avail_in > 2 && z.next_in[2] != 8) || (z.avail_in > 3 && z.next_in[3] & 0xe0))
                break;
            inflateReset(&z);
        } else if (status != Z_OK) {
            break;
        }
    }
    bool zeroes = true;
    for (uInt i = 0; i < z.avail_in; i++)
        zeroes &= z.next_in[i] == 0;
    out.broken = status != Z_STREAM_END || !zeroes;
    inflateEnd(&z);
    free(copy);
    return out;
}

/* The first bytes are those of no list of keys (content.h). */
static bool is_refusal(const char *text)
{
    return strstr(text, "not a list of keys") != NULL || strstr(text, "is UTF-") != NULL ||
           strstr(text, "end in NUL") != NULL || strstr(text, "is binary data") != NULL ||
           strstr(text, "compressed data behind text") != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > MOST_IN)
        return 0;
    static const size_t chunk_lens[] = {1, 7, 64, 1000, 5000, 70000, 0, 3};
    unsigned how = *data++;
    size--;
    struct text want = reference(data, size), got = {0};
    if (want.len >= MOST_OUT) {
        free(want.data);
        return 0;
    }
    append(&got, "", 0);

    int fd = source_of(data, size, how & 8);
    char path[40], *file = path;
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    struct input_spec spec = {.files = &file,
                              .n_files = 1,
                              .terminator = how & 16 ? 0 : '\n',
                              .gzip = true,
                              .prompt = how & 32,
                              .chunk_len = chunk_lens[how % 8]};
    struct err err;
    struct chunk chunk = {0};
    struct input *in = input_open(&spec, &err);
    MUST(in);
    enum input_got status;
    bool refused = false;
    for (uint64_t seq = 0; (status = input_next(in, &chunk, &err)) != INPUT_END; seq++) {
        MUST(chunk.seq == seq && chunk.file == 0 && !got.broken);
        got.broken = status == INPUT_FAILED;
        refused = got.broken && got.len == 0 && is_refusal(err.text);
        if (status == INPUT_CHUNK_READ)
            append(&got, chunk.data, chunk.len);
        input_finished(in, seq + 1);
    }
    chunk_free(&chunk);
    input_close(in);
    close(fd);

    MUST(refused || got.broken == want.broken);
    if (refused) {
        want.len = 0;
    } else if (got.broken) {
        while (want.len && want.data[want.len - 1] != spec.terminator)
            want.len--;
    }
    MUST(got.len == want.len && memcmp(got.data, want.data, got.len) == 0);
    free(got.data);
    free(want.data);
    return 0;
}

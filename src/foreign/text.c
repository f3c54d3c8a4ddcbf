/* SPDX-License-Identifier: MIT */
#include "foreign/text.h"

#include <stdlib.h>
#include <string.h>

uint8_t *text_decode(enum base64 alphabet, const uint8_t *text, uint64_t n, struct err *err)
{
    size_t got, len = (size_t)base64_len(n);
    uint8_t *bytes = len / 4 == (n + 2) / 3 ? malloc(len / 4 * 3) : NULL;
    if (bytes == NULL)
        fail(err, "out of memory");
    else if (base64_decode(alphabet, (const char *)text, len, bytes, &got) && got == n)
        return bytes;
    else
        fail(err, "it is not base64 as the program writes it");
    free(bytes);
    return NULL;
}

bool text_end(struct text_sink *t, struct err *err)
{
    char text[4 << 10];
    size_t len = (size_t)base64_len(t->n);
    base64_encode(t->alphabet, t->bytes, t->n, text);
    t->n = 0;
    return t->to->write(t->to->ctx, 0, text, len, err);
}

static bool encode(void *ctx, unsigned file, const void *data, size_t len, struct err *err)
{
    struct text_sink *t = ctx;
    const uint8_t *from = data;
    (void)file;
    while (len > 0) {
        size_t room = sizeof t->bytes - t->n, n = len < room ? len : room;
        memcpy(t->bytes + t->n, from, n);
        t->n += n;
        from += n;
        len -= n;
        if (n == room && !text_end(t, err))
            return false;
    }
    return true;
}

const struct layout_sink *text_begin(struct text_sink *t, enum base64 alphabet,
                                     const struct layout_sink *to)
{
    t->sink = (struct layout_sink){.write = encode, .ctx = t};
    t->to = to;
    t->alphabet = alphabet;
    t->n = 0;
    return &t->sink;
}

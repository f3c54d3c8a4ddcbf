/* SPDX-License-Identifier: MIT
 * Parts of foreign files in base64.
 *
 *     const struct layout_sink *encoder = text_begin(&text, BASE64_URL, sink);
 *     ok = layout_put(encoder, 0, ...) && text_end(&text, &err);
 */
#ifndef FOREIGN_TEXT_H
#define FOREIGN_TEXT_H

#include "base/base64.h"
#include "foreign/layout.h"

/* The n bytes of a text, in memory that the caller frees. NULL: it is not the base64 of n bytes,
 * or there is no memory. */
uint8_t *text_decode(enum base64 alphabet, const uint8_t *text, uint64_t n, struct err *err);

struct text_sink {
    struct layout_sink sink;
    const struct layout_sink *to;
    enum base64 alphabet;
    size_t n;
    uint8_t bytes[3 << 10];
};

/* Returns a sink of one file. What is written to it goes to `to`, encoded. */
const struct layout_sink *text_begin(struct text_sink *t, enum base64 alphabet,
                                     const struct layout_sink *to);
bool text_end(struct text_sink *t, struct err *err);

#endif

/*
 * What a Redis server answers. All replies to a batch of commands lie in one `struct replies` and
 * are freed together.
 */
#ifndef REDIS_REPLY_H
#define REDIS_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum reply_type { REPLY_NIL, REPLY_INTEGER, REPLY_STRING, REPLY_STATUS, REPLY_ERROR, REPLY_ARRAY };

struct reply {
    enum reply_type type;
    size_t n; /* bytes of the text, or elements */
    union {
        int64_t integer;
        const char *text; /* ends with NUL, which is not counted */
        struct reply *elements;
    };
};

struct replies {
    struct reply_block *block; /* the newest, which has all free room */
    size_t n_elements;         /* of all arrays */
};

/* Room for len bytes, aligned for any type; NULL: no memory. */
void *reply_alloc(struct replies *rs, size_t len);
void reply_clear(struct replies *rs); /* keeps some memory */
void reply_free(struct replies *rs);

/* Is it the error of that code, the first word of its text? That of an EXECABORT which names its
 * cause is the cause's. */
bool reply_is_error(const struct reply *r, const char *code);

/* Buffer size for a reason. */
enum { REPLY_REASON = 400 };

/* Says in plain words why the server refused, to stand after a colon; what it does not know, it
 * quotes. Writes REPLY_REASON bytes at most to buf and returns it. */
const char *reply_reason(const struct reply *r, char *buf);

#endif

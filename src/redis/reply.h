/*
 * Replies of a Redis server. All replies to a batch of commands are allocated from one `struct
 * replies` and freed together.
 */
#ifndef REDIS_REPLY_H
#define REDIS_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum reply_type { REPLY_NIL, REPLY_INTEGER, REPLY_STRING, REPLY_STATUS, REPLY_ERROR, REPLY_ARRAY };

struct reply {
    enum reply_type type;
    size_t n; /* length of the text in bytes, or number of elements */
    union {
        int64_t integer;
        const char *text; /* followed by a NUL, which n does not count */
        struct reply *elements;
    };
};

struct replies {
    struct reply_block *block; /* the newest; only this one has free room */
    size_t n_elements;         /* in all arrays */
};

/* Allocates len bytes, aligned for any type. NULL: no memory. */
void *reply_alloc(struct replies *rs, size_t len);
void reply_clear(struct replies *rs); /* keeps some memory */
void reply_free(struct replies *rs);

/* Is the reply an error with this code? The code is the first word of the text. An EXECABORT that
 * names its cause has the code of the cause. */
bool reply_is_error(const struct reply *r, const char *code);

/* Buffer size for a reason. */
enum { REPLY_REASON = 400 };

/* Says in plain words why the server refused, to follow a colon in a message. Quotes errors that it
 * does not know. Writes at most REPLY_REASON bytes to buf and returns buf. */
const char *reply_reason(const struct reply *r, char *buf);

#endif

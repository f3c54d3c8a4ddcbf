/* SPDX-License-Identifier: MIT
 * What a Redis server is sent, and what it answers: slots, requests and replies.
 *
 * A batch of commands to a Redis server, encoded as they are sent (RESP: arrays of bulk strings).
 * Keep the batch until it is answered: a redirected command is sent again.
 *
 *     struct requests rq = {0};
 *     requests_begin(&rq, 3, "PEXPIRE");      // three words, including the name
 *     requests_key(&rq, key, key_len);
 *     requests_number(&rq, 60000);
 *     ... more commands, cluster_run (cluster.h), requests_clear ...
 *     requests_free(&rq);
 *
 * Nothing here fails: if memory runs out, no_memory is set, and cluster_run reports it.
 */
#ifndef REDIS_MESSAGES_H
#define REDIS_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Slots of a Redis Cluster (Redis Cluster Specification, "Key distribution model"): a key
 * belongs to slot CRC16(key) mod 16384. If at least one byte lies between the first '{' of the key
 * and the next '}', only those bytes are hashed. So keys can be placed in the same slot. */

enum { SLOTS = 16384 };

unsigned slot_of(const void *key, size_t len);

/* ---- Requests. */

enum { REQUESTS_ANY_SLOT = -1 };

/* A command, or a block of commands. */
struct request {
    size_t begin; /* offset in data; the request ends where the next one begins */
    unsigned n;   /* commands */
    int slot;     /* of its first key; REQUESTS_ANY_SLOT: any server will do */
};

struct requests {
    char *data;
    size_t len, room;
    struct request *list;
    size_t n, list_room;
    bool in_block;
    bool no_memory;
};

/* Begins a command of n words, the first being `name`; exactly n - 1 words must follow. */
void requests_begin(struct requests *rq, size_t n, const char *name);
void requests_word(struct requests *rq, const char *text);
void requests_bytes(struct requests *rq, const void *data, size_t len);
void requests_number(struct requests *rq, uint64_t number);

/* The commands between these two are one request, such as MULTI ... EXEC. They go to one server, on
 * one connection, without other commands between them, and have one reply: the first error, or the
 * reply to the last command. In a cluster, all their keys must be in one slot. If they are not
 * MULTI ... EXEC, they may run in part before they are sent again. */
void requests_block(struct requests *rq);
void requests_block_end(struct requests *rq);

/* Appends a key. The first key of a request decides which server gets it. */
void requests_key(struct requests *rq, const void *key, size_t len);

/* The bytes of request i. */
static inline const char *requests_text(const struct requests *rq, size_t i, size_t *len)
{
    size_t end = i + 1 < rq->n ? rq->list[i + 1].begin : rq->len;
    *len = end - rq->list[i].begin;
    return rq->data + rq->list[i].begin;
}

void requests_clear(struct requests *rq); /* keeps the memory */
void requests_free(struct requests *rq);

/* ---- Replies of a Redis server. All replies to a batch of commands are allocated from one `struct
 * replies` and freed together. */

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
    bool too_deep;             /* a reply was refused since its arrays are nested too deep */
};

/* Allocates len bytes, aligned for any type. NULL: no memory. */
void *reply_alloc(struct replies *rs, size_t len);
void reply_free(struct replies *rs); /* all of them */

/* Is the reply an error with this code? The code is the first word of the text. An EXECABORT that
 * names its cause has the code of the cause. */
bool reply_is_error(const struct reply *r, const char *code);

/* Buffer size for a reason. */
enum { REPLY_REASON = 400 };

/* Says in plain words why the server refused, to follow a colon in a message. Quotes errors that it
 * does not know: writes these to buf, which has room for REPLY_REASON bytes. */
const char *reply_reason(const struct reply *r, char *buf);

#endif

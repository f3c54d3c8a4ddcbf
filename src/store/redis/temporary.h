/*
 * Private to this folder: a temporary key, of the slot of another key, whose place it is to take or
 * which is to take in its bits.
 *
 *     struct temporary t = {0};
 *     if (temporary_name(&t, r, shard, &err) && temporary_write(&t, &bits, &err) &&
 *         ... commands with temporary_command, temporary_key ... )
 *         ...
 *     else
 *         temporary_drop(&t);
 *     temporary_free(&t);
 */
#ifndef STORE_REDIS_TEMPORARY_H
#define STORE_REDIS_TEMPORARY_H

#include "store/redis/place.h"

enum {
    /* A temporary key that nobody could delete lives on for so long. A chunk takes far less. */
    TEMPORARY_MS = 10 * 60 * 1000,
};

struct temporary {
    struct redis *r;
    char *key; /* NULL: none */
    size_t key_len;
    uint64_t n_set; /* bits that temporary_write has set */
};

/* Finds a name that nobody else uses. */
bool temporary_name(struct temporary *t, struct redis *r, const struct shard *s, struct err *err);
void temporary_free(struct temporary *t);

/* Begins a command of so many words on the key. */
void temporary_command(struct temporary *t, size_t words, const char *command);

/* The key as a further word of a command. */
void temporary_key(struct temporary *t);

/* Writes the bytes of a bitmap, in chunks; those that are zero are left out, but for the last.
 * Bytes of ORDER_LOW_FIRST are written as they are, those of ORDER_HIGH_FIRST with their bits
 * turned round. */
bool temporary_write(struct temporary *t, const struct layout_bits *bits, struct err *err);

/* Takes the reply to BITCOUNT. Fails if not all bits are there that temporary_write has set. */
bool temporary_whole(const struct temporary *t, const struct reply *count, struct err *err);

/* When what takes the place of a shard is to expire, in milliseconds since 1970 by the server's
 * clock, 0 for never: in `expire` seconds, or if that is 0, when what is there would. */
bool temporary_life(struct redis *r, const struct shard *s, uint64_t expire, uint64_t *until,
                    struct err *err);

/* Lets the key take the place of the shard's, and live until then. */
bool temporary_rename(struct temporary *t, const struct shard *s, uint64_t until, struct err *err);

/* Deletes the key. If that fails, it expires. */
void temporary_drop(struct temporary *t);

#endif

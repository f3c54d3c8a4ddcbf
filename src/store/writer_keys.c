#include "store/writer_keys.h"

#include <stdlib.h>
#include <string.h>

static bool reserve(struct writer_keys *keys, unsigned lanes, size_t more)
{
    if (keys->room - keys->n >= more)
        return true;
    size_t room = 2 * keys->room + BATCH_MAX;
    uint64_t *known = realloc(keys->known, room / 64 * sizeof *known);
    if (known == NULL)
        return false;
    keys->known = known;
    uint64_t *hash = realloc(keys->hash, lanes * room * sizeof *hash);
    if (hash == NULL)
        return false;
    keys->hash = hash;
    for (unsigned l = lanes; l-- > 1;)
        memmove(hash + l * room, hash + l * keys->room, keys->n * sizeof *hash);
    keys->room = room;
    return true;
}

/* Copies of prepared keys of a batch. The batch, with its buffers, is reused. */
struct key_copies {
    struct key_copies *next;
    char data[];
};

static void free_copies(struct writer_keys *keys)
{
    while (keys->copies != NULL) {
        struct key_copies *next = keys->copies->next;
        free(keys->copies);
        keys->copies = next;
    }
}

static bool take_bytes(struct writer_keys *keys, const struct batch *b)
{
    struct key_bytes *out = realloc(keys->bytes, keys->room * sizeof *out);
    size_t need = 0;
    if (out == NULL)
        return false;
    keys->bytes = out;
    out += keys->n;
    memcpy(out, b->bytes, b->n * sizeof *out);
    for (size_t i = 0; i < b->n; i++)
        need += batch_key_stays(b, i) ? 0 : out[i].len;
    if (need == 0)
        return true;
    struct key_copies *copies = malloc(sizeof *copies + need);
    if (copies == NULL)
        return false;
    copies->next = keys->copies;
    keys->copies = copies;
    char *to = copies->data;
    for (size_t i = 0; i < b->n; i++)
        if (out[i].len > 0 && !batch_key_stays(b, i)) {
            out[i].data = memcpy(to, out[i].data, out[i].len);
            to += out[i].len;
        }
    return true;
}

bool writer_keys_take(struct writer_keys *keys, const struct batch *b)
{
    const struct hashes from = batch_hashes(b);
    unsigned lanes = key_rule_hash(b->rule)->lanes;
    if (!reserve(keys, lanes, BATCH_MAX))
        return false;
    if (keys->n == 0)
        free_copies(keys);
    if (b->rule->bytes && !take_bytes(keys, b))
        return false;
    for (unsigned l = 0; l < lanes; l++)
        memcpy(keys->hash + l * keys->room + keys->n, hashes_lane(from, l),
               b->n * sizeof *keys->hash);
    memcpy(keys->known + keys->n / 64, b->bad, sizeof b->bad);
    keys->n += b->n;
    return true;
}

void writer_keys_free(struct writer_keys *keys)
{
    free(keys->hash);
    free(keys->known);
    free(keys->bytes);
    free_copies(keys);
}

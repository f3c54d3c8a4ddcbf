#include "redis/requests.h"

#include <stdlib.h>
#include <string.h>

#include "redis/slot.h"

/* "$18446744073709551615\r\n", the longest head of a word or a command. */
enum { HEAD_ROOM = 23 };

/* A larger buffer. The old one is overwritten: it may hold a password. */
static bool grow(struct requests *rq, size_t room)
{
    char *data = malloc(room);
    if (data == NULL)
        return false;
    if (rq->len > 0)
        memcpy(data, rq->data, rq->len);
    if (rq->data != NULL)
        explicit_bzero(rq->data, rq->len);
    free(rq->data);
    rq->data = data;
    rq->room = room;
    return true;
}

/* Room for len more bytes, or NULL. */
static char *reserve(struct requests *rq, size_t len)
{
    if (rq->no_memory)
        return NULL;
    if (len > rq->room - rq->len) {
        size_t room = rq->room < 4096 ? 4096 : rq->room;
        while (room - rq->len < len && room <= SIZE_MAX / 2)
            room *= 2;
        rq->no_memory = room - rq->len < len || !grow(rq, room);
        if (rq->no_memory)
            return NULL;
    }
    return rq->data + rq->len;
}

/* Writes the number's decimal digits; returns the end. */
static char *put_digits(char *out, uint64_t number)
{
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + number % 10);
    while (number /= 10);
    while (n > 0)
        *out++ = digits[--n];
    return out;
}

static char *put_head(char *out, char type, uint64_t number)
{
    *out++ = type;
    out = put_digits(out, number);
    *out++ = '\r';
    *out++ = '\n';
    return out;
}

void requests_begin(struct requests *rq, size_t n, const char *name)
{
    if (rq->n == rq->list_room) {
        size_t room = rq->list_room != 0 ? 2 * rq->list_room : 64;
        struct request *list = realloc(rq->list, room * sizeof *list);
        if (list == NULL) {
            rq->no_memory = true;
            return;
        }
        rq->list = list;
        rq->list_room = room;
    }
    char *out = reserve(rq, HEAD_ROOM);
    if (out == NULL)
        return;
    bool joined = rq->n > rq->block_begin && rq->n < rq->block_end;
    int slot = joined ? rq->list[rq->n - 1].slot : REQUESTS_ANY_SLOT;
    rq->list[rq->n++] = (struct request){rq->len, slot, joined};
    rq->len += (size_t)(put_head(out, '*', n) - out);
    requests_word(rq, name);
}

void requests_block(struct requests *rq, size_t n)
{
    rq->block_begin = rq->n;
    rq->block_end = rq->n + n;
}

void requests_bytes(struct requests *rq, const void *data, size_t len)
{
    char *begin = len <= SIZE_MAX - HEAD_ROOM - 2 ? reserve(rq, HEAD_ROOM + len + 2) : NULL;
    if (begin == NULL) {
        rq->no_memory = true;
        return;
    }
    char *out = put_head(begin, '$', len);
    if (len > 0)
        memcpy(out, data, len);
    out += len;
    *out++ = '\r';
    *out++ = '\n';
    rq->len += (size_t)(out - begin);
}

void requests_word(struct requests *rq, const char *text)
{
    requests_bytes(rq, text, strlen(text));
}

void requests_number(struct requests *rq, uint64_t number)
{
    char digits[20];
    requests_bytes(rq, digits, (size_t)(put_digits(digits, number) - digits));
}

void requests_key(struct requests *rq, const void *key, size_t len)
{
    if (rq->n > 0 && rq->list[rq->n - 1].slot == REQUESTS_ANY_SLOT)
        requests_at(rq, slot_of(key, len));
    requests_bytes(rq, key, len);
}

void requests_at(struct requests *rq, unsigned slot)
{
    size_t i = rq->n;
    while (i-- > 0) {
        rq->list[i].slot = (int)slot;
        if (!rq->list[i].joined)
            break;
    }
}

void requests_clear(struct requests *rq)
{
    rq->len = rq->n = rq->block_begin = rq->block_end = 0;
    rq->no_memory = false;
}

void requests_free(struct requests *rq)
{
    free(rq->data);
    free(rq->list);
    *rq = (struct requests){0};
}

/* SPDX-License-Identifier: MIT */
#include "redis/messages.h"

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Slots. */

/* CRC-16/XMODEM: polynomial x^16 + x^12 + x^5 + 1, initial value 0, nothing reflected. Four bits at
 * a time: the remainder of i * x^16, i < 16, is the integer product of i and the polynomial's lower
 * part 0x1021. The bits of 0x1021 are at least 4 apart, so nothing carries. */
static unsigned crc16(const unsigned char *p, size_t len)
{
    unsigned crc = 0;
    for (; len > 0; p++, len--) {
        crc = (crc << 4 ^ (crc >> 12 ^ *p >> 4) * 0x1021) & 0xffff;
        crc = (crc << 4 ^ (crc >> 12 ^ (*p & 15)) * 0x1021) & 0xffff;
    }
    return crc;
}

unsigned slot_of(const void *key, size_t len)
{
    const unsigned char *begin = key, *end = begin + len;
    const unsigned char *open = len > 0 ? memchr(begin, '{', len) : NULL;
    if (open != NULL) {
        const unsigned char *tag = open + 1;
        const unsigned char *close = tag < end ? memchr(tag, '}', (size_t)(end - tag)) : NULL;
        if (close != NULL && close > tag) {
            begin = tag;
            end = close;
        }
    }
    return crc16(begin, (size_t)(end - begin)) % SLOTS;
}

/* ---- Requests. */

enum {
    HEAD_ROOM = 23, /* "$18446744073709551615\r\n", the longest head of a word or a command */
    /* A password fits: it is wiped only where it is. */
    FIRST_ROOM = 16 << 10,
};

/* Room for len more bytes, or NULL. */
static char *reserve(struct requests *rq, size_t len)
{
    if (rq->no_memory)
        return NULL;
    if (len > rq->room - rq->len) {
        size_t room = rq->room < FIRST_ROOM ? FIRST_ROOM : rq->room;
        while (room - rq->len < len && room <= SIZE_MAX / 2)
            room *= 2;
        char *data = room - rq->len >= len ? realloc(rq->data, room) : NULL;
        rq->no_memory = data == NULL;
        if (rq->no_memory)
            return NULL;
        rq->data = data;
        rq->room = room;
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

static void add_request(struct requests *rq)
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
    rq->list[rq->n++] = (struct request){rq->len, 0, REQUESTS_ANY_SLOT};
}

void requests_begin(struct requests *rq, size_t n, const char *name)
{
    if (!rq->in_block)
        add_request(rq);
    char *out = reserve(rq, HEAD_ROOM);
    if (out == NULL)
        return;
    rq->list[rq->n - 1].n++;
    rq->len += (size_t)(put_head(out, '*', n) - out);
    requests_word(rq, name);
}

void requests_block(struct requests *rq)
{
    add_request(rq);
    rq->in_block = true;
}

void requests_block_end(struct requests *rq)
{
    rq->in_block = false;
}

void requests_bytes(struct requests *rq, const void *data, size_t len)
{
    char *begin = reserve(rq, HEAD_ROOM + len + 2);
    if (begin == NULL)
        return;
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
    struct request *last = rq->n > 0 ? &rq->list[rq->n - 1] : NULL;
    if (last != NULL && last->slot == REQUESTS_ANY_SLOT)
        last->slot = (int)slot_of(key, len);
    requests_bytes(rq, key, len);
}

void requests_clear(struct requests *rq)
{
    rq->len = rq->n = 0;
    rq->in_block = rq->no_memory = false;
}

void requests_free(struct requests *rq)
{
    free(rq->data);
    free(rq->list);
    *rq = (struct requests){0};
}

/* ---- Replies. */

struct reply_block {
    struct reply_block *older;
    size_t len, room; /* of data */
    alignas(max_align_t) char data[];
};

/* Usual size: the replies to some hundred commands. */
enum { BLOCK_ROOM = 64 << 10 };

void *reply_alloc(struct replies *rs, size_t len)
{
    enum { ALIGN = alignof(max_align_t) };
    if (len > SIZE_MAX / 4)
        return NULL;
    len = (len + ALIGN - 1) / ALIGN * ALIGN;
    struct reply_block *b = rs->block;
    if (b == NULL || len > b->room - b->len) {
        size_t room = len > BLOCK_ROOM ? len : BLOCK_ROOM;
        b = malloc(sizeof *b + room);
        if (b == NULL)
            return NULL;
        *b = (struct reply_block){.older = rs->block, .room = room};
        rs->block = b;
    }
    void *p = b->data + b->len;
    b->len += len;
    return p;
}

void reply_free(struct replies *rs)
{
    while (rs->block != NULL) {
        struct reply_block *older = rs->block->older;
        free(rs->block);
        rs->block = older;
    }
    rs->n_elements = 0;
}

bool reply_is_error(const struct reply *r, const char *code)
{
    static const char ABORT[] = "EXECABORT Transaction discarded because of: ";
    if (r->type != REPLY_ERROR)
        return false;
    size_t len = strlen(code);
    const char *text = r->text;
    if (strncmp(text, ABORT, sizeof ABORT - 1) == 0)
        text += sizeof ABORT - 1;
    return strncmp(text, code, len) == 0 && (text[len] == ' ' || text[len] == '\0');
}

const char *reply_reason(const struct reply *r, char *buf)
{
    static const struct {
        const char *code, *reason;
    } known[] = {
        {"WRONGTYPE", "the key holds a value of another type"},
        {"NOAUTH", "the server wants a password: set REDISCLI_AUTH or use --password-file"},
        {"WRONGPASS", "the server does not take this user or password"},
        {"READONLY", "the server is a replica, which cannot be written: name its master"},
        {"OOM", "the server is at its memory limit (maxmemory)"},
        {"LOADING", "the server is loading its data"},
        {"BUSY", "the server is busy with a script"},
        {"MISCONF", "the server takes no writes, as it cannot save to its disk"},
        {"NOREPLICAS", "the server takes no writes, as too few replicas follow it"},
        {"MASTERDOWN", "the server is a replica that has lost its master"},
        {"CLUSTERDOWN", "the cluster is down, or nobody serves this key's slot"},
        {"TRYAGAIN", "the key's slot is being moved to another server"},
        {"CROSSSLOT", "the keys belong to different slots of the cluster"},
        {"DENIED", "the server is in protected mode and takes local connections only"},
    };
    if (r->type != REPLY_ERROR)
        return "the server's answer is of an unexpected type";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (reply_is_error(r, known[i].code))
            return known[i].reason;
    snprintf(buf, REPLY_REASON, "the server says '%.300s'", r->text);
    return buf;
}

#include "redis/reply.h"

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reply_block {
    struct reply_block *older;
    size_t len, room; /* of data */
    alignas(max_align_t) char data[];
};

/* The first block, of FIRST_ROOM bytes, holds the replies to a few hundred commands. Blocks larger
 * than KEPT_ROOM are not kept for the next batch. */
enum { FIRST_ROOM = 16 << 10, KEPT_ROOM = 4 << 20 };

void *reply_alloc(struct replies *rs, size_t len)
{
    enum { ALIGN = alignof(max_align_t) };
    if (len > SIZE_MAX / 4)
        return NULL;
    len = (len + ALIGN - 1) / ALIGN * ALIGN;
    struct reply_block *b = rs->block;
    if (b == NULL || len > b->room - b->len) {
        size_t room = b == NULL ? FIRST_ROOM : b->room < KEPT_ROOM ? 2 * b->room : KEPT_ROOM;
        if (room < len)
            room = len;
        struct reply_block *fresh = malloc(sizeof *fresh + room);
        if (fresh == NULL)
            return NULL;
        *fresh = (struct reply_block){.older = b, .room = room};
        rs->block = b = fresh;
    }
    void *p = b->data + b->len;
    b->len += len;
    return p;
}

static void free_blocks(struct reply_block *b)
{
    while (b != NULL) {
        struct reply_block *older = b->older;
        free(b);
        b = older;
    }
}

void reply_clear(struct replies *rs)
{
    struct reply_block *b = rs->block;
    if (b != NULL && b->room <= KEPT_ROOM) {
        free_blocks(b->older);
        b->older = NULL;
        b->len = 0;
    } else {
        free_blocks(b);
        rs->block = NULL;
    }
    rs->n_elements = 0;
}

void reply_free(struct replies *rs)
{
    free_blocks(rs->block);
    *rs = (struct replies){0};
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
    if (r->type != REPLY_ERROR) {
        snprintf(buf, REPLY_REASON, "the server's answer is of an unexpected type");
        return buf;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (reply_is_error(r, known[i].code)) {
            snprintf(buf, REPLY_REASON, "%s", known[i].reason);
            return buf;
        }
    }
    snprintf(buf, REPLY_REASON, "the server says '%.300s'", r->text);
    return buf;
}

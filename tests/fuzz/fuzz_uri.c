/* SPDX-License-Identifier: MIT
 * Any text as an address in Redis: what is taken keeps its bounds, and means the same when its
 * parts are encoded again; what is refused has a reason.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/disk.h"
#include "redis/uri.h"
#include "must.h"

enum { MOST = 4096 };

/* Every byte as %XX, but for slashes that must stay. */
static char *encode(char *out, const char *s, size_t len, char plain)
{
    for (size_t i = 0; i < len; i++) {
        if (s[i] == plain)
            *out++ = plain;
        else
            out += sprintf(out, "%%%02x", (unsigned)(unsigned char)s[i]);
    }
    *out = '\0';
    return out;
}

static void check_again(const struct uri *uri)
{
    static char text[3 * MOST + 200];
    char *out = text + sprintf(text, uri->host != NULL ? "redis://" : "redis+unix://");
    if (uri->user != NULL) {
        out = encode(out, uri->user, strlen(uri->user), '@' + 1);
        *out++ = '@';
    }
    if (uri->host != NULL) {
        *out++ = '[';
        out = encode(out, uri->host, strlen(uri->host), 'a');
        out += sprintf(out, "]:%u/", uri->port);
        out = encode(out, uri->key, uri->key_len, '/');
    } else {
        out = encode(out, uri->socket, strlen(uri->socket), '/');
    }
    out += sprintf(out, "?db=%u&shards=%u", uri->db, uri->shards);
    if (uri->host == NULL) {
        out += sprintf(out, "&key=");
        out = encode(out, uri->key, uri->key_len, '+');
    }
    if (uri->layout != NULL) {
        out += sprintf(out, "&layout=");
        encode(out, uri->layout, strlen(uri->layout), ':');
    }
    struct uri again;
    struct err err;
    MUST(uri_parse(text, &again, &err));
    MUST(!uri->host == !again.host && !uri->user == !again.user && !uri->layout == !again.layout);
    MUST(uri->host == NULL || strcmp(uri->host, again.host) == 0);
    MUST(uri->socket == NULL || strcmp(uri->socket, again.socket) == 0);
    MUST(uri->user == NULL || strcmp(uri->user, again.user) == 0);
    MUST(uri->layout == NULL || strcmp(uri->layout, again.layout) == 0);
    MUST(uri->key_len == again.key_len && memcmp(uri->key, again.key, uri->key_len) == 0);
    MUST(uri->db == again.db && uri->shards == again.shards && uri->port == again.port);
    uri_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > MOST)
        return 0;
    char *text = malloc(size + 1);
    MUST(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    struct uri uri;
    struct err err = {.text = ""};
    if (uri_parse(text, &uri, &err)) {
        MUST(disk_is_address(text));
        MUST((uri.host == NULL) != (uri.socket == NULL));
        MUST(uri.key != NULL && uri.key_len > 0 && uri.key[uri.key_len] == '\0');
        MUST(uri.shards >= 1 && uri.shards <= URI_MAX_SHARDS && uri.db <= INT32_MAX);
        MUST(uri.host == NULL || (uri.host[0] != '\0' && uri.port >= 1 && uri.port <= 65535));
        MUST(uri.socket == NULL || (uri.socket[0] == '/' && strlen(uri.socket) <= URI_MAX_SOCKET));
        check_again(&uri);
        uri_free(&uri);
    } else {
        MUST(strncmp(err.text, "cannot use '", 12) == 0 && strstr(err.text, "': ") != NULL);
    }
    free(text);
    return 0;
}

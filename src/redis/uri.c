/* SPDX-License-Identifier: MIT */
#include "redis/uri.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"

static const struct {
    const char *prefix;
    bool local, tls;
} schemes[] = {
    {"redis://", false, false},       {"rediss://", false, true}, {"redis+unix://", true, false},
    {"redis-socket://", true, false}, {"unix://", true, false},
};

/* Database numbers are a C int in the server. */
enum { MAX_DB = INT32_MAX, MAX_PORT = 65535 };

/* The bytes from p up to end. */
struct span {
    const char *p, *end;
};

struct parser {
    const char *text;
    char *out; /* where the next decoded string goes */
    struct uri *uri;
    struct err *err;
};

static bool refuse(struct parser *ps, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool refuse(struct parser *ps, const char *fmt, ...)
{
    char reason[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    /* The text can be as long as a command line: truncates it, so that the reason fits. */
    return fail(ps->err, "cannot use '%.1000s': %s", ps->text, reason);
}

/* Cuts s at the first `c`: returns the part before it and leaves the part after it in *s. Without a
 * `c`, returns all, and *s becomes empty with p NULL. */
static struct span cut(struct span *s, char c)
{
    struct span head = *s;
    const char *at = s->p != s->end ? memchr(s->p, c, (size_t)(s->end - s->p)) : NULL;
    if (at == NULL) {
        *s = (struct span){NULL, NULL};
        return head;
    }
    head.end = at;
    s->p = at + 1;
    return head;
}

/* Decodes s to the end of the strings decoded so far, and ends it with NUL. */
static bool decode(struct parser *ps, struct span s, const char **text, size_t *len)
{
    char *begin = ps->out, *out = begin;
    while (s.p < s.end) {
        if (*s.p != '%') {
            *out++ = *s.p++;
            continue;
        }
        char digits[3] = "";
        if (s.end - s.p > 2)
            memcpy(digits, s.p + 1, 2);
        if (strspn(digits, "0123456789abcdefABCDEF") != 2)
            return refuse(ps, "'%%' is not followed by two hexadecimal digits (write %%25 for a "
                              "percent sign)");
        *out++ = (char)strtoul(digits, NULL, 16);
        s.p += 3;
    }
    *out = '\0';
    ps->out = out + 1;
    *text = begin;
    *len = (size_t)(out - begin);
    return true;
}

/* Decodes a string that must not be empty or hold a NUL. */
static bool decode_text(struct parser *ps, const char *what, struct span s, const char **text)
{
    size_t len = 0;
    if (!decode(ps, s, text, &len))
        return false;
    if (len == 0)
        return refuse(ps, "the %s is empty", what);
    if (strlen(*text) != len)
        return refuse(ps, "the %s holds a NUL", what);
    return true;
}

static bool decode_key(struct parser *ps, struct span s)
{
    if (!decode(ps, s, &ps->uri->key, &ps->uri->key_len))
        return false;
    return ps->uri->key_len > 0 || refuse(ps, "the key is empty");
}

/* The key of redis://HOST/KEY. */
static bool decode_path(struct parser *ps, struct span path)
{
    int digits = 0;
    while (path.p + digits < path.end && path.p[digits] >= '0' && path.p[digits] <= '9')
        digits++;
    if (digits > 0 && path.p + digits < path.end && path.p[digits] == '/')
        return refuse(ps,
                      "a database is given by ?db=%.*s (in a key that begins so, write the / as "
                      "%%2F)",
                      digits, path.p);
    return decode_key(ps, path);
}

/* Decimal digits only: no sign, no blanks. */
static bool digits_only(struct parser *ps, const char *what, struct span s, unsigned min,
                        unsigned max, unsigned *out)
{
    uint64_t n = 0;
    bool ok = s.p < s.end;
    for (; ok && s.p < s.end; s.p++) {
        ok = *s.p >= '0' && *s.p <= '9';
        n = n * 10 + (uint64_t)(*s.p - '0');
        ok = ok && n <= max;
    }
    if (!ok || n < min)
        return refuse(ps, "%s takes a number from %u to %u", what, min, max);
    *out = (unsigned)n;
    return true;
}

static bool refuse_password(struct parser *ps)
{
    return refuse(ps, "a password on the command line can be seen by other users; put it into "
                      "REDISCLI_AUTH or a file for --password-file");
}

enum { LAYOUT, DB, SHARDS, KEY, TIMEOUT, PASSWORD, N_PARAMETERS };

static bool refuse_unknown(struct parser *ps, int len, const char *name, struct span value)
{
    const char *layout = ps->uri->layout;
    if (layout == NULL || value.p == NULL)
        return refuse(ps, "unknown parameter '%.*s'; known are: layout, db, shards, key, timeout",
                      len, name);
    /* As in layout=gozero&bits=1000. */
    return refuse(ps,
                  "unknown parameter '%.*s'; if it is one of the layout, write "
                  "layout=%.200s%c%.*s=%.*s",
                  len, name, layout, strchr(layout, ':') != NULL ? ',' : ':', len, name,
                  value.end - value.p < 40 ? (int)(value.end - value.p) : 40, value.p);
}

/* One NAME=VALUE. *given: the parameters seen so far; KEY too, if the path was the key. */
static bool parse_parameter(struct parser *ps, struct span value, unsigned *given)
{
    static const char *const names[] = {"layout", "db", "shards", "key", "timeout", "password"};
    const char *text;
    struct span name = cut(&value, '=');
    size_t name_len = (size_t)(name.end - name.p);
    unsigned parameter = 0;
    while (parameter < N_PARAMETERS && (strlen(names[parameter]) != name_len ||
                                        memcmp(names[parameter], name.p, name_len) != 0))
        parameter++;
    int len = name.end - name.p < 40 ? (int)(name.end - name.p) : 40;
    if (parameter == PASSWORD)
        return refuse_password(ps);
    if (parameter == N_PARAMETERS)
        return refuse_unknown(ps, len, name.p, value);
    if (*given & 1U << parameter)
        return refuse(ps, "parameter '%.*s' is given twice", len, name.p);
    if (value.p == NULL)
        return refuse(ps, "parameter '%.*s' has no value", len, name.p);
    *given |= 1U << parameter;
    switch (parameter) {
    case LAYOUT:
        return decode_text(ps, "layout", value, &ps->uri->layout);
    case DB:
        return digits_only(ps, "db", value, 0, MAX_DB, &ps->uri->db);
    case SHARDS:
        return digits_only(ps, "shards", value, 1, URI_MAX_SHARDS, &ps->uri->shards);
    case TIMEOUT:
        return decode_text(ps, "timeout", value, &text) &&
               (num_seconds(text, &ps->uri->timeout_ms) ||
                refuse(ps, "timeout takes seconds from 0.001 to 1000000"));
    default:
        return decode_key(ps, value);
    }
}

/* The parameters, one of which is the key, unless *given has it. */
static bool parse_query(struct parser *ps, struct span query, unsigned given)
{
    while (query.p != NULL)
        if (!parse_parameter(ps, cut(&query, '&'), &given))
            return false;
    return given & 1 << KEY ||
           refuse(ps, ps->uri->host != NULL ? "it names no key: redis://HOST/KEY"
                                            : "it names no key: redis+unix:///SOCKET?key=KEY");
}

/* USER@, if it is there. */
static bool parse_user(struct parser *ps, struct span *authority)
{
    struct span rest = *authority;
    struct span user = cut(&rest, '@');
    if (rest.p == NULL)
        return true;
    *authority = rest;
    if (memchr(user.p, ':', (size_t)(user.end - user.p)) != NULL)
        return refuse_password(ps);
    return decode_text(ps, "user", user, &ps->uri->user) &&
           (strchr(ps->uri->user, ':') == NULL || refuse_password(ps));
}

/* HOST, HOST:PORT or the same with an IPv6 address in brackets. */
static bool parse_host(struct parser *ps, struct span authority)
{
    struct span host, port;
    bool brackets = authority.p != authority.end && *authority.p == '[';
    if (brackets) {
        authority.p++;
        host = cut(&authority, ']');
        if (authority.p == NULL)
            return refuse(ps, "there is no ']' to the '['");
        if (authority.p != authority.end && *authority.p != ':')
            return refuse(ps, "only ':' and a port can follow the ']'");
        port = authority;
        cut(&port, ':');
    } else {
        port = authority;
        host = cut(&port, ':');
        if (port.p != port.end && memchr(port.p, ':', (size_t)(port.end - port.p)) != NULL)
            return refuse(ps, "an IPv6 address must stand in brackets, as in redis://[::1]/KEY");
    }
    ps->uri->port = URI_PORT;
    return decode_text(ps, "host", host, &ps->uri->host) &&
           (port.p == NULL || digits_only(ps, "the port", port, 1, MAX_PORT, &ps->uri->port));
}

static bool parse_tcp(struct parser *ps, struct span rest)
{
    struct span query = rest, path = cut(&query, '?');
    struct span authority = cut(&path, '/');
    bool has_key = path.p != NULL && path.p < path.end;
    return parse_user(ps, &authority) && parse_host(ps, authority) &&
           (!has_key || decode_path(ps, path)) && parse_query(ps, query, (unsigned)has_key << KEY);
}

static bool parse_local(struct parser *ps, struct span rest)
{
    struct span query = rest, path = cut(&query, '?');
    struct span slash = path, authority = cut(&slash, '/');
    if (!parse_user(ps, &authority))
        return false;
    if (authority.p != authority.end || slash.p == NULL)
        return refuse(ps, "the path of the socket must be absolute: redis+unix:///SOCKET?key=KEY");
    path.p = slash.p - 1;
    if (!decode_text(ps, "socket's path", path, &ps->uri->socket))
        return false;
    if (strlen(ps->uri->socket) > URI_MAX_SOCKET)
        return refuse(ps, "the path of a socket has at most %d bytes", (int)URI_MAX_SOCKET);
    return parse_query(ps, query, 0);
}

static bool parse(struct parser *ps)
{
    struct span all = {ps->text, ps->text + strlen(ps->text)};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t len = strlen(schemes[i].prefix);
        if (strncasecmp(ps->text, schemes[i].prefix, len) != 0)
            continue;
        all.p += len;
        ps->uri->tls = schemes[i].tls;
        return schemes[i].local ? parse_local(ps, all) : parse_tcp(ps, all);
    }
    return refuse(ps, "it does not begin with redis://, rediss:// or redis+unix://");
}

bool uri_parse(const char *text, struct uri *out, struct err *err)
{
    /* The decoded strings fit: decoding does not lengthen a string, and its NUL takes the place of
     * the separator after it, or of the NUL of the text. A repeated parameter is refused before it
     * is decoded. */
    *out = (struct uri){.shards = 1, .store = malloc(strlen(text) + 1)};
    if (out->store == NULL)
        return fail_errno(err, "cannot use '%.1000s'", text);
    struct parser ps = {text, out->store, out, err};
    if (parse(&ps))
        return true;
    uri_free(out);
    return false;
}

void uri_free(struct uri *uri)
{
    free(uri->store);
    *uri = (struct uri){0};
}

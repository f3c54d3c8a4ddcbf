/*
 * The header of a filter in a Parquet file: a BloomFilterHeader in Thrift's compact protocol.
 *
 *     1  numBytes, i32    2  algorithm    3  hash    4  compression
 *
 * Fields 2 to 4 are unions with one known member each, number 1, an empty struct: split block,
 * XXH64, none. A field begins with a byte. Its low half is the field's type. Its high half is the
 * field's number less the previous field's, or 0 if the number follows. A byte 0 ends a struct.
 */
#include <inttypes.h>

#include "kind/parquet/parquet.h"

enum type {
    T_STOP,
    T_TRUE,
    T_FALSE,
    T_BYTE,
    T_I16,
    T_I32,
    T_I64,
    T_DOUBLE,
    T_BINARY,
    T_LIST,
    T_SET,
    T_MAP,
    T_STRUCT,
};

enum { NUM_BYTES = 1, ALGORITHM, HASH, COMPRESSION };

/* Largest nesting depth of unknown fields. */
enum { DEPTH = 16 };

struct reader {
    const uint8_t *at, *end;
    bool bad; /* read past the end, or found invalid data; all further bytes read as 0 */
};

static uint8_t get_byte(struct reader *r)
{
    if (r->at == r->end)
        r->bad = true;
    return r->bad ? 0 : *r->at++;
}

/* 7 bits a byte, low bits first. The high bit of a byte is set if more bytes follow. */
static uint64_t get_varint(struct reader *r)
{
    uint64_t n = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = get_byte(r);
        n |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return n;
    }
    r->bad = true;
    return 0;
}

/* 0, -1, 1, -2 ... are stored as 0, 1, 2, 3 ... */
static int64_t get_signed(struct reader *r)
{
    uint64_t n = get_varint(r);
    return (int64_t)(n >> 1) ^ -(int64_t)(n & 1);
}

static void skip_bytes(struct reader *r, uint64_t n)
{
    if (n > (uint64_t)(r->end - r->at))
        r->bad = true;
    else
        r->at += n;
}

struct field {
    enum type type;
    int64_t id; /* 0 before the first field */
};

/* False: the struct ends. */
static bool get_field(struct reader *r, struct field *f)
{
    uint8_t byte = get_byte(r);
    f->type = (enum type)(byte & 15);
    if (f->type == T_STOP)
        return false;
    f->id = byte >> 4 != 0 ? f->id + (byte >> 4) : get_signed(r);
    if (f->id < 0 || f->id > INT16_MAX)
        r->bad = true;
    return !r->bad;
}

static void skip(struct reader *r, unsigned type, bool in_field, unsigned depth);

/* Each element takes at least one byte, so the loops end when the bytes end. */
static void skip_list(struct reader *r, unsigned depth)
{
    uint8_t byte = get_byte(r);
    uint64_t n = byte >> 4 < 15 ? byte >> 4 : get_varint(r);
    for (; n > 0 && !r->bad; n--)
        skip(r, byte & 15, false, depth);
}

static void skip_map(struct reader *r, unsigned depth)
{
    uint64_t n = get_varint(r);
    uint8_t types = n > 0 ? get_byte(r) : 0;
    for (; n > 0 && !r->bad; n--) {
        skip(r, types >> 4, false, depth);
        skip(r, types & 15, false, depth);
    }
}

static void skip_struct(struct reader *r, unsigned depth)
{
    struct field f = {T_STOP, 0};
    while (get_field(r, &f))
        skip(r, f.type, true, depth);
}

static void skip(struct reader *r, unsigned type, bool in_field, unsigned depth)
{
    if (depth == 0) {
        r->bad = true;
        return;
    }
    switch (type) {
    case T_TRUE:
    case T_FALSE:
        skip_bytes(r, in_field ? 0 : 1); /* the type of a field is its value */
        break;
    case T_BYTE:
        skip_bytes(r, 1);
        break;
    case T_I16:
    case T_I32:
    case T_I64:
        get_varint(r);
        break;
    case T_DOUBLE:
        skip_bytes(r, 8);
        break;
    case T_BINARY:
        skip_bytes(r, get_varint(r));
        break;
    case T_LIST:
    case T_SET:
        skip_list(r, depth - 1);
        break;
    case T_MAP:
        skip_map(r, depth - 1);
        break;
    case T_STRUCT:
        skip_struct(r, depth - 1);
        break;
    default:
        r->bad = true;
    }
}

/* The number of a union's only member; 0: it has none. */
static int64_t get_union(struct reader *r)
{
    struct field f = {T_STOP, 0};
    if (!get_field(r, &f))
        return 0;
    int64_t id = f.id;
    skip(r, f.type, true, DEPTH);
    if (get_field(r, &f))
        r->bad = true;
    return id;
}

static const struct {
    enum type type;
    const char *name, *known;
} fields[] = {
    [NUM_BYTES] = {T_I32, "numBytes", ""},
    [ALGORITHM] = {T_STRUCT, "algorithm", "split block"},
    [HASH] = {T_STRUCT, "hash", "XXH64"},
    [COMPRESSION] = {T_STRUCT, "compression", "none"},
};

uint64_t parquet_parse(const uint8_t *p, uint64_t avail, uint64_t *bytes, struct err *err)
{
    struct reader r = {.at = p, .end = p + avail};
    struct field f = {T_STOP, 0};
    int64_t value[COMPRESSION + 1] = {0};
    bool there[COMPRESSION + 1] = {false};
    while (get_field(&r, &f)) {
        if (f.id < NUM_BYTES || f.id > COMPRESSION) {
            skip(&r, f.type, true, DEPTH);
            continue;
        }
        r.bad |= there[f.id] || f.type != fields[f.id].type;
        value[f.id] = f.id == NUM_BYTES ? get_signed(&r) : get_union(&r);
        there[f.id] = true;
    }
    if (r.bad)
        return fail(err, "it does not begin with a BloomFilterHeader");
    for (unsigned i = NUM_BYTES; i <= COMPRESSION; i++)
        if (!there[i])
            return fail(err, "its header has no %s", fields[i].name);
    for (unsigned i = ALGORITHM; i <= COMPRESSION; i++)
        if (value[i] != 1)
            return fail(err, "its %s is number %" PRId64 "; known is 1, %s", fields[i].name,
                        value[i], fields[i].known);
    int64_t n = value[NUM_BYTES];
    if (n < PARQUET_BLOCK || n > INT32_MAX || n % PARQUET_BLOCK != 0)
        return fail(err, "its numBytes is %" PRId64 ", not a multiple of %d above 0", n,
                    PARQUET_BLOCK);
    *bytes = (uint64_t)n;
    return (uint64_t)(r.at - p);
}

size_t parquet_header(uint32_t bytes, uint8_t out[PARQUET_HEADER])
{
    /* For each union: the field, member 1 (an empty struct), the ends of both. Then the end of the
     * header. */
    static const uint8_t unions[] = {0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0};
    size_t n = 0;
    out[n++] = 1 << 4 | T_I32;
    for (uint64_t left = 2 * (uint64_t)bytes; left > 0; left >>= 7)
        out[n++] = (uint8_t)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
    for (size_t i = 0; i < sizeof unions; i++)
        out[n++] = unions[i];
    return n;
}

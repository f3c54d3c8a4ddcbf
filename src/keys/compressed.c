#include "keys/compressed.h"

/* '?' matches any byte: in that of bzip2 it is a digit, the block size. */
static const struct {
    const char *magic;
    size_t len;
    struct compressed is;
} formats[] = {
    {"\xfd"
     "7zXZ\0",
     6,
     {"xz", "xz -dc"}},
    {"\x28\xb5\x2f\xfd", 4, {"zstd", "zstd -dc"}},
    {"BZh?1AY&SY", COMPRESSED_MAGIC, {"bzip2", "bzip2 -dc"}},
    {"\x04\x22\x4d\x18", 4, {"lz4", "lz4 -dc"}},
    {"PK\3\4", 4, {"zip", "unzip -p"}},
};

static bool begins(const unsigned char *data, size_t n, const char *magic, size_t len)
{
    if (n < len)
        return false;
    for (size_t i = 0; i < len; i++)
        if (magic[i] != '?' && data[i] != (unsigned char)magic[i])
            return false;
    return true;
}

const struct compressed *compressed_find(const void *data, size_t n)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (begins(data, n, formats[i].magic, formats[i].len))
            return &formats[i].is;
    return NULL;
}

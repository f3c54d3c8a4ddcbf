/* SPDX-License-Identifier: MIT
 * The first bytes of a filter file, and of other files. Readers of key lists and of other programs'
 * filters check for them too, to refuse what they cannot read.
 */
#ifndef BASE_MAGIC_H
#define BASE_MAGIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* 0x89 is neither ASCII nor the first byte of a UTF-8 character. A transfer in text mode damages
 * CR LF and ^Z first. */
static const uint8_t magic[8] = {0x89, 's', 'e', 'e', 'n', '\r', '\n', 0x1a};

static inline bool magic_begins(const void *data, size_t len)
{
    return len >= sizeof magic && memcmp(data, magic, sizeof magic) == 0;
}

/* A Parquet file begins and ends with these bytes. */
#define MAGIC_PARQUET "PAR1"

/* The rest of a message about one, after its name. */
#define MAGIC_PARQUET_IS "is a Parquet file: DuckDB and parquet-cli ask its Bloom filters"

static inline bool magic_parquet(const void *data, size_t len)
{
    return len >= strlen(MAGIC_PARQUET) && memcmp(data, MAGIC_PARQUET, strlen(MAGIC_PARQUET)) == 0;
}

#endif

/* SPDX-License-Identifier: MIT
 * The first bytes of a filter file. Readers of other programs' filters check for them too. */
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

#endif

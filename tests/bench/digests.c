/* SPDX-License-Identifier: MIT
 * digests N [COUNT]: a list of N digests of 20 bytes as stolen passwords are published, always
 * the same one, on stdout: HEX:COUNT, sorted, all distinct, 43 or 44 bytes a line. With COUNT: as
 * many digests to look up there, random ones, each in the list by the toss of a coin.
 *
 * Fast, so that a list need not be stored: what reads it from a pipe is to be measured, not this.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE_MAX = 40 + 1 + 2 + 1, BUFFER = 1 << 16 };

static char buffer[BUFFER];
static size_t used;
static char digits[256][2];

/* splitmix64's output function: a bijection, so distinct inputs stay distinct. */
static uint64_t scatter(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static void put(char c)
{
    buffer[used++] = c;
}

static void put_hex(uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--) {
        const char *two = digits[value >> 8 * i & 255];
        put(two[0]);
        put(two[1]);
    }
}

/* Number i of n: one in each of n equal parts of all digests. Numbers from n on are in the same
 * parts, and not in the list. */
static void put_digest(uint64_t i, uint64_t n)
{
    uint64_t part = UINT64_MAX / n, random = scatter(i);
    put_hex(i % n * part + random % part, 8);
    put_hex(scatter(~i), 8);
    put_hex(scatter(random), 4);
}

static void flush(void)
{
    if (fwrite(buffer, 1, used, stdout) != used)
        exit(1);
    used = 0;
}

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    if (argc > 3 || n == 0)
        return fputs("usage: digests N [COUNT]\n", stderr), 2;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : n;
    for (int i = 0; i < 256; i++) {
        digits[i][0] = "0123456789ABCDEF"[i / 16];
        digits[i][1] = "0123456789ABCDEF"[i % 16];
    }
    for (uint64_t i = 0; i < count; i++) {
        if (used + LINE_MAX > BUFFER)
            flush();
        if (argc > 2) {
            uint64_t random = scatter(i ^ (uint64_t)0x5eed << 48);
            put_digest(random / 2 % n + (random & 1 ? n : 0), n);
        } else {
            uint64_t times = 1 + scatter(i + n) % 30;
            put_digest(i, n);
            put(':');
            if (times >= 10)
                put((char)('0' + times / 10));
            put((char)('0' + times % 10));
        }
        put('\n');
    }
    flush();
    return fflush(stdout) != 0;
}

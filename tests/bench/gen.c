/* SPDX-License-Identifier: MIT
 * gen KIND FIRST COUNT [ASK]: benchmark records FIRST, FIRST+1, ... of a kind, always the same
 * ones, all distinct, on stdout.
 *
 *     urls    66 bytes on average, many sharing a host and a path as a crawler's do
 *     sha1    40 upper-case hexadecimal digits, random
 *     phones  11 digits
 *
 * With ASK (a count of records that exist), each record is, by the toss of a coin, either one of
 * the first ASK or one beyond them: a query file of which half is present.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64's output function: a bijection, so distinct inputs stay distinct. */
static uint64_t scatter(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static const char *const words[] = {
    "news",   "archive", "product",   "images",   "forum",   "thread",  "article", "user",
    "review", "tag",     "category",  "download", "blog",    "about",   "search",  "static",
    "wiki",   "help",    "media",     "events",   "library", "gallery", "contact", "story",
    "topics", "press",   "catalogue", "docs",     "shop",    "list",    "map",     "video",
};
static const char *const tlds[] = {"com", "org", "net", "de", "co.uk", "fr", "io", "info"};

static size_t put_word(char *to, uint64_t pick)
{
    const char *word = words[pick % (sizeof words / sizeof *words)];
    size_t len = strlen(word);
    memcpy(to, word, len);
    return len;
}

/* A run of 64 neighbouring records shares its host, a run of 8 the first part of its path too. */
static size_t put_url(char *to, uint64_t i)
{
    uint64_t host = scatter(i / 64 % 65536), path = scatter(i / 8 + ((uint64_t)1 << 40));
    char *at = to;
    at += sprintf(at, "https://%s", host & 1 ? "www." : "");
    at += put_word(at, host >> 8);
    *at++ = '-';
    at += put_word(at, host >> 16);
    at += sprintf(at, "%u.%s/", (unsigned)(host >> 24 & 1023), tlds[host >> 40 & 7]);
    at += put_word(at, path);
    *at++ = '/';
    at += put_word(at, path >> 8);
    at += sprintf(at, "/%u/", (unsigned)(path >> 16 & 4095));
    uint64_t leaf = scatter(i);
    at += put_word(at, leaf >> 32);
    at += sprintf(at, "-%08llx%s\n", (unsigned long long)i, leaf & 1 ? ".html" : "");
    return (size_t)(at - to);
}

static size_t put_sha1(char *to, uint64_t i)
{
    return (size_t)sprintf(to, "%016llX%016llX%08X\n", (unsigned long long)scatter(2 * i),
                           (unsigned long long)scatter(2 * i + 1), (unsigned)scatter(~i));
}

/* Multiplication by a number prime to 10 permutes the residues mod 10^11. */
static size_t put_phone(char *to, uint64_t i)
{
    uint64_t number = (i % 100000000000u) * 61803399u % 100000000000u;
    return (size_t)sprintf(to, "%011llu\n", (unsigned long long)number);
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 5)
        return fputs("usage: gen urls|sha1|phones FIRST COUNT [ASK]\n", stderr), 2;
    size_t (*put)(char *, uint64_t) = strcmp(argv[1], "urls") == 0   ? put_url
                                      : strcmp(argv[1], "sha1") == 0 ? put_sha1
                                                                     : put_phone;
    uint64_t first = strtoull(argv[2], NULL, 10), count = strtoull(argv[3], NULL, 10);
    uint64_t ask = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    for (uint64_t i = first; i < first + count; i++) {
        char line[256];
        uint64_t at = ask ? i % ask + (scatter(i ^ 0x5eed) & 1 ? ask : 0) : i;
        fwrite(line, 1, put(line, at), stdout);
    }
    return fflush(stdout) != 0 || ferror(stdout);
}

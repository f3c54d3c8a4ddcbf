/* SPDX-License-Identifier: MIT
 * split() for one instruction set. split.c includes this once for each variant, with these macros:
 *
 *     SPLIT           the function's name
 *     TARGET          its attributes: the instructions it may use
 *     MATCHES(p, c)   64 bits: which of p[0..64) equal c
 *     STORE(next, bits, p)    stores p + 1 + i for each set bit i, ascending, and returns
 *                             their number; may write up to SPLIT_SLACK entries
 *
 * Whole blocks are read at multiples of 64, where a load touches one cache line. The bytes before
 * and after them are read as blocks too, which overlap and stay inside the buffer. A buffer shorter
 * than a block is copied first.
 */

TARGET static size_t SPLIT(const char *p, size_t len, char terminator, const char **next,
                           size_t max, size_t *scanned)
{
    if (len < 64) {
        char block[64] = {0};
        if (len)
            memcpy(block, p, len);
        *scanned = len;
        return STORE(next, MATCHES(block, terminator) & ((UINT64_C(1) << len) - 1), p);
    }
    size_t n = 0, at = -(uintptr_t)p % 64;
    if (at)
        n = STORE(next, MATCHES(p, terminator) & ((UINT64_C(1) << at) - 1), p);
    for (; n < max && len - at >= 64; at += 64) {
        /* In a mapped file these bytes are not in the cache yet, and the CPU's own prefetching
         * stops at the end of each page. This makes a query of URLs a seventh faster. */
        __builtin_prefetch(ahead_of(p, at + 2048));
        n += STORE(next + n, MATCHES(p + at, terminator), p + at);
    }
    if (n < max && at < len) {
        n += STORE(next + n, MATCHES(p + len - 64, terminator) >> (64 - (len - at)), p + at);
        at = len;
    }
    *scanned = at;
    return n;
}

#undef SPLIT
#undef STORE

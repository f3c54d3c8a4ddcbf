/* SPDX-License-Identifier: MIT
 * split_csv_ends() and split_csv() for one instruction set. split.c includes this behind
 * split_body.h, with TARGET and MATCHES as there, and the functions' names: CSV_ENDS, CSV_CUT.
 *
 * In a block of 64 bytes, a byte is between quotes if an odd number of quotes stands before it: the
 * exclusive or of the quotes' bits up to its own. A quote that opens then counts as inside, one
 * that closes as outside.
 */

/* The block at p + at; the last one, of fewer than 64 bytes, is copied to `copy` first. *valid: its
 * bytes. */
#define BLOCK(p, len, at, copy, valid)                                                             \
    ((len) - (at) >= 64 ? (*(valid) = ~UINT64_C(0), (p) + (at))                                    \
                        : (*(valid) = (UINT64_C(1) << ((len) - (at))) - 1, memset((copy), 0, 64),  \
                           (const char *)memcpy((copy), (p) + (at), (len) - (at))))

TARGET static void CSV_ENDS(const char *p, size_t len, bool *inside, size_t from, size_t *first,
                            size_t *last)
{
    uint64_t outer = *inside ? ~UINT64_C(0) : 0; /* all bits: is the block's first byte inside? */
    bool found = false;
    char copy[64];
    for (size_t at = 0; at < len; at += 64) {
        uint64_t valid, in = outer;
        const char *block = BLOCK(p, len, at, copy, &valid);
        uint64_t quotes = MATCHES(block, '"') & valid;
        if (quotes != 0)
            in ^= xor_of_lower(quotes);
        uint64_t ends = MATCHES(block, '\n') & valid & ~in;
        outer = in >> 63 ? ~UINT64_C(0) : 0;
        if (ends == 0)
            continue;
        *last = at + 64 - (size_t)__builtin_clzll(ends);
        if (!found && *last > from) {
            uint64_t later = at < from ? ends >> (from - at) << (from - at) : ends;
            *first = at + 1 + (size_t)__builtin_ctzll(later);
            found = true;
        }
    }
    *inside = outer != 0;
}

TARGET static size_t CSV_CUT(struct csv_scan *scan, const char *p, size_t len, char delimiter,
                             uint32_t *place)
{
    /* Locals: `place` may alias *scan. */
    uint64_t outer = scan->inside ? ~UINT64_C(0) : 0; /* all bits, as above */
    uint64_t may_open = scan->may_open, closed = scan->closed, cr = scan->cr, inner = 0, bad = 0;
    size_t n = 0;
    char copy[64];
    for (size_t at = 0; at < len && bad == 0; at += 64) {
        uint64_t valid;
        const char *block = BLOCK(p, len, at, copy, &valid);
        __builtin_prefetch(ahead_of(p, at + 2048));
        uint64_t quotes = MATCHES(block, '"') & valid, newlines = MATCHES(block, '\n') & valid;
        uint64_t crs = MATCHES(block, '\r') & valid;
        uint64_t either = (MATCHES(block, delimiter) & valid) | newlines;
        uint64_t top = valid ^ valid >> 1;               /* the last byte */
        if ((quotes | crs | outer | closed | cr) == 0) { /* most blocks of most files */
            n += store_places(place + n, either, (uint32_t)at);
            may_open = (either & top) != 0;
            continue;
        }
        uint64_t in = xor_of_lower(quotes) ^ outer, ends = either & ~in;
        uint64_t closing = quotes & ~in;
        crs &= ~in;
        /* Each carries the last bit of the block before. */
        uint64_t after_end = (ends | closing) << 1 | may_open;
        uint64_t after_closing = closing << 1 | closed, after_cr = crs << 1 | cr;
        bad = (quotes & in & ~after_end) | (after_closing & ~(quotes | either | crs) & valid) |
              (after_cr & ~newlines & valid);
        if (bad != 0) {
            scan->bad = at + (size_t)__builtin_ctzll(bad);
            ends &= (bad & -bad) - 1;
            newlines &= (bad & -bad) - 1;
        }
        n += store_places(place + n, ends, (uint32_t)at);
        inner += (uint64_t)__builtin_popcountll(newlines & in);
        outer = in & top ? ~UINT64_C(0) : 0;
        may_open = ((ends | closing) & top) != 0;
        closed = (closing & top) != 0;
        cr = (crs & top) != 0;
    }
    scan->inside = outer != 0;
    scan->may_open = may_open != 0;
    scan->closed = closed != 0;
    scan->cr = cr != 0;
    scan->broken = bad != 0;
    scan->newlines += inner;
    return n;
}

#undef BLOCK
#undef CSV_ENDS
#undef CSV_CUT
#undef TARGET
#undef MATCHES

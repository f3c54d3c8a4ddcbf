/* SPDX-License-Identifier: MIT
 * split_csv_ends() and split_csv() for one instruction set. split.c includes this behind
 * split_body.h, with TARGET and MATCHES as there, and the functions' names: CSV_ENDS, CSV_BARE,
 * CSV_CUT.
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

/* The whole blocks from p[at] on, up to one with a quote or a CR: all separators end a field.
 * Returns the offset behind them. This loop has few enough variables for the registers. */
TARGET static size_t CSV_BARE(const char *p, size_t at, size_t len, char delimiter,
                              struct csv_places *to)
{
    uint32_t *place = to->place, *end = to->end;
    for (; len - at >= 64; at += 64) {
        const char *block = p + at;
        if ((MATCHES(block, '"') | MATCHES(block, '\r')) != 0)
            break;
        __builtin_prefetch(ahead_of(block, 2048));
        uint64_t newlines = MATCHES(block, '\n');
        place = store_places(place, MATCHES(block, delimiter) | newlines, (uint32_t)at, 8);
        end = store_places(end, newlines, (uint32_t)at, 2);
    }
    *to = (struct csv_places){place, end};
    return at;
}

TARGET static size_t CSV_CUT(struct csv_scan *scan, const char *p, size_t len, char delimiter,
                             uint32_t *place, uint32_t *end)
{
    /* Locals: `place` may alias *scan. */
    uint64_t outer = scan->inside ? ~UINT64_C(0) : 0; /* all bits, as above */
    uint64_t may_open = scan->may_open, closed = scan->closed, cr = scan->cr, inner = 0, bad = 0;
    struct csv_places to = {place, end};
    bool bare = (outer | closed | cr) == 0; /* and so were the last block's bytes */
    char copy[64];
    for (size_t at = 0; at < len && bad == 0; at += 64) {
        size_t from = at;
        if (bare && (at = CSV_BARE(p, from, len, delimiter, &to)) > from) {
            may_open = to.place > place && to.place[-1] == at - 1;
            if (at == len)
                break;
        }
        uint64_t valid;
        const char *block = BLOCK(p, len, at, copy, &valid);
        __builtin_prefetch(ahead_of(p, at + 2048));
        uint64_t quotes = MATCHES(block, '"') & valid, newlines = MATCHES(block, '\n') & valid;
        uint64_t crs = MATCHES(block, '\r') & valid;
        uint64_t either = (MATCHES(block, delimiter) & valid) | newlines;
        uint64_t top = valid ^ valid >> 1; /* the last byte */
        uint64_t in = xor_of_lower(quotes) ^ outer, ends = either & ~in;
        uint64_t closing = quotes & ~in;
        bare = (quotes | crs | outer) == 0;
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
        to.place = store_places(to.place, ends, (uint32_t)at, 8);
        to.end = store_places(to.end, newlines & ~in, (uint32_t)at, 2);
        inner += (uint64_t)__builtin_popcountll(newlines & in);
        outer = in & top ? ~UINT64_C(0) : 0;
        may_open = ((ends | closing) & top) != 0;
        closed = (closing & top) != 0;
        cr = (crs & top) != 0;
    }
    *to.end = UINT32_MAX;
    scan->inside = outer != 0;
    scan->may_open = may_open != 0;
    scan->closed = closed != 0;
    scan->cr = cr != 0;
    scan->broken = bad != 0;
    scan->newlines += inner;
    return (size_t)(to.place - place);
}

#undef BLOCK
#undef CSV_ENDS
#undef CSV_BARE
#undef CSV_CUT
#undef TARGET
#undef MATCHES

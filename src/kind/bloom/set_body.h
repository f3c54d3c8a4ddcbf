/* SPDX-License-Identifier: MIT
 * Sets a key's bits a whole line at a time. Included once by the file of each variant of vectors,
 * with
 *
 *     TARGET                          attributes of functions: the instructions they may use
 *     line_bits                       a type for 512 bits
 *     load_line(p), or_lines(x, y)    of that type; p is aligned to a line
 *     set_line(line, bits)            sets bits in a line; returns true if all were already set
 */

/* Returns true if all bits were already set. */
TARGET BLOOM_INLINE bool set_key(uint8_t *a, uint8_t *b, uint64_t hash, unsigned k, unsigned lines)
{
    uint8_t *line[2] = {a, b};
    bool all = true;
#pragma GCC unroll 2
    for (unsigned l = 0; l < lines; l++) {
        unsigned first = k / lines * l, end = k / lines * (l + 1), word = first / PROBES_IN_WORD;
        uint64_t probes = bloom_word(hash, word) >> first % PROBES_IN_WORD * PROBE_BITS;
        line_bits bits = load_line(bloom_one_bit[probes & BLOOM_PROBE]);
#pragma GCC unroll 28
        for (unsigned i = first + 1; i < end; i++) {
            probes =
                i % PROBES_IN_WORD ? probes >> PROBE_BITS : bloom_word(hash, i / PROBES_IN_WORD);
            bits = or_lines(bits, load_line(bloom_one_bit[probes & BLOOM_PROBE]));
        }
        all &= set_line(line[l], bits);
    }
    return all;
}

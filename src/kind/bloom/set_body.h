/* SPDX-License-Identifier: MIT
 * Sets a key's bits a whole line at a time. Included once for each variant, with these macros:
 *
 *     SET       the function's name; returns true if all bits were already set
 *     TARGET    its attributes: the instructions it may use
 *     BITS      a type for 512 bits
 *     LOAD(p), OR(x, y)       of that type; p is aligned to a line
 *     SET_LINE(line, bits)    sets bits in a line; returns true if all were already set
 */

TARGET BLOOM_INLINE bool SET(uint8_t *a, uint8_t *b, uint64_t hash, unsigned k, unsigned lines)
{
    uint8_t *line[2] = {a, b};
    bool all = true;
#pragma GCC unroll 2
    for (unsigned l = 0; l < lines; l++) {
        unsigned first = k / lines * l, end = k / lines * (l + 1), word = first / PROBES_IN_WORD;
        uint64_t probes = bloom_word(hash, word) >> first % PROBES_IN_WORD * PROBE_BITS;
        BITS bits = LOAD(bloom_one_bit[probes & BLOOM_PROBE]);
#pragma GCC unroll 28
        for (unsigned i = first + 1; i < end; i++) {
            probes =
                i % PROBES_IN_WORD ? probes >> PROBE_BITS : bloom_word(hash, i / PROBES_IN_WORD);
            bits = OR(bits, LOAD(bloom_one_bit[probes & BLOOM_PROBE]));
        }
        all &= SET_LINE(line[l], bits);
    }
    return all;
}

#undef BITS
#undef LOAD
#undef OR
#undef SET_LINE

/* SPDX-License-Identifier: MIT
 * Bloom queries and insertions with NEON. A NEON table lookup searches 64 bytes, one line. Handles
 * fourteen probes at a time: those of two words, each in a byte. Probe i begins at bit i of byte i
 * of its word. A lookup fetches its two bytes and a shift moves it to the lowest bits.
 */
#include "kind/bloom/probe.h"

#ifdef CPU_NEON

#include <arm_neon.h>

#define TARGET

/* 0xff in the first `low` bytes of the lower half and the first `high` bytes of the upper half. */
BLOOM_INLINE uint8x16_t first_bytes(unsigned low, unsigned high)
{
    const uint8x8_t number = {0, 1, 2, 3, 4, 5, 6, 7};
    return vcombine_u8(vclt_u8(number, vdup_n_u8((uint8_t)low)),
                       vclt_u8(number, vdup_n_u8((uint8_t)high)));
}

/* The probes of the word that `bytes` selects. Only the lowest nine bits of each are defined. */
BLOOM_INLINE uint16x8_t probes_of(uint8x16_t words, uint8x16_t bytes)
{
    const int16x8_t down = {0, -1, -2, -3, -4, -5, -6, -7};
    return vshlq_u16(vreinterpretq_u16_u8(vqtbl1q_u8(words, bytes)), down);
}

BLOOM_INLINE bool test_line(const uint8_t *line, uint64_t hash, unsigned first, unsigned end)
{
    const uint8x16_t bytes = {0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 7};
    const uint8x16_t bytes_above = vaddq_u8(bytes, vdupq_n_u8(8));
    const uint8x16x4_t all = vld1q_u8_x4(line);
    uint8x16_t missing = vdupq_n_u8(0);
#pragma GCC unroll 2
    for (unsigned t = 0; t < WORDS; t += 2) {
        unsigned from = bloom_probes(t, first), from_above = bloom_probes(t + 1, first);
        unsigned to = bloom_probes(t, end), to_above = bloom_probes(t + 1, end);
        if (from == to && from_above == to_above)
            continue;
        uint8x16_t in_use = vbicq_u8(first_bytes(to, to_above), first_bytes(from, from_above));
        uint64_t below = from < to ? bloom_word(hash, t) : 0;
        uint64_t above = from_above < to_above ? bloom_word(hash, t + 1) : 0;
        uint8x16_t words =
            vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(below), vcreate_u64(above)));
        uint16x8_t low = probes_of(words, bytes), high = probes_of(words, bytes_above);
        uint8x16_t byte = vandq_u8(vshrn_high_n_u16(vshrn_n_u16(low, 3), high, 3), vdupq_n_u8(63));
        uint8x16_t bit = vandq_u8(vmovn_high_u16(vmovn_u16(low), high), vdupq_n_u8(7));
        uint8x16_t wanted = vshlq_u8(vshrq_n_u8(in_use, 7), vreinterpretq_s8_u8(bit));
        missing = vorrq_u8(missing, vbicq_u8(wanted, vqtbl4q_u8(all, byte)));
    }
    return vmaxvq_u8(missing) == 0;
}

typedef uint8x16x4_t line_bits;

BLOOM_INLINE line_bits load_line(const void *line)
{
    return vld1q_u8_x4(line);
}

BLOOM_INLINE line_bits or_lines(line_bits x, line_bits y)
{
    for (unsigned i = 0; i < 4; i++)
        x.val[i] = vorrq_u8(x.val[i], y.val[i]);
    return x;
}

/* Returns whether all bits were already set. */
BLOOM_INLINE bool set_line(uint8_t *line, line_bits bits)
{
    line_bits before = load_line(line);
    uint8x16_t missing = vdupq_n_u8(0);
    for (unsigned i = 0; i < 4; i++)
        missing = vorrq_u8(missing, vbicq_u8(bits.val[i], before.val[i]));
    vst1q_u8_x4(line, or_lines(before, bits));
    return vmaxvq_u8(missing) == 0;
}

#include "kind/bloom/body.h"

const struct bloom_variant bloom_neon = {{"neon", cpu_has_neon},
                                         .test_first = test_first,
                                         .test_second = test_second,
                                         .insert = insert,
                                         .test_insert = test_insert};

#endif

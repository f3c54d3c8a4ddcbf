/* SPDX-License-Identifier: MIT */
/* Ribbon queries with NEON: two columns in a register, eight at a time. */
#include "kind/ribbon/key.h"

#ifdef CPU_NEON

#include <arm_neon.h>

#define INLINE static inline __attribute__((always_inline))

/* The number of selected bits in each byte of up to two columns at a and b. */
INLINE uint8x16_t count_two(const uint8_t *a, const uint8_t *b, unsigned columns, uint8x16_t low,
                            uint8x16_t high)
{
    const uint8x8_t none = vdup_n_u8(0);
    if (columns == 0)
        return vdupq_n_u8(0);
    uint8x16_t x = columns > 1 ? vld1q_u8(a) : vcombine_u8(vld1_u8(a), none);
    uint8x16_t y = columns > 1 ? vld1q_u8(b) : vcombine_u8(vld1_u8(b), none);
    return vcntq_u8(veorq_u8(vandq_u8(x, low), vandq_u8(y, high)));
}

/* One bit for each of up to eight columns: the parity of the selected bits. */
INLINE unsigned odd_columns(const uint8_t *a, const uint8_t *b, unsigned columns, uint8x16_t low,
                            uint8x16_t high)
{
    const int8x8_t number = {0, 1, 2, 3, 4, 5, 6, 7};
    uint8x16_t count[4];
    for (unsigned i = 0; i < 4; i++) {
        unsigned left = columns > 2 * i ? columns - 2 * i : 0;
        count[i] = count_two(a + 16 * i, b + 16 * i, left, low, high);
    }
    uint8x16_t sum = vpaddq_u8(vpaddq_u8(count[0], count[1]), vpaddq_u8(count[2], count[3]));
    uint8x8_t of_column = vget_low_u8(vpaddq_u8(sum, sum));
    return vaddv_u8(vshl_u8(vand_u8(of_column, vdup_n_u8(1)), number));
}

INLINE bool agrees_neon(const uint8_t *a, const uint8_t *b, uint64_t low, uint64_t high,
                        uint32_t fingerprint, unsigned columns, unsigned most)
{
    (void)most;
    uint8x16_t lows = vreinterpretq_u8_u64(vdupq_n_u64(low));
    uint8x16_t highs = vreinterpretq_u8_u64(vdupq_n_u64(high));
    bool same = true;
    for (unsigned j = 0; j < columns && same; j += 8) {
        unsigned n = columns - j < 8 ? columns - j : 8;
        unsigned odd = odd_columns(a + 8 * j, b + 8 * j, n, lows, highs);
        same = ((odd ^ fingerprint >> j) & ((1U << n) - 1)) == 0;
    }
    return same;
}

#define ANSWER answer_neon
#define TARGET
#define AGREES agrees_neon
#include "kind/ribbon/answer_body.h"

const struct ribbon_variant ribbon_neon = {
    {"neon", cpu_has_neon}, ribbon_aim_plain, answer_neon,
    ribbon_derive_plain,    ribbon_add_plain, ribbon_solve_plain};

#endif

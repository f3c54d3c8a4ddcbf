/* SPDX-License-Identifier: MIT */
/* Ribbon kernels in plain C. The other variants must give the same bits. */
#include "base/bytes.h"
#include "kind/ribbon/key.h"

RIBBON_INLINE unsigned differs(const uint8_t *a, const uint8_t *b, uint64_t low, uint64_t high,
                               uint32_t fingerprint, unsigned column)
{
    uint64_t both = (get_le64(a + 8 * column) & low) ^ (get_le64(b + 8 * column) & high);
    return ((unsigned)__builtin_parityll(both) ^ fingerprint >> column) & 1;
}

/* Tests four columns at a time without a branch. The first four rule out 15 of 16 absent keys. */
RIBBON_INLINE bool agrees_plain(const uint8_t *a, const uint8_t *b, uint64_t low, uint64_t high,
                                uint32_t fingerprint, unsigned columns, unsigned most)
{
    unsigned differ = 0, j = 0;
    (void)most;
    for (; j + 4 <= columns && differ == 0; j += 4)
        for (unsigned k = j; k < j + 4; k++)
            differ |= differs(a, b, low, high, fingerprint, k);
    for (; j < columns && differ == 0; j++)
        differ |= differs(a, b, low, high, fingerprint, j);
    return differ == 0;
}

#define ANSWER answer_plain
#define TARGET
#define AGREES agrees_plain
#include "kind/ribbon/answer_body.h"

/* A slot without a row (no coefficients, bits 0) gets 0. */
void ribbon_solve_plain(const uint64_t *coefficients, const uint32_t *bits, unsigned columns,
                        uint64_t *s)
{
    for (unsigned slot = RIBBON_WIDTH; slot-- > 0;)
        for (unsigned j = 0; j < columns; j++) {
            uint64_t shifted = s[j] << 1;
            unsigned sum = (unsigned)__builtin_parityll(shifted & coefficients[slot]);
            s[j] = shifted | ((sum ^ bits[slot] >> j) & 1);
        }
}

void ribbon_derive_plain(const uint64_t *x, size_t n, uint64_t starts, struct ribbon_equations *e)
{
    for (size_t i = 0; i < n; i++) {
        e->start[i] = (uint32_t)mul_high(x[i], starts);
        e->coefficients[i] = ribbon_coefficients(x[i]);
        e->fingerprint[i] = ribbon_fingerprint(x[i]);
    }
}

/* An equation that is not yet a row. */
struct moving {
    uint64_t slot, c;
    uint32_t bits;
};

struct elimination {
    const struct ribbon_rows *rows;
    const struct ribbon_equations *e;
    size_t left;
    size_t n_added;
    uint64_t added[RIBBON_GROUP];
};

static inline bool next_equation(struct elimination *a, struct moving *m)
{
    if (a->left == 0)
        return false;
    size_t i = --a->left;
    *m = (struct moving){a->e->start[i], a->e->coefficients[i], a->e->fingerprint[i]};
    return true;
}

enum step { GOES_ON, ENDED, CONTRADICTED };

/* Does one elimination step, or takes the next equation. */
static inline __attribute__((always_inline)) enum step step(struct elimination *a, struct moving *m)
{
    uint64_t row = a->rows->coefficients[m->slot];
    if (row == 0) {
        a->rows->coefficients[m->slot] = m->c;
        a->rows->bits[m->slot] = m->bits;
        a->added[a->n_added++] = m->slot;
        return next_equation(a, m) ? GOES_ON : ENDED;
    }
    m->c ^= row;
    m->bits ^= a->rows->bits[m->slot];
    if (m->c == 0)
        return CONTRADICTED;
    unsigned skip = (unsigned)__builtin_ctzll(m->c);
    m->slot += skip;
    m->c >>= skip;
    return GOES_ON;
}

/* Each step depends on the previous one, so two equations are processed in turns. */
bool ribbon_add_plain(const struct ribbon_rows *rows, unsigned columns,
                      const struct ribbon_equations *e, size_t n)
{
    struct elimination a = {.rows = rows, .e = e, .left = n};
    struct moving m[2] = {0};
    enum step one = next_equation(&a, &m[0]) ? GOES_ON : ENDED;
    enum step two = next_equation(&a, &m[1]) ? GOES_ON : ENDED;
    (void)columns;
    while (one == GOES_ON && two == GOES_ON) {
        one = step(&a, &m[0]);
        two = step(&a, &m[1]);
    }
    while (one == GOES_ON && two == ENDED)
        one = step(&a, &m[0]);
    while (two == GOES_ON && one == ENDED)
        two = step(&a, &m[1]);
    if (one == ENDED && two == ENDED)
        return true;
    for (size_t i = 0; i < a.n_added; i++)
        rows->coefficients[a.added[i]] = rows->bits[a.added[i]] = 0;
    return false;
}

const struct ribbon_variant ribbon_plain = {{"plain", NULL},  ribbon_aim_plain,
                                            answer_plain,     ribbon_derive_plain,
                                            ribbon_add_plain, ribbon_solve_plain};

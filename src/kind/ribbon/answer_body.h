/* SPDX-License-Identifier: MIT
 * The answer function of a ribbon variant. Included once for each variant, with these macros:
 *
 *     ANSWER    its name
 *     TARGET    its attributes: the instructions it may use
 *     AGREES(a, b, low, high, fingerprint, columns, most)    do all columns match the fingerprint?
 *               Bit j of the fingerprint is compared with the parity of the bits that `low` selects
 *               from word j at a and `high` from word j at b. `most` is a constant, not less than
 *               `columns`
 */

TARGET static inline __attribute__((always_inline)) unsigned
ANSWER_UP_TO(const uint8_t *data, const struct ribbon_probes *p, const struct ribbon_probes *next,
             unsigned most)
{
    unsigned yes = 0;
    for (unsigned i = 0; i < RIBBON_PROBES; i++) {
        ribbon_prefetch(data, next, i);
        yes |= (unsigned)AGREES(data + p->low[i], data + p->high[i], p->in_first[i], p->in_next[i],
                                p->fingerprint[i], p->columns[i], most)
               << i;
    }
    return yes;
}

TARGET static unsigned ANSWER(const uint8_t *data, const struct ribbon_probes *p, unsigned columns,
                              const struct ribbon_probes *next)
{
    if (columns <= 4)
        return ANSWER_UP_TO(data, p, next, 4);
    if (columns <= 8)
        return ANSWER_UP_TO(data, p, next, 8);
    if (columns <= 16)
        return ANSWER_UP_TO(data, p, next, 16);
    return ANSWER_UP_TO(data, p, next, RIBBON_MAX_COLUMNS);
}

#undef ANSWER
#undef TARGET
#undef AGREES

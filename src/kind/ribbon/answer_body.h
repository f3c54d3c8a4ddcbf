/*
 * The answer function of a ribbon variant. Included once for each variant, with these macros:
 *
 *     ANSWER    its name
 *     TARGET    its attributes: the instructions it may use
 *     AGREES(a, b, low, high, fingerprint, columns)    do all columns match the fingerprint? A
 *               column is the parity of the bits that `low` selects from the word at a and
 *               `high` from the word at b
 */

TARGET static unsigned ANSWER(const uint8_t *data, const struct ribbon_probes *p, unsigned which,
                              const struct ribbon_probes *next, unsigned coming)
{
    unsigned yes = 0;
    for (unsigned i = 0; i < RIBBON_PROBES; i++) {
        if (coming >> i & 1)
            ribbon_prefetch(data, next, i);
        if ((which >> i & 1) == 0)
            continue;
        unsigned offset = p->start[i] % RIBBON_WIDTH;
        yes |= (unsigned)AGREES(data + p->low[i], data + p->high[i],
                                ribbon_in_first(p->coefficients[i], offset),
                                ribbon_in_next(p->coefficients[i], offset), p->fingerprint[i],
                                p->columns[i])
               << i;
    }
    return yes;
}

#undef ANSWER
#undef TARGET
#undef AGREES

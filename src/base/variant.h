/* SPDX-License-Identifier: MIT
 * Variants of inner loops: one for each instruction set that pays off. The best variant that this
 * CPU can run is used. A module keeps a variant's functions in a struct that begins with a struct
 * variant, and lists the variants in a table:
 *
 *     static const struct split_variant plain = {{"plain", NULL}, split_plain};
 *     struct variants split_variants = {{&avx2.variant, &plain.variant}, NULL};
 *
 *     const struct split_variant *v = (const void *)variant_in_use(&split_variants);
 *     v->split(...);
 *
 * The table is global, so that `seen --version` can name the variant in use and tests can try all.
 */
#ifndef BASE_VARIANT_H
#define BASE_VARIANT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- What this CPU can do, detected at run time. True only if the operating system also saves the
 * registers; false in builds for other architectures. */

#if defined __x86_64__
#define CPU_X86 1
#endif
#if defined __aarch64__ && defined __ARM_NEON && !defined __ARM_BIG_ENDIAN
#define CPU_NEON 1
#endif

bool cpu_has_popcnt(void);      /* x86 only */
bool cpu_has_avx2(void);        /* AVX2, BMI1, BMI2 */
bool cpu_has_avx512(void);      /* AVX-512 F, BW, DQ, VL; and all of the above */
bool cpu_has_avx512_bits(void); /* VBMI, VBMI2, BITALG, VPOPCNTDQ; and all of the above */
bool cpu_has_neon(void);

/* ---- Variants. */

struct variant {
    const char *name;
    bool (*runs_here)(void); /* NULL: everywhere */
};

struct variants {
    const struct variant *all[8]; /* best first; the last runs everywhere; NULL after it */
    _Atomic(const struct variant *) chosen; /* NULL until first used */
};

bool variant_runs_here(const struct variant *variant);

/* Chooses the best variant that runs here; it is in use from now on. Concurrent threads choose the
 * same. */
const struct variant *variant_choose(struct variants *variants);

static inline const struct variant *variant_in_use(struct variants *variants)
{
    const struct variant *v = atomic_load_explicit(&variants->chosen, memory_order_relaxed);
    return v != NULL ? v : variant_choose(variants);
}

/* For tests: uses that variant from now on. False if this CPU or build lacks it. */
bool variant_use(struct variants *variants, const char *name);

#endif

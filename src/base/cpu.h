/* CPU features, detected at run time. True only if the operating system also saves the
 * registers. False in builds for other architectures. */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include <stdbool.h>

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

#endif

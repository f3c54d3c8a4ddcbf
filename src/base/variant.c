/* SPDX-License-Identifier: MIT */
#include "base/variant.h"

#include <string.h>

#ifndef CPU_X86
#define HAS(gcc_name, glibc_name) false
/* In glibc 2.33 and later, the dynamic linker runs CPUID and keeps the results. With
 * __builtin_cpu_supports, every program start runs CPUID again. In a virtual machine each CPUID
 * traps to the hypervisor: 0.05 to 0.2 ms in all. */
#elif __has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>

/* CPU_FEATURE_ACTIVE in that header shifts an int by 31 bits for some features. */
static bool is_active(unsigned feature)
{
    enum { BITS = 32, REGISTERS = 4 };
    const struct cpuid_feature *leaf = __x86_get_cpuid_feature_leaf(feature / (BITS * REGISTERS));
    return leaf->active_array[feature / BITS % REGISTERS] >> feature % BITS & 1;
}

#define HAS(gcc_name, glibc_name) is_active(x86_cpu_##glibc_name)
#else
#define HAS(gcc_name, glibc_name) __builtin_cpu_supports(gcc_name)
#endif

bool cpu_has_popcnt(void)
{
    return HAS("popcnt", POPCNT);
}

bool cpu_has_avx2(void)
{
    return HAS("avx2", AVX2) && HAS("bmi", BMI1) && HAS("bmi2", BMI2);
}

bool cpu_has_avx512(void)
{
    return cpu_has_avx2() && HAS("avx512f", AVX512F) && HAS("avx512bw", AVX512BW) &&
           HAS("avx512dq", AVX512DQ) && HAS("avx512vl", AVX512VL);
}

bool cpu_has_avx512_bits(void)
{
    return cpu_has_avx512() && HAS("avx512vbmi", AVX512_VBMI) && HAS("avx512vbmi2", AVX512_VBMI2) &&
           HAS("avx512bitalg", AVX512_BITALG) && HAS("avx512vpopcntdq", AVX512_VPOPCNTDQ);
}

/* Part of every 64-bit ARM CPU. */
bool cpu_has_neon(void)
{
#ifdef CPU_NEON
    return true;
#else
    return false;
#endif
}

bool variant_runs_here(const struct variant *variant)
{
    return variant->runs_here == NULL || variant->runs_here();
}

const struct variant *variant_choose(struct variants *variants)
{
    const struct variant *const *v = variants->all;
    while (!variant_runs_here(*v))
        v++;
    atomic_store_explicit(&variants->chosen, *v, memory_order_relaxed);
    return *v;
}

bool variant_use(struct variants *variants, const char *name)
{
    for (const struct variant *const *v = variants->all; *v != NULL; v++)
        if (strcmp((*v)->name, name) == 0 && variant_runs_here(*v)) {
            atomic_store_explicit(&variants->chosen, *v, memory_order_relaxed);
            return true;
        }
    return false;
}

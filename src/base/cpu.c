#include "base/cpu.h"

#ifdef CPU_X86

bool cpu_has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2");
}

bool cpu_has_avx512(void)
{
    return cpu_has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

bool cpu_has_avx512_bits(void)
{
    return cpu_has_avx512() && __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512bitalg") &&
           __builtin_cpu_supports("avx512vpopcntdq");
}

#else

bool cpu_has_avx2(void)
{
    return false;
}

bool cpu_has_avx512(void)
{
    return false;
}

bool cpu_has_avx512_bits(void)
{
    return false;
}

#endif

/* Part of every 64-bit ARM CPU. */
bool cpu_has_neon(void)
{
#ifdef CPU_NEON
    return true;
#else
    return false;
#endif
}

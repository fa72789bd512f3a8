/* cpu.c - detect, limit and name instruction sets. */
#include "base/os/cpu.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

#include "base/os/cgroup.h"

static const struct {
    const char *name;
    lm_cpu      adds;            /* in addition to the levels before it */
} levels[] = {
#if defined(__aarch64__)
    { "ref", 0 },
    { "neon", LM_CPU_NEON },
    { "dotprod", LM_CPU_DOTPROD },
    { "i8mm", LM_CPU_I8MM },
#else
    { "ref", 0 },
    { "sse41", LM_CPU_SSE41 | LM_CPU_INTEL },
    { "avx2", LM_CPU_AVX2 },
    { "avxvnni", LM_CPU_AVXVNNI | LM_CPU_AVXVNNI_VEX },
    { "avx512", LM_CPU_AVX512 },
    { "avx512vnni", LM_CPU_AVX512_VNNI },
    { "avx512bf16", LM_CPU_AVX512_BF16 },
    { "amx", LM_CPU_AMX },
#endif
};

#define N_LEVELS (sizeof levels / sizeof *levels)

static lm_cpu          detected;
static atomic_uint     limit = UINT32_MAX;
static pthread_once_t  once = PTHREAD_ONCE_INIT;
static char            brand[64] = "unknown";

#if defined(__x86_64__)
/* Return what the operating system saves on a context switch: XCR0. */
static uint64_t saved_state(void)
{
    uint32_t a, d;

    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (uint64_t)d << 32 | a;
}

static bool has(uint32_t reg, unsigned bit)
{
    return reg >> bit & 1;
}

/* Ask for permission to use tiles, which Linux saves only for a process that asked, and for all
 * its threads (Documentation/arch/x86/xstate.rst). */
static bool may_use_tiles(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

static bool from_intel(void)
{
    uint32_t a, name[3];

    return __get_cpuid(0, &a, &name[0], &name[2], &name[1]) && memcmp(name, "GenuineIntel", 12) == 0;
}

static bool has_all(uint32_t word, uint32_t bits)
{
    return (word & bits) == bits;
}

static lm_cpu detect(void)
{
#define BIT(n) (UINT32_C(1) << (n))
    enum { XMM_YMM = 0x6, XMM_YMM_ZMM = 0xe6, TILES = 3 << 17 };                           /* in XCR0 */
    const uint32_t ssse3_sse41 = BIT(9) | BIT(19), avx_fma_f16c = BIT(12) | BIT(27) | BIT(28) | BIT(29),
                   avx2_bmi2 = BIT(5) | BIT(8);
    const uint32_t f_dq_cd_bw_vl = BIT(16) | BIT(17) | BIT(28) | BIT(30) | BIT(31),
                   amx_bf16_tile_int8 = BIT(22) | BIT(24) | BIT(25);
#undef BIT
    uint32_t a, b, c, d, a1, b7, c7, d7;
    lm_cpu   set = LM_CPU_SSE41;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !has_all(c, ssse3_sse41))
        return 0;
    if (from_intel())
        set |= LM_CPU_INTEL;
    if (!has_all(c, avx_fma_f16c))
        return set;
    uint64_t os = saved_state();
    if ((os & XMM_YMM) != XMM_YMM || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) || !has_all(b7, avx2_bmi2))
        return set;
    set |= LM_CPU_AVX2;
    if (!__get_cpuid_count(7, 1, &a1, &b, &c, &d))
        a1 = 0;
    if (has(a1, 4))
        set |= LM_CPU_AVXVNNI | LM_CPU_AVXVNNI_VEX;
    if ((os & XMM_YMM_ZMM) == XMM_YMM_ZMM && has_all(b7, f_dq_cd_bw_vl)) {
        set |= LM_CPU_AVX512;
        if (has(c7, 11))
            set |= LM_CPU_AVX512_VNNI | LM_CPU_AVXVNNI;
        if (has(a1, 5))
            set |= LM_CPU_AVX512_BF16;
    }
    bool bf16_vnni = has_all(set, LM_CPU_AVX512_VNNI | LM_CPU_AVX512_BF16);
    if (bf16_vnni && (os & TILES) == TILES && has_all(d7, amx_bf16_tile_int8) && may_use_tiles())
        set |= LM_CPU_AMX;
    return set;
}

static void read_brand(void)
{
    uint32_t r[12], n;
    char     text[49] = { 0 };

    if (!__get_cpuid(0x80000000u, &n, &r[1], &r[2], &r[3]) || n < 0x80000004u)
        return;
    for (unsigned i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    memcpy(text, r, 48);
    char *from = text + strspn(text, " ");
    for (size_t end = strlen(from); end && from[end - 1] == ' '; end--)
        from[end - 1] = '\0';
    if (*from)
        snprintf(brand, sizeof brand, "%s", from);
}
#else
#include <sys/auxv.h>

/* Bits of AT_HWCAP and AT_HWCAP2 (Linux, arch/arm64/include/uapi/asm/hwcap.h), for C libraries too old to
 * name them. */
#ifndef HWCAP_ASIMD
#define HWCAP_ASIMD (1ul << 1)
#endif
#ifndef HWCAP_ASIMDDP
#define HWCAP_ASIMDDP (1ul << 20)
#endif
#ifndef HWCAP2_I8MM
#define HWCAP2_I8MM (1ul << 13)
#endif

static lm_cpu detect(void)
{
    unsigned long one = getauxval(AT_HWCAP), two = getauxval(AT_HWCAP2);
    lm_cpu        set = 0;

    if (one & HWCAP_ASIMD)
        set |= LM_CPU_NEON;
    if (one & HWCAP_ASIMDDP)
        set |= LM_CPU_DOTPROD;
    if (two & HWCAP2_I8MM)
        set |= LM_CPU_I8MM;
    return set;
}

static void read_brand(void) {}
#endif

/* Return the mask of "auto": everything except what makes this processor slower. That is AVX512-BF16 on
 * processors whose vdpbf16ps takes both ports: it multiplies two pairs in the time of four float32 products,
 * so float32 is as fast and more exact. With AMX, bfloat16 uses the tiles and stays enabled. */
static lm_cpu automatic(void)
{
    bool slow_bf16 = detected & LM_CPU_INTEL;
    bool tiles     = detected & LM_CPU_AMX;

    return slow_bf16 && !tiles ? ~(lm_cpu)LM_CPU_AVX512_BF16 : UINT32_MAX;
}

static bool level_mask(const char *name, lm_cpu *mask)
{
    lm_cpu set = 0;

    if (strcmp(name, "auto") == 0 || !*name) {
        *mask = automatic();
        return true;
    }
    for (size_t i = 0; i < N_LEVELS; i++) {
        set |= levels[i].adds;
        if (strcmp(levels[i].name, name) == 0) {
            *mask = set;
            return true;
        }
    }
    return false;
}

static void initialise(void)
{
    const char *wish = getenv("LAMINA_CPU");
    lm_cpu      mask;

    detected = detect();
    read_brand();
    atomic_store(&limit, wish && level_mask(wish, &mask) ? mask : automatic());
}

lm_cpu lm_cpu_detected(void)
{
    pthread_once(&once, initialise);
    return detected;
}

lm_cpu lm_cpu_usable(void)
{
    lm_cpu d = lm_cpu_detected();

    return d & atomic_load(&limit);
}

lm_status lm_cpu_environment(lm_error *e)
{
    const char *wish = getenv("LAMINA_CPU");
    lm_cpu      mask;

    if (!wish || lm_cpu_level(wish, &mask, e) == LM_OK)
        return LM_OK;
    if (e)
        snprintf(e->where, sizeof e->where, "LAMINA_CPU");
    return LM_USAGE;
}

lm_status lm_cpu_level(const char *name, lm_cpu *mask, lm_error *e)
{
    char   known[128] = "";
    size_t at         = 0;

    lm_cpu_detected();
    if (level_mask(name, mask))
        return LM_OK;
    for (size_t i = 0; i < N_LEVELS && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s ", levels[i].name);
    return lm_fail(e, LM_USAGE, "cpu", LM_NO_OFFSET, "unknown instruction set level \"%s\"; use %sauto", name,
                   known);
}

lm_status lm_cpu_choose(const char *level, lm_cpu *out, lm_error *e)
{
    lm_cpu mask;

    *out = lm_cpu_usable();
    if (!level)
        return lm_cpu_environment(e);
    if (!*level)
        return lm_fail(e, LM_USAGE, "cpu", LM_NO_OFFSET,
                       "empty instruction set level; use auto for the best available");
    LM_TRY(lm_cpu_level(level, &mask, e));
    if (strcmp(level, "auto") != 0 && strcmp(level, lm_cpu_name(mask & lm_cpu_detected())) != 0)
        return lm_fail(e, LM_UNSUPPORTED, "cpu", LM_NO_OFFSET, "not supported by this processor: %s", level);
    *out = lm_cpu_detected() & mask;
    return LM_OK;
}

const char *lm_cpu_level_name(size_t i)
{
    return i < N_LEVELS ? levels[i].name : NULL;
}

void lm_cpu_limit(lm_cpu mask)
{
    lm_cpu_detected();
    atomic_store(&limit, mask);
}

const char *lm_cpu_name(lm_cpu set)
{
    for (size_t i = N_LEVELS; i-- > 1;)
        if (set & levels[i].adds)
            return levels[i].name;
    return "ref";
}

const char *lm_cpu_brand(void)
{
    lm_cpu_detected();
    return brand;
}

/* Return the lowest processor in `mask` that shares a core with `cpu`; `cpu` itself if the system does not
 * report it. */
static int first_of_core(int cpu, const cpu_set_t *mask)
{
    char  path[96], line[256] = "";
    FILE *f;

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    f = fopen(path, "re");
    if (f && !fgets(line, sizeof line, f))
        line[0] = '\0';
    if (f)
        fclose(f);
    for (char *at = line, *end; *at; at = *end ? end + 1 : end) {           /* "0,64" or "0-1" */
        long from = strtol(at, &end, 10), to = from;
        if (end > at && *end == '-')
            to = strtol(at = end + 1, &end, 10);
        if (end == at)
            break;
        for (long k = from; k <= to && k < cpu; k++)
            if (k >= 0 && CPU_ISSET((size_t)k, mask))
                return (int)k;
    }
    return cpu;
}

static unsigned count_cores(const cpu_set_t *mask)
{
    unsigned cores = 0;

    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        cores += CPU_ISSET((unsigned)cpu, mask) && first_of_core(cpu, mask) == cpu;
    return cores ? cores : 1;
}

/* Limit the cores to what the quota pays for: threads beyond it would be stopped in the middle of every
 * step. */
static unsigned paid_for(unsigned cores)
{
    lm_cgroup group;

    lm_cgroup_read("", &group);
    if (!(group.processors > 0) || group.processors >= cores)
        return cores;
    return group.processors < 1.5 ? 1 : (unsigned)(group.processors + 0.5);
}

unsigned lm_cpu_cores(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static cpu_set_t       of;           /* the mask of `known`: counting reads a dozen files and one per
                                          * processor, so it is done once per mask */
    static unsigned        known;
    cpu_set_t              mask;
    unsigned               cores;

    if (sched_getaffinity(0, sizeof mask, &mask) != 0) {
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        return paid_for(n > 0 ? (unsigned)n : 1);
    }
    pthread_mutex_lock(&lock);
    if (!known || !CPU_EQUAL(&mask, &of)) {
        known = paid_for(count_cores(&mask));
        of    = mask;
    }
    cores = known;
    pthread_mutex_unlock(&lock);
    return cores;
}

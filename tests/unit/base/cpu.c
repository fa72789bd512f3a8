/* cpu.c - detected features agree with the kernel's own list; the mask only removes features. */
#include "unit.h"

#include <sched.h>
#include <sys/wait.h>

#include "base/os/cpu.h"

#if defined(__x86_64__)
/* Whether /proc/cpuinfo lists the flag for the first processor. */
static bool kernel_says(const char *flag)
{
    static char line[8192];
    char        word[32];
    FILE       *f     = fopen("/proc/cpuinfo", "r");
    bool        found = false;

    assert_non_null(f);
    snprintf(word, sizeof word, " %s ", flag);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, "flags", 5) == 0) {
            line[strcspn(line, "\n")] = ' ';
            found                     = strstr(line, word) != NULL;
            break;
        }
    fclose(f);
    return found;
}

static void agrees_with_the_kernel(void **state)
{
    lm_cpu d      = lm_cpu_detected();
    bool   avx2   = kernel_says("avx2") && kernel_says("fma") && kernel_says("f16c") && kernel_says("bmi2");
    bool   avx512 = avx2 && kernel_says("avx512f") && kernel_says("avx512bw") && kernel_says("avx512dq") &&
                  kernel_says("avx512vl") && kernel_says("avx512cd");

    (void)state;
    assert_int_equal(!!(d & LM_CPU_SSE41), kernel_says("ssse3") && kernel_says("sse4_1"));
    assert_int_equal(!!(d & LM_CPU_AVX2), avx2);
    assert_int_equal(!!(d & LM_CPU_AVXVNNI),
                     avx2 && (kernel_says("avx_vnni") || (avx512 && kernel_says("avx512_vnni"))));
    assert_int_equal(!!(d & LM_CPU_AVXVNNI_VEX), avx2 && kernel_says("avx_vnni"));
    assert_int_equal(!!(d & LM_CPU_AVX512), avx512);
    assert_int_equal(!!(d & LM_CPU_AVX512_VNNI), avx512 && kernel_says("avx512_vnni"));
    assert_int_equal(!!(d & LM_CPU_AVX512_BF16), avx512 && kernel_says("avx512_bf16"));
    assert_true(!(d & LM_CPU_AMX) ||
                (kernel_says("amx_tile") && kernel_says("amx_int8") && kernel_says("amx_bf16")));
    assert_true(strlen(lm_cpu_brand()) > 0);
}

static void levels_are_cumulative(void **state)
{
    lm_cpu   before = 0, mask = 0;
    lm_error e;

    (void)state;
    for (size_t i = 0; lm_cpu_level_name(i); i++) {
        assert_int_equal(lm_cpu_level(lm_cpu_level_name(i), &mask, &e), LM_OK);
        assert_int_equal(mask & before, before);
        assert_true(i == 0 ? mask == 0 : mask != before);
        assert_string_equal(lm_cpu_name(mask), lm_cpu_level_name(i));
        before = mask;
    }
    assert_string_equal(lm_cpu_name(0), "ref");
}
#endif

static void unknown_levels(void **state)
{
    lm_cpu   mask = 5;
    lm_error e;

    (void)state;
    assert_int_equal(lm_cpu_level("sse9", &mask, &e), LM_USAGE);
    assert_int_equal(mask, 5);
    assert_non_null(strstr(e.message, "sse9"));
    assert_non_null(strstr(e.message, "auto"));
    assert_int_equal(lm_cpu_level("auto", &mask, &e), LM_OK);
    assert_int_equal(mask & lm_cpu_detected(), lm_cpu_usable());
    lm_cpu without = lm_cpu_detected() & ~mask;          /* auto leaves out slow bfloat16 products at most */
    assert_true(without == 0 || (without == LM_CPU_AVX512_BF16 && !(lm_cpu_detected() & LM_CPU_AMX)));
}

static void the_mask_only_takes_away(void **state)
{
    (void)state;
    assert_int_equal(lm_cpu_usable() & ~lm_cpu_detected(), 0);
    lm_cpu_limit(0);
    assert_int_equal(lm_cpu_usable(), 0);
    lm_cpu_limit(LM_CPU_AVX2);
    assert_int_equal(lm_cpu_usable(), lm_cpu_detected() & LM_CPU_AVX2);
    lm_cpu_limit(UINT32_MAX);
    assert_int_equal(lm_cpu_usable(), lm_cpu_detected());
}

/* LAMINA_CPU is read once, at the first query; lm_cpu_limit overrides it. */
static int asked_with(const char *level)
{
    int   status;
    pid_t child = fork();

    if (child == 0) {
        setenv("LAMINA_CPU", level, 1);
        lm_cpu first = lm_cpu_usable();
        setenv("LAMINA_CPU", "auto", 1);
        bool once = lm_cpu_usable() == first;
        lm_cpu_limit(UINT32_MAX);
        _exit(first == 0 && once && lm_cpu_usable() == lm_cpu_detected() ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void the_environment_limits(void **state)
{
    (void)state;
    int auto_status = asked_with("auto");                /* before the first query of this process, so that
                                                            the children read it */
    assert_int_equal(asked_with("ref"), 0);
    assert_int_equal(auto_status, lm_cpu_detected() ? 1 : 0);
}

static void an_unknown_level_in_the_environment(void **state)
{
    lm_error e;

    (void)state;
    assert_int_equal(lm_cpu_environment(&e), LM_OK);
    setenv("LAMINA_CPU", "ref", 1);
    assert_int_equal(lm_cpu_environment(&e), LM_OK);
    setenv("LAMINA_CPU", "fast", 1);
    assert_int_equal(lm_cpu_environment(&e), LM_USAGE);
    assert_string_equal(e.where, "LAMINA_CPU");
    assert_int_equal(lm_cpu_environment(NULL), LM_USAGE);
    unsetenv("LAMINA_CPU");
}

/* A process bound to one processor has one core, whatever the machine has. */
static void cores_follow_the_affinity_mask(void **state)
{
    cpu_set_t all, one;
    unsigned  cores = lm_cpu_cores();

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_true(cores >= 1 && cores <= (unsigned)CPU_COUNT(&all));
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all)) {
            CPU_ZERO(&one);
            CPU_SET(i, &one);
            break;
        }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(lm_cpu_cores(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(lm_cpu_cores(), cores);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_limits), /* first: before any query of this process */
#if defined(__x86_64__)
        cmocka_unit_test(agrees_with_the_kernel), cmocka_unit_test(levels_are_cumulative),
#endif
        cmocka_unit_test(unknown_levels), cmocka_unit_test(an_unknown_level_in_the_environment),
        cmocka_unit_test(the_mask_only_takes_away), cmocka_unit_test(cores_follow_the_affinity_mask),
    };
    unsetenv("LAMINA_CPU");                              /* its effect is tested here, starting without it */
    return cmocka_run_group_tests(tests, NULL, NULL);
}

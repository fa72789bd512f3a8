/* machine.c - describe this machine and its libraries; measure.c measures its speed. */
#include "lamina/machine.h"

#include <gnu/libc-version.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <sodium.h>

#include "base/os/available.h"
#include "base/os/cgroup.h"
#include "base/os/cpu.h"

/* Levels all of whose instructions are available, from the lowest to the highest. */
static const char *levels_found[16];

static void find_levels(void)
{
    lm_cpu all = lm_cpu_detected(), mask = 0;
    size_t n   = 0;

    for (size_t i = 0; lm_cpu_level_name(i) && n + 1 < sizeof levels_found / sizeof *levels_found; i++)
        if (lm_cpu_level(lm_cpu_level_name(i), &mask, NULL) == LM_OK &&
            strcmp(lm_cpu_name(mask & all), lm_cpu_level_name(i)) == 0)
            levels_found[n++] = lm_cpu_level_name(i);
    levels_found[n] = NULL;
}

/* Read the word in brackets: "always [madvise] never". */
static void read_huge_pages(char out[16])
{
    char  line[128];
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");

    out[0] = '\0';
    if (f && fgets(line, sizeof line, f)) {
        char *from = strchr(line, '['), *to = from ? strchr(from, ']') : NULL;
        if (to)
            snprintf(out, 16, "%.*s", (int)(to - from - 1 < 15 ? to - from - 1 : 15), from + 1);
    }
    if (f)
        fclose(f);
}

static uint64_t zero_for_none(uint64_t limit)
{
    return limit == UINT64_MAX ? 0 : limit;
}

lm_status lm_machine_describe(lm_machine *out, lm_error *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    LM_REQUIRE(e, out);
    lm_cpu    all = lm_cpu_detected(), usable = lm_cpu_usable(), best = all;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE),
         threads = sysconf(_SC_NPROCESSORS_ONLN);
    lm_cgroup group;

    LM_TRY(lm_cpu_environment(e));
    LM_TRY(lm_cpu_level("auto", &best, e));
    lm_cgroup_read("", &group);
    pthread_once(&once, find_levels);
    *out = (lm_machine){
        .cpu        = lm_cpu_brand(),
        .detected   = lm_cpu_name(all),
        .usable     = lm_cpu_name(usable),
        .limited_by = usable != (all & best) ? getenv("LAMINA_CPU") : NULL,
        .levels     = levels_found,
        .cores      = lm_cpu_cores(),
        .threads    = threads > 0 ? (uint32_t)threads : 1,
        .memory     = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0,
        .available  = zero_for_none(lm_memory_available()),
        .memory_limit        = zero_for_none(group.memory_limit),
        .address_space_limit = zero_for_none(lm_address_space_limit()),
        .processor_quota     = group.processors,
    };
    read_huge_pages(out->huge_pages);
    return LM_OK;
}

/* The release from pcre2's version string, "10.42 2022-12-11"; set once. */
static char pcre2_release[64];

static void read_pcre2_release(void)
{
    int n = pcre2_config(PCRE2_CONFIG_VERSION, NULL);

    if (n > 0 && (size_t)n <= sizeof pcre2_release && pcre2_config(PCRE2_CONFIG_VERSION, pcre2_release) >= 0)
        pcre2_release[strcspn(pcre2_release, " ")] = '\0';
    else
        pcre2_release[0] = '\0';
}

const char *lm_machine_library(uint32_t i, const char **version)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_pcre2_release);
    const struct { const char *name, *version; } libraries[] = {
        { "glibc", gnu_get_libc_version() },  { "jansson", jansson_version_str() },       { "pcre2", pcre2_release },
        { "utf8proc", utf8proc_version() },   { "libsodium", sodium_version_string() },   { NULL, NULL },
    };
    size_t at = i < sizeof libraries / sizeof *libraries ? i : sizeof libraries / sizeof *libraries - 1;

    if (version)
        *version = libraries[at].version;
    return libraries[at].name;
}

/* machine.c - what this machine has. measure.c says what it can do. */
#include "lamina/machine.h"

#include <gnu/libc-version.h>
#include <hwloc.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <sodium.h>

#include "base/alloc.h"
#include "base/cpu.h"

/* Levels whose every instruction is there, from the lowest to the highest. */
static const char *const *detected_levels(lm_cpu all)
{
    static _Thread_local const char *found[16];
    size_t                           n    = 0;
    lm_cpu                           mask = 0;

    for (size_t i = 0; lm_cpu_level_name(i) && n + 1 < sizeof found / sizeof *found; i++)
        if (lm_cpu_level(lm_cpu_level_name(i), &mask, NULL) == LM_OK && strcmp(lm_cpu_name(mask & all), lm_cpu_level_name(i)) == 0)
            found[n++] = lm_cpu_level_name(i);
    found[n] = NULL;
    return found;
}

/* The word in brackets: "always [madvise] never". */
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

lm_status lm_machine_describe(lm_machine *out, lm_error *e)
{
    lm_cpu   all = lm_cpu_detected(), usable = lm_cpu_usable(), best = all;
    long     pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE), threads = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t available = lm_memory_available();

    LM_TRY(lm_cpu_environment(e));
    LM_TRY(lm_cpu_level("auto", &best, e));
    *out = (lm_machine){
        .cpu        = lm_cpu_brand(),
        .detected   = lm_cpu_name(all),
        .usable     = lm_cpu_name(usable),
        .limited_by = usable != (all & best) ? getenv("LAMINA_CPU") : NULL,
        .levels     = detected_levels(all),
        .cores      = lm_cpu_cores(),
        .threads    = threads > 0 ? (uint32_t)threads : 1,
        .memory     = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0,
        .available  = available == UINT64_MAX ? 0 : available,
    };
    read_huge_pages(out->huge_pages);
    return LM_OK;
}

const char *lm_machine_library(uint32_t i, const char **version)
{
    static _Thread_local char text[64];

    *version = text;
    switch (i) {
    case 0: snprintf(text, sizeof text, "%s", gnu_get_libc_version()); return "glibc";
    case 1: snprintf(text, sizeof text, "%s", jansson_version_str()); return "jansson";
    case 2: {
        int n = pcre2_config(PCRE2_CONFIG_VERSION, NULL);
        if (n <= 0 || (size_t)n > sizeof text || pcre2_config(PCRE2_CONFIG_VERSION, text) < 0)
            text[0] = '\0';
        text[strcspn(text, " ")] = '\0';                                 /* "10.42 2022-12-11" */
        return "pcre2";
    }
    case 3: snprintf(text, sizeof text, "%s", utf8proc_version()); return "utf8proc";
    case 4: snprintf(text, sizeof text, "%s", sodium_version_string()); return "libsodium";
    case 5: {
        unsigned v = hwloc_get_api_version();
        snprintf(text, sizeof text, "%u.%u", v >> 16, v >> 8 & 255);
        return "hwloc";
    }
    default: return *version = NULL;
    }
}

/* machine.c - what this program runs on and what it was made of. */
#include "lamina/machine.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <hwloc.h>
#include <jansson.h>
#include <pcre2.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/error.h"

/* The word in brackets of "always [madvise] never". */
static const char *huge_pages(void)
{
    static const char *const words[] = { "always", "madvise", "never" };
    char                     line[64] = "", marked[16];
    FILE                    *f        = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");

    if (f && !fgets(line, sizeof line, f))
        line[0] = '\0';
    if (f)
        fclose(f);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        snprintf(marked, sizeof marked, "[%s]", words[i]);
        if (strstr(line, marked))
            return words[i];
    }
    return "";
}

void lm_machine_describe(lm_machine *out)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    *out = (lm_machine){
        .brand = lm_cpu_brand(),
        .detected = lm_cpu_name(lm_cpu_detected()),
        .usable = lm_cpu_name(lm_cpu_usable()),
        .cores = lm_cpu_cores(),
        .memory = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0,
        .memory_available = lm_memory_available(),
        .huge_pages = huge_pages(),
    };
}

/* ---- what it was made of ---- */

static char           hwloc_version[16], pcre2_version[64];
static lm_library     libraries[6];
static pthread_once_t asked = PTHREAD_ONCE_INIT;

static void ask(void)
{
    unsigned v = hwloc_get_api_version();

    snprintf(hwloc_version, sizeof hwloc_version, "%u.%u.%u", v >> 16 & 255, v >> 8 & 255, v & 255);
    if (pcre2_config(PCRE2_CONFIG_VERSION, NULL) <= (int)sizeof pcre2_version)
        pcre2_config(PCRE2_CONFIG_VERSION, pcre2_version);
    libraries[0] = (lm_library){ "hwloc", hwloc_version };
    libraries[1] = (lm_library){ "jansson", jansson_version_str() };
    libraries[2] = (lm_library){ "libsodium", sodium_version_string() };
    libraries[3] = (lm_library){ "pcre2", pcre2_version };
    libraries[4] = (lm_library){ "utf8proc", utf8proc_version() };
}

const lm_library *lm_libraries(void)
{
    pthread_once(&asked, ask);
    return libraries;
}

const char *lm_version(void)
{
    return LAMINA_VERSION;
}

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

const char *lm_build(void)
{
    return LAMINA_BUILD_TYPE ", " COMPILER ", " LAMINA_BUILD_MACHINE;
}

/* ---- the cache ---- */

lm_status lm_cache_folder(lm_text *out, lm_error *e)
{
    const char *own = getenv("LAMINA_CACHE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *base = own && *own ? own : cache && *cache ? cache : home && *home ? home : NULL;
    const char *below = base == own ? "" : base == cache ? "/lamina" : "/.cache/lamina";

    if (!base)
        return lm_fail(e, LM_NOT_FOUND, "LAMINA_CACHE", LM_NO_OFFSET, "neither this nor XDG_CACHE_HOME nor HOME says where the cache is");
    size_t n = out->n + strlen(base) + strlen(below) + 1;
    char  *grown = lm_realloc(out->data, n);
    if (!grown)
        return lm_fail_memory(e, "a path", n);
    snprintf(grown + out->n, n - out->n, "%s%s", base, below);
    *out = (lm_text){ grown, n - 1, n };
    return LM_OK;
}

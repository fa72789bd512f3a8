/* available.c - the tightest of the kernel's memory limits. */
#include "base/os/available.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/os/cgroup.h"

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t of_machine(void)
{
    static const char field[] = "MemAvailable:";
    char              line[128];
    uint64_t          bytes = UINT64_MAX;
    FILE             *f     = fopen("/proc/meminfo", "re");

    while (f && bytes == UINT64_MAX && fgets(line, sizeof line, f)) {
        if (strncmp(line, field, sizeof field - 1) != 0)
            continue;
        uint64_t kib = strtoull(line + sizeof field - 1, NULL, 10);
        if (kib && kib < UINT64_MAX / 1024)
            bytes = kib * 1024;
    }
    if (f)
        fclose(f);
    return bytes;
}

uint64_t lm_address_space_limit(void)
{
    struct rlimit r;

    return getrlimit(RLIMIT_AS, &r) == 0 && r.rlim_cur != RLIM_INFINITY ? r.rlim_cur : UINT64_MAX;
}

static uint64_t of_address_space(void)
{
    uint64_t limit    = lm_address_space_limit(), used = 0;
    char     line[64] = "";
    FILE    *f        = limit < UINT64_MAX ? fopen("/proc/self/statm", "re") : NULL;

    if (f && fgets(line, sizeof line, f))                /* pages, the first number of the line */
        used = strtoull(line, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (f)
        fclose(f);
    return limit == UINT64_MAX ? limit : used < limit ? limit - used : 0;
}

uint64_t lm_memory_available(void)
{
    lm_cgroup group;

    lm_cgroup_read("", &group);
    return min(min(of_machine(), group.memory_free), of_address_space());
}

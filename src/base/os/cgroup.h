/* cgroup.h - the memory and processor time that the control groups of this process allow: cgroups v1, v2 and
 * both at once (Linux, Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst). Groups nest, and the tightest
 * limit counts. Thread-safe. */
#ifndef LM_BASE_CGROUP_H
#define LM_BASE_CGROUP_H

#include <stdint.h>

typedef struct lm_cgroup {
    uint64_t memory_limit;       /* bytes, the lowest limit of any group; UINT64_MAX: none */
    uint64_t memory_free;        /* the fewest bytes left below a limit; file pages count as free, because the
                                    kernel reclaims them before it kills. UINT64_MAX: no limit */
    double   processors;         /* seconds of processor time per second; 0: no limit */
} lm_cgroup;

/* Read the limits. Never fails: what is missing, unreadable or invalid limits nothing. `root` is prepended to
 * every path: "" for the system. Reads about a dozen small files. */
void lm_cgroup_read(const char *root, lm_cgroup *out);

#endif

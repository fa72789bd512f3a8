/* cgroup.h - what the control groups that hold this process leave it: memory and processor time, cgroups v1, v2 and both at once
 * (Linux, Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst). Groups nest, and the tightest counts. Thread-safe. */
#ifndef LM_BASE_CGROUP_H
#define LM_BASE_CGROUP_H

#include <stdint.h>

typedef struct lm_cgroup {
    uint64_t memory_limit;       /* bytes, of the group with the least; UINT64_MAX: none */
    uint64_t memory_free;        /* bytes left below a limit, where fewest are left; pages of files count as free, since the
                                    kernel takes them back before it kills. UINT64_MAX: no limit */
    double   processors;         /* seconds of processor time in a second; 0: no limit */
} lm_cgroup;

/* Never fails: what is missing, unreadable or nonsense limits nothing. `root` stands before every path: "" for the system. Reads a dozen
 * small files. */
void lm_cgroup_read(const char *root, lm_cgroup *out);

#endif

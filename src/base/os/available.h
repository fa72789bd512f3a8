/* available.h - the memory available to this process: of the machine, of its control groups, of its own
 * limits. Thread-safe. */
#ifndef LM_BASE_AVAILABLE_H
#define LM_BASE_AVAILABLE_H

#include <stdint.h>

/* Return the bytes available now without swapping: the minimum of MemAvailable, what control groups leave
 * (cgroup.h) and what the limit of the address space leaves (RLIMIT_AS). UINT64_MAX: the system reports
 * nothing. */
uint64_t lm_memory_available(void);

/* Return the soft limit of the address space in bytes; UINT64_MAX: none. */
uint64_t lm_address_space_limit(void);

#endif

/* machine.h - the machine underneath: what it is, what it could do at best, and what lamina was built from. */
#ifndef LAMINA_MACHINE_H
#define LAMINA_MACHINE_H

#include <stdbool.h>

#include "lamina/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_machine {
    const char *brand;               /* "AMD EPYC 9R14"; "unknown" */
    const char *detected;            /* highest instruction set level of processor and operating system: "avx512bf16" */
    const char *usable;              /* the highest that may be used: LAMINA_CPU only takes away */
    uint32_t    cores;               /* physical ones this process may run on */
    uint64_t    memory;              /* bytes installed; 0 where nobody says */
    uint64_t    memory_available;    /* without swapping, now; UINT64_MAX where nobody says */
    const char *huge_pages;          /* "always" "madvise" "never"; "" where nobody says */
} lm_machine;

void lm_machine_describe(lm_machine *out);

/* Operations or bytes per second, with one thread and with all that were asked for. `level` names the instructions that
 * the probe used; NULL: this machine has none for it, the rates are 0. A multiply and an add are two operations. */
typedef struct lm_rate {
    const char *level;
    double      one, all;
} lm_rate;

/* The limits that a matrix product meets. Compute: the best of several runs of a loop that touches registers only. Memory:
 * the median of several readings of random data too large for the caches, four streams a thread. */
typedef struct lm_machine_limits {
    uint32_t threads;                /* behind `all` */
    lm_rate  int8, bf16, f32, read;
    double   seconds;                /* that measuring took */
    int64_t  measured;               /* when; seconds since 1970 */
    bool     kept;                   /* read from `keep`, not measured now */
} lm_machine_limits;

typedef struct lm_measure_options {
    uint32_t    threads;             /* 0: physical cores */
    const char *cpu;                 /* instruction set level; NULL: the best there is */
    const char *keep;                /* a folder where results wait for the next time on this machine; NULL: none */
    bool        fresh;               /* measure although there is a kept result */
} lm_measure_options;

/* About a second on an idle machine; what else runs meanwhile makes the rates smaller. A kept result that cannot be
 * written is no error. LM_USAGE: impossible threads or level; LM_UNSUPPORTED: a level this processor lacks. `o` may be NULL. */
lm_status lm_machine_measure(const lm_measure_options *o, lm_machine_limits *out, lm_error *e);

/* The libraries in this program, with the versions found at run time; ends with a NULL name. */
typedef struct lm_library { const char *name, *version; } lm_library;
const lm_library *lm_libraries(void);

/* "0.1.0", and how it was built: "release, gcc 12.2.0, x86_64". */
const char *lm_version(void);
const char *lm_build(void);

/* lamina's cache: $LAMINA_CACHE, else $XDG_CACHE_HOME/lamina, else ~/.cache/lamina; appended to `out` without a slash at
 * the end. LM_NOT_FOUND when no variable says where. */
lm_status lm_cache_folder(lm_text *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif

/* machine.h - the machine that models run on: what it has, and what it can do at best. */
#ifndef LAMINA_MACHINE_H
#define LAMINA_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "lamina/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_machine {
    const char *cpu;                 /* "AMD EPYC 9R14" */
    const char *detected;            /* the highest instruction set level that processor and system have, "amx" */
    const char *usable;              /* the level that engines use when not told otherwise */
    const char *limited_by;          /* the value of LAMINA_CPU where it takes something away, else NULL */
    const char *const *levels;       /* all that are detected, lowest first, NULL-ended */
    uint32_t    cores, threads;      /* physical cores this process may use; hardware threads */
    uint64_t    memory, available;   /* bytes; 0: unknown */
    char        huge_pages[16];      /* "always" "madvise" "never"; "" where the system does not say */
} lm_machine;

/* LM_USAGE when LAMINA_CPU names no level. */
lm_status lm_machine_describe(lm_machine *out, lm_error *e);

/* Operations or bytes a second; 0: not measured. */
typedef struct lm_rate {
    double one, all;                 /* with one thread, with one on each core. Arithmetic: the best of several windows of
                                        time; memory, which others use too: their median */
    double best;                     /* the best window of `all` */
    char   by[32];                   /* the instruction that did it; "" where this level has none */
} lm_rate;

typedef struct lm_limits {
    char    level[16];               /* instruction set level measured */
    lm_rate int8, bf16, f32;         /* a multiplication and an addition are two operations */
    lm_rate memory;                  /* reading */
    uint32_t threads;                /* what "all" means */
    int64_t  measured_at;            /* seconds since 1970, UTC */
    double   busy;                   /* share of the time that other work took from the measuring threads, 0…1: with much of
                                        it the figures are too low */
    double   seconds;                /* that measuring took; 0: these were in the cache */
    bool     kept;                   /* they are in the cache now */
} lm_limits;

typedef struct lm_measure_options {
    const char *cpu;                 /* instruction set level; NULL: the best there is */
    uint32_t    threads;             /* 0: physical cores */
    bool        fresh;               /* measure again even where the cache folder has figures of this machine */
    bool        kept_only;           /* do not measure: LM_NOT_FOUND where the cache folder has no figures */
} lm_measure_options;

/* What the machine can do at best, measured in about a second and kept in the cache folder for the next time. That it cannot
 * be kept is no error. `o` may be NULL. */
lm_status lm_machine_measure(const lm_measure_options *o, lm_limits *out, lm_error *e);

/* The libraries that lamina runs with. NULL past the end. */
const char *lm_machine_library(uint32_t i, const char **version);

#ifdef __cplusplus
}
#endif
#endif

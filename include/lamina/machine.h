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
    uint64_t    memory, available;   /* bytes the machine has; bytes this process could have now. 0: unknown */
    char        huge_pages[16];      /* "always" "madvise" "never"; "" where the system does not say */
    uint64_t    memory_limit;        /* bytes that its control groups give this process and its neighbours; 0: no limit */
    uint64_t    address_space_limit; /* bytes that it may map, files too (ulimit -v); 0: no limit */
    double      processor_quota;     /* processors' worth of time that its control groups give it; 0: no limit */
    uint64_t    reserved[8];         /* zero */
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
    double   below;                  /* how far the worst of what was measured now stayed below the best known of this machine, which
                                        stands here in its place, 0…1; 0: nothing did by more than a tenth */
    uint64_t reserved[8];            /* zero */
} lm_limits;

#define LM_LIMITS_BUSY 0.1           /* with more than that share of `busy`, figures are said to be too low */

/* What is to be said beside figures: "" nothing, "busy", "below the best known". */
const char *lm_limits_mark(const lm_limits *l);

typedef struct lm_measure_options {
    const char *cpu;                 /* instruction set level; NULL: the best there is */
    uint32_t    threads;             /* 0: physical cores */
    bool        fresh;               /* measure again even where the cache folder has figures of this machine */
    bool        kept_only;           /* neither measure nor write: LM_NOT_FOUND where the cache folder has no figures */
    uint64_t    reserved[4];         /* zero */
} lm_measure_options;

lm_measure_options lm_measure_defaults(void);

/* What the machine can do at best: as the cache folder knows it, else measured in about a second and kept there for the next time. Figures
 * that stay below the best known by more than a tenth are measured again, then the best known stand in their place and `below` says so;
 * nothing that is kept gets worse. Those of a busy moment are used for ten minutes, then measured again. That nothing can be kept is no
 * error. `o` may be NULL. */
lm_status lm_machine_measure(const lm_measure_options *o, lm_limits *out, lm_error *e);

/* The libraries that lamina runs with. NULL past the end. */
const char *lm_machine_library(uint32_t i, const char **version);

#ifdef __cplusplus
}
#endif
#endif

/* machine.h - describe this machine, and measure its limits. */
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
    const char *detected;            /* the highest instruction set level that processor and system have,
                                        "amx" */
    const char *usable;              /* the level that engines use by default */
    const char *limited_by;          /* the value of LAMINA_CPU if it lowers the level, else NULL */
    const char *const *levels;       /* all detected levels, lowest first, NULL-ended */
    uint32_t    cores, threads;      /* physical cores this process may use; hardware threads */
    uint64_t    memory, available;   /* bytes of the machine; bytes available to this process now. 0:
                                        unknown */
    char        huge_pages[16];      /* "always" "madvise" "never"; "": unknown */
    uint64_t    memory_limit;        /* memory limit of its control groups, in bytes; 0: no limit */
    uint64_t    address_space_limit; /* limit of its address space, mapped files included (ulimit -v); 0: no
                                        limit */
    double      processor_quota;     /* processor quota of its control groups, in processors; 0: no limit */
    uint64_t    reserved[8];         /* zero */
} lm_machine;

/* Describe the machine. LM_USAGE: LAMINA_CPU is not a level. */
lm_status lm_machine_describe(lm_machine *out, lm_error *e);

/* Operations or bytes a second; 0: not measured. */
typedef struct lm_rate {
    double one, all;                 /* with one thread; with one per core. Arithmetic: the best of several
                                        windows of time; memory, which other processes use too: their
                                        median */
    double best;                     /* the best window of `all` */
    char   by[32];                   /* the instruction; "" if this level has none */
} lm_rate;

typedef struct lm_limits {
    char    level[16];               /* instruction set level measured */
    lm_rate int8, bf16, f32;         /* a multiplication and an addition are two operations */
    lm_rate memory;                  /* reading */
    uint32_t threads;                /* what "all" means */
    int64_t  measured_at;            /* seconds since 1970, UTC */
    double   busy;                   /* share of the time that other work took from the measuring threads,
                                        0…1; a large share makes the results too low */
    double   seconds;                /* duration of the measurement; 0: the results were in the cache */
    bool     kept;                   /* the results are in the cache now */
    double   below;                  /* how far the worst result of this measurement is below the best known
                                        one, 0…1; then the best known results are returned. 0: at most a tenth
                                        below */
    uint64_t reserved[8];            /* zero */
} lm_limits;

#define LM_LIMITS_BUSY 0.1           /* a larger `busy` is reported: the results are too low */

/* A note to show with the results: "", "busy", "below the best known". */
const char *lm_limits_mark(const lm_limits *l);

/* Return `l`, or NULL if its results are too low to predict a speed: measured on a busy machine, of which
 * nothing better is known. */
const lm_limits *lm_limits_usable(const lm_limits *l);

typedef struct lm_measure_options {
    const char *cpu;                 /* instruction set level; NULL: the best there is */
    uint32_t    threads;             /* 0: physical cores */
    bool        fresh;               /* measure again even if the cache folder has results of this machine */
    bool        kept_only;           /* neither measure nor write; LM_NOT_FOUND if the cache folder has no
                                        results */
    uint64_t    reserved[4];         /* zero */
} lm_measure_options;

lm_measure_options lm_measure_defaults(void);

/* Return the limits of this machine from the cache folder; else measure them, in about a second, and store
 * them there. Results more than a tenth below the best known ones are measured again, then replaced by them
 * (`below`); stored results never get worse. Results measured while the machine was busy are used for ten
 * minutes. A cache folder that cannot be written is not an error. `o` may be NULL. */
lm_status lm_machine_measure(const lm_measure_options *o, lm_limits *out, lm_error *e);

/* Name and version of the i-th library that lamina uses; NULL past the end. */
const char *lm_machine_library(uint32_t i, const char **version);

#ifdef __cplusplus
}
#endif
#endif

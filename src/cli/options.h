/* options.h - flags that commands share: which model, how to run it, how to sample. */
#ifndef LM_CLI_OPTIONS_H
#define LM_CLI_OPTIONS_H

#include "cli/command.h"

/* ---- which model ---- */
typedef struct lm_model_flags {
    const char      *model;              /* -m; NULL: the first argument, or the demo model */
    int32_t          window;             /* of attention: 0: the model's own; -1: none */
    double           rope_scale;         /* 1 / rope_freq_scale, as a factor; 0: not given */
    const char      *split;              /* splitting.h; NULL: the model is run alone */
    bool             exact_split;
    double           step_timeout;
    uint32_t         rank;
    bool             heads;              /* of a model that is not on this machine the headers will do (from_hub.h) */
    lm_model_options o;
} lm_model_flags;

extern const lm_flag lm_model_flag_table[];

/* Find and open it: -m or `argument`, not both (LM_USAGE), else the demo model, which a line on stderr names. Warnings go to
 * stderr. */
lm_status lm_open_model(lm_cli *cli, lm_model_flags *f, const char *argument, lm_model **out, lm_error *e);

/* Where it lies, without opening it; the path lives as long as the command. */
lm_status lm_find_model(lm_cli *cli, const lm_model_flags *f, const char *argument, const char **path, lm_error *e);

/* Titles are given for the first of `models` in their order: LM_USAGE for more of them. */
lm_status lm_check_names(const lm_flag_list *names, size_t models, lm_error *e);

/* ---- how its cache is kept ---- */
typedef struct lm_cache_flags {
    int both, keys, values;              /* -1: not given; else index into lm_kv_words */
} lm_cache_flags;

#define LM_CACHE_NOT_GIVEN ((lm_cache_flags){ -1, -1, -1 })

extern const lm_flag     lm_cache_flag_table[];
extern const char *const lm_kv_words[];              /* by lm_kv_type */

/* The types of keys and values; `usual` where nothing is given. LM_USAGE when one is given twice, differently. */
lm_status lm_cache_options(const lm_cache_flags *f, lm_kv_type usual, lm_engine_options *out, lm_error *e);

/* "f16", or of keys and of values: "q8_0/q4_0". */
enum { LM_CACHE_WORDS = 24 };
const char *lm_cache_words(const lm_engine_options *o, char out[LM_CACHE_WORDS]);

/* ---- how to run it ---- */
typedef struct lm_run_flags {
    int32_t     context;                 /* -1: not given; 0: the model's */
    uint32_t    batch, ubatch;           /* 2048, 512: the smaller is the most rows in a step */
    uint32_t    threads, threads_batch;
    lm_cache_flags cache;
    int         compute;                 /* lm_compute */
    bool        no_repack;
    const char *cpu;
} lm_run_flags;

extern const lm_flag     lm_run_flag_table[];
extern const char *const lm_compute_words[];         /* by lm_compute */

void lm_run_defaults(lm_run_flags *f);

/* Engine options from the flags. Where no context was asked for it is `least` positions, 8192 at least, and never more
 * than the model's. LM_USAGE when the types of the cache contradict each other. */
lm_status lm_engine_flags(const lm_run_flags *f, const lm_model *m, uint64_t least, lm_engine_options *out, lm_error *e);

/* What is to be said of a context longer than the model's; NULL when it is not. */
enum { LM_CONTEXT_WARNING = 112 };
const char *lm_context_warning(const lm_model *m, uint32_t context, char out[LM_CONTEXT_WARNING]);

/* lm_engine_new with a bar. A context longer than the model's is warned of. */
lm_status lm_start_engine(const lm_model *m, lm_engine_options *o, lm_engine **out, lm_error *e);

/* Keep in RAM what the program has there, and what it reads of its files from now on. Where the system refuses, a warning says so. */
void lm_lock_memory(void);

/* ---- how to sample ---- */
typedef struct lm_sampling_flags {
    lm_sampler_options o;
    lm_flag_list       bias;             /* "ID+BIAS", "ID-BIAS", "ID-inf" */
    lm_flag_list       breakers;         /* "none": none */
    bool               ignore_eos;
} lm_sampling_flags;

extern const lm_flag lm_sampling_flag_table[];

void lm_sampling_defaults(lm_sampling_flags *f);

/* Sampler options from the flags; what they point to lives as long as the command. A seed of UINT64_MAX becomes one that
 * nobody knows before, and is written back. */
lm_status lm_sampling_options(lm_cli *cli, lm_sampling_flags *f, const lm_model *m, lm_sampler_options *out, lm_error *e);

#endif

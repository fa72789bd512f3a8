/* options.h - flags that commands share: model, KV cache, engine. */
#ifndef LM_CLI_OPTIONS_H
#define LM_CLI_OPTIONS_H

#include "cli/base/command.h"

/* ---- model ---- */
typedef struct lm_model_flags {
    const char      *model;              /* -m; NULL: the first argument, or the demo model */
    int32_t          window;             /* attention window; 0: the model's own; -1: none */
    double           rope_scale;         /* 1 / rope_freq_scale; 0: not given */
    const char      *split;              /* splitting.h; NULL: one rank */
    bool             exact_split;
    double           step_timeout;
    uint32_t         rank;
    /* headers are enough if the model is not on this machine (from_hub.h) */
    bool             heads;
    lm_model_options o;
} lm_model_flags;

extern const lm_flag lm_model_flag_table[];

/* Find and open the model: -m or `argument`, not both (LM_USAGE), else the demo model, which a line on stderr
 * names. Warnings go to stderr. */
lm_status lm_open_model(lm_cli *cli, lm_model_flags *f, const char *argument, lm_model **out, lm_error *e);

/* Find the model without opening it. The path is valid as long as the command runs. */
lm_status lm_find_model(lm_cli *cli, const lm_model_flags *f, const char *argument, const char **path,
                        lm_error *e);

/* The same for a command that needs weights or a tokenizer, which presets lack. */
lm_status lm_find_weights(lm_cli *cli, const lm_model_flags *f, const char *argument, const char **path,
                          lm_error *e);

/* Check the titles given by --name, which belong to the models in their order. LM_USAGE: more titles than
 * `models`. */
lm_status lm_check_names(const lm_flag_list *names, size_t models, lm_error *e);

/* ---- KV cache ---- */
typedef struct lm_cache_flags {
    int both, keys, values;              /* -1: not given; else index into lm_kv_words */
} lm_cache_flags;

#define LM_CACHE_NOT_GIVEN ((lm_cache_flags){ -1, -1, -1 })

extern const lm_flag     lm_cache_flag_table[];
extern const char *const lm_kv_words[];              /* indexed by lm_kv_type */

/* Set the types of keys and values; `usual` if no flag is given. LM_USAGE: flags contradict each other. */
lm_status lm_cache_options(const lm_cache_flags *f, lm_kv_type usual, lm_engine_options *out, lm_error *e);

/* Format the types: "f16", or keys and values separately: "q8_0/q4_0". */
enum { LM_CACHE_WORDS = 24 };
const char *lm_cache_words(const lm_engine_options *o, char out[LM_CACHE_WORDS]);

/* ---- engine ---- */
typedef struct lm_run_flags {
    int32_t     context;                 /* -1: not given; -2: auto; 0: the model's */
    uint32_t    batch, ubatch;           /* 2048, 512; the smaller is the maximum number of rows per step */
    uint32_t    threads, threads_batch;
    lm_cache_flags cache;
    int         compute;                 /* lm_compute */
    bool        no_repack;
    const char *cpu;
    uint64_t    checkpoints;             /* of the engine; not a flag */
} lm_run_flags;

extern const lm_flag     lm_run_flag_table[];
extern const char *const lm_compute_words[];         /* indexed by lm_compute */

void lm_run_defaults(lm_run_flags *f);

/* Set engine options from the flags. The default context is `min` positions, but at least 8192 and at most
 * the model's context. LM_USAGE: the types of the cache contradict each other. */
lm_status lm_engine_flags(const lm_run_flags *f, const lm_model *m, uint64_t min, lm_engine_options *out,
                          lm_error *e);

/* Return a warning about a context longer than the model's; NULL if it is not longer. */
enum { LM_CONTEXT_WARNING = 112 };
const char *lm_context_warning(const lm_model *m, uint32_t context, char out[LM_CONTEXT_WARNING]);

/* Call lm_engine_new with a progress bar. Warns about a context longer than the model's. */
lm_status lm_start_engine(const lm_model *m, lm_engine_options *o, lm_engine **out, lm_error *e);

/* Lock the program's memory in RAM: pages that are resident, and mapped pages once they are read. Warns if
 * the system does not allow it. */
void lm_lock_memory(void);

#endif

/* engine.h - running a model: plan, allocate once, then forward passes: "a step" here is one of them, lm_engine_step.
 *
 * One step takes rows (sequence, position, token) of any mix of sequences, some reading a prompt, some generating. The
 * logits of a row are bitwise the same whatever else is in the step, whatever the number of threads and however a prompt
 * is cut into steps. After lm_engine_new nothing is allocated.
 *
 * Threads: engines are independent of each other. Any number of them, in as many threads, may be made from one model and run; the model
 * only has to outlive them. One engine is used by one thread at a time, but for what any thread may call at any moment between
 * lm_engine_new and lm_engine_free: lm_engine_cancel (from a signal handler, too), lm_engine_length and lm_engine_pages (of a step that
 * runs: before it, after it, or pages in between), and what never changes: lm_engine_allocated, _cpu, _threads, _threads_batch,
 * _context and _max_rows. */
#ifndef LAMINA_ENGINE_H
#define LAMINA_ENGINE_H

#include "lamina/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the cache keeps numbers. Those of a q type are blocks of 32 lanes of a head, quantised as GGUF's types of that name are. */
typedef enum lm_kv_type {
    LM_KV_F16, LM_KV_F32, LM_KV_BF16, LM_KV_Q8_0, LM_KV_Q4_0, LM_KV_Q4_1, LM_KV_Q5_0, LM_KV_Q5_1,
} lm_kv_type;

typedef enum lm_compute {
    LM_COMPUTE_AUTO,                 /* the fast paths: activations in int8 (outliers in 15 bits) or bf16 as the weight type allows */
    LM_COMPUTE_F32,                  /* weights widened to float32, activations float32: the reference's arithmetic */
    LM_COMPUTE_FINE,                 /* as AUTO, all activations in 15 bits: half as fast on prompts, indistinguishable from float32 */
} lm_compute;

#define LM_FEW_ROWS 16               /* generation, guesses and small servers read memory; more rows compute */

struct lm_adapter;

typedef struct lm_engine_options {
    uint32_t    context;             /* positions a sequence may have; 0: the model's */
    uint32_t    sequences;           /* at once; 0: 1 */
    uint32_t    rows;                /* most rows in a step; 0: 512 */
    uint32_t    logit_rows;          /* most rows of a step that want logits; 0: max(sequences, 1) */
    uint64_t    kv_positions;        /* positions in the cache, all sequences together; 0: context * sequences */
    uint32_t    rollback;            /* positions that a sequence can be taken back by, in single steps, where windows forget */
    lm_kv_type  kv;                  /* of keys, and of values unless kv_apart */
    lm_compute  compute;
    bool        no_repack;           /* run from the file's own pages, for models larger than memory: slower, the same logits to
                                        the bit. What lies transposed or apart in its file is repacked all the same */
    uint32_t    threads;             /* 0: physical cores */
    uint32_t    threads_batch;       /* in steps of more than LM_FEW_ROWS rows: prompts; 0: threads */
    const char *cpu;                 /* instruction set level; NULL: the best there is */
    const char *const *probes;       /* module paths whose values are kept, NULL-ended; NULL: none */
    bool        hidden;              /* keep the last hidden state of every row, what the head reads: lm_engine_hidden */
    /* Called from lm_engine_new, by its thread, before each weight that is prepared and at the end; fraction in 0…1. false: stop there,
     * LM_CANCELLED, and nothing is left. */
    bool      (*progress)(void *arg, double fraction);
    void       *progress_arg;
    lm_log      log;                 /* used by lm_engine_new */
    lm_kv_type  kv_values;           /* of values, where kv_apart is set; a latent (MLA) has none, and they must be equal */
    bool        kv_apart;
    /* See lamina/adapter.h. NULL-ended; NULL: none. Scales of each, which every sequence has until lm_engine_set_adapters; NULL: 1. */
    const struct lm_adapter *const *adapters;
    const float *adapter_scales;
    uint64_t    reserved[5];         /* zero */
} lm_engine_options;

lm_engine_options lm_engine_defaults(void);

/* What a plan will allocate, in bytes, known before anything is allocated. */
typedef struct lm_memory {
    uint64_t weights;                /* kept in memory of our own (repacked); mapped ones are not counted */
    uint64_t mapped;                 /* used straight from the file */
    uint64_t kv;                     /* cache pages */
    uint64_t scratch;                /* activations, logits, probes, tables */
    uint64_t total;                  /* weights + kv + scratch */
    uint64_t reserved[4];            /* zero */
} lm_memory;

/* Plan only: sizes, without allocating. LM_USAGE for impossible options, LM_UNSUPPORTED for what no kernel can do. */
lm_status lm_engine_predict(const lm_model *m, const lm_engine_options *o, lm_memory *out, lm_error *e);

/* The plan, readably: steps, kernels, buffers, bytes. */
lm_status lm_engine_plan_text(const lm_model *m, const lm_engine_options *o, lm_text *out, lm_error *e);

typedef struct lm_engine lm_engine;

/* `m` must outlive the engine. LM_NO_FIT when memory cannot be had. */
lm_status lm_engine_new(const lm_model *m, const lm_engine_options *o, lm_engine **out, lm_error *e);
void      lm_engine_free(lm_engine *g);

void      lm_engine_allocated(const lm_engine *g, lm_memory *out);       /* counted by the allocator, not by the plan */
const char *lm_engine_cpu(const lm_engine *g);                           /* "avx2" */
uint32_t  lm_engine_threads(const lm_engine *g);
uint32_t  lm_engine_threads_batch(const lm_engine *g);
uint32_t  lm_engine_context(const lm_engine *g);
uint32_t  lm_engine_max_rows(const lm_engine *g);
uint32_t  lm_engine_max_logits(const lm_engine *g);                      /* rows of a step that can want them */
uint32_t  lm_engine_sequences(const lm_engine *g);
const lm_model *lm_engine_model(const lm_engine *g);

/* What the matrix products of a step cost at least: measured speed against these and lm_machine_measure is the share of the
 * machine's limit. Operations: a multiplication and an addition are two. */
typedef struct lm_ops {
    uint64_t int8, bf16, f32;                    /* by arithmetic */
} lm_ops;

typedef struct lm_work {
    lm_ops   row, logits;                        /* of one row; besides, where it wants logits */
    uint64_t weight_bytes;                       /* read by a step of one row with logits */
    uint64_t kv_bytes;                           /* read besides, for each position that all layers see */
    uint64_t reserved[4];            /* zero */
} lm_work;

void lm_engine_work(const lm_engine *g, lm_work *out);

/* How long a forward should take, and of what: seconds of all workers together. */
typedef struct lm_forecast {
    double seconds;
    double products, attention, rows, waiting;   /* rows: norms, residuals, activations, packing; waiting: at the ends of stages */
    bool   unknown;                  /* products are missing: of a type that nothing here can make up, or of too many shapes */
    uint64_t reserved[4];            /* zero */
} lm_forecast;

/* A prompt of `prompt` tokens in each of `sequences`, or with 0 one token more for each, from `depth` positions on. Put together
 * from what every kernel that the plan uses reaches on this machine at this moment, timed on random matrices of its shapes
 * (some 0.1 s for each shape and number of rows): the model itself is not run. Between steps only. */
lm_status lm_engine_forecast(lm_engine *g, uint32_t prompt, uint32_t sequences, uint32_t depth, lm_forecast *out, lm_error *e);

#define LM_PROFILE_KINDS 32

/* One kind of work: "products q4_1", "head q8_0", "experts q4_k", "attention", "packing", "norms" … */
typedef struct lm_profile_kind {
    char     name[32];
    double   seconds;                /* at work, all workers added up */
    bool     product;                /* with a matrix; then: */
    uint64_t ops, bytes;             /* two for a multiplication and an addition; weights read, 0 for experts: whichever were visited */
    uint64_t reserved[2];            /* zero */
} lm_profile_kind;

typedef struct lm_profile {
    uint64_t steps;                  /* of lm_engine_step */
    uint64_t joins;                  /* that workers met in them */
    double   seconds;                /* that they took … */
    double   worker_seconds;         /* … times the workers of each: kinds and waiting add up to this */
    double   waiting;                /* for other workers: at the ends of stages, or while one does what is not worth sharing */
    uint32_t n_kinds;
    lm_profile_kind kinds[LM_PROFILE_KINDS];     /* in the order of the plan */
    uint64_t reserved[4];            /* zero */
} lm_profile;

/* From now on steps are timed, from the start; until lm_engine_profile_stop, which gives the figures. A step allocates nothing
 * meanwhile and gives the same results, about a hundredth slower where it is short. Between steps only. */
lm_status lm_engine_profile_start(lm_engine *g, lm_error *e);
void      lm_engine_profile_stop(lm_engine *g, lm_profile *out);        /* all zero when it was not started */

typedef struct lm_row {
    uint32_t sequence;               /* < options.sequences */
    lm_token token;
    uint32_t position;               /* must be the next one of its sequence */
    bool     logits;
} lm_row;

/* Run n rows. Rows of one sequence are in rising order. On failure nothing has changed: LM_LIMIT when a sequence would
 * pass the context or the cache is full, LM_CANCELLED after lm_engine_cancel, LM_USAGE for a wrong row, LM_IO when the
 * model file shrank. */
lm_status lm_engine_step(lm_engine *g, const lm_row *rows, size_t n, lm_error *e);

/* Whether lm_engine_step would take these rows: its error where it would not. Nothing is run; the logits of the last step are gone. */
lm_status lm_engine_check(lm_engine *g, const lm_row *rows, size_t n, lm_error *e);

/* Logits of row i of the last step, [n_vocab]; NULL when it did not ask for them. Valid until the next step. */
const float *lm_engine_logits(const lm_engine *g, size_t i);

/* The value at a probed module path for row i of the last step; *width floats. NULL when not probed. */
const float *lm_engine_probe(const lm_engine *g, const char *path, size_t i, uint32_t *width);

/* The last hidden state, after the final norm, of row i of the last step: lm_engine_hidden_width floats. NULL when there is none, or the
 * engine was made without `hidden` (its width is 0 then). Valid until the next step. */
const float *lm_engine_hidden(const lm_engine *g, size_t i);
uint32_t     lm_engine_hidden_width(const lm_engine *g);

/* Positions that a sequence holds. */
uint32_t lm_engine_length(const lm_engine *g, uint32_t sequence);

/* Rows of a sequence that the next step can take, all with logits, and get what they get one by one: within the context,
 * `rows` and `logit_rows`, and on one side of where a rotation changes with the length. */
uint32_t  lm_engine_ahead(const lm_engine *g, uint32_t sequence);

/* Forget positions >= keep; their pages go back. LM_LIMIT where a window has forgotten what the next query would see. */
lm_status lm_engine_truncate(lm_engine *g, uint32_t sequence, uint32_t keep, lm_error *e);

/* The same for a text that can be read again: where a window has forgotten, all is. Tells what the sequence holds now, `keep` at most. */
lm_status lm_engine_keep(lm_engine *g, uint32_t sequence, uint32_t keep, uint32_t *kept, lm_error *e);

/* Let `to` (empty) begin with the first `positions` of `from`: pages are shared and copied when written. */
lm_status lm_engine_share(lm_engine *g, uint32_t from, uint32_t to, uint32_t positions, lm_error *e);

/* A sequence on disk: keys and values that it holds and the `n` tokens that they are of (all of them: LM_USAGE when the sequence has
 * another length). The file is whole or as it was before; the same sequence gives the same bytes. It takes what the pages take. */
lm_status lm_engine_save(lm_engine *g, uint32_t sequence, const lm_token *tokens, size_t n, const char *path, lm_error *e);

/* And back into an empty sequence of an engine of any size; the tokens that it holds then are appended. What follows has the
 * same bits as if it had been read here. On failure engine and *tokens are as before; the error names the file.
 *   LM_BAD_MODEL  no saved sequence, or one that is damaged, cut short or longer than it says (a checksum covers every byte)
 *   LM_DIFFERS    of another model (lm_model_fingerprint) or model options, arithmetic, instruction set, type of cache, layout of
 *                 pages, version of lamina, or adapters and scales than the sequence has now: what differs is named
 *   LM_LIMIT      longer than the context, or more pages than are free
 * A file of lm_sequence_save is restored as far as it holds keys and values. Texts of lm_sequence: lm_sequence_save.
 * A window has kept what its next query sees; what lm_engine_options.rollback kept besides is there as far as both engines keep it. */
lm_status lm_engine_restore(lm_engine *g, uint32_t sequence, const char *path, lm_tokens *tokens, lm_error *e);

/* From another thread or a signal handler: the running step ends with LM_CANCELLED at its next layer, or the next one when it has none
 * left. */
void lm_engine_cancel(lm_engine *g);

/* Whether a cancel waits that no step has ended with; it is taken back. By the thread that steps. */
bool lm_engine_cancelled(lm_engine *g);

/* Pages of the cache in use now, and in all. */
void lm_engine_pages(const lm_engine *g, uint64_t *used, uint64_t *total);

#ifdef __cplusplus
}
#endif
#endif

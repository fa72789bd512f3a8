/* engine.h - run a model: plan, allocate once, then forward passes. A step is one forward pass
 * (lm_engine_step).
 *
 * A step takes rows (sequence, position, token) of any mix of sequences, some processing a prompt, some
 * generating. The logits of a row are bit-identical whatever else is in the step, for any number of threads,
 * and however a prompt is split into steps. Nothing is allocated after lm_engine_new.
 *
 * Threads: engines are independent. Any number of engines may share one model, in as many threads; the model
 * must outlive them. An engine is used by one thread at a time, with these exceptions, which any thread may
 * call between lm_engine_new and lm_engine_free: lm_engine_cancel (also in a signal handler),
 * lm_engine_length and lm_engine_pages (during a step they return the value before or after it, or a number
 * of pages in between), and constants: lm_engine_allocated, _cpu, _threads, _threads_batch, _context and
 * _max_rows. */
#ifndef LAMINA_ENGINE_H
#define LAMINA_ENGINE_H

#include "lamina/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Data type of the KV cache. The q types are blocks of 32 lanes of a head, quantised like the GGUF types of
 * the same name. */
typedef enum lm_kv_type {
    LM_KV_F16, LM_KV_F32, LM_KV_BF16, LM_KV_Q8_0, LM_KV_Q4_0, LM_KV_Q4_1, LM_KV_Q5_0, LM_KV_Q5_1,
} lm_kv_type;

typedef enum lm_compute {
    LM_COMPUTE_AUTO,                 /* the fast paths: activations in int8 (outliers in 15 bits) or bf16 as
                                        the weight type allows */
    LM_COMPUTE_F32,                  /* weights widened to float32, activations float32: the reference's
                                        arithmetic */
    LM_COMPUTE_FINE,                 /* as AUTO, all activations in 15 bits: half as fast on prompts,
                                        indistinguishable from float32 */
} lm_compute;

#define LM_FEW_ROWS 16               /* up to this many rows, a step is limited by memory; with more, by
                                        arithmetic */

struct lm_adapter;

typedef struct lm_engine_options {
    uint32_t    context;             /* maximum positions per sequence; 0: the model's context */
    uint32_t    sequences;           /* number of concurrent sequences; 0: 1 */
    uint32_t    max_rows;            /* maximum rows per step; 0: 512 */
    uint32_t    max_logits;          /* maximum rows with logits per step; 0: max(sequences, 1) */
    uint64_t    kv_positions;        /* cache size in positions, shared by all sequences; 0: context *
                                        sequences */
    uint32_t    rollback;            /* with sliding windows: positions by which a sequence can be truncated,
                                        one at a time */
    lm_kv_type  kv;                  /* type of keys, and of values unless kv_apart */
    lm_compute  compute;
    bool        no_repack;           /* run from the mapped file, for models larger than memory: slower,
                                        bit-identical logits. Matrices that are stored transposed or in parts
                                        are repacked anyway */
    uint32_t    threads;             /* 0: physical cores */
    uint32_t    threads_batch;       /* threads for steps of more than LM_FEW_ROWS rows (prompts); 0:
                                        threads */
    const char *cpu;                 /* instruction set level; NULL: the best available */
    const char *const *probes;       /* module paths whose values are stored, NULL-ended; NULL: none */
    bool        hidden;              /* store the last hidden state of every row, the input of the head:
                                        lm_engine_hidden */
    /* Called by lm_engine_new, in its thread, before each weight is prepared and at the end; fraction in 0…1.
     * Return false to cancel: lm_engine_new frees everything and returns LM_CANCELLED. */
    bool      (*progress)(void *arg, double fraction);
    void       *progress_arg;
    lm_log      log;                 /* used by lm_engine_new */
    lm_kv_type  kv_values;           /* type of values if kv_apart; with MLA, which has no values, it must
                                        equal kv */
    bool        kv_apart;
    /* Low-rank adapters (lamina/adapter.h), NULL-ended; NULL: none. Their initial scales, until
     * lm_engine_set_adapters; NULL: 1. */
    const struct lm_adapter *const *adapters;
    const float *adapter_scales;
    uint64_t    checkpoints;         /* with sliding windows or states: number of earlier positions, of all
                                        sequences together, that the cache has additional pages for, so that
                                        later requests of a schedule or a chat can continue from them */
    uint64_t    reserved[4];         /* zero */
} lm_engine_options;

lm_engine_options lm_engine_defaults(void);

/* Bytes that a plan allocates, known before anything is allocated. */
typedef struct lm_memory {
    uint64_t weights;                /* repacked weights in allocated memory; mapped ones are not included */
    uint64_t mapped;                 /* weights used directly from the mapped file */
    uint64_t kv;                     /* cache pages */
    uint64_t scratch;                /* activations, logits, probes, tables */
    uint64_t total;                  /* weights + kv + scratch */
    uint64_t reserved[4];            /* zero */
} lm_memory;

/* Plan without allocating: memory sizes. LM_USAGE: impossible options; LM_UNSUPPORTED: no kernel for an
 * operation or type. */
lm_status lm_engine_predict(const lm_model *m, const lm_engine_options *o, lm_memory *out, lm_error *e);

/* Append the plan as text: operations, kernels, buffers, bytes. */
lm_status lm_engine_plan_text(const lm_model *m, const lm_engine_options *o, lm_text *out, lm_error *e);

typedef struct lm_engine lm_engine;

/* Create an engine. `m` must outlive it. LM_NO_FIT: memory cannot be allocated. */
lm_status lm_engine_new(const lm_model *m, const lm_engine_options *o, lm_engine **out, lm_error *e);
void      lm_engine_free(lm_engine *g);

/* counted by the allocator, not by the plan */
void      lm_engine_allocated(const lm_engine *g, lm_memory *out);
const char *lm_engine_cpu(const lm_engine *g);                           /* "avx2" */
uint32_t  lm_engine_threads(const lm_engine *g);
uint32_t  lm_engine_threads_batch(const lm_engine *g);
uint32_t  lm_engine_context(const lm_engine *g);
uint32_t  lm_engine_max_rows(const lm_engine *g);
/* maximum rows with logits per step */
uint32_t  lm_engine_max_logits(const lm_engine *g);
uint32_t  lm_engine_sequences(const lm_engine *g);
const lm_model *lm_engine_model(const lm_engine *g);

/* Minimum cost of the matrix products of a step. Compared with lm_machine_measure it gives the share of the
 * machine's limit. A multiplication and an addition count as two operations. */
typedef struct lm_ops {
    uint64_t int8, bf16, f32;                    /* by arithmetic */
} lm_ops;

typedef struct lm_work {
    lm_ops   row, logits;                        /* per row; in addition, per row with logits */
    uint64_t weight_bytes;                       /* read by a step with one row and its logits */
    uint64_t kv_bytes;                           /* read in addition, per position in the cache */
    uint64_t reserved[4];            /* zero */
} lm_work;

void lm_engine_work(const lm_engine *g, lm_work *out);

/* Predicted time of a forward pass, and its parts, as the sum over all workers in seconds. */
typedef struct lm_forecast {
    double seconds;
    double products, attention, rows, waiting;   /* rows: norms, residuals, activations, packing; waiting: at
                                                    the ends of stages */
    bool   unknown;                  /* some products could not be timed: unsupported type, or too many
                                        shapes */
    uint64_t reserved[4];            /* zero */
} lm_forecast;

/* Predict the time of a prompt of `prompt` tokens in each of `sequences` (0: of one more token each),
 * starting at position `depth`. The prediction adds up the kernels of the plan, each timed on random matrices
 * of its shapes (about 0.1 s per shape and number of rows); the model is not run. Call between steps. */
lm_status lm_engine_forecast(lm_engine *g, uint32_t prompt, uint32_t sequences, uint32_t depth,
                             lm_forecast *out, lm_error *e);

#define LM_PROFILE_KINDS 32

/* A kind of work: "products q4_1", "head q8_0", "experts q4_k", "attention", "packing", "norms" … */
typedef struct lm_profile_kind {
    char     name[32];
    double   seconds;                /* sum over all workers */
    bool     product;                /* a matrix product; then: */
    uint64_t ops, bytes;             /* operations (multiply-add: 2); weight bytes read, 0 for experts */
    uint64_t reserved[2];            /* zero */
} lm_profile_kind;

typedef struct lm_profile {
    uint64_t steps;                  /* of lm_engine_step */
    uint64_t joins;                  /* synchronisations of the workers */
    double   seconds;                /* elapsed time of the steps */
    double   worker_seconds;         /* elapsed time × workers: the sum of all kinds and `waiting` */
    double   waiting;                /* idle workers: at the end of a stage, or while one worker handles a
                                        small one */
    uint32_t n_kinds;
    lm_profile_kind kinds[LM_PROFILE_KINDS];     /* in the order of the plan */
    uint64_t reserved[4];            /* zero */
} lm_profile;

/* Start timing steps; lm_engine_profile_stop returns the result. Profiled steps allocate nothing and return
 * the same results; short steps are about 1 % slower. Call between steps. */
lm_status lm_engine_profile_start(lm_engine *g, lm_error *e);
void      lm_engine_profile_stop(lm_engine *g, lm_profile *out);        /* all zero if not started */

typedef struct lm_row {
    uint32_t sequence;               /* < options.sequences */
    lm_token token;
    uint32_t position;               /* must be the next one of its sequence */
    bool     logits;
} lm_row;

/* Run n rows. Rows of a sequence are in ascending order of position. On failure nothing has changed.
 * LM_LIMIT: a sequence would exceed the context, or the cache is full; LM_CANCELLED: after lm_engine_cancel;
 * LM_USAGE: an invalid row; LM_IO: the model file was truncated. */
lm_status lm_engine_step(lm_engine *g, const lm_row *rows, size_t n, lm_error *e);

/* Check whether lm_engine_step would accept these rows; returns its error. Runs nothing, but invalidates the
 * last step's logits. */
lm_status lm_engine_check(lm_engine *g, const lm_row *rows, size_t n, lm_error *e);

/* Return the logits of row i of the last step, [n_vocab], valid until the next step; NULL if the row did not
 * request them. */
const float *lm_engine_logits(const lm_engine *g, size_t i);

/* Return the value of a probed module path for row i of the last step, *width floats; NULL if not probed. */
const float *lm_engine_probe(const lm_engine *g, const char *path, size_t i, uint32_t *width);

/* Return the last hidden state, after the final norm, of row i of the last step: lm_engine_hidden_width
 * floats, valid until the next step. NULL if the engine was created without `hidden` (the width is then 0) or
 * there is no such row. */
const float *lm_engine_hidden(const lm_engine *g, size_t i);
uint32_t     lm_engine_hidden_width(const lm_engine *g);

/* Return the number of positions that a sequence holds. */
uint32_t lm_engine_length(const lm_engine *g, uint32_t sequence);

/* Return how many rows with logits of a sequence the next step can take with the results of single steps:
 * limited by the context, `max_rows`, `max_logits`, and positions at which rotary frequencies change with the
 * length. */
uint32_t  lm_engine_ahead(const lm_engine *g, uint32_t sequence);

/* Remove positions >= keep and free their pages. LM_LIMIT: a sliding window has discarded positions that the
 * next query needs, or the states after position `keep` are not stored: those at the end of the last full
 * page are, and those before the last step. */
lm_status lm_engine_truncate(lm_engine *g, uint32_t sequence, uint32_t keep, lm_error *e);

/* As lm_engine_truncate, but if that is not possible, to the last earlier position to which it is. *kept:
 * positions that remain, at most `keep`. */
lm_status lm_engine_keep(lm_engine *g, uint32_t sequence, uint32_t keep, uint32_t *kept, lm_error *e);

/* Start `to` (empty) with the first `positions` of `from`. Pages are shared, and copied on write. */
lm_status lm_engine_share(lm_engine *g, uint32_t from, uint32_t to, uint32_t positions, lm_error *e);

/* Save a sequence: its keys and values and its `n` tokens (LM_USAGE: the sequence has another length). The
 * file is written completely or not changed; the same sequence gives the same bytes. Its size is that of the
 * pages. */
lm_status lm_engine_save(lm_engine *g, uint32_t sequence, const lm_token *tokens, size_t n, const char *path,
                         lm_error *e);

/* Restore a saved sequence into an empty sequence of an engine of any size, and append its tokens to *tokens.
 * It continues bit-identically. On failure the engine and *tokens are unchanged; the error names the file.
 *   LM_BAD_MODEL  not a saved sequence, or damaged or truncated (a checksum covers every byte)
 *   LM_DIFFERS    saved with another model (lm_model_fingerprint), model options, arithmetic, instruction
 *                 set, cache type, page layout, version of lamina, or adapters and scales; the error names
 *                 the difference
 *   LM_LIMIT      longer than the context, or not enough free pages
 * Of a file of lm_sequence_save, the part with keys and values is restored. With sliding windows, positions
 * kept for lm_engine_options.rollback are restored as far as both engines keep them. */
lm_status lm_engine_restore(lm_engine *g, uint32_t sequence, const char *path, lm_tokens *tokens,
                            lm_error *e);

/* Cancel the running step, from another thread or a signal handler: it returns LM_CANCELLED at its next
 * layer; if no layer is left, the next step does. */
void lm_engine_cancel(lm_engine *g);

/* Return whether a cancellation is pending, and clear it. Called by the thread that steps. */
bool lm_engine_cancelled(lm_engine *g);

/* Return the cache pages in use, and their total number. */
void lm_engine_pages(const lm_engine *g, uint64_t *used, uint64_t *total);

#ifdef __cplusplus
}
#endif
#endif

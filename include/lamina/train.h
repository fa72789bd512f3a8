/* train.h - fine-tuning a model: low-rank adapters (LoRA, arXiv 2106.09685) on weights of any stored type, or
 * every weight. */
#ifndef LAMINA_TRAIN_H
#define LAMINA_TRAIN_H

#include "lamina/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Learning rate after the warm-up, relative to `rate`: s of n steps done, w steps of warm-up, floor f =
 * rate_end / rate.
 *   cosine    f + (1 - f) (1 + cos(pi (s - w) / (n - w))) / 2
 *   linear    f + (1 - f) (n - s) / (n - w)
 *   constant  1
 * During the warm-up: (s + 1) / w. */
typedef enum lm_train_schedule { LM_TRAIN_COSINE, LM_TRAIN_LINEAR, LM_TRAIN_CONSTANT } lm_train_schedule;

/* Which tokens of a conversation, or of a prompt and its completion, have a loss. */
typedef enum lm_train_on { LM_TRAIN_ON_ANSWERS, LM_TRAIN_ON_ALL } lm_train_on;

/* What the texts of a text file are: the whole file, cut into rows of `context` tokens; or the parts between
 * blank lines, each with a token that ends it. */
typedef enum lm_train_split { LM_TRAIN_SPLIT_ROWS, LM_TRAIN_SPLIT_BLANK_LINES } lm_train_split;

typedef struct lm_train_step {
    uint32_t step, steps;                /* number of this step, from 1; number of all steps */
    uint32_t epoch;                      /* from 1 */
    double   loss;                       /* mean over the step's trained tokens */
    double   smoothed;                   /* moving average over the steps so far */
    double   valid;                      /* mean over the validation texts if measured at this step; else
                                            NaN */
    double   rate, grad_norm;            /* before it is clipped */
    uint64_t tokens;                     /* processed in this step */
    uint64_t trained;                    /* of these, tokens with a loss */
    double   seconds;                    /* duration */
    bool     saved;                      /* this step was saved to the folder */
    bool     skipped;                    /* the gradient was not finite: weights are unchanged */
    uint64_t reserved[4];                /* zero */
} lm_train_step;

/* All zero: the defaults. A number that is 0 means its default, unless `literal` is set. */
typedef struct lm_train_options {
    bool        full;                    /* train every weight instead of an adapter */
    uint32_t    rank;                    /* of the adapter, up to 1024; 0: 16 */
    double      alpha;                   /* the adapter's scale is alpha / rank, with `rslora` alpha /
                                            sqrt(rank). 0: twice the rank */
    double      dropout;                 /* of the adapter's input, during training */
    bool        rslora;
    const char *const *targets;          /* modules: patterns (PCRE2) that match a path whole or its end after
                                            a dot, as "q_proj" or "layers\\.[0-3]\\..*"; "all", "attention"
                                            and "mlp" for groups */
    size_t      n_targets;               /* 0: all linear layers except the head */
    double      rate, rate_end;          /* maximum and final learning rate. rate 0: 2e-4, full 2e-5. rate_end
                                            0: a tenth of rate; with `literal`, 0 is 0 and a negative number a
                                            tenth of rate */
    lm_train_schedule schedule;
    double      warmup;                  /* steps; below 1: a share of all; 0: 0.03 */
    double      weight_decay, clip;      /* weight_decay 0: none. clip: maximum norm of all gradients; 0: 1;
                                            with `literal`, 0: no clipping */
    double      beta1, beta2, epsilon;   /* of AdamW (arXiv 1711.05101), as PyTorch computes it; 0: 0.9,
                                            0.999, 1e-8 */
    uint32_t    epochs, steps;           /* epochs 0: 1. steps: number of steps, instead of epochs; 0: use
                                            epochs */
    uint32_t    batch, accumulate;       /* rows of `context` tokens per batch; batches per step, 0: 1. batch
                                            0: one row, or all rows of `ids_file` */
    uint32_t    context;                 /* tokens per row: several texts are packed into a row, and attend
                                            only to themselves; 0: 2048, or the model's context if smaller */
    bool        no_packing;              /* one text per row */
    bool        cut;                     /* truncate texts longer than a row; else they are skipped. Both are
                                            counted */
    lm_train_on train_on;
    bool        skip_bad;                /* skip and count invalid lines; else they are errors */
    const char *valid;                   /* file of validation texts; NULL: `valid_share` of the data */
    double      valid_share;             /* 0: 0.05; with `literal`, 0: none */
    uint32_t    valid_every, save_every; /* steps; 0: at the end */
    uint64_t    seed;
    bool        resume;                  /* continue from the folder's last save, bit-identical to an
                                            uninterrupted run */
    bool        dry_run;                 /* report what would be done, without training or writing */
    const char *ids_file;                /* safetensors with `input_ids` and `labels`, I64 [rows, tokens],
                                            -100: no loss; instead of data, in this order */
    const char *gradients;               /* write the gradients of the first step to this safetensors file,
                                            without training */
    uint64_t    memory;                  /* maximum bytes; layers are checkpointed until it fits. 0: the
                                            available memory */
    uint32_t    threads;                 /* 0: physical cores */
    lm_compute  compute;                 /* arithmetic of the frozen weights */
    const char *cpu;                     /* instruction set level; NULL: the best available */
    /* Called after each step, in the thread of lm_train. Return false to save and stop: LM_CANCELLED. */
    bool      (*step)(void *arg, const lm_train_step *s);
    /* Called with progress messages, in the thread of lm_train: the data's format, what is trained, memory.
     * May be NULL. */
    void      (*note)(void *arg, const char *line);
    void       *arg;
    const char *init_from;               /* initial adapter, with the same modules, ranks and scales; NULL: A
                                            random, B zero */
    bool        literal;                 /* numbers that are 0 mean 0. lm_train_defaults sets it */
    lm_train_split split;                /* of a text file */
    uint64_t    reserved[6];             /* zero */
} lm_train_options;

/* Return the defaults as numbers, with `literal` set: a number that is set to 0 afterwards means 0. */
lm_train_options lm_train_defaults(void);

typedef struct lm_train_result {
    uint64_t texts, valid_texts;         /* for training, and held out */
    uint64_t left_out, shortened, bad;   /* texts without a trained token or too long; truncated texts;
                                            invalid lines */
    uint64_t tokens, trained;            /* per epoch */
    uint32_t rows, steps, done;          /* rows per epoch; all steps; steps done, including earlier runs */
    uint64_t modules, numbers;           /* adapted modules; trained parameters */
    uint32_t checkpointed;               /* number of checkpointed layers */
    /* bytes, planned; total without mapped */
    uint64_t memory_base, memory_mapped, memory_state, memory_activations, memory_total;
    uint64_t memory_used;                /* allocated bytes, equal to memory_total; 0 in a dry run */
    double   loss_first, loss_last, valid_first, valid_last, valid_best;     /* NaN: none */
    uint32_t best_step;
    double   seconds;
    uint64_t reserved[4];                /* zero */
} lm_train_result;

/* Train on `data` and write to `folder`. Data: JSON lines, one text each, in the form of the first:
 * {"messages"} (with "tools"), {"prompt", "completion"}, {"text"}, {"instruction", "input", "output"},
 * {"conversations"}; one JSON array of such records; or a plain text file (.txt). Conversations are rendered
 * with the model's chat template. "weight", "train", "training", "loss" and "masked" of a record or an answer
 * say whether it is trained. `m`: opened with lm_model_options.adaptable.
 *
 * Output: a PEFT adapter (adapter_config.json, adapter_model.safetensors) and llama.cpp's (adapter.gguf), or
 * with `full` model.safetensors; best/: the same at the best validation; log.jsonl: one line per step;
 * state/: to resume. Files are replaced atomically.
 *
 * The same data, options and instruction set give bit-identical results, for any number of threads and any
 * interruption.
 *
 *   LM_USAGE      invalid options; targets that match nothing; an `init_from` with other modules, ranks or
 *                 scales; a folder with a run, without `resume`, or in which another process trains; with
 *                 `resume`, a folder without a run, or other data, options or weights, which the error
 *                 names; invalid data, with the line
 *   LM_BAD_MODEL  with `resume`, a state that does not match its checksum
 *   LM_NO_FIT     not enough memory; the error contains the size needed
 *   LM_FAILED     gradients are not finite in three consecutive steps; no training data
 *   LM_CANCELLED  `step` returned false; everything is saved
 *   LM_IO         a file error, a full disk */
lm_status lm_train(const lm_model *m, const char *data, const char *folder, const lm_train_options *o,
                   lm_train_result *result, lm_error *e);

/* The backward program as text, one line per operation in order of execution: inputs, gradients, and weights
 * with gradients. Of `o` (NULL: the defaults) only full, rank and targets are used. The model needs no
 * weights. */
lm_status lm_train_program_text(const lm_model *m, const lm_train_options *o, lm_text *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif

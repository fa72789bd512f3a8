/* train.h - fine-tuning a model: low-rank adapters (LoRA, arXiv 2106.09685) on weights of any stored type, or every weight. */
#ifndef LAMINA_TRAIN_H
#define LAMINA_TRAIN_H

#include "lamina/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the rate goes on after the warm-up: s of n steps done, w of warm-up, floor f = rate_end / rate.
 *   cosine    f + (1 - f) (1 + cos(pi (s - w) / (n - w))) / 2
 *   linear    f + (1 - f) (n - s) / (n - w)
 *   constant  1
 * During the warm-up (s + 1) / w. */
typedef enum lm_train_schedule { LM_TRAIN_COSINE, LM_TRAIN_LINEAR, LM_TRAIN_CONSTANT } lm_train_schedule;

/* What is learnt of a conversation or of a prompt with its completion. */
typedef enum lm_train_on { LM_TRAIN_ON_ANSWERS, LM_TRAIN_ON_ALL } lm_train_on;

typedef struct lm_train_step {
    uint32_t step, steps;                /* this one, counted from 1, of so many */
    uint32_t epoch;                      /* counted from 1 */
    double   loss;                       /* mean over the step's trained tokens */
    double   smoothed;                   /* of the steps so far, the latest counting most */
    double   valid;                      /* mean over the validation texts, where it was measured at this step; else NaN */
    double   rate, grad_norm;            /* before it is clipped */
    uint64_t tokens;                     /* read in this step */
    uint64_t trained;                    /* of them with a loss */
    double   seconds;                    /* that it took */
    bool     saved;                      /* what is in the folder is of this step */
    bool     skipped;                    /* the gradient was not finite: nothing was changed */
    uint64_t reserved[4];                /* zero */
} lm_train_step;

typedef struct lm_train_options {        /* lm_train_defaults() */
    bool        full;                    /* every weight in place of an adapter */
    uint32_t    rank;
    double      alpha;                   /* the adapter's output counts alpha / rank; with `rslora` alpha / sqrt(rank). 0: twice the rank */
    double      dropout;                 /* of what the adapter reads, while training */
    bool        rslora;
    const char *const *targets;          /* modules: patterns (PCRE2) that match a path whole or its end after a dot, as "q_proj" or
                                            "layers\\.[0-3]\\..*"; "all", "attention" and "mlp" for groups */
    size_t      n_targets;               /* 0: all linear layers but the head */
    double      rate, rate_end;          /* at the top and at the end of the schedule; 0: 2e-4, full 2e-5; and a tenth of it */
    lm_train_schedule schedule;
    double      warmup;                  /* steps; below 1: a share of all */
    double      weight_decay, clip;      /* clip: of the norm of all gradients; 0: not */
    double      beta1, beta2, epsilon;   /* of AdamW (arXiv 1711.05101), as PyTorch computes it */
    uint32_t    epochs, steps;           /* steps: exactly so many, in place of epochs; 0: not */
    uint32_t    batch, accumulate;       /* rows of `context` tokens worked on together; how many such make a step. batch 0: one, or
                                            every row of `ids_file` */
    uint32_t    context;                 /* tokens of a row: texts are packed into it, each attending to itself alone; 0: 2048, or less
                                            where the model has less */
    bool        no_packing;              /* a text a row */
    bool        cut;                     /* texts longer than a row lose their end; else they are left out. Both are counted */
    lm_train_on train_on;
    bool        skip_bad;                /* leave out lines that cannot be read, counted; else they are errors */
    const char *valid;                   /* file of validation texts; NULL: `valid_share` of the data */
    double      valid_share;
    uint32_t    valid_every, save_every; /* steps; 0: at the end */
    uint64_t    seed;
    bool        resume;                  /* go on where the folder's last save was, with the same bits as without a stop */
    bool        dry_run;                 /* say what would be done: nothing is trained or written */
    const char *ids_file;                /* safetensors with `input_ids` and `labels`, I64 [rows, tokens], -100 without a loss, in place of
                                            data. Row after row in that order */
    const char *gradients;               /* safetensors to write the first step's gradients to, and train nothing */
    uint64_t    memory;                  /* bytes at most; layers are checkpointed until it fits. 0: what is available */
    uint32_t    threads;                 /* 0: physical cores */
    lm_compute  compute;                 /* of the weights that stay */
    const char *cpu;                     /* instruction set level; NULL: the best there is */
    /* After each step; false: save and stop, LM_CANCELLED. */
    bool      (*step)(void *arg, const lm_train_step *s);
    /* A line about what is done: how data are read, what is trained, memory. May be NULL. */
    void      (*note)(void *arg, const char *line);
    void       *arg;
    const char *init_from;               /* an adapter of the same modules, ranks and scales, whose numbers the first ones are; NULL: A is
                                            drawn, B is zero */
    uint64_t    reserved[7];             /* zero */
} lm_train_options;

lm_train_options lm_train_defaults(void);

typedef struct lm_train_result {
    uint64_t texts, valid_texts;         /* that are trained on, and held out */
    uint64_t left_out, shortened, bad;   /* texts: without a trained token or too long; cut; lines that could not be read */
    uint64_t tokens, trained;            /* of an epoch */
    uint32_t rows, steps, done;          /* of an epoch; in all; done, earlier runs included */
    uint64_t modules, numbers;           /* with an adapter; trained */
    uint32_t checkpointed;               /* layers */
    uint64_t memory_base, memory_mapped, memory_state, memory_activations, memory_total;    /* bytes, planned; total without mapped */
    uint64_t memory_used;                /* allocated, which is memory_total; 0 in a dry run */
    double   loss_first, loss_last, valid_first, valid_last, valid_best;     /* NaN where there is none */
    uint32_t best_step;
    double   seconds;
    uint64_t reserved[4];                /* zero */
} lm_train_result;

/* Train on `data` and write to `folder`. Data: JSON lines, one text each, in the form of the first: {"messages"} (with "tools"),
 * {"prompt", "completion"}, {"text"}, {"instruction", "input", "output"}, {"conversations"}; or a plain text file (.txt), a text between
 * empty lines. Conversations go through the model's chat template. `m`: opened with lm_model_options.adaptable.
 *
 * The folder afterwards: a PEFT adapter (adapter_config.json, adapter_model.safetensors) and llama.cpp's (adapter.gguf), or with `full`
 * model.safetensors; the same of the best validation in best/; log.jsonl, a line a step; state/ to resume from. Every file is whole or as
 * before, whenever the program ends.
 *
 * The same data, options and instruction set give the same bits, for any number of threads and wherever a run was interrupted.
 *
 *   LM_USAGE      impossible options; targets that match nothing; an adapter to begin with that is of other modules, ranks or
 *                 scales; a folder that holds a run and `resume` is not set; a run of other data, options or weights with it: what
 *                 differs is named; data that cannot be read, with the line
 *   LM_NO_FIT     memory: with how much it would fit
 *   LM_FAILED     gradients that are not finite, three steps in a row; nothing to train on
 *   LM_CANCELLED  `step` said so; everything is saved
 *   LM_IO         files, a full disk */
lm_status lm_train(const lm_model *m, const char *data, const char *folder, const lm_train_options *o, lm_train_result *result,
                   lm_error *e);

/* The program backwards, a line for each reverse in the order in which they run: what it reads, which gradients it makes, for which weights
 * it sums. Of `o` (NULL: the defaults) only what is trained counts: full, rank, targets. The model needs no weights. */
lm_status lm_train_program_text(const lm_model *m, const lm_train_options *o, lm_text *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif

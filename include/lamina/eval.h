/* eval.h - measure the quality of a model: perplexity, divergence from another model, multiple-choice
 * questions, long contexts.
 *
 * Results follow the rules of the tools named with each function, and do not depend on threads, steps or
 * batching. */
#ifndef LAMINA_EVAL_H
#define LAMINA_EVAL_H

#include "lamina/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which tokens of a text are scored, and with which context. */
typedef enum lm_eval_rule {
    LM_EVAL_HALVES,                  /* llama-perplexity's: chunks of `context` tokens, each from an empty
                                        cache; the second half of each is scored. An incomplete last chunk is
                                        ignored */
    LM_EVAL_SLIDING,                 /* the Hugging Face guide's: windows of `context` tokens, each `stride`
                                        after the previous one. Every token except the first is scored once,
                                        in the first window that contains it */
} lm_eval_rule;

/* One scored token. */
typedef struct lm_eval_token {
    uint32_t chunk;
    uint64_t position;               /* in the text */
    lm_token id;
    double   logprob;                /* natural logarithm of its probability, given those before it in its
                                        chunk */
    double   base_logprob, kl;       /* lm_eval_kl: of the base; divergence of the model from the base,
                                        nats */
    bool     same_top;               /* both have the same most probable token */
    uint64_t reserved[2];            /* zero */
} lm_eval_token;

typedef struct lm_eval_text_options { /* all zero: the defaults */
    lm_eval_rule rule;
    uint32_t    context;             /* tokens of a chunk; 0: 512 */
    uint32_t    stride;              /* LM_EVAL_SLIDING; 0: half the context */
    uint32_t    chunks;              /* at most; 0: all */
    bool        replace_first;       /* LM_EVAL_HALVES: put `bos` in place of the first token of each chunk */
    lm_token    bos;
    const char *state;               /* file of results so far, which are not computed again; NULL: none */
    const char *save_logits;         /* lm_eval_perplexity by LM_EVAL_HALVES: write a --kl-divergence-base
                                        file; NULL: none */
    /* Called repeatedly, in the calling thread, with the number of processed chunks, of all, and the
     * perplexity so far. Return false to cancel: LM_CANCELLED; the results are in `state`. */
    bool      (*progress)(void *arg, uint32_t done, uint32_t of, double perplexity);
    void       *progress_arg;
    /* Called at the end, in the calling thread, with each scored token in the order of the text; may be
     * NULL. */
    void      (*token)(void *arg, const lm_eval_token *token);
    void       *token_arg;
    uint64_t    reserved[8];         /* zero */
} lm_eval_text_options;

lm_eval_text_options lm_eval_text_defaults(void);

/* Logarithms are natural. Errors are standard errors under the assumption that tokens are independent, as in
 * llama-perplexity. */
typedef struct lm_perplexity {
    double   perplexity, error;      /* exp(nll) */
    double   nll;                    /* mean of -log p */
    uint64_t tokens;                 /* scored */
    uint32_t context, stride, chunks;    /* stride 0: LM_EVAL_HALVES */
    uint64_t reserved[4];            /* zero */
} lm_perplexity;

/* Compute the perplexity of a text of n ids. Uses all sequences of the engine and discards their content;
 * more sequences, and more rows with logits, make it faster. LM_USAGE: fewer than two chunks (LM_EVAL_HALVES)
 * or two tokens (LM_EVAL_SLIDING), a context larger than the engine's, an id outside the vocabulary. One call
 * at a time per engine. */
lm_status lm_eval_perplexity(lm_engine *g, const lm_token *ids, size_t n, const lm_eval_text_options *o,
                             lm_perplexity *out, lm_error *e);

/* Divergence of a model's predictions from those of a base model, over the scored tokens. KL: sum p_base
 * ln(p_base / p), nats. dp: probability of the text's token minus the base's. */
typedef struct lm_kl_figures {
    lm_perplexity model, base;
    double ln_ratio, ln_ratio_error; /* of the perplexities, model / base */
    double correlation;              /* of the two log-probabilities of each token; NaN: undefined */
    double mean_kl, kl_error, max_kl, min_kl;
    /* percentiles, interpolated linearly */
    double kl_999, kl_99, kl_95, kl_90, median_kl, kl_10, kl_05, kl_01, kl_001;
    double mean_dp, dp_error, rms_dp, rms_dp_error, max_dp, min_dp;
    double dp_999, dp_99, dp_95, dp_90, dp_75, median_dp, dp_25, dp_10, dp_05, dp_01, dp_001;
    double same_top, same_top_error; /* share of tokens, 0 ... 1 */
    uint64_t reserved[8];            /* zero */
} lm_kl_figures;

/* Compare the predictions of two models on the same chunks. The base is an engine, or a file written by
 * llama-perplexity --kl-divergence-base or `save_logits`. With a file, text, context and chunks are those of
 * the file, `ids` may be NULL, and KL is computed as in llama-perplexity, over tokens with at least e^-16 of
 * the base's probability. LM_USAGE: both or neither base; different vocabularies. */
lm_status lm_eval_kl(lm_engine *g, lm_engine *base, const char *logits, const lm_token *ids, size_t n,
                     const lm_eval_text_options *o, lm_kl_figures *out, lm_error *e);

/* Return the context and the number of chunks of such a file. LM_BAD_MODEL: another kind of file, or a
 * truncated one. */
lm_status lm_eval_logits_describe(const char *path, uint32_t *context, uint32_t *chunks, uint32_t *n_vocab,
                                  lm_error *e);

/* ---- questions with given answers ---- */

/* A context and its continuation, as lm_eval_pair creates them. */
typedef struct lm_eval_choice {
    const lm_token *context;         /* [n_context], at least one */
    size_t          n_context;
    const lm_token *continuation;    /* [n_continuation], at least one */
    size_t          n_continuation;
    size_t          characters, bytes;   /* of the answer as it is written, for accuracy by length */
    uint64_t        reserved[2];     /* zero */
} lm_eval_choice;

typedef struct lm_eval_item {
    const lm_eval_choice *choices;   /* [n]; those of one context share it in memory or have equal ids */
    uint32_t              n, answer; /* answer < n */
    uint64_t              reserved[2];   /* zero */
} lm_eval_item;

typedef struct lm_eval_item_result {
    const double *logprobs;          /* [n]: sum over the tokens of each continuation */
    const bool   *greedy;            /* [n]: each token of it was the most probable */
    /* The first of the largest: of the sum, and of it by character, byte and token. */
    uint32_t      best, best_normalized, best_bytes, best_tokens;
    uint64_t      reserved[2];       /* zero */
} lm_eval_item_result;

typedef struct lm_eval_choices_options { /* all zero: the defaults */
    const char *state;               /* as of lm_eval_text_options */
    /* in the calling thread; false: LM_CANCELLED */
    bool      (*progress)(void *arg, uint64_t done, uint64_t of);
    void       *progress_arg;
    /* Called at the end, in the calling thread, with each item in order; may be NULL. */
    void      (*item)(void *arg, size_t index, const lm_eval_item *item, const lm_eval_item_result *result);
    void       *item_arg;
    uint64_t    reserved[8];         /* zero */
} lm_eval_choices_options;

lm_eval_choices_options lm_eval_choices_defaults(void);

/* A share of right answers: its standard error is that of a sample's mean (lm-eval's), the interval Wilson's
 * of 95 %. */
typedef struct lm_eval_share {
    double   share, error, low, high;
    uint64_t reserved[2];            /* zero */
} lm_eval_share;

typedef struct lm_choices_figures {
    uint64_t      n;
    lm_eval_share accuracy;          /* by the sum of log-probabilities: lm-eval's acc */
    lm_eval_share normalized;        /* by that divided by the characters of the answer: acc_norm */
    lm_eval_share by_bytes, by_tokens;
    uint64_t      reserved[8];       /* zero */
} lm_choices_figures;

/* Score the answers of n questions. Of a text longer than the engine's context, the end is used. Uses all
 * sequences of the engine: a context is processed once for all its answers, several questions
 * concurrently. */
lm_status lm_eval_choices(lm_engine *g, const lm_eval_item *items, size_t n, const lm_eval_choices_options *o,
                          lm_choices_figures *out, lm_error *e);

/* The format of a question. Each is evaluated as in lm-eval. */
typedef enum lm_eval_form {
    LM_EVAL_FORM_ANY,                /* detected by its members */
    LM_EVAL_FORM_PLAIN,              /* {"context", "choices": [], "answer": i}; "gold" and "label" are
                                        "answer" too. Continuations are a blank and the choice, unless the
                                        context ends or the choice begins with one */
    LM_EVAL_FORM_HELLASWAG,          /* {"activity_label", "ctx_a", "ctx_b", "endings", "label"} */
    LM_EVAL_FORM_WINOGRANDE,         /* {"sentence", "option1", "option2", "answer": "1"}: what follows the
                                        gap, after either */
    LM_EVAL_FORM_ARC,                /* {"question", "choices": {"text", "label"}, "answerKey"} */
    LM_EVAL_FORM_MMLU,               /* {"question", "choices", "answer": i, "subject"}: A, B, C … after the
                                        list */
    LM_EVAL_FORM_COUNT
} lm_eval_form;
const char *lm_eval_form_word(lm_eval_form f);       /* "any" "plain" "hellaswag" "winogrande" "arc" "mmlu" */

#define LM_EVAL_MAX_CHOICES 64

/* A question as text; all strings are its own. */
typedef struct lm_eval_question {
    lm_eval_form form;               /* that it was read as */
    char    *before;                 /* text before the first question of its subject; NULL: none */
    char    *contexts[LM_EVAL_MAX_CHOICES];          /* text before each choice */
    char    *continuations[LM_EVAL_MAX_CHOICES];     /* the text that is scored after it */
    char    *answers[LM_EVAL_MAX_CHOICES];           /* the text whose length normalises the score */
    uint32_t n, answer;
    uint64_t reserved[4];            /* zero */
} lm_eval_question;

/* One JSON object (UTF-8, `size` bytes). LM_USAGE: no question of that form. Freed with
 * lm_eval_question_free. */
lm_status lm_eval_question_read(const char *json, size_t size, lm_eval_form form, lm_eval_question *out,
                                lm_error *e);
void      lm_eval_question_free(lm_eval_question *q);

/* Tokens of a context and of what continues it, as lm-eval makes them: blanks at the end of the context
 * belong to the continuation, and the continuation is what the tokens of both together have more than those
 * of the context. `special`: with what the tokenizer puts before a text. Appended to `out`; *n_context of
 * them are the context's. An empty context is the token that begins texts, or ends them. */
lm_status lm_eval_pair(const lm_model *m, const char *context, const char *continuation, bool special,
                       lm_tokens *out, size_t *n_context, lm_error *e);

/* ---- a needle in a haystack ---- */

/* Needle in a haystack: a number of seven digits is hidden in filler text, and the model is asked for it.
 * Filler and question are those of RULER (arXiv 2404.06654). The number counts as found if the greedy
 * continuation contains it. */
typedef struct lm_needle_options { /* all zero: the defaults */
    const uint32_t *lengths;         /* [n_lengths]: tokens of a text, including question and answer; NULL:
                                        512, 1024, 2048 */
    size_t          n_lengths;
    const double   *depths;          /* [n_depths]: position of the number, 0 … 1; NULL: 0, 0.25, 0.5, 0.75,
                                        1 */
    size_t          n_depths;
    uint32_t        samples;         /* per length and depth; 0: 4 */
    uint32_t        predict;         /* tokens to generate; 0: 32 */
    const char     *filler;          /* sentences to hide it among; NULL: RULER's noise */
    uint64_t        seed;            /* of the numbers */
    const char     *state;           /* as of lm_eval_text_options */
    /* in the calling thread; false: LM_CANCELLED */
    bool          (*progress)(void *arg, uint64_t done, uint64_t of);
    void           *progress_arg;
    uint64_t        reserved[8];     /* zero */
} lm_needle_options;

lm_needle_options lm_needle_defaults(void);

/* found[i × n_depths + k]: of `samples`, for length i and depth k. LM_USAGE: a length too short for a
 * sentence and the question, or longer than the context; the model has no tokenizer. */
lm_status lm_eval_needle(lm_engine *g, const lm_needle_options *o, uint32_t *found, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif

/* sequence.h - one running generation: its prompt, its sampler, its stop conditions and its draft tokens.
 *
 * A sequence never steps the engine. It adds rows to a batch that any number of sequences share; the caller
 * runs the batch, notifies the sequences and reads their events.
 *
 *   lm_batch b = { .rows = rows, .max_rows = lm_engine_max_rows(g), .max_logits = lm_engine_max_logits(g) };
 *   for (i …)  lm_sequence_rows(s[i], &b);          rows of a prompt, or the last token and its draft tokens
 *   lm_engine_step(g, b.rows, b.n, &e);
 *   for (i …)  for (lm_sequence_ran(s[i]); lm_sequence_event(s[i], &event);)  …        text, tokens, the end
 *
 * lm_sequences_step does the first two lines and handles a full cache; lm_generate (lamina/generate.h) is the
 * loop for a single sequence.
 *
 * Chosen tokens, text and log-probabilities are bit-identical to those of the same sequence alone, whatever
 * else is in its steps, with or without draft tokens, and however its prompt is split. (Exception: models
 * whose rotary frequencies depend on the length of the forward pass. A prompt that extends beyond the length
 * at which they change must be split in the same places.)
 *
 * Threads: lm_sequence_cancel may be called at any time from any thread. Reading events does not touch the
 * engine: between a step and the next rows, different threads may read the events of different sequences, if
 * each has its own sampler. Everything else must be called by the thread that steps.
 *
 * Memory is allocated by lm_sequence_new and lm_sequence_prompt (ids for the whole sequence, draft tokens,
 * copies of options). After that only the text that is held back grows, at most to the longest token plus the
 * longest stop string. */
#ifndef LAMINA_SEQUENCE_H
#define LAMINA_SEQUENCE_H

#include "lamina/engine.h"
#include "lamina/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lm_stop {
    LM_STOP_NONE,                    /* still running */
    LM_STOP_EOS,                     /* an end-of-text token */
    LM_STOP_LENGTH,                  /* max_tokens */
    LM_STOP_STRING,                  /* one of stops or stop_ids */
    LM_STOP_CONTEXT,                 /* the context or the cache is full */
    LM_STOP_CANCELLED,
    LM_STOP_FAILED,                  /* an error of this sequence */
} lm_stop;
const char *lm_stop_word(lm_stop s); /* "none" "eos" "length" "stop" "context" "cancelled" "failed" */

/* All zero: the defaults. Strings and ids are copied. */
typedef struct lm_sequence_options {
    uint32_t sequence;               /* the engine's sequence that holds its keys and values; exclusive until
                                        lm_sequence_free */
    uint64_t draw;                   /* index among completions with one seed: each draws its own random
                                        numbers */
    int64_t  max_tokens;             /* <= 0: no limit */
    bool     prompt_only;            /* process the prompt, generate nothing: LM_STOP_LENGTH */
    const char *const *stops;        /* strings, NULL-ended; NULL: none. The text ends before the first match;
                                        an empty string never matches */
    const lm_token *stop_ids;
    size_t   n_stop_ids;
    bool     ignore_eos;
    bool     no_text;                /* ids only: no text events, and `stops` has no effect */
    bool     special;                /* special tokens are part of the text, including the one that ends it */
    bool     sampled;                /* log-probabilities are those of the distribution the token was drawn
                                        from, after penalties, truncation and temperature; truncated tokens
                                        have id -1. false: the model's own */
    int32_t  logprobs;               /* number of top tokens reported per token; 0: none; -1: only the
                                        log-probability of the chosen one */

    /* Speculative decoding. Draft tokens are processed in one step with the token before them, which takes
     * little longer than that token alone, and accepted as far as they equal what is chosen anyway. Their
     * number adapts to the acceptance rate and the time of steps, and is limited by the rows with logits that
     * a step has. */
    uint32_t draft_ngram;            /* draft the tokens that followed the last occurrence of the final
                                        n-gram, n from this down to 2; 0: off */
    uint32_t draft_max;              /* maximum draft tokens per step, up to 64; 0: 16 */
    bool     draft_always;           /* always draft the maximum, even if it costs time */
    lm_engine *draft_engine;         /* smaller model that drafts when the n-gram finds nothing
                                        (lm_draft_fits), in its sequence `draft_sequence`; NULL: none. If it
                                        fails or its context is full, the sequence continues without it:
                                        lm_sequence_info. */
    uint32_t draft_sequence;

    /* Called before the sampler; may change the logits: grammars, biases, guidance. `logits` is a copy,
     * [n_vocab]; `ids` are all n tokens so far, including the prompt. Called once per chosen token, in order,
     * from lm_sequence_event; never for a rejected draft token. Reported log-probabilities stay the model's
     * own. A failure ends this sequence with that error. Not called without a sampler. */
    lm_status (*logits)(void *arg, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n,
                        lm_error *e);
    void      *logits_arg;
    const lm_token *shown;           /* special tokens that are part of the text even without `special` */
    size_t     n_shown;
    void     (*logits_release)(void *logits_arg);    /* called exactly once, when `logits` will not be called
                                                        again: by lm_sequence_free, or
                                        by lm_sequence_new if it fails. NULL: nothing to release */

    /* Called for each processed prompt row, once, in order, from lm_sequence_event: `logits` [n_vocab], the
     * model's prediction after token `position` (NULL unless `prompt_logits`); `hidden`
     * [lm_engine_hidden_width], NULL if the engine does not keep it. Reused rows are not processed. A failure
     * ends this sequence with that error. */
    lm_status (*row)(void *arg, size_t position, const float *logits, const float *hidden, lm_error *e);
    void      *row_arg;
    void     (*row_release)(void *row_arg);      /* as logits_release */
    bool       prompt_logits;        /* compute logits for every prompt row; limits prompt rows per step to
                                        lm_engine_max_logits */
    uint64_t reserved[1];            /* zero */
} lm_sequence_options;

lm_sequence_options lm_sequence_defaults(void);

typedef struct lm_sequence lm_sequence;

/* Create a sequence. `sampler` is used by this sequence only, until it is freed; NULL: the caller chooses
 * tokens (LM_EVENT_CHOICE). The content of the engine's sequence is kept. LM_USAGE: the sampler has another
 * vocabulary, the engine has no such sequence, more log-probabilities than tokens, or a draft model without a
 * sampler. */
lm_status lm_sequence_new(lm_engine *g, lm_sampler *sampler, const lm_sequence_options *o, lm_sequence **out,
                          lm_error *e);

/* Free the sequence. The engine's keeps what was processed, without rejected draft tokens. */
void      lm_sequence_free(lm_sequence *s);

/* Start with a prompt of n tokens. The engine already holds keys and values of the first `reuse` tokens (from
 * an earlier sequence, lm_engine_share …); if a sliding window has discarded what they need, they are
 * processed again. Resets the sampler and gives it the prompt. May be called for a running sequence: events
 * not yet read are dropped. On failure the sequence is unchanged. LM_LIMIT: longer than the context;
 * LM_USAGE: no tokens, a token outside the vocabulary, or more reuse than the engine holds. */
lm_status lm_sequence_prompt(lm_sequence *s, const lm_token *ids, size_t n, size_t reuse, lm_error *e);

/* Append more prompt after an ended generation; max_tokens counts from zero again. */
lm_status lm_sequence_append(lm_sequence *s, const lm_token *ids, size_t n, lm_error *e);

/* Save the sequence between steps: its tokens, and its keys and values in the engine (lm_engine_save
 * describes how the file is written). Tokens not yet processed are saved too: the rest of a prompt, the last
 * chosen token. The sequence itself is unchanged. LM_USAGE: no prompt, unread events, or a failed
 * sequence. */
lm_status lm_sequence_save(lm_sequence *s, const char *path, lm_error *e);

/* Restore a saved sequence into one without a prompt, or one that has ended and whose events were all read;
 * the engine's sequence must be empty (lm_engine_truncate). It continues bit-identically: tokens, held-back
 * text, log-probabilities. This requires the same options, sampler and `draw`, which are not in the file
 * (what a sampler learns from the tokens is). Delivered text is not delivered again. A sequence that had
 * ended is ended: lm_sequence_append. A file of lm_engine_save is restored as a processed prompt. Errors: as
 * lm_engine_restore; then the sequence is unchanged, and the engine's is empty. */
lm_status lm_sequence_restore(lm_sequence *s, const char *path, lm_error *e);

/* ---- steps ---- */

/* The rows of a step, while it is assembled. */
typedef struct lm_batch {
    lm_row  *rows;                   /* [max_rows] */
    uint32_t n, max_rows;            /* at most lm_engine_max_rows */
    uint32_t n_logits, max_logits;   /* rows with logits, at most lm_engine_max_logits */
    uint32_t n_prompt, max_prompt;   /* prompt rows, limited to bound the step's time; max_prompt 0:
                                        unlimited */
    bool     no_draft;
    uint64_t reserved[4];            /* zero */
} lm_batch;

/* Add the next rows of this sequence, as far as there is room. Returns their number; 0 if it has ended or
 * waits for the caller. Calling it again without lm_sequence_ran means that the rows did not run. Steps the
 * draft engine. All events must have been read (otherwise the sequence ends with LM_USAGE). */
uint32_t lm_sequence_rows(lm_sequence *s, lm_batch *b);

/* Notify the sequence that the batch with its rows has run: the logits of the engine's last step belong to
 * it. No effect if it had no rows in the batch. */
void lm_sequence_ran(lm_sequence *s);

/* Run one step with rows of as many of the `n` sequences of `g` as fit: generating sequences first, then
 * prompts, each in the given order. `b` holds the limits; `b->n` is 0 afterwards if no sequence had rows, or
 * one has ended for lack of cache. If the cache is too small for all, draft tokens are left out first, then
 * sequences wait; if no sequence fits, the first of them ends with LM_STOP_CONTEXT, or, in its prompt, with
 * the error LM_LIMIT. Other errors of lm_engine_step are returned, and every sequence is unchanged. */
lm_status lm_sequences_step(lm_engine *g, lm_sequence *const *sequences, size_t n, lm_batch *b, lm_error *e);

/* ---- events ---- */

typedef enum lm_event_kind {
    LM_EVENT_PROMPT,                 /* `done` of `total` prompt tokens are processed */
    LM_EVENT_CHOICE,                 /* no sampler: call lm_sequence_choose; `logits` [n_vocab] are valid
                                        until the next step */
    LM_EVENT_TOKEN,                  /* `id` was chosen */
    LM_EVENT_TEXT,                   /* new text, whole characters: `text` [size], valid until the next
                                        call */
    LM_EVENT_END,                    /* `stop`; with LM_STOP_FAILED, `error`. Delivered once */
} lm_event_kind;

typedef struct lm_event {
    lm_event_kind     kind;
    size_t            done, total;
    lm_token          id;            /* with LM_EVENT_END: index of the stop string that matched; -1: none */
    float             logprob;       /* natural logarithm, the model's own or `sampled`; 0 if not requested */
    const lm_logprob *top;           /* [n_top], best first, valid until the next call */
    uint32_t          n_top;
    const float      *logits;
    const char       *text;
    size_t            size;
    lm_stop           stop;
    const lm_error   *error;         /* valid until lm_sequence_free */
    uint64_t          reserved[4];   /* zero */
} lm_event;

/* Return the next event, in order; false: none until the next rows have run or the caller has chosen. The
 * sampler runs here. */
bool lm_sequence_event(lm_sequence *s, lm_event *out);

/* Answer LM_EVENT_CHOICE. LM_USAGE: no choice is pending, or `id` is outside the vocabulary. */
lm_status lm_sequence_choose(lm_sequence *s, lm_token id, lm_error *e);

/* End with LM_STOP_CANCELLED before the next token or rows. Callable from any thread or a signal handler.
 * Other sequences are not affected; a running step finishes (lm_engine_cancel aborts it for all its
 * sequences, which continue with the next step). */
void lm_sequence_cancel(lm_sequence *s);

/* End now; with LM_STOP_FAILED, `error` is copied. No effect if it has already ended. */
void lm_sequence_end(lm_sequence *s, lm_stop why, const lm_error *error);

/* ---- state ---- */

typedef struct lm_sequence_info {
    lm_stop  stop;                   /* LM_STOP_NONE: running */
    size_t   n_prompt, n_read, n_reused;     /* prompt tokens; of which processed, including reused ones; of
                                                which reused */
    size_t   n_tokens;               /* chosen since the prompt, including the one that ended it */
    size_t   n_held;                 /* how many of its first ids have keys and values in the engine */
    size_t   n_drafted, n_accepted;  /* draft tokens; of which accepted. They depend on the machine's speed,
                                        the text does not */
    const lm_error *draft_error;     /* why the draft engine is no longer used; NULL: it is */
    uint64_t reserved[4];            /* zero */
} lm_sequence_info;

void lm_sequence_describe(const lm_sequence *s, lm_sequence_info *out);

/* Return the prompt and chosen tokens; valid until the next prompt. */
const lm_token *lm_sequence_ids(const lm_sequence *s, size_t *n);

/* Check that a draft model has the same tokens as m: ids that both have are spelled the same, and one may
 * have at most 128 more (padding). LM_USAGE otherwise. */
lm_status lm_draft_fits(const lm_model *draft, const lm_model *m, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif

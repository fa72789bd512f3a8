/* sequence.h - one text, read and written: an object that is asked for its next rows.
 *
 * A sequence knows its tokens, its sampler, what stops it and what guesses for it. It never steps the engine: it puts rows into a
 * batch, beside those of any number of others; the caller runs the batch, tells the sequences so and reads their events.
 *
 *   lm_batch b = { .rows = rows, .most = lm_engine_max_rows(g), .most_logits = lm_engine_max_logits(g) };
 *   for (i …)  lm_sequence_rows(s[i], &b);                          rows of a prompt, or the last token and guesses after it
 *   lm_engine_step(g, b.rows, b.n, &e);
 *   for (i …)  for (lm_sequence_ran(s[i]); lm_sequence_event(s[i], &event);)  …        text, tokens, the end
 *
 * lm_sequences_step does the first two lines, and what has to be done when the cache is full; lm_generate (lamina/generate.h) is
 * the loop for a single text.
 *
 * What a sequence chooses, its text and its log-probabilities are bitwise those of the same sequence alone: whatever else is in its
 * steps, whatever guesses for it, however its prompt is cut. (But for models whose rotary frequencies depend on the length of the
 * forward: a prompt that reaches past where they change has to be cut in the same places.)
 *
 * Threads: lm_sequence_cancel at any time from anywhere. Reading events touches no engine: between a step and the next rows, events
 * of different sequences (with samplers of their own) may be read by different threads. All else by the thread that steps.
 *
 * Memory is taken by lm_sequence_new and lm_sequence_prompt (ids for the whole text to come, guesses, copies of options). After
 * that only the text that is held back grows, at most to the longest token plus the longest stop string. */
#ifndef LAMINA_SEQUENCE_H
#define LAMINA_SEQUENCE_H

#include "lamina/engine.h"
#include "lamina/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lm_stop {
    LM_STOP_NONE,                    /* it goes on */
    LM_STOP_EOS,                     /* a token that ends a text */
    LM_STOP_LENGTH,                  /* max_tokens */
    LM_STOP_STRING,                  /* one of stops or stop_ids */
    LM_STOP_CONTEXT,                 /* the context or the cache is full */
    LM_STOP_CANCELLED,
    LM_STOP_FAILED,                  /* an error of this sequence */
} lm_stop;
const char *lm_stop_word(lm_stop s); /* "none" "eos" "length" "stop" "context" "cancelled" "failed" */

/* All zero: the defaults. Strings and ids are copied. */
typedef struct lm_sequence_options {
    uint32_t slot;                   /* sequence of the engine that holds its keys and values, its own as long as it lives */
    uint64_t draw;                   /* which of several texts with one seed: each draws for itself. Draws do not depend on the slot */
    int64_t  max_tokens;             /* <= 0: until something else stops it */
    bool     prompt_only;            /* read the prompt, choose nothing: LM_STOP_LENGTH */
    const char *const *stops;        /* strings, NULL-ended; NULL: none. The text ends before the first match. */
    const lm_token *stop_ids;
    size_t   n_stop_ids;
    bool     ignore_eos;
    bool     no_text;                /* ids only: no text events, and stops are not looked for */
    bool     special;                /* special tokens are part of the text, the ending one included */
    bool     sampled;                /* log-probabilities are those that the token was drawn with, after penalties, cuts and temperature;
                                        tokens that were cut away are not among the best (id -1). false: the model's own */
    int32_t  logprobs;               /* best tokens told with each that is chosen, and its own log-probability; 0: neither, -1: its own */

    /* Guesses of what comes next are read in one step with the token before them, which takes little longer than that token
     * alone, and kept as far as they are what is chosen anyway. How many are made follows from how often they were right and how
     * long steps took; as many as a step has room for logits at most. */
    uint32_t draft_ngram;            /* guess what followed when the last tokens (this many at most, 2 at least) stood in the text
                                        before; 0: no */
    uint32_t draft_max;              /* most guesses in a step, up to 64; 0: 16 */
    bool     draft_always;           /* that many whenever there are so many, also where they cost time */
    lm_engine *draft_engine;         /* where that finds none: a smaller model guesses (lm_draft_fits), in a sequence of its engine
                                        that holds what an earlier text left there; NULL: none. When it fails or its context ends
                                        the text goes on without: lm_sequence_info. */
    uint32_t draft_slot;

    /* Sees the logits before the sampler does, and may change them: grammars, biases, guidance. `logits` is a copy, [n_vocab];
     * `ids` are the n tokens of the text so far, prompt and all. Called once for each token that is chosen, in their order, from
     * lm_sequence_event; never for a guess that is not kept, so guesses do not change what it sees. Log-probabilities stay the
     * model's own. A failure ends this sequence with that error. Without a sampler it is not called. */
    lm_status (*logits)(void *arg, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n, lm_error *e);
    void      *logits_arg;
    const lm_token *shown;           /* without `special`: those special tokens that are part of the text all the same */
    size_t     n_shown;
    void     (*logits_release)(void *logits_arg);    /* called once, when `logits` will not be called again: by lm_sequence_free, or by
                                        lm_sequence_new where it fails. NULL: nothing is to be released */

    /* Sees each row of the prompt that is read, once, in order, from lm_sequence_event: `logits` [n_vocab], the model's own, of what comes
     * behind token `position` (NULL unless `prompt_logits`); `hidden` [lm_engine_hidden_width], NULL where the engine keeps none. Rows that
     * the slot held already are not read. A failure ends this sequence with that error. */
    lm_status (*row)(void *arg, size_t position, const float *logits, const float *hidden, lm_error *e);
    void      *row_arg;
    void     (*row_release)(void *row_arg);      /* as logits_release */
    bool       prompt_logits;        /* every row of the prompt has logits: as many in a step as the engine has rows with logits for */
    uint64_t reserved[1];            /* zero */
} lm_sequence_options;

lm_sequence_options lm_sequence_defaults(void);

typedef struct lm_sequence lm_sequence;

/* `sampler` is used by this sequence alone as long as it lives; NULL: the caller chooses (LM_EVENT_CHOICE). LM_USAGE: a sampler of
 * another vocabulary, a slot that the engine does not have, more log-probabilities than tokens, a guessing model without a
 * sampler. What the slot holds stays. */
lm_status lm_sequence_new(lm_engine *g, lm_sampler *sampler, const lm_sequence_options *o, lm_sequence **out, lm_error *e);

/* The slot keeps what was read, guesses that were wrong taken back. */
void      lm_sequence_free(lm_sequence *s);

/* Begin: the whole text to continue, of whose first `reuse` tokens the slot holds keys and values, as the caller knows (from an
 * earlier text, lm_engine_share …). Where a window has forgotten what they need they are read again. The sampler is reset and told
 * the prompt. Also for a sequence that is in use: what it has not told is dropped. LM_LIMIT: more than the context holds;
 * LM_USAGE: no token, one outside the vocabulary, more reuse than the slot holds. On failure it is as before. */
lm_status lm_sequence_prompt(lm_sequence *s, const lm_token *ids, size_t n, size_t reuse, lm_error *e);

/* More prompt after all that was read and written, once that has ended; max_tokens counts anew. */
lm_status lm_sequence_append(lm_sequence *s, const lm_token *ids, size_t n, lm_error *e);

/* The text to a file, as it is between steps, with the keys and values that the slot holds of it (lm_engine_save, which tells how
 * the file is written). Tokens that are not read yet are saved too: the rest of a prompt, the one chosen last. The sequence goes on as
 * if it had not been saved. LM_USAGE: no text, events that were not read, a text that has failed. */
lm_status lm_sequence_save(lm_sequence *s, const char *path, lm_error *e);

/* And back into a sequence without a text, or whose text has ended and was told to the end; the slot has to be empty
 * (lm_engine_truncate). It is then where the saved one was, and what is asked of it next has the same bits: tokens, text that was
 * held back, log-probabilities. For that its options, sampler and `draw` are those of the saved one; they are not in the file (what a
 * sampler learns from the text is). Text that was told is not told again. A text that had ended has ended, and was told to have:
 * lm_sequence_append. A file of lm_engine_save is a prompt that has been read.
 * Errors are those of lm_engine_restore; the sequence is as before then, and the slot empty. */
lm_status lm_sequence_restore(lm_sequence *s, const char *path, lm_error *e);

/* ---- steps ---- */

/* The rows of a step, being put together. */
typedef struct lm_batch {
    lm_row  *rows;                   /* [most] */
    uint32_t n, most;                /* at most lm_engine_max_rows */
    uint32_t n_logits, most_logits;  /* rows with logits, at most lm_engine_max_logits */
    uint32_t n_prompt, most_prompt;  /* rows of prompts; 0: as many as there is room for. So nobody waits long for a prompt. */
    bool     no_guesses;
    uint64_t reserved[4];            /* zero */
} lm_batch;

/* Add the rows that it would have read next, as far as there is room; returns how many. None when it has ended, or waits for the
 * caller. To be asked again without lm_sequence_ran says that they did not run. A guessing engine steps in here. All events must
 * have been read (else it ends, LM_USAGE). */
uint32_t lm_sequence_rows(lm_sequence *s, lm_batch *b);

/* The batch has run, as it was put together: the logits of the engine's last step are for this sequence too. Without rows in
 * it: nothing. */
void lm_sequence_ran(lm_sequence *s);

/* One step with rows of as many of `n` sequences of `g` as there is room for: first of those that write, then of prompts, each in the
 * order given. `b` says how much room there is; `n` 0 in it afterwards: nobody wanted any, or
 * one has ended for want of room. Where the cache has no room for
 * all, guesses are left out, then those wait that there is none for; when there is none for anybody the first of them ends, with
 * LM_STOP_CONTEXT, or in its prompt with an error LM_LIMIT. All else that lm_engine_step returns is returned, and every sequence is
 * as before. */
lm_status lm_sequences_step(lm_engine *g, lm_sequence *const *sequences, size_t n, lm_batch *b, lm_error *e);

/* ---- events ---- */

typedef enum lm_event_kind {
    LM_EVENT_PROMPT,                 /* `done` of `total` prompt tokens are read */
    LM_EVENT_CHOICE,                 /* without a sampler: lm_sequence_choose is waited for; `logits` [n_vocab] until the next step */
    LM_EVENT_TOKEN,                  /* `id` was chosen */
    LM_EVENT_TEXT,                   /* new text: whole characters, `text` [size], until the next call */
    LM_EVENT_END,                    /* `stop`; with LM_STOP_FAILED `error`. Told once */
} lm_event_kind;

typedef struct lm_event {
    lm_event_kind     kind;
    size_t            done, total;
    lm_token          id;            /* with LM_EVENT_END: which of the stop strings ended it; -1: none */
    float             logprob;       /* natural log, the model's own or `sampled`; 0 where none is asked for */
    const lm_logprob *top;           /* [n_top], best first, until the next call */
    uint32_t          n_top;
    const float      *logits;
    const char       *text;
    size_t            size;
    lm_stop           stop;
    const lm_error   *error;         /* as long as the sequence */
    uint64_t          reserved[4];   /* zero */
} lm_event;

/* The next event, in the order of the text; false: there is none before its next rows have run, or its caller has chosen.
 * A token is chosen here, when its event is asked for. */
bool lm_sequence_event(lm_sequence *s, lm_event *out);

/* The answer to LM_EVENT_CHOICE: LM_USAGE when nothing is to be chosen, or `id` is outside the vocabulary. */
lm_status lm_sequence_choose(lm_sequence *s, lm_token id, lm_error *e);

/* End with LM_STOP_CANCELLED before its next token or rows. From any thread, or a signal handler. Others are not touched; a step
 * that is running ends as always (lm_engine_cancel ends it too, for all in it: they go on with the next). */
void lm_sequence_cancel(lm_sequence *s);

/* End now. `why` LM_STOP_FAILED: with `error`. Nothing where it has ended already. */
void lm_sequence_end(lm_sequence *s, lm_stop why, const lm_error *error);

/* ---- looking ---- */

typedef struct lm_sequence_info {
    lm_stop  stop;                   /* LM_STOP_NONE: it goes on */
    size_t   n_prompt, n_read, n_reused;     /* tokens of the prompt; read so far, those in the slot before included; of which were */
    size_t   n_tokens;               /* chosen since the prompt, the ending one included */
    size_t   n_held;                 /* of all its ids, those whose keys and values the slot holds: the first ones */
    size_t   n_drafted, n_accepted;  /* guesses made; of which were right. They depend on the machine's speed, the text does not */
    const lm_error *draft_error;     /* why the guessing engine was given up; NULL: it was not */
    uint64_t reserved[4];            /* zero */
} lm_sequence_info;

void lm_sequence_describe(const lm_sequence *s, lm_sequence_info *out);

/* Prompt and chosen tokens; valid until the next prompt. */
const lm_token *lm_sequence_ids(const lm_sequence *s, size_t *n);

/* LM_USAGE when two models do not share their tokens: each token that both have is spelled the same, and where one has more
 * (padding) they are 128 at most. */
lm_status lm_draft_fits(const lm_model *draft, const lm_model *m, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif

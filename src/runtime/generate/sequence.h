/* sequence.h - what the parts of a sequence share: tokens (sequence.c), rows (sequence_rows.c), events
 * (sequence_events.c). Interface and threads: lamina/sequence.h. */
#ifndef LM_RUNTIME_SEQUENCE_H
#define LM_RUNTIME_SEQUENCE_H

#include <stdatomic.h>

#include "lamina/sequence.h"
#include "runtime/generate/draft.h"
#include "runtime/generate/emit.h"

struct lm_sequence {
    lm_engine          *g;
    const lm_model     *m;
    lm_sampler         *sampler;         /* NULL: the caller chooses */
    lm_sequence_options o;               /* what it points to is a copy */
    uint32_t            n_vocab;
    const char         *source;          /* the model's path */

    lm_token           *ids;             /* [capacity]: prompt and generated tokens */
    size_t              n, capacity;
    size_t              n_prompt;        /* number of prompt tokens among them */
    size_t              n_reads;         /* number to process before sampling: the prompt; after a preemption
                                            all but the last */
    size_t              at;              /* number held by the slot; after these it may hold draft tokens */
    size_t              n_reused, n_read;

    /* its rows in a batch, then in a step */
    bool                away;            /* it has no slot */
    bool                small;           /* it has not allocated all its memory: lm_sequence_open will */
    bool                planned;         /* its draft tokens are proposed */
    bool                alone;           /* rows were requested without a draft: the draft model does not
                                            process them */
    uint32_t            first, n_rows;   /* in the batch */
    uint32_t            n_again;         /* of these, rows without logits: tokens processed again */
    uint32_t            next, n_logits;  /* row whose logits the next token is sampled from; end of the rows
                                            with logits */
    uint32_t            accepted;        /* accepted draft tokens */
    bool                verified;        /* the last step verified a draft: its timing is to be counted */
    uint32_t            shown, n_shown;      /* prompt rows of the step that the hook has not seen: the first,
                                                their number */
    size_t              seen;            /* prompt rows that it has seen */
    double              draft_begin, draft_end, ran; /* clock: drafting began, drafting ended, the step
                                                        ended */
    lm_draft            draft;
    size_t              n_drafted, n_accepted;

    /* the last token, and its events */
    lm_emit             text;
    /* ended: LM_EVENT_END was delivered */
    bool                prompt_due, choice_due, token_due, ended;
    bool                answered;        /* LM_EVENT_CHOICE was answered, with `answer` */
    lm_token            answer;
    float               logprob;
    lm_logprob         *top;             /* [o.logprobs] */
    float              *logits;          /* [n_vocab], for o.logits */
    lm_stop             stop;
    lm_error            error;
    atomic_bool         cancelled;
};

/* Return whether its next rows are prompt tokens, or tokens that are recomputed. */
static inline bool lm_sequence_reads(const lm_sequence *s)
{
    return s->at < s->n_reads;
}

/* Return whether the logits of its last rows await a choice. */
static inline bool lm_sequence_chooses(const lm_sequence *s)
{
    return s->stop == LM_STOP_NONE && s->next < s->n_logits;
}

/* Release the arguments of the hooks on logits and rows, once: the hooks will not be called again. */
void lm_sequence_release_hooks(lm_sequence_options *o);

/* Remove rejected draft tokens from the slot, and count the draft. Call it between steps. */
void lm_sequence_commit(lm_sequence *s);

/* Set its stop reason if it has reached its end: a cancel, max_tokens, the context. */
void lm_sequence_update_stop(lm_sequence *s);

/* Allocate memory for `n` tokens and all that may be chosen after them; the last of those is never
 * processed. */
lm_status lm_sequence_reserve(lm_sequence *s, size_t n, lm_error *e);

/* Start its text anew, empty. */
lm_status lm_sequence_open_text(lm_sequence *s, lm_error *e);

/* Begin with the present tokens, of which the first `n_prompt` are the prompt; nothing has been delivered. */
void lm_sequence_begin(lm_sequence *s, size_t n_prompt);

/* ---- a sequence that gets its slot after its prompt and may be preempted: for schedulers ---- */

/* Create a sequence that will wait: like lm_sequence_new, but it allocates no memory that grows with the
 * vocabulary or the context. Its sampler may be only prepared (lm_sampler_prepare). Then call
 * lm_sequence_prepare once, lm_sequence_open, lm_sequence_place; or lm_sequence_free. */
lm_status lm_sequence_new_small(lm_engine *g, lm_sampler *sampler, const lm_sequence_options *o,
                                lm_sequence **out, lm_error *e);

/* Allocate the rest of its and its sampler's memory; no effect if it is allocated. LM_NO_MEMORY: the sequence
 * can only be ended. */
lm_status lm_sequence_open(lm_sequence *s, lm_error *e);

/* Do all of lm_sequence_prompt that does not touch the engine, on any thread, if its sampler is not used by
 * another sequence. Errors: as lm_sequence_prompt. */
lm_status lm_sequence_prepare(lm_sequence *s, const lm_token *ids, size_t n, lm_error *e);

/* Assign `slot`, which holds the first `held` tokens of the sequence, fewer than it has, and nothing else.
 * Call it after lm_sequence_prepare or lm_sequence_detach. Never fails, never allocates. The next tokens are
 * the same as without having left. */
void lm_sequence_place(lm_sequence *s, uint32_t slot, size_t held);

/* Remove rejected draft tokens from the slot and leave it: the sequence no longer owns what the slot holds.
 * All events must have been read. Call it between steps; then lm_sequence_place, or lm_sequence_free, by any
 * thread. */
void lm_sequence_detach(lm_sequence *s);

#endif

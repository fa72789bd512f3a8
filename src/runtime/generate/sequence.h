/* sequence.h - what the parts of a sequence have in common: its tokens (sequence.c), its rows (sequence_rows.c), its events
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
    lm_sequence_options o;               /* what it points to is copied */
    uint32_t            n_vocab;
    const char         *source;          /* the model's path */

    lm_token           *ids;             /* [capacity]: prompt and generated tokens */
    size_t              n, capacity;
    size_t              n_prompt;        /* of them were given */
    size_t              n_reads;         /* of them to be processed before the next is sampled: the prompt, or all after a preemption */
    size_t              at;              /* of them held by the slot; past these it may hold draft tokens */
    size_t              n_reused, n_read;

    /* its rows in a batch, then in a step */
    bool                away;            /* it has no slot */
    bool                small;           /* it has not taken all its memory: lm_sequence_open will */
    bool                planned;         /* its draft is made */
    bool                alone;           /* rows were requested without a draft: the draft model does not process them */
    uint32_t            first, n_rows;   /* in the batch */
    uint32_t            next, n_logits;  /* rows with logits: the next token is sampled from; where they end */
    uint32_t            accepted;        /* accepted draft tokens */
    bool                verified;        /* the draft of the last step is verified: its timing is to be counted */
    uint32_t            shown, n_shown;      /* of the prompt's rows in the step, those that the hook has not seen: where they begin */
    size_t              seen;            /* rows of the prompt that it has */
    double              draft_begin, draft_end, ran; /* clock: drafting began, ended; the step ended */
    lm_draft            draft;
    size_t              n_drafted, n_accepted;

    /* the last token, and its events */
    lm_emit             text;
    bool                prompt_due, choice_due, token_due, ended;        /* ended: LM_EVENT_END was delivered */
    bool                answered;        /* LM_EVENT_CHOICE was, with `answer` */
    lm_token            answer;
    float               logprob;
    lm_logprob         *top;             /* [o.logprobs] */
    float              *logits;          /* [n_vocab], for o.logits */
    lm_stop             stop;
    lm_error            error;
    atomic_bool         cancelled;
};

/* Whether rows of its prompt come next, or of tokens that are recomputed. */
static inline bool lm_sequence_reads(const lm_sequence *s)
{
    return s->at < s->n_reads;
}

/* Whether the logits of its last rows wait for a choice. */
static inline bool lm_sequence_chooses(const lm_sequence *s)
{
    return s->stop == LM_STOP_NONE && s->next < s->n_logits;
}

/* The hooks on logits and rows will not be called again: their arguments are released, once. */
void lm_sequence_release_hooks(lm_sequence_options *o);

/* Remove rejected draft tokens from the slot, and count the draft. Between steps. */
void lm_sequence_settle(lm_sequence *s);

/* See whether it has come to its end: a cancel, max_tokens, the context. */
void lm_sequence_look(lm_sequence *s);

/* Room for `n` tokens and all that may be chosen after them: the last of those is never read. */
lm_status lm_sequence_reserve(lm_sequence *s, size_t n, lm_error *e);

/* What it shows is empty and begins here. */
lm_status lm_sequence_open_text(lm_sequence *s, lm_error *e);

/* Begin with the present tokens, of which the first `n_prompt` are the prompt; nothing has been delivered. */
void lm_sequence_begin(lm_sequence *s, size_t n_prompt);

/* ---- a sequence that gets its slot after its prompt and may be preempted: for schedulers ---- */

/* lm_sequence_new for one that will wait: takes no memory that grows with the vocabulary or the context. Its sampler may be one that is
 * only prepared, lm_sampler_prepare. lm_sequence_prepare once, lm_sequence_open, lm_sequence_place; or lm_sequence_free. */
lm_status lm_sequence_new_small(lm_engine *g, lm_sampler *sampler, const lm_sequence_options *o, lm_sequence **out, lm_error *e);

/* Take the rest of its and its sampler's memory; nothing where it has been taken. LM_NO_MEMORY: it can only be ended. */
lm_status lm_sequence_open(lm_sequence *s, lm_error *e);

/* All of lm_sequence_prompt that touches no engine: any thread, if its sampler is used by no other. Errors are its. */
lm_status lm_sequence_prepare(lm_sequence *s, const lm_token *ids, size_t n, lm_error *e);

/* Its slot is `slot`, which holds the first `held` tokens of the sequence, fewer than it has, and nothing else. After
 * lm_sequence_prepare or lm_sequence_leave; never fails, never allocates. The next tokens are the same as without having left. */
void lm_sequence_place(lm_sequence *s, uint32_t slot, size_t held);

/* Remove rejected draft tokens from the slot and leave it: the sequence no longer owns what the slot holds. All events must have been
 * read. Between steps. Then lm_sequence_place, or lm_sequence_free, by any thread. */
void lm_sequence_leave(lm_sequence *s);

#endif

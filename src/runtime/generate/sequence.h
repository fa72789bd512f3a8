/* sequence.h - what the parts of a sequence share: its text (sequence.c), its rows (sequence_rows.c), its events (sequence_events.c).
 * What it is and who may call what: lamina/sequence.h. */
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

    lm_token           *ids;             /* [capacity]: the text */
    size_t              n, capacity;
    size_t              n_prompt;        /* of them to be read before anything is chosen */
    size_t              at;              /* of them held by the slot; past these it may hold guesses */
    size_t              n_reused, n_read;

    /* its rows in a batch, then in a step */
    bool                planned;         /* guesses for them were made */
    uint32_t            first, n_rows;   /* in the batch */
    uint32_t            next, n_logits;  /* rows with logits: what is chosen next is chosen by; where they end */
    uint32_t            right;           /* guesses that were */
    bool                judging;         /* whether guesses paid is known now */
    double              asked, guessed, ran;     /* seconds: guesses asked for, made, read */
    lm_draft            draft;
    size_t              n_drafted, n_accepted;

    /* what was chosen, and is to be told */
    lm_emit             text;
    bool                prompt_due, choice_due, token_due, ended;        /* ended: LM_EVENT_END was told */
    bool                answered;        /* LM_EVENT_CHOICE was, with `answer` */
    lm_token            answer;
    float               logprob;
    lm_logprob         *top;             /* [o.logprobs] */
    float              *logits;          /* [n_vocab], for o.logits */
    lm_stop             stop;
    lm_error            error;
    atomic_bool         cancelled;
};

/* Whether rows of its prompt come next. */
static inline bool lm_sequence_reads(const lm_sequence *s)
{
    return s->at < s->n_prompt;
}

/* Whether the logits of its last rows wait for a choice. */
static inline bool lm_sequence_chooses(const lm_sequence *s)
{
    return s->stop == LM_STOP_NONE && s->next < s->n_logits;
}

/* Wrong guesses out of the slot, and what guessing has brought. Between steps. */
void lm_sequence_settle(lm_sequence *s);

/* See whether it has come to its end: a cancel, max_tokens, the context. */
void lm_sequence_look(lm_sequence *s);

/* Room for `n` tokens and all that may be chosen after them: the last of those is never read. */
lm_status lm_sequence_reserve(lm_sequence *s, size_t n, lm_error *e);

/* What it shows is empty and begins here. */
lm_status lm_sequence_open_text(lm_sequence *s, lm_error *e);

/* The text is what it is now, of which the first `n_prompt` tokens were given; nothing has been told. */
void lm_sequence_begin(lm_sequence *s, size_t n_prompt);

#endif

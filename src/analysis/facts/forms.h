/* forms.h - what a program computes, written out by following its values: nothing that runs is left out, nothing is added. */
#ifndef LM_ANALYSIS_FORMS_H
#define LM_ANALYSIS_FORMS_H

#include "analysis/facts/ledger.h"
#include "base/str.h"

/* How things are called: "Norm", "Attn" … Each in the notation of the whole: plain text or LaTeX. */
typedef struct lm_form_words {
    const char *token, *position, *sine;     /* the row of a token, of a learned position, of a computed one */
    const char *norm, *attention, *mlp;      /* functions: what they are of follows in brackets */
    const char *first_norm;                  /* of what is before the layers */
    const char *nth_norm;                    /* of several in a layer, by their order: "N%s" with `digits`; NULL: all are `norm` */
    const char *const *digits;               /* "₁" … from 0 on, ten of them */
    const char *tied, *head;                 /* the matrix of the logits: the embedding's, or one of its own */
    const char *final;                       /* what that is multiplied with: the stream behind the last norm */
    const char *bias, *times, *tanh;
    const char *within;                      /* LaTeX: between words of a module's name; NULL: it is written as it is */
} lm_form_words;

extern const lm_form_words lm_plain_words;   /* as the facts have them: "x + Attn(Norm(x))" */

/* A value of the layer, or of what is before the first: `stream` is called `name`. Appended. */
void lm_put_form(const lm_ledger *l, const lm_form_words *w, lm_value v, lm_value stream, const char *name, lm_text *out);

/* The logits. Appended. */
void lm_put_head_form(const lm_ledger *l, const lm_form_words *w, lm_text *out);

/* What goes on as the stream in a layer: what enters, what follows attention, what leaves. `n`: how many, 2 where both are added
 * at once or side by side to what entered. */
enum { LM_MOST_STREAMS = 4 };
uint32_t lm_streams_of(const lm_ledger *l, uint32_t layer, lm_value out[LM_MOST_STREAMS]);

/* What an attention is given, key 1 as query 0 and value 2, or what it makes (3): "RoPE(W_Q x + b_Q)". False, and nothing appended,
 * where it is made of more than one value. */
bool lm_put_projection(const lm_ledger *l, const lm_node *attention, uint32_t which, lm_text *out);

#endif

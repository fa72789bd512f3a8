/* forms.h - formulas of what a program computes, written by following its values: no executed operation is
 * omitted, none is added. */
#ifndef LM_ANALYSIS_FORMS_H
#define LM_ANALYSIS_FORMS_H

#include "study/facts/ledger.h"
#include "base/str.h"

/* The names used in formulas: "Norm", "Attn" and so on, in plain text or LaTeX. */
typedef struct lm_form_words {
    const char *token, *position, *sine;     /* the row of a token, of a learned position, of a computed
                                                position */
    const char *norm, *attention, *state, *mlp;      /* functions; the argument follows in parentheses */
    const char *inputs;                      /* the same of what a layer takes from a table of its own */
    const char *first_norm;                  /* a norm before the layers */
    const char *nth_norm;                    /* one of several norms in a layer, by order: "N%s" with
                                                `digits`; NULL: all are `norm` */
    const char *const *digits;               /* "₁" …, ten of them starting at 0 */
    const char *tied, *head;                 /* the matrix of the logits: the embedding's or its own */
    const char *final;                       /* the value that the matrix is multiplied with: the stream after
                                                the last norm */
    const char *bias, *times, *tanh, *sum;
    const char *from;                        /* a factor that is 1 from this stream on, else 0 */
    const char *last;                        /* the stream after the last layer */
    const char *factor;                      /* trained, of a layer: "lambda" */
    const char *within;                      /* LaTeX for the underscore in a module's name; NULL: the name is
                                                written unchanged */
} lm_form_words;

extern const lm_form_words lm_plain_words;   /* the notation of the facts: "x + Attn(Norm(x))" */

/* Append a value of a layer, or of what precedes the first one, as a formula; the n values `known` are
 * written as their names. */
void lm_put_form(const lm_ledger *l, const lm_form_words *w, lm_value v, const lm_value *known,
                 const char *const *names, uint32_t n, lm_text *out);

/* Append the formula of the logits. */
void lm_put_head_form(const lm_ledger *l, const lm_form_words *w, lm_text *out);

/* Find the stages of the residual stream in a layer: its input, the sum after attention, its output. Returns
 * their number: 2 if both parts are added at once or run in parallel on the input; LM_MAX_STREAMS with
 * several streams: their input, what is predicted, the sums after attention and the MLP, what is corrected,
 * the output. */
enum { LM_MAX_STREAMS = 6 };
uint32_t lm_streams_of(const lm_ledger *l, uint32_t layer, lm_value out[LM_MAX_STREAMS]);

/* Append the formula of a residual of low rank, and return true; false: there is none. */
bool lm_put_low_rank(const lm_ledger *l, lm_text *out);

/* Append how coefficients of streams are made, for their prediction (0) or correction (1), and return true;
 * false: there are none. */
bool lm_put_coefficients(const lm_ledger *l, uint32_t which, lm_text *out);

/* Append the formula of an attention's query (0), key (1), value (2) or output (3): "RoPE(W_Q x + b_Q)".
 * Returns false, and appends nothing, if it is made from more than one value. */
bool lm_put_projection(const lm_ledger *l, const lm_node *attention, uint32_t which, lm_text *out);

#endif

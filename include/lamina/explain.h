/* explain.h - components explained with a model's own numbers: what each is, its arithmetic step by step, a diagram, why it
 * is done, who uses it.
 *
 * Every number is a fact (lamina/facts.h) or follows from facts by a formula that is shown; where the program counts the same
 * quantity both are compared, and a step says so. Judgements are marked as qualitative. */
#ifndef LAMINA_EXPLAIN_H
#define LAMINA_EXPLAIN_H

#include "lamina/facts.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lm_form {
    LM_FORM_TEXT,                    /* for a terminal */
    LM_FORM_MARKDOWN,                /* as GitHub renders it: LaTeX, Mermaid */
    LM_FORM_JSON,
    LM_FORM_HTML,                    /* one file that needs no other; of reports only */
    LM_FORM_SVG,                     /* a drawing that stands alone; only of lm_diagram */
    LM_FORM_PANDOC,                  /* Markdown as pandoc reads it; of reports only */
    LM_FORM_TEX,                     /* a LaTeX document that stands alone; of reports only */
} lm_form;

typedef struct lm_explain_options {
    lm_form            form;
    uint32_t           columns;      /* of the terminal; 0: 80 */
    bool               lines;        /* box drawing: a terminal reads it */
    bool               words;        /* `pieces` are words, for there is no tokenizer: pages say so */
    const char        *example;      /* the model is only an example: why it was chosen; NULL: the reader asked for it */
    const char *const *pieces;       /* tokens of a prompt as they are spelled, for diagrams of the cache; NULL: a general one */
    size_t             n_pieces;
    uint32_t           layer;        /* that diagrams of one layer show */
    lm_language        language;     /* but JSON's names */
    const char        *text;         /* that the topic tokenizer takes apart; NULL: a word that shows merges */
    uint64_t           reserved[3];  /* zero */
} lm_explain_options;

lm_explain_options lm_explain_defaults(void);

/* The topics and what each is about, NULL past the end. */
const char *lm_topic_at(size_t i, const char **summary);

/* Other names for topics ("ffn", "layernorm", "yarn"), and the topic that each leads to; where a model decides between several
 * ("position": learned, sinusoidal, rope, alibi) the first of them. NULL past the end. Wherever a topic is asked for, these do. */
const char *lm_topic_alias_at(size_t i, const char **topic);

/* A preset that a topic is best shown with: it uses what is explained. NULL for an unknown topic. */
const char *lm_topic_example(const char *topic);

/* LM_USAGE for an unknown topic, whatever else is given, names those that are near; LM_FAILED when a formula of ours does not fit
 * the model's facts. */
lm_status lm_explain(lm_facts *f, const char *topic, const lm_explain_options *o, lm_text *out, lm_error *e);

/* ---- diagrams, drawn from the program ---- */

/* Their names and what each shows, NULL past the end. */
const char *lm_diagram_at(size_t i, const char **summary);

/* Mermaid source (LM_FORM_MARKDOWN, without the fence), characters (LM_FORM_TEXT) or a picture (LM_FORM_SVG). LM_USAGE for an
 * unknown name or a layer that is not there, LM_NOT_FOUND when the model has no such part. Options may be NULL. */
lm_status lm_diagram(lm_facts *f, const char *name, const lm_explain_options *o, lm_text *out, lm_error *e);

/* ---- a forward pass with its numbers ---- */

/* Run n tokens (1 to 512) in float32 and show what each operation makes: formula, shape and the first values of the last token, in full
 * before and after the layers and in one of them (`layer`, from 0), of the others what they hand on, and the five likeliest next tokens.
 * The values are those of lm_engine_probe under the same paths. LM_USAGE without weights, for tokens or a layer that are not there, and for
 * forms but text, Markdown and JSON. English in every language. */
lm_status lm_explain_forward(const lm_model *m, const lm_token *ids, size_t n, uint32_t layer, lm_form form, lm_text *out, lm_error *e);

/* The same of a preset, which has no weights: a model of its form, small enough to show every matrix and every value whole, with random
 * weights (always the same). The words of `text` between blanks are its tokens, at most 8; NULL: "The cat sat".
 * LM_USAGE for a model that is no preset, LM_UNSUPPORTED for a form that cannot be made so small. Writes to a temporary folder, which is
 * gone when it returns. English in every language. */
bool lm_explain_needs_toy(const lm_model *m);                      /* it is a preset */
lm_status lm_explain_toy(const lm_model *preset, const char *text, lm_form form, lm_text *out, lm_error *e);

/* ---- the model as a text that runs ---- */

typedef enum lm_listing_language {
    LM_LISTING_PYTORCH,              /* Python with torch and safetensors */
    LM_LISTING_NUMPY,                /* Python with numpy alone */
    LM_LISTING_C,                    /* C11 with nothing but the C library and opendir */
} lm_listing_language;

/* The model's forward pass, made from its program: one line for each operation with the shape of its result, one function for each
 * kind of layer, weights by their names in the checkpoint. It loads a folder of safetensors files and computes the logits that lamina
 * computes. LM_UNSUPPORTED names what has no such form. English in every language. */
lm_status lm_listing_write(lm_facts *f, lm_listing_language in, lm_text *out, lm_error *e);

/* The part of the model that a topic is about ("rope", "gqa", "moe" …, or another name of it), with its helpers: it runs on the weights of
 * a checkpoint, and without one on random weights of the model's shapes. LM_USAGE for an unknown topic and for one that is no operation
 * ("flops"), LM_UNSUPPORTED for one that the model does not have. */
lm_status lm_listing_topic(lm_facts *f, const char *topic, lm_listing_language in, lm_text *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif

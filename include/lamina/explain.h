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
    const char        *example;      /* the model is only an example: why it was chosen; NULL: the reader asked for it */
    const char *const *pieces;       /* tokens of a prompt as they are spelled, for diagrams of the cache; NULL: a general one */
    size_t             n_pieces;
    uint32_t           layer;        /* that diagrams of one layer show */
    lm_language        language;     /* but JSON's names */
    uint64_t           reserved[4];  /* zero */
} lm_explain_options;

lm_explain_options lm_explain_defaults(void);

/* The topics and what each is about, NULL past the end. */
const char *lm_topic_at(size_t i, const char **summary);

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

/* ---- the model as a text that runs ---- */

typedef enum lm_listing_language {
    LM_LISTING_PYTORCH,              /* Python with torch and safetensors */
    LM_LISTING_NUMPY,                /* Python with numpy alone */
} lm_listing_language;

/* The model's forward pass, made from its program: one line for each operation with the shape of its result, one function for each
 * kind of layer, weights by their names in the checkpoint. It loads a folder of safetensors files and computes the logits that lamina
 * computes. LM_UNSUPPORTED names what has no such form. English in every language. */
lm_status lm_listing_write(lm_facts *f, lm_listing_language in, lm_text *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif

/* study/explain.h - explanations of a model's components with its own numbers: definition, arithmetic step by
 * step, diagram, purpose, and models that use it.
 *
 * Every number is a fact (lamina/study/facts.h), or computed from facts by a formula that is shown. If the
 * program counts the same quantity, both are compared, and the step shows the result. Judgements are marked
 * as qualitative. */
#ifndef LAMINA_EXPLAIN_H
#define LAMINA_EXPLAIN_H

#include "lamina/study/facts.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lm_form {
    LM_FORM_TEXT,                    /* for a terminal */
    LM_FORM_MARKDOWN,                /* for GitHub: LaTeX, Mermaid */
    LM_FORM_JSON,
    LM_FORM_HTML,                    /* a self-contained file; reports only */
    LM_FORM_SVG,                     /* a standalone drawing; lm_diagram only */
    LM_FORM_PANDOC,                  /* Markdown for pandoc; reports only */
} lm_form;

typedef struct lm_explain_options {
    lm_form            form;
    uint32_t           columns;      /* of the terminal; 0: 80 */
    bool               lines;        /* use box-drawing characters, for a terminal */
    bool               words;        /* `pieces` are words because there is no tokenizer; pages mention it */
    const char        *example;      /* why this example model was chosen; NULL: the user chose the model */
    const char *const *pieces;       /* spelled tokens of a prompt for diagrams of the cache; NULL: a general
                                        diagram */
    size_t             n_pieces;
    uint32_t           layer;        /* layer shown by diagrams of one layer and in full by a forward pass */
    lm_language        language;     /* of everything except names in JSON */
    const char        *text;         /* for "tokenizer" (NULL: a word that shows merges) and lm_explain_toy
                                        (NULL: "The cat sat") */
    uint64_t           reserved[3];  /* zero */
} lm_explain_options;

lm_explain_options lm_explain_defaults(void);

/* The i-th topic and its summary; NULL past the end. */
const char *lm_topic_at(size_t i, const char **summary);

/* The i-th alias ("ffn", "layernorm", "yarn") and its topic; if the topic depends on the model ("position":
 * learned, sinusoidal, rope, alibi), the first of them. NULL past the end. Every function with a topic
 * accepts aliases. */
const char *lm_topic_alias_at(size_t i, const char **topic);

/* A preset that is a good example of a topic. NULL for an unknown topic. */
const char *lm_topic_example(const char *topic);

/* Explain a topic. LM_USAGE: an unknown topic; the error suggests similar ones. LM_FAILED: a formula does not
 * match the model's facts. */
lm_status lm_explain(lm_facts *f, const char *topic, const lm_explain_options *o, lm_text *out, lm_error *e);

/* ---- diagrams, drawn from the program ---- */

/* The i-th diagram and its summary; NULL past the end. */
const char *lm_diagram_at(size_t i, const char **summary);

/* Mermaid source (LM_FORM_MARKDOWN, without the fence), characters (LM_FORM_TEXT) or a picture (LM_FORM_SVG).
 * LM_USAGE: an unknown name or layer. LM_NOT_FOUND: the model has no such part. Options may be NULL. */
lm_status lm_diagram(lm_facts *f, const char *name, const lm_explain_options *o, lm_text *out, lm_error *e);

/* ---- a forward pass with its numbers ---- */

/* Run n tokens (1 to 512) in float32 and show the result of each operation: formula, shape and the first
 * values of the last token. All operations are shown outside the layers and in one layer (`layer` of the
 * options), for other layers only their outputs; then the five most probable next tokens. Values equal those
 * of lm_engine_probe with the same paths. LM_USAGE: no weights, a token or layer that does not exist, or a
 * form other than text, Markdown and JSON. Options may be NULL. */
lm_status lm_explain_forward(const lm_model *m, const lm_token *ids, size_t n, const lm_explain_options *o,
                             lm_text *out, lm_error *e);

/* The same for a preset, which has no weights: a tiny model of its architecture, small enough to show every
 * matrix and value completely, with fixed random weights. The words of the options' text are its tokens, at
 * most 8. LM_USAGE: the model is not a preset. LM_UNSUPPORTED: the architecture cannot be made so small. Uses
 * a temporary folder, which it removes. Options may be NULL. */
bool lm_explain_needs_toy(const lm_model *m);                      /* whether the model is a preset */
lm_status lm_explain_toy(const lm_model *preset, const lm_explain_options *o, lm_text *out, lm_error *e);

/* ---- the model as source code ---- */

typedef enum lm_listing_language {
    LM_LISTING_PYTORCH,              /* Python with torch and safetensors */
    LM_LISTING_NUMPY,                /* Python with numpy only */
} lm_listing_language;

/* Write the model's forward pass as source code, from its program: one line per operation with the shape of
 * its result, one function per kind of layer, weights by their names in the checkpoint. The code loads a
 * folder of safetensors files and computes the same logits as lamina. LM_UNSUPPORTED names an operation
 * without such a form. English in every language. */
lm_status lm_listing_write(lm_facts *f, lm_listing_language in, lm_text *out, lm_error *e);

/* Write the part of the model that belongs to a topic ("rope", "gqa", "moe" …, or an alias), with its
 * helpers. The code runs on the weights of a checkpoint, or on random weights of the model's shapes.
 * LM_USAGE: an unknown topic, or one without an operation ("flops"). LM_UNSUPPORTED: the model does not have
 * it. */
lm_status lm_listing_topic(lm_facts *f, const char *topic, lm_listing_language in, lm_text *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif

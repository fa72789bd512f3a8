/* report.h - the whole account of one model or of several, in one document: what it is, every layer, every count, what it
 * takes and how it works, with a table of contents.
 *
 * Every figure is a fact (lamina/facts.h) or follows from facts by a formula that is shown. */
#ifndef LAMINA_REPORT_H
#define LAMINA_REPORT_H

#include "lamina/explain.h"
#include "lamina/language.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_report_options {
    lm_form            form;
    lm_language        language;
    uint32_t           columns;      /* of LM_FORM_TEXT; 0: 80 */
    bool               lines;        /* LM_FORM_TEXT: rules and bars in box-drawing characters */
    const char *const *pieces;       /* tokens of a text, for the diagram of the cache; NULL: a general one */
    size_t             n_pieces;
    uint64_t           reserved[4];  /* zero */
} lm_report_options;

lm_report_options lm_report_defaults(void);

/* 1 to 16 models; of several first what they have in common and what differs, then each. The facts may be looked into
 * afterwards, too. LM_USAGE for a form that there is not. */
lm_status lm_report_write(lm_facts *const *models, size_t n, const lm_report_options *o, lm_text *out, lm_error *e);

/* What a model takes at other settings, as JSON: "contexts", "batches", "kv" (types of the cache) and "precisions" (of the weights) are
 * the settings there are, "now" says which are its own: an index into each. In bytes, by precision p, type k, batch b and context c:
 * weights[p] + mapped[p], cache[k * batches + b][c], and values[p][b] + threads[p][k] + bookkeeping[b][c] of scratch, exactly as a plan
 * at those settings takes them; perToken[k] of a position more; flops[c] of a token and prefill[c] of a prompt. Where the machine's
 * limits are known, pairs of tokens/s and an index into "limits": prompt[p][2 * k], generation[(p * kv + k) * batches + b][2 * c].
 * LM_UNSUPPORTED where no plan can be made. */
lm_status lm_report_settings(lm_facts *model, lm_language language, lm_text *out, lm_error *e);

/* The form that a file's name asks for: .txt .md .markdown .json .html .htm .tex; false: none of them. */
bool lm_report_form(const char *path, lm_form *out);

#ifdef __cplusplus
}
#endif
#endif

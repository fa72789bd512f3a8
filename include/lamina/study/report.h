/* study/report.h - a report about one or several models in one document: structure, layers, counts, costs and
 * explanations, with a table of contents.
 *
 * Every number is a fact (lamina/study/facts.h), or computed from facts by a formula that the report
 * shows. */
#ifndef LAMINA_REPORT_H
#define LAMINA_REPORT_H

#include "lamina/study/explain.h"
#include "lamina/language.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_report_options {
    lm_form            form;
    lm_language        language;
    uint32_t           columns;      /* of LM_FORM_TEXT; 0: 80 */
    bool               lines;        /* LM_FORM_TEXT: rules and bars in box-drawing characters */
    bool               brief;        /* only the overview of each model: about a page */
    const char *const *pieces;       /* tokens of a prompt for the diagram of the cache; NULL: a general
                                        diagram */
    size_t             n_pieces;
    const char        *forward;      /* of one model, LM_FORM_HTML: a forward pass as text (lm_explain_toy),
                                        in a closed fold; NULL: none */
    uint64_t           reserved[3];  /* zero */
} lm_report_options;

lm_report_options lm_report_defaults(void);

/* Write a report of 1 to 16 models; several begin with a side-by-side comparison. The facts remain usable.
 * LM_USAGE: an unknown form. */
lm_status lm_report_write(lm_facts *const *models, size_t n, const lm_report_options *o, lm_text *out,
                          lm_error *e);

/* Memory and speed at other settings, as JSON. "contexts", "batches", "kv" (cache types) and "precisions" (of
 * the weights) list the settings; "now" has the current index into each. Bytes for precision p, cache type k,
 * batch b and context c: weights[p] + mapped[p], cache[k * batches + b][c], and values[p][b] + threads[p][k]
 * + bookkeeping[b][c] of scratch, exactly as in a plan with those settings; perToken[k] per further position;
 * flops[c] of a token, prefill[c] of a prompt. If the machine's limits are known, pairs of tokens/s and an
 * index into "limits": prompt[p][2 * k], generation[(p * kv + k) * batches + b][2 * c]. LM_UNSUPPORTED: no
 * plan is possible. */
lm_status lm_report_settings(lm_facts *model, lm_language language, lm_text *out, lm_error *e);

/* The form for a file name: .txt .md .markdown .json .html .htm; false: none of them. */
bool lm_report_form(const char *path, lm_form *out);

#ifdef __cplusplus
}
#endif
#endif

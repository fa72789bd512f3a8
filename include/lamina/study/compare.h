/* study/compare.h - compare models side by side: what is equal, what differs and by how much. */
#ifndef LAMINA_COMPARE_H
#define LAMINA_COMPARE_H

#include "lamina/study/facts.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lm_compare_form { LM_COMPARE_PAGE, LM_COMPARE_MARKDOWN, LM_COMPARE_JSON } lm_compare_form;

typedef struct lm_compare_options {
    lm_compare_form form;
    const char     *view;            /* one section ("attention", "timeline" …: lm_compare_view lists them);
                                        "all"; NULL: what differs, what is the same and the reading, or for
                                        more than two the summary too; as JSON everything */
    lm_language     language;        /* of pages and Markdown */
    const char     *more;            /* last line of a page without a view, in which the caller names other
                                        views; NULL: none */
    uint64_t        reserved[4];     /* zero */
} lm_compare_options;

lm_compare_options lm_compare_defaults(void);

/* Name and summary of the i-th section; NULL past the end. */
const char *lm_compare_view(size_t i, const char **summary);

/* Compare 1 to 16 models. Every number is a fact of one of them; changes are relative to the first. LM_USAGE:
 * an unknown view, or an invalid number of models. */
lm_status lm_compare(lm_facts *const *models, size_t n, const lm_compare_options *o, lm_text *out,
                     lm_error *e);

/* Milestone presets for the timeline, in the order of their publication; NULL past the end. */
const char *lm_compare_milestone(size_t i);

#ifdef __cplusplus
}
#endif
#endif

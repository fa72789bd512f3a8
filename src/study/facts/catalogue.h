/* catalogue.h - statements that cannot be derived from a program: catalogue.tsv, converted to a table by
 * scripts/catalogue. */
#ifndef LM_ANALYSIS_CATALOGUE_H
#define LM_ANALYSIS_CATALOGUE_H

typedef struct lm_statement {
    const char *group;           /* "definitions", "history", "unsupported" */
    const char *key, *text, *source;
} lm_statement;

extern const lm_statement lm_catalogue[];        /* terminated by a row of NULLs */

#endif

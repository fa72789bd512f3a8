/* history.h - when models were published: generated from src/study/compare/history.tsv by scripts/history. */
#ifndef LM_ANALYSIS_HISTORY_H
#define LM_ANALYSIS_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct lm_release {
    const char *date;                            /* "2024-09" */
    const char *preset;                          /* NULL: there is no preset; the words below are as
                                                    published */
    bool        milestone;
    const char *title, *attention, *mlp, *norm, *position;
    const char *source;
} lm_release;

extern const lm_release lm_release_table[];      /* in order of date */
extern const size_t     lm_n_releases;


#endif

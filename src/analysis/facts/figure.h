/* figure.h - numbers as people read them: rounded here and nowhere else. */
#ifndef LM_ANALYSIS_FIGURE_H
#define LM_ANALYSIS_FIGURE_H

#include "lamina/facts.h"

enum { LM_FIG = 48 };
char *lm_fig_count(char out[LM_FIG], uint64_t n);            /* "394,002,432" */
char *lm_fig_short(char out[LM_FIG], double n);              /* "3.21 B": decimal; k, M, then B and T as for parameters */
char *lm_fig_bytes(char out[LM_FIG], uint64_t n);            /* "6.43 GB" */
char *lm_fig_exact_bytes(char out[LM_FIG], uint64_t n);      /* "6,425,499 B" */
char *lm_fig_size(char out[LM_FIG], double n);               /* the same of what may be 2^63 and more */
char *lm_fig_both(char out[LM_FIG], uint64_t n);             /* "6.43 GB (5.98 GiB)" */
char *lm_fig_flops(char out[LM_FIG], double n);              /* "6.43 GFLOP" */
char *lm_fig_rate(char out[LM_FIG], double n);               /* "9.73", "111", "2,310" */

/* A fact that is a count, as lm_fig_count; where it is 2^63 or more and therefore a number "1.92e+19". */
char *lm_fig_fact(char out[LM_FIG], lm_facts *f, const char *path, ...) __attribute__((format(printf, 3, 4)));

/* "yes" or "no" in the reader's language; of biases, which are there or not, the words for that. */
const char *lm_truth_text(const char *name, bool truth);

#endif

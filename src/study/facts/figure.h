/* figure.h - numbers formatted for people: the only place that rounds them. */
#ifndef LM_ANALYSIS_FIGURE_H
#define LM_ANALYSIS_FIGURE_H

#include "lamina/study/facts.h"

enum { LM_FIG = 48 };
char *lm_fig_count(char out[LM_FIG], uint64_t n);            /* "394,002,432" */
char *lm_fig_short(char out[LM_FIG], double n);              /* "3.21 B": decimal; k, M, then B and T as usual
                                                                for parameters */
char *lm_fig_bytes(char out[LM_FIG], uint64_t n);            /* "6.43 GB" */
char *lm_fig_exact_bytes(char out[LM_FIG], uint64_t n);      /* "6,425,499 B" */
char *lm_fig_size(char out[LM_FIG], double n);               /* the same for sizes that may reach 2^63 */
char *lm_fig_both(char out[LM_FIG], uint64_t n);             /* "6.43 GB (5.98 GiB)" */
char *lm_fig_flops(char out[LM_FIG], double n);              /* "6.43 GFLOP" */
char *lm_fig_rate(char out[LM_FIG], double n);               /* "9.73", "111", "2,310" */

/* Format a fact that is a count, like lm_fig_count; from 2^63 on, where it is a double, as "1.92e+19". */
char *lm_fig_fact(char out[LM_FIG], lm_facts *f, const char *path, ...) __attribute__((format(printf, 3, 4)));

/* Say why the pages of the cache take more bytes than the positions that are seen, in the reader's language;
 * "": they do not. */
enum { LM_PAGES_TEXT = 512 };
char *lm_pages_text(char out[LM_PAGES_TEXT], lm_facts *f);

/* "yes" or "no" in the reader's language; for biases, the words for present and absent. */
const char *lm_truth_text(const char *name, bool truth);

#endif

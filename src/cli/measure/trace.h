/* trace.h - the flags, state and output functions shared by the files of `lamina trace`. */
#ifndef LM_CLI_TRACE_H
#define LM_CLI_TRACE_H

#include "cli/base/options.h"

typedef struct lm_trace_flags {
    lm_model_flags model;
    lm_run_flags   run;
    const char    *prompt, *file, *ids, *system, *output, *attention, *vector, *pairs, *other;
    bool           chat, bare, no_special, times, parts, all, force;
    uint32_t       predict, top, lens;
    int32_t        at;                   /* the position; INT32_MIN: not given */
    lm_flag_list   values, set, add, patch;
} lm_trace_flags;

typedef struct lm_tracing {
    lm_cli               *cli;
    const lm_trace_flags *o;
    lm_model             *model;
    lm_tokens             ids;
    lm_tracer            *tracer;
    uint32_t              row;           /* the traced position */
    uint32_t              head[2];       /* --attention */
} lm_tracing;

/* Append the text of a token on one line, cut to `max` columns, in quotes if `quoted`. */
void lm_trace_add_token(const lm_tracing *t, lm_token id, unsigned max, bool quoted, lm_text *out);

/* Print the page of a text and one of its rows (trace_page.c). */
lm_status lm_trace_page(lm_tracing *t, lm_error *e);

/* Write the whole trace as one HTML document, which needs no server (trace_html.c). LM_UNSUPPORTED: a build
 * without the server's page. */
lm_status lm_trace_html(const lm_tracing *t, const char *path, lm_error *e);

/* Print the attention of one head over the whole text (trace_page.c). */
lm_status lm_trace_picture(lm_tracing *t, lm_error *e);

/* Compare two models, or one without and with interventions, on a text, and print the result
 * (trace_versus.c). */
lm_status lm_trace_versus(lm_tracing *t, const lm_trace_options *a, const lm_model *other,
                          const lm_trace_options *b, lm_error *e);

/* Find the position given by --at in a text of n tokens (trace_page.c). */
lm_status lm_trace_row_selected(const lm_tracing *t, size_t n, uint32_t *out, lm_error *e);

#endif

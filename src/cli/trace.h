/* trace.h - what the parts of `lamina trace` share: what is asked for, and the pages that show it. */
#ifndef LM_CLI_TRACE_H
#define LM_CLI_TRACE_H

#include "cli/options.h"

typedef struct lm_trace_flags {
    lm_model_flags model;
    lm_run_flags   run;
    const char    *prompt, *file, *ids, *system, *output, *attention, *vector, *pairs, *other;
    bool           chat, bare, no_special, times, parts, all, force;
    uint32_t       predict, top, lens;
    int32_t        at;                   /* the row; INT32_MIN: not given */
    lm_flag_list   values, set, add, patch;
} lm_trace_flags;

typedef struct lm_tracing {
    lm_cli               *cli;
    const lm_trace_flags *o;
    lm_model             *model;
    lm_tokens             ids;
    lm_tracer            *tracer;
    uint32_t              row;           /* looked into */
    uint32_t              head[2];       /* --attention */
} lm_tracing;

/* How a token reads, on one line, at most so many columns; quotes around it where `quoted`. */
void lm_trace_add_token(const lm_tracing *t, lm_token id, unsigned most, bool quoted, lm_text *out);

/* The page of a text and one of its rows (trace_page.c). */
lm_status lm_trace_page(lm_tracing *t, lm_error *e);

/* Where one head looks, for the whole text (trace_page.c). */
lm_status lm_trace_picture(lm_tracing *t, lm_error *e);

/* One text twice (trace_versus.c): two models, or with interventions. */
lm_status lm_trace_versus(lm_tracing *t, const lm_trace_options *a, const lm_model *other, const lm_trace_options *b, lm_error *e);

/* The position that --at means in a text of n tokens (trace_page.c). */
lm_status lm_trace_row_selected(const lm_tracing *t, size_t n, uint32_t *out, lm_error *e);

#endif

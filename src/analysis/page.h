/* page.h - facts as pages for people: text in columns, figures, bars.
 *
 * Widths are columns of a terminal (utf8proc), so that every script lines up. Sentences and words that a reader sees stand
 * in _(): one place to translate them. */
#ifndef LM_ANALYSIS_PAGE_H
#define LM_ANALYSIS_PAGE_H

#include "analysis/fact.h"
#include "base/columns.h"

typedef struct lm_page {
    lm_facts              *f;
    const lm_view_options *o;
    lm_buf                *out;
    unsigned               columns;      /* of the terminal */
    bool                   lines;        /* box drawing and bars */
} lm_page;

typedef void lm_view_writer(lm_page *v);

lm_view_writer lm_view_overview, lm_view_layers, lm_view_tree, lm_view_torchinfo, lm_view_tensors, lm_view_program, lm_view_plan,
    lm_view_facts, lm_view_cards;

/* ---- figures: rounded here and nowhere else ---- */
enum { LM_FIG = 48 };
char *lm_fig_count(char out[LM_FIG], uint64_t n);            /* "394,002,432" */
char *lm_fig_short(char out[LM_FIG], double n);              /* "3.21 G": decimal, k M G T P */
char *lm_fig_bytes(char out[LM_FIG], uint64_t n);            /* "6.43 GB" */
char *lm_fig_size(char out[LM_FIG], double n);               /* the same of what may be 2^63 and more */
char *lm_fig_both(char out[LM_FIG], uint64_t n);             /* "6.43 GB (5.98 GiB)" */
char *lm_fig_flops(char out[LM_FIG], double n);              /* "6.43 GFLOP" */

/* A fact that is a count, as lm_fig_count; where it is 2^63 or more and therefore a number "1.92e+19". */
char *lm_fig_fact(char out[LM_FIG], lm_facts *f, const char *path, ...) __attribute__((format(printf, 3, 4)));

char *lm_fig_rate(char out[LM_FIG], double n);               /* "9.73", "111", "2,310" */

/* ---- columns ---- */
/* `text` in at least `width` columns, at the left or at the right of them. */
void lm_put(lm_buf *out, const char *text, unsigned width);
void lm_put_right(lm_buf *out, const char *text, unsigned width);
void lm_put_rule(lm_buf *out, const char *piece, unsigned n);

/* ---- tables: cells first, widths last ---- */
enum { LM_CELLS = 16 };
typedef struct lm_table {
    lm_facts   *f;               /* its arena holds the cells */
    const char *align;           /* a letter for each column: 'l' or 'r' */
    const char *gap;             /* between columns */
    unsigned    indent, n, rows, room;
    const char **cells;          /* [rows][n]; a row whose first cell is NULL is empty */
} lm_table;

lm_table lm_table_new(lm_facts *f, const char *align, unsigned indent);

/* As many texts as there are columns; copied. */
void lm_table_row(lm_table *t, ...);
void lm_table_gap(lm_table *t);
void lm_table_print(const lm_table *t, lm_buf *out);

/* "RMSNorm → attention → + → RMSNorm → SwiGLU → +": what a decoder layer does, in its order. */
void lm_put_layer_flow(lm_facts *f, uint32_t layer, lm_buf *out);

/* The whole model in one line, runs of equal layers in brackets. */
void lm_put_flow(lm_facts *f, lm_buf *out);

#endif

/* table.h - text in columns: cells first, widths last. */
#ifndef LM_ANALYSIS_TABLE_H
#define LM_ANALYSIS_TABLE_H

#include "analysis/facts/fact.h"
#include "base/columns.h"

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
void lm_table_print(const lm_table *t, lm_text *out);

#endif

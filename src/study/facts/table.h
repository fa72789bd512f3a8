/* table.h - text in columns: all cells are collected before the widths are computed. */
#ifndef LM_ANALYSIS_TABLE_H
#define LM_ANALYSIS_TABLE_H

#include "study/facts/fact.h"
#include "base/columns.h"

enum { LM_CELLS = 16 };
typedef struct lm_table {
    lm_facts   *f;               /* its arena holds the cells */
    const char *align;           /* one letter per column: 'l' or 'r' */
    const char *gap;             /* between columns */
    unsigned    indent, n, rows, capacity;
    const char **cells;          /* [rows][n]; a row whose first cell is NULL is blank */
} lm_table;

lm_table lm_table_new(lm_facts *f, const char *align, unsigned indent);

/* Add a row: one text per column; copied. */
void lm_table_row(lm_table *t, ...);
void lm_table_print(const lm_table *t, lm_text *out);

#endif

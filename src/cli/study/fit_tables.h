/* fit_tables.h - tables of one model on every device, or with different numbers of sequences. */
#ifndef LM_CLI_FIT_TABLES_H
#define LM_CLI_FIT_TABLES_H

#include "cli/base/cell_table.h"
#include "cli/base/output.h"
#include "cli/study/fit_page.h"
#include "lamina/study.h"

/* A table under construction. Initialise all members after the first three to zero. */
typedef struct lm_fit_table {
    lm_cli          *cli;
    const lm_fitted *x;
    double           price;              /* per hour; 0: not given */
    lm_cell_table    grid;
    json_t          *json;               /* the document, set by the _end functions */
    json_t          *rows;
    size_t           n, fitting;
    const char      *kind;               /* of the last device */
} lm_fit_table;

void lm_fit_table_device(lm_fit_table *t, const lm_device *d);
void lm_fit_table_devices_end(lm_fit_table *t, const char *kv, lm_text *out);

void lm_fit_table_batch(lm_fit_table *t, const lm_fit_row *r);
void lm_fit_table_batches_end(lm_fit_table *t, const lm_fit_place *at, lm_text *out);

#endif

/* cells.h - rows of tables, for those that read them. */
#ifndef LM_ANALYSIS_AUDIT_CELLS_H
#define LM_ANALYSIS_AUDIT_CELLS_H

#include "analysis/audit/reading.h"

enum { LM_MOST_CELLS = 24 };

typedef struct lm_cells { lm_extent cell[LM_MOST_CELLS]; size_t n; } lm_cells;

/* "kv.at[%N]" with the tokens of the heading; NULL where it names none. */
const char *lm_path_with_context(lm_reading *d, const char *path, bool windowed);

/* Each reads what it knows of a row and says whether there was something. */
bool lm_read_variants(lm_reading *d, const lm_cells *heads, const lm_cells *row, const char *label);
bool lm_read_variant_shapes(lm_reading *d, const lm_cells *row, const char *label);
bool lm_read_positions(lm_reading *d, const lm_cells *heads, const lm_cells *row);
bool lm_read_reduction(lm_reading *d, const lm_cells *heads, const lm_cells *row);

#endif

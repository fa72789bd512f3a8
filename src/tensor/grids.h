/* grids.h - find the entry of a codebook with the smallest weighted error: internal to the quantisers of the
 * IQ types.
 *
 * A piece is 8 (IQ1, IQ2) or 4 (IQ3) elements x with weights w, stored as scale s times a grid entry g. Its
 * error is sum w x^2 - s (2 a - s b) with a = sum w x g and b = sum w g^2. Both are sums over the halves of
 * the entry, which have few values, so they are tabulated per half. Of a grid only the entries near to x / s,
 * rounded to the alphabet, are compared: a list per cell. */
#ifndef LM_TENSOR_GRIDS_H
#define LM_TENSOR_GRIDS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LM_GRID_NEAR  = 16,              /* entries listed per cell */
    LM_GRID_HALF  = 108,             /* numbers of half an entry of 8, some of them unused */
    LM_GRID_CELLS = LM_GRID_HALF << 7,       /* cells: the low half's number in 7 bits (IQ3: 6), the high
                                                half's above */
};

typedef struct lm_code_grid {
    const uint16_t *entries;
    int             n, width;        /* entries; elements of an entry, 8 or 4 */
    int             shift;           /* of the high half in a cell */
    int             n_near;          /* entries compared, at most LM_GRID_NEAR */
    uint16_t      (*near)[LM_GRID_NEAR];     /* by cell: the nearest entries, as cells, in rising distance */
    uint16_t       *index;           /* by cell of an entry: the entry */
    bool           *exact;           /* by cell: it is an entry */
} lm_code_grid;

typedef enum lm_grid_name {
    LM_GRID_IQ2_XXS,
    LM_GRID_IQ2_XS,
    LM_GRID_IQ2_S,
    LM_GRID_IQ1,
    LM_GRID_IQ3_XXS,
    LM_GRID_IQ3_S
} lm_grid_name;

/* Return a grid with its lists. The first call makes them, two megabytes for all grids; thread-safe. */
const lm_code_grid *lm_grid_of(lm_grid_name name);

/* The sums of a piece over every half: a, b, and the least w x g of its elements. */
typedef struct lm_grid_table {
    const float *x, *values;         /* elements; the alphabet, rising */
    float        a[2][LM_GRID_HALF], b[2][LM_GRID_HALF], min[2][LM_GRID_HALF];
} lm_grid_table;

/* One choice: an entry, as a cell, and its sums. If the sign of the element with the least w x g is turned,
 * `a` includes that. */
typedef struct lm_grid_choice { float a, b; uint16_t cell; } lm_grid_choice;

/* Tabulate a piece. `turns`: the least products as well, which only pieces with stored signs have. */
void lm_grid_table_fill(lm_grid_table *p, const lm_code_grid *g, const float *x, const float *w,
                        const float *values, bool turns);

/* Choose the entry with the largest s (2 a - s b), s > 0. `turned`, unless NULL: the same with one sign
 * turned, in the best place. */
lm_grid_choice lm_grid_table_choose(const lm_grid_table *p, const lm_code_grid *g, float s,
                                    lm_grid_choice *turned);

/* Return the element whose sign a turned choice turns. */
int lm_grid_table_turn(const lm_grid_table *p, const lm_code_grid *g, const float *w, uint16_t cell);

#endif

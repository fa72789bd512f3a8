/* listing.h - a program written out as a text that a reader can run: what the files of this room share.
 *
 * One function for each kind of layer (equal ones are a loop), one line for each operation with the shape of what it makes, and only
 * the helpers that the program needs. PyTorch and NumPy differ in a few words: texts hold '$' for the name of the library. */
#ifndef LM_ANALYSIS_LISTING_H
#define LM_ANALYSIS_LISTING_H

#include "analysis/facts/fact.h"
#include "analysis/facts/ledger.h"
#include "lamina/explain.h"

enum { LM_LISTING_NAME = 48 };

typedef struct lm_listing {
    const lm_facts    *f;
    const lm_program  *p;
    lm_listing_language in;
    char             (*names)[LM_LISTING_NAME];      /* [n_values]: of its variable */
    uint32_t          *last;                         /* [n_values]: the last operation that reads it; n_nodes: the logits */
    uint32_t           first;                        /* the operation with which the function begins that is written */
    lm_value           given;                        /* its argument x; LM_NONE: it begins with ids */
    int32_t            layer;                        /* whose weights are in `w`; -1: none */
    bool               scores_by_layer;              /* every layer's scale is the first's, divided by its number from 1 */
} lm_listing;

/* `text` with "$" for torch or np, "$cat" for the function that joins arrays, "$array" for the one that makes them. */
void lm_listing_add(const lm_listing *l, lm_text *out, const char *text);

/* The functions that the operations of the program call. LM_UNSUPPORTED names what has no form here. */
lm_status lm_listing_helpers(const lm_listing *l, lm_text *out, lm_error *e);

/* One operation: an assignment and the shape of what it makes. Gives its value a name. */
void lm_listing_line(lm_listing *l, uint32_t node, lm_text *out);

/* The name of a rotary table: "rotary", or with its number where there are several. */
void lm_listing_rotary(const lm_listing *l, uint32_t table, char out[LM_LISTING_NAME]);

/* The first operation of a kind; NULL: the program has none. */
const lm_node *lm_listing_first(const lm_program *p, lm_op_code code);

#endif

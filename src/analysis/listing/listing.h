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
    uint32_t           from, to;                     /* the operations that the text is about: all, or those of a topic */
    lm_text            declared;                     /* in C: the variables of the function so far, between blanks */
} lm_listing;

/* Prepares `l` for writing [from, to): names and last readers. lm_listing_end frees what it holds. */
lm_status lm_listing_begin(lm_listing *l, lm_facts *f, lm_listing_language in, lm_error *e);
void      lm_listing_end(lm_listing *l);

/* The one value that goes into operations [from, to) and the one that comes out; `in` LM_NONE: they begin with token ids.
 * LM_UNSUPPORTED names the operation that has another one. */
lm_status lm_listing_ends(const lm_listing *l, uint32_t from, uint32_t to, lm_value *in, lm_value *out, lm_error *e);

/* The lines of operations [from, to) of a layer (-1: of none), their parts headed by comments, and `return`: the body of a function. */
lm_status lm_listing_body(lm_listing *l, int32_t layer, uint32_t from, uint32_t to, lm_text *out, lm_error *e);

/* Which activations [from, to) calls. */
void lm_listing_activations(const lm_listing *l, bool seen[LM_ACT_COUNT]);

/* Whether a weight's path is in the layer that is written; *path is then what follows the layer's own. */
bool lm_listing_own(const lm_listing *l, const char **path);

/* What the names of a layer's weights begin with, the number left out: "model.layers." */
void lm_listing_layer_prefix(const lm_listing *l, int *n, const char **prefix);

/* The pieces of the frame that listings of models and of topics share. */
void lm_listing_imports(const lm_listing *l, const char *more, lm_text *out);
void lm_listing_load(const lm_listing *l, lm_text *out);

/* `text` with "$" for torch or np, "$cat" for the function that joins arrays, "$array" for the one that makes them. */
void lm_listing_add(const lm_listing *l, lm_text *out, const char *text);

/* The functions that the operations of the program call. LM_UNSUPPORTED names what has no form here. */
lm_status lm_listing_helpers(const lm_listing *l, lm_text *out, lm_error *e);

/* One text for all of a kind of operation: it is written from the first, and the others must be like it: else LM_UNSUPPORTED. */
lm_status lm_listing_alike(const lm_listing *l, lm_error *e);

/* One operation: an assignment and the shape of what it makes. Gives its value a name. */
void lm_listing_line(lm_listing *l, uint32_t node, lm_text *out);

/* The name of a rotary table: "rotary", or with its number where there are several. */
void lm_listing_rotary(const lm_listing *l, uint32_t table, char out[LM_LISTING_NAME]);

/* The first operation of a kind among those that the text is about; NULL: there is none. */
const lm_node *lm_listing_first(const lm_listing *l, lm_op_code code);

#endif

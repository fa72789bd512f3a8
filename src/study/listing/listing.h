/* listing.h - write a program as source code that a reader can run: declarations shared by the files of this
 * module.
 *
 * There is one function per kind of layer (equal layers are a loop), one line per operation with the shape of
 * its output, and only the helpers that the program needs. PyTorch and NumPy differ in a few words: texts
 * contain '$' for the name of the library. */
#ifndef LM_ANALYSIS_LISTING_H
#define LM_ANALYSIS_LISTING_H

#include "study/facts/fact.h"
#include "study/facts/ledger.h"
#include "lamina/study/explain.h"

enum { LM_LISTING_NAME = 48 };

typedef struct lm_listing {
    const lm_facts    *f;
    const lm_program  *p;
    lm_listing_language in;
    char             (*names)[LM_LISTING_NAME];      /* [n_values]: the name of its variable */
    uint32_t          *last;                         /* [n_values]: the last operation that reads it; n_nodes:
                                                        the logits */
    bool              *kept;                         /* [n_values]: read in later layers than the next: an
                                                        entry of the dictionary `kept` */
    uint32_t           first;                        /* the first operation of the function being written */
    lm_value           given;                        /* the function's argument x; LM_NONE: it starts from
                                                        ids */
    int32_t            layer;                        /* the layer whose weights are in `w`; -1: none */
    bool               scores_by_layer;              /* every layer's scale is the first one's, divided by the
                                                        layer's number (from 1) */
    uint32_t           from, to;                     /* the operations of the listing: all, or those of a
                                                        topic */
} lm_listing;

/* Prepare `l`: names and last readers. lm_listing_end frees them, even after a failure. */
lm_status lm_listing_begin(lm_listing *l, lm_facts *f, lm_listing_language in, lm_error *e);
void      lm_listing_end(lm_listing *l);

/* Find the values that several layers read, and name them: for a listing of all layers. */
void lm_listing_keep(lm_listing *l);

/* Find the only value that operations [from, to) read from outside and the only one read after them, besides
 * those that are kept; `in` LM_NONE: they start from token ids. LM_UNSUPPORTED names the operation that has
 * another one. */
lm_status lm_listing_ends(const lm_listing *l, uint32_t from, uint32_t to, lm_value *in, lm_value *out,
                          lm_error *e);

/* Append the body of a function: the lines of operations [from, to) of a layer (-1: none), with comments that
 * head its parts, and `return`. */
lm_status lm_listing_body(lm_listing *l, int32_t layer, uint32_t from, uint32_t to, lm_text *out,
                          lm_error *e);

/* Return whether a weight's path is in the layer being written; *path then points past the layer's prefix. */
bool lm_listing_own(const lm_listing *l, const char **path);

/* Find the prefix of the names of a layer's weights, without the number: "model.layers." */
void lm_listing_layer_prefix(const lm_listing *l, int *n, const char **prefix);

/* Return whether experts of some layer are listed by token. */
bool lm_listing_lists_experts(const lm_listing *l);

/* Parts of the frame shared by listings of models and of topics. */
void lm_listing_imports(const lm_listing *l, const char *more, lm_text *out);
void lm_listing_load(const lm_listing *l, lm_text *out);

/* Append `text` with "$" replaced by torch or np, "$cat" by the function that joins arrays, "$array" by the
 * one that creates them. */
void lm_listing_add(const lm_listing *l, lm_text *out, const char *text);

/* Append the functions that the program's operations call. LM_UNSUPPORTED names an operation that cannot be
 * expressed. */
lm_status lm_listing_helpers(const lm_listing *l, lm_text *out, lm_error *e);

/* Append one operation: an assignment and the shape of the result. Gives its value a name. */
void lm_listing_line(lm_listing *l, uint32_t node, lm_text *out);

/* Return the name of a rotary table: "rotary", with a number if there are several. */
void lm_listing_rotary(const lm_listing *l, uint32_t table, char out[LM_LISTING_NAME]);

/* Return the first operation of a kind in the listing, or NULL. */
const lm_node *lm_listing_first(const lm_listing *l, lm_op_code code);

#endif

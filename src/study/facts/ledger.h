/* ledger.h - what many facts need to know about a program, found once: which operation reads a weight, which
 * part it belongs to, what an operation does in its layer, the structure of the module tree. Everything is
 * found by following values, never by names. */
#ifndef LM_ANALYSIS_LEDGER_H
#define LM_ANALYSIS_LEDGER_H

#include "study/facts/counts.h"
#include "program/program.h"

/* The role of a product, derived from how its result is used. Several bits: a fused projection. */
typedef enum lm_product_role {
    LM_PRODUCT_QUERY = 1, LM_PRODUCT_KEY = 2, LM_PRODUCT_VALUE = 4, LM_PRODUCT_OUTPUT = 8, /* of attention */
    LM_PRODUCT_GATE = 16, LM_PRODUCT_UP = 32, LM_PRODUCT_DOWN = 64,                 /* of an MLP */
    LM_PRODUCT_ROUTER = 128, LM_PRODUCT_HEAD = 256,
} lm_product_role;

struct lm_ledger {
    const lm_program *program;
    uint32_t *reader;            /* [n_weights]: the first operation that reads it; LM_NONE: none */
    lm_part  *part;              /* [n_nodes]: the part that its weights belong to */
    uint16_t *roles;             /* [n_nodes] */
    uint32_t *block;             /* [n_nodes]: the module directly below the decoder layer; LM_NONE outside
                                    the stack */
    bool     *attends, *carries; /* [n_modules]: it contains attention; an operation with a state */
    bool     *acts;              /* [n_modules]: it contains one of these, an activation or experts, all of
                                    its operations in a row; others prepare or use the streams */
    uint32_t *layer;             /* [n_layers]: module of each decoder layer */
    uint32_t *child, *sibling;   /* [n_modules]: the first submodule; the next module with the same parent; or
                                    LM_NONE */
    uint32_t *twin;              /* [n_layers]: the first layer with the same operations, widths and
                                    attributes */
    uint32_t  head;              /* operation of the last product */
    uint32_t  stack;             /* the module that contains the decoder layers, or LM_NONE */
};

typedef struct lm_ledger lm_ledger;

lm_status lm_ledger_new(const lm_program *p, lm_ledger **out, lm_error *e);
void      lm_ledger_free(lm_ledger *l);

static inline bool lm_is_norm(const lm_node *n)
{
    return n->code == LM_OP_RMS_NORM || n->code == LM_OP_LAYER_NORM;
}

/* Return whether the operations of a module do not follow one another. */
static inline bool lm_is_apart(const lm_program *p, uint32_t module)
{
    return module != LM_NONE && p->modules[module].end_op == p->modules[module].first_op;
}

/* Return whether a module makes the numbers of hyper-connections: it prepares what a part reads. */
bool lm_connects(const lm_program *p, uint32_t module);

/* Return whether a module has several operations, or is one whose operations do not follow one another. */
static inline bool lm_has_several(const lm_program *p, uint32_t module)
{
    return module != LM_NONE && p->modules[module].end_op != p->modules[module].first_op + 1;
}

/* Return whether an operation adds to the residual stream: it joins values from different parts of a layer,
 * wherever it is recorded. A sum within one part (shared and routed experts) belongs to that part. */
bool lm_is_residual(const lm_ledger *l, uint32_t i);

/* Return the operation that makes what the layer adds there, skipping norms and multipliers. LM_NONE: input
 * `k` is the stream itself. */
uint32_t lm_added_by(const lm_ledger *l, uint32_t i, uint32_t k);

/* Sums over the operations of a module, including nested modules. */
typedef struct lm_module_sums {
    uint64_t parameters;         /* of weights first read here */
    uint64_t biases;             /* of these: vectors added by a product */
    uint64_t mult_adds, flops;   /* per token, without what grows with the context */
    uint64_t key_mult_adds, key_flops;       /* per visible key, ignoring windows */
    uint64_t weight_elements;    /* read per token */
    uint64_t activations;        /* float32 values written per token */
} lm_module_sums;

void lm_module_sum(const lm_ledger *l, uint32_t module, lm_module_sums *out);

/* A module that is one linear layer in frameworks, even if the program stores its matrix in parts, with the
 * keys of a head separate from its values. False: not such a module. */
typedef struct lm_linear_form {
    uint64_t in, out;
    bool     bias;
} lm_linear_form;

bool lm_module_linear(const lm_program *p, uint32_t module, lm_linear_form *out);

/* Return the multiply-adds per token of matrix products and scores of an operation that sees `keys`; its
 * window applies. */
uint64_t lm_node_mult_adds(const lm_program *p, const lm_node *n, uint64_t keys);

#endif

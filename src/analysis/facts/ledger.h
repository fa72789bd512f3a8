/* ledger.h - what many facts need to know of a program, found once: who reads a weight, which part it belongs to, what an
 * operation does in its layer, where things stand in the module tree. All by following values; no name is looked at. */
#ifndef LM_ANALYSIS_LEDGER_H
#define LM_ANALYSIS_LEDGER_H

#include "analysis/facts/counts.h"
#include "program/program.h"

/* What a product does, from what its result becomes. Several: a fused projection. */
typedef enum lm_role {
    LM_ROLE_QUERY = 1, LM_ROLE_KEY = 2, LM_ROLE_VALUE = 4, LM_ROLE_OUTPUT = 8,      /* of attention */
    LM_ROLE_GATE = 16, LM_ROLE_UP = 32, LM_ROLE_DOWN = 64,                          /* of an MLP */
    LM_ROLE_ROUTER = 128, LM_ROLE_HEAD = 256,
} lm_role;

struct lm_ledger {
    const lm_program *program;
    uint32_t *reader;            /* [n_weights]: the first operation that reads it, LM_NONE: none */
    lm_part  *part;              /* [n_nodes]: what its weights belong to */
    uint16_t *roles;             /* [n_nodes] */
    uint32_t *block;             /* [n_nodes]: the module directly below the decoder layer; LM_NONE outside the stack */
    bool     *attends;           /* [n_modules]: an attention lies in it */
    uint32_t *layer;             /* [n_layers]: module of each decoder layer */
    uint32_t *child, *sibling;   /* [n_modules]: the first below it, the next beside it; LM_NONE */
    uint32_t *twin;              /* [n_layers]: the first layer of the same operations, widths and attributes */
    uint32_t  head;              /* the last product: its operation */
    uint32_t  stack;             /* the module that the decoder layers are in; LM_NONE: there is none */
};

typedef struct lm_ledger lm_ledger;

lm_status lm_ledger_new(const lm_program *p, lm_ledger **out, lm_error *e);
void      lm_ledger_free(lm_ledger *l);

static inline bool lm_is_norm(const lm_node *n)
{
    return n->code == LM_OP_RMS_NORM || n->code == LM_OP_LAYER_NORM;
}

/* Whether an operation adds to the stream: it joins what was made in different parts of a layer, wherever it is recorded. A sum
 * of what one part has made (shared experts beside routed ones) belongs to that part. */
bool lm_is_residual(const lm_ledger *l, uint32_t i);

/* What the layer adds there, behind its norms and multipliers: an operation of a part. LM_NONE: input `k` is the stream itself. */
uint32_t lm_added_by(const lm_ledger *l, uint32_t i, uint32_t k);

/* Sums over the operations of a module, nested ones included. */
typedef struct lm_module_sums {
    uint64_t parameters;         /* of weights that are read here first */
    uint64_t biases;             /* of these: vectors beside a matrix */
    uint64_t mult_adds, flops;   /* of one token, without what grows with the context */
    uint64_t key_mult_adds, key_flops;       /* for each key seen, windows aside */
    uint64_t weight_elements;    /* read for one token */
    uint64_t activations;        /* float32 written for one token */
} lm_module_sums;

void lm_module_sum(const lm_ledger *l, uint32_t module, lm_module_sums *out);

/* A module that is one linear layer, as frameworks make it: also where the program holds its matrix in parts, a head's keys apart
 * from its values. False: it is none. */
typedef struct lm_linear_form {
    uint64_t in, out;
    bool     bias;
} lm_linear_form;

bool lm_module_linear(const lm_program *p, uint32_t module, lm_linear_form *out);

/* Matrix products and scores of one token of an operation that sees `keys`; its window respected. In multiply-adds. */
uint64_t lm_node_mult_adds(const lm_program *p, const lm_node *n, uint64_t keys);

#endif

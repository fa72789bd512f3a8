/* filetype.h - what a whole file is called ("q4_k_m"), and the type that each of its tensors has.
 *
 * Names and choices are those of llama.cpp's llama-quantize: a mixture keeps some layers in finer types, the head (or the
 * embedding it is tied to) in Q6_K, vectors and routers in F32. */
#ifndef LM_FORMATS_FILETYPE_H
#define LM_FORMATS_FILETYPE_H

#include "tensor/dtype.h"

typedef struct lm_file_type {
    const char *name;                /* "q4_k_m" */
    uint32_t    id;                  /* general.file_type */
    lm_dtype    base;                /* of most matrices */
} lm_file_type;

/* NULL past the end. */
const lm_file_type *lm_file_type_at(size_t i);

/* Any case; "q4_k" is q4_k_m as there. LM_USAGE lists what there is. */
lm_status lm_file_type_named(const char *name, const lm_file_type **out, lm_error *e);

/* What the choices look at; the counters at the end start at 0 and move as tensors are chosen, layer by layer. */
typedef struct lm_type_chooser {
    const lm_file_type *type;
    bool     pure;                   /* no mixture: every matrix in the base type */
    bool     tied;                   /* the embedding is the head */
    bool     coarse;                 /* lm_mixture_is_coarse */
    bool     importance;             /* an importance matrix is used */
    bool     big;                    /* lm_mixture_is_big */
    uint32_t n_layers, n_heads, n_kv_heads, n_experts;
    uint32_t n_values;               /* tensors that hold values: attn_v, attn_qkv, attn_kv_b */
    uint32_t i_value, i_down;
    bool     replaced;               /* of the tensor chosen last: its rows do not fit the type of the mixture, so it took another */
} lm_type_chooser;

bool lm_holds_values(const char *gguf);          /* for n_values */

/* Vectors, norms, routers, learned positions and small projections stay as they are. */
bool lm_is_packed(const char *gguf, uint32_t n_dims);

/* The type of the tensor that GGUF calls `gguf`, `dims` outermost first; LM_F32 where it is not packed. */
lm_dtype lm_choose_type(lm_type_chooser *c, const char *gguf, uint32_t n_dims, const uint64_t *dims);

/* `t`, or the type of smaller blocks that takes its place where rows of `cols` are no whole number of its blocks. */
lm_dtype lm_fitting_type(lm_dtype t, uint64_t cols);

#endif

/* filetype.h - the type of a whole file ("q4_k_m"), and the type of each of its tensors.
 *
 * Names and choices are those of llama.cpp's llama-quantize: a mixture keeps some layers in finer types, the
 * head (or the embedding it is tied to) in Q6_K, vectors and routers in F32. */
#ifndef LM_FORMATS_FILETYPE_H
#define LM_FORMATS_FILETYPE_H

#include "tensor/dtype.h"

typedef struct lm_file_type {
    const char *name;                /* "q4_k_m" */
    uint32_t    id;                  /* general.file_type */
    lm_dtype    base;                /* of most matrices */
} lm_file_type;

/* Return the i-th file type; NULL past the end. */
const lm_file_type *lm_file_type_at(size_t i);

/* Find a file type by name, in any case; "q4_k" is q4_k_m, as in llama-quantize. LM_USAGE lists the known
 * names. */
lm_status lm_file_type_named(const char *name, const lm_file_type **out, lm_error *e);

/* The inputs of the choice; the counters at the end start at 0 and advance as types are chosen, layer by
 * layer. */
typedef struct lm_type_chooser {
    const lm_file_type *type;
    bool     pure;                   /* no mixture: every matrix in the base type */
    bool     tied;                   /* the embedding is the head */
    bool     coarse;                 /* lm_mixture_is_coarse */
    bool     importance;             /* an importance matrix is used */
    bool     big;                    /* lm_mixture_is_big */
    uint32_t n_layers, n_heads, n_experts;
    uint32_t n_kv_heads;             /* of the first layer, as in llama.cpp: 0 if that has a state instead */
    uint32_t n_values;               /* tensors that hold values: attn_v, attn_qkv, attn_kv_b */
    uint32_t i_value, i_down, i_gate, i_up;
    bool     replaced;               /* the tensor chosen last took another type, because its rows do not fit
                                        that of the mixture */
} lm_type_chooser;

bool lm_holds_values(const char *gguf);          /* for n_values */

/* Return whether a tensor is quantised: vectors, norms, routers, learned positions and small projections are
 * not. */
bool lm_is_packed(const char *gguf, uint32_t n_dims);

/* Choose the type of the tensor with the GGUF name `gguf`, `dims` outermost first; LM_F32 if it is not
 * packed. */
lm_dtype lm_choose_type(lm_type_chooser *c, const char *gguf, uint32_t n_dims, const uint64_t *dims);

/* Return whether a tensor of type `t` in a file of this type may be packed only with its importance: what is
 * left without is noise. */
bool lm_requires_importance(const lm_file_type *type, const char *gguf, lm_dtype t);

/* Return `t`, or the type with smaller blocks that replaces it if rows of `cols` are not a whole number of
 * its blocks. */
lm_dtype lm_fitting_type(lm_dtype t, uint64_t cols);

#endif

/* traits.h - an architecture in the field's words, found by following its operations. */
#ifndef LM_ANALYSIS_TRAITS_H
#define LM_ANALYSIS_TRAITS_H

#include "analysis/ledger.h"

typedef enum lm_norm_position { LM_NORM_NOWHERE, LM_NORM_PRE, LM_NORM_POST, LM_NORM_SANDWICH, LM_NORM_AFTER_BRANCH } lm_norm_position;

typedef struct lm_traits {
    const lm_node *attention;        /* of the first layer that has one; NULL */
    const lm_node *norm;             /* the first; NULL */
    const lm_node *experts, *route;  /* the first; NULL */
    const lm_node *glu;              /* the first gated product; NULL */
    lm_norm_position norm_position;
    uint32_t n_norms, n_final_norms, kinds;
    uint32_t hidden, intermediate;   /* the first dense MLP's width; 0: there is none */
    uint32_t n_attentions, n_windows;
    uint32_t window;                 /* the largest that a layer has; 0: all see everything */
    bool     has_act, tied, parallel, qk_norm, latent;       /* latent: one shared latent is cached (MLA) */
    uint32_t kv_rank, nope_dim, rope_dim, v_dim;     /* of latent attention */
    bool     absorbed;               /* its cache holds the latent alone */
    bool     bias_qkv, bias_o, bias_mlp, bias_head;
    bool     learned, sinusoidal, rotary, alibi, dense;      /* dense: some layer has a dense MLP */
    lm_act   act;
} lm_traits;

void lm_find_traits(const lm_ledger *l, lm_traits *out);

/* "MHA", "GQA", "MQA", "MLA" */
const char *lm_sharing_name(const lm_traits *t);

/* "GQA", "MHA+SWA", "MLA": written to `out`. */
const char *lm_attention_name(const lm_ledger *l, const lm_traits *t, char *out, size_t n);
/* "RoPE+YaRN", "Learned". */
const char *lm_position_name(const lm_program *p, const lm_traits *t, char *out, size_t n);
/* "0 <= i - j < 4096": the keys j that a query i sees, in all layers or in how many; in the reader's language. */
const char *lm_mask_text(const lm_traits *t, char *out, size_t n);
/* The rotary table of the first layer that rotates and sees every position; 0 where none does. */
uint32_t lm_main_rope(const lm_program *p);
/* "SwiGLU", "GELU", "SwiGLU+MoE". */
const char *lm_mlp_name(const lm_traits *t, char *out, size_t n);
const char *lm_act_name(lm_act act);             /* "SiLU" */
const char *lm_norm_position_name(lm_norm_position p);       /* "Pre" */

#endif

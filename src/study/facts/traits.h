/* traits.h - an architecture in standard terms, derived from its operations. */
#ifndef LM_ANALYSIS_TRAITS_H
#define LM_ANALYSIS_TRAITS_H

#include "study/facts/fact.h"
#include "study/facts/ledger.h"

/* How query heads share keys and values; the kind of norm; the source of positions. */
typedef enum lm_head_sharing {
    LM_SHARES_NOTHING,
    LM_SHARES_MHA,
    LM_SHARES_GQA,
    LM_SHARES_MQA,
    LM_SHARES_MLA
} lm_head_sharing;
typedef enum lm_norm_kind { LM_NORM_NONE, LM_NORM_RMS, LM_NORM_LAYER } lm_norm_kind;
typedef enum lm_position_kind {
    LM_POSITION_NONE,
    LM_POSITION_ROTARY,
    LM_POSITION_LEARNED,
    LM_POSITION_SINUSOIDAL,
    LM_POSITION_ALIBI
} lm_position_kind;
typedef enum lm_norm_position {
    LM_NORM_NOWHERE,
    LM_NORM_PRE,
    LM_NORM_POST,
    LM_NORM_SANDWICH,
    LM_NORM_AFTER_BRANCH
} lm_norm_position;

typedef struct lm_traits {
    const lm_node *attention;        /* of the first layer with attention, or NULL */
    const lm_node *norm;             /* the first, or NULL */
    const lm_node *experts, *route;  /* the first, or NULL */
    const lm_node *glu;              /* the first gated product, or NULL */
    const lm_node *convolution, *recurrence, *scan, *gated;    /* the first, or NULL */
    const lm_node *indexer;          /* the first choice of keys for sparse attention, or NULL */
    uint32_t n_indexers, n_sparse;   /* layers that choose keys, and layers that see chosen keys only: those
                                        without an indexer share a choice */
    lm_head_sharing  sharing;
    lm_norm_kind     norm_kind;
    lm_position_kind position;       /* the first that applies of rotary, learned, sinusoidal, ALiBi */
    const lm_rope_spec *rope;        /* of the table returned by lm_main_rope, or NULL */
    lm_norm_position norm_position;
    uint32_t n_norms, n_final_norms, kinds;
    uint32_t streams;                /* residual streams, of which layers compute one; 0: there is only one */
    uint32_t hidden, intermediate;   /* the width of the first dense MLP; 0: none */
    uint32_t shared_width;           /* the width of the dense MLP that every token visits besides the
                                        experts; 0: none */
    uint32_t n_attentions, n_windows, n_rotated;     /* layers, of which n_rotated rotate queries or keys */
    uint32_t window;                 /* the largest window of any layer; 0: none has one */
    bool     chunked;                /* windows begin at multiples of their width: chunks */
    bool     sinks;                  /* some layers have them */
    bool     has_act, tied, parallel, qk_norm, latent;       /* latent: one shared latent is cached (MLA) */
    uint32_t kv_rank, nope_dim, rope_dim, v_dim;     /* of latent attention */
    bool     absorbed;               /* the cache contains only the latent */
    bool     bias_qkv, bias_o, bias_mlp, bias_head;
    bool     learned, sinusoidal, rotary, alibi, dense;      /* dense: some layers have a dense MLP */
    int32_t  last_layer, last_rotated;       /* during the pass over the operations; -1: none yet */
    lm_act   act;
} lm_traits;

void lm_find_traits(const lm_ledger *l, lm_traits *out);

/* Return the term: "GQA"; "RMSNorm"; "Pre"; "yarn". */
lm_word lm_sharing_word(lm_head_sharing s);
lm_word lm_norm_word(lm_norm_kind k);
lm_word lm_norm_position_word(lm_norm_position p);
lm_word lm_activation_word(const lm_traits *t);
lm_word lm_scaling_word(const lm_rope_spec *s);

/* Return whether the frequencies of a table differ from those of its base: scaled by a rule, or stored in the
 * file. */
bool lm_is_scaled(const lm_rope_spec *s);
bool lm_is_stored(const lm_rope_spec *s);

/* Return "GQA", "MHA+SWA", "MLA", written to `out`. */
const char *lm_attention_name(const lm_traits *t, char *out, size_t n);
/* Return "RoPE+YaRN", "Learned"; the id contains only the kind: "rope". */
lm_word lm_position_word(const lm_traits *t);
/* Return the keys j that a query i sees: "0 <= i - j < 4096", for all layers or with their number; in the
 * reader's language. */
const char *lm_mask_text(const lm_traits *t, char *out, size_t n);
/* Return the rotary table of the queries and keys of the first layer that rotates them and has no window;
 * 0: none does. */
uint32_t lm_main_rope(const lm_program *p);
/* Return "SwiGLU", "GELU", "SwiGLU+MoE". */
const char *lm_mlp_name(const lm_traits *t, char *out, size_t n);

#endif

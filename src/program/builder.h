/* builder.h - describing a model: what families call.
 *
 * A builder records operations in the order they run. Modules are opened with lm_push and closed with lm_pop; leaf modules
 * (linear, norms, embedding) name themselves. Failures stick: the first is reported by lm_builder_finish, calls after it do
 * nothing. Widths are inferred and checked here. */
#ifndef LM_PROGRAM_BUILDER_H
#define LM_PROGRAM_BUILDER_H

#include "program/program.h"

typedef struct lm_builder lm_builder;

/* How GGUF calls the modules of a family: both sides may hold one '*', the layer number. */
typedef struct lm_name {
    const char *module;          /* "model.layers.*.self_attn.q_proj" */
    const char *gguf;            /* "blk.*.attn_q" */
} lm_name;

/* Prints list modules in the order they were made, programs hold them in the order they run. Where the two differ: the end of a
 * class, and names of its children; "*" for all others as they run. */
typedef struct lm_order {
    const char *class_name;      /* "Attention" */
    const char *children;        /* "q_proj k_proj v_proj o_proj *" */
} lm_order;

/* `class_prefix`: of the modules' classes; the root is that and `head_class` ("ForCausalLM" when NULL). `names` ends with a
 * {NULL, NULL} row. */
lm_builder *lm_builder_new(const char *family, const char *class_prefix, const char *head_class, const lm_name *names);

/* The program, or the first failure. Frees the builder in both cases. */
lm_status lm_builder_finish(lm_builder *b, lm_value logits, lm_program **out, lm_error *e);

/* ---- modules ---- */
void lm_push(lm_builder *b, const char *name, const char *class_name);       /* class_name: "%s" stands for the prefix */
void lm_pop(lm_builder *b);
void lm_push_layer(lm_builder *b, uint32_t layer, const char *class_name);   /* module named by its number */
void lm_leaf(lm_builder *b, const char *name, const char *class_name);       /* a module without an operation of its own */

/* A module that hands on what it gets (dropout, when a model runs). */
void lm_leaf_passing(lm_builder *b, const char *name, const char *class_name, lm_value x);
void lm_dropout(lm_builder *b, const char *name, float p, lm_value x);      /* LM_NONE: of weights that no value shows */
/* Of the module that was closed last: see lm_module.says. */
void lm_module_arguments(lm_builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Its class, where the family has one of its own. */
void lm_class_is(lm_builder *b, const char *class_name);
/* Orders of a family, ahead of those that most have; ends with a {NULL, NULL} row. NULL: it has none. Not copied. */
void lm_made_in_order(lm_builder *b, const lm_order *orders);
/* Activations from here on: "act_fn" and the class that fits the function where NULL. Neither is copied. */
void lm_activations_are(lm_builder *b, const char *name, const char *class_name);
/* Of the module that is open: see lm_module.by_position. */
void lm_called_by_position(lm_builder *b);

/* ---- operations: [T][in] -> [T][out] ---- */
lm_value lm_embedding(lm_builder *b, const char *name, uint32_t rows, uint32_t width);
/* Rows times a factor, inside the module. */
lm_value lm_embed_scaled(lm_builder *b, const char *name, const char *scaled_class, uint32_t rows, uint32_t width, float factor);
lm_value lm_linear(lm_builder *b, const char *name, lm_value x, uint32_t out, bool bias);
/* The head: its own matrix, or the table at `tied_to` ("model.embed_tokens") when not NULL. */
lm_value lm_head(lm_builder *b, const char *name, lm_value x, uint32_t n_vocab, const char *tied_to);
lm_value lm_rms_norm(lm_builder *b, const char *name, lm_value x, float eps);
/* Each of n_heads equal parts by itself, all with one weight of a head's width (QK norm). */
lm_value lm_rms_norm_heads(lm_builder *b, const char *name, lm_value x, uint32_t n_heads, float eps);
lm_value lm_layer_norm(lm_builder *b, const char *name, lm_value x, float eps, bool bias);
/* The same of each of n_heads equal parts by itself: all with one weight and bias of a head's width (rows 0), or each with
 * a row of its own and no bias (rows n_heads). A '*' in `name` stands for the number of a head that is stored by itself. */
lm_value lm_layer_norm_heads(lm_builder *b, const char *name, lm_value x, uint32_t n_heads, uint32_t rows, float eps);
lm_value lm_rope(lm_builder *b, lm_value x, uint32_t n_heads, const lm_rope_spec *spec);
/* `v` is ignored where spec->v_in_k says that values are lanes of the keys. */
lm_value lm_attention(lm_builder *b, lm_value q, lm_value k, lm_value v, const lm_attention_spec *spec);
lm_value lm_add(lm_builder *b, lm_value x, lm_value y);
lm_value lm_scale(lm_builder *b, lm_value x, float factor);
lm_value lm_glu(lm_builder *b, lm_value gate, lm_value up, lm_act act);      /* act(gate) * up */
/* act(gate) * x, the gate one lane for all of x. */
lm_value lm_gate(lm_builder *b, const char *word, lm_value gate, lm_value x, lm_act act);
lm_value lm_activate(lm_builder *b, lm_value x, lm_act act);                 /* act(x), a module by itself */
/* A row of the learned table of positions (arXiv 1810.04805's kind); row = position + offset. `rows` limits the context. */
lm_value lm_position_embed(lm_builder *b, const char *name, uint32_t rows, uint32_t width, uint32_t offset);
lm_value lm_sinusoid(lm_builder *b, const char *name, uint32_t width, lm_sinusoid_layout layout, uint32_t offset);
/* Of each of `groups` equal parts of x the `width` lanes from `offset`, side by side: how fused projections are taken
 * apart. `word` names the value ("q"). */
lm_value lm_columns(lm_builder *b, const char *word, lm_value x, uint32_t groups, uint32_t offset, uint32_t width);
/* Group by group, x's lanes and then y's; `y_shared`: y is one group that all of them get. */
lm_value lm_join(lm_builder *b, const char *word, lm_value x, lm_value y, uint32_t groups, bool y_shared);
lm_value lm_softcap(lm_builder *b, lm_value x, float cap);
lm_value lm_clamp(lm_builder *b, lm_value x, float limit);

/* ---- latent attention (arXiv 2405.04434, 2.1) ----
 * Keys and values are the projection `name` of a latent that all heads share, keys followed by a rotated part that all
 * heads share too. names[2]: what a container that stores keys' and values' part apart calls them inside the open module.
 *   q_nope [T][H n]  q_pe [T][H r] rotated  latent [T][c] normalised  k_pe [T][r] rotated  ->  [T][H v]
 *   spec   n_heads, k_dim = n + r, v_dim = v and the scale; the rest as its heads would have it without a latent
 * Two forms of the same sums. Absorbed: the projection of keys is moved to the queries and that of values behind the
 * softmax, and the cache holds latent and k_pe alone. Naive: keys and values of every head are made and kept. */
lm_value lm_latent_attention(lm_builder *b, const char *name, const char *const names[2], lm_value q_nope, lm_value q_pe,
                             lm_value latent, lm_value k_pe, const lm_attention_spec *spec);
/* For the whole program, before anything is recorded; absorbed otherwise. */
void lm_latent_naive(lm_builder *b);

/* ---- mixtures of experts (arXiv 1701.06538, 2401.04088, 2405.04434) ---- */
/* `correction`: name of a vector [E] added to the scores for the choice alone ("e_score_correction_bias"), or NULL. */
lm_value lm_route(lm_builder *b, lm_value router_logits, const lm_route_spec *spec, const char *correction);
/* The experts' gated MLPs: names[3] are those of gate, up and down ("gate_proj" …) inside "NAME.*". */
typedef struct lm_expert_spec {
    uint32_t    n_experts, top_k, width;
    lm_act      act;
    float       limit;           /* > 0: act(min(gate, limit)) * (up within +- limit, + 1); 0: act(gate) * up */
    bool        bias;            /* of all three */
    const char *names[3];
    /* folders that keep gate and up in one tensor of the module that is open, and down in another (lm_interleaved); NULL: experts
     * one by one. In four bits NAME_blocks and NAME_scales, biases NAME_bias. */
    const char *joined, *alone;
    bool        in_turns;        /* rows of gate and up take turns; else first all gates */
    bool        transposed;      /* stored [experts, in, out] */
} lm_expert_spec;
lm_value lm_experts_of(lm_builder *b, const char *name, lm_value x, lm_value route, const lm_expert_spec *spec);
lm_value lm_experts(lm_builder *b, const char *name, lm_value x, lm_value route, uint32_t n_experts, uint32_t top_k, uint32_t width,
                    lm_act act, const char *const names[3]);

/* Properties of the weights of the operation that made `x`, when they differ from nn.Linear's and plain norms'. */
void lm_stored_transposed(lm_builder *b, lm_value x);        /* Hugging Face checkpoints store [in, out]; prints as Conv1D */
void lm_stored_minus_one(lm_builder *b, lm_value x);         /* Hugging Face checkpoints store w - 1 */
void lm_with_bias(lm_builder *b, lm_value x);                /* a bias for a head that shares its matrix */

/* Facts about the whole. */
void lm_context_length(lm_builder *b, uint32_t positions, bool hard);

#endif

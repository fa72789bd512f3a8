/* builder.h - the interface with which families describe a model.
 *
 * A builder records operations in the order they run. Modules are opened with lm_push and closed with lm_pop;
 * leaf modules (linear, norms, embedding) open and close themselves. Failures are sticky: lm_builder_finish
 * reports the first one, and calls after it do nothing. Widths are inferred and checked. */
#ifndef LM_PROGRAM_BUILDER_H
#define LM_PROGRAM_BUILDER_H

#include "program/program.h"

typedef struct lm_builder lm_builder;

/* The GGUF names of the modules of a family. Both sides may contain one '*', the layer number. */
typedef struct lm_name {
    const char *module;          /* "model.layers.*.self_attn.q_proj" */
    const char *gguf;            /* "blk.*.attn_q" */
} lm_name;

/* transformers prints modules in the order in which they are created; programs store them in the order in
 * which they run. If these differ: the end of a class name, and the names of its children; "*" stands for all
 * others, in the order in which they run. */
typedef struct lm_order {
    const char *class_name;      /* "Attention" */
    const char *children;        /* "q_proj k_proj v_proj o_proj *" */
} lm_order;

/* Create a builder; NULL if there is no memory. `class_prefix`: prefix of the modules' classes; the class of
 * the root is `root_class` (NULL: the prefix and "ForCausalLM"). `names` ends with a {NULL, NULL} row and
 * must outlive the builder. */
lm_builder *lm_builder_new(const char *family, const char *class_prefix, const char *root_class,
                           const lm_name *names);

/* Return the program, or the first failure. The builder is freed in both cases. */
lm_status lm_builder_finish(lm_builder *b, lm_value logits, lm_program **out, lm_error *e);

/* ---- modules ---- */
/* class_name: "%s" stands for the prefix */
void lm_push(lm_builder *b, const char *name, const char *class_name);
void lm_pop(lm_builder *b);
/* the module's name is its number */
void lm_push_layer(lm_builder *b, uint32_t layer, const char *class_name);
/* A module whose operations do not follow one another: it can be opened again, and so can those in it. Up to
 * its lm_pop, all modules are such. */
void lm_push_apart(lm_builder *b, const char *name, const char *class_name);
/* a module without its own operation */
void lm_leaf(lm_builder *b, const char *name, const char *class_name);

/* Record a module that returns its input unchanged (dropout, during inference). */
void lm_leaf_passing(lm_builder *b, const char *name, const char *class_name, lm_value x);
/* x LM_NONE: its input is not a value of the program */
void lm_dropout(lm_builder *b, const char *name, float p, lm_value x);
/* Set lm_module.extra_repr of the module that was opened last. */
void lm_module_arguments(lm_builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Set the class of the module that was opened last, if the family has its own class for it. */
void lm_class_is(lm_builder *b, const char *class_name);
/* Set the orders of a family, which take precedence over the common ones. `orders` ends with a {NULL, NULL}
 * row; NULL: none. Not copied. */
void lm_made_in_order(lm_builder *b, const lm_order *orders);
/* Set the name and class of the activation modules recorded from now on. NULL: "act_fn", and the class of the
 * function. "": the activations of gates are no modules. Not copied. */
void lm_activations_are(lm_builder *b, const char *name, const char *class_name);
/* Set lm_module.by_position of the open module. */
void lm_called_by_position(lm_builder *b);

/* ---- operations: [T][in] -> [T][out] ---- */
lm_value lm_embedding(lm_builder *b, const char *name, uint32_t rows, uint32_t width);
/* An embedding whose rows are multiplied by a factor within the module. */
lm_value lm_embed_scaled(lm_builder *b, const char *name, const char *scaled_class, uint32_t rows,
                         uint32_t width, float factor);
lm_value lm_linear(lm_builder *b, const char *name, lm_value x, uint32_t out, bool bias);
/* Round each row to eight bits: x s to the nearest integer, half to even, from -128 to 127, divided by s, for
 * s = 127 / max(largest |x|, 1e-5) (arXiv 2402.17764). The reverse passes the gradient unchanged. */
lm_value lm_round_row(lm_builder *b, const char *word, lm_value x);
/* Record every later lm_linear as a product with a matrix of -1, 0 and 1 (the same paper): its input is
 * rounded by lm_round_row, its output is multiplied by weight_scale, a number of the module. */
typedef struct lm_ternary {
    const char *class_name;      /* of these modules; NULL: there are none */
    bool        inverse;         /* checkpoints store 1 / weight_scale */
    bool        bias_after;      /* weight_scale does not multiply a bias */
    bool        online;          /* checkpoints may store floats, which are rounded when they are read */
} lm_ternary;
void lm_ternary_linears(lm_builder *b, const lm_ternary *form);
/* A product with a matrix that is itself a parameter of the open module. */
lm_value lm_linear_of(lm_builder *b, const char *name, lm_value x, uint32_t out);
/* Multiply each of n equal parts of x by its own matrix, one after the other in the weight of a module:
 * [n out, in]. */
lm_value lm_grouped_linear(lm_builder *b, const char *name, const char *class_name, lm_value x, uint32_t n,
                           uint32_t out);
/* The head: with its own matrix, or with the table at `tied_to` ("model.embed_tokens") if not NULL. */
lm_value lm_head(lm_builder *b, const char *name, lm_value x, uint32_t n_vocab, const char *tied_to);
/* Multiply each of n_heads equal parts of x by its own matrix, and add a bias: parameters of the open module,
 * which Hugging Face checkpoints store as [n_heads, in, out] and [n_heads, out]. */
lm_value lm_head_linear(lm_builder *b, const char *weight, const char *bias, lm_value x, uint32_t n_heads,
                        uint32_t out);
/* A list of n modules, each with its own matrix: of all of x (`shared`), or of an equal part. GGUF stores
 * their matrices as one tensor. */
lm_value lm_part_linears(lm_builder *b, const char *name, lm_value x, uint32_t n, uint32_t out, bool shared);
lm_value lm_rms_norm(lm_builder *b, const char *name, lm_value x, float eps);
/* Normalise each of n_heads equal parts separately, all with one weight of a head's width (QK norm). */
lm_value lm_rms_norm_heads(lm_builder *b, const char *name, lm_value x, uint32_t n_heads, float eps);
/* The same, then multiplied by act(gate), in one module. */
lm_value lm_rms_norm_gated(lm_builder *b, const char *name, lm_value x, lm_value gate, uint32_t n_heads,
                           float eps, lm_act act);
/* The same without a weight, in a module of this class. */
lm_value lm_rms_unweighted(lm_builder *b, const char *name, const char *class_name, lm_value x,
                           uint32_t n_heads, float eps);
/* RMSNorm of each of n_heads equal parts; no weight, not a module. */
lm_value lm_rms_heads(lm_builder *b, const char *word, lm_value x, uint32_t n_heads, float eps);
/* Divide each of n_heads equal parts by its length, sqrt(sum(x^2) + eps), and multiply by `factor`; no
 * weight, not a module. */
lm_value lm_unit_heads(lm_builder *b, const char *word, lm_value x, uint32_t n_heads, float eps,
                       float factor);
/* Normalise each of n_groups equal parts separately, each with its own part of the weight; then multiply by
 * silu(gate), if `gate` is not LM_NONE. GGUF stores the weight as a matrix. */
lm_value lm_rms_norm_groups(lm_builder *b, const char *name, lm_value x, uint32_t n_groups, lm_value gate,
                            float eps);
lm_value lm_layer_norm(lm_builder *b, const char *name, lm_value x, float eps, bool bias);
/* The same without a weight and a bias. */
lm_value lm_layer_unweighted(lm_builder *b, const char *name, lm_value x, float eps);
/* The same for each of n_heads equal parts separately: all with one weight and bias of a head's width (rows
 * 0), or each with its own row and no bias (rows n_heads). A '*' in `name` stands for the number of a head
 * that is stored separately. */
lm_value lm_layer_norm_heads(lm_builder *b, const char *name, lm_value x, uint32_t n_heads, uint32_t rows,
                             float eps);
lm_value lm_rope(lm_builder *b, lm_value x, uint32_t n_heads, const lm_rope_spec *spec);
/* `v` is ignored if spec->v_in_k is set: values are then lanes of the keys. */
lm_value lm_attention(lm_builder *b, lm_value q, lm_value k, lm_value v, const lm_attention_spec *spec);
/* Attention to the keys and values of an earlier attention, whose output is `other`: nothing more is stored.
 * The specs must agree in all that the cache depends on. */
lm_value lm_shared_attention(lm_builder *b, lm_value q, lm_value other, const lm_attention_spec *spec);
/* Choose the keys of sparse attention (arXiv 2512.02556): of the positions s <= t the top_k with the highest
 *   scale sum over heads h of w[h] max(q[h] . k[s], 0)
 * Equal scores: the lowest positions first. q [T][n_heads k_dim], k [T][k_dim], which is stored in a cache of
 * its own, w [T][n_heads] -> positions in rising order [T][top_k]; -1 past the last.
 * With spec->block, every head chooses blocks of keys of its own, by the highest q[h] . k[s] of a block's
 * visible keys, without weights (w LM_NONE); spec->n_choices is set to n_heads. -> numbers of blocks
 * [T][n_heads][top_k / block].
 * With spec->rate, k is read in the last rows of blocks only, which are entries, and these are chosen. */
lm_value lm_select_keys(lm_builder *b, const char *word, lm_value q, lm_value k, lm_value w,
                        const lm_attention_spec *spec);
/* Return what select_keys has chosen last; LM_NONE: nothing yet. */
lm_value lm_last_choice(const lm_builder *b);
/* lm_attention whose queries see only the chosen keys; spec->top_k: their number. top_k, block and n_choices
 * are those of the choice. */
lm_value lm_sparse_attention(lm_builder *b, lm_value q, lm_value k, lm_value v, lm_value chosen,
                             const lm_attention_spec *spec);
/* A softmax-weighted mean over each block of `rate` positions, lane by lane: kv, gate [T][n] ->
 * [T][n], of the block's positions up to the row's own, so the last row of a block has its entry:
 *   sum over j of softmax_j(gate_j + position_bias[j mod rate]) kv_j
 * overlap: kv, gate [T][2 n] -> [T][n]; the second n lanes are those of the block, and the first n lanes of
 * the positions of the block before it count too. The open module has the parameter position_bias. */
lm_value lm_compress(lm_builder *b, const char *word, lm_value kv, lm_value gate, uint32_t rate,
                     bool overlap);
/* lm_sparse_attention with spec->rate: queries see a window of keys, and entries [T][k_dim], of which only
 * those of the last rows of blocks are read: all, or the chosen ones. Values are lanes of both. */
lm_value lm_compressed_attention(lm_builder *b, lm_value q, lm_value k, lm_value entries, lm_value chosen,
                                 const lm_attention_spec *spec);
/* A depthwise convolution over positions, causal: y[t][c] = bias[c] + sum over j < taps of
 * w[c][j] x[t - taps + 1 + j][c]; x is zero before the first position. */
lm_value lm_causal_conv(lm_builder *b, const char *name, lm_value x, uint32_t taps, bool bias);
/* q, k [T][n_key_heads k_dim], v [T][n_heads v_dim], decay [T][n_heads] or [T][n_heads k_dim] (the factor
 * itself, not its logarithm), beta [T][n_heads] -> [T][n_heads v_dim]. S is zero before the first
 * position. */
lm_value lm_linear_recurrence(lm_builder *b, const char *word, const lm_recurrence *r, lm_value q,
                              lm_value k, lm_value v, lm_value decay, lm_value beta);
/* Selective scan (arXiv 2312.00752): every lane i of x carries N numbers, and A_log, a parameter of the open
 * module, is [lanes][N]; GGUF stores -exp(A_log):
 *   S[i][n] <- exp(-exp(A_log[i][n]) delta[i]) S[i][n] + delta[i] x[i] B[n]
 *   y[i] = sum over n of S[i][n] C[n]
 * C, B [T][N], x, delta [T][lanes] -> [T][lanes] */
enum { LM_MAX_SCAN_STATE = 256 };
lm_value lm_selective_scan(lm_builder *b, const char *word, const char *name, lm_value C, lm_value B,
                           lm_value x, lm_value delta);
/* Real-gated linear recurrent unit (arXiv 2402.19427, 2.4): every lane carries one number; `name` is a
 * parameter of the open module, [lanes], r a gate between 0 and 1:
 *   a = exp(-8 r softplus(name)), h <- a h + sqrt(1 - a^2) x; at position 0, h <- x
 * x, r [T][lanes] -> h [T][lanes] */
lm_value lm_gated_recurrence(lm_builder *b, const char *word, const char *name, lm_value x, lm_value r);
/* Operations with a parameter of the open module. A row of the family's table has its whole GGUF name:
 * { "model.layers.*.mixer.dt_bias", "blk.*.ssm_dt.bias" }.
 *   x + w                   w as wide as x ("dt_bias")
 *   w[i] x                  w has n entries, each for an equal part of x ("D")
 *   exp(-exp(w[h]) x)       w has n entries, each for an equal part of x ("A_log"); GGUF stores -exp(w) */
lm_value lm_add_bias(lm_builder *b, const char *name, lm_value x);
lm_value lm_scale_by_weight(lm_builder *b, const char *name, lm_value x, uint32_t n);
lm_value lm_decay(lm_builder *b, const char *name, lm_value x, uint32_t n);
/* The same with a lower bound: exp(bound sigmoid(exp(w[h]) x)), bound < 0; GGUF stores exp(w). */
lm_value lm_bounded_decay(lm_builder *b, const char *name, lm_value x, uint32_t n, float bound);
/* Set that GGUF stores the vector of the operation that computes x as a column: [n, 1]. */
void lm_column_in_gguf(lm_builder *b, lm_value x);
/* The same, and Hugging Face checkpoints store it as [1, 1, n, 1]. */
void lm_padded_column(lm_builder *b, lm_value x);
/* Set that GGUF, too, stores the weight of the convolution that computes x as [n, 1, taps]. */
void lm_between_in_gguf(lm_builder *b, lm_value x);
lm_value lm_add(lm_builder *b, lm_value x, lm_value y);
lm_value lm_mul(lm_builder *b, const char *word, lm_value x, lm_value y);    /* lane by lane */
/* Add to each of n equal parts of x a weighted sum of the parts of z, which are as wide: y_j = x_j + sum over
 * i of (plus + c[j m + i]) z_i, for the m parts of z. c [T][n m]; LM_NONE: c is 0. Parts before `first` are
 * unchanged. */
lm_value lm_mix(lm_builder *b, const char *word, lm_value x, lm_value z, lm_value c, uint32_t n,
                uint32_t first, float plus);
/* Scale each of n equal parts of x to the root mean square of y, which is as wide as a part. That of x counts
 * as sqrt(1e-5) at least. */
lm_value lm_match_rms(lm_builder *b, const char *word, lm_value x, lm_value y, uint32_t n);
/* Hyper-connections of n <= LM_MAX_CONNECTED streams, the equal parts h_j of x (arXiv 2512.24880).
 * lm_repeat_stream: n streams that are all x. lm_connections: from x [T][n (n + 2)], with two parameters of
 * the open module, base [n (n + 2)] and scale [3],
 *   n numbers    sigmoid(scale[0] x + base) + eps, what a branch reads of each stream
 *   n numbers    2 sigmoid(scale[1] x + base), what each stream gets from it
 *   [n][n]       softmax of rows of scale[2] x + base, plus eps; divided by the sums of columns, then by
 *                those of rows and of columns spec->rounds - 1 times, each plus eps
 * or the first n alone, with scale [1] (spec->ends). lm_blend_streams: sum over j of c_j h_j, with the first
 * n numbers. lm_merge_streams: c_(n+k) y + sum over j of M_jk h_j for every k. */
lm_value lm_repeat_stream(lm_builder *b, const char *word, lm_value x, uint32_t n);
lm_value lm_connections(lm_builder *b, const char *word, lm_value x, const char *const names[2],
                    const lm_connect_spec *spec);
lm_value lm_blend_streams(lm_builder *b, const char *word, lm_value x, lm_value c, uint32_t n);
lm_value lm_merge_streams(lm_builder *b, const char *word, lm_value x, lm_value y, lm_value c, uint32_t n);
/* max(x - mean(x) - c std(x), 0) over all lanes: keeps what is c deviations above the mean. */
lm_value lm_gaussian_top(lm_builder *b, const char *word, lm_value x, float c);
lm_value lm_scale(lm_builder *b, lm_value x, float factor);
lm_value lm_temperature(lm_builder *b, lm_value x, const lm_temperature_spec *spec);  /* of queries */
lm_value lm_glu(lm_builder *b, lm_value gate, lm_value up, lm_act act);      /* act(gate) * up */
/* act(min(gate, limit)) * (clamp(up, -limit, limit) + plus), as of lm_expert_spec */
lm_value lm_glu_clamped(lm_builder *b, lm_value gate, lm_value up, lm_act act, float limit, float plus);
/* act(gate) * x, not a module; each lane of the gate is for an equal part of x. */
lm_value lm_gate(lm_builder *b, const char *word, lm_value gate, lm_value x, lm_act act);
lm_value lm_activate(lm_builder *b, lm_value x, lm_act act);                 /* act(x), a separate module */
/* xIELU (arXiv 2411.13010), a module with two parameters and two constants of its own; x > 0:
 * softplus(alpha_p) x^2 + beta x, else (beta + softplus(alpha_n)) (e^min(x, eps) - 1 - x) + beta x. */
lm_value lm_xielu_of(lm_builder *b, lm_value x);
lm_value lm_function(lm_builder *b, const char *word, lm_value x, lm_act act); /* act(x), not a module */
/* Set that GGUF stores the rows of the weight of the operation that computes x multiplied by folds [n], one
 * after the other, and its bias too, but not by folds [of_input]: a factor of the input, the first or the
 * last. n: there is none. */
void lm_fold_in_gguf(lm_builder *b, lm_value x, const lm_fold *folds, uint32_t n, uint32_t of_input);
/* A row of a learned position table (as in arXiv 1810.04805); row = position + offset. `rows` limits the
 * context. */
lm_value lm_position_embed(lm_builder *b, const char *name, uint32_t rows, uint32_t width, uint32_t offset);
lm_value lm_sinusoid(lm_builder *b, const char *name, uint32_t width, lm_sinusoid_layout layout,
                     uint32_t offset);
/* lm_clamp: between -limit and limit. */
lm_value lm_clamp_between(lm_builder *b, lm_value x, float low, float high);
/* Concatenate, from each of `groups` equal parts of x, the `width` lanes from `offset` on. This takes fused
 * projections apart. `word` names the value ("q"). */
lm_value lm_columns(lm_builder *b, const char *word, lm_value x, uint32_t groups, uint32_t offset,
                    uint32_t width);
/* Concatenate, group by group, the lanes of x and those of y; `y_shared`: y is one group, repeated for all
 * groups. */
lm_value lm_join(lm_builder *b, const char *word, lm_value x, lm_value y, uint32_t groups, bool y_shared);
lm_value lm_softcap(lm_builder *b, lm_value x, float cap);
lm_value lm_clamp(lm_builder *b, lm_value x, float limit);

/* ---- latent attention (arXiv 2405.04434, 2.1) ----
 * Keys and values are the projection `name` of a latent that all heads share; keys are followed by a rotated
 * part that all heads share too. names[2]: the names of the keys' and the values' part within the open module
 * in containers that store them separately.
 *   q_nope [T][H n]  q_pe [T][H r] rotated  latent [T][c] normalised  k_pe [T][r] rotated  ->  [T][H v]
 *   spec   n_heads, k_dim = n + r, v_dim = v and the scale; the other members as for attention without a
 *   latent
 *   chosen as for lm_sparse_attention; LM_NONE: attention to all keys
 * There are two equivalent forms. Absorbed: the projection of keys is applied to the queries and that of
 * values after the softmax, and the cache stores only latent and k_pe. Naive: keys and values of every head
 * are computed and stored. */
lm_value lm_latent_attention(lm_builder *b, const char *name, const char *const names[2], lm_value q_nope,
                             lm_value q_pe, lm_value latent, lm_value k_pe, lm_value chosen,
                             const lm_attention_spec *spec);
/* Use the naive form in the whole program; call it before anything is recorded. The default is absorbed. */
void lm_latent_naive(lm_builder *b);

/* ---- mixtures of experts (arXiv 1701.06538, 2401.04088, 2405.04434) ---- */
/* `correction`: name of a vector [E] that is added to the scores only for the choice
 * ("e_score_correction_bias"), or NULL. */
lm_value lm_route(lm_builder *b, lm_value router_logits, const lm_route_spec *spec, const char *correction);
/* Set that the experts of these routes are those that a table of the open module has for the token, [rows,
 * top_k], a constant that files store as integers; the logits give only their weights. */
void lm_route_by_token(lm_builder *b, lm_value route, const char *name, uint32_t rows);
/* Set that Hugging Face checkpoints store the correction of this choice as [1, E]; that GGUF files name it
 * without a suffix. */
void lm_correction_in_row(lm_builder *b, lm_value route);
void lm_correction_unsuffixed(lm_builder *b, lm_value route);
/* Multiply the weights of the experts in these routes by the entries of a vector [E], a parameter of the open
 * module. */
void lm_scale_routes(lm_builder *b, lm_value route, const char *name);
/* The experts' gated MLPs. names[3]: gate, up and down ("gate_proj" …) within "NAME.*". */
typedef struct lm_expert_spec {
    uint32_t    n_experts, top_k, width;
    lm_act      act;
    float       limit;           /* > 0: act(min(gate, limit)) * (clamp(up, -limit, limit) + plus); 0:
                                    act(gate) * up */
    float       plus;
    bool        bias;            /* of all three */
    const char *names[3];        /* gate NULL: none; act must be relu2 */
    /* the names in folders that store gate and up in one tensor of the open module, and down in another
     * (lm_interleaved); NULL: each expert is stored separately. In four bits: NAME_blocks and NAME_scales;
     * biases: NAME_bias. */
    const char *joined, *alone;
    bool        four_bits;       /* folders may store them in MXFP4, as the models of the family are
                                    published */
    bool        in_turns;        /* rows of gate and up alternate; else all rows of gate come first */
    bool        transposed;      /* stored [experts, in, out] */
    bool        scaled_input;    /* the weight of an expert multiplies its input; else its output */
} lm_expert_spec;
lm_value lm_experts_of(lm_builder *b, const char *name, lm_value x, lm_value route,
                       const lm_expert_spec *spec);
lm_value lm_experts(lm_builder *b, const char *name, lm_value x, lm_value route, uint32_t n_experts,
                    uint32_t top_k, uint32_t width, lm_act act, const char *const names[3]);

/* Properties of the weights of the operation that produced `x`, if they differ from those of nn.Linear and
 * plain norms. */
void lm_stored_transposed(lm_builder *b, lm_value x);        /* Hugging Face checkpoints store [in, out];
                                                                printed as Conv1D */
void lm_stored_minus_one(lm_builder *b, lm_value x);         /* Hugging Face checkpoints store w - 1 */
/* in GGUF files; copied */
void lm_stored_in_layout(lm_builder *b, lm_value x, const lm_gguf_layout *layout);
/* GGUF files name the weight "blk.N.NAME.weight", whatever the family's table says of its module. */
void lm_named_in_gguf(lm_builder *b, lm_value x, const char *name);
void lm_with_bias(lm_builder *b, lm_value x);                /* a bias for a head that shares its matrix */

/* Properties of the whole program. `hard`: see lm_program.context_is_hard. */
void lm_context_length(lm_builder *b, uint32_t positions, bool hard);

#endif

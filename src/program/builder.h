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

/* `class_prefix`: "Llama"; the root module is "LlamaForCausalLM". `names` ends with a {NULL, NULL} row. */
lm_builder *lm_builder_new(const char *family, const char *class_prefix, const lm_name *names);

/* The program, or the first failure. Frees the builder in both cases. */
lm_status lm_builder_finish(lm_builder *b, lm_value logits, lm_program **out, lm_error *e);

/* ---- modules ---- */
void lm_push(lm_builder *b, const char *name, const char *class_name);       /* class_name: "%s" stands for the prefix */
void lm_pop(lm_builder *b);
void lm_push_layer(lm_builder *b, uint32_t layer, const char *class_name);   /* module named by its number */
void lm_leaf(lm_builder *b, const char *name, const char *class_name);       /* a module without an operation of its own */

/* ---- operations: [T][in] -> [T][out] ---- */
lm_value lm_embed(lm_builder *b, const char *name, uint32_t rows, uint32_t width);
lm_value lm_linear(lm_builder *b, const char *name, lm_value x, uint32_t out, bool bias);
/* The head: its own matrix, or the table at `tied_to` ("model.embed_tokens") when not NULL. */
lm_value lm_head(lm_builder *b, const char *name, lm_value x, uint32_t n_vocab, const char *tied_to);
lm_value lm_rms_norm(lm_builder *b, const char *name, lm_value x, float eps);
lm_value lm_layer_norm(lm_builder *b, const char *name, lm_value x, float eps, bool bias);
lm_value lm_rope(lm_builder *b, lm_value x, uint32_t n_heads, const lm_rope_spec *spec);
lm_value lm_attention(lm_builder *b, lm_value q, lm_value k, lm_value v, const lm_attention_spec *spec);
lm_value lm_add(lm_builder *b, lm_value x, lm_value y);
lm_value lm_scale(lm_builder *b, lm_value x, float factor);
lm_value lm_glu(lm_builder *b, lm_value gate, lm_value up, lm_act act);      /* act(gate) * up */

/* Facts about the whole. */
void lm_context_length(lm_builder *b, uint32_t positions, bool hard);

#endif

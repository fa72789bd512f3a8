/* gemma3n.c - Gemma 3n, text (Google, 2025): several residual streams (AltUp, arXiv 2301.13310), of which
 * each layer computes one and predicts and corrects the others; a residual of low rank beside attention
 * (LAuReL, arXiv 2411.07501); inputs of each layer; last layers that read the keys and values of earlier
 * ones; and in the first layers, MLPs that keep only the largest gates. */
#include "arch/families.h"

#include <inttypes.h>
#include <math.h>

#include "base/number.h"

typedef struct gemma3n {
    uint32_t     inputs, input_rows;     /* width of the inputs of each layer, tokens of their table */
    uint32_t     streams, active, rank;  /* residual streams, the one that layers compute; rank of LAuReL */
    float        cap;                    /* of the logits; 0: none */
    bool         scaled;                 /* the corrected stream is multiplied by a vector */
    double       local_base;
    lm_rope_spec local;                  /* the rotation of layers with a window */
} gemma3n;
LM_OWN_FITS(gemma3n);

/* ---- what Gemma 4 has, too ---- */

lm_value lm_gemma3n_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    lm_value y = lm_rms_norm(b, name, x, c->norm_eps);

    lm_module_arguments(b, "=");
    return y;
}

lm_value lm_gemma3n_unweighted(lm_builder *b, const lm_config *c, const char *name, lm_value x,
                               uint32_t n_heads)
{
    lm_value y = lm_rms_unweighted(b, name, "%sRMSNorm", x, n_heads, c->norm_eps);

    lm_module_arguments(b, "=");
    return y;
}

static lm_value norm_heads(lm_builder *b, const lm_config *c, const char *name, lm_value x, uint32_t n_heads)
{
    lm_value y = lm_rms_norm_heads(b, name, x, n_heads, c->norm_eps);

    lm_module_arguments(b, "=");
    return y;
}

bool lm_gemma3n_reads_earlier(const lm_config *c, uint32_t layer)
{
    return layer >= c->n_layers - c->n_readers;
}

lm_status lm_gemma3n_readers(const lm_source *s, int64_t fallback, lm_config *c, lm_error *e)
{
    bool seen[2] = { false, false };

    LM_TRY(lm_read_u32(s, "num_kv_shared_layers", "attention.shared_kv_layers", 0, c->n_layers - 1, fallback,
                       &c->n_readers, e));
    for (uint32_t i = 0; i < c->n_layers; i++) {
        bool *of_kind = &seen[c->full[i]];
        if (lm_gemma3n_reads_earlier(c, i) && !*of_kind)
            return lm_wrong(s, "num_kv_shared_layers", "attention.shared_kv_layers", e,
                            "layer %u reads the keys of an earlier layer %s a window; there is none", i,
                            c->full[i] ? "without" : "with");
        *of_kind = true;
    }
    return LM_OK;
}

lm_value lm_gemma3n_attention(lm_builder *b, const lm_config *c, uint32_t layer, const lm_rope_spec *local,
                              bool k_is_v, lm_value x, lm_value last[2])
{
    lm_attention_spec   a    = lm_layer_attention(c, layer);
    bool                full = c->full[layer];
    const lm_rope_spec *rope = full ? &c->rope : local;
    lm_value            y;

    lm_push(b, "self_attn", "%sTextAttention");
    lm_value q = lm_linear(b, "q_proj", x, a.n_heads * a.k_dim, c->bias_qkv);
    q          = lm_rope(b, norm_heads(b, c, "q_norm", q, a.n_heads), a.n_heads, rope);
    if (lm_gemma3n_reads_earlier(c, layer)) {
        y = lm_shared_attention(b, q, last[full], &a);
    } else {
        uint32_t width = a.n_kv_heads * a.k_dim;
        lm_value k     = lm_linear(b, "k_proj", x, width, c->bias_qkv);
        lm_value v     = k_is_v && full ? k : lm_linear(b, "v_proj", x, width, c->bias_qkv);
        k = lm_rope(b, norm_heads(b, c, "k_norm", k, a.n_kv_heads), a.n_kv_heads, rope);
        v = lm_gemma3n_unweighted(b, c, "v_norm", v, a.n_kv_heads);
        y = last[full] = lm_attention(b, q, k, v, &a);
    }
    y = lm_linear(b, "o_proj", y, c->hidden, c->bias_o);
    lm_pop(b);
    return y;
}

lm_value lm_gemma3n_inputs(lm_builder *b, const lm_config *c, uint32_t rows, uint32_t each, lm_value x)
{
    uint32_t width = c->n_layers * each;
    lm_value found = lm_embed_scaled(b, "embed_tokens_per_layer", "%sTextScaledWordEmbedding", rows, width,
                                     sqrtf((float)each));

    lm_set_padding(b, c);
    lm_value y = lm_linear(b, "per_layer_model_projection", x, width, false);
    y = lm_scale(b, y, 1 / sqrtf((float)c->hidden));
    y = norm_heads(b, c, "per_layer_projection_norm", y, c->n_layers);
    return lm_scale(b, lm_add(b, y, found), sqrtf(0.5f));
}

/* A layer's own product with its inputs. */
lm_value lm_gemma3n_from_inputs(lm_builder *b, const lm_config *c, uint32_t layer, uint32_t each, lm_value x,
                                lm_value inputs)
{
    lm_value gate = lm_linear(b, "per_layer_input_gate", x, each, false);
    lm_value in   = lm_columns(b, "per_layer_input", inputs, 1, layer * each, each);

    x = lm_linear(b, "per_layer_projection", lm_glu(b, gate, in, c->act), c->hidden, false);
    return lm_gemma3n_norm(b, c, "post_per_layer_input_norm", x);
}

/* ---- streams ---- */

/* Return coefficients from a stream, [n] or [n n]: predict and correct have one router. */
static lm_value coefficients(lm_builder *b, const lm_config *c, const char *name, lm_value x, uint32_t n)
{
    const gemma3n *own = lm_own(c);

    x = lm_scale(b, lm_gemma3n_norm(b, c, "router_norm", x), 1 / (float)c->hidden);
    x = lm_linear(b, "modality_router", x, own->streams, false);
    return lm_linear(b, name, lm_function(b, "modalities", x, LM_ACT_TANH), n, false);
}

static lm_value active(lm_builder *b, const lm_config *c, lm_value x)
{
    const gemma3n *own = lm_own(c);

    return lm_columns(b, "active", x, 1, own->active * c->hidden, c->hidden);
}

static lm_value predict(lm_builder *b, const lm_config *c, lm_value x)
{
    uint32_t n = ((const gemma3n *)lm_own(c))->streams;

    lm_push_apart(b, "altup", "%sTextAltUp");
    lm_value k = coefficients(b, c, "prediction_coefs", active(b, c, x), n * n);
    x          = lm_mix(b, "predicted", x, x, k, n, 0, 0);
    lm_pop(b);
    return x;
}

/* Correct all streams by what the layer changed in one, and return that one too. */
static lm_value correct(lm_builder *b, const lm_config *c, lm_value x, lm_value y, lm_value *first)
{
    const gemma3n *own = lm_own(c);

    lm_push_apart(b, "altup", "%sTextAltUp");
    lm_value k    = coefficients(b, c, "correction_coefs", y, own->streams);
    lm_value news = lm_add(b, y, lm_scale(b, active(b, c, x), -1));
    x             = lm_mix(b, "corrected", x, news, k, own->streams, 0, 1);
    *first        = active(b, c, x);
    if (own->scaled)
        *first = lm_scale_by_weight(b, "correct_output_scale", *first, c->hidden);
    lm_pop(b);
    return x;
}

/* ---- a layer ---- */

static lm_value laurel(lm_builder *b, const lm_config *c, lm_value x)
{
    const gemma3n *own = lm_own(c);

    lm_push(b, "laurel", "%sTextLaurelBlock");
    lm_value y = lm_linear(b, "linear_left", x, own->rank, false);
    y          = lm_gemma3n_norm(b, c, "post_laurel_norm", lm_linear(b, "linear_right", y, c->hidden, false));
    y          = lm_add(b, x, y);
    lm_pop(b);
    return y;
}

static lm_value mlp(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_push(b, "mlp", "%sTextMLP");
    lm_value gate = lm_linear(b, "gate_proj", x, c->intermediate, false);
    lm_value up   = lm_linear(b, "up_proj", x, c->intermediate, false);
    if (c->gate_cut[layer] > -INFINITY)
        gate = lm_gaussian_top(b, "largest", gate, c->gate_cut[layer]);
    lm_value down = lm_linear(b, "down_proj", lm_glu(b, gate, up, c->act), c->hidden, false);
    lm_pop(b);
    return down;
}

static lm_value decoder_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x, lm_value inputs,
                              lm_value last[2])
{
    const gemma3n *own = lm_own(c);
    lm_value       first;

    x          = predict(b, c, x);
    lm_value y = active(b, c, x), h = lm_gemma3n_norm(b, c, "input_layernorm", y), low = laurel(b, c, h);
    h = lm_gemma3n_attention(b, c, layer, &own->local, false, h, last);
    y = lm_add(b, y, lm_gemma3n_norm(b, c, "post_attention_layernorm", h));
    y = lm_scale(b, lm_add(b, y, low), sqrtf(0.5f));
    h = mlp(b, c, layer, lm_gemma3n_norm(b, c, "pre_feedforward_layernorm", y));
    y = lm_add(b, y, lm_gemma3n_norm(b, c, "post_feedforward_layernorm", h));
    x = correct(b, c, x, y, &first);
    h = lm_gemma3n_from_inputs(b, c, layer, own->inputs, first, inputs);
    return lm_mix(b, "with_inputs", x, h, LM_NONE, own->streams, 1, 1);
}

/* ---- the model ---- */

/* The mean of the first stream and of products of the others, each as long as the first. */
static lm_value one_stream(lm_builder *b, const lm_config *c, lm_value x)
{
    uint32_t n     = ((const gemma3n *)lm_own(c))->streams;
    lm_value first = lm_columns(b, "first", x, 1, 0, c->hidden);
    lm_value rest  = lm_columns(b, "others", x, 1, c->hidden, (n - 1) * c->hidden);

    rest = lm_part_linears(b, "altup_unembed_projections", rest, n - 1, c->hidden, false);
    rest = lm_match_rms(b, "as_long", rest, first, n - 1);
    return lm_scale(b, lm_mix(b, "sum", first, rest, LM_NONE, 1, 0, 1), 1 / (float)n);
}

static lm_value build(lm_builder *b, const lm_config *c)
{
    const gemma3n *own = lm_own(c);
    lm_value       last[2] = { LM_NONE, LM_NONE };       /* the last attention with its own keys: with a
                                                            window, without */

    lm_push(b, "model", "%sTextModel");
    lm_value x = lm_gemma_embed(b, c);
    lm_value inputs = lm_gemma3n_inputs(b, c, own->input_rows, own->inputs, x);
    lm_value more = lm_part_linears(b, "altup_projections", x, own->streams - 1, c->hidden, true);
    x = lm_join(b, "streams", x, lm_match_rms(b, "as_long", more, x, own->streams - 1), 1, false);
    lm_push(b, "layers", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "%sTextDecoderLayer");
        x = decoder_layer(b, c, i, x, inputs, last);
        lm_pop(b);
    }
    lm_pop(b);
    x = lm_gemma3n_norm(b, c, "norm", one_stream(b, c, x));
    lm_leaf(b, "rotary_emb", "%sRotaryEmbedding");
    lm_pop(b);
    x = lm_head(b, "lm_head", x, c->vocab_size, c->tied ? "model.embed_tokens" : NULL);
    return lm_capped(b, x, own->cap);
}

/* ---- metadata ---- */

enum { MAX_HEADS = 1024, MAX_HEAD_DIM = 1024, MAX_WIDTH = 1 << 19, MAX_STREAMS = 16 };

static const lm_own_number own_numbers[] = {
    { "hidden_size_per_layer_input", "embedding_length_per_layer_input", LM_OWN_U32, offsetof(gemma3n, inputs), 1, 65536, 256, true },
    { "altup_num_inputs", "altup.num_inputs", LM_OWN_U32, offsetof(gemma3n, streams), 2, MAX_STREAMS, 4, true },
    { "altup_active_idx", "altup.active_idx", LM_OWN_U32, offsetof(gemma3n, active), 0, MAX_STREAMS - 1, 0, true },
    { "vocab_size_per_layer_input", NULL, LM_OWN_U32, offsetof(gemma3n, input_rows), 1, UINT32_MAX, 262144, false },
    { "altup_correct_scale", NULL, LM_OWN_BOOL, offsetof(gemma3n, scaled), 0, 1, 1, false },
    { "laurel_rank", NULL, LM_OWN_U32, offsetof(gemma3n, rank), 1, 65536, 64, false },
    { "rope_local_base_freq", "rope.freq_base_swa", LM_OWN_F64, offsetof(gemma3n, local_base), 1e-3, 1e30, 10000, true },
    { 0 },
};

static lm_status read_heads(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_u32(s, "num_attention_heads", "attention.head_count", 1, MAX_HEADS, -1, &c->n_heads, e));
    LM_TRY(lm_read_u32(s, "num_key_value_heads", "attention.head_count_kv", 1, MAX_HEADS, -1, &c->n_kv_heads,
                       e));
    LM_TRY(lm_read_u32(s, "head_dim", "attention.key_length", 1, MAX_HEAD_DIM, 256, &c->head_dim, e));
    if (c->n_heads % c->n_kv_heads)
        return lm_wrong(s, "num_key_value_heads", "attention.head_count_kv", e,
                        "%u does not divide the number of query heads, %u", c->n_kv_heads, c->n_heads);
    return LM_OK;
}

/* ---- the share of the gates that an MLP sets to zero ---- */

/* Return the z with P(Z <= z) = p for a standard normal Z, by Newton's method. */
static double normal_quantile(double p)
{
    double z = 0;

    for (int i = 0; i < 60; i++)
        z -= fmax(-1, fmin(1, (erfc(-z / sqrt(2)) / 2 - p) * sqrt(2 * acos(-1)) * exp(z * z / 2)));
    return z;
}

double lm_gate_share(float cut)
{
    double share = erfc(-(double)cut / sqrt(2)) / 2, rounded = share;
    char   text[32];

    for (int digits = 4; digits < 17; digits++) {
        lm_print(text, sizeof text, "%.*g", digits, share);
        rounded = lm_read_double(text, NULL);
        if (cut == -INFINITY || fabs(normal_quantile(rounded) - (double)cut) < 5e-7 * fabs((double)cut))
            break;
    }
    return rounded;
}

/* Set gate_cut of a layer from a share (config.json) or from the cut itself (GGUF). */
static lm_status set_cut(const lm_source *s, const char *key, const lm_meta_value *v, uint32_t layer,
                         lm_config *c, lm_error *e)
{
    bool   gguf = s->kind == LM_GGUF;
    double x    = v->kind == LM_META_UINT ? (double)v->u : v->kind == LM_META_INT ? (double)v->i : v->f;
    bool   is   = v->kind == LM_META_UINT || v->kind == LM_META_INT || v->kind == LM_META_FLOAT;

    if (!is || !(x == (gguf ? -INFINITY : 0) || (gguf ? fabs(x) <= 3.7 : x >= 1e-4 && x <= 0.9999)))
        return lm_wrong(s, key, key, e, gguf ? "entry %u is not -inf or a number from -3.7 to 3.7"
                                             : "entry %u is not 0 or a share from 0.0001 to 0.9999", layer);
    c->gate_cut[layer] = gguf ? (float)x : x > 0 ? (float)normal_quantile(x) : -INFINITY;
    return LM_OK;
}

static lm_status read_cuts(const lm_source *s, lm_config *c, lm_error *e)
{
    bool          gguf = s->kind == LM_GGUF;
    const char   *name = gguf ? "activation_sparsity_scale" : "activation_sparsity_pattern";
    char          key[128];
    lm_meta_value v, item;
    bool          given = lm_meta_get(s->meta, gguf ? lm_gguf_key(s, name, key, sizeof key) : name, &v) &&
                 v.kind != LM_META_NULL;

    if (given && v.kind == LM_META_ARRAY && v.a.n != c->n_layers)
        return lm_wrong(s, name, name, e, "%" PRIu64 " entries for %u layers", v.a.n, c->n_layers);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        item = v;
        if (!given)                      /* transformers: the first ten of more layers */
            c->gate_cut[i] = i < 10 && c->n_layers > 10 ? (float)normal_quantile(0.95) : -INFINITY;
        else if (v.kind == LM_META_ARRAY && !lm_meta_at(&v, i, &item))
            return lm_wrong(s, name, name, e, "entry %u cannot be read", i);
        else
            LM_TRY(set_cut(s, name, &item, i, c, e));
    }
    return LM_OK;
}

/* Return the number of rows of a matrix of the file; 0: it is not there. */
static uint32_t rows_of(const lm_source *s, const char *name)
{
    const lm_tensor_info *t = s->tensors ? lm_container_find(s->tensors, name) : NULL;

    return t && t->n_dims == 2 && t->dims[0] < UINT32_MAX ? (uint32_t)t->dims[0] : 0;
}

/* Check the inputs of the layers. Of GGUF files, tensors give the tokens of their table, of which later ones
 * read the first row, and the rank of LAuReL. */
static lm_status read_inputs(const lm_source *s, lm_config *c, lm_error *e)
{
    gemma3n *own  = lm_family_config_mut(c);
    uint32_t rows = s->kind == LM_GGUF ? rows_of(s, "per_layer_token_embd.weight") : 0,
             rank = s->kind == LM_GGUF ? rows_of(s, "blk.0.laurel_l.weight") : 0;

    if (s->kind == LM_GGUF)
        own->input_rows = rows ? rows : c->vocab_size;
    own->rank       = rank ? rank : own->rank;
    if ((uint64_t)own->inputs * c->n_layers > MAX_WIDTH * 2)
        return lm_wrong(s, "hidden_size_per_layer_input", "embedding_length_per_layer_input", e,
                        "%u times %u layers are beyond %d", own->inputs, c->n_layers, MAX_WIDTH * 2);
    if (own->input_rows > c->vocab_size)
        return lm_wrong(s, "vocab_size_per_layer_input", NULL, e, "%u, more than vocab_size, %u",
                        own->input_rows, c->vocab_size);
    return LM_OK;
}

static lm_status configure(const lm_source *s, lm_config *c, lm_error *e)
{
    gemma3n *own = lm_family_config_mut(c);

    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, "hidden_size", "embedding_length", 1, 1 << 20, -1, &c->hidden, e));
    LM_TRY(lm_read_layers(s, c, e));
    LM_TRY(lm_read_u32(s, "max_position_embeddings", "context_length", 1, UINT32_MAX, 32768,
                       &c->context_length, e));
    LM_TRY(lm_read_f32(s, "rms_norm_eps", "attention.layer_norm_rms_epsilon", 1e-20, 1,
                       s->kind == LM_GGUF ? NAN : 1e-6, &c->norm_eps, e));
    LM_TRY(lm_read_window(s, 512, c, e));
    LM_TRY(lm_read_window_pattern(s, NULL, 5, c, e));
    LM_TRY(lm_gemma3n_readers(s, s->kind == LM_GGUF ? -1 : 15, c, e));
    LM_TRY(read_heads(s, c, e));
    LM_TRY(lm_read_listed(s, "intermediate_size", "feed_forward_length", MAX_WIDTH, -1, c, &c->intermediate,
                          e));
    LM_TRY(lm_read_own(s, own_numbers, c, e));
    if (own->active >= own->streams)
        return lm_wrong(s, "altup_active_idx", "altup.active_idx", e, "%u; there are %u streams", own->active,
                        own->streams);
    LM_TRY(read_inputs(s, c, e));
    LM_TRY(read_cuts(s, c, e));
    LM_TRY(lm_read_act(s, "hidden_activation", LM_ACT_GELU_TANH, c, e));
    LM_TRY(lm_read_bool(s, "attention_bias", NULL, false, &c->bias_qkv, e));
    c->bias_o = c->bias_qkv;
    LM_TRY(lm_read_optional_f32(s, "final_logit_softcapping", "final_logit_softcapping", 30, &own->cap, e));
    LM_TRY(lm_read_two_ropes(s, c->head_dim, 1e6, own->local_base, c, &own->local, e));
    own->local_base = own->local.base;
    c->rope.pairing = own->local.pairing = LM_ROPE_HALF;
    uint32_t window = c->attention.window;
    c->attention        = lm_plain_attention(c);
    c->attention.scale  = 1;
    c->attention.window = window;
    return LM_OK;
}

static const lm_name names[] = {
    LM_GEMMA2_NAMES,
    { "model.layers.*.altup.router_norm", "blk.*.altup_router_norm" },
    { "model.layers.*.altup.modality_router", "blk.*.altup_router" },
    { "model.layers.*.altup.prediction_coefs", "blk.*.altup_predict_coef" },
    { "model.layers.*.altup.correction_coefs", "blk.*.altup_correct_coef" },
    { "model.layers.*.altup.correct_output_scale", "blk.*.altup_correct_scale.weight" },
    { "model.layers.*.laurel.linear_left", "blk.*.laurel_l" },
    { "model.layers.*.laurel.linear_right", "blk.*.laurel_r" },
    { "model.layers.*.laurel.post_laurel_norm", "blk.*.laurel_post_norm" },
    { "model.embed_tokens_per_layer", "per_layer_token_embd" },
    { "model.per_layer_model_projection", "per_layer_model_proj" },
    { "model.per_layer_projection_norm", "per_layer_proj_norm" },
    { "model.altup_projections", "altup_proj" },
    { "model.altup_unembed_projections", "altup_unembd_proj" },
    { "model.layers.*.per_layer_input_gate", "blk.*.inp_gate" },
    { "model.layers.*.per_layer_projection", "blk.*.proj" },
    { "model.layers.*.post_per_layer_input_norm", "blk.*.post_norm" },
    { NULL, NULL },
};

static const lm_order orders[] = {
    { "TextModel", "embed_tokens layers norm rotary_emb *" },
    { "Attention", "q_proj q_norm k_proj v_proj k_norm v_norm o_proj *" },
    { "TextDecoderLayer", "self_attn mlp input_layernorm post_attention_layernorm pre_feedforward_layernorm "
                          "post_feedforward_layernorm act_fn altup laurel per_layer_input_gate "
                          "per_layer_projection post_per_layer_input_norm *" },
    { "TextAltUp", "correction_coefs prediction_coefs modality_router router_norm *" },
    { NULL, NULL },
};

const lm_family lm_family_gemma3n = {
    .name         = "gemma3n",
    .class_prefix = "Gemma3n",
    .hf_types     = (const char *const[]){ "gemma3n_text", NULL },
    .gguf_archs   = (const char *const[]){ "gemma3n", NULL },
    .pad_token    = "0",
    .orders       = orders,
    .configure    = configure,
    .build        = build,
    .own          = own_numbers,
    .names        = names,
    .fixed_scale  = true,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 2 }, { "head_dim", 256 },
                                          { "sliding_window", 512 }, { "max_position_embeddings", 32768 },
                                          { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_activation", "attention_bias", "sliding_window", "layer_types",
                                           "final_logit_softcapping", "num_kv_shared_layers", "rope_local_base_freq",
                                           "hidden_size_per_layer_input", "vocab_size_per_layer_input",
                                           "activation_sparsity_pattern", "altup_num_inputs", "altup_active_idx",
                                           "altup_correct_scale", "altup_coef_clip", "laurel_rank", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "*.altup.correct_output_scale",
                                           "model.layers.*.self_attn.k_proj.weight", "model.layers.*.self_attn.v_proj.weight",
                                           "model.layers.*.self_attn.k_norm.weight", "blk.*.attn_k.weight", "blk.*.attn_v.weight",
                                           "blk.*.attn_k_norm.weight", NULL },
};

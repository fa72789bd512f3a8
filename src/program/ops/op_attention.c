/* op_attention.c - attention: queries, keys, values and this layer's cache -> [T][H Kv]; and the choice of
 * the keys that sparse attention sees. */
#include <math.h>
#include <string.h>

#include "base/language.h"
#include "program/op.h"
#include "program/record.h"
#include "tensor/dtype.h"

static void record_cache(lm_builder *b, const lm_attention_spec *s)
{
    b->p->caches[b->p->n_caches++] = (lm_cache){
        .layer      = b->layer,
        .n_kv_heads = s->n_kv_heads,
        .k_dim      = s->k_dim,
        .v_dim      = s->v_dim,
        .window     = s->window,
        .chunked    = s->chunked,
        .v_in_k     = s->v_in_k,
    };
}

/* The cache of entries: one row of keys for each block. */
static void record_entries(lm_builder *b, const lm_attention_spec *s)
{
    b->p->caches[b->p->n_caches++] = (lm_cache){
        .layer      = b->layer,
        .n_kv_heads = 1,
        .k_dim      = s->k_dim,
        .v_dim      = s->v_dim,
        .v_in_k     = true,
        .rate       = s->rate,
    };
}

/* Return whether top_k is a number of whole blocks, of which some are the last ones, and each choice is for
 * equally many key/value heads. */
static bool is_choice(const lm_attention_spec *s)
{
    bool whole = s->block && s->top_k % s->block == 0 && s->local <= s->top_k / s->block;

    return (whole || (!s->block && !s->local && !s->n_choices)) &&
           (!s->n_choices || s->n_kv_heads % s->n_choices == 0);
}

/* Record attention to the keys and values of this cache; `chosen`: LM_NONE unless it is sparse. */
static lm_node *attend(lm_builder *b, lm_value q, lm_value k, lm_value v, lm_value chosen, uint32_t cache,
                       const lm_attention_spec *s)
{
    const char *path = lm_record_path(b, "scores");

    lm_record_need(b, s->n_kv_heads && s->n_heads % s->n_kv_heads == 0, path,
                   "key/value heads do not divide the query heads");
    lm_record_need(b,
                   lm_record_width(b, q) == s->n_heads * s->k_dim &&
                       lm_record_width(b, k) == s->n_kv_heads * s->k_dim &&
                       (s->v_in_k ? s->v_dim <= s->k_dim : lm_record_width(b, v) == s->n_kv_heads * s->v_dim),
                   path, "widths of q, k, v are not heads times dimensions");
    lm_record_need(b, s->top_k ? is_choice(s) && lm_record_width(b, chosen) == lm_chosen_width(s) &&
                                         (s->rate || (!s->window && !s->sinks))
                                   : chosen == LM_NONE,
                   path, "sparse attention needs as many chosen keys as it sees, and has no window or sinks");
    lm_record_need(b, !(s->top_k || s->rate) || (!(s->alibi > 0) && !(s->softcap > 0)), path,
                   "sparse attention has no ALiBi or soft cap");
    lm_node *n         = lm_record_unary(b, LM_OP_ATTENTION, path, q, s->n_heads * s->v_dim);
    n->n_in            = s->top_k ? 4 : s->v_in_k ? 2 : 3;
    n->in[1]           = k;
    n->in[2]           = !s->v_in_k ? v : s->top_k ? k : LM_NONE;
    n->in[3]           = chosen;
    n->attention.spec  = *s;
    n->attention.cache = cache;
    if (s->sinks) {
        /* stored as "….sinks" by most checkpoints and as "….sinks.weight" by GGUF */
        const char *parent = lm_record_here(b);
        const char *name   = s->sink_name ? s->sink_name : "sinks";
        n->weights[0]      = lm_record_weight(b, parent, name, LM_VECTOR, 1, s->n_heads, 1);
        if (n->weights[0] != LM_NONE) {
            lm_weight *w = &b->p->weights[n->weights[0]];
            w->gguf      = lm_record_gguf(b, w->path, "weight");
        }
    }
    return n;
}

lm_value lm_attention(lm_builder *b, lm_value q, lm_value k, lm_value v, const lm_attention_spec *s)
{
    return lm_sparse_attention(b, q, k, v, LM_NONE, s);
}

lm_value lm_sparse_attention(lm_builder *b, lm_value q, lm_value k, lm_value v, lm_value chosen,
                             const lm_attention_spec *s)
{
    if (b->failed || !LM_GROW(b, caches, b->p->n_caches))
        return LM_NONE;
    lm_node *n = attend(b, q, k, v, chosen, b->p->n_caches, s);
    record_cache(b, s);
    return n->out;
}

lm_value lm_compressed_attention(lm_builder *b, lm_value q, lm_value k, lm_value entries, lm_value chosen,
                                 const lm_attention_spec *s)
{
    if (b->failed)
        return LM_NONE;
    lm_record_need(b,
                   s->rate && s->window && !s->chunked && s->v_in_k && s->n_kv_heads == 1 && !s->block &&
                       lm_record_width(b, entries) == s->k_dim,
                   lm_record_here(b), "compressed attention needs a window, and one head of keys and entries");
    if (b->failed || !LM_GROW(b, caches, b->p->n_caches + 1))
        return LM_NONE;
    lm_node *n = attend(b, q, k, LM_NONE, chosen, b->p->n_caches, s);
    n->n_in    = 5;
    n->in[2]   = k;                      /* values are lanes of the keys */
    n->in[3]   = s->top_k ? chosen : k;  /* unused without a choice */
    n->in[4]   = entries;
    record_cache(b, s);
    n->attention.entries = b->p->n_caches;
    record_entries(b, s);
    return n->out;
}

lm_value lm_shared_attention(lm_builder *b, lm_value q, lm_value other, const lm_attention_spec *s)
{
    if (b->failed)
        return LM_NONE;
    const lm_node  from = b->p->nodes[b->p->values[other].producer];
    const lm_cache *c   = &b->p->caches[from.attention.cache];
    lm_record_need(b,
                   from.code == LM_OP_ATTENTION && c->n_kv_heads == s->n_kv_heads && c->k_dim == s->k_dim &&
                       c->v_dim == s->v_dim && c->window == s->window && c->chunked == s->chunked &&
                       c->v_in_k == s->v_in_k,
                   lm_record_here(b), "the cache of an earlier layer has another shape");
    lm_node *n          = attend(b, q, from.in[1], from.in[2], LM_NONE, from.attention.cache, s);
    n->attention.stored = true;
    return n->out;
}

void lm_alibi_slopes(const lm_attention_spec *s, float *out)
{
    uint32_t whole = 1, all = s->all_heads ? s->all_heads : s->n_heads;

    while (whole * 2 <= all)
        whole *= 2;
    for (uint32_t i = 0; i < s->n_heads; i++) {
        uint32_t h = s->first_head + i;
        double slope = h < whole ? pow(2, -(double)s->alibi * (h + 1) / whole)
                                 : pow(2, -(double)s->alibi * (2 * (h - whole) + 1) / (2.0 * whole));
        out[i]       = s->alibi_half ? lm_rounded_to_bf16((float)slope) : (float)slope;
    }
}

/* Per key: q.k and p.v are products; scaling, subtracting the maximum, exp, sum and the comparison of the
 * mask are five more operations. */
static void attention_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    const lm_attention_spec *s = &n->attention.spec;

    c->key_mult_adds = (uint64_t)s->n_heads * (s->k_dim + s->v_dim);
    c->key_flops     = 2 * c->key_mult_adds + 5 * (uint64_t)s->n_heads;
    c->reads = lm_width_in(p, n) + p->values[n->in[1]].width + (s->v_in_k ? 0 : p->values[n->in[2]].width) +
               (s->rate ? s->k_dim : 0);
    c->writes        = lm_width_out(p, n);
}

static void attention_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    const lm_attention_spec *s = &n->attention.spec;

    lm_text_printf(out,
                   P_(s->n_kv_heads, "%u query heads on %u key/value head, %u wide, scale %.6g",
                      "%u query heads on %u key/value heads, %u wide, scale %.6g"),
                   s->n_heads, s->n_kv_heads, s->k_dim, (double)s->scale);
    if (s->v_in_k)
        lm_text_printf(out, _(", values the first %u dimensions of the keys"), s->v_dim);
    else if (s->v_dim != s->k_dim)
        lm_text_printf(out, _(", values %u wide"), s->v_dim);
    if (s->window)
        lm_text_printf(out, s->chunked ? _(", chunks of %u") : _(", window %u"), s->window);
    if (s->rate && s->top_k)
        lm_text_printf(out, _(", %u chosen entries, each of %u positions"), s->top_k, s->rate);
    else if (s->rate)
        lm_text_printf(out, _(", entries of %u positions each"), s->rate);
    else if (s->block)
        lm_text_printf(out, _(", the %u chosen keys, blocks of %u"), s->top_k, s->block);
    else if (s->top_k)
        lm_text_printf(out, _(", the %u chosen keys"), s->top_k);
    if (s->softcap > 0)
        lm_text_printf(out, _(", soft cap %g"), (double)s->softcap);
    if (s->alibi > 0)
        lm_text_printf(out, _(", ALiBi up to %g%s"), (double)s->alibi,
                       s->alibi_half ? _(" in bfloat16 before the scale") : "");
    if (n->attention.stored)
        lm_text_printf(out, _(", keys and values of layer %d"), p->caches[n->attention.cache].layer);
}

/* Each of two passes (one for queries, one for keys and values) recomputes the scores and dp; then dv, dq,
 * dk. */
static void attention_reverse_cost(const lm_node *n, const lm_reverse *r, const lm_cost *forward, lm_cost *c)
{
    const lm_attention_spec *s = &n->attention.spec;

    (void)r;
    (void)forward;
    c->key_mult_adds = (uint64_t)s->n_heads * (4 * (uint64_t)s->k_dim + 3 * (uint64_t)s->v_dim);
    c->key_flops     = 2 * c->key_mult_adds + 10 * (uint64_t)s->n_heads;
    c->flops         = 2 * (uint64_t)s->n_heads * s->v_dim;
}

static const lm_op_number attention_numbers[] = {
    LM_NODE_NUMBER(U32, attention.spec.window, "windows"),
    LM_NODE_NUMBER(U32, attention.spec.top_k, "windows"),
    LM_NODE_NUMBER(U32, attention.spec.block, "windows"),
    LM_NODE_NUMBER(U32, attention.spec.n_choices, NULL),
    LM_NODE_NUMBER(U32, attention.spec.rate, "windows"),
    LM_NODE_NUMBER(BOOL, attention.spec.chunked, "windows"),
    LM_NODE_NUMBER(FLOAT, attention.spec.scale, "scale of scores"),
    LM_NODE_NUMBER(FLOAT, attention.spec.softcap, "scale of scores"),
    LM_NODE_NUMBER(FLOAT, attention.spec.alibi, "scale of scores"),
    LM_NODE_NUMBER(BOOL, attention.spec.alibi_half, "scale of scores"),
    LM_NODE_NUMBER(BOOL, attention.spec.sinks, "scale of scores"),
    LM_NODE_NUMBER(U32, attention.spec.n_heads, NULL),
    LM_NODE_NUMBER(U32, attention.spec.n_kv_heads, NULL),
    LM_NODE_NUMBER(U32, attention.spec.k_dim, NULL),
    LM_NODE_NUMBER(U32, attention.spec.v_dim, NULL),
    LM_NODE_NUMBER(BOOL, attention.spec.v_in_k, NULL),
    LM_NODE_NUMBER(BOOL, attention.stored, "shared caches"),
    { 0 }
};

const lm_op lm_op_attention = {
    .name          = "attention",
    .weights       = { "sinks" },
    .numbers       = attention_numbers,
    .cost          = attention_cost,
    .describe      = attention_describe,
    .formula       = "softmax(scale · Q Kᵀ + mask) V",
    .all_rows      = LM_IN1 | LM_IN2 | LM_IN4,
    .trains_inputs = LM_IN0 | LM_IN1 | LM_IN2 | LM_IN4,
    .trains_weights = 1,
    .reverse_reads = LM_IN0 | LM_IN1 | LM_IN2 | LM_IN3 | LM_IN4 | LM_OUT,
    .reverse_cost  = attention_reverse_cost,
};

/* ---- the choice of keys ---- */

lm_value lm_select_keys(lm_builder *b, const char *word, lm_value q, lm_value k, lm_value w,
                        const lm_attention_spec *s)
{
    lm_attention_spec own = *s;

    if (b->failed)
        return LM_NONE;
    lm_record_need(b,
                   s->top_k && s->n_kv_heads == 1 && s->v_in_k && is_choice(s) &&
                       lm_record_width(b, q) == s->n_heads * s->k_dim &&
                       lm_record_width(b, k) == s->k_dim &&
                       (s->block ? w == LM_NONE : lm_record_width(b, w) == s->n_heads),
                   word, "the widths of an indexer do not match");
    if (!LM_GROW(b, caches, b->p->n_caches))
        return LM_NONE;
    own.n_choices      = s->block ? s->n_heads : 0;
    lm_node *n = lm_record_unary(b, LM_OP_SELECT_KEYS, lm_record_path(b, word), q, lm_chosen_width(&own));
    n->n_in            = s->block ? 2 : 3;
    n->in[1]           = k;
    n->in[2]           = w;
    n->attention.spec  = own;
    n->attention.cache = b->p->n_caches;
    (s->rate ? record_entries : record_cache)(b, s);
    return n->out;
}

lm_value lm_last_choice(const lm_builder *b)
{
    for (uint32_t i = b->p->n_nodes; i-- > 0;)
        if (b->p->nodes[i].code == LM_OP_SELECT_KEYS)
            return b->p->nodes[i].out;
    return LM_NONE;
}

/* Per key: a product of each head, its maximum with 0, times its weight, added; or with that of its block.
 * Then comparisons, which are not counted as arithmetic. */
static void select_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    const lm_attention_spec *s = &n->attention.spec;

    c->key_mult_adds = (uint64_t)s->n_heads * (s->k_dim + (s->block ? 0 : 1));
    c->key_flops     = 2 * c->key_mult_adds + s->n_heads;
    c->reads         = lm_width_in(p, n) + s->k_dim + (s->block ? 0 : s->n_heads);
    c->writes        = lm_width_out(p, n);
}

static void select_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    const lm_attention_spec *s = &n->attention.spec;

    (void)p;
    if (s->block)
        lm_text_printf(out,
                       _("the best %u blocks of %u keys by each of %u heads, %u wide, the last %u always"),
                       lm_choice_width(s), s->block, s->n_heads, s->k_dim, s->local);
    else if (s->rate)
        lm_text_printf(out, _("the best %u entries of %u positions by %u heads, %u wide"), s->top_k, s->rate,
                       s->n_heads, s->k_dim);
    else
        lm_text_printf(out, _("the best %u keys by %u heads, %u wide"), s->top_k, s->n_heads, s->k_dim);
}

static const lm_op_number select_numbers[] = {
    LM_NODE_NUMBER(U32, attention.spec.top_k, "windows"),
    LM_NODE_NUMBER(U32, attention.spec.block, "windows"),
    LM_NODE_NUMBER(U32, attention.spec.local, "windows"),
    LM_NODE_NUMBER(U32, attention.spec.rate, "windows"),
    LM_NODE_NUMBER(FLOAT, attention.spec.scale, "scale of scores"),
    LM_NODE_NUMBER(U32, attention.spec.n_heads, NULL),
    LM_NODE_NUMBER(U32, attention.spec.k_dim, NULL),
    { 0 }
};

const lm_op lm_op_select_keys = {
    .name     = "select_keys",
    .numbers  = select_numbers,
    .cost     = select_cost,
    .describe = select_describe,
    .formula  = "top-k over s ≤ t of Σ w max(q · k, 0)",
    .expression = "select_keys({0}, {1}, {2}, {top_k})",
    .helper   = "def select_keys(q, k, w, top_k):\n"
                "    \"\"\"The positions that each row sees: the best top_k by the weighted sum of its heads' "
                "scores.\"\"\"\n"
                "    T, H = w.shape\n"
                "    scores = (($.maximum((q.reshape(T * H, -1) @ k.T).reshape(T, H, T), 0 * w[:, :, None])) * w[:, :, None]).sum(1)\n"
                "    return [sorted(sorted(range(t + 1), key=lambda s: (-float(scores[t, s]), s))[:top_k]) for t in range(T)]\n\n\n",
    .work     = "sparse choices",
    .all_rows = LM_IN1,
};

/* derive_parts.c - derivations of single components. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/derive/topics.h"

/* ---- attention ---- */

/* Return the number of gates that multiply the output of a layer's attention: one per lane or head, or 0. */
static uint64_t output_gates(const lm_ledger *l, int32_t layer)
{
    for (uint32_t i = 0; i < l->program->n_nodes; i++) {
        const lm_node *n = &l->program->nodes[i];
        if (n->layer == layer && n->code == LM_OP_GLU && l->part[i] == LM_PART_ATTENTION)
            return l->program->values[n->in[0]].width;
    }
    return 0;
}

/* Derive the gates of a layer's attention. Return whether it has any. */
static bool derive_gates(lm_derivation *d, const char *lanes)
{
    uint64_t n = output_gates(d->f->ledger, d->f->s.program->caches[0].layer);

    if (n)
        lm_derivef(d, "gates", _("gates of the heads' outputs"), LM_UNIT_PARAMETERS, NULL, "hidden * %s",
                   n == lm_facts_count(d->f, "attention.heads") ? "heads" : lanes);
    return n > 0;
}

/* What an indexer adds to a formula of the first layer, or of all: nothing without one. */
typedef struct indexer_terms { const char *cached, *all_cached, *products, *per_key; } indexer_terms;

static indexer_terms terms_of_indexer(lm_derivation *d)
{
    lm_traits     t;
    indexer_terms x = { "", "", "", "" };

    lm_find_traits(d->f->ledger, &t);
    if (!t.indexer)
        return x;
    const lm_attention_spec *s = &t.indexer->attention.spec;
    x.all_cached = lm_derive_text(d, " + %u * %u", t.n_indexers, s->k_dim);
    if (t.indexer->layer != d->f->s.program->caches[0].layer)
        return x;
    x.cached   = lm_derive_text(d, " + %u", s->k_dim);
    uint32_t heads = s->n_heads, dim = s->k_dim;
    x.products = s->block ? lm_derive_text(d, " + 2 * hidden * (%u * %u + %u)", heads, dim, dim)
                          : lm_derive_text(d, " + 2 * (q_rank * %u * %u + hidden * (%u + %u))", heads, dim,
                                           dim, heads);
    x.per_key  = lm_derive_text(d, s->block ? " + 2 * %u * %u" : " + 2 * %u * (%u + 1)", heads, dim);
    return x;
}

/* Derive the weights and products of the projections of a layer. */
static void derive_projections(lm_derivation *d, bool alike, const char *both, const char *layers)
{
    const lm_program *p = d->f->s.program;

    lm_derivef(d, "q_and_o", _("query and output projections of a layer"), LM_UNIT_PARAMETERS, NULL, both,
               "heads");
    lm_derivef(d, "k_and_v", _("key and value projections of a layer"), LM_UNIT_PARAMETERS, NULL, both,
               "kv_heads");
    lm_derivef(d, "k_and_v_mha", _("with one key/value head per query head"), LM_UNIT_PARAMETERS, NULL, both,
               "heads");
    if (alike)
        lm_derivef(d, "weights_saved", _("weights saved in all layers"), LM_UNIT_PARAMETERS, NULL,
                   "%s * (k_and_v_mha - k_and_v)", layers);
    bool gated = derive_gates(d, "(heads * head_dim)");
    lm_derive(d, "attention_flops", _("products of a layer's projections, one token"), LM_UNIT_FLOPS,
              lm_derive_text(d, "flops.layer[%d].attention", p->caches[0].layer),
              lm_derive_text(d, "2 * (q_and_o + %sk_and_v)%s", gated ? "gates + " : "",
                             terms_of_indexer(d).products));
}

void lm_derive_gqa(lm_derivation *d)
{
    const lm_program *p = d->f->s.program;

    lm_let_sizes(d);
    if (!lm_has_symbol(d, "kv_heads"))
        return;
    lm_traits t;
    lm_find_traits(d->f->ledger, &t);
    const char *layers = lm_layers_formula(d, p->n_caches - t.n_indexers);
    const char *both   = "2 * hidden * (%s * head_dim)";
    lm_cache_class classes[LM_MAX_CLASSES];
    bool           in_keys = p->caches[0].v_in_k,    /* one head of keys that are the values, and queries that
                                                        are made of a latent */
                   alike   = !in_keys && lm_cache_classes(p, LM_BY_SHAPE, classes) == 1;

    if (!p->caches[0].v_in_k && p->caches[0].k_dim != p->caches[0].v_dim)
        both = "hidden * %s * (head_dim + value_dim)";
    lm_derive(d, "group", _("query heads that share a key/value head"), LM_UNIT_NONE, "attention.group",
              "heads / kv_heads");
    if (!in_keys)
        derive_projections(d, alike, both, layers);
    lm_derive(d, "elements", _("values cached per token"), LM_UNIT_ELEMENTS, "kv.elements_per_token",
              alike ? lm_derive_text(d, "2 * %s * kv_heads * head_dim", layers)
                    : lm_elements_formula(d, false));
    lm_derive(d, "elements_mha", _("with one key/value head per query head"), LM_UNIT_ELEMENTS,
              "kv.mha.elements_per_token",
              alike ? lm_derive_text(d, "2 * %s * heads * head_dim", layers) : lm_elements_formula(d, true));
    lm_derive(d, "saved", _("cache saved"), LM_UNIT_PERCENT, "kv.mha.saved",
              "100 * (1 - elements / elements_mha)");
}

void lm_derive_mla(lm_derivation *d)
{
    const lm_program *p = d->f->s.program;
    lm_traits         t;

    lm_let_sizes(d);
    if (!lm_has_symbol(d, "kv_rank"))
        return;
    indexer_terms more = terms_of_indexer(d);
    lm_find_traits(d->f->ledger, &t);
    lm_derivef(d, "per_layer", _("values cached per token in a layer: the latent and the shared key"),
               LM_UNIT_ELEMENTS, "kv.elements_per_layer[0]", "kv_rank + rope_dim%s", more.cached);
    lm_derivef(d, "elements", _("values cached per token"), LM_UNIT_ELEMENTS, "kv.elements_per_token",
               t.indexer ? "%s * (kv_rank + rope_dim)%s" : "%s * per_layer%s",
               lm_layers_formula(d, p->n_caches - t.n_indexers), more.all_cached);
    lm_derive(d, "head_values", _("the keys and values of all heads"), LM_UNIT_ELEMENTS,
              "kv.mha.elements_per_token_per_layer", "heads * (nope_dim + rope_dim + v_dim)");
    lm_derive(d, "times_smaller", _("the latent is smaller by"), LM_UNIT_RATIO, NULL,
              "head_values / per_layer");
    lm_derive(d, "down", _("into the latent"), LM_UNIT_PARAMETERS, NULL, "hidden * (kv_rank + rope_dim)");
    lm_derive(d, "up", _("from the latent to the keys and values of all heads"), LM_UNIT_PARAMETERS, NULL,
              "kv_rank * heads * (nope_dim + v_dim)");
    if (lm_has_symbol(d, "q_rank"))
        lm_derive(d, "queries", _("queries, through a separate latent"), LM_UNIT_PARAMETERS, NULL,
                  "hidden * q_rank + q_rank * heads * (nope_dim + rope_dim)");
    else
        lm_derive(d, "queries", _("queries"), LM_UNIT_PARAMETERS, NULL,
                  "hidden * heads * (nope_dim + rope_dim)");
    lm_derive(d, "output", _("output projection"), LM_UNIT_PARAMETERS, NULL, "heads * v_dim * hidden");
    bool gated = derive_gates(d, "(heads * v_dim)");
    lm_derive(d, "attention_flops", _("products of a layer's projections, one token"), LM_UNIT_FLOPS,
              lm_derive_text(d, "flops.layer[%d].attention", d->f->s.program->caches[0].layer),
              lm_derive_text(d, "2 * (down + up + queries + output%s)%s", gated ? " + gates" : "",
                             more.products));
}

/* Derive the scale of YaRN: its magnitude squared (once for queries, once for keys), divided by the root of
 * the head dimension. */
static void derive_stretched_scale(lm_derivation *d)
{
    const lm_program *p = d->f->s.program;
    const lm_rope_spec *r = p->n_ropes ? &p->ropes[lm_main_rope(p)].spec : NULL;

    if (!r || r->mscale_all_dim <= 0 || !lm_facts_has(d->f, "rope.factor") || !lm_has_symbol(d, "nope_dim"))
        return;
    lm_let_fact(d, "factor", NULL, _("factor by which YaRN stretches the context"), "rope.factor");
    lm_let_number(d, "mscale", "m_s", _("mscale_all_dim of the configuration"), r->mscale_all_dim);
    lm_derive(d, "magnitude", _("YaRN's magnitude"), LM_UNIT_NONE, NULL, "0.1 * mscale * ln(factor) + 1");
    lm_derive(d, "scale", _("scores are multiplied by"), LM_UNIT_NONE, "attention.scale",
              "magnitude^2 / sqrt(nope_dim + rope_dim)");
}

void lm_derive_attention(lm_derivation *d)
{
    bool latent;

    lm_let_sizes(d);
    if (!lm_has_symbol(d, "heads"))
        return;
    latent = lm_has_symbol(d, "kv_rank");
    lm_let_fact(d, "tokens", "S", _("tokens of context"), "kv.context");
    if (lm_facts_has(d->f, "attention.scale_sqrt_of")) {
        lm_let_fact(d, "scale_dim", "d_k", _("dimensions whose square root divides the scores"),
                    "attention.scale_sqrt_of");
        lm_derive(d, "scale", _("scores are multiplied by"), LM_UNIT_NONE, "attention.scale",
                  "1 / sqrt(scale_dim)");
    }
    else if (latent)
        derive_stretched_scale(d);
    lm_derive(d, "scores", _("scores of one token in a layer: one per head and key"), LM_UNIT_ELEMENTS,
              NULL, "heads * tokens");
    if (lm_facts_has(d->f, "attention.window")) {
        bool chunked = lm_facts_has(d->f, "attention.chunked");
        lm_let_fact(d, "window", "W", chunked ? _("keys of a chunk") : _("keys that a token attends to"),
                    "attention.window");
        lm_derive(d, "seen", chunked ? _("with a chunk only") : _("with a window only"), LM_UNIT_ELEMENTS,
                  NULL,
                  chunked ? "heads * (tokens - window * floor((tokens - 1) / window))"
                          : "heads * min(tokens, window)");
    }
    if (latent)
        lm_derivef(d, "per_key", _("q·k and p·v per key, in a layer, on the latent"), LM_UNIT_FLOPS,
                   lm_derive_text(d, "flops.layer[%d].per_key", d->f->s.program->caches[0].layer),
                   "2 * heads * ((kv_rank + rope_dim) + kv_rank)%s", terms_of_indexer(d).per_key);
    else
        lm_derive(d, "per_key", _("q·k and p·v per key, in a layer"), LM_UNIT_FLOPS,
                  lm_derive_text(d, "flops.layer[%d].per_key", d->f->s.program->caches[0].layer),
                  lm_derive_text(d, "2 * heads * (head_dim + %s)%s",
                                 lm_has_symbol(d, "value_dim") ? "value_dim" : "head_dim",
                                 terms_of_indexer(d).per_key));
}

void lm_derive_swa(lm_derivation *d)
{
    lm_let_sizes(d);
    if (!lm_facts_count(d->f, "attention.windowed_layers"))
        return;
    for (uint32_t i = 0; i < d->f->s.program->n_caches; i++)
        if (d->f->s.program->caches[i].window) {
            lm_let_count(d, "window", "W", _("keys that a token attends to, including its own"),
                         d->f->s.program->caches[i].window);
            break;
        }
    lm_let_fact(d, "tokens", "S", _("positions read"), "kv.context");
    lm_let_fact(d, "windowed", "L_W", _("layers with a window"), "attention.windowed_layers");
    lm_derive(d, "kept", _("positions that a layer with a window caches"), LM_UNIT_TOKENS, NULL,
              "min(tokens, window)");
    if (lm_facts_has(d->f, "attention.reach"))
        lm_derive(d, "reach", _("maximum reach through all layers"), LM_UNIT_TOKENS, "attention.reach",
                  lm_facts_has(d->f, "attention.chunked") ? "window" : "windowed * (window - 1) + 1");
    if (lm_facts_has(d->f, "attention.reach") && lm_facts_has(d->f, "architecture.context")) {
        lm_let_fact(d, "context", "S_m", _("positions of the model"), "architecture.context");
        lm_derive(d, "within", _("of these, within the context"), LM_UNIT_TOKENS, NULL, "min(reach, context)");
    }
    lm_let_fact(d, "without", NULL, _("bytes of the cache if every position were cached"),
                lm_derive_text(d, "kv.at[%" PRIu64 "].bytes_without_window", d->f->s.context));
    lm_let_fact(d, "with", NULL, _("bytes of the cache with the window"), "kv.bytes_at_context");
    lm_derive(d, "saved", _("saved at this context"), LM_UNIT_PERCENT, NULL, "100 * (1 - with / without)");
}

/* ---- positions ---- */

/* Derive the slope of head h, counted from 1; P is the largest power of two up to the number of heads. */
static void derive_slope(lm_derivation *d, const lm_node *n, const char *name, const char *title, uint32_t h,
                         uint32_t whole)
{
    const char *path    = lm_derive_text(d, "attention.alibi_slopes[%u]", h - 1);
    const char *formula = h <= whole
                              ? lm_derive_text(d, "2^-(largest * %u / whole)", h)
                              : lm_derive_text(d, "2^-(largest * (2 * (%u - whole) - 1) / (2 * whole))", h);
    int         exponent;

    if (!n->attention.spec.alibi_half) {
        lm_derive(d, name, title, LM_UNIT_NONE, path, formula);
        return;
    }
    const char *exact = lm_derive_text(d, "%s_exact", name);
    lm_derive(d, exact, title, LM_UNIT_NONE, NULL, formula);
    (void)frexp(lm_derived(d, exact).x, &exponent);
    lm_derivef(d, name, _("rounded to bfloat16, which has 8 significant bits"), LM_UNIT_NONE, path,
               "floor(%s * 2^%d + 1 / 2) / 2^%d", exact, 8 - exponent, 8 - exponent);
}

void lm_derive_alibi(lm_derivation *d)
{
    const lm_program *p = d->f->s.program;
    const lm_node    *n = NULL;

    for (uint32_t i = 0; i < p->n_nodes && !n; i++)
        n = p->nodes[i].code == LM_OP_ATTENTION && p->nodes[i].attention.spec.alibi > 0 ? &p->nodes[i] : NULL;
    if (!n)
        return;
    lm_let_fact(d, "heads", "H", _("query heads"), "attention.heads");
    lm_let_number(d, "largest", "a_m", _("exponent of the last slope"), (double)n->attention.spec.alibi);
    uint32_t heads = n->attention.spec.n_heads, whole = 1;
    while (whole * 2 <= heads)
        whole *= 2;
    lm_let_count(d, "whole", "H_2",
                 _("largest power of two that is at most the number of heads; the other heads have "
                   "slopes between these"),
                 whole);
    derive_slope(d, n, "slope_first", _("penalty of head 1 per token of distance"), 1, whole);
    if (heads > 2)
        derive_slope(d, n, "slope_middle", lm_derive_text(d, _("head %u"), heads / 2), heads / 2, whole);
    if (whole < heads)
        derive_slope(d, n, "slope_whole", lm_derive_text(d, _("head %u"), whole), whole, whole);
    derive_slope(d, n, "slope_last", lm_derive_text(d, _("head %u"), heads), heads, whole);
    lm_let_fact(d, "tokens", "S", _("tokens of context"), "kv.context");
    lm_derive(d, "farthest", _("the first head's bias of the farthest key"), LM_UNIT_NONE, NULL,
              "slope_first * (tokens - 1)");
}

/* ---- MLP ---- */

/* Return whether all of the first layer's MLP is one gated product. */
static bool begins_gated(const lm_ledger *l)
{
    const lm_program *p = l->program;
    bool              gated = false;

    for (uint32_t i = 0; i < p->n_nodes && p->nodes[i].layer <= 0; i++) {
        if (p->nodes[i].code == LM_OP_EXPERTS)
            return false;
        gated |= p->nodes[i].code == LM_OP_GLU && l->part[i] == LM_PART_MLP;
    }
    return gated;
}

void lm_derive_swiglu(lm_derivation *d)
{
    const char *width = "ffn";

    lm_let_sizes(d);
    if (!lm_facts_truth(d->f, "mlp.gated"))
        return;
    if (!lm_has_symbol(d, "ffn"))
        width = "expert_width";
    lm_derivef(d, "gated", _("a gated MLP: three matrices"), LM_UNIT_PARAMETERS, NULL, "3 * hidden * %s",
               width);
    lm_derivef(d, "plain", _("an MLP without a gate and of the same width: two"), LM_UNIT_PARAMETERS, NULL,
               "2 * hidden * %s", width);
    lm_derive(d, "more", _("gating adds"), LM_UNIT_PERCENT, NULL, "100 * (gated / plain - 1)");
    lm_derive(d, "parity", _("the width with the cost of an MLP without a gate of width 4 · hidden"),
              LM_UNIT_LANES, NULL, "2 / 3 * (4 * hidden)");
    if (lm_has_symbol(d, "ffn"))
        lm_derive(d, "expansion", _("this model's width in units of hidden"), LM_UNIT_RATIO, "mlp.expansion",
                  "ffn / hidden");
    lm_derive(d, "flops", _("products of one token"), LM_UNIT_FLOPS,
              begins_gated(d->f->ledger) ? "flops.layer[0].mlp" : NULL,
              "2 * gated");
}

void lm_derive_moe(lm_derivation *d)
{
    const lm_program *p      = d->f->s.program;
    uint64_t          layers = 0;

    lm_let_sizes(d);
    if (!lm_has_symbol(d, "experts"))
        return;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        layers += p->nodes[i].code == LM_OP_EXPERTS;
    lm_derive(d, "expert", _("one expert: a gated MLP"), LM_UNIT_PARAMETERS, NULL, lm_expert_formula(d));
    lm_derive(d, "router", _("the router of a layer"), LM_UNIT_PARAMETERS, NULL, lm_router_formula(d));
    lm_derive(d, "stored", _("routed experts stored in a layer"), LM_UNIT_PARAMETERS, NULL,
              "experts * expert");
    lm_derive(d, "visited", _("active per token"), LM_UNIT_PARAMETERS, NULL, "top_k * expert");
    if (lm_has_symbol(d, "shared_width"))
        lm_derive(d, "shared", _("shared experts"), LM_UNIT_PARAMETERS, NULL, "3 * hidden * shared_width");
    lm_derivef(d, "all_experts", _("routed experts of all layers that have them"), LM_UNIT_PARAMETERS,
               "parameters.experts", "%s * stored", lm_layers_formula(d, layers));
    lm_let_fact(d, "total", "N", _("parameters stored"), "parameters.total");
    lm_derivef(d, "active", _("parameters read per token"), LM_UNIT_PARAMETERS, "parameters.active",
               "total - %s * (stored - visited)",
               lm_layers_formula(d, layers));
    lm_derive(d, "share", _("share of all stored parameters"), LM_UNIT_PERCENT, NULL, "100 * active / total");
}

/* ---- norms, residuals ---- */

/* Derive the parameters of norms, grouped by their number of weights. */
void lm_derive_norm(lm_derivation *d)
{
    const lm_program *p = d->f->s.program;
    uint64_t          sizes[8] = { 0 }, counts[8] = { 0 };
    size_t            n = 0, k;
    lm_text            sum = { 0 };

    lm_let_sizes(d);
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *m = &p->nodes[i];
        bool again = m->weights[0] != LM_NONE && d->f->ledger->reader[m->weights[0]] != i;
        if ((m->code != LM_OP_RMS_NORM && m->code != LM_OP_LAYER_NORM) || again)
            continue;
        uint64_t size = 0;
        for (uint32_t w = 0; w < 2; w++)
            size += m->weights[w] != LM_NONE ? p->weights[m->weights[w]].elements : 0;
        for (k = 0; k < n && sizes[k] != size; k++)
            ;
        if (k == 8)
            return;
        n += k == n;
        sizes[k] = size;
        counts[k]++;
    }
    for (k = 0; k < n; k++) {
        lm_symbol_value q;
        bool        two = lm_try_formula(d, "2 * hidden", &q) && (uint64_t)q.n == sizes[k];
        lm_text_printf(&sum, "%s%" PRIu64 " * %s", k ? " + " : "", counts[k],
                       two ? "(2 * hidden)" : lm_width_formula(d, 0, false, sizes[k]));
    }
    if (n)
        lm_derive(d, "norm_weights", _("weights of all norms"), LM_UNIT_PARAMETERS, "parameters.norm",
                  sum.data);
    lm_text_free(&sum);
    if (!n)
        return;
    lm_let_fact(d, "total", "N", _("parameters stored"), "parameters.total");
    lm_derive(d, "share", _("of all parameters"), LM_UNIT_PERCENT, "parameters.shares.norm",
              "100 * norm_weights / total");
}

void lm_derive_residual(lm_derivation *d)
{
    const lm_program *p    = d->f->s.program;
    uint64_t          adds = 0;

    lm_let_sizes(d);
    for (uint32_t i = 0; i < p->n_nodes; i++)
        adds += p->nodes[i].layer == 0 && lm_is_residual(d->f->ledger, i);
    if (!adds)
        return;
    lm_let_count(d, "adds", NULL, _("additions to the stream in a layer"), adds);
    lm_derive(d, "updates", _("additions to the stream in all layers"), LM_UNIT_NONE, NULL, "adds * layers");
    lm_derive(d, "stream", _("values passed from layer to layer per token"), LM_UNIT_ELEMENTS, NULL,
              "hidden");
    lm_derive(d, "flops", _("additions per token"), LM_UNIT_FLOPS, NULL, "updates * hidden");
}

/* ---- ends ---- */

/* Return the first look-up of a table at or after an operation. */
static uint32_t embedding(const lm_program *p, uint32_t from)
{
    for (uint32_t i = from; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_EMBED)
            return i;
    return LM_NONE;
}

/* Derive both tables; that of the inputs of all layers may have fewer rows. */
static void derive_inputs(lm_derivation *d, const lm_weight *tokens, const lm_weight *inputs)
{
    bool same = inputs->dims[0] == tokens->dims[0];

    lm_derivef(d, "embeddings", _("with the table of the inputs of all layers"), LM_UNIT_PARAMETERS,
               "parameters.embedding", "table + %s * %" PRIu64,
               same ? "rows" : lm_derive_text(d, "%" PRIu64, inputs->dims[0]), inputs->dims[1]);
}

void lm_derive_embedding(lm_derivation *d)
{
    const lm_program *p = d->f->s.program;
    uint32_t          i = embedding(p, 0), further = i == LM_NONE ? i : embedding(p, i + 1);
    bool              positions = further != LM_NONE;

    lm_let_sizes(d);
    if (i == LM_NONE)
        return;
    const lm_weight *w = &p->weights[p->nodes[i].weights[0]];
    for (uint32_t k = 0; k < p->n_nodes; k++)
        positions |= p->nodes[k].code == LM_OP_POSITION;
    lm_let_count(d, "rows", "V", _("rows of the table"), w->dims[0]);
    lm_let_count(d, "width", "D_E", _("width of a row"), w->dims[1]);
    lm_derive(d, "table", _("the table of token embeddings"), LM_UNIT_PARAMETERS,
              positions ? NULL : "parameters.embedding", "rows * width");
    for (uint32_t k = 0; k < p->n_nodes; k++)
        if (p->nodes[k].code == LM_OP_POSITION) {
            const uint64_t *dims = p->weights[p->nodes[k].weights[0]].dims;
            lm_let_count(d, "positions", "P", _("rows of the position table"), dims[0]);
            lm_derivef(d, "embeddings", _("with the position table"), LM_UNIT_PARAMETERS,
                       "parameters.embedding", "table + positions * %s",
                       dims[1] == w->dims[1] ? "width" : lm_derive_text(d, "%" PRIu64, dims[1]));
        }
    if (further != LM_NONE)
        derive_inputs(d, w, &p->weights[p->nodes[further].weights[0]]);
    lm_let_fact(d, "total", "N", _("parameters stored"), "parameters.total");
    lm_derivef(d, "share", _("of all parameters"), LM_UNIT_PERCENT, "parameters.shares.embedding",
               "100 * %s / total", positions ? "embeddings" : "table");
    lm_derive(d, "read", _("values read per token: one row, no multiplication"), LM_UNIT_ELEMENTS, NULL,
              "width");
}

void lm_derive_tying(lm_derivation *d)
{
    lm_let_sizes(d);
    lm_let_fact(d, "total", "N", _("parameters stored"), "parameters.total");
    lm_derive(d, "matrix", _("the matrix in question"), LM_UNIT_PARAMETERS,
              lm_facts_truth(d->f, "architecture.tied") ? "parameters.saved_by_tying" : NULL,
              lm_head_formula(d));
    if (lm_facts_truth(d->f, "architecture.tied")) {
        lm_derive(d, "untied", _("if the head were untied"), LM_UNIT_PARAMETERS,
                  "parameters.untied_total", "total + matrix");
        lm_derive(d, "saved", _("saved"), LM_UNIT_PERCENT, NULL, "100 * matrix / untied");
    } else {
        lm_derive(d, "tied", _("if the head shared the embedding table"), LM_UNIT_PARAMETERS, NULL,
                  "total - matrix");
        lm_derive(d, "would_save", _("it would save"), LM_UNIT_PERCENT, NULL, "100 * matrix / total");
    }
    lm_derive(d, "head_flops", _("the product is computed for every token, whether tied or not"),
              LM_UNIT_FLOPS,
              "flops.head", "2 * matrix");
}

void lm_derive_sampling(lm_derivation *d)
{
    lm_let_fact(d, "vocab", "V", _("tokens of the vocabulary"), "architecture.vocabulary");
    lm_derive(d, "logits", _("logits per step"), LM_UNIT_ELEMENTS, NULL, "vocab");
    lm_derive(d, "least", _("probability of each token, uniform"), LM_UNIT_NONE, NULL, "1 / vocab");
    lm_derive(d, "most_entropy", _("its entropy in nats, the maximum"), LM_UNIT_NONE, NULL, "ln(vocab)");
    lm_derive(d, "most_bits", _("in bits"), LM_UNIT_NONE, NULL, "ln(vocab) / ln(2)");
}

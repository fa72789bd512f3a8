/* derive_layers.c - derivations of plain MLPs, activations, routers, additive positions, masks,
 * vocabularies. */
#include <inttypes.h>
#include <math.h>

#include "study/derive/topics.h"

/* ---- plain MLP ---- */

static uint32_t layers_with_mlp(const lm_ledger *l)
{
    const lm_program *p = l->program;
    uint32_t          n = 0;

    for (uint32_t i = 0, last = LM_NONE; i < p->n_nodes; i++)
        if (p->nodes[i].layer >= 0 && (l->roles[i] & LM_PRODUCT_DOWN) && l->part[i] == LM_PART_MLP &&
            last != (uint32_t)p->nodes[i].layer) {
            last = (uint32_t)p->nodes[i].layer;
            n++;
        }
    return n;
}

void lm_derive_mlp(lm_derivation *d)
{
    lm_traits t;

    lm_find_traits(d->f->ledger, &t);
    lm_let_sizes(d);
    if (!lm_has_symbol(d, "ffn") || !t.has_act || t.glu)
        return;
    lm_derive(d, "up", _("the matrix that increases the width"), LM_UNIT_PARAMETERS, NULL, "hidden * ffn");
    lm_derive(d, "down", _("the matrix that restores the width"), LM_UNIT_PARAMETERS, NULL, "ffn * hidden");
    if (t.bias_mlp)
        lm_derive(d, "biases", _("biases"), LM_UNIT_PARAMETERS, NULL, "ffn + hidden");
    if (t.act == LM_ACT_XIELU)
        lm_let_count(d, "of_activation", NULL, _("parameters of the activation, alpha_p and alpha_n"), 2);
    lm_derivef(d, "plain", _("one MLP"), LM_UNIT_PARAMETERS, NULL, "up + down%s%s",
               t.bias_mlp ? " + biases" : "", t.act == LM_ACT_XIELU ? " + of_activation" : "");
    uint32_t n = layers_with_mlp(d->f->ledger);
    lm_derivef(d, "all_plain", _("MLPs of all layers"), LM_UNIT_PARAMETERS, t.experts ? NULL : "parameters.mlp",
               "%s * plain", lm_layers_formula(d, n));
    lm_let_fact(d, "total", "N", _("parameters stored"), "parameters.total");
    lm_derive(d, "share", _("of all parameters"), LM_UNIT_PERCENT, "parameters.shares.mlp",
              "100 * all_plain / total");
    lm_derive(d, "expansion", _("this model's width in units of hidden"), LM_UNIT_RATIO, "mlp.expansion",
              "ffn / hidden");
    lm_derive(d, "flops", _("products of one token"), LM_UNIT_FLOPS,
              n == d->f->s.program->n_layers ? "flops.layer[0].mlp" : NULL, "2 * (up + down)");
    lm_derive(d, "gated", _("a gated MLP of the same width: three matrices"), LM_UNIT_PARAMETERS, NULL,
              "3 * hidden * ffn");
}

/* ---- activations at 1 and -1 ---- */

static void values_of_a_token(lm_derivation *d)
{
    lm_let_sizes(d);
    if (!lm_has_symbol(d, "ffn"))
        return;
    lm_derive(d, "evaluations", _("evaluations per token in a layer"), LM_UNIT_ELEMENTS, NULL, "ffn");
    lm_derive(d, "all_evaluations", _("in all layers"), LM_UNIT_ELEMENTS, NULL, "layers * evaluations");
}

static void let_x(lm_derivation *d)
{
    lm_let_count(d, "x", "x", _("example input"), 1);
}

void lm_derive_relu(lm_derivation *d)
{
    let_x(d);
    lm_derive(d, "positive", "ReLU(1)", LM_UNIT_NONE, NULL, "max(0, x)");
    lm_derive(d, "negative", "ReLU(−1)", LM_UNIT_NONE, NULL, "max(0, -x)");
    values_of_a_token(d);
}

void lm_derive_gelu(lm_derivation *d)
{
    let_x(d);
    lm_let_number(d, "pi", "\\pi", _("the ratio of a circle's circumference to its diameter"), acos(-1));
    lm_derive(d, "exact", _("GELU(1), exact"), LM_UNIT_NONE, NULL, "x / 2 * (1 + erf(x / sqrt(2)))");
    lm_derive(d, "with_tanh", _("GELU(1), with tanh"), LM_UNIT_NONE, NULL,
              "x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))");
    lm_derive(d, "difference", _("difference"), LM_UNIT_NONE, NULL, "with_tanh - exact");
    lm_derive(d, "negative", _("GELU(−1), exact"), LM_UNIT_NONE, NULL, "exact - x");
    values_of_a_token(d);
}

void lm_derive_silu(lm_derivation *d)
{
    let_x(d);
    lm_derive(d, "positive", "SiLU(1)", LM_UNIT_NONE, NULL, "x / (1 + exp(-x))");
    lm_derive(d, "negative", "SiLU(−1)", LM_UNIT_NONE, NULL, "positive - x");
    values_of_a_token(d);
}

/* ---- routers ---- */

void lm_derive_router(lm_derivation *d)
{
    lm_let_sizes(d);
    if (!lm_has_symbol(d, "experts"))
        return;
    lm_derive(d, "router", _("the router of a layer"), LM_UNIT_PARAMETERS, NULL, lm_router_formula(d));
    lm_derive(d, "router_flops", _("products of one token"), LM_UNIT_FLOPS, NULL, "2 * hidden * experts");
    lm_derive(d, "chosen", _("share of the experts that a token uses"), LM_UNIT_PERCENT, NULL,
              "100 * top_k / experts");
    lm_derive(d, "expert", _("one expert: a gated MLP"), LM_UNIT_PARAMETERS, NULL, lm_expert_formula(d));
    lm_derive(d, "work", _("products of the experts of a token, without the router"),
              LM_UNIT_RATIO, NULL, "2 * top_k * (3 * hidden * expert_width) / router_flops");
    lm_let_count(d, "batch", "n", _("example batch size, tokens"), 64);
    lm_derive(d, "load", _("average number of tokens per expert"), LM_UNIT_NONE, NULL,
              "batch * top_k / experts");
    lm_derive(d, "idle", _("probability that no token selects a given expert, if all are equally likely"),
              LM_UNIT_NONE,
              NULL, "(1 - top_k / experts)^batch");
    lm_derive(d, "visited", _("experts that the batch reads"), LM_UNIT_NONE, NULL, "experts * (1 - idle)");
}

/* ---- additive positions ---- */

static const lm_node *first_of(const lm_program *p, lm_op_code code)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == code)
            return &p->nodes[i];
    return NULL;
}

void lm_derive_learned(lm_derivation *d)
{
    const lm_program *p = d->f->s.program;
    const lm_node    *n = first_of(p, LM_OP_POSITION);

    lm_let_sizes(d);
    if (!n)
        return;
    const uint64_t *dims = p->weights[n->weights[0]].dims;
    lm_let_count(d, "positions", "P", _("rows of the position table"), dims[0]);
    lm_derivef(d, "table", _("the position table"), LM_UNIT_PARAMETERS, NULL, "positions * %s",
               lm_width_formula(d, 0, true, dims[1]));
    lm_let_fact(d, "total", "N", _("parameters stored"), "parameters.total");
    lm_derive(d, "share", _("of all parameters"), LM_UNIT_PERCENT, NULL, "100 * table / total");
    if (n->position.offset)
        lm_derivef(d, "context", _("maximum positions of a sequence: the rows before them are unused"),
                   LM_UNIT_TOKENS, "architecture.context", "positions - %u", n->position.offset);
    else
        lm_derive(d, "context", _("maximum positions of a sequence"), LM_UNIT_TOKENS, NULL, "positions");
    lm_derive(d, "flops", _("additions per token"), LM_UNIT_FLOPS, NULL,
              lm_width_formula(d, 0, true, dims[1]));
}

void lm_derive_sinusoidal(lm_derivation *d)
{
    const lm_program *p = d->f->s.program;
    const lm_node    *n = first_of(p, LM_OP_SINUSOID);

    lm_let_sizes(d);
    if (!n)
        return;
    uint64_t    pairs  = p->values[n->out].width / 2;
    bool        spread = n->position.layout == LM_SINUSOID_SPREAD;
    uint64_t    at[]   = { 0, pairs / 2, pairs - 1 };
    lm_let_number(d, "pi", "\\pi", _("the ratio of a circle's circumference to its diameter"), acos(-1));
    lm_derive(d, "pairs", _("pairs of a sine and a cosine"), LM_UNIT_NONE, NULL, "hidden / 2");
    for (size_t i = 0; i < 3; i++) {
        const char *name = lm_derive_text(d, "omega_%" PRIu64, at[i]);
        if (lm_has_symbol(d, name))
            continue;
        lm_derivef(d, name, lm_derive_text(d, _("pair %" PRIu64 ": angle per position"), at[i]),
                   LM_UNIT_RADIANS, NULL,
                   spread ? "10000^-(%" PRIu64 " / (pairs - 1))" : "10000^-(2 * %" PRIu64 " / hidden)",
                   at[i]);
        lm_derivef(d, lm_derive_text(d, "wavelength_%" PRIu64, at[i]), _("positions per full rotation"),
                   LM_UNIT_TOKENS, NULL, "2 * pi / %s", name);
    }
    lm_derive(d, "sine", _("position 3, pair 0: sine"), LM_UNIT_NONE, NULL, "sin(3 * omega_0)");
    lm_derive(d, "cosine", _("position 3, pair 0: cosine"), LM_UNIT_NONE, NULL, "cos(3 * omega_0)");
}

/* ---- masks ---- */

void lm_derive_mask(lm_derivation *d)
{
    const lm_program *p = d->f->s.program;
    lm_traits         t;

    lm_find_traits(d->f->ledger, &t);
    lm_let_fact(d, "tokens", "S", _("tokens of context"), "kv.context");
    lm_derive(d, "square", _("pairs of a query and a key"), LM_UNIT_NONE, NULL, "tokens^2");
    lm_derive(d, "triangle", _("pairs without a window: each token attends to itself and all earlier tokens"),
              LM_UNIT_NONE, NULL, "tokens * (tokens + 1) / 2");
    lm_derive(d, "seen", _("of the square"), LM_UNIT_PERCENT, NULL, "100 * triangle / square");
    if (!t.window)
        return;
    for (uint32_t i = 0; i < p->n_caches; i++)
        if (p->caches[i].window) {
            lm_let_count(d, "window", "W",
                         t.chunked ? _("keys of a chunk") : _("keys that a token attends to, including its own"),
                         p->caches[i].window);
            break;
        }
    if (!lm_has_symbol(d, "window") || lm_derived(d, "window").x >= lm_derived(d, "tokens").x)
        return;
    if (t.chunked) {
        lm_derive(d, "rest", _("tokens after the last whole chunk"), LM_UNIT_TOKENS, NULL,
                  "tokens - window * floor(tokens / window)");
        lm_derive(d, "band", _("pairs with the chunks"), LM_UNIT_NONE, NULL,
                  "floor(tokens / window) * window * (window + 1) / 2 + rest * (rest + 1) / 2");
    } else
        lm_derive(d, "band", _("pairs with the window"), LM_UNIT_NONE, NULL,
                  "tokens * window - window * (window - 1) / 2");
    lm_derive(d, "kept", _("of the triangle"), LM_UNIT_PERCENT, NULL, "100 * band / triangle");
}

/* ---- vocabularies ---- */

void lm_derive_tokenizer(lm_derivation *d)
{
    lm_let_sizes(d);
    lm_derive(d, "bits", _("bits for the number of a token"), LM_UNIT_NONE, NULL, "ceil(ln(vocab) / ln(2))");
    lm_derive(d, "table", _("the table of token embeddings"), LM_UNIT_PARAMETERS, NULL, "vocab * hidden");
}

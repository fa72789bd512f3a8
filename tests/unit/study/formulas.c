/* The chain and the formulas of every preset contain everything that its program computes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "program/op.h"
#include "study/facts/fact.h"
#include "study/facts/ledger.h"
#include "study/facts/traits.h"
#include "opened.h"

typedef void check(const char *name, lm_facts *f);

/* Run `look` on every preset; presets of families that lamina does not run are skipped. */
static void of_every_preset(check *look)
{
    lm_model_options o = { .weights_optional = true };
    char             path[96];
    size_t           seen = 0;

    for (size_t i = 0; lm_preset_at(i); i++) {
        lm_model *m = NULL;
        lm_facts *f = NULL;
        lm_error  e;
        snprintf(path, sizeof path, LM_PRESET_PREFIX "%s", lm_preset_at(i)->name);
        lm_status status = lm_model_open(path, &o, &m, &e);
        if (status == LM_UNSUPPORTED)
            continue;
        assert_int_equal(status, LM_OK);
        assert_int_equal(lm_facts_new(m, NULL, &f, &e), LM_OK);
        look(lm_preset_at(i)->name, f);
        assert_int_equal(lm_facts_check(f, &e), LM_OK);
        lm_facts_free(f);
        lm_model_close(m);
        seen++;
    }
    assert_true(seen > 100);
}

static size_t times(const char *text, const char *word)
{
    size_t n = 0;

    for (const char *at = strstr(text, word); at; at = strstr(at + strlen(word), word))
        n++;
    return n;
}

/* ---- the chain ---- */

/* Return whether an operation of a layer reads what was made before all layers, other than the stream. */
static bool enters_layer(const lm_program *p, uint32_t i)
{
    return p->nodes[p->values[p->nodes[i].in[0]].producer].layer < 0;
}

/* Return whether a block is products without an activation. */
static bool is_low_rank(const lm_ledger *l, uint32_t block)
{
    return lm_has_several(l->program, block) && !lm_is_apart(l->program, block) && !l->acts[block] &&
           !lm_connects(l->program, block);
}

/* The branches of a layer: attention, a state, an MLP or experts, and inputs of its own, as far as it has
 * them. */
static size_t branches_of(const lm_facts *f, uint32_t layer)
{
    const lm_ledger *l          = f->ledger;
    const lm_module *m          = &f->s.program->modules[l->layer[layer]];
    bool             attention = false, state = false, mlp = false, inputs = false, mixes = false;
    uint32_t         block = LM_NONE;
    size_t           low = 0;            /* residuals of low rank */

    for (uint32_t i = m->first_op; i < m->end_op; i++) {
        mixes |= f->s.program->nodes[i].code == LM_OP_MIX;
        low += l->block[i] != block && is_low_rank(l, l->block[i]);
        block = l->block[i];
        attention |= l->part[i] == LM_PART_ATTENTION;
        state |= l->part[i] == LM_PART_STATE;
        mlp |= l->part[i] == LM_PART_MLP;
        inputs |= f->s.program->nodes[i].code == LM_OP_COLUMNS && enters_layer(f->s.program, i);
    }
    return (size_t)attention + state + mlp + low + (inputs && !mixes);      /* which adds them to streams */
}

/* The chain contains the sums, activations and multipliers of the layer itself; norms are modules of it. */
static void chain_is_whole(const char *name, lm_facts *f)
{
    const lm_program *p     = f->s.program;
    const lm_module  *layer = &p->modules[f->ledger->layer[0]];
    const char       *chain = lm_facts_text(f, "flow.layer");
    size_t            sums = 0, scales = 0, norms = 0;

    for (uint32_t i = layer->first_op; i < layer->end_op; i++) {
        const lm_node *n     = &p->nodes[i];
        uint32_t       block = f->ledger->block[i];
        bool           alone = !lm_has_several(p, block);
        sums += lm_is_residual(f->ledger, i);
        scales += alone && n->code == LM_OP_SCALE;
        norms += alone && (n->code == LM_OP_RMS_NORM || n->code == LM_OP_LAYER_NORM);
        if (alone && n->code == LM_OP_ACT &&
            !strstr(chain, n->glu.act == LM_ACT_GELU_TANH ? "GELU" : lm_act_word(n->glu.act)))
            fail_msg("%s: %s lacks its activation", name, chain);
    }
    if (sums != branches_of(f, 0) || times(chain, "+") != sums || times(chain, "× ") != scales ||
        times(chain, "Norm") != norms)
        fail_msg("%s: %s: not %zu sums, %zu multipliers, %zu norms", name, chain, sums, scales, norms);
    assert_int_equal(lm_facts_count(f, "flow.residual_sums_per_layer"), sums);
    sums = 0;
    for (uint32_t i = 0; i < p->n_layers; i++)
        sums += branches_of(f, i);
    assert_int_equal(lm_facts_count(f, "flow.residual_sums"), sums);
}

static void chains_are_whole(void **state)
{
    (void)state;
    of_every_preset(chain_is_whole);
}

/* ---- the formulas ---- */

static const char *formula(lm_facts *f, const char *name)
{
    return lm_facts_has(f, "formulas.%s", name) ? lm_facts_text(f, "formulas.%s", name) : "";
}

static void must_say(const char *preset, lm_facts *f, const char *name, const char *what)
{
    if (!strstr(formula(f, name), what))
        fail_msg("%s: formulas.%s is \"%s\", without \"%s\"", preset, name, formula(f, name), what);
}

static void see_linear(const char *preset, lm_facts *f, uint32_t i)
{
    static const struct { uint16_t role; const char *name, *bias; } biases[] = {
        { LM_PRODUCT_QUERY, "query", "b_Q" }, { LM_PRODUCT_KEY, "key", "b_K" }, { LM_PRODUCT_VALUE, "value", "b_V" },
        { LM_PRODUCT_OUTPUT, "attention_output", "b_O" }, { LM_PRODUCT_ROUTER, "router", "b_r" }, { LM_PRODUCT_HEAD, "head", " + b" },
        { LM_PRODUCT_GATE, "mlp", "b_g" },
    };
    bool gated = strstr(formula(f, "mlp"), "gate") != NULL;

    if (f->s.program->nodes[i].weights[1] == LM_NONE)
        return;
    for (size_t k = 0; k < sizeof biases / sizeof *biases; k++)
        if (f->ledger->roles[i] & biases[k].role)
            must_say(preset, f, biases[k].name, biases[k].bias);
    if (f->ledger->part[i] == LM_PART_MLP && (f->ledger->roles[i] & (LM_PRODUCT_UP | LM_PRODUCT_DOWN)))
        must_say(preset, f, "mlp",
                 f->ledger->roles[i] & LM_PRODUCT_UP ? gated ? "b_u" : "b1"
                 : gated                             ? "b_d"
                                                     : "b2");
    assert_true(f->ledger->roles[i] != 0);                   /* a bias that has no formula */
}

static void see_attention(const char *preset, lm_facts *f, const lm_attention_spec *s)
{
    char cap[32];

    snprintf(cap, sizeof cap, "%g tanh(", (double)s->softcap);
    if (s->softcap > 0)
        must_say(preset, f, "attention", cap);
    if (s->alibi > 0)
        must_say(preset, f, "attention", s->alibi_half ? "(Q K^T + m_h j)" : "- m_h (i - j)");
    if (s->sinks)
        must_say(preset, f, "attention", "; s_h]) [V ; 0]");
}

static void see_mixture(const char *preset, lm_facts *f, const lm_node *n)
{
    char limit[48];

    if (n->code == LM_OP_ROUTE) {
        snprintf(limit, sizeof limit, "%g x sum", lm_decimal(n->route.spec.scale));
        must_say(preset, f, "mixture", n->route.spec.scale != 1 ? limit : "sum");
        must_say(preset, f, "mixture",
                 n->route.spec.renormalise                          ? "(g_i / sum g)"
                 : strcmp(f->s.program->family, "llama4_text") == 0 ? "E_i(g_i x)"
                                                                    : "g_i E_i");
        must_say(preset, f, "selection", n->weights[0] != LM_NONE ? "g + c" : "top-");
        return;
    }
    snprintf(limit, sizeof limit, "-%g, %g)%s", (double)n->experts.limit, (double)n->experts.limit,
             n->experts.plus > 0 ? " + 1" : "");
    must_say(preset, f, "mlp", n->experts.limit > 0 ? limit : "up(x)");
    bool own = n->weights[0] == n->weights[1];             /* up is its own gate */
    must_say(preset, f, "mlp", n->weights[3] != LM_NONE ? "b_g" : own ? "(up(x)) * up(x)" : "gate(x)");
    must_say(preset, f, "mlp", n->weights[5] != LM_NONE ? "b_d" : "down(");
}

/* A multiplier appears in the formula of its place: before the layers, in them or after them. Those inside a
 * part with a state have none: the part is named by its module. */
static void see_factor(const char *preset, lm_facts *f, const lm_node *n, bool behind)
{
    uint32_t block = f->ledger->block[n - f->s.program->nodes];
    char     factor[48];

    if (n->layer >= 0 && block != LM_NONE && f->ledger->carries[block])
        return;
    if (n->layer >= 0 && lm_is_apart(f->s.program, block) && n->scale.factor == -1)
        return;                          /* a difference */
    snprintf(factor, sizeof factor, n->code == LM_OP_SOFTCAP ? "%g tanh(" : "%g ",
             lm_decimal(n->scale.factor));
    bool inside = n->layer >= 0 && block != LM_NONE &&
                  f->s.program->modules[block].end_op > f->s.program->modules[block].first_op + 1;
    if (inside && (strstr(formula(f, f->ledger->attends[block] ? "key" : "mlp"), factor) ||
                   strstr(formula(f, "value"), factor) ||
                   strstr(formula(f, "router"), factor)))
        return;
    must_say(preset, f,
             behind                             ? "head"
             : n->layer < 0                     ? "embedding"
             : lm_is_apart(f->s.program, block) ? "predict"
                                                : "layer",
             factor);
}

/* A factor after a norm without a weight makes heads of length 1: part of a recurrence. */
static bool makes_units(const lm_program *p, const lm_node *n)
{
    const lm_node *from = &p->nodes[p->values[n->in[0]].producer];

    return from->code == LM_OP_RMS_NORM && from->weights[0] == LM_NONE;
}

/* Return whether a factor before the layers is one of the stream; others belong to inputs of the layers. */
static bool feeds_stream(const lm_facts *f, const lm_node *n)
{
    const lm_program *p = f->s.program;
    const lm_node    *at = &p->nodes[p->values[p->modules[f->ledger->layer[0]].in].producer];

    for (; at != n && at->n_in; at = &p->nodes[p->values[at->in[0]].producer])
        ;
    return at == n;
}

static void see(const char *preset, lm_facts *f, uint32_t i, bool behind)
{
    const lm_node *n = &f->s.program->nodes[i];
    char           top[32];

    switch (n->code) {
    case LM_OP_LINEAR:
        see_linear(preset, f, i);
        break;
    case LM_OP_ATTENTION:
        see_attention(preset, f, &n->attention.spec);
        break;
    case LM_OP_ROUTE:
    case LM_OP_EXPERTS:
        see_mixture(preset, f, n);
        break;
    case LM_OP_SCALE:
        if (makes_units(f->s.program, n) || (n->layer < 0 && !behind && !feeds_stream(f, n)))
            break;
        see_factor(preset, f, n, behind);
        break;
    case LM_OP_SOFTCAP:
        see_factor(preset, f, n, behind);
        break;
    case LM_OP_GAUSSIAN_TOP:
        snprintf(top, sizeof top, "%g sqrt(var)", lm_decimal(n->scale.factor));
        must_say(preset, f, "top", top);
        must_say(preset, f, "mlp", "Top(gate(x))");
        break;
    case LM_OP_MIX:
        if (n->n_in > 2)
            must_say(preset, f, "layer", n->in[0] == n->in[1] ? "Predict(" : "Correct(");
        break;
    case LM_OP_MERGE:
        must_say(preset, f, "layer", "Merge(");
        break;
    case LM_OP_BLEND:
        must_say(preset, f, behind ? "head" : "layer", "Blend(");
        break;
    case LM_OP_REPEAT:
        must_say(preset, f, "embedding", "Repeat(");
        break;
    case LM_OP_MATCH:
        must_say(preset, f, behind ? "head" : "embedding", "Match(");
        break;
    case LM_OP_CLAMP:
        must_say(preset, f, "query", "clamp(");
        break;
    case LM_OP_SELECT_KEYS:
        snprintf(top, sizeof top, "top-%u of %s", n->attention.spec.top_k,
                 n->attention.spec.rate ? "entries" : "j");
        must_say(preset, f, "choice", top);
        break;
    case LM_OP_RMS_NORM:
    case LM_OP_LAYER_NORM:
        if (lm_only_chooses(f->s.program, n->out, false))      /* of the key of an indexer */
            break;
        if (n->weights[0] != LM_NONE && f->s.program->weights[n->weights[0]].plus_one)
            must_say(preset, f, "norm", "(1 + gamma)");
        if (n->weights[1] != LM_NONE)
            must_say(preset, f, "norm", "+ beta");
        break;
    case LM_OP_GLU:
        if (f->s.program->values[n->in[0]].width == 1)
            must_say(preset, f, "mixture", "sigmoid(W_s x) E_s(x)");
        break;
    case LM_OP_POSITION:
    case LM_OP_SINUSOID:
        must_say(preset, f, "positions", n->code == LM_OP_POSITION ? "W_P[pos]" : "PE(pos)");
        break;
    default:
        break;
    }
}

static void formulas_are_whole(const char *preset, lm_facts *f)
{
    const lm_program *p     = f->s.program;
    const lm_module  *layer = &p->modules[f->ledger->layer[0]];
    size_t            norms = 0;
    bool              behind = false, state = false;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        behind |= p->nodes[i].layer >= 0;
        see(preset, f, i, behind && p->nodes[i].layer < 0);
    }
    for (uint32_t i = layer->first_op; i < layer->end_op; i++)
        state |= lm_op_of(p->nodes[i].code)->state;
    must_say(preset, f, "layer", state && branches_of(f, 0) == 1 ? "Mix(" : "MLP(");
    if (state)                           /* the block is named by its module */
        return;
    for (uint32_t i = layer->first_op; i < layer->end_op; i++)
        norms += (p->nodes[i].code == LM_OP_RMS_NORM || p->nodes[i].code == LM_OP_LAYER_NORM) &&
                 !lm_has_several(p, f->ledger->block[i]);
    for (uint32_t i = layer->first_op; i < layer->end_op; i++)         /* they read a norm of attention's */
        norms += f->ledger->block[i] != LM_NONE && is_low_rank(f->ledger, f->ledger->block[i]) &&
                 p->modules[f->ledger->block[i]].first_op == i;
    if (lm_facts_has(f, "formulas.after_mlp") &&
        times(formula(f, "after_attention"), "Norm(") + times(formula(f, "after_mlp"), "Norm(") +
                times(formula(f, "after_inputs"), "Norm(") + times(formula(f, "mixture"), "Norm(") !=
            norms)
        fail_msg("%s: a layer has %zu norms: %s, %s", preset, norms, formula(f, "after_attention"),
                 formula(f, "after_mlp"));
    must_say(preset, f, "layer", "Attn(");
}

static void every_operation_is_in_a_formula(void **state)
{
    (void)state;
    of_every_preset(formulas_are_whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_are_whole),
        cmocka_unit_test(every_operation_is_in_a_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

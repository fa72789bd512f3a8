/* chapter_parameters.c - how many weights there are, where they are, and the purpose of each matrix. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/facts/ledger.h"
#include "study/report/chapters.h"
#include "base/number.h"

/* ---- by module (O-7) ---- */

static void cell_share(lm_doc_table *t, uint64_t n)
{
    double x = 100.0 * (double)n / (double)lm_facts_count(t->d->facts, "parameters.total");
    char   text[32];

    lm_print(text, sizeof text, "%.3f %%", x);
    lm_cell_number(t, x, LM_UNIT_PERCENT, text);
}

static const lm_fact *member(const lm_fact *g, const char *name)
{
    return lm_fact_member(g, name, strlen(name));
}

/* Return whether a path can contain the name: module names may contain any characters. */
static bool is_plain(const char *name)
{
    return *name && !strpbrk(name, ".[]*") && !(*name >= '0' && *name <= '9');
}

/* Add the same module in all layers. `path`: below parameters.stack; NULL: a part of it cannot be in a
 * path. */
static void put_place(lm_doc_table *t, const lm_fact *g, const char *path, const char *name, uint32_t depth)
{
    const lm_fact *all = member(g, "parameters"), *in = member(g, "in_layers");
    lm_document   *d   = t->d;

    if (!all || !in || !all->count || !in->count)
        return;
    lm_inner_row(t, depth);
    lm_cell(t, name);
    if (all->count % in->count)
        lm_cell_empty(t);
    else
        lm_cell_count(t, LM_EXACT, LM_UNIT_PARAMETERS, all->count / in->count);
    lm_cell_of_fact(t, LM_EXACT, in, path ? lm_doc_printf(d, "%s.in_layers", path) : NULL);
    lm_cell_of_fact(t, LM_EXACT, all, path ? lm_doc_printf(d, "%s.parameters", path) : NULL);
    cell_share(t, all->count);
    for (const lm_fact *x = lm_fact_first(g); x; x = lm_fact_next(x))
        if (x->kind == LM_FACT_GROUP && (!d->depth || depth + 1 < d->depth))
            put_place(t, x, path && is_plain(x->name) ? lm_doc_printf(d, "%s.%s", path, x->name) : NULL,
                      x->name, depth + 1);
}

/* Add the modules outside the decoder layers that have their own parameters. */
static void put_outside(lm_doc_table *t)
{
    lm_facts         *f = t->d->facts;
    const lm_program *p = f->s.program;
    lm_module_sums    s;

    for (uint32_t m = 0; m < p->n_modules; m++) {
        if (p->modules[m].layer >= 0 || f->ledger->child[m] != LM_NONE)
            continue;
        lm_module_sum(f->ledger, m, &s);
        if (!s.parameters)
            continue;
        lm_next_row(t);
        lm_cell(t, p->modules[m].path);
        lm_cell_fact(t, LM_EXACT, "modules[%u].parameters", m);
        lm_cell_empty(t);
        lm_cell_fact(t, LM_EXACT, "modules[%u].parameters", m);
        cell_share(t, s.parameters);
    }
}

bool lm_reads_embedding_apart(lm_facts *f)
{
    uint64_t active = lm_facts_count(f, "parameters.active");

    return active != lm_facts_count(f, "parameters.total") &&
           active != lm_facts_count(f, "parameters.active_without_embedding");
}

static void put_of_which(lm_doc_table *t, const char *label, const char *path)
{
    if (!lm_facts_count(t->d->facts, "%s", path))
        return;
    lm_fact_row(t, label, LM_EXACT, "", "", path, NULL);
}

void lm_part_parameters(lm_document *d)
{
    lm_facts      *f     = d->facts;
    const lm_fact *stack = NULL;
    lm_doc_table *t = lm_doc_table_of(d, "parameters-by-module", NULL, "lrrrr", _("module"), _("each"),
                                      _("layers"), _("together"), _("share"));

    t->drawn = 4;
    if (lm_facts_find(f, "parameters.stack", &stack, NULL) == LM_OK)
        put_place(t, stack, "parameters.stack", _("decoder layer"), 0);
    put_outside(t);
    lm_strong_row(t);
    lm_cell(t, _("total"));
    lm_cell_empty(t);
    lm_cell_empty(t);
    lm_cell_fact(t, LM_EXACT, "parameters.total");
    lm_cell_number(t, 100, LM_UNIT_PERCENT, "100.000 %");
    lm_gap_row(t);
    put_of_which(t, _("saved by tying the head"), "parameters.saved_by_tying");
    put_of_which(t, _("of which biases"), "parameters.biases");
    put_of_which(t, _("of which experts"), "parameters.experts");
    if (lm_facts_count(f, "parameters.active") != lm_facts_count(f, "parameters.total"))
        put_of_which(t, _("active per token"), "parameters.active");
    if (lm_reads_embedding_apart(f))
        put_of_which(t, _("active, without embedding"), "parameters.active_without_embedding");
}

/* ---- by part (O-12) ---- */

static void write_shares(lm_document *d)
{
    static const struct { const char *name, *label; } parts[] = {
        { "embedding", N_("embedding") }, { "attention", N_("attention") },
        { "state", N_("layers with a state") }, { "mlp", N_("MLP") },
        { "norm", N_("norms") },          { "head", N_("head") },           { "other", N_("other") },
    };
    lm_facts     *f = d->facts;
    lm_doc_table *t = lm_doc_table_of(d, "shares", NULL, "lrrl", _("part"), _("parameters"), _("share"), "");
    bool          tied = lm_facts_truth(f, "architecture.tied");

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!lm_facts_count(f, "parameters.%s", parts[i].name))
            continue;
        double share = lm_facts_number(f, "parameters.shares.%s", parts[i].name);
        char   text[32];
        lm_print(text, sizeof text, share < 0.01 ? "%.4f %%" : "%.2f %%", share);
        lm_next_row(t);
        lm_cell(t, i == 0 && tied ? _("embedding, also the head") : _(parts[i].label));
        lm_cell_fact(t, LM_EXACT, "parameters.%s", parts[i].name);
        lm_cell_number(t, share, LM_UNIT_PERCENT, text);
        lm_cell_bar(t, share / 100, 0);
    }
    lm_strong_row(t);
    lm_cell(t, _("total"));
    lm_cell_fact(t, LM_EXACT, "parameters.total");
    lm_cell_number(t, 100, LM_UNIT_PERCENT, "100 %");
    if (tied)
        lm_fact_row(t, _("if the head were untied"), LM_EXACT, "parameters.untied_total", NULL);
    if (lm_facts_count(f, "parameters.active") != lm_facts_count(f, "parameters.total"))
        lm_fact_row(t, _("active per token"), LM_EXACT, "parameters.active", NULL);
    if (lm_reads_embedding_apart(f))
        lm_fact_row(t, _("active, without embedding"), LM_EXACT, "parameters.active_without_embedding", NULL);
    lm_doc_note(d, tied ? _("Every stored weight is counted once; the head shares the embedding table.")
                        : _("Every stored weight is counted once, by the operation that reads it first."));
}

/* ---- arguments and their meaning (O-9) ---- */

static void argument(lm_doc_table *t, const char *name, uint64_t value, const char *meaning)
{
    lm_inner_row(t, 1);
    lm_cell_code(t, name);
    lm_cell_count(t, LM_EXACT, LM_UNIT_NONE, value);
    lm_cell(t, meaning);
}

static const char *meaning_of(lm_document *d, uint32_t i)
{
    const lm_program *p    = d->facts->s.program;
    uint16_t          role = d->facts->ledger->roles[i];

    for (uint32_t k = i; k < p->n_nodes && p->nodes[k].layer == p->nodes[i].layer; k++) {
        const lm_attention_spec *s = &p->nodes[k].attention.spec;
        if (p->nodes[k].code != LM_OP_ATTENTION || s->v_in_k)
            continue;
        if (role == LM_PRODUCT_QUERY)
            return lm_doc_printf(d, _("%u query heads of %u dimensions"), s->n_heads, s->k_dim);
        if (role == LM_PRODUCT_KEY)
            return lm_doc_printf(d, _("%u key heads of %u dimensions"), s->n_kv_heads, s->k_dim);
        if (role == LM_PRODUCT_VALUE)
            return lm_doc_printf(d, _("%u value heads of %u dimensions"), s->n_kv_heads, s->v_dim);
        break;
    }
    switch (role) {
    case LM_PRODUCT_OUTPUT:
    case LM_PRODUCT_DOWN:
        return _("output width: that of the residual stream");
    case LM_PRODUCT_GATE:
        return _("one gate per dimension of the MLP");
    case LM_PRODUCT_UP:
        return _("dimensions of the MLP");
    case LM_PRODUCT_ROUTER:
        return _("one score per expert");
    case LM_PRODUCT_HEAD:
        return _("one logit per token of the vocabulary");
    default:
        return _("output dimensions");
    }
}

static void write_arguments(lm_doc_table *t, uint32_t m)
{
    lm_document      *d = t->d;
    const lm_program *p = d->facts->s.program;
    const lm_node    *n = &p->nodes[p->modules[m].first_op];
    char              eps[32];

    switch (n->code) {
    case LM_OP_LINEAR:
        argument(t, "in_features", p->values[n->in[0]].width, _("input dimensions"));
        argument(t, "out_features", p->values[n->out].width, meaning_of(d, p->modules[m].first_op));
        lm_inner_row(t, 1);
        lm_cell_code(t, "bias");
        lm_cell(t, n->weights[1] != LM_NONE ? "True" : "False");
        lm_cell(t, n->weights[1] != LM_NONE ? _("one bias per output dimension") : _("only the matrix"));
        break;
    case LM_OP_EMBED:
    case LM_OP_POSITION:
        argument(t, "num_embeddings", p->weights[n->weights[0]].dims[0],
                 n->code == LM_OP_EMBED ? _("tokens of the vocabulary") : _("number of positions"));
        argument(t, "embedding_dim", p->values[n->out].width,
                 _("width of the residual stream, the length of a table row"));
        break;
    case LM_OP_RMS_NORM:
    case LM_OP_LAYER_NORM:
        argument(t, "normalized_shape",
                 n->weights[0] != LM_NONE ? p->weights[n->weights[0]].elements : p->values[n->out].width,
                 _("normalised dimensions"));
        lm_inner_row(t, 1);
        lm_cell_code(t, "eps");
        lm_cell_number(t, lm_decimal(n->norm.eps), LM_UNIT_NONE,
                       lm_number_text(eps, lm_decimal(n->norm.eps)));
        lm_cell(t, _("added under the root for numerical stability"));
        break;
    case LM_OP_EXPERTS:
        argument(t, "num_experts", n->experts.n_experts, _("routed experts, each a separate MLP"));
        argument(t, "num_experts_per_tok", n->experts.top_k, _("active experts per token"));
        argument(t, "intermediate_size", n->experts.width, _("dimensions inside an expert"));
        break;
    default:
        break;
    }
}

static void write_module(lm_doc_table *t, uint32_t m)
{
    const lm_module *x = &t->d->facts->s.program->modules[m];
    lm_module_sums   s;

    if (t->d->facts->ledger->child[m] != LM_NONE || x->end_op == x->first_op)
        return;
    lm_module_sum(t->d->facts->ledger, m, &s);
    if (!s.parameters && x->end_op != x->first_op + 1)
        return;
    lm_next_row(t);
    lm_cell_code(t, x->path);
    lm_cell_empty(t);
    lm_cell(t, x->class_name);
    lm_cell_fact(t, LM_EXACT, "modules[%u].parameters", m);
    lm_cell_count(t, LM_PLAIN, LM_UNIT_BYTES, 4 * s.parameters);
    if (x->end_op == x->first_op + 1)
        write_arguments(t, m);
}

static void write_meanings(lm_document *d)
{
    lm_facts         *f = d->facts;
    const lm_program *p = f->s.program;
    lm_doc_table *t = lm_doc_table_of(d, "arguments", NULL, "lrlrr", _("module, argument"), _("value"),
                                      _("meaning"), _("parameters"), _("bytes as f32"));

    for (uint32_t m = 0; m < p->n_modules; m++)
        if (p->modules[m].layer < 0 || f->ledger->twin[p->modules[m].layer] == (uint32_t)p->modules[m].layer)
            write_module(t, m);
    if (f->ledger->stack != LM_NONE)
        lm_doc_note(
            d, _("One layer of each kind is listed. A head without parameters shares the embedding table."));
}

/* ---- each layer ---- */

static void write_layers(lm_document *d)
{
    lm_facts     *f = d->facts;
    lm_doc_table *t;

    if (lm_facts_count(f, "architecture.kinds_of_layer") < 2)
        return;
    lm_doc_fold(d, "parameters-of-layers", _("Parameters of each layer"));
    t = lm_doc_table_of(d, NULL, NULL, "lrr", _("layer"), _("parameters"), _("share"));
    for (uint32_t i = 0; i < f->s.program->n_layers; i++) {
        lm_next_row(t);
        lm_cell_code(t, f->s.program->modules[f->ledger->layer[i]].path);
        lm_cell_fact(t, LM_EXACT, "parameters.per_layer[%u]", i);
        cell_share(t, lm_facts_count(f, "parameters.per_layer[%u]", i));
    }
    lm_doc_close(d);
}

/* ---- kinds of MLP (O-20) ---- */

static void mlp_row(lm_doc_table *t, const char *kind, const char *matrices, uint64_t n, uint64_t width,
                    uint64_t hidden, bool ours)
{
    lm_next_row(t);
    lm_cellf(t, ours ? _("%s (this model)") : "%s", kind);
    lm_cell_count(t, LM_EXACT, LM_UNIT_NONE, n);
    lm_cell(t, matrices);
    lm_cell_count(t, LM_EXACT, LM_UNIT_LANES, width);
    lm_cell_count(t, LM_EXACT, LM_UNIT_PARAMETERS, n * hidden * width);
}

static void write_mlps(lm_document *d)
{
    lm_facts *f     = d->facts;
    uint64_t  h     = lm_facts_count(f, "architecture.hidden");
    bool      gated = lm_facts_has(f, "mlp.gated") && lm_facts_truth(f, "mlp.gated");

    bool dense = lm_facts_has(f, "mlp.intermediate");
    if (!dense && !lm_facts_has(f, "mlp.expert_width"))
        return;
    uint64_t i = lm_facts_count(f, dense ? "mlp.intermediate" : "mlp.expert_width"), parity = (2 * i + 1) / 3;
    lm_doc_open(d, "mlp-parameters", "O-20", _("What a gate costs"));
    lm_doc_table *t = lm_doc_table_of(d, "mlp-kinds", NULL, "lrlrr", _("MLP"), _("matrices"), _("formula"),
                                      _("width"),
                                      dense ? _("weights in a layer") : _("weights of an expert"));
    mlp_row(t, _("plain"), "2 · D · F", 2, i, h, !gated);
    mlp_row(t, _("gated"), "3 · D · F", 3, i, h, gated);
    if (gated)
        mlp_row(t, _("gated, as many weights as plain"), "3 · D · ⅔F", 3, parity, h, false);
    lm_doc_note(
        d, _("Matrices of one dense MLP, without biases. A third matrix of the same width adds 50 %; a width "
             "reduced to two thirds restores the count."));
    lm_doc_close(d);
}

/* Return whether a module of a layer, such as its attention, has norms of its own. */
static bool has_inner_norms(const lm_facts *f)
{
    const lm_program *p = f->s.program;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        if (n->layer >= 0 && (n->code == LM_OP_RMS_NORM || n->code == LM_OP_LAYER_NORM) &&
            n->weights[0] != LM_NONE && p->modules[n->module].parent != f->ledger->layer[n->layer])
            return true;
    }
    return false;
}

void lm_chapter_parameters(lm_document *d)
{
    lm_doc_open(d, "parameters", NULL, _("Parameters"));
    lm_doc_open(d, "parameter-shares", "O-12", _("Shares"));
    write_shares(d);
    lm_doc_close(d);
    lm_doc_open(d, "parameter-table", "O-7", _("By module"));
    lm_part_parameters(d);
    if (has_inner_norms(d->facts))
        lm_doc_note(d, _("A module includes the norms inside it; “Shares” counts them as norms."));
    write_layers(d);
    lm_doc_close(d);
    lm_doc_open(d, "module-arguments", "O-9", _("Every module, its arguments and what they mean"));
    lm_doc_fold(d, "module-arguments-list", _("Every module"));
    write_meanings(d);
    lm_doc_close(d);
    lm_doc_close(d);
    write_mlps(d);
    lm_doc_open(d, "parameter-derivation", NULL, _("The count, derived"));
    lm_doc_topic(d, "params", LM_TOPIC_ARITHMETIC | LM_TOPIC_JUDGEMENT, NULL);
    lm_doc_close(d);
    lm_doc_close(d);
}

void lm_chapter_estimates(lm_document *d)
{
    lm_doc_open(d, "estimates", "O-19", _("Estimates and the exact count"));
    lm_doc_topic(d, "estimate", LM_TOPIC_WHAT | LM_TOPIC_LETTERS | LM_TOPIC_ARITHMETIC | LM_TOPIC_JUDGEMENT,
                 NULL);
    lm_doc_close(d);
}

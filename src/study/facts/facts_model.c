/* facts_model.c - what the model is: its name, its description, its architecture in standard terms. */
#include <stdio.h>
#include <string.h>

#include "study/facts/fact.h"
#include "study/facts/ledger.h"
#include "study/facts/traits.h"

void lm_fill_model(lm_facts *f, lm_fact *g)
{
    const lm_subject *s = &f->s;

    lm_add_text(g, "name", s->name, LM_FROM_CONFIG, NULL);
    lm_add_text(g, "family", s->program->family, LM_FROM_PROGRAM, NULL);
    lm_add_text(g, "class", s->program->class_name, LM_FROM_PROGRAM, NULL);
    lm_add_text(g, "source", s->source, LM_FROM_REQUEST, NULL);
    lm_add_word(g, "container", (lm_word){ s->container, s->container }, LM_FROM_TENSOR, NULL);
    if (s->tokenizer)
        lm_add_text(g, "tokenizer", s->tokenizer, LM_FROM_CONFIG, "the model's own tokenizer");
    if (s->sampling)
        lm_add_text(g, "sampling", s->sampling, LM_FROM_CONFIG, "defaults of sampling that its files carry");
    if (s->calls)
        lm_add_text(g, "tool_call_format", s->calls, LM_FROM_CONFIG, "the form in which it writes tool calls");
    if (s->unread)
        lm_add_text(g, "tool_calls_unread", s->unread, LM_FROM_CONFIG, "why its tool calls are not parsed");
    if (s->reasoning[0]) {
        lm_add_text(g, "reasoning_start", s->reasoning[0], LM_FROM_CONFIG, "the mark before its reasoning");
        lm_add_text(g, "reasoning_end", s->reasoning[1], LM_FROM_CONFIG, "the mark after its reasoning");
    }
}

void lm_fill_warnings(lm_facts *f, lm_fact *list)
{
    for (const char *const *w = f->s.warnings; w && *w; w++)
        lm_add_text(list, NULL, *w, LM_FROM_CONFIG, NULL);
    if (lm_facts_has(f, "memory.not_planned"))
        lm_add_text(list, NULL, lm_facts_text(f, "memory.not_planned"), LM_FROM_PLAN, NULL);
}

/* ---- keys of the description ---- */

static void add_meta(lm_fact *group, const char *name, const lm_meta_value *v);

enum { MAX_ITEMS = 512 };

static void add_array(lm_fact *group, const char *name, const lm_meta_value *v)
{
    lm_fact *list = v->a.n <= MAX_ITEMS ? lm_add_list(group, name, NULL, 0)
                                        : lm_add_group(group, name, NULL, 0);
    lm_meta_value item;

    if (list->kind == LM_FACT_GROUP) {
        lm_add_count(list, "length", v->a.n, LM_UNIT_NONE, LM_FROM_CONFIG, NULL);
        return;
    }
    for (uint64_t i = 0; lm_meta_at(v, i, &item); i++)
        add_meta(list, NULL, &item);
}

static void add_object(lm_fact *group, const char *name, const lm_meta_value *v)
{
    lm_fact      *inner = lm_add_group(group, name, NULL, 0);
    lm_meta_value item;
    lm_view       key;

    for (uint64_t i = 0; lm_meta_member(v, i, &key, &item); i++) {
        add_meta(inner, lm_facts_strndup(group->impl.owner, key.data, key.size), &item);
    }
}

static void add_meta(lm_fact *group, const char *name, const lm_meta_value *v)
{
    switch (v->kind) {
    case LM_META_NULL:
        lm_add_none(group, name, NULL)->origin = LM_FROM_CONFIG;
        break;
    case LM_META_BOOL:
        lm_add_bool(group, name, v->b, LM_FROM_CONFIG, NULL);
        break;
    case LM_META_INT:
        lm_add_number(group, name, (double)v->i, LM_UNIT_NONE, LM_FROM_CONFIG, NULL);
        break;
    case LM_META_UINT:
        lm_add_count(group, name, v->u, LM_UNIT_NONE, LM_FROM_CONFIG, NULL);
        break;
    case LM_META_FLOAT:
        lm_add_number(group, name, v->f, LM_UNIT_NONE, LM_FROM_CONFIG, NULL)->impl.decimal = true;
        break;
    case LM_META_STRING:
        lm_add_text(group, name, NULL, LM_FROM_CONFIG, NULL)->text =
            lm_facts_strndup(group->impl.owner, v->s.data ? v->s.data : "", v->s.size);
        break;
    case LM_META_ARRAY:
        add_array(group, name, v);
        break;
    case LM_META_OBJECT:
        add_object(group, name, v);
        break;
    }
}

/* Add all of config.json, or the keys of a GGUF file that begin with its architecture. */
void lm_fill_config(lm_facts *f, lm_fact *g)
{
    lm_view       key, arch = { 0 };
    lm_meta_value v;

    lm_meta_string(f->s.meta, "general.architecture", &arch, NULL);
    for (size_t i = 0; lm_meta_entry(f->s.meta, i, &key, &v); i++) {
        lm_view shown = key;
        if (arch.size) {
            if (!lm_view_starts(key, arch) || key.size <= arch.size || key.data[arch.size] != '.')
                continue;
            shown = (lm_view){ key.data + arch.size + 1, key.size - arch.size - 1 };
        }
        add_meta(g, lm_facts_strndup(f, shown.data, shown.size), &v);
    }
}

/* ---- architecture, derived from the operations ---- */

static void add_norms(lm_facts *f, lm_fact *g, const lm_traits *t)
{
    (void)f;
    if (!t->norm) {
        lm_add_none(g, "norm", "no operation normalises");
        return;
    }
    lm_add_word(g, "norm", lm_norm_word(t->norm_kind), LM_FROM_PROGRAM, "operation of the first norm");
    lm_add_word(g, "norm_position", lm_norm_position_word(t->norm_position), LM_FROM_PROGRAM,
                "where norms stand between the residual sums of a layer");
    lm_add_bool(g, "norm_bias", t->norm->weights[1] != LM_NONE, LM_FROM_PROGRAM,
                "second weight of the first norm");
    lm_add_number(g, "norm_eps", lm_decimal(t->norm->norm.eps), LM_UNIT_NONE, LM_FROM_PROGRAM,
                  "attribute of the first norm");
    lm_add_count(g, "norms", t->n_norms, LM_UNIT_NONE, LM_FROM_PROGRAM, "operations that normalise");
    lm_add_count(g, "final_norms", t->n_final_norms, LM_UNIT_NONE, LM_FROM_PROGRAM,
                 "norms after the last layer");
    lm_add_bool(g, "qk_norm", t->qk_norm, LM_FROM_PROGRAM, "norms between projection and scores");
}

static void add_biases(lm_fact *g, const lm_traits *t)
{
    lm_add_bool(g, "qkv_bias", t->bias_qkv, LM_FROM_PROGRAM,
                "a second weight of the products that make q, k or v");
    lm_add_bool(g, "attention_output_bias", t->bias_o, LM_FROM_PROGRAM, NULL);
    lm_add_bool(g, "attention_bias", t->bias_qkv && t->bias_o, LM_FROM_PROGRAM, "both of the above");
    lm_add_bool(g, "mlp_bias", t->bias_mlp, LM_FROM_PROGRAM, NULL);
    lm_add_bool(g, "head_bias", t->bias_head, LM_FROM_PROGRAM, NULL);
}

static void add_sizes(lm_facts *f, lm_fact *g, const lm_traits *t)
{
    const lm_program *p = f->s.program;

    lm_add_count(g, "layers", p->n_layers, LM_UNIT_LAYERS, LM_FROM_PROGRAM,
                 "decoder layers in the module tree");
    lm_add_count(g, "last_layer", p->n_layers ? p->n_layers - 1 : 0, LM_UNIT_NONE, LM_FROM_PROGRAM,
                 "index, from 0");
    lm_add_count(g, "kinds_of_layer", t->kinds, LM_UNIT_NONE, LM_FROM_PROGRAM,
                 "layers that differ in operations, widths or attributes");
    lm_add_count(g, "hidden", t->hidden, LM_UNIT_LANES, LM_FROM_PROGRAM, "width of the residual stream");
    lm_add_count(g, "vocabulary", p->n_vocab, LM_UNIT_TOKENS, LM_FROM_PROGRAM, "width of the logits");
    if (p->context_length)
        lm_add_count(g, "context", p->context_length, LM_UNIT_TOKENS, LM_FROM_CONFIG, "advertised positions");
    else
        lm_add_none(g, "context", "unbounded");
    lm_add_bool(g, "context_is_hard", p->context_is_hard, LM_FROM_PROGRAM, "positions beyond do not exist");
}

void lm_fill_architecture(lm_facts *f, lm_fact *g)
{
    lm_traits t;
    char      word[128];

    lm_find_traits(f->ledger, &t);
    lm_add_text(g, "kind", "decoder-only", LM_FROM_PROGRAM,
                "every attention is causal and reads its own layer's cache");
    add_sizes(f, g, &t);
    lm_add_text(g, "attention", lm_attention_name(&t, word, sizeof word), LM_FROM_PROGRAM,
                "heads of the cache, and windows");
    lm_add_word(g, "position", lm_position_word(&t), LM_FROM_PROGRAM,
                "operations that use positions");
    lm_add_text(g, "mlp", lm_mlp_name(&t, word, sizeof word), LM_FROM_PROGRAM,
                "operations between the MLP's products");
    lm_add_word(g, "activation", lm_activation_word(&t), LM_FROM_PROGRAM, NULL);
    add_norms(f, g, &t);
    add_biases(g, &t);
    lm_add_bool(g, "tied", t.tied, LM_FROM_PROGRAM, "the head reads the embedding's table");
    lm_add_bool(g, "parallel_blocks", t.parallel, LM_FROM_PROGRAM, "attention and MLP read the same input");
}

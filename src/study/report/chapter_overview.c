/* chapter_overview.c - what the model is, on one page. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/facts/figure.h"
#include "study/facts/flow.h"
#include "study/facts/precision.h"
#include "study/page/sliders.h"
#include "study/report/chapters.h"

/* ---- numbers of the description (the first page of every model card) ---- */

static void info(lm_doc_table *t, const char *label, const char *path)
{
    if (!lm_facts_has(t->d->facts, "%s", path))
        return;
    lm_next_row(t);
    lm_cell_code(t, label);
    lm_cell_fact(t, LM_EXACT, "%s", path);
}

void lm_part_info(lm_document *d)
{
    lm_facts     *f = d->facts;
    lm_doc_table *t = lm_doc_table_of(d, "info-table", NULL, "ll", "", "");

    info(t, "model_type", "model.family");
    info(t, "hidden_size", "architecture.hidden");
    info(t, "num_hidden_layers", "architecture.layers");
    info(t, "num_attention_heads", "attention.heads");
    if (lm_facts_has(f, "attention.latent")) {
        info(t, "attention", "attention.type");
        info(t, "kv_lora_rank", "attention.latent.kv_rank");
        if (lm_facts_count(f, "attention.latent.q_rank"))
            info(t, "q_lora_rank", "attention.latent.q_rank");
        info(t, "qk_nope_head_dim", "attention.latent.nope_dim");
        info(t, "qk_rope_head_dim", "attention.latent.rope_dim");
        info(t, "v_head_dim", "attention.latent.v_dim");
    } else if (lm_facts_has(f, "attention.kv_heads")) {
        lm_next_row(t);
        lm_cell_code(t, "num_key_value_heads");
        lm_cell_fact(t, LM_EXACT, "attention.kv_heads");
        t->last->cells[1].text = lm_doc_printf(d, "%s (%s)", t->last->cells[1].text,
                                               lm_facts_text(f, "attention.type"));
    }
    if (!lm_facts_has(f, "attention.latent"))
        info(t, "head_dim", "attention.head_dim");
    info(t, "sliding_window", "attention.window");
    info(t, "intermediate_size", "mlp.intermediate");
    info(t, "num_experts", "mlp.experts");
    info(t, "num_experts_per_tok", "mlp.experts_per_token");
    info(t, "expert_intermediate_size", "mlp.expert_width");
    info(t, "mlp", "architecture.mlp");
    info(t, "vocab_size", "architecture.vocabulary");
    info(t, "max_position_embeddings", "architecture.context");
    info(t, "rope_theta", "rope.base");
    info(t, "rope_scaling", "rope.scaling");
    info(t, "norm_eps", "architecture.norm_eps");
    if (lm_facts_has(f, "architecture.norm")) {
        lm_next_row(t);
        lm_cell_code(t, "norm");
        lm_cellf(t, "%s, %s", _(lm_facts_text(f, "architecture.norm")),
                 _(lm_facts_text(f, "architecture.norm_position")));
    }
    lm_next_row(t);
    lm_cell_code(t, "tie_word_embeddings");
    lm_cell(t, lm_facts_truth(f, "architecture.tied") ? "true" : "false");
    info(t, "tokenizer", "model.tokenizer");
}

/* ---- key figures ---- */

static void write_figures(lm_document *d)
{
    lm_facts     *f = d->facts;
    lm_doc_table *t = lm_doc_table_of(d, "figures", NULL, "lr", "", "");
    char          window[LM_FIG];

    lm_figure_row(t, _("parameters"), LM_EXACT, "parameters.total");
    if (lm_facts_count(f, "parameters.active") != lm_facts_count(f, "parameters.total"))
        lm_figure_row(t, _("of these, active per token"), LM_EXACT, "parameters.active");
    if (lm_reads_embedding_apart(f))
        lm_figure_row(t, _("active, without embedding"), LM_EXACT, "parameters.active_without_embedding");
    lm_figure_row(t, _("weights as stored"), LM_BOTH, "weights.bytes");
    const char *published = lm_precision_published(f->s.program);
    lm_figure_row(t, strcmp(published, "f16") == 0 ? _("weights as f16") : _("weights as MXFP4"), LM_BOTH,
                  lm_doc_printf(d, "weights.as.%s.bytes", published));
    lm_figure_row(t, _("weights as Q4_K_M"), LM_BOTH, "weights.as.Q4_K_M.bytes");
    lm_figure_row(t, _("context, positions"), LM_EXACT, "architecture.context");
    lm_figure_row(t,
                  lm_facts_has(f, "kv.window")
                      ? lm_doc_printf(d, _("cache per token for the first %s tokens, bytes"),
                                      lm_fig_count(window, lm_facts_count(f, "kv.window")))
                      : _("cache per token, bytes"),
                  LM_EXACT, "kv.bytes_per_token");
    lm_figure_row(t, _("cache of a whole context"), LM_BOTH, "kv.bytes_at_context");
    lm_figure_row(t, _("matrix products per token"), LM_PLAIN, "flops.per_token_matmul");
    lm_figure_row(t, _("attention scores, per token of context"), LM_PLAIN, "flops.per_context_token");
    if (lm_facts_has(f, "flops.per_context_token_past_windows"))
        lm_figure_row(t,
                      lm_doc_printf(d, _("scores, per key beyond %s"),
                                    lm_fig_count(window, lm_facts_count(f, "flops.reach"))),
                      LM_PLAIN, "flops.per_context_token_past_windows");
}

static void write_warnings(lm_document *d)
{
    const lm_fact *list = NULL;

    if (lm_facts_find(d->facts, "warnings", &list, NULL) != LM_OK)
        return;
    for (const lm_fact *x = lm_fact_first(list); x; x = lm_fact_next(x))
        lm_doc_warning(d, x->text);
}

void lm_chapter_overview(lm_document *d)
{
    lm_text flow = { 0 };

    lm_doc_open(d, "overview", NULL, _("Overview"));
    write_warnings(d);
    lm_part_headline(d);
    lm_compare_one(d);
    const lm_sliders *sliders = lm_shared(d)->sliders ? lm_sliders_of(d->facts) : NULL;
    if (sliders) {
        lm_doc_open(d, "settings", NULL, _("Memory and speed at other settings"));
        lm_doc_block(d, LM_BLOCK_SLIDERS, NULL)->sliders = sliders;
        lm_doc_close(d);
    }
    lm_part_takeaways(d);
    lm_doc_open(d, "in-figures", NULL, _("In figures"))->closed = !d->brief;
    write_figures(d);
    lm_doc_close(d);
    if (!d->brief) {
        lm_doc_open(d, "info", "O-1", _("Model information"))->closed = true;
        lm_part_info(d);
        lm_doc_close(d);
    }
    lm_doc_open(d, "one-line", "O-4", _("In one line"))->closed = !d->brief;
    lm_put_flow(d->facts, &flow);
    lm_doc_text(d, flow.data ? flow.data : "");
    d->failed |= flow.failed;
    lm_text_free(&flow);
    lm_doc_close(d);
    lm_doc_close(d);
}

/* ---- description by key ---- */

/* Numbers are written as in the description, without separators. */
static void write_keys(lm_doc_table *t, const lm_fact *g, uint32_t depth)
{
    for (const lm_fact *x = lm_fact_first(g); x; x = lm_fact_next(x)) {
        char text[32];
        lm_inner_row(t, depth);
        if (x->name)
            lm_cell_code(t, x->name);
        else
            lm_cellf(t, "%" PRIu64, x->index);
        bool inner = x->kind >= LM_FACT_GROUP && lm_fact_first(x);
        if (x->kind == LM_FACT_GROUP || (inner && x->size <= 16))
            write_keys(t, x, depth + 1);
        else if (x->kind == LM_FACT_LIST)
            lm_cellf(t, _("a list of %" PRIu64), x->size);
        else if (x->kind == LM_FACT_NONE)
            lm_cell(t, "null");
        else if (x->kind == LM_FACT_BOOL)
            lm_cell(t, x->truth ? "true" : "false");
        else if (x->kind == LM_FACT_NUMBER)
            lm_cell_number(t, x->number, x->unit, lm_number_text(text, x->number));
        else if (x->kind == LM_FACT_COUNT)
            lm_cell_number(t, (double)x->count, x->unit, lm_doc_printf(t->d, "%" PRIu64, x->count));
        else
            lm_cell(t, x->text);
    }
}

void lm_chapter_configuration(lm_document *d)
{
    const lm_fact *config = NULL;

    if (lm_facts_find(d->facts, "config", &config, NULL) != LM_OK || !lm_fact_first(config))
        return;
    lm_doc_open(d, "configuration", NULL, _("Configuration"));
    lm_doc_textf(d, _("Keys and values of the configuration, from %s."),
                 lm_facts_text(d->facts, "model.source"));
    lm_doc_fold(d, "configuration-keys", _("Every key"));
    write_keys(lm_doc_table_of(d, "keys", NULL, "ll", _("key"), _("value")), config, 0);
    lm_doc_close(d);
    lm_doc_close(d);
}

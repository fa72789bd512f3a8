/* chapter_overview.c - what the model is, on a page. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/chapters.h"
#include "analysis/page.h"

/* ---- the description's numbers (the first page of every model card) ---- */

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
        t->last->cells[1].text = lm_doc_keepf(d, "%s (%s)", t->last->cells[1].text, lm_facts_text(f, "attention.type"));
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
        lm_cellf(t, "%s, %s", lm_facts_text(f, "architecture.norm"), lm_facts_text(f, "architecture.norm_position"));
    }
    lm_next_row(t);
    lm_cell_code(t, "tie_word_embeddings");
    lm_cell(t, lm_facts_truth(f, "architecture.tied") ? "true" : "false");
}

void lm_chapter_overview(lm_document *d)
{
    lm_buf flow = { 0 };

    lm_doc_open(d, "overview", NULL, _("Overview"));
    lm_doc_open(d, "info", "O-1", _("Model information"));
    lm_part_info(d);
    lm_doc_close(d);
    lm_doc_open(d, "one-line", "O-4", _("In one line"));
    lm_put_flow(d->facts, &flow);
    lm_doc_text(d, flow.data ? flow.data : "");
    d->failed |= flow.failed;
    lm_buf_free(&flow);
    lm_doc_close(d);
    lm_doc_close(d);
}

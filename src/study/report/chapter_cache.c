/* chapter_cache.c - the key/value cache: bytes at any context, the savings by sharing heads, comparison of
 * methods. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/facts/figure.h"
#include "study/facts/ledger.h"
#include "study/report/chapters.h"
#include "base/number.h"

/* ---- by context ---- */

static void write_states(lm_document *d)
{
    lm_facts *f = d->facts;
    char      a[LM_FIG];

    if (lm_facts_count(f, "states.layers"))
        lm_doc_textf(d,
                     _("%" PRIu64 " of %" PRIu64 " layers have a state: %s bytes per sequence, whatever its "
                       "length. Each position changes it; it cannot be taken back to an earlier one, so copies "
                       "of it are kept."),
                     lm_facts_count(f, "states.layers"), lm_facts_count(f, "architecture.layers"),
                     lm_fig_count(a, lm_facts_count(f, "states.bytes")));
}

void lm_part_cache(lm_document *d)
{
    lm_facts     *f = d->facts;
    lm_doc_table *t;
    char          a[LM_FIG], b[LM_FIG];

    if (!lm_facts_count(f, "kv.bytes_per_token")) {
        write_states(d);
        return;
    }
    lm_doc_textf(d, _("%s: %s elements per token, %s bytes as %s."), lm_facts_text(f, "attention.type"),
                 lm_fig_count(a, lm_facts_count(f, "kv.elements_per_token")),
                 lm_fig_count(b, lm_facts_count(f, "kv.bytes_per_token")), lm_facts_text(f, "kv.type"));
    if (lm_facts_has(f, "kv.mha.saved") && lm_facts_number(f, "kv.mha.saved") > 0)
        lm_doc_textf(d,
                     _("With one key/value head per query head the cache would take %s bytes; this is "
                       "%.1f\u00a0%% less."),
                     lm_fig_count(a, lm_facts_count(f, "kv.mha.bytes_per_token")),
                     lm_facts_number(f, "kv.mha.saved"));
    if (lm_facts_count(f, "attention.windowed_layers") && lm_facts_has(f, "kv.window"))
        lm_doc_textf(d,
                     _("%" PRIu64 " of %" PRIu64
                       " layers keep a window: beyond %s tokens their cache no longer grows."),
                     lm_facts_count(f, "attention.windowed_layers"),
                     lm_facts_count(f, "attention.windowed_layers") +
                         lm_facts_count(f, "attention.full_layers"),
                     lm_fig_count(a, lm_facts_count(f, "kv.window")));
    uint32_t last, sharing = lm_count_sharing(f->s.program, &last);
    if (sharing)
        lm_doc_textf(d,
                     P_(sharing, "The last %u layer stores no keys and values: it reads those of an earlier layer.",
                        "The last %u layers store no keys and values: they read those of earlier layers."),
                     sharing);
    write_states(d);
    bool mixed = lm_facts_has(f, "kv.at[1024].bytes_attention_only");
    t = lm_doc_table_of(d, "cache-by-context", NULL, mixed ? "rrrrrr" : "rrrr", _("context"), _("bytes"), "",
                        _("as MHA"), _("with the states"), _("attention in all layers"));
    for (size_t i = 0; lm_context_at(f, i); i++) {
        uint64_t n = lm_context_at(f, i);
        lm_next_row(t);
        lm_cell_count(t, LM_EXACT, LM_UNIT_TOKENS, n);
        lm_cell_fact(t, LM_EXACT, "kv.at[%" PRIu64 "].bytes", n);
        lm_cell_fact(t, LM_BOTH, "kv.at[%" PRIu64 "].bytes", n);
        lm_cell_fact(t, LM_PLAIN, "kv.at[%" PRIu64 "].mha", n);
        if (!mixed)
            continue;
        lm_cell_fact(t, LM_PLAIN, "kv.at[%" PRIu64 "].bytes_with_states", n);
        lm_cell_fact(t, LM_PLAIN, "kv.at[%" PRIu64 "].bytes_attention_only", n);
    }
    if (lm_facts_count(f, "kv.batch") > 1)
        lm_doc_textf(d, _("For %" PRIu64 " sequences."), lm_facts_count(f, "kv.batch"));
}

/* ---- why grouping (O-14) ---- */

static void why_row(lm_doc_table *t, const char *metric, const char *mha, const char *ours)
{
    lm_next_row(t);
    lm_cell(t, metric);
    lm_cell(t, mha);
    lm_cell(t, ours);
}

static bool shares(lm_facts *f)
{
    return lm_facts_has(f, "kv.mha.saved") && lm_facts_number(f, "kv.mha.saved") > 0;
}

static void write_why(lm_document *d)
{
    lm_facts *f = d->facts;
    char      saved[32];

    if (!shares(f))
        return;
    lm_doc_open(d, "why-sharing", "O-14",
                lm_doc_printf(d, _("Why %s"), lm_facts_text(f, "attention.sharing")));
    lm_doc_table *t = lm_doc_table_of(d, "why", NULL, "lrr", _("metric"), "MHA",
                                      lm_facts_text(f, "attention.sharing"));
    lm_fact_row(t, _("cached for a token, elements"), LM_EXACT, "kv.mha.elements_per_token",
                "kv.elements_per_token", NULL);
    lm_fact_row(t, _("cached for a token, bytes"), LM_EXACT, "kv.mha.bytes_per_token", "kv.bytes_per_token",
                NULL);
    lm_print(saved, sizeof saved, "−%.1f %%", lm_facts_number(f, "kv.mha.saved"));
    why_row(t, _("change"), "", saved);
    why_row(t, _("speed of generating (qualitative)"), _("reads the most"),
            _("reads less of the cache per step"));
    why_row(t, _("quality (qualitative)"), _("each head separate"),
            lm_facts_count(f, "attention.kv_heads") == 1 && !lm_facts_has(f, "attention.latent")
                ? _("a little below MHA in the paper on GQA") : _("close to MHA in the papers' own tests"));
    lm_doc_note(d, _("The effect of sharing on quality depends on training; no general number is known."));
    lm_doc_close(d);
}

/* ---- projections and cache with other head counts (O-15) ---- */

/* Widths as MHA, of the model, as MQA. */
typedef struct projection { const char *name, *widths[3]; } projection;

static const projection projections[] = {
    { "Q", { "query", "query", "query" } },
    { "K", { "key_mha", "key", "key_mqa" } },
    { "V", { "value_mha", "value", "value_mqa" } },
    { "O", { "output", "output", "output" } },
};

static void projection_row(lm_doc_table *t, const projection *p)
{
    uint64_t hidden = lm_facts_count(t->d->facts, "architecture.hidden");

    lm_next_row(t);
    lm_cell(t, p->name);
    for (int i = 0; i < 3; i++) {
        uint64_t width = lm_facts_count(t->d->facts, "what_if.widths.%s", p->widths[i]);
        bool     reads = strcmp(p->widths[i], "output") == 0;
        lm_cellf(t, "%" PRIu64 " → %" PRIu64, reads ? width : hidden, reads ? hidden : width);
    }
}

static void write_savings(lm_document *d)
{
    lm_facts *f = d->facts;

    if (!lm_facts_has(f, "what_if.kv_projections") || lm_facts_has(f, "attention.latent"))
        return;
    lm_doc_open(d, "sharing-saves", "O-15", _("What sharing key/value heads saves"));
    lm_doc_table *t = lm_doc_table_of(d, "projection-savings", _("Projections of a layer, in → out"), "lrrr",
                                      _("matrix"), "MHA", _("this model"), "MQA");
    for (size_t i = 0; i < sizeof projections / sizeof *projections; i++)
        projection_row(t, &projections[i]);
    lm_fact_row(t, _("weights of the key and value projections"), LM_EXACT, "what_if.kv_projections_mha",
                "what_if.kv_projections", "what_if.kv_projections_mqa", NULL);
    lm_fact_row(t, _("weights of attention"), LM_EXACT, "what_if.attention_mha", "what_if.attention",
                "what_if.attention_mqa", NULL);
    if (lm_facts_has(f, "what_if.kv_projections_saved"))
        lm_fact_row(t, _("saved share of keys and values"), LM_PLAIN, "", "what_if.kv_projections_saved",
                    "what_if.kv_projections_saved_mqa", NULL);
    t = lm_doc_table_of(d, "cache-savings", _("Cache at 1,024 tokens, one sequence"), "lrr", "", "MHA",
                        _("this model"));
    if (lm_facts_count(f, "architecture.layers") && lm_facts_count(f, "architecture.kinds_of_layer") == 1)
        lm_fact_row(t, _("a layer"), LM_BOTH, "kv.at[1024].mha_first_layer", "kv.at[1024].bytes_first_layer",
                    NULL);
    lm_fact_row(t, _("all layers"), LM_BOTH, "kv.at[1024].mha", "kv.at[1024].bytes", NULL);
    lm_doc_close(d);
}

/* ---- by method (O-16) ---- */

static void method_row(lm_doc_table *t, const char *name, const char *path, const char *formula)
{
    lm_facts *f = t->d->facts;

    if (!lm_facts_has(f, "kv.by_method.%s", path))
        return;
    bool ours = lm_facts_count(f, "kv.by_method.%s", path) == lm_facts_count(f, "kv.elements_per_layer[0]");
    lm_next_row(t);
    lm_cellf(t, ours ? _("%s (this model)") : "%s", name);
    lm_cell(t, formula);
    lm_cell_fact(t, LM_EXACT, "kv.by_method.%s", path);
}

static void write_methods(lm_document *d)
{
    lm_facts *f = d->facts;

    if (!lm_facts_has(f, "kv.elements_per_layer[0]") || !lm_facts_has(f, "attention.heads"))
        return;
    bool     latent = lm_facts_has(f, "attention.latent");
    uint64_t heads  = lm_facts_count(f, latent ? "attention.latent.heads" : "attention.heads");
    uint64_t k      = lm_facts_count(f, latent ? "attention.latent.qk_dim" : "attention.head_dim");
    uint64_t v      = lm_facts_count(f, latent ? "attention.latent.v_dim" : "attention.value_dim");
    lm_doc_open(d, "cache-by-method", "O-16", _("By method"));
    lm_doc_table *t = lm_doc_table_of(d, "methods", _("Elements per token and layer"), "llr",
                                      _("method"), _("formula"), _("elements"));
    method_row(t, "MHA", "mha", lm_doc_printf(d, "%" PRIu64 " · (%" PRIu64 " + %" PRIu64 ")", heads, k, v));
    if (!latent)
        method_row(t, "GQA", "gqa",
                   lm_doc_printf(d, "%" PRIu64 " · (%" PRIu64 " + %" PRIu64 ")",
                                 lm_facts_count(f, "attention.kv_heads"), k, v));
    method_row(t, "MQA", "mqa", lm_doc_printf(d, "%" PRIu64 " + %" PRIu64, k, v));
    if (latent)
        method_row(t, "MLA", "mla",
                   lm_doc_printf(d, "%" PRIu64 " + %" PRIu64, lm_facts_count(f, "attention.latent.kv_rank"),
                                 lm_facts_count(f, "attention.latent.rope_dim")));
    lm_doc_note(
        d,
        _("The same heads with separate keys and values, shared in groups, or shared by all. A latent "
          "stores the vector from which all of them are projected."));
    lm_doc_close(d);
}

void lm_chapter_cache(lm_document *d)
{
    if (!lm_facts_count(d->facts, "kv.bytes_per_token"))
        return;
    lm_doc_open(d, "cache", NULL, _("Key/value cache"));
    lm_doc_open(d, "cache-contexts", "O-17", _("By context"));
    lm_part_cache(d);
    lm_doc_diagram(d, "kv-growth", NULL, _("Bytes of the cache by context"), NULL);
    lm_doc_close(d);
    lm_doc_open(d, "cache-derivation", "O-13", _("The cache, derived"));
    lm_doc_topic(d, "kv", LM_TOPIC_WHAT | LM_TOPIC_LETTERS | LM_TOPIC_ARITHMETIC | LM_TOPIC_JUDGEMENT, NULL);
    lm_doc_close(d);
    write_why(d);
    write_savings(d);
    write_methods(d);
    lm_doc_open(d, "cache-steps", "O-37", _("The cache, token by token"));
    bool spelled = d->n_models && d->facts == d->models[0];      /* tokens are those of the first model */
    lm_doc_diagram(d, "cache", "O-37", NULL,
                   &(lm_explain_options){ .pieces = spelled ? d->pieces : NULL,
                                          .n_pieces = spelled ? d->n_pieces : 0 });
    lm_doc_drop_empty(d);
    lm_doc_close(d);
}

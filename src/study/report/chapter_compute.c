/* chapter_compute.c - operations per token, per prompt and per module, and the predicted speed. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/facts/figure.h"
#include "study/facts/ledger.h"
#include "study/facts/precision.h"
#include "study/report/chapters.h"
#include "base/number.h"

static const uint64_t contexts[] = { 512, 2048, 8192, 32768, 131072, 1048576 };

uint64_t lm_context_at(lm_facts *f, size_t i)
{
    uint64_t max = lm_facts_has(f, "architecture.context") ? lm_facts_count(f, "architecture.context")
                                                            : 131072;
    size_t   n = 0;

    for (; n < sizeof contexts / sizeof *contexts && contexts[n] < max; n++)
        if (n == i)
            return contexts[n];
    return i == n ? max : 0;
}

/* ---- operations of a token ---- */

static void flop_row(lm_doc_table *t, const char *label, const char *path, bool share)
{
    lm_facts *f     = t->d->facts;
    uint64_t  total = lm_facts_count(f, "flops.per_token_matmul"), n = lm_facts_count(f, "%s", path);
    double    x = total ? 100.0 * (double)n / (double)total : 0;
    char      text[32];

    lm_fact_row(t, label, LM_EXACT, path, NULL);
    lm_print(text, sizeof text, "%.2f %%", x);
    if (share)
        lm_cell_number(t, x, LM_UNIT_PERCENT, text);
}

void lm_part_flops(lm_document *d)
{
    static const struct { const char *path, *label; } parts[] = {
        { "flops.parts.attention", N_("attention") }, { "flops.parts.state", N_("layers with a state") },
        { "flops.parts.mlp", N_("MLP") },
        { "flops.parts.head", N_("head") },           { "flops.parts.other", N_("other") },
    };
    lm_facts     *f = d->facts;
    char          window[LM_FIG];
    lm_doc_table *t = lm_doc_table_of(d, "flops-of-a-token", NULL, "lrr", _("FLOP per token"), "",
                                      _("share"));

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (lm_facts_has(f, "%s", parts[i].path))
            flop_row(t, _(parts[i].label), parts[i].path, true);
    flop_row(t, _("matrix products"), "flops.per_token_matmul", true);
    t->last->strong = true;
    flop_row(t, _("norms, activations …"), "flops.per_token_other", false);
    bool naive = lm_facts_has(f, "flops.per_context_token_naive");
    flop_row(t, naive ? _("scores, per visible key, MLA absorbed") : _("scores, per visible key"),
             "flops.per_context_token", false);
    if (naive)
        flop_row(t, _("scores, per visible key, MLA naive"), "flops.per_context_token_naive", false);
    if (lm_facts_has(f, "flops.per_context_token_past_windows"))
        flop_row(t,
                 lm_doc_printf(d, _("scores, per key beyond %s"),
                               lm_fig_count(window, lm_facts_count(f, "flops.reach"))),
                 "flops.per_context_token_past_windows", false);
    t = lm_doc_table_of(d, "flops-by-context", NULL, naive ? "rrrrrr" : "rrrrr", _("context"),
                        _("one token with this context"), _("of which attention scores"),
                        naive ? _("a prompt, MLA absorbed") : _("a prompt of this length"), _("per token"),
                        _("a prompt, MLA naive"));
    for (size_t i = 0; lm_context_at(f, i); i++) {
        uint64_t n   = lm_context_at(f, i);
        double   all = lm_facts_number(f, "flops.prefill_of[%" PRIu64 "].total", n);
        char     each[LM_FIG];
        lm_next_row(t);
        lm_cell_count(t, LM_EXACT, LM_UNIT_TOKENS, n);
        lm_cell_fact(t, LM_PLAIN, "flops.at[%" PRIu64 "].total", n);
        lm_cell_fact(t, LM_PLAIN, "flops.at[%" PRIu64 "].scores", n);
        lm_cell_fact(t, LM_PLAIN, "flops.prefill_of[%" PRIu64 "].total", n);
        lm_cell_number(t, all / (double)n, LM_UNIT_FLOPS, lm_fig_flops(each, all / (double)n));
        if (naive)
            lm_cell_fact(t, LM_PLAIN, "flops.prefill_of[%" PRIu64 "].naive", n);
    }
    lm_doc_note(
        d,
        _("A multiply-add counts as 2 operations, a look-up as none. Prompt processing computes logits for "
          "the last token only."));
    uint32_t last;
    if (lm_count_sharing(f->s.program, &last))
        lm_doc_note(d, _("The layers that only read the caches of earlier layers compute the last token of a "
                         "prompt only, too."));
}

/* ---- by module, for one pass ---- */

static void write_modules(lm_document *d)
{
    lm_facts         *f = d->facts;
    const lm_program *p = f->s.program;
    lm_doc_table *t = lm_doc_table_of(
        d, "mult-adds-by-module", NULL, "llrr", _("module"), _("class"), _("one token"),
        lm_doc_printf(d, P_(f->s.tokens, "a pass of %u token", "a pass of %u tokens"), f->s.tokens));

    for (uint32_t m = 0; m < p->n_modules; m++) {
        const lm_module *x = &p->modules[m];
        if (f->ledger->child[m] != LM_NONE ||
            (x->layer >= 0 && f->ledger->twin[x->layer] != (uint32_t)x->layer))
            continue;
        if (!lm_facts_count(f, "modules[%u].mult_adds", m))
            continue;
        lm_next_row(t);
        lm_cell_code(t, x->path);
        lm_cell(t, x->class_name);
        lm_cell_fact(t, LM_EXACT, "modules[%u].mult_adds", m);
        lm_cell_fact(t, LM_EXACT, "modules[%u].pass_mult_adds", m);
    }
    lm_doc_note(d, _("Multiply-adds of modules that have products; one layer of each kind. Look-ups and "
                     "norms have none."));
}

void lm_chapter_compute(lm_document *d)
{
    lm_doc_open(d, "compute", NULL, _("Compute"));
    lm_doc_open(d, "flops", "O-18", _("Operations of a token and of a prompt"));
    lm_part_flops(d);
    lm_doc_diagram(d, "flops-growth", NULL, _("Operations of a token by context"), NULL);
    lm_doc_close(d);
    lm_doc_open(d, "flops-derivation", "O-18", _("The operations, derived"));
    lm_doc_topic(d, "flops", LM_TOPIC_WHAT | LM_TOPIC_LETTERS | LM_TOPIC_ARITHMETIC | LM_TOPIC_JUDGEMENT,
                 NULL);
    lm_doc_close(d);
    lm_doc_open(d, "mult-adds", NULL, _("By module"));
    lm_doc_fold(d, "mult-adds-list", _("Every module"));
    write_modules(d);
    lm_doc_close(d);
    lm_doc_close(d);
    lm_doc_close(d);
}

/* ---- speed ---- */

static void speed_row(lm_doc_table *t, const char *label, const char *path)
{
    lm_facts *f = t->d->facts;

    if (!lm_facts_has(f, "%s.generation.tokens_per_second", path) &&
        !lm_facts_has(f, "%s.prompt.tokens_per_second", path))
        return;
    lm_next_row(t);
    lm_cell(t, label);
    lm_cell_fact(t, LM_PLAIN, "%s.generation.tokens_per_second", path);
    lm_cell_fact(t, LM_PLAIN, "%s.generation.limited_by", path);
    lm_cell_fact(t, LM_PLAIN, "%s.prompt.tokens_per_second", path);
    lm_cell_fact(t, LM_PLAIN, "%s.prompt.limited_by", path);
}

static void write_limits(lm_document *d)
{
    static const char *const limits[][2] = {
        { N_("memory, reading"), "speed.memory" }, { "int8", "speed.int8" }, { "f16", "speed.f16" },
        { "bf16", "speed.bf16" },                  { "f32", "speed.f32" },
    };
    lm_doc_table *t = lm_doc_table_of(d, "limits", _("Peak rates of the machine"), "lr", "", "");

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (lm_facts_has(d->facts, "%s", limits[i][1]) && lm_facts_number(d->facts, "%s", limits[i][1]) > 0)
            lm_fact_row(t, _(limits[i][0]), LM_PLAIN, limits[i][1], NULL);
}

void lm_chapter_speed(lm_document *d)
{
    lm_facts *f = d->facts;

    lm_doc_open(d, "speed", NULL, _("Predicted speed"));
    if (!lm_facts_truth(f, "speed.measured") && !lm_facts_has(f, "speed.device")) {
        lm_doc_text(d, _("This machine has not been measured, and no device of the catalogue was named."));
        lm_doc_close(d);
        return;
    }
    if (lm_facts_has(f, "speed.too_low") && lm_facts_truth(f, "speed.too_low")) {
        lm_doc_text(d, _("The speed of this machine is not known: other programs were running during the measurement."));
        lm_doc_close(d);
        return;
    }
    if (lm_facts_has(f, "speed.device"))
        lm_doc_textf(d, _("On %s, from the manufacturer's published figures."),
                     lm_facts_text(f, "speed.device"));
    else
        lm_doc_text(d, _("On this machine, from its measured limits."));
    write_limits(d);
    lm_doc_table *t = lm_doc_table_of(d, "predicted-speed", _("Upper bounds in tokens per second"), "lrlrl",
                                      _("weights"), _("generating"), _("limited by"), _("reading"),
                                      _("limited by"));
    if (lm_facts_has(f, "weights.bytes"))
        speed_row(t, _("as stored"), "speed");
    for (size_t i = 0; lm_precision_at(i); i++)
        if (!(lm_precision_at(i)->bits > 0) && lm_precision_shown(lm_precision_at(i), f->s.program))
            speed_row(t, lm_precision_at(i)->name, lm_doc_printf(d, "speed.as.%s", lm_precision_at(i)->name));
    lm_doc_diagram(d, "roofline", NULL, _("What limits speed"), NULL);
    lm_doc_note(d, _("Roofline model: each step takes the longer of its memory reads and its arithmetic. "
                     "Generation with 512 tokens in the cache, prompts of 512 tokens. These are limits, not "
                     "forecasts."));
    lm_doc_close(d);
}

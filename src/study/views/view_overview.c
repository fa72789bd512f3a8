/* view_overview.c - one page with what a model is and what it takes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/columns.h"
#include "study/facts/flow.h"
#include "study/facts/ledger.h"
#include "study/facts/table.h"
#include "study/facts/traits.h"
#include "study/facts/precision.h"
#include "study/views/view.h"

enum { LABEL = 17 };                     /* width of the left column */

/* ---- header ---- */

/* Append "GQA 24:8": the numbers of query and key/value heads. */
static void put_heads(lm_facts *f, lm_text *out)
{
    if (!lm_facts_has(f, "attention.heads"))
        return;
    uint64_t q = lm_facts_count(f, "attention.heads"), kv = lm_facts_count(f, "attention.kv_heads");

    lm_text_printf(out, " · %s %" PRIu64, lm_facts_text(f, "attention.type"), q);
    if (q != kv && !lm_facts_has(f, "attention.latent"))
        lm_text_printf(out, ":%" PRIu64, kv);
}

static void put_title(lm_page *v)
{
    lm_facts   *f     = v->f;
    lm_text      right = { 0 };
    const char *name  = lm_facts_text(f, "model.name");
    char        figure[LM_FIG];

    lm_text_printf(&right, _("%s · %" PRIu64 " layers"), lm_facts_text(f, "model.family"),
                   lm_facts_count(f, "architecture.layers"));
    put_heads(f, &right);
    if (lm_facts_has(f, "architecture.context"))
        lm_text_printf(&right, _(" · %s context"),
                       lm_fig_count(figure, lm_facts_count(f, "architecture.context")));
    lm_put(v->out, name, 0);
    unsigned used = lm_text_columns(name), wide = right.data ? lm_text_columns(right.data) : 0;
    lm_text_printf(v->out, "%*s%s\n", used + wide + 3 < v->columns ? (int)(v->columns - used - wide) : 3, "",
                   right.data ? right.data : "");
    lm_text_printf(v->out, "%s, %s", _(lm_facts_text(f, "model.container")),
                   lm_facts_text(f, "model.source"));
    lm_text_printf(v->out, "%s\n", lm_facts_has(f, "weights.bytes") ? "" : _("; no weights loaded"));
    lm_text_free(&right);
}

/* Write the flow, wrapped at arrows. */
static void put_flow_lines(lm_page *v)
{
    lm_text      b = { 0 };
    unsigned    at = 2;

    lm_put_flow(v->f, &b);
    lm_text_add_str(v->out, "\n  ");
    for (const char *p = b.data ? b.data : ""; *p;) {
        const char *next = strstr(p + (*p == ' '), " → ");
        char        piece[512];
        snprintf(piece, sizeof piece, "%.*s", (int)(next ? next - p : (long)strlen(p)), p);
        unsigned n = lm_text_columns(piece);
        if (at + n > v->columns && at > 2) {
            lm_text_add_str(v->out, "\n     ");
            at = 5;
        }
        lm_text_add_str(v->out, piece);
        at += n;
        p += next ? (size_t)(next - p) : strlen(p);
    }
    lm_text_add_str(v->out, "\n");
    lm_text_free(&b);
}

/* ---- parameters ---- */

static void put_part(lm_page *v, const char *label, uint64_t n, uint64_t total, bool bar)
{
    char     figure[LM_FIG];
    unsigned room = v->columns > 50 ? v->columns - 48 : 2;

    lm_text_add_str(v->out, "  ");
    lm_put(v->out, label, 18);
    lm_put_right(v->out, lm_fig_count(figure, n), 17);
    lm_text_printf(v->out, "  %6.2f %%", 100.0 * (double)n / (double)total);
    if (bar && v->lines) {
        lm_text_add_str(v->out, "  ");
        lm_text_add_bar(v->out, (double)n / (double)total, room < 40 ? room : 40);
    }
    lm_text_add_char(v->out, '\n');
}

static void put_parameters(lm_page *v)
{
    static const char *const parts[] = { "embedding", "attention", "state", "mlp", "norm", "head",
                                         "other" };
    static const char *const words[] = { N_("embedding"), N_("attention"), N_("layers with a state"), N_("mlp"),
                                         N_("norm"),      N_("head"),      N_("other") };
    lm_facts *f      = v->f;
    uint64_t total = lm_facts_count(f, "parameters.total"),
             untied = lm_facts_count(f, "parameters.untied_total");
    uint64_t active = lm_facts_count(f, "parameters.active"),
             inner  = lm_facts_count(f, "parameters.active_without_embedding");
    char      figure[LM_FIG];

    lm_text_add_str(v->out, "\n  ");
    lm_put(v->out, _("parameters"), 18);
    lm_put_right(v->out, _("count"), 17);
    lm_put_right(v->out, _("share"), 10);
    lm_text_add_char(v->out, '\n');
    for (size_t i = 0; i < sizeof parts / sizeof *parts && total; i++) {
        uint64_t n = lm_facts_count(f, "parameters.%s", parts[i]);
        if (n)
            put_part(v,
                     i == 0 && lm_facts_truth(f, "architecture.tied") ? _("embedding = head") : _(words[i]),
                     n, total, true);
    }
    if (total)
        put_part(v, _("total"), total, total, false);
    if (untied != total) {
        lm_text_add_str(v->out, "  ");
        lm_put(v->out, _("if head untied"), 18);
        lm_put_right(v->out, lm_fig_count(figure, untied), 17);
        lm_text_add_char(v->out, '\n');
    }
    if (active != total)
        put_part(v, _("active per token"), active, total, false);
    if (active != total && inner != active)
        put_part(v, _("without embedding"), inner, total, false);
}

/* ---- memory ---- */

/* Return a label of the first column, at least as wide as the English ones; it lives as long as the facts. */
static const char *wide(lm_facts *f, const char *label)
{
    unsigned    n    = lm_text_columns(label);
    const char *text = lm_arena_printf(&f->arena, "%s%*s", label, (int)(n < LABEL ? LABEL - n : 0), "");

    f->failed |= !text;
    return text ? text : "";
}

static void put_label(lm_page *v, const char *label)
{
    lm_text_add_str(v->out, "  ");
    lm_put(v->out, label, LABEL + 1);
    lm_text_add_char(v->out, ' ');
}

static void add_line(lm_table *t, const char *label, lm_text *line)
{
    lm_table_row(t, wide(t->f, label), line->data ? line->data : "");
    t->f->failed |= line->failed;
    lm_text_free(line);
}

static void add_stored(lm_table *t)
{
    const lm_fact *by = NULL;
    lm_text         line = { 0 };
    char           a[LM_FIG];

    lm_facts_find(t->f, "weights.by_type", &by, NULL);
    lm_text_add_str(&line, lm_fig_bytes(a, lm_facts_count(t->f, "weights.bytes")));
    for (const lm_fact *x = lm_fact_first(by); x && line.size < 110; x = lm_fact_next(x))
        lm_text_printf(&line, "%s%s %s", x == by->impl.first ? ": " : ", ", x->name,
                       lm_fig_bytes(a, x->count));
    add_line(t, _("weights, stored"), &line);
}

static void add_cache(lm_table *t)
{
    lm_facts *f    = t->f;
    lm_text    line = { 0 };
    char      a[LM_FIG], b[LM_FIG], c[LM_FIG];

    if (!lm_facts_count(f, "kv.bytes_per_token"))
        return;
    lm_text_printf(&line, _("%s = %s positions of %s bytes, %s"),
                   lm_fig_size(a, lm_facts_number(f, "kv.bytes_at_context")),
                   lm_fig_count(b, lm_facts_count(f, "kv.context")),
                   lm_fig_count(c, lm_facts_count(f, "kv.bytes_per_token")), lm_facts_text(f, "kv.type"));
    if (lm_facts_count(f, "kv.batch") > 1)
        lm_text_printf(&line, _(", %" PRIu64 " sequences"), lm_facts_count(f, "kv.batch"));
    if (lm_facts_has(f, "kv.window")) {
        uint64_t some = lm_facts_count(f, "attention.windowed_layers"),
                 full = lm_facts_count(f, "attention.full_layers");
        lm_fig_count(a, lm_facts_count(f, "kv.window"));
        if (full)
            lm_text_printf(&line, _(", window %s in %" PRIu64 " of %" PRIu64 " layers"), a, some,
                           some + full);
        else
            lm_text_printf(&line, _(", window %s"), a);
    }
    add_line(t, _("cache"), &line);
}

static void add_states(lm_table *t)
{
    lm_facts *f    = t->f;
    lm_text   line = { 0 };
    char      a[LM_FIG];

    if (!lm_facts_count(f, "states.layers"))
        return;
    lm_text_printf(&line, _("%s per sequence of any length, f32, in %" PRIu64 " of %" PRIu64 " layers"),
                   lm_fig_bytes(a, lm_facts_count(f, "states.bytes")), lm_facts_count(f, "states.layers"),
                   lm_facts_count(f, "architecture.layers"));
    add_line(t, _("state"), &line);
}

static void add_plan(lm_table *t)
{
    lm_facts *f    = t->f;
    lm_text    line = { 0 };
    char      a[LM_FIG], b[LM_FIG];

    if (!lm_facts_has(f, "memory.scratch")) {
        lm_text_add_str(&line, _(lm_facts_text(f, "memory.not_planned")));
        add_line(t, _("to run"), &line);
        return;
    }
    lm_text_printf(&line, _("%s, %" PRIu64 " rows in a forward pass"),
                   lm_fig_bytes(a, lm_facts_count(f, "memory.scratch")),
                   lm_facts_count(f, "memory.scratch_parts.rows"));
    add_line(t, _("scratch"), &line);
    lm_fig_size(a, lm_facts_number(f, "memory.total"));
    if (lm_facts_count(f, "memory.mapped"))
        lm_text_printf(&line, _("%s allocated, %s mapped (%s)"), a,
                       lm_fig_bytes(b, lm_facts_count(f, "memory.mapped")),
                       _(lm_facts_text(f, "weights.precision")));
    else
        lm_text_printf(&line, _("%s allocated (%s)"), a, _(lm_facts_text(f, "weights.precision")));
    add_line(t, _("to run"), &line);
}

static void put_memory(lm_page *v)
{
    lm_facts *f = v->f;
    const char *const precisions[] = { lm_precision_published(f->s.program), "Q8_0", "Q4_K_M" };
    lm_table  t = lm_table_new(f, "lrrr", 2), rest = lm_table_new(f, "ll", 2);
    char      a[LM_FIG], b[LM_FIG], c[LM_FIG];

    t.gap = "   ";
    lm_table_row(&t, wide(f, _("memory")), precisions[0], precisions[1], precisions[2]);
    lm_table_row(&t, wide(f, _("weights")),
                 lm_fig_bytes(a, lm_facts_count(f, "weights.as.%s.bytes", precisions[0])),
                 lm_fig_bytes(b, lm_facts_count(f, "weights.as.Q8_0.bytes")),
                 lm_fig_bytes(c, lm_facts_count(f, "weights.as.Q4_K_M.bytes")));
    lm_text_add_char(v->out, '\n');
    lm_table_print(&t, v->out);
    if (lm_facts_has(f, "weights.bytes"))
        add_stored(&rest);
    add_cache(&rest);
    add_states(&rest);
    add_plan(&rest);
    lm_table_print(&rest, v->out);
}

/* ---- the rest ---- */

static void put_compute(lm_page *v)
{
    lm_facts *f = v->f;
    char      a[LM_FIG], b[LM_FIG], c[LM_FIG], d[LM_FIG];

    lm_text_add_char(v->out, '\n');
    put_label(v, _("compute per token"));
    if (!lm_facts_count(f, "flops.per_context_token")) {
        lm_text_printf(v->out, _("%s, whatever the context; a prompt of %s: %s\n"),
                       lm_fig_flops(a, (double)lm_facts_count(f, "flops.per_token_matmul")),
                       lm_fig_count(c, lm_facts_count(f, "kv.context")),
                       lm_fig_flops(d, lm_facts_number(f, "flops.prefill")));
        return;
    }
    lm_text_printf(v->out, _("%s + %s per token of context; a prompt of %s: %s\n"),
                   lm_fig_flops(a, (double)lm_facts_count(f, "flops.per_token_matmul")),
                   lm_fig_flops(b, (double)lm_facts_count(f, "flops.per_context_token")),
                   lm_fig_count(c, lm_facts_count(f, "kv.context")),
                   lm_fig_flops(d, lm_facts_number(f, "flops.prefill")));
    if (lm_facts_has(f, "flops.per_context_token_naive")) {
        put_label(v, "");
        lm_text_printf(v->out,
                       _("with MLA in the naive form: %s per token of context; the prompt: %s\n"),
                       lm_fig_flops(b, (double)lm_facts_count(f, "flops.per_context_token_naive")),
                       lm_fig_flops(d, lm_facts_number(f, "flops.prefill_naive")));
    }
    bool indexer = lm_facts_has(f, "attention.indexer");
    if (!lm_facts_has(f, "flops.per_context_token_past_windows") ||
        (indexer && !lm_facts_count(f, "flops.per_context_token_past_windows")))     /* they score entries */
        return;
    put_label(v, "");
    lm_fig_count(a, lm_facts_count(f, "flops.reach"));
    lm_fig_flops(b, lm_facts_number(f, "flops.per_context_token_past_windows"));
    if (indexer)
        lm_text_printf(v->out, _("beyond %s tokens of context: %s per token (scores of the indexers)\n"),
                       a, b);
    else if (lm_facts_count(f, "flops.per_context_token_past_windows"))
        lm_text_printf(v->out, _("beyond %s tokens of context: %s per token (windows full)\n"), a, b);
    else
        lm_text_printf(v->out, _("beyond %s tokens of context: no further cost (windows full)\n"), a);
}

static void put_speed(lm_page *v)
{
    lm_facts *f    = v->f;
    const char *const precisions[] = { lm_precision_published(f->s.program), "Q8_0", "Q4_K_M" };
    bool      here = lm_facts_has(f, "weights.bytes");

    if (!lm_facts_truth(f, "speed.measured")) {
        put_label(v, _("this machine"));
        lm_text_printf(v->out, "%s\n", _("not measured yet"));
        return;
    }
    if (lm_facts_truth(f, "speed.too_low")) {
        put_label(v, _("this machine"));
        lm_text_printf(v->out, "%s\n", _("speed not known: other programs ran during the measurement"));
        return;
    }
    for (size_t i = here ? 2 : 0; i < 3; i++) {
        char at[32];
        snprintf(at, sizeof at, "speed%s%s", here ? "" : ".as.", here ? "" : precisions[i]);
        if (!lm_facts_has(f, "%s.generation.tokens_per_second", at) ||
            !lm_facts_has(f, "%s.prompt.tokens_per_second", at))
            continue;
        char a[LM_FIG], b[LM_FIG];
        put_label(v, here || i == 0 ? _("this machine") : "");
        lm_text_printf(v->out,
                       here ? _("at most %s tokens/s generation (%s), %s prompt (%s)")
                            : _("at most %s tokens/s generation (%s), %s prompt (%s) as %s"),
                       lm_fig_rate(a, lm_facts_number(f, "%s.generation.tokens_per_second", at)),
                       _(lm_facts_text(f, "%s.generation.limited_by", at)),
                       lm_fig_rate(b, lm_facts_number(f, "%s.prompt.tokens_per_second", at)),
                       _(lm_facts_text(f, "%s.prompt.limited_by", at)), precisions[i]);
        lm_text_add_char(v->out, '\n');
    }
}

static void put_rope(lm_page *v)
{
    lm_facts *f = v->f;
    char      figure[LM_FIG];

    if (!lm_facts_count(f, "rope.n_tables"))
        return;
    const lm_rope_spec *rope = &f->s.program->ropes[lm_main_rope(f->s.program)].spec;
    put_label(v, "rope");
    lm_text_printf(v->out, _("base %s, %" PRIu64 " of %" PRIu64 " dimensions"),
                   lm_fig_count(figure, (uint64_t)lm_facts_number(f, "rope.base")),
                   2 * (uint64_t)lm_rope_pairs(rope), lm_facts_count(f, "rope.head_dim"));
    if (lm_is_scaled(rope))
        lm_text_printf(v->out, _(", %s scaling"), lm_facts_text(f, "rope.scaling"));
    if (lm_facts_has(f, "rope.factor"))
        lm_text_printf(v->out, " ×%g", lm_facts_number(f, "rope.factor"));
    if (lm_facts_has(f, "rope.original_context"))
        lm_text_printf(v->out, _(" beyond %s trained positions"),
                       lm_fig_count(figure, lm_facts_count(f, "rope.original_context")));
    lm_text_add_char(v->out, '\n');
}

static void put_sampling(lm_page *v)
{
    if (!lm_facts_has(v->f, "model.sampling"))
        return;
    put_label(v, _("sampling"));
    lm_text_printf(v->out, "%s\n", lm_facts_text(v->f, "model.sampling"));
}

/* How outputs are divided into reasoning, content and calls. */
static void put_answers(lm_page *v)
{
    lm_facts *f = v->f;
    bool calls = lm_facts_has(f, "model.tool_call_format"), unread = lm_facts_has(f, "model.tool_calls_unread");

    if (!calls && !unread)
        return;
    put_label(v, _("output"));
    if (calls)
        lm_text_printf(v->out, _("tool calls are read: %s"), lm_facts_text(f, "model.tool_call_format"));
    else
        lm_text_printf(v->out, _("tool calls are not read: %s"),
                       _(lm_facts_text(f, "model.tool_calls_unread")));
    if (lm_facts_has(f, "model.reasoning_start"))
        lm_text_printf(v->out, _("; reasoning: %s … %s"), lm_facts_text(f, "model.reasoning_start"),
                       lm_facts_text(f, "model.reasoning_end"));
    lm_text_add_char(v->out, '\n');
}

static void put_notes(lm_page *v)
{
    lm_facts      *f = v->f;
    const lm_fact *list = NULL;

    if (lm_facts_truth(f, "architecture.tied")) {
        put_label(v, _("notes"));
        lm_text_printf(v->out, "%s\n", _("the head shares the embedding: counted once"));
    }
    if (lm_facts_count(f, "architecture.kinds_of_layer") > 1) {
        put_label(v, _("layers"));
        lm_text_printf(v->out, _("%" PRIu64 " kinds: see the view layers\n"),
                       lm_facts_count(f, "architecture.kinds_of_layer"));
    }
    lm_facts_find(f, "warnings", &list, NULL);
    for (const lm_fact *x = lm_fact_first(list); x; x = lm_fact_next(x)) {
        if (x->origin == LM_FROM_PLAN)
            continue;                    /* already written by put_memory */
        put_label(v, x == list->impl.first ? _("unusual") : "");
        lm_text_printf(v->out, "%s\n", _(x->text));
    }
}

void lm_view_overview(lm_page *v)
{
    put_title(v);
    put_flow_lines(v);
    put_parameters(v);
    put_memory(v);
    put_compute(v);
    put_speed(v);
    put_rope(v);
    put_sampling(v);
    put_answers(v);
    put_notes(v);
    if (!v->o->more)
        return;
    lm_text_add_char(v->out, '\n');
    put_label(v, _("more"));
    lm_text_printf(v->out, "%s\n", v->o->more);
}

/* trace_versus.c - compare two models, or a model without and with interventions, on a text. */
#include <string.h>

#include "base/columns.h"
#include "cli/base/interrupt.h"
#include "cli/base/output.h"
#include "cli/base/tokenjson.h"
#include "cli/measure/trace.h"

typedef struct versus {
    lm_tracing          *t;
    lm_tracer           *a, *b;
    bool                 same;           /* one model, without and with interventions */
    lm_trace_comparison *c;
    lm_tokens            text, written[2];       /* the compared text; the continuation of each */
    uint32_t             row;
} versus;

/* ---- continuations ---- */

static lm_status write_on(versus *v, lm_tracer *x, lm_tokens *out, lm_error *e)
{
    const lm_token *ids;
    size_t          n;

    LM_TRY(lm_tracer_restart(x, e));
    LM_TRY(lm_tracer_read(x, v->t->ids.ids, v->t->ids.n, e));
    LM_TRY(lm_tracer_write(x, v->t->o->predict, e));
    ids = lm_tracer_ids(x, &n);
    return lm_tokens_append(out, ids + v->t->ids.n, n - v->t->ids.n, e);
}

static lm_status run(versus *v, lm_error *e)
{
    lm_interrupt_watch(lm_tracer_engine(v->a));
    if (v->t->o->predict) {
        LM_TRY(write_on(v, v->a, &v->written[0], e));
        lm_interrupt_watch(lm_tracer_engine(v->b));
        LM_TRY(write_on(v, v->b, &v->written[1], e));
    }
    LM_TRY(lm_tokens_append(&v->text, v->t->ids.ids, v->t->ids.n, e));
    LM_TRY(lm_tokens_append(&v->text, v->written[0].ids, v->written[0].n, e));
    LM_TRY(lm_trace_row_selected(v->t, v->text.n, &v->row, e));
    LM_TRY(lm_tracer_look(v->a, v->row, e));
    LM_TRY(lm_tracer_look(v->b, v->row, e));
    return lm_trace_compare(v->a, v->b, v->text.ids, v->text.n, &v->c, e);
}

/* ---- report ---- */

typedef struct summary {
    double   kl, max_kl;
    /* position of max_kl; first position where the most probable tokens differ, UINT32_MAX: none */
    uint32_t worst, first;
    uint64_t differ;
    lm_trace_layer_difference layer;     /* the layer that adds most to the difference */
    bool     layered;
} summary;

static summary sum_up(const versus *v)
{
    summary                   s = { .first = UINT32_MAX };
    lm_trace_difference       d;
    lm_trace_layer_difference l;
    size_t                    n = 0;

    for (; lm_trace_comparison_row(v->c, n, &d); n++) {
        s.kl += d.kl;
        if (n == 0 || d.kl > s.max_kl) {
            s.max_kl = d.kl;
            s.worst  = d.position;
        }
        if (d.a != d.b && s.differ++ == 0)
            s.first = d.position;
    }
    s.kl /= n ? (double)n : 1;
    for (size_t i = 0; lm_trace_comparison_layer(v->c, i, &l); i++)
        if (!s.layered || l.added > s.layer.added) {
            s.layer   = l;
            s.layered = true;
        }
    return s;
}

static json_t *text_of(const versus *v, lm_token id)
{
    lm_text out = { 0 };
    const lm_tokenizer *k = lm_model_tokenizer(v->t->model);

    if (k)
        lm_detokenize(k, &id, 1, 0, &out, NULL);
    json_t *text = lm_json_of(out.data ? out.data : "", out.size);
    lm_text_free(&out);
    return text;
}

static json_t *choice(const versus *v, lm_token id, float p)
{
    return json_pack("{s:i, s:o, s:f}", "id", id, "text", text_of(v, id), "p", (double)p);
}

static json_t *top_of(const versus *v, lm_tracer *x)
{
    json_t        *list = json_array();
    lm_trace_token next;

    for (uint32_t k = 0; lm_tracer_token(x, v->row + 1, &next) && k < next.n_top && next.top[k].id >= 0; k++)
        json_array_append_new(list, choice(v, next.top[k].id, next.top[k].p));
    return list;
}

static json_t *side(const versus *v, unsigned which)
{
    lm_text             text = { 0 };
    const lm_tokenizer *k    = lm_model_tokenizer(v->t->model);
    json_t             *o    = json_pack("{s:o}", "top", top_of(v, which ? v->b : v->a));

    if (v->t->o->predict && k &&
        lm_detokenize(k, v->written[which].ids, v->written[which].n, 0, &text, NULL) == LM_OK) {
        json_object_set_new(o, "ids", lm_ids_json(v->written[which].ids, v->written[which].n));
        json_object_set_new(o, "text", lm_json_of(text.data ? text.data : "", text.size));
    }
    lm_text_free(&text);
    return o;
}

static lm_status print_json(const versus *v, lm_error *e)
{
    summary                   s    = sum_up(v);
    json_t                   *rows = json_array(), *layers = json_array(), *o;
    lm_trace_difference       d;
    lm_trace_layer_difference l;

    for (size_t i = 0; lm_trace_comparison_row(v->c, i, &d); i++) {
        bool known = i + 1 < v->text.n;
        json_array_append_new(rows,
                              json_pack("{s:I, s:o, s:o, s:o, s:o, s:o}", "position", (json_int_t)d.position,
                                        "before", choice(v, d.a, d.p_a), "after", choice(v, d.b, d.p_b), "kl",
                                        lm_json_finite(d.kl), "surprise_before",
                                        known ? lm_json_finite(d.surprise_a) : json_null(), "surprise_after",
                                        known ? lm_json_finite(d.surprise_b) : json_null()));
    }
    for (size_t i = 0; lm_trace_comparison_layer(v->c, i, &l); i++)
        json_array_append_new(layers, json_pack("{s:s, s:i, s:o, s:o}", "path", l.path, "layer", l.layer,
                                                "rel_err", lm_json_finite(l.relative),
                                                "added", lm_json_finite(l.added)));
    o = json_pack("{s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "ids", lm_ids_json(v->text.ids, v->text.n),
                  "position", (json_int_t)v->row, "before", side(v, 0), "after", side(v, 1),
                  "mean_kl", lm_json_finite(s.kl), "max_kl", lm_json_finite(s.max_kl),
                  "first_difference", s.first == UINT32_MAX ? json_null() : json_integer(s.first),
                  "differences", rows, "layers", layers);
    if (o && s.layered)
        json_object_set_new(o, "moved_most", json_string(s.layer.path));
    return lm_out_json(v->t->cli, o, e);
}

static void put_top(const versus *v, lm_tracer *x, const char *name, lm_text *out)
{
    lm_trace_token next;

    lm_text_printf(out, "  %-8s", name);
    for (uint32_t k = 0; lm_tracer_token(x, v->row + 1, &next) && k < next.n_top && next.top[k].id >= 0;
         k++) {
        lm_text_add_str(out, k ? ", " : " ");
        lm_trace_add_token(v->t, next.top[k].id, 16, true, out);
        lm_text_printf(out, " %.3f", (double)next.top[k].p);
    }
    lm_text_add_char(out, '\n');
}

static void put_written(const versus *v, unsigned which, const char *name, lm_text *out)
{
    const lm_tokenizer *k    = lm_model_tokenizer(v->t->model);
    lm_text             text = { 0 };

    if (k &&
        lm_detokenize(k, v->written[which].ids, v->written[which].n, LM_SKIP_SPECIAL, &text, NULL) == LM_OK)
        lm_text_printf(out, "%s:\n%s\n\n", name, text.data ? text.data : "");
    lm_text_free(&text);
}

static void put_layers(const versus *v, const summary *s, lm_text *out)
{
    lm_trace_layer_difference l;

    if (!s->layered)
        return;
    lm_text_add_str(out, "\nthe residual stream: length of the difference, relative to the stream; what each "
                         "layer adds to it\n");
    for (size_t i = 0; lm_trace_comparison_layer(v->c, i, &l); i++)
        lm_text_printf(out, "  %-24s %10.4g %10.4g%s\n", l.path, l.relative, l.added,
                       strcmp(l.path, s->layer.path) ? "" : "  ← most");
}

static lm_status print_page(const versus *v, lm_error *e)
{
    const char *a = v->same ? "before" : "first", *b = v->same ? "after" : "second";
    summary s = sum_up(v);
    lm_trace_difference d;
    lm_text out = { 0 };

    if (v->t->o->predict) {
        put_written(v, 0, a, &out);
        put_written(v, 1, b, &out);
    }
    lm_text_printf(&out, "position  %-18s %-18s %-18s %10s %8s %8s\n", "token", a, b, "KL (nats)", "bits",
                   "bits");
    for (size_t i = 0; lm_trace_comparison_row(v->c, i, &d); i++) {
        lm_text cell = { 0 };
        lm_text_printf(&out, "%8u  ", d.position);
        for (unsigned k = 0; k < 3; k++) {
            lm_text_clear(&cell);
            lm_trace_add_token(v->t, k == 0 ? v->text.ids[i] : k == 1 ? d.a : d.b, 16, false, &cell);
            lm_text_add_cell(&out, cell.data ? cell.data : "", 18);
            lm_text_add_char(&out, ' ');
        }
        lm_text_free(&cell);
        lm_text_printf(&out, "%10.3g", d.kl);
        if (i + 1 < v->text.n)
            lm_text_printf(&out, " %8.2f %8.2f", d.surprise_a, d.surprise_b);
        lm_text_printf(&out, "%s\n", d.a != d.b ? "  ←" : "");
    }
    lm_text_printf(&out, "\nafter position %u\n", v->row);
    put_top(v, v->a, a, &out);
    put_top(v, v->b, b, &out);
    lm_text_printf(&out, "\nKL: mean %.4g nats, largest %.4g at position %u\n", s.kl, s.max_kl, s.worst);
    if (s.first == UINT32_MAX)
        lm_text_add_str(&out, "the likeliest token is the same everywhere\n");
    else
        lm_text_printf(&out, "the likeliest token differs at %llu of %zu positions, first at %u\n",
                       (unsigned long long)s.differ, v->text.n, s.first);
    put_layers(v, &s, &out);
    lm_status status = lm_out_buf(&out, e);
    lm_text_free(&out);
    return status;
}

lm_status lm_trace_versus(lm_tracing *t, const lm_trace_options *a, const lm_model *other,
                          const lm_trace_options *b, lm_error *e)
{
    versus v = { .t = t, .same = other == t->model };
    lm_trace_options plain = *a, changed = *b;

    plain.lens = changed.lens = 0;
    plain.attribution = changed.attribution = plain.attention = changed.attention = plain.experts =
        changed.experts = false;
    plain.times = changed.times = false;
    lm_status status = v.same ? LM_OK : lm_same_vocabulary(t->model, other, e);
    if (status == LM_OK)
        status = lm_tracer_new(t->model, &plain, &v.a, e);
    if (status == LM_OK && v.same)
        changed.weights = lm_tracer_engine(v.a);
    if (status == LM_OK)
        status = lm_tracer_new(other, &changed, &v.b, e);
    if (status == LM_OK)
        status = run(&v, e);
    if (status == LM_OK)
        status = t->cli->json ? print_json(&v, e) : print_page(&v, e);
    lm_interrupt_watch(NULL);
    lm_trace_comparison_free(v.c);
    lm_tracer_free(v.b);
    lm_tracer_free(v.a);
    lm_tokens_free(&v.text);
    lm_tokens_free(&v.written[0]);
    lm_tokens_free(&v.written[1]);
    return status;
}

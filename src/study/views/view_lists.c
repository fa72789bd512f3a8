/* view_lists.c - complete lists: weights, operations, steps, facts. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/facts/ledger.h"
#include "study/facts/table.h"
#include "study/views/view.h"

static bool is_left_out(const lm_page *v, uint32_t weight)
{
    const lm_facts *f      = v->f;
    const uint32_t  reader = f->ledger->reader[weight];

    return v->o->layer >= 0 && (reader == LM_NONE || f->s.program->nodes[reader].layer != v->o->layer);
}

void lm_view_tensors(lm_page *v)
{
    lm_facts         *f = v->f;
    const lm_program *p = f->s.program;
    lm_table          t = lm_table_new(f, "llrlr", 0);
    char              shape[96], n[LM_FIG], bytes[LM_FIG];
    uint64_t          total = 0;

    for (uint32_t i = 0; i < p->n_weights; i++) {
        const lm_weight *w  = &p->weights[i];
        size_t           at = 0;
        if (is_left_out(v, i))
            continue;
        for (uint32_t d = 0; d < w->n_dims; d++)
            at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%" PRIu64, d ? " × " : "", w->dims[d]);
        total += w->constant ? 0 : w->elements;
        lm_table_row(&t, w->path, shape, lm_fig_count(n, w->elements),
                     f->s.bytes ? lm_dtype_of(f->s.types[i])->name : "",
                     f->s.bytes ? lm_fig_count(bytes, f->s.bytes[i]) : "");
    }
    lm_table_print(&t, v->out);
    lm_text_printf(v->out, _("%u weights, %s parameters\n"), t.rows, lm_fig_count(n, total));
}

void lm_view_tensors_json(lm_page *v)
{
    lm_facts         *f   = v->f;
    const lm_program *p   = f->s.program;
    const char       *gap = "";

    lm_text_add_char(v->out, '[');
    for (uint32_t i = 0; i < p->n_weights; i++) {
        const lm_weight *w = &p->weights[i];
        if (is_left_out(v, i))
            continue;
        lm_text_printf(v->out, "%s\n{\"path\": ", gap);
        lm_fact_json_text(w->path, v->out);
        lm_text_add_str(v->out, ", \"shape\": [");
        for (uint32_t d = 0; d < w->n_dims; d++)
            lm_text_printf(v->out, "%s%" PRIu64, d ? ", " : "", w->dims[d]);
        lm_text_printf(v->out, "], \"elements\": %" PRIu64, w->elements);
        if (f->s.bytes)
            lm_text_printf(v->out, ", \"type\": \"%s\", \"bytes\": %" PRIu64,
                           lm_dtype_of(f->s.types[i])->name, f->s.bytes[i]);
        lm_text_printf(v->out, ", \"parameter\": %s}", w->constant ? "false" : "true");
        gap = ",";
    }
    lm_text_add_char(v->out, ']');
}

void lm_view_program(lm_page *v)
{
    lm_program_print(v->f->s.program, v->out);
}

void lm_view_plan(lm_page *v)
{
    const lm_plan *p;
    lm_error       e;

    if (v->f->s.plan(v->f->s.arg, NULL, v->f->s.context, v->f->s.batch, &p, &e) == LM_OK)
        lm_plan_print(p, v->out);
    else
        lm_text_printf(v->out, _("cannot be planned: %s\n"), e.message);
}

static void put_facts(lm_page *v, const lm_fact *group)
{
    lm_text path;
    char    number[32];

    for (const lm_fact *x = lm_fact_first(group); x; x = lm_fact_next(x)) {
        if (x->kind >= LM_FACT_GROUP) {
            if (!x->impl.silent && x->kind != LM_FACT_TABLE)
                put_facts(v, x);
            continue;
        }
        path = (lm_text){ 0 };
        lm_fact_path(x, &path);
        lm_text_printf(v->out, "%s\t", path.data ? path.data : "");
        if (x->kind == LM_FACT_TEXT)
            lm_text_add_str(v->out, x->text);
        else if (x->kind == LM_FACT_NUMBER)
            lm_text_add_str(v->out, lm_number_text(number, x->number));
        else
            lm_fact_json(x, 0, v->out);
        lm_text_printf(v->out, "\t%s\t%s\t%s\n", lm_unit_name(x->unit), lm_origin_name(x->origin),
                       x->how ? x->how : "");
        lm_text_free(&path);
    }
}

static void put_word(const char *key, const char *word, lm_text *out)
{
    lm_text_printf(out, ", \"%s\": ", key);
    if (word && *word)
        lm_fact_json_text(word, out);
    else
        lm_text_add_str(out, "null");
}

static void put_facts_json(lm_page *v, const lm_fact *group, const char **gap)
{
    for (const lm_fact *x = lm_fact_first(group); x; x = lm_fact_next(x)) {
        if (x->kind >= LM_FACT_GROUP) {
            if (!x->impl.silent && x->kind != LM_FACT_TABLE)
                put_facts_json(v, x, gap);
            continue;
        }
        lm_text path = { 0 };
        lm_fact_path(x, &path);
        lm_text_printf(v->out, "%s\n{\"path\": ", *gap);
        lm_fact_json_text(path.data ? path.data : "", v->out);
        lm_text_add_str(v->out, ", \"value\": ");
        lm_fact_json(x, 0, v->out);
        put_word("id", x->id, v->out);
        put_word("unit", lm_unit_name(x->unit), v->out);
        put_word("origin", lm_origin_name(x->origin), v->out);
        put_word("how", x->how, v->out);
        lm_text_add_char(v->out, '}');
        v->out->failed |= path.failed;
        lm_text_free(&path);
        *gap = ",";
    }
}

void lm_view_facts_json(lm_page *v)
{
    const char *gap = "";

    lm_text_add_char(v->out, '[');
    put_facts_json(v, lm_facts_root(v->f), &gap);
    lm_text_add_char(v->out, ']');
}

/* Tab-separated: path, value, unit, origin, how. */
void lm_view_facts(lm_page *v)
{
    put_facts(v, lm_facts_root(v->f));
}

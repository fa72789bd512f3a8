/* views.c - the table of views. */
#include <stdio.h>
#include <string.h>

#include "study/report/chapters.h"
#include "study/report/module_views.h"
#include "study/views/view.h"

static void view_tree(lm_page *v)
{
    lm_put_module_tree(v->f, v->o->depth, v->out);
}

static void view_torchinfo(lm_page *v)
{
    lm_put_torchinfo(v->f, v->o->depth, v->o->compatible, v->out);
    if (v->o->more)
        lm_text_printf(v->out, "%s\n", v->o->more);
}

/* A view is a separate page (`write`) or a part of the report. */
static const struct {
    const char     *name, *summary;
    lm_view_writer *write;
    lm_chapter     *part;
    lm_view_writer *data;            /* writes a JSON array instead of `write`, under the view's name; NULL:
                                        the view has only text */
} views[] = {
    { "overview", N_("overview: type, structure, memory"), lm_view_overview, NULL, NULL },
    { "info", N_("values of the configuration"), NULL, lm_part_info, NULL },
    { "layers", N_("every decoder layer, operation by operation"), lm_view_layers, NULL, NULL },
    { "tree", N_("the module tree in PyTorch's format"), view_tree, NULL, NULL },
    { "torchinfo", N_("the torchinfo table, corrected or compatible"), view_torchinfo, NULL, NULL },
    { "params", N_("parameters by part, module and layer"), NULL, lm_part_parameters, NULL },
    { "flops", N_("operations per token, by part and context"), NULL, lm_part_flops, NULL },
    { "kv", N_("the key/value cache by context"), NULL, lm_part_cache, NULL },
    { "memory", N_("bytes by precision, and the memory that the engine allocates"), NULL, lm_part_memory, NULL },
    { "rope", N_("rotary frequencies before and after scaling"), NULL, lm_part_frequencies, NULL },
    { "cards", N_("a short summary of each component"), lm_view_cards, NULL, NULL },
    { "diagram", N_("data flow with skip connections, and head sharing"), NULL, lm_part_diagrams, NULL },
    { "formulas", N_("formulas of the operations"), NULL, lm_part_formulas, NULL },
    { "tensors", N_("every weight: shape, names, type, bytes"), lm_view_tensors, NULL, lm_view_tensors_json },
    { "program", N_("the operations read by engine and analyses"), lm_view_program, NULL, NULL },
    { "plan", N_("the execution plan for this machine: steps, kernels, buffers, bytes"), lm_view_plan, NULL, NULL },
    { "facts", N_("all facts: path, value, unit, origin"), lm_view_facts, NULL, lm_view_facts_json },
};

enum { N_VIEWS = sizeof views / sizeof *views };

const char *lm_view_at(size_t i, const char **summary)
{
    if (i >= N_VIEWS)
        return NULL;
    if (summary)
        *summary = views[i].summary;
    return views[i].name;
}

static void write_part(lm_page *v, lm_chapter *part)
{
    lm_document d;

    lm_document_init(&d, &v->f, 1);
    d.depth = v->o->depth;
    d.layer = v->o->layer;
    d.lines = v->lines;
    part(&d);
    if (v->o->json)
        lm_document_blocks_json(&d, v->out);
    else
        lm_document_text(&d, &(lm_document_manner){ v->columns, v->lines }, v->out);
    v->f->failed |= d.failed;
    lm_document_free(&d);
}

static void write_view(lm_page *v, size_t i)
{
    if (views[i].part)
        write_part(v, views[i].part);
    else
        views[i].write(v);
}

/* Write the view's name, and its blocks, its list or its text. */
static void write_data(lm_page *v, size_t i)
{
    lm_text  text = { 0 };
    lm_page page = *v;

    lm_text_printf(v->out, "{\"view\": \"%s\", \"%s\": ", views[i].name,
                   views[i].part ? "blocks" : views[i].data ? views[i].name : "text");
    if (views[i].part) {
        write_part(v, views[i].part);
    } else if (views[i].data) {
        views[i].data(v);
    } else {
        page.out = &text;
        views[i].write(&page);
        lm_fact_json_text(text.data ? text.data : "", v->out);
    }
    lm_text_add_str(v->out, "}\n");
    v->out->failed |= text.failed;
    lm_text_free(&text);
}

/* Return the index of a view; N_VIEWS: none. */
static size_t view_named(const char *name)
{
    size_t i = 0;

    while (i < N_VIEWS && strcmp(views[i].name, name) != 0)
        i++;
    return i;
}

static lm_status unknown(const char *name, lm_error *e)
{
    lm_text list = { 0 };

    for (size_t i = 0; i < N_VIEWS; i++)
        lm_text_printf(&list, "%s%s", i ? ", " : "", views[i].name);
    lm_fail(e, LM_USAGE, "view", LM_NO_OFFSET, "unknown view \"%s\"; use %s or all", name,
            list.data ? list.data : "");
    lm_text_free(&list);
    return LM_USAGE;
}

/* Write all views, each below a line with its name, except the long lists: facts, plan and program. */
static void write_all(lm_page *v)
{
    for (size_t i = 0; i < N_VIEWS; i++) {
        if (views[i].write == lm_view_facts || views[i].write == lm_view_plan ||
            views[i].write == lm_view_program)
            continue;
        if (i)
            lm_text_printf(v->out, "\n%s %s %s\n\n", v->lines ? "──" : "--", views[i].name,
                           v->lines ? "──" : "--");
        write_view(v, i);
    }
}

static lm_status view(lm_facts *f, const lm_view_options *o, lm_text *out, lm_error *e)
{
    lm_text      b    = { 0 };
    const char *name = o->view ? o->view : o->layer >= 0 ? "layers" : "overview";
    bool        all  = strcmp(name, "all") == 0;
    size_t      view = view_named(name);
    lm_page     v    = { f, o, &b, o->columns ? o->columns : 80, o->lines };

    if (!all && view == N_VIEWS)
        return unknown(name, e);
    if (o->layer >= 0 && (uint32_t)o->layer >= f->s.program->n_layers)
        return lm_fail(e, LM_USAGE, "layer", LM_NO_OFFSET, "there is no layer %d; the model has %u", o->layer,
                       f->s.program->n_layers);
    if (all && o->json)
        return lm_fail(e, LM_USAGE, "view", LM_NO_OFFSET,
                       "\"all\" cannot be written as JSON; use `json` without `view`");
    if (all)
        write_all(&v);
    else if (o->json)
        write_data(&v, view);
    else
        write_view(&v, view);
    if (b.failed)
        f->failed = true;
    return lm_text_deliver(&b, lm_facts_check(f, e), "view", out, e);
}

lm_status lm_facts_view(lm_facts *f, const lm_view_options *o, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, f && out);
    LM_CHECK_RESERVED(e, o);
    lm_view_options given = o ? *o : (lm_view_options){ 0 };
    lm_language     before = lm_language_set(given.language);

    given.layer      = given.one_layer ? given.layer : -1;
    lm_status status = view(f, &given, out, e);

    lm_language_set(before);
    return status;
}

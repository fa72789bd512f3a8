/* views.c - the table of views. */
#include <stdio.h>
#include <string.h>

#include "analysis/page.h"

static const struct {
    const char     *name, *summary;
    lm_view_writer *write;
} views[] = {
    { "overview", "one page: what it is, what it is made of, what it takes", lm_view_overview },
    { "info", "the description's own numbers", lm_view_info },
    { "layers", "every decoder layer, operation by operation", lm_view_layers },
    { "tree", "the module tree, as PyTorch prints it", lm_view_tree },
    { "torchinfo", "the table that torchinfo prints, corrected or compatible", lm_view_torchinfo },
    { "params", "parameters by part, module and layer", lm_view_params },
    { "flops", "operations for each token, by part and context", lm_view_flops },
    { "kv", "the key/value cache by context", lm_view_kv },
    { "memory", "bytes by precision, and what the engine allocates", lm_view_memory },
    { "rope", "rotary frequencies before and after scaling", lm_view_rope },
    { "cards", "each part of the model in a few lines", lm_view_cards },
    { "diagram", "the data flow with its skip edges, and how heads are shared", lm_view_diagram },
    { "formulas", "what the operations compute", lm_view_formulas },
    { "tensors", "every weight: shape, names, type, bytes", lm_view_tensors },
    { "program", "the operations, as engine and analyses read them", lm_view_program },
    { "plan", "how it would run here: steps, kernels, buffers, bytes", lm_view_plan },
    { "facts", "every fact: path, value, unit, where it comes from", lm_view_facts },
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

static lm_view_writer *writer_named(const char *name)
{
    for (size_t i = 0; i < N_VIEWS; i++)
        if (strcmp(views[i].name, name) == 0)
            return views[i].write;
    return NULL;
}

static lm_status unknown(const char *name, lm_error *e)
{
    lm_buf list = { 0 };

    for (size_t i = 0; i < N_VIEWS; i++)
        lm_buf_printf(&list, "%s%s", i ? ", " : "", views[i].name);
    lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "there is no such view; there are %s, all", list.data ? list.data : "");
    lm_buf_free(&list);
    return LM_USAGE;
}

/* One after the other, under a line with its name; the two that are lists of everything are left out. */
static void write_all(lm_page *v)
{
    for (size_t i = 0; i < N_VIEWS; i++) {
        if (views[i].write == lm_view_facts || views[i].write == lm_view_plan || views[i].write == lm_view_program)
            continue;
        if (i)
            lm_buf_printf(v->out, "\n%s %s %s\n\n", v->lines ? "──" : "--", views[i].name, v->lines ? "──" : "--");
        views[i].write(v);
    }
}

static lm_status view(lm_facts *f, const lm_view_options *o, lm_text *out, lm_error *e)
{
    lm_buf          b    = { 0 };
    const char     *name = o->view ? o->view : o->layer >= 0 ? "layers" : "overview";
    lm_view_writer *write = strcmp(name, "all") == 0 ? write_all : writer_named(name);
    lm_page         v    = { f, o, &b, o->columns ? o->columns : 80, o->lines };

    if (!write)
        return unknown(name, e);
    if (o->layer >= 0 && (uint32_t)o->layer >= f->s.program->n_layers)
        return lm_fail(e, LM_USAGE, "layer", LM_NO_OFFSET, "there is no layer %d; the model has %u", o->layer,
                       f->s.program->n_layers);
    write(&v);
    if (b.failed)
        f->failed = true;
    lm_status status = lm_facts_check(f, e);
    if (status != LM_OK) {
        lm_buf_free(&b);
        return status;
    }
    *out = (lm_text){ b.data, b.size, b.capacity };
    return LM_OK;
}

lm_status lm_facts_view(lm_facts *f, const lm_view_options *o, lm_text *out, lm_error *e)
{
    lm_language before = lm_language_set(o->language);
    lm_status   status = view(f, o, out, e);

    lm_language_set(before);
    return status;
}

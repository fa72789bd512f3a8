/* diagram.c - the table of diagrams. */
#include "study/draw/diagram.h"

#include <string.h>

#include "base/error.h"

static const struct {
    const char *name, *summary;
    lm_draw    *draw;
} diagrams[] = {
    { "flow", N_("the whole model: embedding, a layer of each kind, head, with its skip edges"), lm_draw_flow },
    { "layer", N_("one decoder layer, operation by operation"), lm_draw_layer },
    { "pattern", N_("the order of the kinds of layers"), lm_draw_pattern },
    { "end-to-end", N_("from text to the next token"), lm_draw_end_to_end },
    { "residual", N_("the residual stream and its additions"), lm_draw_residual },
    { "attention", N_("the attention of a layer"), lm_draw_attention },
    { "heads", N_("which query heads read which key/value heads: MHA, this model, MQA"), lm_draw_heads },
    { "mask", N_("which keys each token sees: triangle, window, sinks"), lm_draw_mask },
    { "mla", N_("latent attention, naive and absorbed, beside grouped-query attention"), lm_draw_mla },
    { "rope", N_("rotation of a head"), lm_draw_rope },
    { "spectrum", N_("rotary frequencies before and after scaling"), lm_draw_spectrum },
    { "mlp", N_("the MLP of a layer"), lm_draw_mlp },
    { "moe", N_("routing to experts"), lm_draw_moe },
    { "norm", N_("normalisation in steps"), lm_draw_norm },
    { "cache", N_("the cache during the first steps"), lm_draw_cache },
    { "kv-growth", N_("bytes of the cache by context"), lm_draw_kv_growth },
    { "memory-growth", N_("weights, cache and scratch by context"), lm_draw_memory_growth },
    { "flops-growth", N_("operations of a token by context"), lm_draw_flops_growth },
    { "roofline", N_("roofline of this machine"), lm_draw_roofline },
    { "decay", N_("how fast the heads of layers with a state forget"), lm_draw_decay },
    { "window", N_("visible keys of a token"), lm_draw_window },
};

enum { N_DIAGRAMS = sizeof diagrams / sizeof *diagrams };

const char *lm_diagram_at(size_t i, const char **summary)
{
    if (i < N_DIAGRAMS && summary)
        *summary = diagrams[i].summary;
    return i < N_DIAGRAMS ? diagrams[i].name : NULL;
}

static lm_status unknown(const char *name, lm_error *e)
{
    lm_text list = { 0 };

    for (size_t i = 0; i < N_DIAGRAMS; i++)
        lm_text_printf(&list, "%s%s", i ? ", " : "", diagrams[i].name);
    lm_fail(e, LM_USAGE, "diagram", LM_NO_OFFSET, "unknown diagram \"%s\"; use %s", name,
            list.data ? list.data : "");
    lm_text_free(&list);
    return LM_USAGE;
}

static lm_status draw(lm_facts *f, const char *name, const lm_explain_options *o, lm_text *out,
                      const lm_graph **graph, lm_error *e)
{
    lm_text     b = { 0 };
    lm_drawing d = { .f = f, .o = o, .out = &b };
    lm_status  status;
    size_t     i = 0;

    while (i < N_DIAGRAMS && strcmp(diagrams[i].name, name) != 0)
        i++;
    if (i == N_DIAGRAMS)
        return unknown(name, e);
    if (o->layer && o->layer >= f->s.program->n_layers)
        return lm_fail(e, LM_USAGE, "layer", LM_NO_OFFSET, "there is no layer %u; the model has %u", o->layer,
                       f->s.program->n_layers);
    d.svg     = d.o->form == LM_FORM_SVG;
    d.alone   = d.svg;
    d.mermaid = !d.svg && d.o->form != LM_FORM_TEXT;
    d.name    = _(diagrams[i].summary);
    if (d.alone && !(d.name = lm_arena_printf(&f->arena, "%s\n%s", f->s.name, d.name)))
        return lm_fail_memory(e, "diagram", 0);
    diagrams[i].draw(&d);
    status = lm_facts_check(f, e);
    if (status == LM_OK && d.missing)
        status = lm_fail(e, LM_NOT_FOUND, name, LM_NO_OFFSET, "%s", d.missing);
    status = lm_text_deliver(&b, status, name, out, e);
    if (status == LM_OK)
        *graph = d.graph;
    return status;
}

lm_status lm_diagram(lm_facts *f, const char *name, const lm_explain_options *o, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, f && name && out);
    LM_CHECK_RESERVED(e, o);
    static const lm_explain_options defaults;
    const lm_graph                 *graph;
    lm_language                     before = lm_language_set(o ? o->language : LM_ENGLISH);
    lm_status                       status = draw(f, name, o ? o : &defaults, out, &graph, e);

    lm_language_set(before);
    return status;
}

lm_status lm_diagram_forms(lm_facts *f, const char *name, const lm_explain_options *o, lm_text *text,
                           lm_text *mermaid, const lm_graph **graph, lm_error *e)
{
    lm_explain_options options = *o;

    options.form = LM_FORM_TEXT;
    LM_TRY(draw(f, name, &options, text, graph, e));
    options.form     = LM_FORM_MARKDOWN;
    lm_status status = draw(f, name, &options, mermaid, graph, e);
    if (status != LM_OK)
        lm_text_free(text);
    return status;
}

bool lm_diagram_svg(lm_facts *f, const char *name, const char *title, const lm_explain_options *o,
                    lm_text *out)
{
    lm_drawing d    = { .f = f, .o = o, .name = title, .svg = true, .out = out };
    size_t     size = out->size, i = 0;

    while (i < N_DIAGRAMS && strcmp(diagrams[i].name, name) != 0)
        i++;
    if (i == N_DIAGRAMS)
        return false;
    diagrams[i].draw(&d);
    if (d.missing && out->data && !out->failed) {
        out->size       = size;
        out->data[size] = '\0';
    }
    return !d.missing && out->size > size;
}

/* inspect_facts.c - single values, views and all facts about a model. */
#include "cli/run/inspect.h"

#include <inttypes.h>
#include <string.h>

#include "cli/base/output.h"
#include "lamina/study.h"

/* Return a value with its unit and origin. NULL: out of memory. */
static json_t *fact_json(const lm_fact_info *x, const char *path, const lm_text *value)
{
    json_t *v = json_loadb(value->data, value->size, JSON_DECODE_ANY, NULL);

    return v ? json_pack("{s:s, s:o, s:s*, s:s, s:s, s:s?}", "query", path, "value", v, "id", x->id,
                         "unit", lm_unit_name(x->unit), "origin", lm_origin_name(x->origin), "how", x->how)
             : NULL;
}

/* Print the queried values without names, one per line, groups as JSON. With --json print an object, or a
 * list for several queries. */
static lm_status show_queries(lm_cli *cli, const lm_inspect_options *o, lm_facts *f, lm_error *e)
{
    json_t *list = json_array(), *one = NULL;
    lm_text out = { 0 };
    lm_status status = LM_OK;

    for (size_t i = 0; i < o->query.n && status == LM_OK; i++) {
        const lm_fact *found = NULL;
        lm_fact_info x;
        lm_text value = { 0 }, path = { 0 };
        status = lm_facts_named(f, o->query.items[i], &found, e);
        lm_fact_describe(found, &x);
        lm_fact_path(found, &path);
        if (status == LM_OK)
            status = path.failed ? lm_fail_memory(e, "the report", path.size)
                                 : lm_facts_json(f, path.data, &value, e);
        lm_text_free(&path);
        if (status == LM_OK && cli->json)
            status = json_array_append_new(list, fact_json(&x, o->query.items[i], &value)) == 0 ? LM_OK
                         : lm_fail_memory(e, "the report", value.size);
        else if (status == LM_OK && x.kind == LM_FACT_COUNT)
            lm_text_printf(&out, "%" PRIu64 "\n", x.count);
        else if (status == LM_OK)
            lm_text_printf(&out, "%s\n", x.kind == LM_FACT_TEXT ? x.text : value.data);
        lm_text_free(&value);
    }
    if (status == LM_OK && !cli->json)
        status = lm_out_buf(&out, e);
    lm_text_free(&out);
    if (status != LM_OK || !cli->json) {
        json_decref(list);
        return status;
    }
    if (o->query.n > 1)
        return lm_out_json(cli, list, e);
    one = json_incref(json_array_get(list, 0));
    json_decref(list);
    return lm_out_json(cli, one, e);
}

/* Print a JSON document of the library in the layout of all documents of the program. Frees `text`. */
static lm_status show_json(lm_cli *cli, lm_text *text, lm_error *e)
{
    json_t *j = json_loadb(text->data, text->size, JSON_DECODE_ANY, NULL);

    lm_text_free(text);
    return j ? lm_out_json(cli, j, e) : lm_fail_memory(e, "the report", 0);
}

#define OVERVIEW "--layer 0   --view info|tree|torchinfo|params|flops|kv|memory|rope"

/* Return what the last line of a page suggests, or NULL. */
static const char *what_else(const lm_inspect_options *o, lm_facts *f)
{
    if (!o->view && (!lm_facts_truth(f, "speed.measured") || lm_facts_truth(f, "speed.too_low")))
        return OVERVIEW "\n                     lamina doctor";
    if (!o->view)
        return OVERVIEW;
    if (strcmp(o->view, "torchinfo") == 0 && !o->compatible)
        return _("--torchinfo-compat prints the table as torchinfo 1.8.0 does, with its over-counts.");
    return NULL;
}

static lm_status show_view(lm_cli *cli, const lm_inspect_options *o, lm_facts *f, lm_error *e)
{
    lm_view_options view = {
        .view = o->view,
        .one_layer = o->layer >= 0,
        .layer = o->layer,
        .depth = o->depth,
        .columns = lm_out_width(),
        .lines = lm_out_is_terminal(),
        .compatible = o->compatible,
        .language = cli->json ? LM_ENGLISH : cli->language,
        .json = cli->json,
        .more = what_else(o, f),
    };
    lm_text text = { 0 };

    if (o->compatible)
        lm_note("as torchinfo 1.8.0 prints it: a tied head counts twice, products ignore the length of the "
                "sequence, look-ups "
                "count as products, activations are doubled; without --torchinfo-compat the table is right");
    LM_TRY(lm_facts_view(f, &view, &text, e));
    return cli->json ? show_json(cli, &text, e) : lm_inspect_text(cli, &text, "text", e);
}

/* Print all facts as one document. */
static lm_status show_document(lm_cli *cli, lm_facts *f, lm_error *e)
{
    lm_text text = { 0 };

    LM_TRY(lm_facts_json(f, NULL, &text, e));
    return show_json(cli, &text, e);
}

lm_status lm_inspect_facts(lm_cli *cli, const lm_inspect_options *o, const lm_model *m,
                           const lm_engine_options *engine, lm_error *e)
{
    lm_facts_options options = {
        .engine = *engine, .precision = o->precision, .tokens = o->tokens, .name = o->name
    };
    lm_facts *f = NULL;
    lm_status status;

    LM_TRY(lm_facts_new(m, &options, &f, e));
    bool whole = cli->json && !o->view && o->layer < 0;
    status = o->query.n ? show_queries(cli, o, f, e)
             : whole    ? show_document(cli, f, e)
                        : show_view(cli, o, f, e);
    lm_facts_free(f);
    return status;
}

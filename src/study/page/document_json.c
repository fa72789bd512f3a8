/* document_json.c - write a report as data: sections, tables with exact values and their facts. */
#include <inttypes.h>

#include "study/page/document.h"

static void put_key(lm_text *out, bool *any, const char *key)
{
    lm_text_printf(out, "%s\"%s\": ", *any ? ", " : "", key);
    *any = true;
}

static void put_text(lm_text *out, bool *any, const char *key, const char *text)
{
    if (!text)
        return;
    put_key(out, any, key);
    lm_fact_json_text(text, out);
}

/* ---- tables ---- */

static void put_cell(const lm_doc_cell *c, lm_text *out)
{
    bool any = false;
    char number[32];

    if (c->kind == LM_CELL_EMPTY) {
        lm_text_add_str(out, "null");
        return;
    }
    lm_text_add_char(out, '{');
    put_text(out, &any, "text", c->text);
    if (c->kind == LM_CELL_COUNT) {
        put_key(out, &any, "value");
        lm_text_printf(out, "%" PRIu64, c->count);
    } else if (c->kind == LM_CELL_NUMBER || c->kind == LM_CELL_BAR) {
        put_key(out, &any, "value");
        lm_text_add_str(out, lm_number_text(number, c->number));
    } else if (c->kind == LM_CELL_MATH) {
        put_text(out, &any, "latex", c->latex);
    }
    if (c->unit != LM_UNIT_NONE)
        put_text(out, &any, "unit", lm_unit_name(c->unit));
    put_text(out, &any, "fact", c->path);
    lm_text_add_char(out, '}');
}

static void put_table(const lm_doc_table *t, lm_text *out)
{
    const char *between = "";

    lm_text_add_str(out, ", \"columns\": [");
    for (uint32_t i = 0; i < t->n_columns; i++) {
        lm_text_add_str(out, i ? ", " : "");
        lm_fact_json_text(t->columns[i].title, out);
    }
    lm_text_add_str(out, "], \"rows\": [");
    for (const lm_doc_row *r = t->first; r; r = r->next) {
        if (r->gap)
            continue;
        lm_text_printf(out, "%s\n[", between);
        for (uint32_t i = 0; i < t->n_columns; i++) {
            lm_text_add_str(out, i ? ", " : "");
            put_cell(&r->cells[i], out);
        }
        lm_text_add_char(out, ']');
        between = ",";
    }
    lm_text_add_char(out, ']');
}

/* ---- derivations ---- */

static void put_expression(const lm_expr *x, bool numbers, lm_text *out)
{
    lm_text b = { 0 };

    lm_expr_write(x, LM_UNICODE, numbers, &b);
    lm_fact_json_text(b.data ? b.data : "", out);
    out->failed |= b.failed;
    lm_text_free(&b);
}

static void put_quantity(lm_symbol_value q, lm_text *out)
{
    char number[32];

    if (q.whole)
        lm_text_printf(out, "%" PRId64, q.n);
    else
        lm_text_add_str(out, lm_number_text(number, q.x));
}

static void put_derivation(const lm_derivation *d, lm_text *out)
{
    const char *between = "";

    lm_text_add_str(out, ", \"symbols\": [");
    for (size_t i = 0; i < d->n_symbols; i++) {
        const lm_symbol *s = &d->symbols[i];
        bool             any = false;
        if (!s->used || !s->meaning)
            continue;
        lm_text_printf(out, "%s\n{", between);
        put_text(out, &any, "name", s->name);
        put_text(out, &any, "meaning", s->meaning);
        put_key(out, &any, "value");
        put_quantity(s->value, out);
        lm_text_add_char(out, '}');
        between = ",";
    }
    lm_text_add_str(out, "], \"steps\": [");
    for (size_t i = 0; i < d->n_steps; i++) {
        const lm_formula *s   = &d->steps[i];
        bool              any = false;
        lm_text_printf(out, "%s\n{", i ? "," : "");
        put_text(out, &any, s->heading ? "heading" : "title", s->title);
        if (!s->heading) {
            put_text(out, &any, "name", s->symbol->name);
            put_key(out, &any, "symbols");
            put_expression(s->x, false, out);
            put_key(out, &any, "numbers");
            put_expression(s->x, true, out);
            put_key(out, &any, "value");
            put_quantity(lm_expr_value(s->x), out);
            put_text(out, &any, "unit", lm_unit_name(s->unit));
            if (s->fact) {
                put_text(out, &any, "fact", s->path);
                put_key(out, &any, "agrees");
                lm_text_add_str(out, s->agrees ? "true" : "false");
            }
        }
        lm_text_add_char(out, '}');
    }
    lm_text_add_char(out, ']');
}

/* ---- blocks ---- */

static const char *const kinds[] = {
    [LM_BLOCK_SECTION] = "section",       [LM_BLOCK_FOLD] = "fold",     [LM_BLOCK_TEXT] = "text",
    [LM_BLOCK_NOTE] = "note",             [LM_BLOCK_WARNING] = "warning", [LM_BLOCK_LIST] = "list",
    [LM_BLOCK_TABLE] = "table",           [LM_BLOCK_FORMULA] = "formula", [LM_BLOCK_DERIVATION] = "derivation",
    [LM_BLOCK_FIGURE] = "figure",         [LM_BLOCK_VERBATIM] = "verbatim",
};

static void put_items(const lm_doc_item *x, lm_text *out)
{
    lm_text_add_str(out, ", \"items\": [");
    for (const char *between = ""; x; x = x->next, between = ", ") {
        lm_text_add_str(out, between);
        lm_fact_json_text(x->text, out);
    }
    lm_text_add_char(out, ']');
}

static void put_blocks(const lm_block *within, lm_text *out);

static void put_block(const lm_block *b, lm_text *out)
{
    bool any = false;

    lm_text_add_char(out, '{');
    put_text(out, &any, "kind", kinds[b->kind]);
    put_text(out, &any, "id", b->id);
    if (b->kind == LM_BLOCK_SECTION)
        put_text(out, &any, "number", b->number);
    put_text(out, &any, "title", b->title);
    put_text(out, &any, "output", b->output);
    switch (b->kind) {
    case LM_BLOCK_SECTION:
    case LM_BLOCK_FOLD:
        lm_text_add_str(out, ", \"blocks\": ");
        put_blocks(b, out);
        break;
    case LM_BLOCK_LIST:
        put_items(b->items, out);
        break;
    case LM_BLOCK_TABLE:
        put_table(b->table, out);
        break;
    case LM_BLOCK_FORMULA:
        put_text(out, &any, "name", b->formula.name);
        put_text(out, &any, "text", b->formula.unicode);
        put_text(out, &any, "latex", b->formula.latex);
        break;
    case LM_BLOCK_DERIVATION:
        put_derivation(b->derivation, out);
        break;
    case LM_BLOCK_FIGURE:
        put_text(out, &any, "diagram", b->figure.diagram);
        put_text(out, &any, "text", b->figure.text);
        put_text(out, &any, "mermaid", b->figure.mermaid);
        break;
    default:
        put_text(out, &any, "text", b->text);
        break;
    }
    lm_text_add_char(out, '}');
}

static void put_blocks(const lm_block *within, lm_text *out)
{
    lm_text_add_char(out, '[');
    for (const lm_block *b = within->first; b; b = b->next) {
        lm_text_add_str(out, b == within->first ? "\n" : ",\n");
        put_block(b, out);
    }
    lm_text_add_char(out, ']');
}

void lm_document_blocks_json(const lm_document *d, lm_text *out)
{
    put_blocks(&d->root, out);
}

void lm_document_json(lm_document *d, lm_text *out)
{
    bool any = false;

    lm_text_add_char(out, '{');
    put_text(out, &any, "schema", "lamina.report/1");
    put_text(out, &any, "title", d->root.title);
    put_text(out, &any, "subtitle", d->subtitle);
    put_key(out, &any, "models");
    lm_text_add_char(out, '[');
    for (size_t i = 0; i < d->n_models; i++) {
        lm_text_add_str(out, i ? ", " : "");
        lm_fact_json_text(lm_facts_text(d->models[i], "model.name"), out);
    }
    lm_text_add_str(out, "], \"blocks\": ");
    put_blocks(&d->root, out);
    lm_text_add_str(out, "}\n");
}

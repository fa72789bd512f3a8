/* chapter_structure.c - the model as diagrams, as a tree of modules, as a table of shapes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/facts/flow.h"
#include "study/facts/ledger.h"
#include "study/report/chapters.h"
#include "study/report/module_views.h"

/* ---- diagrams ---- */

/* Add a layer of each kind, and how query heads share keys; this is also the diagram view. */
void lm_part_diagrams(lm_document *d)
{
    lm_facts         *f = d->facts;
    const lm_program *p = f->s.program;
    lm_text            flow = { 0 };

    lm_put_flow(f, &flow);
    lm_doc_text(d, flow.data ? flow.data : "");
    d->failed |= flow.failed;
    lm_text_free(&flow);
    for (uint32_t i = 0; i < p->n_layers; i++) {
        uint32_t alike = 0;
        if (d->layer >= 0 ? i != (uint32_t)d->layer : f->ledger->twin[i] != i)
            continue;
        for (uint32_t k = 0; k < p->n_layers; k++)
            alike += f->ledger->twin[k] == f->ledger->twin[i];
        const char *path = p->modules[f->ledger->layer[i]].path;
        lm_doc_diagram(d, "layer", "O-3",
                       lm_doc_printf(d, _("%s, one of %u with this structure"), path, alike),
                       &(lm_explain_options){ .layer = i });
    }
    lm_doc_diagram(d, "heads", "O-31", _("Which query heads read which key/value heads"), NULL);
}

/* ---- preformatted text ---- */

static void verbatim(lm_document *d, lm_text *text)
{
    d->failed |= text->failed;
    lm_doc_verbatim(d, text->data ? text->data : "", text->size);
    lm_text_free(text);
}

static void write_table(lm_document *d, bool compatible)
{
    lm_text text = { 0 };

    lm_put_torchinfo(d->facts, 0, compatible, &text);
    d->failed |= text.failed;
    const char *rule  = text.data ? strrchr(text.data, '=') : NULL;
    /* the note below the last rule is prose, which wraps */
    size_t      table = rule ? (size_t)(rule + 2 - text.data) : text.size;
    lm_doc_verbatim(d, text.data ? text.data : "", table);
    if (table + 1 < text.size)
        lm_doc_notef(d, "%.*s", (int)(text.size - table - 1), text.data + table);
    lm_text_free(&text);
}

static void write_tree(lm_document *d)
{
    lm_text text = { 0 };

    lm_put_module_tree(d->facts, 0, &text);
    verbatim(d, &text);
}

static void write_torchinfo(lm_document *d)
{
    lm_doc_open(d, "torchinfo", "O-6", _("Shapes, parameters and multiply-adds of every module"));
    lm_doc_textf(d, P_(d->facts->s.tokens, "The table that torchinfo prints, for a pass of %u token.",
                       "The table that torchinfo prints, for a pass of %u tokens."), d->facts->s.tokens);
    if (d->facts->s.tokens > 1 && lm_facts_has(d->facts, "attention.heads"))
        lm_doc_text(d, _("Scores are counted as the products compute them: for every pair of tokens, those "
                         "behind the causal mask too. FLOPs of a token count only the pairs that it sees."));
    lm_doc_fold(d, "torchinfo-table", _("Each weight once, products of the whole pass, no backward pass"));
    write_table(d, false);
    lm_doc_close(d);
    lm_doc_fold(d, "torchinfo-compatible", _("As printed by torchinfo 1.8.0, including its over-counts"));
    lm_doc_warning(
        d,
        _("Here a tied head counts twice, products ignore the sequence length, look-ups count as products, "
          "and activations are doubled for a backward pass that is not run."));
    write_table(d, true);
    lm_doc_close(d);
    lm_doc_close(d);
}

void lm_chapter_structure(lm_document *d)
{
    lm_facts *f = d->facts;

    lm_doc_open(d, "structure", NULL, _("Structure"));
    lm_doc_open(d, "end-to-end", "O-29", _("From text to the next token"));
    lm_doc_diagram(d, "end-to-end", "O-29", NULL, NULL);
    lm_doc_close(d);
    lm_doc_open(d, "residual-stream", "O-30", _("The residual stream"));
    lm_doc_diagram(d, "residual", "O-30", NULL, NULL);
    lm_doc_drop_empty(d);
    lm_doc_open(d, "data-flow", "O-3", _("Data flow"));
    if (lm_facts_count(f, "architecture.kinds_of_layer") > 1)
        lm_doc_textf(d,
                     _("One layer of each of %" PRIu64
                       " kinds is shown, with skip connections and sums; there are "
                       "%" PRIu64 " layers."),
                     lm_facts_count(f, "architecture.kinds_of_layer"),
                     lm_facts_count(f, "architecture.layers"));
    else
        lm_doc_textf(d,
                     _("One layer is shown, with skip connections and sums; it repeats %" PRIu64 " times."),
                     lm_facts_count(f, "architecture.layers"));
    /* would fill several screens */
    bool several = lm_facts_count(f, "architecture.kinds_of_layer") > 1;
    if (several)
        lm_doc_fold(d, "flow-drawing", _("Drawing"));
    lm_doc_diagram(d, "flow", "O-3", NULL, NULL);
    if (several)
        lm_doc_drop_empty(d);
    lm_doc_close(d);
    lm_doc_open(d, "module-tree", "O-8", _("Module tree"));
    lm_doc_fold(d, "module-tree-lines", _("Every module"));
    write_tree(d);
    lm_doc_close(d);
    lm_doc_close(d);
    write_torchinfo(d);
    lm_doc_close(d);
}

/* forward.c - explain a forward pass with its values: what each operation of a layer computes for a text, up
 * to the next token. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/columns.h"
#include "base/error.h"
#include "base/jsontext.h"
#include "base/language.h"
#include "base/str.h"
#include "lamina/study/explain.h"
#include "program/op.h"
#include "study/models/forward.h"

enum { SHOWN = 6, LIKELIEST = LM_LIKELIEST };

const char *lm_forward_formula(const lm_node *n)
{
    const lm_op *op = lm_op_of(n->code);

    return n->weights[1] == LM_NONE && op->formula_without_bias ? op->formula_without_bias : op->formula;
}

typedef struct pass {
    const lm_model   *m;
    const lm_program *p;
    lm_engine        *g;
    const char      **probes;        /* [n_shown + 1] */
    uint32_t         *shown;         /* [n_shown]: indices of operations */
    uint32_t          n_shown;
    size_t            last;          /* the last token's row */
} pass;

/* Return the path that refers to this operation's value only; NULL: there is none. */
const char *lm_forward_path(const lm_program *p, uint32_t i)
{
    const lm_node *n = &p->nodes[i];

    if (lm_program_value(p, n->path) == n->out)
        return n->path;
    for (uint32_t m = 0; m < p->n_modules; m++)
        if (p->modules[m].out == n->out && lm_program_value(p, p->modules[m].path) == n->out)
            return p->modules[m].path;
    return NULL;
}

/* Select all values before the layers, in one layer, and after the layers. For the other layers, select their
 * output only. */
static lm_status choose(pass *x, uint32_t layer, lm_error *e)
{
    const lm_program *p = x->p;

    x->probes = lm_alloc_zero(p->n_nodes + 1, sizeof *x->probes);
    x->shown  = lm_alloc_zero(p->n_nodes + 1, sizeof *x->shown);
    if (!x->probes || !x->shown)
        return lm_fail_memory(e, "a forward pass", p->n_nodes);
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n   = &p->nodes[i];
        bool           end = n->layer >= 0 && (i + 1 == p->n_nodes || p->nodes[i + 1].layer != n->layer);
        const char *path = n->layer < 0 || n->layer == (int32_t)layer || end ? lm_forward_path(p, i) : NULL;
        if (!path || n->out == p->logits)
            continue;
        x->probes[x->n_shown]  = path;
        x->shown[x->n_shown++] = i;
    }
    return LM_OK;
}

static lm_status run(pass *x, const lm_token *ids, size_t n, lm_error *e)
{
    lm_engine_options o = lm_engine_defaults();
    lm_row           *rows = lm_alloc_zero(n, sizeof *rows);

    if (!rows)
        return lm_fail_memory(e, "a forward pass", n);
    for (size_t i = 0; i < n; i++)
        rows[i] = (lm_row){ .token = ids[i], .position = (uint32_t)i, .logits = i + 1 == n };
    o.context        = (uint32_t)n;
    o.max_rows           = (uint32_t)n;
    o.kv             = LM_KV_F32;
    o.compute        = LM_COMPUTE_F32;
    o.probes         = x->probes;
    x->last          = n - 1;
    lm_status status = lm_engine_new(x->m, &o, &x->g, e);
    if (status == LM_OK)
        status = lm_engine_step(x->g, rows, n, e);
    lm_free(rows);
    return status;
}

/* ---- output ---- */

void lm_find_likeliest(const float *logits, uint32_t n, lm_likely best[LIKELIEST])
{
    double max = -INFINITY, sum = 0;

    for (uint32_t k = 0; k < LIKELIEST; k++)
        best[k] = (lm_likely){ -1, -INFINITY };
    for (uint32_t i = 0; i < n; i++) {
        lm_likely now = { (lm_token)i, (double)logits[i] };
        max        = fmax(max, now.p);
        for (uint32_t k = 0; k < LIKELIEST; k++) {
            if (now.p > best[k].p) {
                lm_likely before = best[k];
                best[k]       = now;
                now           = before;
            }
        }
    }
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - max);
    for (uint32_t k = 0; k < LIKELIEST; k++)
        best[k].p = exp(best[k].p - max) / sum;
}

/* Set `text` to that of a token; nothing without a tokenizer. */
static void text_of(const pass *x, lm_token id, lm_text *text)
{
    const lm_tokenizer *t = lm_model_tokenizer(x->m);
    lm_error            e;

    if (t && id >= 0 && (uint32_t)id < lm_tokenizer_size(t))
        lm_detokenize(t, &id, 1, 0, text, &e);
}

/* Write a token as a JSON string, which shows spaces and line breaks. */
static void put_token(const pass *x, lm_token id, lm_text *out)
{
    lm_text piece = { 0 };

    text_of(x, id, &piece);
    lm_text_add_json(out, piece.data ? piece.data : "", piece.size);
    lm_text_free(&piece);
}

static void put_values(const pass *x, const char *path, const char *between, lm_text *out)
{
    uint32_t     width = 0;
    const float *v = lm_engine_probe(x->g, path, x->last, &width);

    for (uint32_t i = 0; v && i < width && i < SHOWN; i++)
        lm_text_printf(out, isfinite((double)v[i]) ? "%s%.6g" : "%snull", i ? between : "", (double)v[i]);
}

static json_t *token_json(const pass *x, lm_token id)
{
    lm_text piece = { 0 };

    text_of(x, id, &piece);
    json_t *o = json_pack("{s:i, s:o}", "id", id, "text",
                          lm_json_text(piece.data ? piece.data : "", piece.size));
    lm_text_free(&piece);
    return o;
}

static json_t *operation_json(const pass *x, uint32_t k, size_t n, bool *failed)
{
    const lm_node *node   = &x->p->nodes[x->shown[k]];
    json_t        *values = json_array();
    uint32_t       width  = 0;
    const float   *v      = lm_engine_probe(x->g, x->probes[k], x->last, &width);

    for (uint32_t i = 0; v && i < width && i < SHOWN; i++)
        *failed |= json_array_append_new(values, lm_json_rounded((double)v[i], 6)) != 0;
    return json_pack("{s:s, s:s, s:o, s:s, s:[I, I], s:o}", "path", x->probes[k], "operation",
                     lm_op_of(node->code)->name, "layer",
                     node->layer < 0 ? json_null() : json_integer(node->layer), "formula",
                     lm_forward_formula(node), "shape", (json_int_t)n,
                     (json_int_t)x->p->values[node->out].width, "values", values);
}

static void put_json(const pass *x, const lm_token *ids, size_t n, uint32_t layer, const lm_likely *best,
                     lm_text *out)
{
    json_t *tokens = json_array(), *operations = json_array(), *likeliest = json_array();
    bool    failed = false;

    for (size_t i = 0; i < n; i++)
        failed |= json_array_append_new(tokens, token_json(x, ids[i])) != 0;
    for (uint32_t k = 0; k < x->n_shown; k++)
        failed |= json_array_append_new(operations, operation_json(x, k, n, &failed)) != 0;
    for (uint32_t k = 0; k < LIKELIEST && best[k].id >= 0; k++) {
        json_t *o = token_json(x, best[k].id);
        failed |= json_object_set_new(o, "probability", lm_json_rounded(best[k].p, 9)) != 0;
        failed |= json_array_append_new(likeliest, o) != 0;
    }
    lm_forward_print(json_pack("{s:o, s:I, s:o, s:o, s:o}", "model",
                               lm_json_text(x->m->name, strlen(x->m->name)), "layer", (json_int_t)layer,
                               "tokens", tokens, "operations", operations, "likeliest", likeliest),
                     failed, out);
}

void lm_forward_print(json_t *document, bool failed, lm_text *out)
{
    if (!document || failed || !lm_json_print(document, JSON_INDENT(2), out))
        out->failed = true;
    lm_text_add_char(out, '\n');
    json_decref(document);
}

static void put_text(const pass *x, const lm_token *ids, size_t n, uint32_t layer, const lm_likely *best,
                     bool markdown, lm_text *out)
{
    const char *bar = markdown ? "| " : "", *next = markdown ? " | " : "  ", *end = markdown ? " |\n" : "\n";

    lm_text_add_str(out, markdown ? "# " : "");
    lm_text_printf(out, _("%s: a forward pass"), x->m->name);
    lm_text_add_str(out, "\n\n");
    lm_text_printf(out, P_(n, "%zu token:", "%zu tokens:"), n);
    for (size_t i = 0; i < n; i++) {
        lm_text_printf(out, " %d ", ids[i]);
        put_token(x, ids[i], out);
    }
    lm_text_add_char(out, '\n');
    lm_text_printf(out, _("Layer %u is shown completely, every other layer by its output. "
                          "Values are the first %u of the last token, in float32."), layer, SHOWN);
    lm_text_add_str(out, "\n\n");
    if (markdown)
        lm_text_printf(out, "| %s | %s | %s | %s |\n| --- | --- | --- | --- |\n", _("operation"),
                       _("formula"), _("shape"), _("values"));
    for (uint32_t k = 0; k < x->n_shown; k++) {
        const lm_node *node = &x->p->nodes[x->shown[k]];
        lm_text_add_str(out, bar);
        lm_text_add_cell(out, x->probes[k], markdown ? (unsigned)strlen(x->probes[k]) : 44);
        lm_text_add_str(out, next);
        lm_text_add_cell(out, _(lm_forward_formula(node)), 38);
        lm_text_printf(out, "%s[%zu, %u]%s", next, n, x->p->values[node->out].width, next);
        put_values(x, x->probes[k], " ", out);
        lm_text_printf(out, " …%s", end);
    }
    lm_text_add_char(out, '\n');
    lm_text_printf(out, _("logits [%u] → softmax → the most probable next tokens:"), x->p->n_vocab);
    lm_text_add_str(out, "\n\n");
    for (uint32_t k = 0; k < LIKELIEST && best[k].id >= 0; k++) {
        lm_text_printf(out, "%s%7.3f %%  %8d  ", markdown ? "- " : "  ", 100 * best[k].p, best[k].id);
        put_token(x, best[k].id, out);
        lm_text_printf(out, k ? "\n" : "   %s\n", _("chosen by greedy sampling"));
    }
}

lm_status lm_forward_form(lm_form form, lm_error *e)
{
    if (form != LM_FORM_TEXT && form != LM_FORM_MARKDOWN && form != LM_FORM_JSON)
        return lm_fail(e, LM_USAGE, "a forward pass", LM_NO_OFFSET,
                       "has no such form; text, Markdown and JSON are there");
    return LM_OK;
}

static lm_status check(const lm_model *m, const lm_token *ids, size_t n, uint32_t layer, lm_form form,
                       lm_error *e)
{
    if (!m->container)
        return lm_fail(e, LM_USAGE, m->name, LM_NO_OFFSET,
                       "has no weights: a forward pass with numbers requires a model file or folder");
    if (!n || n > 512)
        return lm_fail(e, LM_USAGE, "the text", LM_NO_OFFSET, "has %zu tokens; from 1 to 512 can be shown",
                       n);
    if (layer >= m->program->n_layers)
        return lm_fail(e, LM_USAGE, m->name, LM_NO_OFFSET,
                       "has %u layers, counted from 0; there is no layer %u", m->program->n_layers, layer);
    LM_TRY(lm_forward_form(form, e));
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= m->program->n_vocab)
            return lm_fail(e, LM_USAGE, m->name, LM_NO_OFFSET, "has no token %d", ids[i]);
    return LM_OK;
}

lm_status lm_explain_forward(const lm_model *m, const lm_token *ids, size_t n, const lm_explain_options *o,
                             lm_text *out, lm_error *e)
{
    lm_explain_options given = o ? *o : lm_explain_defaults();
    lm_form            form  = given.form;
    uint32_t           layer = given.layer;

    LM_REQUIRE(e, m && ids && out);
    LM_TRY(check(m, ids, n, layer, form, e));
    pass      x    = { .m = m, .p = m->program };
    lm_text   text = { 0 };
    lm_likely best[LIKELIEST];
    lm_status status = choose(&x, layer, e);

    if (status == LM_OK)
        status = run(&x, ids, n, e);
    if (status == LM_OK) {
        lm_language before = lm_language_set(given.language);
        lm_find_likeliest(lm_engine_logits(x.g, x.last), m->program->n_vocab, best);
        if (form == LM_FORM_JSON)
            put_json(&x, ids, n, layer, best, &text);
        else
            put_text(&x, ids, n, layer, best, form == LM_FORM_MARKDOWN, &text);
        lm_language_set(before);
    }
    lm_engine_free(x.g);
    lm_free(x.probes);
    lm_free(x.shown);
    return lm_text_deliver(&text, status, "a forward pass", out, e);
}

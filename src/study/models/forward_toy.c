/* forward_toy.c - show a forward pass completely: every weight and every value of a very small model. */
#include <math.h>
#include <string.h>

#include "study/models/forward.h"
#include "program/op.h"
#include "study/models/toy.h"
#include "base/alloc.h"
#include "base/columns.h"
#include "base/error.h"
#include "base/jsontext.h"
#include "base/language.h"
#include "lamina/study/explain.h"

enum { MAX_WORDS = 8, FIRST_ID = 3 };       /* 0 to 2 are its special tokens */

typedef struct showing {
    const char       *name;              /* of the preset */
    lm_model         *m;
    const lm_program *p;
    lm_engine        *g;
    const char       *words[MAX_WORDS]; /* pointers into `text` */
    size_t            sizes[MAX_WORDS];
    lm_token          ids[MAX_WORDS];
    size_t            n;
    const char      **probes;
    bool             *shown;             /* [n_weights]: shown already */
    lm_text          *out;
} showing;

/* ---- words, numbered in order of appearance ---- */

static lm_status read_words(showing *x, const char *text, lm_error *e)
{
    lm_token next = FIRST_ID;

    for (const char *at = text; *(at += strspn(at, " \t\r\n"));) {
        size_t size = strcspn(at, " \t\r\n"), same = 0;
        if (x->n == MAX_WORDS)
            return lm_fail(e, LM_USAGE, "the text", LM_NO_OFFSET,
                           "has more than %d words, which is what can be shown whole", MAX_WORDS);
        while (same < x->n && (x->sizes[same] != size || memcmp(x->words[same], at, size) != 0))
            same++;
        x->words[x->n] = at;
        x->sizes[x->n] = size;
        x->ids[x->n]   = same < x->n ? x->ids[same] : next++;
        x->n++;
        at += size;
    }
    return x->n ? LM_OK : lm_fail(e, LM_USAGE, "the text", LM_NO_OFFSET, "has no words");
}

static lm_status run(showing *x, lm_error *e)
{
    lm_engine_options o = lm_engine_defaults();
    lm_row            rows[MAX_WORDS];
    uint32_t          n = 0;

    x->probes = lm_alloc_zero(x->p->n_nodes + 1, sizeof *x->probes);
    x->shown  = lm_alloc_zero(x->p->n_weights + 1, sizeof *x->shown);
    if (!x->probes || !x->shown)
        return lm_fail_memory(e, "a forward pass", x->p->n_nodes);
    for (uint32_t i = 0; i < x->p->n_nodes; i++) {
        const char *path = x->p->nodes[i].out == x->p->logits ? NULL : lm_forward_path(x->p, i);
        if (path)
            x->probes[n++] = path;
    }
    for (size_t i = 0; i < x->n; i++)
        rows[i] = (lm_row){ .token = x->ids[i], .position = (uint32_t)i, .logits = i + 1 == x->n };
    o.context = o.max_rows = (uint32_t)x->n;
    o.kv      = LM_KV_F32;
    o.compute = LM_COMPUTE_F32;
    o.probes  = x->probes;
    LM_TRY(lm_engine_new(x->m, &o, &x->g, e));
    return lm_engine_step(x->g, rows, x->n, e);
}

/* ---- matrices ---- */

static void put_numbers(const float *v, uint64_t n, lm_text *out)
{
    for (uint64_t i = 0; i < n; i++)
        lm_text_printf(out, " %7.3f", (double)v[i]);
    lm_text_add_char(out, '\n');
}

static float *unpacked(const showing *x, uint32_t w)
{
    const lm_tensor_info *t = x->m->tensors ? x->m->tensors[w] : NULL;
    float                *v = t ? lm_alloc(t->elements * sizeof *v) : NULL;

    if (v)
        lm_container_unpack(x->m->container, t, 0, t->elements, v);
    return v;
}

/* Write a weight when an operation first uses it: as stored, one row per line; of several experts, the
 * first. */
static void put_weight(showing *x, uint32_t w)
{
    const lm_weight *weight = &x->p->weights[w];
    float           *v;

    if (x->shown[w]) {
        lm_text_add_str(x->out, "    ");
        lm_text_printf(x->out, _("%s: as above"), weight->path);
        lm_text_add_char(x->out, '\n');
        return;
    }
    x->shown[w] = true;
    if (!(v = unpacked(x, w)))
        return;
    uint64_t columns = weight->dims[weight->n_dims - 1], all = x->m->tensors[w]->elements,
             rows = all / columns;
    lm_text_printf(x->out, "    %s  [%llu, %llu]%s\n", weight->path, (unsigned long long)rows,
                   (unsigned long long)columns, x->m->each[w] ? _(", of the first expert") : "");
    for (uint64_t r = 0; r < rows; r++) {
        lm_text_add_str(x->out, "     ");
        put_numbers(v + r * columns, columns, x->out);
    }
    lm_free(v);
}

static void put_values(const showing *x, const char *path)
{
    for (size_t row = 0; row < x->n; row++) {
        uint32_t     width = 0;
        const float *v = lm_engine_probe(x->g, path, row, &width);
        lm_text      word = { 0 };
        lm_text_printf(&word, "%.*s", (int)x->sizes[row], x->words[row]);
        lm_text_add_str(x->out, "    ");
        lm_text_add_cell(x->out, word.data ? word.data : "", 8);
        if (v)
            put_numbers(v, width, x->out);
        lm_text_free(&word);
    }
}

static void put_operations(showing *x)
{
    int32_t layer = -2;

    for (uint32_t i = 0; i < x->p->n_nodes; i++) {
        const lm_node *node = &x->p->nodes[i];
        const char    *path = node->out == x->p->logits ? NULL : lm_forward_path(x->p, i);
        if (node->layer != layer && node->layer >= 0) {
            lm_text_add_str(x->out, "\n---- ");
            lm_text_printf(x->out, _("layer %d"), node->layer);
            lm_text_add_str(x->out, " ----\n");
        }
        layer = node->layer;
        lm_text_printf(x->out, "\n%s  =  %s   [%zu, %u]\n", path ? path : node->path,
                       _(lm_forward_formula(node)), x->n, x->p->values[node->out].width);
        for (uint32_t w = 0; w < LM_MAX_WEIGHTS; w++)
            if (node->weights[w] != LM_NONE && node->weights[w] < x->p->n_weights)
                put_weight(x, node->weights[w]);
        if (path)
            put_values(x, path);
    }
}

static void put_end(const showing *x)
{
    lm_likely    best[LM_LIKELIEST];
    const float *logits = lm_engine_logits(x->g, x->n - 1);

    lm_text_printf(x->out, "\n%s\n         ", _("logits of the last token"));
    put_numbers(logits, x->p->n_vocab, x->out);
    lm_find_likeliest(logits, x->p->n_vocab, best);
    lm_text_add_char(x->out, '\n');
    lm_text_printf(x->out, _("softmax: the most probable of its %u tokens"), x->p->n_vocab);
    lm_text_add_char(x->out, '\n');
    for (uint32_t k = 0; k < LM_LIKELIEST && best[k].id >= 0; k++) {
        size_t word = 0;
        while (word < x->n && x->ids[word] != best[k].id)
            word++;
        lm_text_printf(x->out, "    %7.3f %%  id %d", 100 * best[k].p, best[k].id);
        if (word < x->n)
            lm_text_printf(x->out, "  \"%.*s\"", (int)x->sizes[word], x->words[word]);
        lm_text_printf(x->out, k ? "\n" : "   %s\n", _("chosen by greedy sampling"));
    }
}

static void put_page(showing *x, bool markdown)
{
    lm_text_add_str(x->out, markdown ? "# " : "");
    lm_text_printf(x->out, _("A toy of the form of %s"), x->name);
    lm_text_add_str(x->out, "\n\n");
    lm_text_printf(
        x->out,
        _("The same operations with sizes that can be shown completely: %u layers, width %u, vocabulary %u."),
        x->p->n_layers, x->p->values[x->p->nodes[0].out].width, x->p->n_vocab);
    lm_text_printf(x->out, "\n%s\n\n", _("Its weights are random, so its output has no meaning; "
                                          "every value is computed exactly as in the model."));
    for (size_t i = 0; i < x->n; i++) {
        lm_text_add_str(x->out, i ? "; " : "");
        lm_text_printf(x->out, _("%.*s = id %d at position %zu"), (int)x->sizes[i], x->words[i], x->ids[i],
                       i);
    }
    lm_text_add_str(x->out, markdown ? "\n\n```text\n" : "\n");
    put_operations(x);
    put_end(x);
    if (markdown)
        lm_text_add_str(x->out, "```\n");
}

/* ---- data: all values ---- */

static json_t *row_json(const float *v, uint32_t n, bool *failed)
{
    json_t *row = json_array();

    for (uint32_t i = 0; v && i < n; i++)
        *failed |= json_array_append_new(row, lm_json_rounded((double)v[i], 9)) != 0;
    return row;
}

static json_t *operation_json(const showing *x, const lm_node *node, const char *path, bool *failed)
{
    json_t *values = json_array();

    for (size_t row = 0; row < x->n; row++) {
        uint32_t     width = 0;
        const float *v     = lm_engine_probe(x->g, path, row, &width);
        *failed |= json_array_append_new(values, row_json(v, width, failed)) != 0;
    }
    return json_pack("{s:s, s:s, s:s, s:o}", "path", path, "operation", lm_op_of(node->code)->name, "formula",
                     lm_forward_formula(node), "values", values);
}

static void put_json(const showing *x)
{
    json_t *tokens = json_array(), *operations = json_array(), *logits;
    bool    failed = false;

    for (size_t i = 0; i < x->n; i++)
        failed |= json_array_append_new(tokens, json_pack("{s:i, s:o}", "id", x->ids[i], "text",
                                                          lm_json_text(x->words[i], x->sizes[i]))) != 0;
    for (uint32_t i = 0; i < x->p->n_nodes; i++) {
        const lm_node *node = &x->p->nodes[i];
        const char    *path = node->out == x->p->logits ? NULL : lm_forward_path(x->p, i);
        if (path)
            failed |= json_array_append_new(operations, operation_json(x, node, path, &failed)) != 0;
    }
    logits = row_json(lm_engine_logits(x->g, x->n - 1), x->p->n_vocab, &failed);
    lm_forward_print(json_pack("{s:o, s:o, s:o, s:o}", "toy_of", lm_json_text(x->name, strlen(x->name)),
                               "tokens", tokens, "operations", operations, "logits", logits),
                     failed, x->out);
}

bool lm_explain_needs_toy(const lm_model *m)
{
    return m && m->preset && !m->container;
}

lm_status lm_explain_toy(const lm_model *preset, const lm_explain_options *o, lm_text *out, lm_error *e)
{
    lm_explain_options given = o ? *o : lm_explain_defaults();
    lm_toy             toy;
    lm_text            page = { 0 };
    showing            x    = { .out = &page };

    LM_REQUIRE(e, preset && out);
    LM_TRY(lm_forward_form(given.form, e));
    LM_TRY(read_words(&x, given.text ? given.text : "The cat sat", e));
    lm_status status = lm_toy_new(preset, &toy, e);
    if (status == LM_OK) {
        x.name = preset->name;
        x.m = toy.model;
        x.p = toy.model->program;
        status = run(&x, e);
    }
    lm_language before = lm_language_set(given.language);
    if (status == LM_OK && given.form == LM_FORM_JSON)
        put_json(&x);
    else if (status == LM_OK)
        put_page(&x, given.form == LM_FORM_MARKDOWN);
    lm_language_set(before);
    lm_engine_free(x.g);
    lm_free(x.probes);
    lm_free(x.shown);
    lm_toy_free(&toy);
    return lm_text_deliver(&page, status, "a forward pass", out, e);
}

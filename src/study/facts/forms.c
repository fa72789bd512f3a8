/* forms.c - write formulas by following values backward from a sum to its terms. */
#include "study/facts/forms.h"

#include <stdio.h>
#include <string.h>

#include "program/op.h"
#include "study/facts/fact.h"

const lm_form_words lm_plain_words = {
    .token = "W_E[t]", .position = "W_P[pos]", .sine = "PE(pos)", .norm = "Norm", .first_norm = "Norm", .attention = "Attn",
    .state = "Mix", .inputs = "Inputs",
    .mlp = "MLP", .tied = "W_E", .head = "W_head", .final = "h", .bias = " + b", .times = " ", .tanh = "tanh",
    .factor = "lambda",
};

typedef struct form {
    const lm_ledger     *l;
    const lm_form_words *w;
    lm_value             stream;
    const char          *name;
    lm_text              *out;
} form;

static uint32_t maker(const lm_ledger *l, lm_value v)
{
    return l->program->values[v].producer;
}

/* Return whether `v` is the residual stream, or a norm of it. */
static bool is_stream(const lm_ledger *l, int32_t layer, lm_value v)
{
    const lm_node *n = &l->program->nodes[maker(l, v)];

    while (n->layer == layer && lm_is_norm(n))
        n = &l->program->nodes[maker(l, n->in[0])];
    return n->layer != layer || lm_is_residual(l, (uint32_t)(n - l->program->nodes));
}

/* ---- layer, and what precedes the first ---- */

static void put(const form *f, lm_value v, bool in_product);

static void put_of(const form *f, const char *name, lm_value v)
{
    lm_text_printf(f->out, "%s(", name);
    put(f, v, false);
    lm_text_add_str(f->out, ")");
}

/* Append a module's name, such as "project_in"; in LaTeX as \text with the underscore escaped. */
static void put_module(const form *f, uint32_t m)
{
    if (f->w->within)
        lm_text_add_str(f->out, "\\text{");
    for (const char *c = f->l->program->modules[m].name; *c; c++) {
        if (*c == '_' && f->w->within)
            lm_text_add_str(f->out, f->w->within);
        else
            lm_text_add_char(f->out, *c);
    }
    if (f->w->within)
        lm_text_add_str(f->out, "}");
}

/* Return the ordinal of the norm at `at` among the norms of the stream in its layer; `all`: their number. */
static uint32_t number_of_norm(const lm_ledger *l, uint32_t at, uint32_t *all)
{
    const lm_program *p = l->program;
    uint32_t          n = 0;

    *all = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        uint32_t b = l->block[i];
        bool     mine = p->nodes[i].layer == p->nodes[at].layer && lm_is_norm(&p->nodes[i]) && b != LM_NONE &&
                        p->modules[b].end_op == p->modules[b].first_op + 1;
        *all += mine;
        n += mine && i <= at;
    }
    return n;
}

static void put_norm(const form *f, uint32_t i)
{
    const lm_node *n = &f->l->program->nodes[i];
    char           name[48];
    uint32_t       all, which = n->layer < 0 ? 0 : number_of_norm(f->l, i, &all);

    snprintf(name, sizeof name, "%s", n->layer < 0 ? f->w->first_norm : f->w->norm);
    if (which && which < 10 && f->w->nth_norm && all > 1)
        snprintf(name, sizeof name, f->w->nth_norm, f->w->digits[which]);
    put_of(f, name, n->in[0]);
}

static void put_sum(const form *f, const lm_node *n, bool in_product)
{
    if (in_product)
        lm_text_add_str(f->out, "(");
    put(f, n->in[0], false);
    lm_text_add_str(f->out, " + ");
    put(f, n->in[1], false);
    if (in_product)
        lm_text_add_str(f->out, ")");
}

/* Return whether `v` is a part of what was looked up for all layers before the first one. */
static bool is_input(const lm_ledger *l, lm_value v)
{
    const lm_node *n = &l->program->nodes[maker(l, v)];

    return n->code == LM_OP_COLUMNS && l->program->nodes[maker(l, n->in[0])].layer < 0;
}

/* Append attention, an MLP of any form, or a part with a state, as a function of the value it reads
 * from the stream. */
static void put_part(const form *f, lm_value v, int32_t layer)
{
    const lm_program *p = f->l->program;
    uint32_t          block = f->l->block[maker(f->l, v)];
    bool              attends = block != LM_NONE && f->l->attends[block];     /* also behind a gate */
    bool              carries = block != LM_NONE && f->l->carries[block], looks = false;
    const lm_node    *sum = &p->nodes[maker(f->l, v)];
    bool              norms = sum->code == LM_OP_ADD && lm_is_norm(&p->nodes[maker(f->l, sum->in[0])]);

    while (!is_stream(f->l, layer, v)) {
        const lm_node *n = &p->nodes[maker(f->l, v)];
        if (n->code == LM_OP_SCALE && f->l->block[maker(f->l, v)] != block)
            break;                       /* a factor of what the part reads */
        attends |= n->code == LM_OP_ATTENTION;
        looks |= n->code == LM_OP_GLU && is_input(f->l, n->in[1]);
        v = n->in[0];
    }
    while (norms && lm_is_norm(&p->nodes[maker(f->l, v)]) && p->nodes[maker(f->l, v)].layer == layer)
        v = p->nodes[maker(f->l, v)].in[0];                  /* each of its branches has a norm of its own */
    put_of(f, attends ? f->w->attention : carries ? f->w->state : looks ? f->w->inputs : f->w->mlp, v);
}

/* Append the operation's form with `x` for its input. */
static void put_form(const lm_node *n, const char *x, lm_text *out)
{
    for (const char *c = lm_op_of(n->code)->form; *c; c++) {
        size_t length = strcspn(c, "}");
        if (*c != '{') {
            lm_text_add_char(out, *c);
            continue;
        }
        if (strncmp(c, "{x}", 3) == 0)
            lm_text_add_str(out, x);
        else
            lm_op_put_number(n, c + 1, length - 1, 6, out);
        c += length;
    }
}

static void put(const form *f, lm_value v, bool in_product)
{
    const lm_program *p = f->l->program;
    uint32_t          i = maker(f->l, v);
    const lm_node    *n = &p->nodes[i];

    if (v == f->stream) {
        lm_text_add_str(f->out, f->name);
        return;
    }
    switch (n->code) {
    case LM_OP_EMBED:
        lm_text_add_str(f->out, f->w->token);
        break;
    case LM_OP_POSITION:
        lm_text_add_str(f->out, f->w->position);
        break;
    case LM_OP_SINUSOID:
        lm_text_add_str(f->out, f->w->sine);
        break;
    case LM_OP_RMS_NORM:
    case LM_OP_LAYER_NORM:
        put_norm(f, i);
        break;
    case LM_OP_SCALE:
        lm_text_printf(f->out, "%g%s", lm_decimal(n->scale.factor), f->w->times);
        put(f, n->in[0], true);
        break;
    case LM_OP_SCALE_BY_WEIGHT:
        lm_text_printf(f->out, "%s%s", f->w->factor, f->w->times);
        put(f, n->in[0], true);
        break;
    case LM_OP_ADD:
        if (n->layer < 0 || lm_is_residual(f->l, i))
            put_sum(f, n, in_product);
        else
            put_part(f, v, n->layer);
        break;
    default:
        if (lm_op_of(n->code)->form) {
            lm_text x = { 0 };
            put(&(form){ f->l, f->w, f->stream, f->name, &x }, n->in[0], false);
            put_form(n, x.data ? x.data : "", f->out);
            f->out->failed |= x.failed;
            lm_text_free(&x);
        } else if (n->layer >= 0) {
            put_part(f, v, n->layer);
        } else {
            put_module(f, n->module);
            put_of(f, "", n->in[0]);
        }
        break;
    }
}

void lm_put_form(const lm_ledger *l, const lm_form_words *w, lm_value v, lm_value stream, const char *name,
                 lm_text *out)
{
    put(&(form){ l, w, stream, name, out }, v, false);
}

uint32_t lm_streams_of(const lm_ledger *l, uint32_t layer, lm_value out[LM_MAX_STREAMS])
{
    const lm_program *p = l->program;
    const lm_module  *m = &p->modules[l->layer[layer]];
    lm_value          last = m->out != LM_NONE ? m->out : p->nodes[m->end_op - 1].out;
    uint32_t          n = 0, sums = 0;

    out[n++] = m->in;
    for (uint32_t i = m->first_op; i < m->end_op; i++) {
        if (!lm_is_residual(l, i) || !sums++ || n + 1 == LM_MAX_STREAMS)
            continue;
        for (uint32_t k = 0; k < 2; k++)                     /* the input of the second sum */
            if (lm_added_by(l, i, k) == LM_NONE)
                out[n++] = p->nodes[i].in[k];
    }
    /* Parallel layout: the second part reads the input of the layer. */
    for (uint32_t i = m->first_op; n == 2 && i < m->end_op; i++)
        for (uint32_t k = 0; i > maker(l, out[1]) && k < p->nodes[i].n_in; k++) {
            lm_value v = p->nodes[i].in[k];
            while (lm_is_norm(&p->nodes[maker(l, v)]) && p->nodes[maker(l, v)].layer == (int32_t)layer &&
                   v != out[1])
                v = p->nodes[maker(l, v)].in[0];
            n = v == m->in ? 1 : n;
        }
    out[n++] = last;
    return n;
}

/* ---- logits ---- */

static void put_logits(const form *f, lm_value v)
{
    const lm_program *p = f->l->program;
    uint32_t          i = maker(f->l, v);
    const lm_node    *n = &p->nodes[i];
    bool              tied;

    switch (n->code) {
    case LM_OP_SOFTCAP:
        lm_text_printf(f->out, "%g%s%s(", lm_decimal(n->scale.factor), f->w->times, f->w->tanh);
        put_logits(f, n->in[0]);
        lm_text_printf(f->out, " / %g)", lm_decimal(n->scale.factor));
        break;
    case LM_OP_SCALE:
        lm_text_printf(f->out, "%g%s", lm_decimal(n->scale.factor), f->w->times);
        put_logits(f, n->in[0]);
        break;
    case LM_OP_LINEAR:
        tied = i == f->l->head && f->l->reader[n->weights[0]] != i;
        if (i != f->l->head)
            put_module(f, n->module);
        lm_text_printf(f->out, "%s%s",
                       i != f->l->head ? ""
                       : tied          ? f->w->tied
                                       : f->w->head,
                       i != f->l->head ? "(" : f->w->times);
        put_logits(f, n->in[0]);
        lm_text_add_str(f->out, i != f->l->head ? ")" : n->weights[1] != LM_NONE ? f->w->bias : "");
        break;
    default:
        lm_text_add_str(f->out, f->w->final);
        break;
    }
}

void lm_put_head_form(const lm_ledger *l, const lm_form_words *w, lm_text *out)
{
    put_logits(&(form){ l, w, LM_NONE, "", out }, l->program->logits);
}

/* ---- projections ---- */

/* Append one operation applied to `of`. */
static bool put_step(const lm_node *n, char letter, const char *of, lm_text *out)
{
    double factor = n->code == LM_OP_SCALE ? lm_decimal(n->scale.factor) : 0;

    switch (n->code) {
    case LM_OP_LINEAR:
        lm_text_printf(out, strlen(of) > 1 ? "W_%c (%s)" : "W_%c %s", letter, of);
        if (n->weights[1] != LM_NONE)
            lm_text_printf(out, " + b_%c", letter);
        return true;
    case LM_OP_SCALE:
        lm_text_printf(out, strlen(of) > 1 ? "%g (%s)" : "%g %s", factor, of);
        return true;
    case LM_OP_RMS_NORM:
    case LM_OP_LAYER_NORM:
        lm_text_printf(out, "Norm(%s)", of);
        return true;
    default:
        if (lm_op_of(n->code)->form)
            put_form(n, of, out);
        return lm_op_of(n->code)->form;
    }
}

static bool put_made(const lm_ledger *l, lm_value v, int32_t layer, char letter, lm_text *out)
{
    const lm_node *n = &l->program->nodes[maker(l, v)];
    lm_text         inner = { 0 };
    bool           good;

    /* values from a latent */
    bool           heads = n->code == LM_OP_ATTENTION || (letter == 'O' && n->code == LM_OP_HEAD_LINEAR);
    if (heads || n->layer != layer || is_stream(l, layer, v)) {
        lm_text_add_str(out, heads ? "a" : "x");
        return true;
    }
    good = n->code != LM_OP_JOIN && n->code != LM_OP_HEAD_LINEAR && n->n_in == 1 &&
           put_made(l, n->in[0], layer, letter, &inner);
    const char *of = inner.data ? inner.data : "";
    good &= put_step(n, letter, of, out);
    good &= !inner.failed && !out->failed;
    lm_text_free(&inner);
    return good;
}

bool lm_put_projection(const lm_ledger *l, const lm_node *attention, uint32_t which, lm_text *out)
{
    const lm_program *p = l->program;
    size_t            from = out->size;
    lm_value          v = LM_NONE;

    if (which < 3)
        v = which < attention->n_in ? attention->in[which] : LM_NONE;
    for (uint32_t i = (uint32_t)(attention - p->nodes);
         which == 3 && v == LM_NONE && p->nodes[i].layer == attention->layer; i++)
        v = l->roles[i] & LM_PRODUCT_OUTPUT ? p->nodes[i].out : LM_NONE;
    if (v != LM_NONE && put_made(l, v, attention->layer, "QKVO"[which], out))
        return true;
    out->size = from;
    if (out->data)
        out->data[from] = '\0';
    return false;
}

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
    .factor = "lambda", .sum = "sum ", .from = "[j >= %u] ", .last = "h",
};

typedef struct form {
    const lm_ledger     *l;
    const lm_form_words *w;
    const lm_value      *known;
    const char *const   *names;
    uint32_t             n_known;
    lm_text              *out;
} form;

static uint32_t maker(const lm_ledger *l, lm_value v)
{
    return l->program->values[v].producer;
}

/* Return whether an operation is in a module beside attention and MLP. */
static bool is_aside(const lm_ledger *l, uint32_t i)
{
    return lm_has_several(l->program, l->block[i]) && !l->acts[l->block[i]];
}

/* Return whether an operation takes one of several streams. */
static bool takes_stream(const lm_ledger *l, const lm_node *n)
{
    return n->code == LM_OP_BLEND ||
           (n->code == LM_OP_COLUMNS && (l->program->nodes[maker(l, n->in[0])].code == LM_OP_MIX ||
                                         lm_is_apart(l->program, l->block[n - l->program->nodes])));
}

/* Return whether `v` is the residual stream, a multiple of it, or a norm of that. */
static bool is_stream(const lm_ledger *l, int32_t layer, lm_value v)
{
    const lm_node *n = &l->program->nodes[maker(l, v)];

    while (n->layer == layer && lm_is_norm(n))
        n = &l->program->nodes[maker(l, n->in[0])];
    if (n->layer == layer && n->code == LM_OP_SCALE && lm_is_residual(l, maker(l, n->in[0])))
        n = &l->program->nodes[maker(l, n->in[0])];
    uint32_t i = (uint32_t)(n - l->program->nodes);
    return n->layer != layer || lm_is_residual(l, i) || takes_stream(l, n) ||
           lm_is_apart(l->program, l->block[i]);
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
                        !lm_has_several(p, b);
        *all += mine;
        n += mine && i <= at;
    }
    return n;
}

/* Append the name of a function. */
static void put_function(const form *f, const char *name)
{
    lm_text_printf(f->out, f->w->within ? "\\mathrm{%s}" : "%s", name);
}

/* Append streams with what a part adds to them, what a part reads of them, or one value as all of them. */
static void put_connected(const form *f, const lm_node *n)
{
    put_function(f, n->code == LM_OP_MERGE   ? "Merge"
                    : n->code == LM_OP_BLEND ? "Blend"
                                             : "Repeat");
    lm_text_add_char(f->out, '(');
    put(f, n->in[0], false);
    if (n->code == LM_OP_MERGE) {
        lm_text_add_str(f->out, ", ");
        put(f, n->in[1], false);
    }
    lm_text_add_char(f->out, ')');
}

/* Append streams of a value, by their numbers from 0. */
static void put_streams(const form *f, const lm_node *n)
{
    const lm_program *p    = f->l->program;
    const lm_node    *made = &p->nodes[maker(f->l, n->in[0])];
    uint32_t          wide = p->values[n->out].width, each = wide;

    if (made->code == LM_OP_MIX)
        each = p->values[made->out].width / made->mix.streams;
    put(f, n->in[0], true);
    lm_text_printf(f->out, wide > each ? "[%u:]" : "[%u]", n->columns.offset / each);
}

/* Append streams that are predicted, corrected, or to which something is added. */
static void put_mix(const form *f, const lm_node *n, bool in_product)
{
    const lm_program *p     = f->l->program;
    bool              weigh = n->n_in > 2, predicts = weigh && n->in[0] == n->in[1];

    if (weigh) {
        put_function(f, predicts ? "Predict" : "Correct");
        lm_text_add_char(f->out, '(');
        put(f, n->in[0], false);
        if (!predicts) {
            lm_text_add_str(f->out, ", ");
            put(f, p->nodes[maker(f->l, n->in[1])].in[0], false);
        }
        lm_text_add_char(f->out, ')');
        return;
    }
    lm_text_add_str(f->out, in_product ? "(" : "");
    put(f, n->in[0], false);
    lm_text_add_str(f->out, " + ");
    if (n->mix.first)
        lm_text_printf(f->out, f->w->from, n->mix.first);
    if (n->mix.streams == 1)
        lm_text_add_str(f->out, f->w->sum);
    put(f, n->in[1], true);
    lm_text_add_str(f->out, in_product ? ")" : "");
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

/* Append a product with a matrix, or a list of them, named after the last word of its module's name. */
static void put_product(const form *f, const lm_node *n)
{
    const char *name = f->l->program->modules[n->module].name, *list = strstr(name, "_projections");
    size_t      end = list ? (size_t)(list - name) : strlen(name), from = end;

    while (from > 0 && name[from - 1] != '_')
        from--;
    lm_text_printf(f->out, f->w->within ? "W_{%.*s} \\, " : "W_%.*s ", (int)(end - from), name + from);
    put_of(f, "", n->in[0]);
}

/* Append what a module beside attention and MLP computes: a function of what it reads; each operation if they
 * do not follow one another. */
static void put_aside(const form *f, uint32_t i)
{
    const lm_program *p = f->l->program;
    const lm_node    *n = &p->nodes[i];

    if (!lm_is_apart(p, f->l->block[i])) {
        put_function(f, "Low");
        put_of(f, "", p->modules[f->l->block[i]].in);
    } else if (n->code == LM_OP_ACT) {
        put_of(f, lm_act_word(n->glu.act), n->in[0]);
    } else {
        put_product(f, n);
    }
}

static void put(const form *f, lm_value v, bool in_product)
{
    const lm_program *p = f->l->program;
    uint32_t          i = maker(f->l, v);
    const lm_node    *n = &p->nodes[i];

    for (uint32_t k = f->n_known; k-- > 0;)
        if (v == f->known[k]) {
            lm_text_add_str(f->out, f->names[k]);
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
        else if (is_aside(f->l, i))
            put_aside(f, i);
        else
            put_part(f, v, n->layer);
        break;
    case LM_OP_MIX:
        put_mix(f, n, in_product);
        break;
    case LM_OP_REPEAT:
    case LM_OP_BLEND:
    case LM_OP_MERGE:
        put_connected(f, n);
        break;
    case LM_OP_MATCH:
        put_function(f, "Match");
        put_of(f, "", n->in[0]);
        break;
    default:
        if (n->code == LM_OP_JOIN && n->layer < 0) {
            lm_text_add_char(f->out, '[');
            put(f, n->in[0], false);
            lm_text_add_str(f->out, " ; ");
            put(f, n->in[1], false);
            lm_text_add_char(f->out, ']');
        } else if (n->code == LM_OP_HEAD_LINEAR && n->layer < 0) {
            put_product(f, n);
        } else if (takes_stream(f->l, n)) {
            put_streams(f, n);
        } else if (is_aside(f->l, i)) {
            put_aside(f, i);
        } else if (lm_op_of(n->code)->form) {
            lm_text x = { 0 };
            put(&(form){ f->l, f->w, f->known, f->names, f->n_known, &x }, n->in[0], false);
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

void lm_put_form(const lm_ledger *l, const lm_form_words *w, lm_value v, const lm_value *known,
                 const char *const *names, uint32_t n, lm_text *out)
{
    put(&(form){ l, w, known, names, n, out }, v, false);
}

/* Append a value of a block as a formula of the block's input, x. */
static void put_branch(const lm_ledger *l, lm_value v, lm_value in, lm_text *out)
{
    const lm_program *p    = l->program;
    const lm_node    *n    = &p->nodes[maker(l, v)];
    const char       *name = p->modules[n->module].name, *end = strrchr(name, '_');

    if (v == in) {
        lm_text_add_str(out, "x");
        return;
    }
    if (lm_is_norm(n))
        lm_text_add_str(out, "Norm(");
    else if (n->code == LM_OP_LINEAR)
        lm_text_printf(out, n->in[0] == in ? "W_%s " : "W_%s (", end ? end + 1 : name);
    put_branch(l, n->in[0], in, out);
    if (n->code == LM_OP_ADD) {
        lm_text_add_str(out, " + ");
        put_branch(l, n->in[1], in, out);
    } else if (n->in[0] != in) {
        lm_text_add_str(out, ")");
    }
}

bool lm_put_low_rank(const lm_ledger *l, lm_text *out)
{
    const lm_program *p = l->program;
    uint32_t          i = 0;

    while (i < p->n_nodes && (!is_aside(l, i) || lm_is_apart(p, l->block[i]) || lm_connects(p, l->block[i])))
        i++;
    if (i == p->n_nodes)
        return false;
    put_branch(l, p->modules[l->block[i]].out, p->modules[l->block[i]].in, out);
    return true;
}

bool lm_put_coefficients(const lm_ledger *l, uint32_t which, lm_text *out)
{
    static const char *const names[] = { "x", "y" };
    const lm_program        *p       = l->program;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        bool corrects = n->in[0] != n->in[1];
        if (n->code != LM_OP_MIX || n->n_in < 3 || corrects != which)
            continue;
        lm_value known = corrects ? p->nodes[maker(l, n->in[1])].in[0] : n->in[0];
        put(&(form){ l, &lm_plain_words, &known, &names[corrects], 1, out }, n->in[2], false);
        return true;
    }
    return false;
}

/* Add what streams are corrected by, and what they are then, or as predicted. Return the number of values. */
static uint32_t mixed(const lm_ledger *l, const lm_node *mix, lm_value *out)
{
    uint32_t n = 0;

    if (mix->n_in < 3)
        return 0;
    if (mix->in[0] != mix->in[1])
        out[n++] = l->program->nodes[maker(l, mix->in[1])].in[0];
    out[n++] = mix->out;
    return n;
}

/* Add the stream that a sum reads, unless it adds what a module beside attention and MLP makes. */
static uint32_t summed(const lm_ledger *l, uint32_t sum, lm_value *out)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < 2; k++) {
        uint32_t added = lm_added_by(l, sum, !k);
        if (lm_added_by(l, sum, k) == LM_NONE && (added == LM_NONE || !is_aside(l, added)))
            out[n++] = l->program->nodes[sum].in[k];
    }
    return n;
}

uint32_t lm_streams_of(const lm_ledger *l, uint32_t layer, lm_value out[LM_MAX_STREAMS])
{
    const lm_program *p = l->program;
    const lm_module  *m = &p->modules[l->layer[layer]];
    lm_value          last = m->out != LM_NONE ? m->out : p->nodes[m->end_op - 1].out;
    uint32_t          n = 0, sums = 0, max = 4;     /* with one stream */

    out[n++] = m->in;
    for (uint32_t i = m->first_op; i < m->end_op; i++) {
        if (p->nodes[i].code == LM_OP_MIX && n + 2 < LM_MAX_STREAMS) {
            n += mixed(l, &p->nodes[i], &out[n]);
            max = LM_MAX_STREAMS;
        }
        if (lm_is_residual(l, i) && sums++ && n + 1 < max)
            n += summed(l, i, &out[n]);
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

/* Append the last norm and what precedes it, after the last layer. */
static void put_end(const form *f, const lm_node *norm)
{
    lm_value last = f->l->program->modules[f->l->layer[f->l->program->n_layers - 1]].out;

    lm_text_add_str(f->out, f->w->within ? "\\mathrm{Norm}_f(" : f->w->nth_norm ? "Norm_f(" : "Norm(");
    put(&(form){ f->l, f->w, &last, &f->w->last, 1, f->out }, norm->in[0], false);
    lm_text_add_char(f->out, ')');
}

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
        if (lm_is_norm(n) && p->n_layers && p->nodes[maker(f->l, n->in[0])].layer < 0)
            put_end(f, n);
        else
            lm_text_add_str(f->out, f->w->final);
        break;
    }
}

void lm_put_head_form(const lm_ledger *l, const lm_form_words *w, lm_text *out)
{
    put_logits(&(form){ l, w, NULL, NULL, 0, out }, l->program->logits);
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

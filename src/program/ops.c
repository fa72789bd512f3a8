/* ops.c - the closed set of operations, and what is read from their descriptions. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/language.h"
#include "program/op.h"

#define DECLARE(code, name) extern const lm_op lm_op_##name;
LM_OPS(DECLARE)

#define ENTRY(code, name) [LM_OP_##code] = &lm_op_##name,
static const lm_op *const operations[LM_OP_COUNT] = { LM_OPS(ENTRY) };

const lm_op *lm_op_of(lm_op_code code)
{
    return operations[code];
}

void lm_node_cost(const lm_program *p, const lm_node *n, lm_cost *out)
{
    *out = (lm_cost){ 0 };
    operations[n->code]->cost(p, n, out);
}

/* ---- numbers ---- */

static const void *number_at(const lm_node *n, const lm_op_number *x)
{
    return (const char *)n + x->offset;
}

static bool same_number(const lm_node *a, const lm_node *b, const lm_op_number *x, float tolerance)
{
    const float *f, *g;

    switch (x->kind) {
    case LM_NUMBER_U32:
        return *(const uint32_t *)number_at(a, x) == *(const uint32_t *)number_at(b, x);
    case LM_NUMBER_BOOL:
        return *(const bool *)number_at(a, x) == *(const bool *)number_at(b, x);
    case LM_NUMBER_ACT:
        return *(const lm_act *)number_at(a, x) == *(const lm_act *)number_at(b, x);
    case LM_NUMBER_FLOAT:
        f = number_at(a, x);
        g = number_at(b, x);
        return fabsf(*f - *g) <= tolerance * fabsf(*f);
    }
    return false;
}

bool lm_op_same(const lm_node *a, const lm_node *b)
{
    for (const lm_op_number *x = operations[a->code]->numbers; x && x->name; x++)
        if (!same_number(a, b, x, 0))
            return false;
    return true;
}

const char *lm_op_differs(const lm_node *a, const lm_node *b)
{
    for (const lm_op_number *x = operations[a->code]->numbers; x && x->name; x++)
        if (x->differs && !same_number(a, b, x, 1e-6f))
            return x->differs;
    return NULL;
}

static void put_number(const void *at, lm_number_kind kind, int digits, lm_text *out)
{
    switch (kind) {
    case LM_NUMBER_U32:
        lm_text_printf(out, "%" PRIu32, *(const uint32_t *)at);
        return;
    case LM_NUMBER_BOOL:
        lm_text_add_str(out, *(const bool *)at ? "True" : "False");
        return;
    case LM_NUMBER_ACT:
        lm_text_add_str(out, lm_act_id(*(const lm_act *)at));
        return;
    case LM_NUMBER_FLOAT:
        lm_text_printf(out, "%.*g", digits, (double)*(const float *)at);
        return;
    }
}

void lm_op_put_number(const lm_node *n, const char *word, size_t length, int digits, lm_text *out)
{
    for (const lm_op_number *x = operations[n->code]->numbers; x && x->name; x++) {
        const char *last = strrchr(x->name, '.') + 1;
        if (strlen(last) == length && strncmp(last, word, length) == 0) {
            put_number(number_at(n, x), x->kind, digits, out);
            return;
        }
    }
    assert(!"a description names a number that it does not list");
}

/* ---- programs ---- */

lm_value lm_program_hidden(const lm_program *p)
{
    const lm_node *n = &p->nodes[p->values[p->logits].producer];

    while (lm_op_of(n->code)->lanewise || n->code == LM_OP_EDIT)
        n = &p->nodes[p->values[n->in[0]].producer];
    return n->in[0];
}

static void print_node(const lm_program *p, const lm_node *n, lm_text *out)
{
    const lm_op *op = lm_op_of(n->code);

    lm_text_printf(out, "%%%-4u %-46s %-10s [T, %u]", n->out, n->path, op->name, p->values[n->out].width);
    lm_text_add_str(out, "  (");
    for (uint32_t i = 0; i < n->n_in; i++)
        lm_text_printf(out, "%s%%%u", i ? ", " : "", n->in[i]);
    lm_text_add_str(out, n->n_in ? ")" : "ids)");
    if (op->describe) {
        lm_text_add_str(out, "  ");
        op->describe(p, n, out);
    }
    for (uint32_t i = 0; i < LM_MAX_WEIGHTS; i++)
        if (n->weights[i] != LM_NONE)
            lm_text_printf(out, "  %s", p->weights[n->weights[i]].path);
    if (n->code == LM_OP_ATTENTION)
        lm_text_printf(out, "  cache %u", n->attention.cache);
    if (op->state)
        lm_text_printf(out, "  state %u", n->state.index);
    lm_text_add_char(out, '\n');
}

/* The dump of a program is always in English. */
void lm_program_print(const lm_program *p, lm_text *out)
{
    lm_language before = lm_language_set(LM_ENGLISH);

    lm_text_printf(out, "%s: %u operations, %u values, %u weights, %" PRIu64 " parameters\n", p->class_name,
                   p->n_nodes, p->n_values, p->n_weights, lm_program_parameters(p));
    for (uint32_t i = 0; i < p->n_nodes; i++)
        print_node(p, &p->nodes[i], out);
    lm_text_printf(out, "logits = %%%u\n", p->logits);
    lm_language_set(before);
}

/* module_tree.c - the module tree as PyTorch prints it. */
#include <inttypes.h>
#include <string.h>

#include "study/facts/ledger.h"
#include "study/report/module_views.h"

/* Return whether the first word, which has n letters, is `name`. */
static bool is_word(const char *words, size_t n, const char *name)
{
    return strncmp(words, name, n) == 0 && name[n] == '\0';
}

static bool in_list(const char *words, const char *name)
{
    for (size_t n; *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        if (is_word(words, n, name))
            return true;
    }
    return false;
}

static void put_sizes(const lm_facts *f, uint32_t m, lm_text *out)
{
    const lm_program *p = f->s.program;
    const lm_module  *x = &p->modules[m];
    const lm_node    *n = &p->nodes[x->first_op];
    char              text[32];
    lm_linear_form    linear;

    if (lm_module_linear(p, m, &linear) && strcmp(x->class_name, "Conv1D") != 0) {
        lm_text_printf(out, "in_features=%" PRIu64 ", out_features=%" PRIu64 ", bias=%s", linear.in,
                       linear.out, linear.bias ? "True" : "False");
        return;
    }
    if (strstr(x->class_name, "NormGated"))
        return;
    if (x->end_op == x->first_op || (x->end_op != x->first_op + 1 && n->code != LM_OP_EMBED))
        return;
    switch (n->code) {
    case LM_OP_LINEAR:
        lm_text_printf(out, "nf=%u, nx=%u", p->values[n->out].width, p->values[n->in[0]].width);
        break;
    case LM_OP_CAUSAL_CONV:
        lm_text_printf(out, "%u, %u, kernel_size=(%u,), stride=(1,), padding=(%u,), groups=%u%s",
                       p->values[n->in[0]].width, p->values[n->out].width, n->conv.taps, n->conv.taps - 1,
                       p->values[n->out].width, n->weights[1] == LM_NONE ? ", bias=False" : "");
        break;
    case LM_OP_EMBED:
    case LM_OP_POSITION:
        lm_text_printf(out, "%" PRIu64 ", %u", p->weights[n->weights[0]].dims[0], p->values[n->out].width);
        break;
    case LM_OP_RMS_NORM:
        if (n->weights[0] != LM_NONE)
            lm_text_printf(out, "(%" PRIu64 ",), ", p->weights[n->weights[0]].elements);
        lm_text_printf(out, "eps=%s", lm_number_text(text, lm_decimal(n->norm.eps)));
        break;
    case LM_OP_LAYER_NORM:
        if (strcmp(x->class_name, "LayerNorm") == 0 || strstr(x->class_name, "LayerNorm1P"))
            lm_text_printf(out, "(%u,), eps=%s, elementwise_affine=True, bias=%s", p->values[n->out].width,
                           lm_number_text(text, lm_decimal(n->norm.eps)),
                           n->weights[1] != LM_NONE ? "True" : "False");
        break;
    default:
        break;
    }
}

static void put_repr(const lm_facts *f, uint32_t m, unsigned indent, unsigned depth, lm_text *out);

static void put_child(const lm_facts *f, uint32_t m, unsigned indent, unsigned depth, lm_text *out)
{
    lm_text_printf(out, "%*s(%s): ", (int)indent, "", f->s.program->modules[m].name);
    put_repr(f, m, indent, depth, out);
}

static void put_children(const lm_facts *f, uint32_t m, unsigned indent, unsigned depth, lm_text *out)
{
    const lm_module *modules = f->s.program->modules;
    const char      *order   = modules[m].order;

    for (size_t n, at = 0; order[at]; at += n + (order[at + n] == ' ')) {
        n = strcspn(order + at, " ");
        for (uint32_t c = f->ledger->child[m]; c != LM_NONE; c = f->ledger->sibling[c])
            if (order[at] == '*' ? !in_list(order, modules[c].name) : is_word(order + at, n, modules[c].name))
                put_child(f, c, indent, depth, out);
    }
}

/* Print adjacent modules with the same output once: "(0-27): 28 x ". */
static void put_list(const lm_facts *f, uint32_t m, unsigned indent, unsigned depth, lm_text *out)
{
    const lm_module *modules = f->s.program->modules;
    lm_text           one = { 0 }, other = { 0 };

    for (uint32_t c = f->ledger->child[m], next; c != LM_NONE; c = next) {
        uint32_t last = c, n = 1;
        one.size = 0;
        put_repr(f, c, indent, depth, &one);
        for (next = f->ledger->sibling[c]; next != LM_NONE; next = f->ledger->sibling[next], n++) {
            other.size = 0;
            put_repr(f, next, indent, depth, &other);
            if (one.size != other.size || memcmp(one.data, other.data, one.size) != 0)
                break;
            last = next;
        }
        if (n > 1)
            lm_text_printf(out, "%*s(%s-%s): %u x ", (int)indent, "", modules[c].name, modules[last].name, n);
        else
            lm_text_printf(out, "%*s(%s): ", (int)indent, "", modules[c].name);
        lm_text_add(out, one.data, one.size);
    }
    out->failed |= one.failed || other.failed;
    lm_text_free(&one);
    lm_text_free(&other);
}

static void put_repr(const lm_facts *f, uint32_t m, unsigned indent, unsigned depth, lm_text *out)
{
    const lm_module *x    = &f->s.program->modules[m];
    bool             leaf = f->ledger->child[m] == LM_NONE;
    size_t           from;

    lm_text_printf(out, "%s(", x->class_name);
    from = out->size;
    if (leaf || depth == 0) {
        bool instead = x->extra_repr && *x->extra_repr == '=';
        if (!instead)
            put_sizes(f, m, out);
        if (x->extra_repr)
            lm_text_printf(out, "%s%s", out->size > from ? ", " : "", x->extra_repr + instead);
        lm_text_printf(out, "%s)\n", leaf ? "" : "…");
        return;
    }
    lm_text_add_char(out, '\n');
    (strcmp(x->class_name, "ModuleList") == 0 ? put_list : put_children)(f, m, indent + 2, depth - 1, out);
    lm_text_printf(out, "%*s)\n", (int)indent, "");
}

void lm_put_module_tree(const lm_facts *f, unsigned depth, lm_text *out)
{
    put_repr(f, 0, 0, depth ? depth : 16, out);
}

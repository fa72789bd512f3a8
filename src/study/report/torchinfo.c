/* torchinfo.c - the table that torchinfo prints. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/facts/figure.h"
#include "study/facts/ledger.h"
#include "study/report/module_views.h"
#include "base/columns.h"

enum { DEPTH = 4, COLUMN = 25, ALIGN = 5 };

typedef struct summary {
    lm_facts *f;
    lm_text   *out;
    unsigned  depth, name_width;
    bool      compatible;
} summary;

static const lm_module *module_of(const summary *s, uint32_t m)
{
    return &s->f->s.program->modules[m];
}

/* Write class and variable; the root's variable is its class. */
static void title(const summary *s, uint32_t m, char out[160])
{
    const lm_module *x = module_of(s, m);

    snprintf(out, 160, "%s (%s)", x->class_name, m == 0 ? x->class_name : x->name);
}

static bool is_leaf(const summary *s, uint32_t m)
{
    return s->f->ledger->child[m] == LM_NONE;
}

static bool is_rotary(const summary *s, uint32_t m)
{
    return strstr(module_of(s, m)->class_name, "RotaryEmbedding") != NULL;
}

/* ---- order of calls ---- */

/* A rotary module is called before the decoder layers, although it comes after them in the tree. */
static bool comes_late(const summary *s, uint32_t m)
{
    return is_rotary(s, m);
}

static uint32_t rotary_beside(const summary *s, uint32_t parent)
{
    const lm_ledger *l = s->f->ledger;

    for (uint32_t m = l->child[parent]; m != LM_NONE; m = l->sibling[m])
        if (comes_late(s, m))
            return m;
    return LM_NONE;
}

/* ---- rows ---- */

static void put_row(const summary *s, const char *name, const char *const cells[4])
{
    lm_text  *out  = s->out;
    size_t   line = out->size;

    lm_put(out, name, s->name_width + 1);
    for (int i = 0; i < 4; i++)
        lm_put(out, cells[i], COLUMN + 1);
    while (out->size > line && out->data[out->size - 1] == ' ')
        out->size--;
    if (out->data)
        out->data[out->size] = '\0';
    lm_text_add_char(out, '\n');
}

static void put_rule(const summary *s)
{
    lm_put_rule(s->out, "=", s->name_width + 4 * COLUMN);
    lm_text_add_char(s->out, '\n');
}

static void shape(const summary *s, uint32_t width, char out[64])
{
    if (width)
        snprintf(out, 64, "[1, %u, %u]", s->f->s.tokens, width);
    else
        snprintf(out, 64, "[1, %u]", s->f->s.tokens);
}

static void shapes(const summary *s, uint32_t m, char in[64], char out[64])
{
    const lm_program *p = s->f->s.program;
    const lm_module  *x = module_of(s, m);

    snprintf(in, 64, "--");
    snprintf(out, 64, "--");
    if (is_rotary(s, m)) {
        uint32_t layer = s->f->ledger->layer[0];
        shape(s, p->values[p->modules[layer].in].width, in);
        shape(s, p->n_ropes ? p->ropes[0].spec.dim : 0, out);
        return;
    }
    if (m == 0 || (x->by_position && x->layer < 0))
        shape(s, 0, in);
    if (x->out == LM_NONE || (!is_leaf(s, m) && x->layer < 0))
        return;
    shape(s, p->values[x->out].width, out);
    if ((s->f->ledger->attends[m] || s->f->ledger->carries[m]) && x->layer >= 0 &&
        s->f->ledger->layer[x->layer] != m && !x->by_position)
        return;                      /* modules with a cache have keyword arguments, which torchinfo does not
                                        see */
    shape(s, x->in == LM_NONE ? 0 : p->values[x->in].width, in);
}

static uint64_t parameters(const summary *s, uint32_t m)
{
    lm_module_sums sums;

    if (s->compatible)
        return lm_torchinfo_parameters(s->f, m);
    lm_module_sum(s->f->ledger, m, &sums);
    return sums.parameters;
}

/* Write the multiply-adds, or "--" if there are none. */
static void mult_adds(const summary *s, uint32_t m, char out[LM_FIG])
{
    if (s->compatible)
        lm_fig_count(out, lm_torchinfo_mult_adds(s->f, m));
    else
        lm_fig_fact(out, s->f, "modules[%u].pass_mult_adds", m);
    if (strcmp(out, "0") == 0)
        snprintf(out, LM_FIG, "--");
}

static void put_module(const summary *s, uint32_t m, unsigned depth)
{
    bool              shown = is_leaf(s, m) || depth == s->depth;
    char              name[256] = "", text[160], in[64], out[64], params[LM_FIG] = "--", macs[LM_FIG] = "--";
    uint64_t          n = parameters(s, m);
    size_t            at = 0;

    for (unsigned d = 1; d < depth; d++)
        at += (size_t)snprintf(name + at, sizeof name - at, "│    ");
    title(s, m, text);
    snprintf(name + at, sizeof name - at, "%s%s", depth == 0 ? "" : depth == 1 ? "├─" : "└─", text);
    shapes(s, m, in, out);
    if (shown && n)
        lm_fig_count(params, n);
    else if (shown && !s->compatible && lm_facts_has(s->f, "modules[%u].tied", m) &&
             lm_facts_truth(s->f, "modules[%u].tied", m))
        snprintf(params, sizeof params, "%s", _("(shared)"));
    if (shown)
        mult_adds(s, m, macs);
    put_row(s, name, (const char *const[]){ in, out, params, macs });
}

static void put_tree(const summary *s, uint32_t m, unsigned depth)
{
    const lm_ledger *l    = s->f->ledger;
    uint32_t         late = rotary_beside(s, m);

    put_module(s, m, depth);
    for (uint32_t c = l->child[m]; depth < s->depth && c != LM_NONE; c = l->sibling[c]) {
        if (c == late)
            continue;
        if (c == l->stack && late != LM_NONE)
            put_tree(s, late, depth + 1);
        put_tree(s, c, depth + 1);
    }
}

/* Return the width of the longest name including its indent, rounded up to a multiple of five; at least
 * 40. */
static unsigned name_width(const summary *s)
{
    const lm_program *p    = s->f->s.program;
    unsigned          max = 0;

    for (uint32_t m = 0; m < p->n_modules; m++) {
        char text[160];
        title(s, m, text);
        unsigned n = (unsigned)strlen(text) + p->modules[m].depth * ALIGN + 1;
        max       = n > max ? n : max;
    }
    return max < 40 ? 40 : (max + ALIGN - 1) / ALIGN * ALIGN;
}

/* ---- footer ---- */

static void put_megabytes(lm_text *out, const char *label, uint64_t bytes)
{
    lm_text_printf(out, "%s (MB): %.2f\n", label, (double)bytes / 1e6);
}

static void put_total_mult_adds(const summary *s)
{
    lm_text     *out   = s->out;
    uint64_t    n     = lm_facts_count(s->f, "pass.torchinfo.mult_adds");
    const char *unit  = n >= 1000000000000 ? "TERABYTES" : n >= 1000000000 ? "GIGABYTES" : "MEGABYTES";
    double      scale = n >= 1000000000000 ? 1e12 : n >= 1000000000 ? 1e9 : 1e6, x = (double)n / scale;
    char        figure[LM_FIG], naive[LM_FIG];

    if (!s->compatible && lm_facts_has(s->f, "pass.mult_adds_naive"))
        lm_text_printf(out, "Total mult-adds (MLA absorbed): %s\nTotal mult-adds (MLA naive): %s\n",
                       lm_fig_fact(figure, s->f, "pass.mult_adds"),
                       lm_fig_fact(naive, s->f, "pass.mult_adds_naive"));
    else if (!s->compatible)
        lm_text_printf(out, "Total mult-adds: %s\n", lm_fig_fact(figure, s->f, "pass.mult_adds"));
    else if (n % (uint64_t)scale == 0)
        lm_text_printf(out, "Total mult-adds (Units.%s): %" PRIu64 "\n", unit, n / (uint64_t)scale);
    else
        lm_text_printf(out, "Total mult-adds (Units.%s): %.2f\n", unit, x);
}

static void put_footer(const summary *s)
{
    lm_facts *f   = s->f;
    lm_text   *out = s->out;
    uint64_t  n = parameters(s, 0), in, values, params;
    char      figure[LM_FIG];

    put_rule(s);
    lm_text_printf(out, "Total params: %s\n", lm_fig_count(figure, n));
    lm_text_printf(out, "Trainable params: %s\nNon-trainable params: 0\n", figure);
    put_total_mult_adds(s);
    put_rule(s);
    in     = lm_facts_count(f, "pass.input_bytes");
    values = lm_facts_count(f, s->compatible ? "pass.torchinfo.forward_backward_bytes" : "pass.output_bytes");
    params = lm_facts_count(f, s->compatible ? "pass.torchinfo.params_bytes" : "pass.parameter_bytes");
    put_megabytes(out, "Input size", in);
    put_megabytes(out, s->compatible ? "Forward/backward pass size" : "Forward pass size", values);
    put_megabytes(out, "Params size", params);
    put_megabytes(out, "Estimated Total Size", in + values + params);
    put_rule(s);
}

static void put_notes(const summary *s)
{
    lm_text *out = s->out;

    if (s->compatible)
        return;                      /* byte for byte; the command line reports separately what the table
                                        over-counts */
    lm_text_printf(out,
                   _("Every stored weight once; multiply-adds of all %u tokens, scores included, look-ups "
                     "free; no backward pass.\n"),
                   s->f->s.tokens);
}

void lm_put_torchinfo(lm_facts *f, unsigned depth, bool compatible, lm_text *out)
{
    static const char *const heads[4] = { "Input Shape", "Output Shape", "Param #", "Mult-Adds" };
    summary s = { .f = f, .out = out, .depth = depth ? depth : DEPTH, .compatible = compatible };

    s.name_width = name_width(&s);
    put_rule(&s);
    put_row(&s, "Layer (type (var_name))", heads);
    put_rule(&s);
    put_tree(&s, 0, 0);
    put_footer(&s);
    put_notes(&s);
}

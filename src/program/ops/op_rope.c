/* op_rope.c - rope: rotate heads by position, with tables that operations share (RoFormer, arXiv
 * 2104.09864); temperature: scale queries by position. */
#include <stdio.h>
#include <string.h>

#include "base/language.h"
#include "program/op.h"
#include "program/record.h"

static bool same_lanes(const lm_rope_spec *a, const lm_rope_spec *b)
{
    return a->dim == b->dim && a->pairing == b->pairing && a->backwards == b->backwards &&
           a->last == b->last && a->rate == b->rate;
}

static bool same_rope(const lm_rope_spec *a, const lm_rope_spec *b)
{
    return a->base == b->base && a->type == b->type &&
           a->factor == b->factor && a->original_context == b->original_context &&
           a->max_context == b->max_context && a->stored_divisors == b->stored_divisors &&
           a->low_freq_factor == b->low_freq_factor && a->high_freq_factor == b->high_freq_factor &&
           a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow && a->truncate == b->truncate &&
           a->mscale == b->mscale && a->mscale_all_dim == b->mscale_all_dim &&
           a->attention_factor == b->attention_factor && a->share == b->share && same_lanes(a, b) &&
           a->stored_factors == b->stored_factors && (a->short_factors != NULL) == (b->short_factors != NULL);
}

static uint32_t stored_factor(lm_builder *b, const char *name, uint32_t n)
{
    uint32_t w = lm_record_weight(b, name, "weight", LM_VECTOR, 1, n, 1);

    if (w != LM_NONE) {
        b->p->weights[w].gguf      = b->p->weights[w].path;
        b->p->weights[w].gguf_only = true;
        b->p->weights[w].constant  = true;
    }
    return w;
}

static const float *keep_floats(lm_builder *b, const float *x, uint32_t n)
{
    float *copy = x ? lm_arena_new(&b->p->arena, n, float) : NULL;

    if (copy)
        memcpy(copy, x, n * sizeof *x);
    else if (x)
        lm_record_no_memory(b);
    return copy;
}

static uint32_t rope_table(lm_builder *b, const lm_rope_spec *spec)
{
    lm_program *p = b->p;

    for (uint32_t i = 0; i < p->n_ropes; i++)
        if (same_rope(&p->ropes[i].spec, spec))
            return i;
    if (!LM_GROW(b, ropes, p->n_ropes))
        return 0;
    lm_rope_table *t      = &p->ropes[p->n_ropes];
    *t                    = (lm_rope_table){ *spec, LM_NONE, LM_NONE, LM_NONE };
    t->spec.short_factors = keep_floats(b, spec->short_factors, spec->dim / 2);
    t->spec.long_factors  = keep_floats(b, spec->long_factors, spec->dim / 2);
    if (spec->stored_divisors)
        t->divisors = stored_factor(b, "rope_freqs", spec->dim / 2);
    if (spec->stored_factors) {
        t->long_factors  = stored_factor(b, "rope_factors_long", spec->dim / 2);
        t->short_factors = stored_factor(b, "rope_factors_short", spec->dim / 2);
    }
    return p->n_ropes++;
}

lm_value lm_rope(lm_builder *b, lm_value x, uint32_t n_heads, const lm_rope_spec *spec)
{
    if (b->failed)
        return LM_NONE;
    uint32_t width = lm_record_width(b, x);
    char     word[32];

    lm_record_need(b, n_heads && width % n_heads == 0, "rope", "heads do not divide the width");
    if (b->failed)
        return LM_NONE;
    lm_record_need(b, spec->dim && spec->dim % 2 == 0 && spec->dim <= width / n_heads, "rope",
                   "rotates more dimensions than a head has");
    /* named after what it rotates: q_proj -> q_rope */
    const char *source = strrchr(b->p->nodes[b->p->values[x].producer].path, '.');
    snprintf(word, sizeof word, "%c_rope", source ? source[1] : 'x');
    uint32_t table   = rope_table(b, spec);
    lm_node *n       = lm_record_unary(b, LM_OP_ROPE, lm_record_path(b, word), x, width);
    n->rope.table    = table;
    n->rope.n_heads  = n_heads;
    n->rope.head_dim = width / n_heads;
    return n->out;
}

/* four products and two sums per pair of lanes */
static void rope_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t lanes = (uint64_t)n->rope.n_heads * p->ropes[n->rope.table].spec.dim;

    c->flops  = 3 * lanes;
    c->reads  = lm_width_in(p, n);
    c->writes = lm_width_in(p, n);
}

static void rope_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    const lm_rope_spec *s = &p->ropes[n->rope.table].spec;

    lm_text_printf(out,
                   P_(n->rope.n_heads, "%u head, %u of %u dimensions, base %g, %s, %s",
                      "%u heads, %u of %u dimensions, base %g, %s, %s"),
                   n->rope.n_heads, s->dim, n->rope.head_dim, s->base,
                   s->stored_divisors  ? _("stored divisors")
                   : s->stored_factors ? _("stored factors")
                                       : lm_rope_type_name(s->type),
                   s->pairing == LM_ROPE_PAIR ? _("pairs (2i, 2i+1)") : _("pairs (i, i+n/2)"));
    if (s->last)
        lm_text_add_str(out, _(", the last of a head"));
    if (s->last && s->backwards)
        lm_text_add_str(out, _(", backwards"));
}

static const lm_op_number rope_numbers[] = {
    LM_NODE_NUMBER(U32, rope.table, NULL),
    LM_NODE_NUMBER(U32, rope.n_heads, NULL),
    LM_NODE_NUMBER(U32, rope.head_dim, NULL),
    { 0 }
};

const lm_op lm_op_rope = {
    .name          = "rope",
    .numbers       = rope_numbers,
    .cost          = rope_cost,
    .describe      = rope_describe,
    .formula       = N_("R(position) x, in pairs of dimensions"),
    .form          = "RoPE({x})",
    .work          = "rope and store",
    .in_place      = true,
    .trains_inputs = 1,
};

/* ---- temperature ---- */

lm_value lm_temperature(lm_builder *b, lm_value x, const lm_temperature_spec *spec)
{
    if (b->failed || spec->beta == 0)
        return x;
    lm_record_need(b, spec->length > 0, "temperature", "a length of 0");
    lm_node *n = lm_record_unary(b, LM_OP_TEMPERATURE, lm_record_path(b, "q_temperature"), x,
                                 lm_record_width(b, x));
    n->temperature.spec = *spec;
    return n->out;
}

/* the factor: add, divide, floor, add, ln, multiply, add */
static void temperature_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = lm_width_out(p, n) + 7;
    c->reads  = lm_width_out(p, n);
    c->writes = lm_width_out(p, n);
}

static void temperature_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    const lm_temperature_spec *t = &n->temperature.spec;

    (void)p;
    lm_text_printf(out, "× 1 + %g ln(1 + ⌊", (double)t->beta);
    if (t->offset)
        lm_text_printf(out, "(p + %u) / %u⌋)", t->offset, t->length);
    else
        lm_text_printf(out, "p / %u⌋)", t->length);
}

static const lm_op_number temperature_numbers[] = {
    LM_NODE_NUMBER(FLOAT, temperature.spec.beta, "multipliers"),
    LM_NODE_NUMBER(U32, temperature.spec.length, "multipliers"),
    LM_NODE_NUMBER(U32, temperature.spec.offset, "multipliers"),
    { 0 }
};

const lm_op lm_op_temperature = {
    .name          = "temperature",
    .numbers       = temperature_numbers,
    .cost          = temperature_cost,
    .describe      = temperature_describe,
    .formula       = N_("(1 + β ln(1 + ⌊(position + o) / n⌋)) x"),
    .form          = "τ_p {x}",
    .expression    = "temperature({0}, {beta}, {length}, {offset})",
    .helper        = "def temperature(q, beta, length, offset):\n"
                     "    \"\"\"q times 1 + beta ln(1 + floor((position + offset) / length)).\"\"\"\n"
                     "    steps = ($.arange(len(q)) + offset) // length\n"
                     "    return q * (1 + beta * $.log(1.0 + steps))[:, None]\n\n\n",
    .in_place      = true,
    .lanewise      = true,
    .trains_inputs = 1,
};

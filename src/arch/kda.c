/* kda.c - Kimi delta attention (arXiv 2510.26692): q, k and v each pass a short convolution; every row of a
 * head's state has its own decay; the output is normalised by head, then gated. */
#include <math.h>
#include <stdio.h>

#include "arch/families.h"

lm_value lm_convolved(lm_builder *b, const char *name, lm_value x, uint32_t width, uint32_t taps, lm_act f)
{
    char projection[16], convolution[16], act[16];

    snprintf(projection, sizeof projection, "%s_proj", name);
    snprintf(convolution, sizeof convolution, "%s_conv1d", name);
    snprintf(act, sizeof act, "%s_act", name);
    x = lm_linear(b, projection, x, width, false);
    x = lm_causal_conv(b, convolution, x, taps, false);
    lm_between_in_gguf(b, x);
    return lm_function(b, act, x, f);
}

static lm_value convolved(lm_builder *b, const lm_kda *k, const char *name, lm_value x)
{
    return lm_convolved(b, name, x, k->n_heads * k->head_dim, k->taps, LM_ACT_SILU);
}

/* A value of all lanes: of one matrix, "f_proj", or of two, "f_a_proj" and "f_b_proj". */
static lm_value projected(lm_builder *b, const lm_kda *k, char name, lm_value x)
{
    char     one[8], two[2][12];
    uint32_t width = k->n_heads * k->head_dim;

    snprintf(one, sizeof one, "%c_proj", name);
    if (!k->low_rank)
        return lm_linear(b, one, x, width, false);
    snprintf(two[0], sizeof two[0], "%c_a_proj", name);
    snprintf(two[1], sizeof two[1], "%c_b_proj", name);
    return lm_linear(b, two[1], lm_linear(b, two[0], x, k->head_dim, false), width, false);
}

/* exp(-exp(A_log) softplus(f + dt_bias)), or exp(bound sigmoid(exp(A_log) (f + dt_bias))) */
static lm_value decays(lm_builder *b, const lm_kda *k, lm_value x)
{
    lm_value f = lm_add_bias(b, "dt_bias", projected(b, k, 'f', x));

    if (k->bound < 0)
        return lm_bounded_decay(b, "A_log", f, k->n_heads, k->bound);
    return lm_decay(b, "A_log", lm_function(b, "dt", f, LM_ACT_SOFTPLUS), k->n_heads);
}

lm_value lm_kda_heads(lm_builder *b, const lm_config *c, const lm_kda *k, lm_value x)
{
    lm_recurrence rule = { .n_heads          = k->n_heads,
                           .n_key_heads      = k->n_heads,
                           .k_dim            = k->head_dim,
                           .v_dim            = k->head_dim,
                           .delta            = true,
                           .decay_by_channel = true };
    lm_value q = convolved(b, k, "q", x), key = convolved(b, k, "k", x), v = convolved(b, k, "v", x);

    q              = lm_unit_heads(b, "q_unit", q, k->n_heads, 1e-6f, 1 / sqrtf((float)k->head_dim));
    key            = lm_unit_heads(b, "k_unit", key, k->n_heads, 1e-6f, 1);
    lm_value decay = decays(b, k, x);
    (k->padded ? lm_padded_column : lm_column_in_gguf)(b, decay);
    lm_value beta = lm_function(b, "beta", lm_linear(b, "b_proj", x, k->n_heads, false), LM_ACT_SIGMOID);
    lm_value y    = lm_linear_recurrence(b, "delta_rule", &rule, q, key, v, decay, beta);
    lm_value gate = projected(b, k, 'g', x);
    if (k->gate)
        lm_named_in_gguf(b, gate, k->gate);
    y = lm_rms_norm_gated(b, "o_norm", y, gate, k->n_heads, c->norm_eps, LM_ACT_SIGMOID);
    return lm_linear(b, k->output, y, c->hidden, false);
}

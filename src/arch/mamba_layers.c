/* mamba_layers.c - the mixers of Mamba-2 (arXiv 2405.21060) and Mamba (arXiv 2312.00752), which several
 * families have in some of their layers. */
#include <float.h>
#include <stdio.h>

#include "arch/families.h"


/* ---- the mixer of Mamba-2 ---- */

/* Take z, x, B, C or dt from in_proj's output, multiplied by its factor. */
static lm_value part(lm_builder *b, const lm_config *c, const char *word, lm_value all, int which,
                     uint32_t offset, uint32_t width)
{
    float factor = c->mamba.factors[which];

    return lm_scale(b, lm_columns(b, word, all, 1, offset, width), factor > 0 ? factor : 1);
}

/* Take x, B and C together, which one convolution reads. */
static lm_value convolved(lm_builder *b, const lm_config *c, lm_value all, uint32_t inner, uint32_t keys)
{
    const float *f = c->mamba.factors;
    lm_value     xbc;

    if (f[1] == f[2] && f[1] == f[3]) {
        xbc = part(b, c, "xBC", all, 1, inner, inner + 2 * keys);
    } else {
        lm_value x = part(b, c, "in_x", all, 1, inner, inner);
        lm_value B = part(b, c, "in_B", all, 2, 2 * inner, keys);
        lm_value C = part(b, c, "in_C", all, 3, 2 * inner + keys, keys);
        xbc        = lm_join(b, "xBC", x, lm_join(b, "BC", B, C, 1, false), 1, false);
    }
    return lm_function(b, "convolved", lm_causal_conv(b, "conv1d", xbc, c->mamba.taps, c->mamba.conv_bias),
                       c->mamba.act);
}

/* Set that GGUF has the factors in the rows of in_proj. */
static void fold(lm_builder *b, const lm_config *c, lm_value all, uint32_t inner, uint32_t keys)
{
    const float *f = c->mamba.factors;

    if (!(f[0] > 0))
        return;
    const lm_fold folds[6] = { { 0, 2 * inner + 2 * keys + c->mamba.n_heads, c->mamba.of_input },
                               { 0, inner, f[0] },
                               { inner, inner, f[1] },
                               { 2 * inner, keys, f[2] },
                               { 2 * inner + keys, keys, f[3] },
                               { 2 * inner + 2 * keys, c->mamba.n_heads, f[4] } };
    lm_fold_in_gguf(b, all, folds, 6, 0);
}

/* The time steps: softplus(dt + bias), within limits. */
static lm_value time_steps(lm_builder *b, const lm_config *c, lm_value dt)
{
    const float limits[2] = { c->mamba.dt_min, c->mamba.dt_max };

    dt = lm_function(b, "delta", lm_add_bias(b, "dt_bias", dt), LM_ACT_SOFTPLUS);
    return limits[0] > 0 || limits[1] < FLT_MAX ? lm_clamp_between(b, dt, limits[0], limits[1]) : dt;
}

static lm_value gated_norm(lm_builder *b, const lm_config *c, lm_value y, lm_value z)
{
    bool     first = c->mamba.norm == LM_NORM_BEFORE_GATE;
    lm_value gated = first ? y : lm_gate(b, "gated", z, y, LM_ACT_SILU);

    if (c->mamba.norm == LM_NO_NORM) {
        lm_leaf(b, "norm", "Identity");
        return gated;
    }
    gated = lm_rms_norm_groups(b, "norm", gated, c->mamba.n_groups, first ? z : LM_NONE, c->norm_eps);
    if (c->mamba.gated_class)
        lm_class_is(b, c->mamba.gated_class);
    return gated;
}

lm_value lm_mamba2(lm_builder *b, const lm_config *c, const char *name, const char *class_name, lm_value x)
{
    uint32_t inner = c->mamba.n_heads * c->mamba.head_dim, keys = c->mamba.n_groups * c->mamba.state,
             all_lanes = 2 * inner + 2 * keys + c->mamba.n_heads;

    lm_push(b, name, class_name);
    lm_leaf(b, "act", lm_act_class(c->mamba.act));
    lm_value all   = lm_linear(b, "in_proj", x, all_lanes, c->mamba.in_bias);
    fold(b, c, all, inner, keys);
    lm_value z     = part(b, c, "z", all, 0, 0, inner);
    lm_value dt    = part(b, c, "dt", all, 4, 2 * inner + 2 * keys, c->mamba.n_heads);
    lm_value xbc   = convolved(b, c, all, inner, keys);
    lm_value v     = lm_columns(b, "x", xbc, 1, 0, inner);
    lm_value k     = lm_columns(b, "B", xbc, 1, inner, keys);
    lm_value q     = lm_columns(b, "C", xbc, 1, inner + keys, keys);
    lm_value delta = time_steps(b, c, dt);
    lm_value decay = lm_decay(b, "A_log", delta, c->mamba.n_heads);
    lm_column_in_gguf(b, decay);
    lm_value y = lm_linear_recurrence(b, "ssm",
                                      &(lm_recurrence){ .n_heads = c->mamba.n_heads,
                                                        .n_key_heads = c->mamba.n_groups,
                                                        .k_dim = c->mamba.state,
                                                        .v_dim = c->mamba.head_dim },
                                      q, k, v, decay, delta);
    lm_value skip = lm_scale_by_weight(b, "D", v, c->mamba.n_heads);
    lm_column_in_gguf(b, skip);
    y = gated_norm(b, c, lm_add(b, y, skip), z);
    y = lm_linear(b, "out_proj", y, c->hidden, c->mamba.out_bias);
    lm_pop(b);
    return y;
}

/* ---- the mixer of Mamba ---- */

static lm_value inner_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    switch (c->mamba.inner_norm) {
    case LM_INNER_WEIGHTED:
        return lm_rms_norm(b, name, x, c->mamba.inner_eps);
    case LM_INNER_UNWEIGHTED:
        return lm_rms_unweighted(b, name, "%sWeightlessRMSNorm", x, 1, c->mamba.inner_eps);
    default:
        return x;
    }
}

lm_value lm_mamba(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    uint32_t inner = c->mamba.head_dim, rank = c->mamba.rank, state = c->mamba.state;

    lm_push(b, name, c->mamba.inner_norm == LM_INNER_WEIGHTED ? "%sMambaMixer" : "%sMixer");
    lm_leaf(b, "act", lm_act_class(c->mamba.act));
    lm_value both  = lm_linear(b, "in_proj", x, 2 * inner, c->mamba.in_bias);
    lm_value h     = lm_columns(b, "x", both, 1, 0, inner);
    lm_value z     = lm_columns(b, "z", both, 1, inner, inner);
    h              = lm_function(b, "convolved",
                                 lm_causal_conv(b, "conv1d", h, c->mamba.taps, c->mamba.conv_bias),
                                 c->mamba.act);
    lm_value parts = lm_linear(b, "x_proj", h, rank + 2 * state, false);
    lm_value dt    = inner_norm(b, c, "dt_layernorm", lm_columns(b, "dt", parts, 1, 0, rank));
    lm_value B     = inner_norm(b, c, "b_layernorm", lm_columns(b, "B", parts, 1, rank, state));
    lm_value C     = inner_norm(b, c, "c_layernorm", lm_columns(b, "C", parts, 1, rank + state, state));
    lm_value delta = lm_function(b, "delta", lm_linear(b, "dt_proj", dt, inner, true), LM_ACT_SOFTPLUS);
    lm_value y     = lm_selective_scan(b, "ssm", "A_log", C, B, h, delta);
    y              = lm_add(b, y, lm_scale_by_weight(b, "D", h, inner));
    y = lm_linear(b, "out_proj", lm_gate(b, "gated", z, y, c->mamba.act), c->hidden, c->mamba.out_bias);
    lm_pop(b);
    return y;
}

/* ---- metadata ---- */

/* Read the width of x, 0 if config.json gives only heads and their width. */
static lm_status read_inner(const lm_source *s, const lm_mamba_keys *k, const lm_config *c, uint32_t *inner,
                            lm_error *e)
{
    uint32_t times;

    *inner = 0;
    if (s->kind == LM_GGUF || k->inner)
        LM_TRY(lm_read_u32(s, k->inner, "ssm.inner_size", 1, LM_MAX_WIDTH, s->kind == LM_GGUF ? -1 : 0, inner,
                           e));
    if (*inner || !k->expand)
        return LM_OK;
    LM_TRY(lm_read_u32(s, k->expand, NULL, 1, 64, 2, &times, e));
    if ((uint64_t)times * c->hidden > LM_MAX_WIDTH)
        return lm_wrong(s, k->expand, NULL, e, "%u times hidden_size, %u, is more than %u", times, c->hidden,
                        LM_MAX_WIDTH);
    *inner = times * c->hidden;
    return LM_OK;
}

/* Read the width of a head: a number, or "auto". */
static lm_status read_head_dim(const lm_source *s, const lm_mamba_keys *k, uint32_t inner, lm_config *c,
                               lm_error *e)
{
    lm_meta_value v;
    bool          automatic = s->kind == LM_GGUF ||
                     (lm_meta_get(s->meta, k->head_dim, &v) && v.kind == LM_META_STRING);

    if (automatic && s->kind != LM_GGUF && !lm_view_is(v.s, "auto"))
        return lm_wrong(s, k->head_dim, NULL, e, "\"%.*s\" is neither a number nor \"auto\"",
                        (int)(v.s.size < 64 ? v.s.size : 64), v.s.data);
    c->mamba.head_dim = inner / c->mamba.n_heads;
    if (!automatic)
        LM_TRY(lm_read_u32(s, k->head_dim, NULL, 1, LM_MAX_WIDTH, c->mamba.head_dim, &c->mamba.head_dim, e));
    uint64_t heads = (uint64_t)c->mamba.head_dim * c->mamba.n_heads;
    if (heads > LM_MAX_WIDTH)
        return lm_wrong(s, k->heads, "ssm.inner_size", e, "%u heads of %u dimensions are wider than %u",
                        c->mamba.n_heads, c->mamba.head_dim, LM_MAX_WIDTH);
    if (!heads || (inner && heads != inner))
        return lm_wrong(s, k->heads, "ssm.inner_size", e,
                        "%u heads of %u dimensions do not make a mixer of width %u", c->mamba.n_heads,
                        c->mamba.head_dim, inner);
    return LM_OK;
}

/* Read time_step_limit: [min, max], of which `max` may be infinite. */
static lm_status read_limits(const lm_source *s, const char *key, lm_config *c, lm_error *e)
{
    lm_meta_value list, item;
    double        limits[2];

    c->mamba.dt_min = 0;
    c->mamba.dt_max  = FLT_MAX;
    if (s->kind == LM_GGUF || !lm_meta_has(s->meta, key))
        return LM_OK;
    LM_TRY(lm_meta_array(s->meta, key, 2, &list, e));
    for (uint32_t i = 0; i < 2; i++) {
        if (!lm_meta_at(&list, i, &item) || (item.kind != LM_META_FLOAT && item.kind != LM_META_UINT))
            return lm_wrong(s, key, NULL, e, "entry %u is not a number; two are expected", i);
        limits[i] = item.kind == LM_META_UINT ? (double)item.u : item.f;
    }
    if (!(limits[0] >= 0 && limits[0] <= limits[1] && limits[0] < FLT_MAX))
        return lm_wrong(s, key, NULL, e, "%g to %g is not a range from 0 on", limits[0], limits[1]);
    c->mamba.dt_min = (float)limits[0];
    c->mamba.dt_max  = limits[1] < FLT_MAX ? (float)limits[1] : FLT_MAX;
    return LM_OK;
}

static lm_status read_biases(const lm_source *s, const lm_mamba_keys *k, lm_config *c, lm_error *e)
{
    char     name[64];
    uint32_t layer = 0;

    while (layer + 1 < c->n_layers && !c->stateful[layer])       /* Falcon-H1: a mixer in every layer */
        layer++;
    if (s->kind == LM_GGUF) {
        snprintf(name, sizeof name, "blk.%u.ssm_conv1d.bias", layer);
        c->mamba.conv_bias = !s->tensors || lm_has_tensor(s, name);
        snprintf(name, sizeof name, "blk.%u.ssm_in.bias", layer);
        c->mamba.in_bias = c->mamba.out_bias = lm_has_tensor(s, name);
        return LM_OK;
    }
    LM_TRY(lm_read_bool(s, k->conv_bias, NULL, true, &c->mamba.conv_bias, e));
    LM_TRY(lm_read_bool(s, k->in_bias, NULL, false, &c->mamba.in_bias, e));
    return lm_read_bool(s, k->out_bias, NULL, false, &c->mamba.out_bias, e);
}

lm_status lm_read_mamba2(const lm_source *s, const lm_mamba_keys *k, lm_config *c, lm_error *e)
{
    uint32_t inner;

    LM_TRY(lm_read_u32(s, k->heads, "ssm.time_step_rank", 1, LM_MAX_WIDTH, -1, &c->mamba.n_heads, e));
    LM_TRY(read_inner(s, k, c, &inner, e));
    LM_TRY(read_head_dim(s, k, inner, c, e));
    LM_TRY(lm_read_u32(s, k->state, "ssm.state_size", 1, 4096, -1, &c->mamba.state, e));
    LM_TRY(lm_read_u32(s, k->groups, "ssm.group_count", 1, 4096, -1, &c->mamba.n_groups, e));
    LM_TRY(lm_read_u32(s, k->taps, "ssm.conv_kernel", 2, 64, s->kind == LM_GGUF ? -1 : 4, &c->mamba.taps, e));
    if (c->mamba.n_heads % c->mamba.n_groups || (c->mamba.n_heads * c->mamba.head_dim) % c->mamba.n_groups)
        return lm_wrong(s, k->groups, "ssm.group_count", e, "%u does not divide the number of heads, %u",
                        c->mamba.n_groups, c->mamba.n_heads);
    c->mamba.act = LM_ACT_SILU;
    LM_TRY(read_biases(s, k, c, e));
    return read_limits(s, "time_step_limit", c, e);
}

/* Read the rank of the time step: a number, or "auto", a sixteenth of the hidden width. */
static lm_status read_rank(const lm_source *s, const char *key, lm_config *c, lm_error *e)
{
    lm_meta_value v;

    c->mamba.rank = (c->hidden + 15) / 16;
    if (s->kind == LM_GGUF || !lm_meta_get(s->meta, key, &v) || v.kind != LM_META_STRING)
        return lm_read_u32(s, key, "ssm.time_step_rank", 1, LM_MAX_WIDTH,
                           s->kind == LM_GGUF ? -1 : (int64_t)c->mamba.rank, &c->mamba.rank, e);
    if (lm_view_is(v.s, "auto"))
        return LM_OK;
    return lm_wrong(s, key, NULL, e, "\"%.*s\" is neither a number nor \"auto\"",
                    (int)(v.s.size < 64 ? v.s.size : 64), v.s.data);
}

lm_status lm_read_mamba(const lm_source *s, const lm_mamba_keys *k, lm_config *c, lm_error *e)
{
    c->mamba.n_heads = c->mamba.n_groups = 1;
    LM_TRY(read_inner(s, k, c, &c->mamba.head_dim, e));
    LM_TRY(read_rank(s, k->rank, c, e));
    LM_TRY(lm_read_u32(s, k->state, "ssm.state_size", 1, LM_MAX_SCAN_STATE, -1, &c->mamba.state, e));
    LM_TRY(lm_read_u32(s, k->taps, "ssm.conv_kernel", 2, 64, s->kind == LM_GGUF ? -1 : 4, &c->mamba.taps, e));
    c->mamba.act = c->act;
    c->mamba.dt_max = FLT_MAX;
    return read_biases(s, k, c, e);
}

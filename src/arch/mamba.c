/* mamba.c - Mamba (arXiv 2312.00752) and Falcon Mamba (arXiv 2410.05355): every layer is one mixer with a
 * selective scan; no attention, no MLP. Falcon Mamba normalises the time step, B and C, without weights. */
#include "arch/families.h"
#include "base/number.h"

typedef struct falcon_mamba {
    float eps;                           /* of these norms; GGUF files do not have it */
} falcon_mamba;
LM_OWN_FITS(falcon_mamba);

static const lm_own_number own_numbers[] = {
    { "mixer_rms_eps", NULL, LM_OWN_F32, offsetof(falcon_mamba, eps), 1e-20, 1, 1e-6, false },
    { 0 },
};

static lm_value mixer(lm_builder *b, const lm_config *c, lm_value x)
{
    return lm_mamba(b, c, "mixer", x);
}

static lm_value falcon_build(lm_builder *b, const lm_config *c)
{
    return lm_mamba_frame(b, c, mixer, NULL);
}

static lm_value build(lm_builder *b, const lm_config *c)
{
    char eps[32], printed[64];

    lm_print(printed, sizeof printed, "%u, eps=%s", c->hidden, lm_number_text(eps, lm_decimal(c->norm_eps)));
    return lm_mamba_frame(b, c, mixer, printed);
}

static const lm_mamba_keys mamba_keys = {
    .rank      = "time_step_rank",
    .state     = "state_size",
    .taps      = "conv_kernel",
    .conv_bias = "use_conv_bias",
    .in_bias   = "use_bias",
    .out_bias  = "use_bias",
    .inner     = "intermediate_size",
    .expand    = "expand",
};

static lm_status configure(const lm_source *s, lm_config *c, lm_error *e)
{
    bool normed;

    LM_TRY(lm_read_mamba_sizes(s, c, e));
    LM_TRY(lm_read_bool(s, NULL, "ssm.dt_b_c_rms", false, &normed, e));      /* chooses the family */
    return lm_read_mamba(s, &mamba_keys, c, e);
}

static lm_status falcon_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    const falcon_mamba *own = lm_own(c);

    LM_TRY(configure(s, c, e));
    LM_TRY(lm_read_own(s, own_numbers, c, e));
    c->mamba.inner_norm = LM_INNER_UNWEIGHTED;
    c->mamba.inner_eps  = own->eps;
    return LM_OK;
}

static const lm_name names[] = {
    { "backbone.embeddings", "token_embd" },
    { "backbone.layers.*.norm", "blk.*.attn_norm" },
    LM_MAMBA_NAMES("backbone.layers.*.mixer"),
    { "backbone.norm_f", "output_norm" },
    { "lm_head", "output" },
    { NULL, NULL },
};

static const char *const keys[] = {
    "hidden_act", "layer_norm_epsilon", "state_size", "conv_kernel", "use_conv_bias", "use_bias", "expand",
    "intermediate_size", "time_step_rank", "time_step_scale", "time_step_min", "time_step_max",
    "time_step_init_scheme", "time_step_floor", "rescale_prenorm_residual", "residual_in_fp32", "use_mambapy",
    "use_associative_scan", "d_inner", "d_model", "n_layer", "fused_add_norm", "rms_norm", "ssm_cfg",
    "pad_vocab_size_multiple", "mixer_rms_eps", NULL,
};

static const lm_order orders[] = {
    { "Mixer", "conv1d act in_proj x_proj dt_proj out_proj *" },
    { NULL, NULL },
};

static const lm_default defaults[] = { { "state_size", 16 }, { "tie_word_embeddings", 1 }, { NULL, 0 } };

#define COMMON                                                                                        \
    .mamba = &mamba_keys, .orders = orders, .names = names, .defaults = defaults,                       \
    .pad_token = "0"

const lm_family lm_family_mamba = {
    COMMON,
    .name         = "mamba",
    .class_prefix = "Mamba",
    .build        = build,
    .hf_types     = (const char *const[]){ "mamba", NULL },
    .gguf_archs   = (const char *const[]){ "mamba", NULL },
    .configure    = configure,
    .keys         = keys,
};

const lm_family lm_family_falcon_mamba = {
    COMMON,
    .name         = "falcon_mamba",
    .class_prefix = "FalconMamba",
    .build        = falcon_build,
    .hf_types     = (const char *const[]){ "falcon_mamba", NULL },
    .gguf_archs   = (const char *const[]){ "mamba", NULL },
    .gguf_key     = "ssm.dt_b_c_rms",
    .configure    = falcon_configure,
    .own          = own_numbers,
    .keys         = keys,
};

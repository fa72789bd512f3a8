"""EXAONE 4 and K-EXAONE: norms after attention and MLP, heads of q and k normalised, full layers without positions where others have a window; experts."""

import torch
from transformers import Exaone4Config, Exaone4ForCausalLM, ExaoneMoeConfig, ExaoneMoeForCausalLM

from case import Case
from reference import kv_modulo, uniform_attention

BASE = dict(vocab_size=131, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=96, rms_norm_eps=1e-5, bos_token_id=130, eos_token_id=130, pad_token_id=130,
            rope_parameters={"rope_type": "default", "rope_theta": 1000.0})
FULL, WINDOW = "full_attention", "sliding_attention"


EXPERTS = dict(num_hidden_layers=3, intermediate_size=16, moe_intermediate_size=8, num_experts=6, num_experts_per_tok=2, num_shared_experts=1,
               sliding_window=5, layer_types=[WINDOW, FULL, WINDOW], first_k_dense_replace=1, routed_scaling_factor=2.5)


def routers(case, model, g):
    """Make router scores neither saturated nor tied, and their corrections large enough to change the choice."""
    with torch.no_grad():
        for m in model.modules():
            if type(m).__name__ == "ExaoneMoeTopkRouter":
                m.weight.mul_(1.5)
                m.e_score_correction_bias.copy_(torch.randn(m.e_score_correction_bias.shape, generator=g) * 0.3)


def uncorrected(model):
    for m in model.modules():
        if type(m).__name__ == "ExaoneMoeTopkRouter":
            m.e_score_correction_bias.zero_()


def no_shared(model):
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "shared_experts.down_proj" in name:
                p.zero_()


def case(name, shows, flips, family="exaone4", **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    config, model = (Exaone4Config, Exaone4ForCausalLM) if family == "exaone4" else (ExaoneMoeConfig, ExaoneMoeForCausalLM)
    if family == "exaone_moe":
        options, kw = {"init": routers, **options}, {**EXPERTS, **kw}
        flips = {"not corrected": uncorrected, "no shared expert": no_shared, "scaled by 1": {"routed_scaling_factor": 1.0}, **flips}
    return Case(name=name, family=family, config=config, model=model, shows=shows,
                flips={"attention uniform": uniform_attention, **flips}, kwargs={**BASE, **kw}, **options)


CASES = [
    case("plain", "no window, rotation in all layers with llama3's scaling, untied", {
        "kv modulo": kv_modulo, "default": {"rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}}}, rows=(12,),
        sliding_window=None, layer_types=[FULL] * 2, drop=("sliding_window_pattern",),
        rope_parameters={"rope_type": "llama3", "rope_theta": 1000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 16}),
    case("windows", "a window of 5 keys in every other layer, the others do not rotate; tied, BF16", {
        "window in all": {"layer_types": [WINDOW] * 2}, "no window": {"sliding_window": 64}, "rotated everywhere": {"sliding_window": None, "layer_types": [FULL] * 2}},
        rows=(14,), sliding_window=5, sliding_window_pattern=2, tie_word_embeddings=True, dtype="BF16", head_dim=8, drop=("layer_types",), gguf=False,
        gguf_note="llama.cpp reads windows in models with 64 layers only, and no heads of another width"),
    case("one-group", "a plain MLP, two of four experts and a shared one; windows in two of three layers, which alone rotate; untied", {
        "not renormalised": {"norm_topk_prob": False}, "window in all": {"layer_types": [WINDOW] * 3}}, family="exaone_moe", rows=(10,), num_experts=4, hidden_size=16,
        drop=("mlp_layer_types", "sliding_window_pattern"), respell={"scoring_func": "sigmoid"}),
    case("groups", "experts in the first two layers, two of three groups, not renormalised, two shared experts; tied, BF16", {
        "renormalised": {"norm_topk_prob": True}, "one group": {"topk_group": 1}}, family="exaone_moe", rows=(14,),
        n_group=3, topk_group=2, num_shared_experts=2, norm_topk_prob=False, mlp_layer_types=["sparse", "sparse", "dense"],
        tie_word_embeddings=True, dtype="BF16", gguf=False, gguf_note="llama.cpp knows plain MLPs in the first layers only"),
]

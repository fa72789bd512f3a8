"""Families with mixtures of experts behind windows: AFMoE, Laguna, MiMo V2 Flash, Cohere 2 with experts, Granite with windows and experts."""

import torch
from transformers import (AfmoeConfig, AfmoeForCausalLM, Cohere2MoeConfig, Cohere2MoeForCausalLM, GraniteMoeSWAConfig, GraniteMoeSWAForCausalLM,
                          LagunaConfig, LagunaForCausalLM, MiMoV2FlashConfig, MiMoV2FlashForCausalLM)

from case import Case
from families.deepseek import without
from families.granite_swa import no_sinks
from reference import kv_modulo, no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=16, intermediate_size=12, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
            max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=130, eos_token_id=130, pad_token_id=0, tie_word_embeddings=False, sliding_window=5)
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
YARN = {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 4.0, "original_max_position_embeddings": 6, "beta_fast": 64.0, "beta_slow": 1.0}
FULL, WINDOW = "full_attention", "sliding_attention"
WIDE = {"no windows": {"sliding_window": 60}}
CORRECTED = {"not corrected": without("bias")}
ONE = {"one expert": {"num_experts_per_tok": 1}}


def lively(case, model, g):
    """Make router scores neither saturated nor tied, and sinks of either sign."""
    for name, p in model.named_parameters():
        if name.endswith(("mlp.gate.weight", "router.gate.weight", "block_sparse_moe.router.weight")):
            p.data.mul_(1.5)
        if name.endswith("sinks"):
            p.data.copy_(torch.randn(p.shape, generator=g))
    for name, b in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            b.data.copy_(0.25 * torch.randn(b.shape, generator=g))


def case(kind, name, family, shows, flips, **kw):
    options = {"init": lively, "rows": (14,)} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    flips = {k: f for k, f in {"attention uniform": uniform_attention, "kv modulo": kv_modulo, **flips}.items() if f}
    return Case(name=name, family=family, config=kind[0], model=kind[1], shows=shows, flips=flips, kwargs={**BASE, **kw}, **options)


def rotated(m):
    """Let the layers of AFMoE without a window rotate, too."""
    for layer in m.model.layers:
        layer.self_attn.is_local_attention = True


def afmoe(name, shows, flips, **kw):
    flips = {**WIDE, **CORRECTED, **ONE, "no shared expert": without("shared_experts.down_proj"), "not scaled": {"route_scale": 1.0},
             "gates at a half": without("gate_proj.weight"), "all layers rotate": rotated, **flips}
    mixture = dict(moe_intermediate_size=8, num_experts=5, num_experts_per_tok=2, num_shared_experts=1, num_dense_layers=1, route_scale=1.8,
                   rope_parameters=PLAIN)
    return case((AfmoeConfig, AfmoeForCausalLM), name, "afmoe", shows, flips, **{**mixture, **kw})


def laguna(name, shows, flips, **kw):
    flips = {**CORRECTED, **ONE, "no shared expert": without("shared_experts.down_proj"), "not scaled": {"moe_routed_scaling_factor": 1.0},
             "gates at ln 2": without("g_proj"), **flips}
    mixture = dict(moe_intermediate_size=8, num_experts=5, num_experts_per_tok=2, shared_expert_intermediate_size=6, moe_routed_scaling_factor=2.5)
    return case((LagunaConfig, LagunaForCausalLM), name, "laguna", shows, flips, spelling="v5", **{**mixture, **kw})


def mimo(name, shows, flips, **kw):
    flips = {**WIDE, "not corrected": without("e_score_correction_bias"), **ONE, "no sinks": no_swa_sinks, **flips}
    mixture = dict(moe_intermediate_size=8, n_routed_experts=6, num_experts_per_tok=2, num_hidden_layers=3, num_key_value_heads=1, head_dim=12, v_head_dim=8)
    return case((MiMoV2FlashConfig, MiMoV2FlashForCausalLM), name, "mimo_v2_flash", shows, flips, spelling="v5", **{**mixture, **kw})


def no_swa_sinks(model):
    for layer in model.model.layers:
        if layer.self_attn.sinks is not None:
            layer.self_attn.sinks.data.fill_(-1e9)


def cohere(name, shows, flips, **kw):
    mixture = dict(intermediate_size=8, prefix_dense_intermediate_size=12, num_experts=5, num_experts_per_tok=2, logit_scale=0.5, rope_parameters=PLAIN)
    kw = {**mixture, **kw}
    return case((Cohere2MoeConfig, Cohere2MoeForCausalLM), name, "cohere2_moe", shows, {**WIDE, **ONE, **flips}, **kw)


def granite(name, shows, flips, **kw):
    mixture = dict(intermediate_size=8, num_local_experts=5, num_experts_per_tok=2, num_hidden_layers=3, embedding_multiplier=3.0, residual_multiplier=0.8,
                   attention_multiplier=0.4, logits_scaling=2.0, rope_parameters=PLAIN, pad_token_id=130)
    kw = {"head_dim": 4, **mixture, **kw}
    return case((GraniteMoeSWAConfig, GraniteMoeSWAForCausalLM), name, "granitemoe_swa", shows, {**WIDE, **ONE, "no sinks": no_sinks, **flips}, **kw)


def further(stored):
    """Tensors of layers that predict further tokens."""
    return {f"model.mtp.layers.{i}.enorm.weight": torch.ones(16) for i in range(2)}


SWA = {"swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "swa_head_dim": 12, "swa_v_head_dim": 8, "rope_theta": 5000000, "swa_rope_theta": 10000,
       "partial_rotary_factor": 0.334, "hybrid_layer_pattern": [0, 1, 1], "moe_layer_freq": [0, 1, 1], "sliding_window": 5, "sliding_window_size": 4,
       "layernorm_epsilon": 1e-5, "topk_method": "noaux_tc", "scoring_func": "sigmoid", "n_shared_experts": None, "routed_scaling_factor": None,
       "add_swa_attention_sink_bias": True, "add_full_attention_sink_bias": False}

CASES = [
    afmoe("trinity", "norms on both sides, a gate for every lane, three layers with a window that rotate and one that does neither, corrected sigmoids, an "
          "embedding scaled by the root of its width; published members of config.json", {"embedding not scaled": {"mup_enabled": False}}, mup_enabled=True,
          rows=(9,), drop=("layer_types",), raw_config=True,
          respell={"route_norm": True, "score_func": "sigmoid", "n_group": 1, "topk_group": 1, "num_expert_groups": 1, "num_limited_groups": 1}),
    afmoe("listed", "full layers in a list, two shared experts, two plain MLPs, biases, YaRN past the trained length, tied, BF16, sharded", {
          "no biases": no_bias("self_attn"), "default": {"rope_parameters": PLAIN}}, layer_types=[FULL, WINDOW, WINDOW], num_hidden_layers=3,
          num_shared_experts=2, num_dense_layers=2, attention_bias=True, rope_parameters={**YARN, "rope_theta": 10000.0}, tie_word_embeddings=True,
          dtype="BF16", shard_bytes=16000, taps=False, gguf=False, gguf_note="llama.cpp always scales the embedding, and loads no bias of o_proj"),
    laguna("heads", "a gate for each head by softplus, more heads in layers with a window, half of each head rotated under YaRN in the others, all with another "
           "base in these; a plain MLP, then a shared and five routed experts", {
           **WIDE, "one rotation": {"rope_parameters": {FULL: {**PLAIN, "partial_rotary_factor": 0.5}, WINDOW: PLAIN}}}, num_hidden_layers=3,
           layer_types=[FULL, WINDOW, WINDOW], num_attention_heads=2, num_attention_heads_per_layer=[2, 4, 4], gating="per-head",
           rope_parameters={FULL: {**YARN, "partial_rotary_factor": 0.5}, WINDOW: {**PLAIN, "partial_rotary_factor": 1.0}},
           respell={"gating_types": ["per_head"] * 3, "norm_topk_prob": True}),
    laguna("lanes", "a gate for every lane, no windows, two plain MLPs", {"kv modulo": kv_modulo}, num_hidden_layers=3, layer_types=[FULL] * 3,
           mlp_layer_types=["dense", "dense", "sparse"], gating="per-element", rope_parameters={FULL: {**PLAIN, "partial_rotary_factor": 0.5}}, rows=(12,),
           drop=("sliding_window",), raw_config=True, dtype="BF16", taps=False),
    laguna("capped", "capped logits of the router, a mixture before a plain MLP, the rotations of the class, biases, tied, BF16", {
           **WIDE, "no cap": {"moe_router_logit_softcapping": 0.0}, "no biases": no_bias("self_attn")}, num_hidden_layers=3,
           layer_types=[WINDOW, FULL, WINDOW], mlp_layer_types=["sparse", "dense", "sparse"], moe_router_logit_softcapping=0.7, attention_bias=True,
           tie_word_embeddings=True, dtype="BF16", taps=False, drop=("rope_parameters", "num_attention_heads_per_layer"), gguf=False,
           gguf_note="llama.cpp knows no cap, and its plain MLPs come first"),
    mimo("flash", "values narrower than keys and scaled, a third of each head rotated, sinks, twice as many key/value heads and another base in layers with a "
         "window; tensors of layers that predict further tokens; published members of config.json", {"values not scaled": {"attention_value_scale": None}},
         drop=("layer_types", "mlp_layer_types", "rope_parameters", "rms_norm_eps"), respell=SWA, raw_config=True, extra=further),
    mimo("listed", "kinds in lists, shares of rotated lanes by kind, groups of experts, weights not renormalised but scaled, biases, BF16", {
         "no biases": no_bias("self_attn"), "one group": {"topk_group": 1}, "renormalised": {"norm_topk_prob": True}, "not scaled": {"routed_scaling_factor": 1.0}},
         layer_types=[WINDOW, FULL, WINDOW], mlp_layer_types=["sparse", "dense", "sparse"], attention_value_scale=None, attention_bias=True,
         rope_parameters={FULL: {**PLAIN, "partial_rotary_factor": 0.5}, WINDOW: {**PLAIN, "rope_theta": 100.0, "partial_rotary_factor": 0.334}},
         n_group=3, topk_group=2, norm_topk_prob=False, routed_scaling_factor=1.5, dtype="BF16", gguf=False,
         gguf_note="llama.cpp rotates as many lanes in all layers, and always renormalises"),
    mimo("wide", "values wider than keys; no layer has a window, whose key/value heads three heads could not share; BF16", {
         "values not scaled": {"attention_value_scale": None}, "no sinks": None, "no windows": None, "kv modulo": None}, layer_types=[FULL] * 2,
         mlp_layer_types=["dense", "sparse"], num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=3, v_head_dim=16,
         rope_parameters={FULL: {**PLAIN, "partial_rotary_factor": 0.5}, WINDOW: {**PLAIN, "partial_rotary_factor": 0.5}}, dtype="BF16", taps=False,
         **{"gguf": False, "gguf_note": "the converter reads published members of config.json"}),
    cohere("north", "RMSNorms before parallel attention and MLP, a plain MLP without a window that rotates, sigmoids of the chosen experts not normalised, scaled "
           "logits", {"not scaled": {"logit_scale": 1.0}, "normalised": {"norm_topk_prob": True},
                      "the first layer does not rotate": {"prefix_dense_sliding_window_pattern": 2}}, num_hidden_layers=3, layer_types=[FULL, WINDOW, WINDOW],
           mlp_layer_types=["dense", "sparse", "sparse"], expert_selection_fn="sigmoid", norm_topk_prob=False, raw_config=True,
           respell={"first_k_dense_replace": 1, "use_parallel_block": True, "use_qk_norm": False}),
    cohere("shared", "LayerNorms, softmax scores, two shared experts that are averaged with the others; no plain MLP; tied", {
           "sum": {"shared_expert_combination_strategy": "sum"}, "no shared expert": without("shared_experts.down_proj")}, num_shared_experts=2,
           num_hidden_layers=2, sliding_window_pattern=2, rms_norm_eps=None, tie_word_embeddings=True, dtype="BF16", drop=("mlp_layer_types", "layer_types")),
    cohere("sum", "shared experts added, a pattern of windows of the first two layers, after which that of the others begins, biases, BF16, sharded", {
           "average": {"shared_expert_combination_strategy": "average"}, "no biases": no_bias("self_attn")}, num_shared_experts=1, rms_norm_eps=None,
           shared_expert_combination_strategy="sum", layer_types=[WINDOW, FULL, WINDOW, FULL], mlp_layer_types=["dense", "dense", "sparse", "sparse"],
           prefix_dense_sliding_window_pattern=2, sliding_window_pattern=2, attention_bias=True, dtype="BF16", shard_bytes=16000, taps=False,
           drop=("layer_types", "mlp_layer_types"), respell={"first_k_dense_replace": 2}, gguf=False,
           gguf_note="llama.cpp averages, rotates in the first layers, and its converter refuses biases"),
    granite("shared", "sinks and windows of granite_swa, experts whose gate and up are one tensor, also in GGUF, and a shared MLP", {
            "no shared MLP": without("shared_mlp.output_linear")}, shared_intermediate_size=12, drop=("layer_types", "layer_rope_theta")),
    granite("bases", "no shared MLP, two bases of the rotation and a layer without, biases, tied, BF16, sharded", {
            "one base": {"layer_rope_theta": [10000.0, 0, 10000.0]}, "no biases": no_bias("self_attn")}, layer_types=[WINDOW, FULL, WINDOW],
            layer_rope_theta=[10000.0, 0, 100.0], attention_bias=True, tie_word_embeddings=True, dtype="BF16", shard_bytes=12000, gguf=False,
            gguf_note="GGUF has no form for two bases"),
]

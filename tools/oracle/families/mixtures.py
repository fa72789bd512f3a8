"""Families whose layers have mixtures of experts: MiniMax M2, Hunyuan-A13B, Hy3, ERNIE 4.5 with experts, dots1."""

import torch
from transformers import (Dots1Config, Dots1ForCausalLM, Ernie4_5_MoeConfig, Ernie4_5_MoeForCausalLM, HunYuanMoEV1Config, HunYuanMoEV1ForCausalLM,
                          HYV3Config, HYV3ForCausalLM, MiniMaxM2Config, MiniMaxM2ForCausalLM)

from case import Case
from families.deepseek import without
from families.hunyuan import normalised_first
from families.olmo2 import by_head
from reference import kv_modulo, no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
            max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=130, eos_token_id=130, pad_token_id=0, tie_word_embeddings=False)
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
HALF = {**PLAIN, "partial_rotary_factor": 0.5}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 6}
FULL, WINDOW = "full_attention", "sliding_attention"


def lively(case, model, g):
    """Make router scores neither saturated nor tied, and their corrections large enough to change the choice."""
    share = 0.02 if case.family == "ernie4_5_moe" else 0.25          # of softmax scores, which are smaller than sigmoids
    for name, p in model.named_parameters():
        if name.endswith(("mlp.gate.weight", "gate.wg.weight")):
            p.data.mul_(1.5)
    for name, b in [*model.named_buffers(), *model.named_parameters()]:
        if name.endswith("e_score_correction_bias"):
            x = share * torch.randn(b.shape, generator=g)
            b.data.copy_(x.bfloat16().float() if case.dtype == "BF16" else x)


def case(kind, name, family, shows, flips, **kw):
    options = {"init": lively, "spelling": "v4"} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    flips = {k: f for k, f in {"attention uniform": uniform_attention, "kv modulo": kv_modulo, **flips}.items() if f}
    return Case(name=name, family=family, config=kind[0], model=kind[1], shows=shows, flips=flips, kwargs={**BASE, **kw}, **options)


CORRECTED = {"not corrected": without("e_score_correction_bias")}
SHARED = {"no shared expert": without("shared_experts.down_proj")}


def minimax(name, shows, flips, **kw):
    flips = {"norms of heads": by_head, **CORRECTED, "one expert": {"num_experts_per_tok": 1}, **flips}
    mixture = dict(intermediate_size=8, num_local_experts=6, num_experts_per_tok=2)
    return case((MiniMaxM2Config, MiniMaxM2ForCausalLM), name, "minimax_m2", shows, flips, **{**mixture, **kw})


def hunyuan(name, shows, flips, **kw):
    flips = {"normalised first": normalised_first, "no shared MLP": without("shared_mlp.down_proj"), "one expert": {"moe_topk": 1}, **flips}
    mixture = dict(intermediate_size=8, num_experts=5, moe_topk=2, eod_token_id=130)
    return case((HunYuanMoEV1Config, HunYuanMoEV1ForCausalLM), name, "hunyuan_v1_moe", shows, flips, **{**mixture, **kw})


def hy3(name, shows, flips, **kw):
    flips = {**CORRECTED, **SHARED, "not scaled": {"router_scaling_factor": 1.0}, "one expert": {"num_experts_per_tok": 1}, **flips}
    mixture = dict(moe_intermediate_size=8, num_experts=6, num_experts_per_tok=2, router_scaling_factor=1.8)
    return case((HYV3Config, HYV3ForCausalLM), name, "hy_v3", shows, flips, **{**mixture, **kw})


def ernie(name, shows, flips, **kw):
    flips = {**CORRECTED, "one expert": {"moe_k": 1}, **flips}
    mixture = dict(moe_intermediate_size=8, moe_num_experts=6, moe_k=2, moe_num_shared_experts=1)
    kw = {**mixture, **kw}
    return case((Ernie4_5_MoeConfig, Ernie4_5_MoeForCausalLM), name, "ernie4_5_moe", shows, flips, plain_vocab=True, **kw)


def dots(name, shows, flips, **kw):
    flips = {**CORRECTED, **SHARED, "not scaled": {"routed_scaling_factor": 1.0}, "one expert": {"num_experts_per_tok": 1}, **flips}
    mixture = dict(moe_intermediate_size=8, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1,
                   routed_scaling_factor=2.5, norm_topk_prob=True)
    return case((Dots1Config, Dots1ForCausalLM), name, "dots1", shows, flips, **{**mixture, **kw})


CASES = [
    minimax("half", "q and k normalised over all heads, half of each head rotated in halves, corrected sigmoids, published members of config.json", {
        "whole heads": {"rope_parameters": PLAIN, "rotary_dim": 8}}, rows=(12,), rope_parameters=HALF, rotary_dim=4, drop=("partial_rotary_factor",),
        respell={"rotary_dim": 4, "use_qk_norm": True, "use_routing_bias": True, "qk_norm_type": "per_layer", "scoring_func": "sigmoid",
                 "attn_type_list": [1, 1], "num_mtp_modules": 3, "shared_intermediate_size": 0}),
    minimax("whole", "whole heads under YaRN past the trained length, one key/value head, tied, BF16", {
        "default": {"rope_parameters": PLAIN}, "kv modulo": None}, rows=(16,), rope_parameters=YARN, num_key_value_heads=1, tie_word_embeddings=True,
        dtype="BF16", gguf=False, gguf_note="llama.cpp requires an untied head in this family"),
    hunyuan("lists", "a shared MLP in every layer, heads normalised after the rotation, numbers of experts in lists", {}, rows=(12,),
            rope_parameters=PLAIN, head_dim=4, plain_vocab=True, raw_config=True,
            respell={"moe_topk": [2, 2], "moe_intermediate_size": [8, 8], "num_shared_expert": [1, 1]}),
    hunyuan("alpha", "a base stretched by alpha, biases, tied, BF16", {"no biases": no_bias("self_attn"), "no alpha": {"rope_parameters": PLAIN}},
            rows=(14,), attention_bias=True, tie_word_embeddings=True, dtype="BF16", max_position_embeddings=128,
            rope_parameters={**PLAIN, "rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0}, gguf=False,
            gguf_note="llama.cpp's converter refuses alpha unless heads have 128 dimensions"),
    hy3("flash", "a plain MLP, then mixtures with a shared expert and scaled weights, heads normalised before the rotation", {}, rows=(12,),
        num_hidden_layers=3, rope_parameters={**PLAIN, "rope_theta": 11158840.0}, drop=("mlp_layer_types",),
        respell={"first_k_dense_replace": 1, "route_norm": True, "qk_norm": True}),
    hy3("listed", "a plain MLP after a mixture, biases, two shared experts, tied, BF16", {
        "no biases": no_bias("self_attn"), "no biases of the MLP": no_bias("mlp")}, rows=(14,), mlp_layer_types=["sparse", "dense"],
        num_shared_experts=2, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, dtype="BF16", rope_parameters=PLAIN, gguf=False,
        gguf_note="llama.cpp loads no biases of this family"),
    ernie("experts", "softmax scores whose correction counts for the choice only, adjacent lanes rotated, two shared experts behind a plain MLP; tied "
          "as the file need not say", {**SHARED}, rows=(12,), intermediate_size=32, num_hidden_layers=3, moe_num_shared_experts=2, head_dim=4,
          tie_word_embeddings=True, drop=("tie_word_embeddings", "head_dim"), rope_parameters={**PLAIN, "rope_theta": 500000.0}),
    ernie("sparse", "mixtures in every other layer up to the fourth, no shared expert, biases everywhere, untied, BF16", {
        "no biases": no_bias("self_attn"), "no biases of the MLP": no_bias("mlp"), "no bias of the head": no_bias("lm_head"),
        "mixtures to the end": {"moe_layer_end_index": -1}}, rows=(14,), use_bias=True, num_hidden_layers=6, moe_num_shared_experts=0, head_dim=4,
        moe_layer_start_index=1, moe_layer_end_index=4, moe_layer_interval=2, dtype="BF16", rope_parameters=PLAIN, drop=("head_dim",), gguf=False,
        gguf_note="llama.cpp loads no biases of this family, and has mixtures up to the last layer"),
    dots("plain", "a plain MLP, then mixtures with one shared expert, every head with its own keys", {"kv modulo": None},
         rows=(12,), num_key_value_heads=4, rope_parameters=PLAIN, drop=("layer_types",), respell={"scoring_func": "sigmoid"}),
    dots("windows", "windows from the second layer on, groups of experts, weights not renormalised, biases, tied, BF16; the published name of the scores", {
        "no biases": no_bias("self_attn"), "no window": {"sliding_window": 64}, "one group": {"topk_group": 1},
        "renormalised": {"norm_topk_prob": True}}, rows=(14,), num_hidden_layers=3, sliding_window=5, max_window_layers=1, n_group=3, topk_group=2,
        norm_topk_prob=False, attention_bias=True, tie_word_embeddings=True, dtype="BF16", drop=("layer_types",), respell={"scoring_func": "noaux_tc"},
        rope_parameters=PLAIN, gguf=False, gguf_note="llama.cpp reads no windows, groups of experts and biases in this family"),
]

"""GLM-4.5 to 4.7: half of each head's lanes rotated, DeepSeek-V3's mixtures; GLM-4.7-Flash: the same with latent attention."""

import torch
from transformers import Glm4MoeConfig, Glm4MoeForCausalLM, Glm4MoeLiteConfig, Glm4MoeLiteForCausalLM

from case import Case
from families.bailing import round_corrections
from families.deepseek import CORRECTED, routers, without
from reference import uniform_attention

MIXTURE = dict(vocab_size=131, hidden_size=16, intermediate_size=20, moe_intermediate_size=8, num_hidden_layers=2, num_attention_heads=4,
               n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=3, routed_scaling_factor=2.5, max_position_embeddings=256,
               rms_norm_eps=1e-5, bos_token_id=130, eos_token_id=130)
BASE = {**MIXTURE, "num_key_value_heads": 2, "head_dim": 12, "attention_bias": True, "partial_rotary_factor": 0.5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}}
LATENT = {**MIXTURE, "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 12, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4,
          "v_head_dim": 7, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
FLIPS = {"attention uniform": uniform_attention, **CORRECTED, "not renormalised": {"norm_topk_prob": False},
         "scale": {"routed_scaling_factor": 1.0}, "fewer experts": {"num_experts_per_tok": 2}}


def further(model):
    """Return the tensors of a layer that predicts the token after the next, as the published files have it."""
    last, width = len(model.model.layers), model.config.hidden_size
    layer = f"model.layers.{last}."
    tensors = {layer + n: p.data.clone() for n, p in [*model.model.layers[-1].named_parameters(), *model.model.layers[-1].named_buffers()]
               if "mlp.experts" not in n}
    experts = model.model.layers[-1].mlp.experts
    for i in range(model.config.n_routed_experts):
        gate, up = experts.gate_up_proj.data[i].chunk(2)
        for name, w in ("gate_proj", gate), ("up_proj", up), ("down_proj", experts.down_proj.data[i]):
            tensors[f"{layer}mlp.experts.{i}.{name}.weight"] = w.clone()
    norm = model.model.norm.weight.data
    tensors |= {layer + n: norm.clone() for n in ("enorm.weight", "hnorm.weight", "shared_head.norm.weight")}
    return tensors | {layer + "eh_proj.weight": torch.cat([torch.eye(width)] * 2, 1)}


def norms_at_one(model):
    for name, p in model.named_parameters():
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            p.data.fill_(1)


def lively(case, model, g):
    """Make the routers' scores differ; round what the file stores in 16 bits and the model does not count as a parameter."""
    routers(case, model, g)
    round_corrections(case, model)


def case(name, config, model, shows, flips={}, **kw):
    options = {"init": lively, "plain_vocab": True} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    flips = {k: f for k, f in {**FLIPS, **flips}.items() if f}
    return Case(name=name, config=config, model=model, shows=shows, flips=flips, kwargs=kw, **options)


def full(name, shows, flips={}, **kw):
    part = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}
    flips = {"all lanes rotate": {"rope_parameters": part}, "no biases": without("proj.bias"), **flips}
    return case(name, Glm4MoeConfig, Glm4MoeForCausalLM, shows, flips, family="glm4_moe", **{**BASE, **kw})


def flash(name, shows, flips={}, **kw):
    return case(name, Glm4MoeLiteConfig, Glm4MoeLiteForCausalLM, shows, flips, family="glm4_moe_lite", spelling="v5", **{**LATENT, **kw})


CASES = [
    full("air", "biases of q, k and v, half of each head rotated in halves, a head width that is not d / H, corrected sigmoids; a layer past "
         "the last", rows=(24, 3), extra=further, respell={"num_nextn_predict_layers": 1}),
    full("normed", "norms of heads, no biases, groups of experts, weights not renormalised, two dense layers, two shared experts, BF16, tied",
         {"no biases": None, "not renormalised": None, "renormalised": {"norm_topk_prob": True}, "no groups": {"n_group": 1, "topk_group": 1},
          "norms of heads at one": norms_at_one},
         use_qk_norm=True, attention_bias=False, n_group=4, topk_group=2, norm_topk_prob=False, first_k_dense_replace=2, n_shared_experts=2,
         num_hidden_layers=3, dtype="BF16", tie_word_embeddings=True, rows=(12,), gguf=False, gguf_note="llama.cpp computes no groups of experts"),
    flash("flash", "latent attention with latent queries, pairs; the published members of config.json; a layer past the last",
          {"halves": {"rope_interleave": False}}, rows=(24, 3), extra=further, drop=("mlp_layer_types",),
          respell={"first_k_dense_replace": 1, "num_nextn_predict_layers": 1, "topk_method": "noaux_tc", "partial_rotary_factor": 1.0},
          raw_config=True, peer=False, gguf_note="llama.cpp takes softmax where the file has no expert_gating_func, unless it has 47 layers and "
          "154880 tokens; the correction shows that scores are sigmoids"),
    flash("listed", "plain queries, a plain MLP after a mixture by mlp_layer_types, halves, biases, groups, BF16",
          {"pairs": {"rope_interleave": True}, "no biases": without("proj.bias")}, q_lora_rank=None,
          num_hidden_layers=3, rope_interleave=False, mlp_layer_types=["sparse", "dense", "sparse"], n_group=4, topk_group=2, attention_bias=True, rows=(12,), dtype="BF16",
          gguf=False, gguf_note="GGUF has no keys for plain layers after a mixture, halves and biases"),
]

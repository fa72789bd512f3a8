"""Ling 3: delta attention whose decay has a lower bound, latent attention with a gate for each head, experts with a shared one."""

import re

import torch
from transformers import BailingHybridConfig, BailingHybridForCausalLM

from case import Case
from families.kimi_linear import FLIPS, lively

BASE = dict(vocab_size=135, hidden_size=32, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4,
            kv_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=12, head_dim=8, short_conv_kernel_size=4, layer_group_size=3,
            num_local_experts=8, num_experts_per_tok=3, moe_intermediate_size=16, n_shared_experts=1, routed_scaling_factor=1.7, n_group=2,
            topk_group=1, first_k_dense_replace=1, max_position_embeddings=256, rms_norm_eps=1e-6, bos_token_id=134, eos_token_id=134,
            pad_token_id=0, num_mtp_layers=0, rope_theta=10000.0, rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
KDA = (".q_conv1d", ".b_proj", ".f_proj")


def round_corrections(case, model):
    """Round what the file stores in 16 bits and the model does not count as a parameter."""
    with torch.no_grad():
        for name, b in model.named_buffers():
            if case.dtype == "BF16" and name.endswith("e_score_correction_bias"):
                b.copy_(b.bfloat16().float())


def rounded(case, model, g):
    lively(case, model, g)
    round_corrections(case, model)


def published(tensors):
    """The delta attention's last product is o_proj in the published files; transformers writes dense in every layer."""
    delta = {n.split(".attention.")[0] for n in tensors if any(w in n for w in KDA)}
    return {n.replace(".dense.", ".o_proj.") if n.split(".attention.")[0] in delta else n: x for n, x in tensors.items()}


def as_published(kw):
    """The members of config.json that the published files have in place of transformers' own."""
    return {"architectures": ["BailingMoeV3ForCausalLM"], "n_group": kw["n_group"], "num_experts_per_tok": kw["num_experts_per_tok"],
            "norm_topk_prob": kw.get("norm_topk_prob", True), "max_position_embeddings": kw["max_position_embeddings"], "head_dim": kw["head_dim"],
            "score_function": "sigmoid", "no_kda_lora": True, "use_mla_nope": False, "use_qk_norm": True, "q_lora_rank": None,
            "gated_attention_proj_granularity_type": "head_wise", "moe_router_enable_expert_bias": True, "rope_theta": kw["rope_theta"],
            "moe_shared_expert_intermediate_size": kw["moe_intermediate_size"] * kw["n_shared_experts"], "rope_scaling": None}


OWN = ("layer_types", "mlp_layer_types", "linear_head_dim", "linear_num_heads", "linear_conv_kernel_dim", "qk_head_dim", "num_expert_group",
       "num_experts_per_token", "moe_renormalize", "model_max_length", "rope_parameters")


def module(kw):
    """Return a function from a path in transformers to that in the published files."""
    def renamed(path):
        path = path.replace(".forget_gate", "").replace("model.embed_tokens", "model.word_embeddings").replace(".self_attn", ".attention")
        layer = re.match(r"model\.layers\.(\d+)\.", path)
        full = layer and (int(layer[1]) + 1) % kw["layer_group_size"] == 0
        return path.replace(".o_proj", ".dense") if full else path
    return renamed


def open_gates(model):
    """Leave the gates of the heads of latent attention out."""
    with torch.no_grad():
        for m in model.modules():
            if type(m).__name__.endswith("HybridAttention"):
                m.g_proj.weight.zero_()


def case(name, shows, flips={}, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    kw = {**BASE, **kw}
    flips = {**FLIPS, "no gates": open_gates, "all groups": {"topk_group": 2}, "no bound": {"kda_safe_gate": False},
             "another bound": {"kda_lower_bound": -2.0}, **flips}
    return Case(name=name, family="bailing_hybrid", config=BailingHybridConfig, model=BailingHybridForCausalLM, shows=shows, init=rounded,
                flips={k: f for k, f in flips.items() if f}, spelling="v5", module=module(kw), kwargs=kw, stored=published, **options)


CASES = [
    case("mixed", "the published spelling; decays with a lower bound, gates of heads, groups of experts", rows=(24, 3), drop=OWN,
         respell=as_published(BASE), raw_config=True),
    case("unbounded", "transformers' own spelling: decays without a bound, another width of heads, a plain MLP after a mixture, all layers but "
         "one with delta attention, two shared experts, weights not normalised, biases, BF16",
         {"no bound": None, "another bound": None, "bound": {"kda_safe_gate": True}, "weights not normalised": None, "all groups": None,
          "normalised": {"norm_topk_prob": True}}, rows=(12,), num_hidden_layers=3, layer_group_size=2, head_dim=12, kda_safe_gate=False,
         mlp_layer_types=["sparse", "dense", "sparse"], n_group=1, topk_group=1, n_shared_experts=2, norm_topk_prob=False, attention_bias=True,
         dtype="BF16", gguf=False, gguf_note="GGUF has no keys for plain layers after a mixture; llama.cpp has only decays with a bound"),
]

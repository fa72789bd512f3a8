"""Mistral Small 4: latent attention whose queries have a temperature, softmax routers over groups of experts, fused experts."""

import torch
from transformers import Mistral4Config, Mistral4ForCausalLM

from case import Case
from reference import uniform_attention

YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "original_max_position_embeddings": 6, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.4}
BASE = dict(vocab_size=131, hidden_size=20, intermediate_size=20, moe_intermediate_size=8, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=2, kv_lora_rank=12, q_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=6, v_head_dim=8, n_routed_experts=6,
            n_shared_experts=1, num_experts_per_tok=3, max_position_embeddings=48, rms_norm_eps=1e-6, bos_token_id=130, eos_token_id=130,
            rope_parameters=YARN)


def rope(**kw):
    return {"rope_parameters": YARN | kw}


def routers(case, model, g):
    """Make router scores neither saturated nor tied."""
    for name, p in model.named_parameters():
        if name.endswith("mlp.gate.weight"):
            p.data.copy_(0.5 * torch.randn(p.shape, generator=g))


def tempered(case, path):
    """Add what the converter does not write: the temperature, as it does from Mistral's own form of the configuration."""
    import gguf as g
    from convert import rewrite
    rope = case.kwargs["rope_parameters"]
    rewrite(path, keys=[("mistral4.attention.temperature_scale", rope["llama_4_scaling_beta"], g.GGUFValueType.FLOAT32),
                        ("mistral4.attention.temperature_length", rope["original_max_position_embeddings"], g.GGUFValueType.UINT32)])


def case(name, shows, flips, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="mistral4", config=Mistral4Config, model=Mistral4ForCausalLM, shows=shows, init=routers,
                flips={"attention uniform": uniform_attention, **flips}, kwargs={**BASE, "tie_word_embeddings": False, **kw}, spelling="v5", **options)


CASES = [
    case("small", "a dense first layer, experts in one group, a temperature whose steps are at 6, 12 and 18", {
        "no temperature": rope(llama_4_scaling_beta=0.0), "no magnitude": rope(mscale_all_dim=0.0, mscale=0.0), "halves": {"rope_interleave": False},
        "one expert": {"num_experts_per_tok": 1}}, first_k_dense_replace=1, gguf_patch=tempered,
         gguf_note="keys of the temperature are added: the converter writes them from Mistral's own form only"),
    case("groups", "two groups of experts of which one is open, weights not renormalised and scaled, no latent of queries", {
        "one group": {"n_group": 1, "topk_group": 1}, "renormalised": {"norm_topk_prob": True}, "factor 1": {"routed_scaling_factor": 1.0}},
         n_group=2, topk_group=1, num_hidden_layers=1, n_routed_experts=8, norm_topk_prob=False, routed_scaling_factor=2.5, q_lora_rank=None,
         rope_interleave=False, rows=(12,), taps=False, gguf=False, gguf_note="pairs are the only form in llama.cpp"),
    case("unsaid", "what a file means that gives no rotation", {"theta": rope(rope_theta=500000.0)}, rope_parameters=None, num_hidden_layers=1,
         n_routed_experts=2, num_experts_per_tok=2, max_position_embeddings=1048576, drop=("rope_parameters", "rms_norm_eps", "max_position_embeddings"), taps=False,
         rows=(12,), gguf=False, gguf_note="GGUF says all of it"),
]

"""Qwen3-Next and Qwen3.5: gated delta rules after short convolutions, and attention with gated outputs."""

import torch
from transformers import (Qwen3_5ForCausalLM, Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig, Qwen3_5TextConfig, Qwen3NextConfig,
                          Qwen3NextForCausalLM)

from case import Case
from reference import uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
            max_position_embeddings=256, rms_norm_eps=1e-6, bos_token_id=130, eos_token_id=130, pad_token_id=0,
            linear_conv_kernel_dim=4, linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25})
MIXTURE = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=16, shared_expert_intermediate_size=24)
KINDS = {"qwen3_next": (Qwen3NextConfig, Qwen3NextForCausalLM), "qwen3_5": (Qwen3_5TextConfig, Qwen3_5ForCausalLM),
         "qwen3_5_moe": (Qwen3_5MoeTextConfig, Qwen3_5MoeForCausalLM)}


def lively(case, model, g):
    """Decays from 0.3 to 0.98 and scores of routers that are neither saturated nor tied."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("A_log"):
                p.copy_(torch.linspace(-2.5, 0.5, p.numel())[torch.randperm(p.numel(), generator=g)])
            if name.endswith("dt_bias"):
                p.copy_(torch.linspace(-1, 1, p.numel())[torch.randperm(p.numel(), generator=g)])
            if name.endswith("mlp.gate.weight"):
                p.mul_(1.5)


def changed(part, change):
    """A function that applies `change` to the parameters whose name contains `part`."""
    def apply(model):
        with torch.no_grad():
            for name, p in model.named_parameters():
                if part in name:
                    p.copy_(change(p))
    return apply


def published(tensors):
    """All experts of a layer in two tensors."""
    out = {n: x for n, x in tensors.items() if ".experts." not in n}
    for layer in {n.split(".experts.")[0] for n in tensors if ".experts." in n}:
        each = [[tensors[f"{layer}.experts.{e}.{part}_proj.weight"] for e in range(MIXTURE["num_experts"])] for part in ("gate", "up", "down")]
        out[f"{layer}.experts.gate_up_proj"] = torch.stack([torch.cat(pair) for pair in zip(each[0], each[1])])
        out[f"{layer}.experts.down_proj"] = torch.stack(each[2])
    return out


def further(model):
    """A layer that predicts a second token: not run."""
    tensors = model.state_dict()
    some = {n.replace("model.layers.3.", "mtp.layers.0."): x + 1 for n, x in tensors.items() if n.startswith("model.layers.3.")}
    wide = torch.cat([tensors["model.layers.3.self_attn.k_proj.weight"]] * 2, 1)
    norm = tensors["model.norm.weight"]
    return some | {"mtp.fc.weight": wide, "mtp.norm.weight": norm + 1, "mtp.pre_fc_norm_embedding.weight": norm + 2,
                   "mtp.pre_fc_norm_hidden.weight": norm + 3}


FLIPS = {"attention uniform": uniform_attention, "taps reversed": changed("conv1d", lambda w: w.flip(-1)),
         "no decay": changed("A_log", lambda w: w - 20), "no bias of steps": changed("dt_bias", torch.zeros_like),
         "norm without weight": changed("linear_attn.norm", torch.ones_like), "all lanes rotated": {"rope_parameters": {
             "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}}}


def case(name, family, shows, flips={}, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    config, model = KINDS[family]
    mixture = {} if family == "qwen3_5" else MIXTURE
    if family != "qwen3_next":          # llama.cpp aborts if the three sections are wider than a head; the default ones are
        mixture = mixture | {"rope_parameters": BASE["rope_parameters"] | {"mrope_section": [1, 1, 0]}}
    if kw.get("linear_num_value_heads", 4) > 2:
        flips = {**flips, "other value heads": changed("dt_bias", lambda w: w.reshape(2, -1).T.reshape(-1))}
    return Case(name=name, family=family, config=config, model=model, shows=shows, flips={**FLIPS, **flips}, init=lively, spelling="v5",
                kwargs={**BASE, **({} if family == "qwen3_5_moe" else {"intermediate_size": 48}), **mixture, **kw}, **options)


CASES = [
    case("dense", "qwen3_next", "other widths of keys and values, one value head for each key head, layer_types, plain MLPs in some "
         "layers, biases, not renormalised, tied", {"renormalised": {"norm_topk_prob": True}}, rows=(12,), num_hidden_layers=3,
         layer_types=["full_attention", "linear_attention", "linear_attention"], linear_key_head_dim=12, linear_value_head_dim=20,
         linear_num_value_heads=2, linear_conv_kernel_dim=3, mlp_only_layers=[1], norm_topk_prob=False, attention_bias=True,
         tie_word_embeddings=True, gguf=False, gguf_note="GGUF has no keys for plain layers of this family, llama.cpp one width for keys and values"),
    case("mixed", "qwen3_next", "two value heads for each key head; the last of four layers with attention, half as many key heads, a "
         "quarter of the lanes rotated; experts and a shared one in all layers", {"not renormalised": {"norm_topk_prob": False}}, rows=(24, 3)),
    case("two", "qwen3_5", "a layer with a delta rule and one with attention, two value heads for each key head", rows=(12,),
         num_hidden_layers=2, layer_types=["linear_attention", "full_attention"]),
    case("mixed", "qwen3_5", "three value heads for each key head, in another order in GGUF", rows=(24, 3), linear_num_value_heads=6,
         linear_num_key_heads=2),
    case("further", "qwen3_5", "a layer that predicts a second token, which is not run; one value head for each key head; three of "
         "four layers with attention; tied", rows=(12,), linear_num_value_heads=2, tie_word_embeddings=True, extra=further,
         layer_types=["full_attention", "linear_attention", "full_attention", "full_attention"], respell={"mtp_num_hidden_layers": 1}),
    case("mixed", "qwen3_5_moe", "experts in two tensors, a shared one, two value heads for each key head", rows=(12,), stored=published),
    case("apart", "qwen3_5_moe", "each expert apart, as transformers writes them, BF16, four value heads for each key head", rows=(12,),
         dtype="BF16", linear_num_key_heads=1, gguf=False, gguf_note="the twin would be that of the other case"),
]

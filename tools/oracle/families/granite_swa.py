"""Granite with windows: sinks of heads, a window in three of four layers, a base of the rotation per layer or none."""

import torch
from transformers import GraniteSWAConfig, GraniteSWAForCausalLM

from case import Case
from reference import kv_modulo, no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=16, intermediate_size=16, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=130, eos_token_id=130, pad_token_id=130, sliding_window=5,
            embedding_multiplier=3.0, residual_multiplier=0.8, attention_multiplier=0.4, logits_scaling=2.0, tie_word_embeddings=False,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0})


def sinks(case, model, g):
    for name, p in model.named_parameters():
        if name.endswith("sinks"):
            p.data.copy_(torch.randn(p.shape, generator=g))


def no_sinks(model):
    for layer in model.model.layers:
        layer.self_attn.sinks.data.fill_(-1e9)


def case(name, shows, flips, **kw):
    options = {"init": sinks} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="granite_swa", config=GraniteSWAConfig, model=GraniteSWAForCausalLM, shows=shows, flips={
        "attention uniform": uniform_attention, "kv modulo": kv_modulo, "no sinks": no_sinks, "no windows": {"sliding_window": 100}, **flips},
        kwargs={**BASE, **kw}, **options)


CASES = [
    case("plain", "a window in all layers but the first, untied", {"other layers": {"layer_types": ["sliding_attention", "full_attention", "full_attention"]}},
         rows=(14,), drop=("layer_types", "layer_rope_theta")),
    case("bases", "two bases of the rotation and a layer without, biases, tied, BF16, sharded", {
        "one base": {"layer_rope_theta": [10000.0, 0, 10000.0]}, "all rotate": {"layer_rope_theta": [10000.0, 10000.0, 100.0]},
        "no biases": no_bias("self_attn")}, rows=(14,), layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        layer_rope_theta=[10000.0, 0, 100.0], attention_bias=True, tie_word_embeddings=True, dtype="BF16", shard_bytes=12000, gguf=False,
        gguf_note="GGUF has no form for two bases"),
]

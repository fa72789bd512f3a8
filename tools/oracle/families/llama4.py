"""Llama 4: chunks of keys in layers that rotate, a temperature in those that do not, weights of experts that multiply their input."""

import torch
from transformers import Llama4ForCausalLM, Llama4TextConfig

from case import Case
from convert import rewrite
from families.deepseek import without
from reference import kv_modulo, no_bias, uniform_attention

PLAIN = {"rope_type": "default", "rope_theta": 500000.0}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8}
BASE = dict(vocab_size=131, hidden_size=16, intermediate_size=6, intermediate_size_mlp=12, num_hidden_layers=4, num_attention_heads=4,
            num_key_value_heads=2, head_dim=4, num_local_experts=4, num_experts_per_tok=1, max_position_embeddings=64, rms_norm_eps=1e-5,
            bos_token_id=130, eos_token_id=130, pad_token_id=130, rope_parameters=PLAIN)


def routers(case, model, g):
    """Make router scores neither saturated nor tied."""
    for name, p in model.named_parameters():
        if name.endswith("router.weight"):
            p.data.mul_(1.5)


def on_output(model):
    """Multiply the output of an expert by its weight, instead of its input."""
    for m in model.modules():
        if type(m).__name__ == "Llama4TextMoe":
            def forward(x, m=m):
                flat = x.reshape(-1, m.hidden_dim)
                scores, logits = m.router(flat)
                out = m.experts((flat.repeat(scores.shape[1], 1))).reshape(scores.shape[1], -1, m.hidden_dim)
                return m.shared_expert(flat) + (out * scores.transpose(0, 1)[..., None]).sum(0), logits
            m.forward = forward


def unnormed(model):
    for m in model.modules():
        if type(m).__name__ == "Llama4TextL2Norm":
            m.forward = lambda x: x


def chunked(case, path):
    """Add what the converter does not write."""
    import gguf as g
    k = case.kwargs
    rewrite(path, keys=[("llama4.attention.sliding_window", k["attention_chunk_size"], g.GGUFValueType.UINT32),
                        ("llama4.attention.temperature_scale", k["attn_scale"], g.GGUFValueType.FLOAT32),
                        ("llama4.attention.temperature_length", k["floor_scale"], g.GGUFValueType.UINT32)])


def case(name, shows, flips, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    flips = {"attention uniform": uniform_attention, "kv modulo": kv_modulo, "weights of outputs": on_output,
             "no shared expert": without("shared_expert.down_proj"), **flips}
    return Case(name=name, family="llama4_text", config=Llama4TextConfig, model=Llama4ForCausalLM, shows=shows, init=routers, flips=flips,
                kwargs={**BASE, **kw}, **options)


CHUNKS = {"no chunks": {"attention_chunk_size": 64}, "other chunks": {"attention_chunk_size": 6}}
TEMPERATURE = {"no temperature": {"attn_temperature_tuning": False}}
CASES = [
    case("scout", "pairs of adjacent lanes under llama3's scaling, norms of heads after the rotation, mixtures in all layers; the sizes of chunks and steps "
         "that llama.cpp has", {"default": {"rope_parameters": PLAIN}, "no norms of heads": unnormed, "rotated everywhere": {"no_rope_layers": [1, 1, 1, 1]}},
         rows=(12,), rope_parameters=LLAMA3, taps=False, drop=("layer_types", "moe_layers"), respell={"no_rope_layers": []}),
    case("chunks", "chunks of 5 keys in three of four layers, a temperature in steps of 3 in the fourth, two experts, a plain MLP in every other layer", {
         **CHUNKS, **TEMPERATURE, "no norms of heads": unnormed, "one expert": {"num_experts_per_tok": 1}}, rows=(18,), taps=False, attention_chunk_size=5,
         floor_scale=3, attn_scale=0.5, interleave_moe_layer_step=2, num_experts_per_tok=2, num_local_experts=3, drop=("layer_types", "moe_layers", "no_rope_layers"),
         gguf_patch=chunked, peer=False, gguf_note="llama.cpp's chunks have 8192 keys, and its temperature steps of 8192; the twin has keys for both"),
    case("listed", "no norms of heads, kinds of layers and layers with mixtures in lists, chunks of 4 keys, biases, tied, BF16", {
         **CHUNKS, **TEMPERATURE, "no biases": no_bias("self_attn"), "normed": {"use_qk_norm": True}}, rows=(14,), use_qk_norm=False, num_hidden_layers=3,
         attention_chunk_size=4, floor_scale=2, attn_scale=0.5, no_rope_layers=[1, 0, 1], moe_layers=[0, 2], attention_bias=True,
         tie_word_embeddings=True, dtype="BF16", shard_bytes=12000, gguf=False, gguf_note="llama.cpp loads no biases of this family, and lists no layers"),
]

"""Apertus: plain MLPs with xIELU, whose parameters are in each layer; q and k normalised head by head before the rotation."""

import torch
from transformers import ApertusConfig, ApertusForCausalLM

from case import Case
from reference import kv_modulo, no_bias, uniform_attention

PLAIN = {"rope_type": "default", "rope_theta": 12000000.0}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 12000.0, "factor": 8.0, "original_max_position_embeddings": 16, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0}
BASE = dict(vocab_size=131, hidden_size=24, intermediate_size=24, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
            max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=130, eos_token_id=130, pad_token_id=3, rope_parameters=PLAIN)


def own(case, model, g):
    """Give every layer its own parameters of xIELU, far from those of the start, and its constants as published."""
    for name, p in model.named_parameters():
        if "act_fn.alpha" in name:
            p.data.copy_(torch.randn(p.shape, generator=g))
    for name, b in model.named_buffers():
        if name.endswith("act_fn.beta"):
            b.data.fill_(0.5)
        if name.endswith("act_fn.eps"):
            b.data.fill_(-1e-6)


def same_alphas(model):
    """Exchange the two parameters."""
    for layer in model.model.layers:
        act = layer.mlp.act_fn
        act.alpha_p, act.alpha_n = act.alpha_n, act.alpha_p


def no_beta(model):
    for layer in model.model.layers:
        layer.mlp.act_fn.beta.data.zero_()


def case(name, shows, flips, **kw):
    options = {"init": own} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="apertus", config=ApertusConfig, model=ApertusForCausalLM, shows=shows, flips={
        "attention uniform": uniform_attention, "alphas exchanged": same_alphas, "no beta": no_beta, **flips}, kwargs={**BASE, **kw}, **options)


CASES = [
    case("plain", "one key/value head, untied", {}, rows=(12,), spelling="v5"),
    case("llama3", "llama3's rotation past its trained length, grouped queries, biases of attention, tied, BF16", {
        "default": {"rope_parameters": {**PLAIN, "rope_theta": 12000.0}}, "kv modulo": kv_modulo, "no biases": no_bias("self_attn")},
        rows=(24,), num_attention_heads=4, num_key_value_heads=2, hidden_size=32, attention_bias=True, tie_word_embeddings=True, dtype="BF16",
        rope_parameters=LLAMA3, gguf=False, gguf_note="llama.cpp requires an untied head in this family"),
]

"""Arcee and Nemotron: plain MLPs of squared ReLU; Nemotron's LayerNorm is stored less one, and half of each head rotates."""

import torch
from transformers import ArceeConfig, ArceeForCausalLM, NemotronConfig, NemotronForCausalLM

from case import Case
from reference import kv_modulo, no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
            max_position_embeddings=128, bos_token_id=130, eos_token_id=130, pad_token_id=130)
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 12}
KINDS = {"arcee": (ArceeConfig, ArceeForCausalLM), "nemotron": (NemotronConfig, NemotronForCausalLM)}


def less_one(case, model, g):
    """Store weights of norms around 0, whose sum with 1 is used."""
    with torch.no_grad():
        for m in model.modules():
            if type(m).__name__ == "NemotronLayerNorm1P":
                m.weight.sub_(1.0)


def stored_whole(model):
    with torch.no_grad():
        for m in model.modules():
            if type(m).__name__ == "NemotronLayerNorm1P":
                m.weight.sub_(1.0)


def case(name, family, shows, flips, **kw):
    options = {"init": less_one} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    config, model = KINDS[family]
    return Case(name=name, family=family, config=config, model=model, shows=shows,
                flips={"attention uniform": uniform_attention, "SiLU": {"hidden_act": "silu"}, **flips}, kwargs={**BASE, **kw}, **options)


CASES = [
    case("plain", "arcee", "squared ReLU, one key/value head, untied", {}, rows=(12,), rms_norm_eps=1e-5, rope_parameters=PLAIN),
    case("yarn", "arcee", "YaRN past the trained length, grouped queries, biases everywhere, tied, BF16", {
        "default": {"rope_parameters": PLAIN}, "no biases": no_bias("self_attn"), "no biases of the MLP": no_bias("mlp")}, rows=(24,),
        num_attention_heads=4, num_key_value_heads=2, hidden_size=16, max_position_embeddings=48, attention_bias=True, mlp_bias=True,
        tie_word_embeddings=True, dtype="BF16", rms_norm_eps=1e-5, rope_parameters=YARN, gguf=False,
        gguf_note="llama.cpp loads no biases of this family"),
    case("half", "nemotron", "half of each head rotates, norms stored less one, untied", {
        "whole heads": {"rope_parameters": {**PLAIN, "partial_rotary_factor": 1.0}}, "norms stored whole": stored_whole}, rows=(12,), norm_eps=1e-5,
        rope_parameters={**PLAIN, "partial_rotary_factor": 0.5}, plain_vocab=True),
    case("biases", "nemotron", "biases everywhere, grouped queries, another share of each head, tied, F16", {
        "kv modulo": kv_modulo, "no biases": no_bias("self_attn"), "no biases of the MLP": no_bias("mlp")}, rows=(14,), num_attention_heads=4,
        num_key_value_heads=2, hidden_size=32, attention_bias=True, mlp_bias=True, norm_eps=1e-4, tie_word_embeddings=True, dtype="F16",
        rope_parameters={**PLAIN, "partial_rotary_factor": 0.25}, gguf=False, gguf_note="llama.cpp requires an untied head in this family"),
]

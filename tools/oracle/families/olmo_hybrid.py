"""OLMo Hybrid: a gated delta rule whose beta is up to 2, with separate convolutions, and OLMo 2's attention, which need not rotate."""

import torch
from transformers import OlmoHybridConfig, OlmoHybridForCausalLM

from case import Case
from reference import uniform_attention

L, F = "linear_attention", "full_attention"
BASE = dict(vocab_size=137, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=256, rms_norm_eps=1e-3, bos_token_id=136, eos_token_id=136, pad_token_id=0, linear_num_key_heads=2,
            linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=12)


def deltas(model):
    return [m for m in model.modules() if type(m).__name__ == "OlmoHybridGatedDeltaNet"]


def init(case, model, g):
    """Make decays differ from head to head, and neither 0 nor 1."""
    with torch.no_grad():
        for m in deltas(model):
            m.A_log.copy_(torch.randn(m.A_log.shape, generator=g) * 0.5 - 1)
            m.dt_bias.copy_(torch.randn(m.dt_bias.shape, generator=g) * 0.5)
            m.conv1d.weight.copy_(torch.randn(m.conv1d.weight.shape, generator=g) * 0.5)
            if case.dtype == "BF16":
                for p in (m.A_log, m.dt_bias, m.conv1d.weight):
                    p.copy_(p.bfloat16().float())


def each(change):
    """Return a flip that applies `change` to every layer with a delta rule."""
    def flip(model):
        with torch.no_grad():
            for m in deltas(model):
                change(m)
    return flip


def eps_of_layers(m):
    m.o_norm.variance_epsilon = 1e-3


FLIPS = {"attention uniform": uniform_attention, "taps reversed": each(lambda m: m.conv1d.weight.copy_(m.conv1d.weight.flip(-1))),
         "no decay": each(lambda m: m.A_log.fill_(-60.0)), "no bias of the decay": each(lambda m: m.dt_bias.zero_()),
         "eps of the layers": each(eps_of_layers)}


def stored(kw, own_names):
    """Return a function that parts the convolutions by their widths, where transformers saves three equal parts, and renames the norms of
    layers with a state alone, where transformers renames those of all layers, unless `own_names`."""
    def parted(tensors):
        out = {}
        if not own_names:
            tensors = {n.replace("feedforward_layer_norm", "post_attention_layernorm")
                       if ".layers." in n and kw["layer_types"][int(n.split(".")[2])] == F else n: x for n, x in tensors.items()}
        keys = kw["linear_num_key_heads"] * kw["linear_key_head_dim"]
        for name, x in tensors.items():
            if ".linear_attn.q_conv1d." in name:
                whole = torch.cat([tensors[name.replace(".q_", f".{w}_")] for w in "qkv"])
                for word, part in zip("qkv", (whole[:keys], whole[keys:2 * keys], whole[2 * keys:])):
                    out[name.replace(".q_", f".{word}_")] = part.contiguous()
            elif ".linear_attn.k_conv1d." not in name and ".linear_attn.v_conv1d." not in name:
                out[name] = x
        return out
    return parted


def module(kw, own_names):
    """Return a function from a path in transformers to that in the file."""
    def renamed(path):
        parts = path.split(".")
        if len(parts) > 3 and parts[1] == "layers" and (own_names or kw["layer_types"][int(parts[2])] == L):
            path = path.replace("input_layernorm", "attention_layer_norm").replace("post_attention_layernorm", "feedforward_layer_norm")
        return path
    return renamed


def case(name, shows, flips, **kw):
    own_names = kw.pop("own_names", False)
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    kw = {**BASE, **kw}
    return Case(name=name, family="olmo_hybrid", config=OlmoHybridConfig, model=OlmoHybridForCausalLM, shows=shows, init=init, spelling="v5",
                module=module(kw, own_names), stored=stored(kw, own_names), gguf=False, gguf_note="llama.cpp has no form for it", kwargs=kw,
                flips={**FLIPS, **flips}, **options)


CASES = [
    case("mixed", "beta up to 2, more value heads than key heads, attention without positions", rows=(24, 3),
         flips={"beta up to 1": {"linear_allow_neg_eigval": False}, "rotated": {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}},
         layer_types=[L, L, F, L], rope_parameters={"rope_type": "default", "rope_theta": None}),
    case("rotated", "beta up to 1, attention that rotates, biases, five taps, a tied head, BF16; names as transformers saves them",
         own_names=True, rows=(14,), dtype="BF16",
         flips={"beta up to 2": {"linear_allow_neg_eigval": True}, "theta": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}},
         layer_types=[F, L, L, F], rope_parameters={"rope_type": "default", "rope_theta": 100.0}, linear_allow_neg_eigval=False,
         attention_bias=True, linear_conv_kernel_dim=5, linear_num_key_heads=4, tie_word_embeddings=True),
]

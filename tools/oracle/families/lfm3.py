"""LFM3: longer convolutions, layers with a window and a rotation of their own, gates of heads, norms behind both parts."""

import torch
from transformers import Lfm3Config, Lfm3ForCausalLM

from case import Case
from families.lfm2 import FLIPS

PLAIN = {"rope_type": "default", "rope_theta": 100.0}


def ropes(full, sliding=PLAIN):
    return {"rope_parameters": {"full_attention": full, "sliding_attention": sliding}}


PROPORTIONAL = {"rope_type": "proportional", "rope_theta": 50.0, "partial_rotary_factor": 0.5}
BASE = dict(vocab_size=133, hidden_size=32, intermediate_size=48, num_hidden_layers=5, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
            max_position_embeddings=256, norm_eps=1e-5, bos_token_id=132, eos_token_id=132, pad_token_id=0, sliding_window=6, conv_L_cache=7,
            **ropes(PROPORTIONAL))


def zeroed(name):
    """Return a flip that zeroes the weights of modules with this name."""
    def flip(model):
        with torch.no_grad():
            for path, p in model.named_parameters():
                if f".{name}." in path:
                    p.zero_()
    return flip


def bare(name):
    """Return a flip that leaves norms with this name out."""
    def flip(model):
        for layer in model.model.layers:
            setattr(layer, name, torch.nn.Identity())
    return flip


def published(path):
    return path.replace(".g_proj", ".gate_proj")


def case(name, shows, flips, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="lfm3", config=Lfm3Config, model=Lfm3ForCausalLM, shows=shows, spelling="v5", module=published, gguf=False,
                gguf_note="llama.cpp has no form for it", kwargs={**BASE, **kw},
                flips={**FLIPS, **{k: f for k, f in flips.items() if f}}, **options)


LISTED = ["sliding_attention", "conv", "full_attention", "sliding_attention", "conv"]
CASES = [
    case("mixed", "the layers that transformers takes by default; half of each head rotates in full layers, gates, norms behind both parts",
         {"no gates": zeroed("g_proj"), "no norm behind the operator": bare("post_operator_norm"), "no norm behind the MLP": bare("post_ffn_norm"),
          "all rotate": ropes({**PROPORTIONAL, "partial_rotary_factor": 1.0}), "plain": ropes({"rope_type": "default", "rope_theta": 50.0}),
          "one rotation": ropes(PROPORTIONAL, {"rope_type": "default", "rope_theta": 50.0}), "another window": {"sliding_window": 5}},
         rows=(24, 3)),
    case("plain", "no gates, no norms behind, biases, an untied head, a factor and a share of the pairs that is not whole; a list of layers, BF16",
         {"gates": None, "no factor": ropes({**PROPORTIONAL, "partial_rotary_factor": 0.4}), "no window": {"sliding_window": 200}},
         use_attention_gate=False, use_sandwich_norm=False, attention_bias=True, conv_bias=True, tie_word_embeddings=False, layer_types=LISTED,
         dtype="BF16", rows=(20,), conv_L_cache=3, **ropes({**PROPORTIONAL, "partial_rotary_factor": 0.4, "factor": 3.0})),
]

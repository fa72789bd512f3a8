"""LFM2: gated short convolutions, and attention whose heads of q and k are normalised."""

import torch
from transformers import Lfm2Config, Lfm2ForCausalLM

from case import Case
from reference import uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=256, norm_eps=1e-5, bos_token_id=130, eos_token_id=130, pad_token_id=0, block_auto_adjust_ff_dim=False,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0})


def convolutions(change):
    """A function that applies `change` to the taps of every convolution."""
    def apply(model):
        with torch.no_grad():
            for layer in model.model.layers:
                if hasattr(layer, "conv"):
                    layer.conv.conv.weight.copy_(change(layer.conv.conv.weight))
    return apply


FLIPS = {"attention uniform": uniform_attention, "taps reversed": convolutions(lambda w: w.flip(-1)),
         "no earlier positions": convolutions(lambda w: w * torch.tensor([0.0] * (w.shape[-1] - 1) + [1.0]))}

CASES = [
    Case(name="convolutions", family="lfm2", config=Lfm2Config, model=Lfm2ForCausalLM, rows=(24, 3), flips=FLIPS,
         shows="three layers of convolutions and one with attention",
         kwargs={**BASE, "layer_types": ["conv", "conv", "full_attention", "conv"]}),
    Case(name="biased", family="lfm2", config=Lfm2Config, model=Lfm2ForCausalLM, rows=(12,), flips=FLIPS, gguf=False,
         gguf_note="llama.cpp reads no biases of convolutions",
         shows="biases of convolutions and their projections; five taps; the MLP's width computed; full_attn_idxs",
         kwargs={**BASE, "conv_bias": True, "conv_L_cache": 5, "block_auto_adjust_ff_dim": True, "block_multiple_of": 8,
                 "block_ffn_dim_multiplier": 1.3, "full_attn_idxs": [1, 3]}),
]

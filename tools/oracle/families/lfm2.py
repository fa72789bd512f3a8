"""LFM2 and LFM2-MoE: gated short convolutions, and attention whose heads of q and k are normalised; mixtures after the first layers."""

import torch
from transformers import Lfm2Config, Lfm2ForCausalLM, Lfm2MoeConfig, Lfm2MoeForCausalLM

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

MOE = {k: v for k, v in BASE.items() if k != "block_auto_adjust_ff_dim"} | dict(
    moe_intermediate_size=20, num_experts=8, num_experts_per_tok=3, num_dense_layers=1,
    layer_types=["conv", "full_attention", "conv", "full_attention"])


def routers(case, model, g):
    """Make router scores neither saturated nor tied, with a correction that changes the choice."""
    for name, p in model.named_parameters():
        if name.endswith("feed_forward.gate.weight"):
            p.data.mul_(1.5)
    for name, b in model.named_buffers():
        if name.endswith("expert_bias"):
            b.copy_(torch.rand(b.shape, generator=g) - 0.5)


def no_correction(model):
    for name, b in model.named_buffers():
        if name.endswith("expert_bias"):
            b.zero_()


MOE_FLIPS = {**FLIPS, "two experts": {"num_experts_per_tok": 2}}

CASES = [
    Case(name="convolutions", family="lfm2", config=Lfm2Config, model=Lfm2ForCausalLM, rows=(24, 3), flips=FLIPS,
         shows="three layers of convolutions and one with attention",
         kwargs={**BASE, "layer_types": ["conv", "conv", "full_attention", "conv"]}),
    Case(name="biased", family="lfm2", config=Lfm2Config, model=Lfm2ForCausalLM, rows=(12,), flips=FLIPS, gguf=False,
         gguf_note="llama.cpp reads no biases of convolutions",
         shows="biases of convolutions and their projections; five taps; the MLP's width computed; full_attn_idxs",
         kwargs={**BASE, "conv_bias": True, "conv_L_cache": 5, "block_auto_adjust_ff_dim": True, "block_multiple_of": 8,
                 "block_ffn_dim_multiplier": 1.3, "full_attn_idxs": [1, 3]}),
    Case(name="mixture", family="lfm2_moe", config=Lfm2MoeConfig, model=Lfm2MoeForCausalLM, rows=(24, 3), init=routers,
         flips={**MOE_FLIPS, "not renormalised": {"norm_topk_prob": False}, "no correction": no_correction},
         shows="a dense layer, then three of eight experts by corrected sigmoids", kwargs=MOE),
    Case(name="uncorrected", family="lfm2_moe", config=Lfm2MoeConfig, model=Lfm2MoeForCausalLM, rows=(12,), init=routers,
         flips={**MOE_FLIPS, "renormalised": {"norm_topk_prob": True}, "not scaled": {"routed_scaling_factor": 1.0}}, gguf=False,
         gguf_note="llama.cpp needs the correction, and neither scales nor leaves weights as they are",
         shows="no correction, not renormalised, scaled, no dense layer, biases of convolutions",
         kwargs={**MOE, "use_expert_bias": False, "norm_topk_prob": False, "routed_scaling_factor": 2.5, "num_dense_layers": 0,
                 "conv_bias": True}),
]

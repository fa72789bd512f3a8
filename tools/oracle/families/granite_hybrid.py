"""Granite 4: layers with a Mamba-2 mixer and layers with attention, each followed by an MLP or experts, around Granite's multipliers."""

from transformers import GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM

import mamba
from case import Case
from reference import uniform_attention

BASE = dict(vocab_size=144, hidden_size=32, intermediate_size=40, shared_intermediate_size=40, num_hidden_layers=4, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=143, eos_token_id=143, pad_token_id=0,
            mamba_n_heads=4, mamba_d_head=16, mamba_d_state=16, mamba_expand=2, mamba_chunk_size=8, tie_word_embeddings=True,
            embedding_multiplier=3.0, residual_multiplier=0.6, attention_multiplier=0.4, logits_scaling=2.0,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0})


def init(case, model, g):
    mamba.decays(case, model, g)
    for name, p in model.named_parameters():
        if name.endswith("router.weight"):
            p.data.mul_(1.5)


def case(name, shows, flips, layers, **kw):
    words = [{"M": "mamba", "A": "attention"}[x] for x in layers]
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="granitemoehybrid", config=GraniteMoeHybridConfig, model=GraniteMoeHybridForCausalLM, shows=shows,
                flips={"residual": {"residual_multiplier": 1.0}, **flips}, init=init, raw_config=True,
                kwargs={**BASE, "layer_types": words, "num_hidden_layers": len(words), **kw},
                **{"respell": {"layer_types": words}, **options})


ATTENTION = {"attention uniform": uniform_attention, "scores": {"attention_multiplier": 1.0}}

CASES = [
    case("dense", "three layers of Mamba-2 with one group, one of attention without positions, a shared MLP alone",
         {**mamba.FLIPS, **ATTENTION, "logits": {"logits_scaling": 1.0}, "embedding": {"embedding_multiplier": 1.0},
          "rotated": {"position_embedding_type": "rope"}},
         "MMAM", num_local_experts=0, num_experts_per_tok=0, rows=(24, 3)),
    case("experts", "two groups, experts beside the shared MLP, untied, BF16",
         {**mamba.FLIPS, **mamba.GROUPS, **ATTENTION, "one expert": {"num_experts_per_tok": 1}},
         "MAM", num_local_experts=6, num_experts_per_tok=2, intermediate_size=24, mamba_n_groups=2, tie_word_embeddings=False, dtype="BF16", rows=(20,)),
    case("limited", "limits of the time steps, which the file spells as old ones do; biases of projections, none of the convolution; five taps",
         {**mamba.FLIPS, "no limits": {"time_step_limit": (0.0, float("inf"))}, "no lower limit": {"time_step_limit": (0.0, 1.1)}},
         "MAM", num_local_experts=0, num_experts_per_tok=0, time_step_limit=(0.6, 1.1), mamba_conv_bias=False, mamba_proj_bias=True,
         mamba_d_conv=5, rows=(12,), greedy=1, gguf=False, gguf_note="llama.cpp's converter does not store the limits, and its loader no biases"),
    case("rotated", "attention alone, rotated: files of this kind that GGUF stores as granite",
         {**ATTENTION}, "AA", num_local_experts=0, num_experts_per_tok=0, position_embedding_type="rope", rows=(12,)),
]

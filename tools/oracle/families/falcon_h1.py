"""Falcon-H1: a Mamba-2 mixer and attention beside each other in every layer, with a multiplier at each of their ends."""

from transformers import FalconH1Config, FalconH1ForCausalLM

import mamba
from case import Case
from reference import uniform_attention

BASE = dict(vocab_size=144, hidden_size=32, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
            max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=143, eos_token_id=143, pad_token_id=0,
            mamba_d_ssm=48, mamba_n_heads=3, mamba_d_head=16, mamba_d_state=16, mamba_n_groups=1, mamba_expand=2, mamba_chunk_size=8,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
MULTIPLIERS = dict(lm_head_multiplier=0.6, embedding_multiplier=1.7, mlp_multipliers=[0.8, 1.3], key_multiplier=1.4, attention_out_multiplier=0.9,
                   attention_in_multiplier=1.2, ssm_multipliers=[1.3, 0.8, 1.2, 0.7, 1.5], ssm_in_multiplier=1.25, ssm_out_multiplier=0.75)
ONE = {k: {k: [1.0] * len(v) if isinstance(v, list) else 1.0} for k, v in MULTIPLIERS.items()}
SKIPPED = ("norm before gate",)


def case(name, shows, flips, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    base = {k: v for k, v in mamba.FLIPS.items() if k not in SKIPPED}
    return Case(name=name, family="falcon_h1", config=FalconH1Config, model=FalconH1ForCausalLM, shows=shows, init=mamba.decays,
                flips={**base, "attention uniform": uniform_attention, **flips}, raw_config=True, kwargs={**BASE, **kw}, **options)


CASES = [
    case("multipliers", "thirteen multipliers, which GGUF folds into the weights; no norm of the mixer", ONE, **MULTIPLIERS, rows=(24, 3)),
    case("normed", "a norm of the mixer before its gate, two groups, the width from expand, BF16", {**{k: v for k, v in mamba.GROUPS.items()},
         "gate first": {"mamba_norm_before_gate": False}}, mamba_rms_norm=True, mamba_norm_before_gate=True, mamba_n_groups=2, mamba_d_ssm=None,
         mamba_n_heads=4, rows=(20,), dtype="BF16", gguf=False, gguf_note="llama.cpp gates before the norm, and its converter needs mamba_d_ssm"),
    case("gated", "the gate before the norm of the mixer, biases of projections and MLP, a limit of the time steps, tied",
         {"norm first": {"mamba_norm_before_gate": True}, "no limits": {"time_step_limit": (0.0, float("inf"))}}, mamba_rms_norm=True,
         mamba_norm_before_gate=False, projectors_bias=True, mamba_proj_bias=True, mlp_bias=True, attention_bias=True,
         time_step_limit=(0.3, 1.0), tie_word_embeddings=True, rows=(12,), greedy=1, gguf=False, gguf_note="llama.cpp reads no biases of this family"),
]

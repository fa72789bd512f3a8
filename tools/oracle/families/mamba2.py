"""Mamba-2: layers without attention and without MLPs."""

from transformers import Mamba2Config, Mamba2ForCausalLM

import mamba
from case import Case

BASE = dict(vocab_size=144, hidden_size=32, num_hidden_layers=3, num_heads=4, head_dim=16, state_size=16, n_groups=1, expand=2, conv_kernel=4,
            chunk_size=8, layer_norm_epsilon=1e-5, bos_token_id=143, eos_token_id=143, pad_token_id=0)


def case(name, shows, flips, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="mamba2", config=Mamba2Config, model=Mamba2ForCausalLM, shows=shows, init=mamba.decays,
                flips={**mamba.FLIPS, **flips}, raw_config=True, kwargs={**BASE, **kw}, **options)


CASES = [
    case("tied", "one group, tied", {}, tie_word_embeddings=True, rows=(24, 3)),
    case("groups", "two groups, untied, BF16", mamba.GROUPS, n_groups=2, rows=(20,), dtype="BF16"),
    case("biased", "biases of projections, none of the convolution, a limit of the time steps, heads of 24",
         {"no limits": {"time_step_limit": (0.0, float("inf"))}}, use_bias=True, use_conv_bias=False, time_step_limit=(0.3, 1.0), hidden_size=36,
         num_heads=3, head_dim=24, rows=(12,), greedy=1, gguf=False, gguf_note="llama.cpp reads no biases of projections"),
]

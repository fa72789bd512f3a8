"""Mamba and Falcon Mamba: layers of a selective scan alone; the second normalises the time step, B and C."""

from transformers import FalconMambaConfig, FalconMambaForCausalLM, MambaConfig, MambaForCausalLM

import mamba
from case import Case

BASE = dict(vocab_size=144, hidden_size=32, num_hidden_layers=3, state_size=16, expand=2, conv_kernel=4, layer_norm_epsilon=1e-5, bos_token_id=143,
            eos_token_id=143, pad_token_id=0)


def case(name, shows, flips, falcon=False, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="falcon_mamba" if falcon else "mamba", config=FalconMambaConfig if falcon else MambaConfig,
                model=FalconMambaForCausalLM if falcon else MambaForCausalLM, shows=shows, init=mamba.decays, flips={**mamba.SCAN_FLIPS, **flips},
                raw_config=True, kwargs={**BASE, **kw}, **options)


CASES = [
    case("tied", "tied; the rank of the time step follows from the width", {}, rows=(24, 3)),
    case("untied", "untied, a rank and a state that are no powers of two, BF16", {}, time_step_rank=5, state_size=12, tie_word_embeddings=False,
         rows=(20,), dtype="BF16"),
    case("biased", "biases of projections, none of the convolution; three times as wide as the model, five taps", {}, use_bias=True, use_conv_bias=False,
         expand=3, conv_kernel=5, rows=(12,), greedy=1, gguf=False, gguf_note="llama.cpp's converter and loader know no biases of projections and no other width"),
    case("tied", "norms of the time step, B and C, whose eps is that of the layers", {"no inner norms": {"mixer_rms_eps": 1e3}}, falcon=True,
         layer_norm_epsilon=1e-6, rows=(24, 3)),
    case("untied", "another eps of these norms; untied, BF16", {"eps": {"mixer_rms_eps": 1e-6}}, falcon=True, mixer_rms_eps=0.05, tie_word_embeddings=False,
         rows=(20,), dtype="BF16", gguf=False, gguf_note="GGUF files do not have the eps of the inner norms"),
]

"""Bamba: layers with a Mamba-2 mixer and layers with attention rotated on half of each head, each followed by an MLP."""

from transformers import BambaConfig, BambaForCausalLM

import mamba
from case import Case
from reference import uniform_attention

BASE = dict(vocab_size=144, hidden_size=32, intermediate_size=40, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=143, eos_token_id=143, pad_token_id=0,
            mamba_n_heads=4, mamba_d_head=16, mamba_d_state=16, mamba_n_groups=2, mamba_expand=2, mamba_chunk_size=8, attn_layer_indices=[2],
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0})


def case(name, shows, flips, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="bamba", config=BambaConfig, model=BambaForCausalLM, shows=shows, init=mamba.decays,
                flips={**mamba.FLIPS, "attention uniform": uniform_attention, **flips}, raw_config=True, greedy=1, kwargs={**BASE, **kw}, **options)


CASES = [
    case("mixed", "three layers of Mamba-2 with two groups, one of attention", mamba.GROUPS, rows=(24, 3), attn_rotary_emb=4,
         gguf_note="llama.cpp itself rotates other lanes: its converter permutes whole heads, of which half rotate"),
    case("biased", "biases of projections, attention and MLP, none of the convolution; tied", {}, mamba_proj_bias=True, attention_bias=True,
         mlp_bias=True, mamba_conv_bias=False, tie_word_embeddings=True, rows=(12,), gguf=False, gguf_note="llama.cpp reads no biases of this family"),
]

"""Jamba: layers of a selective scan and layers of attention without positions, each followed by an MLP or experts."""

from transformers import JambaConfig, JambaForCausalLM

import mamba
from case import Case
from reference import uniform_attention

BASE = dict(vocab_size=144, hidden_size=32, intermediate_size=40, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=143, eos_token_id=143, pad_token_id=0, mamba_d_state=16, mamba_expand=2,
            attn_layer_period=3, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1, num_experts=4, num_experts_per_tok=2)


def case(name, shows, flips, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="jamba", config=JambaConfig, model=JambaForCausalLM, shows=shows, init=mamba.decays,
                flips={**mamba.SCAN_FLIPS, "attention uniform": uniform_attention, "no inner norms": mamba.inner_norms_at_one, **flips},
                raw_config=True, plain_vocab=True, kwargs={**BASE, **kw}, **options)


CASES = [
    case("mixed", "one layer of attention in three, experts in every second layer", {"one expert": {"num_experts_per_tok": 1}}, rows=(24, 3)),
    case("dense", "MLPs alone; tied, BF16, a rank that is given", {}, num_experts=1, num_experts_per_tok=1, tie_word_embeddings=True, mamba_dt_rank=6,
         attn_layer_period=2, rows=(20,), dtype="BF16"),
    case("biased", "biases of the mixer's projections, none of the convolution; three times as wide as the model",
         {}, mamba_proj_bias=True, mamba_conv_bias=False, mamba_expand=3, rows=(12,), greedy=1, gguf=False, gguf_note="llama.cpp reads no biases of this family"),
]

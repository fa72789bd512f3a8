"""Seed-OSS: Llama's decoder with a switch for each bias."""

from transformers import SeedOssConfig, SeedOssForCausalLM

from case import Case
from reference import kv_modulo, no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
            max_position_embeddings=128, rms_norm_eps=1e-6, bos_token_id=130, eos_token_id=130, pad_token_id=1,
            rope_parameters={"rope_type": "default", "rope_theta": 10000000.0})


def case(name, shows, flips, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="seed_oss", config=SeedOssConfig, model=SeedOssForCausalLM, shows=shows,
                flips={"attention uniform": uniform_attention, "kv modulo": kv_modulo, "no biases": no_bias("self_attn"), **flips},
                kwargs={**BASE, **kw}, **options)


CASES = [
    case("biases", "biases on q, k and v, wide heads, untied", {}, rows=(12,)),
    case("all-biases", "biases everywhere, tied, F16", {"no bias of o_proj": no_bias("o_proj"), "no biases of the MLP": no_bias("mlp")}, rows=(14,),
         attention_out_bias=True, mlp_bias=True, tie_word_embeddings=True, dtype="F16", gguf=False,
         gguf_note="llama.cpp loads no other biases of this family"),
]

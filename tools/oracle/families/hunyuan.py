"""Hunyuan dense: heads of q and k normalised after the rotation, whose base alpha stretches once and for all."""

import torch
from transformers import HunYuanDenseV1Config, HunYuanDenseV1ForCausalLM

from case import Case
from reference import kv_modulo, no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
            max_position_embeddings=32768, rms_norm_eps=1e-5, bos_token_id=130, eos_token_id=130, pad_token_id=0, eod_token_id=130)
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
ALPHA = {"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 1000.0, "factor": 1.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
         "mscale_all_dim": 1.0}


def normalised_first(model):
    """Normalise heads before the rotation."""
    for layer in model.model.layers:
        a = layer.self_attn
        for norm, projection, n in ((a.query_layernorm, a.q_proj, 4), (a.key_layernorm, a.k_proj, 2)):
            projection.register_forward_hook(lambda _m, _a, out, norm=norm, n=n: torch.nn.functional.rms_norm(
                out.unflatten(-1, (n, -1)), (out.shape[-1] // n,), norm.weight, 1e-5).flatten(-2))
            norm.register_forward_hook(lambda _m, args, _out: args[0])


def case(name, shows, flips, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="hunyuan_v1_dense", config=HunYuanDenseV1Config, model=HunYuanDenseV1ForCausalLM, shows=shows,
                flips={"attention uniform": uniform_attention, "kv modulo": kv_modulo, "normalised first": normalised_first, **flips},
                kwargs={**BASE, **kw}, **options)


CASES = [
    case("alpha", "a base stretched by alpha, norms after the rotation, untied", {"no alpha": {"rope_parameters": PLAIN}}, rows=(12,),
         rope_parameters=ALPHA),
    case("plain", "biases, tied, BF16", {"no biases": no_bias("self_attn")}, rows=(14,), attention_bias=True, tie_word_embeddings=True,
         dtype="BF16", max_position_embeddings=128, rope_parameters=PLAIN, gguf=False, gguf_note="llama.cpp loads no bias of o_proj in this family"),
]

"""Phi-1, 1.5 and 2: one norm before attention and MLP, partial rotary embedding, biases everywhere, also in the head."""

from transformers import PhiConfig, PhiForCausalLM

from case import Case
from reference import no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=48, bos_token_id=130, eos_token_id=130)


def rope(part, **kw):
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": part, **kw}}


def joined(case, path):
    """Join q, k and v of each layer in one matrix, as in files made from Microsoft's first checkpoints."""
    import convert
    import gguf as g
    import numpy as np
    old = {t.name: np.array(t.data) for t in g.GGUFReader(path).tensors}
    names = lambda i, what: [f"blk.{i}.attn_{x}.{what}" for x in "qkv"]
    all_of = [(i, what) for i in range(case.kwargs["num_hidden_layers"]) for what in ("weight", "bias")]
    convert.rewrite(path, drop=[n for i, what in all_of for n in names(i, what)],
                    tensors=[(f"blk.{i}.attn_qkv.{what}", np.concatenate([old[n] for n in names(i, what)])) for i, what in all_of])


FLIPS = {"attention uniform": uniform_attention, "biases": no_bias("mlp"), "q, k, v biases": no_bias("_proj"), "no head bias": no_bias("lm_head"),
         "all lanes": rope(1.0)}

CASES = [
    Case(name="phi-2", family="phi", config=PhiConfig, model=PhiForCausalLM, rows=(24,), kwargs={**BASE, **rope(0.5)}, flips=FLIPS,
         shows="half of each head rotates, parallel parts behind one norm, an untied head with a bias, tanh GELU"),
    Case(name="joined-gguf", family="phi", config=PhiConfig, model=PhiForCausalLM, rows=(12,), flips=FLIPS, taps=False,
         kwargs={**BASE, **rope(0.5)}, gguf_patch=joined, gguf_note="q, k and v joined to attn_qkv, as older converters wrote them",
         shows="q, k and v in one matrix of a GGUF file"),
    Case(name="head-norm", family="phi", config=PhiConfig, model=PhiForCausalLM, rows=(12,), flips=FLIPS, drop=("head_dim",),
         kwargs={**BASE, **rope(0.25, rope_theta=500.0), "hidden_size": 48, "intermediate_size": 40, "num_attention_heads": 6, "num_key_value_heads": 2,
                 "qk_layernorm": True},
         gguf=False, gguf_note="llama.cpp knows neither the norms of heads nor grouped keys in this family",
         shows="a norm with a bias shared by the heads of q and of k, grouped keys, a quarter rotates"),
]

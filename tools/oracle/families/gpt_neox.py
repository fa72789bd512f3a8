"""GPT-NeoX and Pythia: partial rotary embedding, parallel attention and MLP with two norms, q, k, v per head."""

from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

from case import Case
from reference import no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=48,
            bos_token_id=130, eos_token_id=130)


def rope(theta, part, **scaling):
    return {"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": part, **scaling}


def neox(name, shows, flips, theta=10000.0, part=0.25, scaling=None, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    spelled = {"rotary_pct": part, "rotary_emb_base": int(theta)}
    options.setdefault("respell", spelled)
    options.setdefault("drop", ("rope_theta", "partial_rotary_factor"))
    return Case(name=name, family="gpt_neox", config=GPTNeoXConfig, model=GPTNeoXForCausalLM, shows=shows,
                flips={"attention uniform": uniform_attention, "biases": no_bias("dense"), **flips},
                kwargs={**BASE, "rope_parameters": rope(theta, part, **(scaling or {})), **kw}, **options)


CASES = [
    neox("pythia", "a quarter of each head rotates, parts side by side, each with its norm; mask buffers are stored",
         {"one after the other": {"use_parallel_residual": False}, "all lanes": {"rope_parameters": rope(10000.0, 1.0)}}, rows=(24,),
         raw_config=True, gguf_note="llama.cpp computes GELU in the tanh form, through a table of halves"),
    neox("sequential", "one part after the other, half of each head rotates, a base of its own, tied, tanh GELU",
         {"parallel": {"use_parallel_residual": True}, "theta": {"rope_parameters": rope(10000.0, 0.5)}}, theta=500.0, part=0.5,
         use_parallel_residual=False, tie_word_embeddings=True, hidden_act="gelu_new", rows=(12,), gguf=False,
         gguf_note="the converter writes no rotary base: the file would be another model"),
    neox("no-bias", "attention without biases, `rope_parameters` spelling, linear scaling", {},
         scaling={"rope_type": "linear", "factor": 2.0}, attention_bias=False, spelling="v5", drop=(), respell={}, rows=(24,), gguf=False,
         gguf_note="the converter needs rotary_pct, which this spelling has not; llama.cpp wants the biases"),
]

"""Llama (architectures A.1, B): head layouts, biases, tying, every rope scaling beyond its original length, storage."""

from transformers import LlamaConfig, LlamaForCausalLM

from case import Case
from reference import kv_modulo, no_bias, other_head, uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=130, eos_token_id=130,
            tie_word_embeddings=False)
DEFAULT = {"rope_type": "default", "rope_theta": 10000.0}


def llama(name, shows, flips, rope=None, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    theta = kw.pop("rope_theta", 10000.0)
    parameters = {"rope_type": "default", "rope_theta": theta, **(rope or {})}
    return Case(name=name, family="llama", config=LlamaConfig, model=LlamaForCausalLM, shows=shows,
                flips={"attention uniform": uniform_attention, **flips},
                kwargs={**BASE, "rope_parameters": parameters, **kw}, **options)


def original(n, **rope):
    """A scaling whose model was trained on n positions."""
    return {"original_max_position_embeddings": n, **rope}


CASES = [
    llama("gqa", "grouped queries, untied head, default rope, odd vocabulary, its own tokenizer",
          {"kv modulo": kv_modulo, "theta": {"rope_parameters": {**DEFAULT, "rope_theta": 500.0}},
           "eps": {"rms_norm_eps": 0.05}}, rows=(20, 20), tokenizer=True),
    llama("mha-tied", "as many key-value heads as heads (key left out of the file), tied head",
          {"another head": other_head}, num_key_value_heads=4, tie_word_embeddings=True, vocab_size=160, drop=("num_key_value_heads", "head_dim"),
          bos_token_id=159, eos_token_id=159),
    llama("llama3-rope", "llama3 scaling, head_dim 16 is not hidden / heads, more positions than original_max_position_embeddings",
          {"rope default": {"rope_parameters": DEFAULT | {"rope_theta": 500.0}},
           "rope linear": {"rope_parameters": {"rope_type": "linear", "factor": 8.0, "rope_theta": 500.0}}},
          rope=original(16, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0), rope_theta=500.0,
          head_dim=16, rows=(40,), tie_word_embeddings=True),
    llama("biases", "biases on q, k, v, o and on gate, up, down",
          {"no attention bias": no_bias("self_attn"), "no o bias": no_bias("o_proj"), "no mlp bias": no_bias("mlp"),
           "no k bias": no_bias("k_proj"), "no v bias": no_bias("v_proj"), "no down bias": no_bias("down_proj")},
          attention_bias=True, mlp_bias=True, rows=(20,)),
]

"""Falcon: multi-query, grouped with separate norms for attention and MLP, ALiBi with one key-value head per query head."""

from transformers import FalconConfig, FalconForCausalLM

from case import Case
from reference import no_bias, other_head

BASE = dict(vocab_size=131, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=48,
            bos_token_id=130, eos_token_id=130)
ERF = "llama.cpp computes GELU in the tanh form, through a table of halves"
NO_ALIBI = "llama.cpp's converter writes no key for ALiBi: the file would be another model"


def same_norm(model):
    """Use one norm for attention and MLP."""
    for layer in model.transformer.h:
        layer.ln_mlp = layer.ln_attn


def wrong_slopes(model):
    """Assign the slopes to the heads in reversed order."""
    from transformers.models.falcon import modeling_falcon as home
    right = home.build_alibi_tensor
    home.build_alibi_tensor = lambda mask, heads, dtype: right(mask, heads, dtype).flip(0)
    def undo():
        home.build_alibi_tensor = right
    return undo


def full_slopes(model):
    """Compute slopes and products in float32."""
    import torch
    from transformers.models.falcon import modeling_falcon as home
    right = home.build_alibi_tensor
    def build(mask, heads, dtype):
        whole = 2 ** (heads.bit_length() - 1)
        slopes = [2 ** (-8 * (h + 1) / whole) for h in range(whole)] + [2 ** (-4 * (2 * h + 1) / whole) for h in range(heads - whole)]
        return (torch.tensor(slopes)[:, None] * (mask.cumsum(-1) - 1).float()).view(heads, 1, -1)
    home.build_alibi_tensor = build
    def undo():
        home.build_alibi_tensor = right
    return undo


def other_groups(model):
    """Exchange the weights of the two groups of heads."""
    for layer in model.transformer.h:
        weight = layer.self_attention.query_key_value.weight
        weight.data.copy_(weight.data.roll(weight.shape[0] // 2, 0))


def no_alibi(model):
    """Ignore the distance of keys."""
    from transformers.models.falcon import modeling_falcon as home
    right = home.build_alibi_tensor
    home.build_alibi_tensor = lambda *a, **k: 0 * right(*a, **k)
    def undo():
        home.build_alibi_tensor = right
    return undo


def falcon(name, shows, flips, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="falcon", config=FalconConfig, model=FalconForCausalLM, shows=shows, flips=flips,
                kwargs={**BASE, **kw}, **options)


ALIBI = dict(alibi=True, multi_query=False, parallel_attn=False, bias=True, attention="sdpa", gguf=False, gguf_note=NO_ALIBI)

CASES = [
    falcon("multi-query", "the 7B's form: one key-value head, attention and MLP behind one norm; num_kv_heads is ignored",
           {"one after the other": lambda m: [setattr(m.config, "parallel_attn", False)] and [
               setattr(l, "post_attention_layernorm", l.input_layernorm) for l in m.transformer.h] and None,
            "theta": {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}},
           rows=(24,), drop=("num_kv_heads", "num_ln_in_parallel_attn", "ffn_hidden_size"), raw_config=True, gguf_note=ERF),
    falcon("grouped", "the 40B's form: two groups of three queries, a norm for each part, an untied head",
           {"one norm": same_norm}, hidden_size=36, num_attention_heads=6, num_kv_heads=2, new_decoder_architecture=True,
           tie_word_embeddings=False, rows=(12,), gguf_note=ERF),
    falcon("one-norm", "the new form with one norm for both parts (Falcon 2)",
           {"groups the other way round": other_groups},
           num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=1, rows=(12,), raw_config=True, gguf_note=ERF),
    falcon("own-head", "config.json ties the head, the file holds another: it is used", {"another head": other_head}, num_kv_heads=2,
           new_decoder_architecture=True, num_hidden_layers=1, tie_word_embeddings=False, respell={"tie_word_embeddings": True},
           rows=(8,), gguf=False, gguf_note="the container has no word for it"),
    falcon("alibi", "the RW form: ALiBi in bfloat16 before the scale, q, k, v of each head, one part after the other, biases",
           {"biases": no_bias("query_key_value"), "positions ignored": no_alibi, "slopes of other heads": wrong_slopes}, rows=(12,), **ALIBI),
    falcon("alibi-long", "six heads, 300 positions: past 256 bfloat16 tells neighbours apart no more",
           {"positions ignored": no_alibi, "slopes in float32": full_slopes}, hidden_size=36, num_attention_heads=6, max_position_embeddings=512, rows=(300,),
           taps=False, num_hidden_layers=1, **ALIBI),
]

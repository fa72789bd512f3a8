"""Llama: head layouts, biases, tying, every rope scaling beyond its original length, storage."""

from math import log

from transformers import LlamaConfig, LlamaForCausalLM

from case import Case
from convert import longrope
from reference import kv_modulo, no_bias, other_head, scale_of, uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
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


def old_extras(model):
    """Return tensors that checkpoints of 2023 store besides their weights."""
    table = model.model.rotary_emb.inv_freq
    layers = range(model.config.num_hidden_layers)
    return {"lm_head.weight": model.lm_head.weight.data.clone(),
            **{f"model.layers.{i}.self_attn.rotary_emb.inv_freq": table.clone() for i in layers}}


def scaled(kind, original=None, **keys):
    """Return rope parameters of one kind, for a model trained on `original` positions."""
    return {"rope_type": kind, **({"original_max_position_embeddings": original} if original else {}), **keys}


def other(kind, **keys):
    """Return a flip: the same weights with another scaling."""
    return {"rope_parameters": {"rope_theta": 10000.0, **scaled(kind, **keys)}}


SHORT = [1.0, 1.1, 1.25, 1.4, 1.6, 1.9, 2.2, 2.6]
LONG = [1.0, 1.3, 1.9, 2.8, 4.1, 6.0, 8.5, 12.0]
YARN = dict(factor=4.0, original=12)
WIDE = dict(head_dim=16, tie_word_embeddings=True, max_position_embeddings=48, rows=(24,))
TWICE = dict(**WIDE, taps=False, gguf=False, gguf_note="llama.cpp's converter reads config.json in its own way")

CASES = [
    llama("gqa", "grouped queries, untied head, default rope, odd vocabulary, its own tokenizer",
          {"kv modulo": kv_modulo, "theta": other("default", rope_theta=500.0), "eps": {"rms_norm_eps": 0.05}},
          rows=(12, 12), tokenizer=True, drop=("head_dim",)),
    llama("mqa", "one key-value head, three heads of 12; rope_theta is an integer, several end ids",
          {"scale": scale_of(36), "theta": other("default")}, hidden_size=36, num_attention_heads=3, num_key_value_heads=1,
          rope_theta=500000, eos_token_id=[130, 129, 7], rows=(12,)),
    llama("mha-tied", "as many key-value heads as heads (key left out of the file), tied head",
          {"another head": other_head}, num_key_value_heads=4, tie_word_embeddings=True, vocab_size=160,
          bos_token_id=159, eos_token_id=159, drop=("num_key_value_heads", "head_dim"), rows=(12,)),
    llama("head-dim", "heads wider than hidden / heads: 4 x 20 on a hidden size of 32; 300 tokens",
          {"scale of hidden / heads": scale_of(8)}, head_dim=20, tie_word_embeddings=True, vocab_size=300, rows=(12,),
          bos_token_id=299, eos_token_id=299),
    llama("biases", "biases on q, k, v, o and on gate, up, down",
          {"no attention bias": no_bias("self_attn"), "no o bias": no_bias("o_proj"), "no mlp bias": no_bias("mlp"),
           "no k bias": no_bias("k_proj"), "no v bias": no_bias("v_proj"), "no down bias": no_bias("down_proj")},
          attention_bias=True, mlp_bias=True, rows=(12,), drop=("head_dim",)),

    llama("rope-linear", "linear scaling, spelled `type` as old files do",
          {"rope default": other("default"), "factor": other("linear", factor=2.0)}, scaled("linear", factor=4.0),
          respell={"rope_scaling": {"type": "linear", "factor": 4.0}}, **WIDE),
    llama("rope-dynamic", "NTK by length: the base grows with a forward that ends past max_position_embeddings",
          {"rope default": other("default"), "factor": other("dynamic", factor=4.0)}, scaled("dynamic", factor=2.0),
          gguf=False, gguf_note="dynamic NTK has no GGUF form", **{**WIDE, "max_position_embeddings": 12, "rows": (24, 5)}),
    llama("rope-llama3", "llama3 scaling, some frequencies kept, some blended, some divided",
          {"rope default": other("default", rope_theta=500.0), "rope linear": other("linear", factor=8.0, rope_theta=500.0)},
          scaled("llama3", 16, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0), rope_theta=500.0, **WIDE),
    llama("rope-llama3-v5", "llama3 scaling in the `rope_parameters` spelling, factor 32",
          {"rope default": other("default"), "factor": other("llama3", original=20, factor=8.0, low_freq_factor=0.5, high_freq_factor=3.0)},
          scaled("llama3", 20, factor=32.0, low_freq_factor=0.5, high_freq_factor=3.0), spelling="v5", **WIDE),
    llama("rope-yarn", "YaRN by its defaults",
          {"rope default": other("default"), "rope linear": other("linear", factor=4.0),
           "no attention factor": other("yarn", attention_factor=1.0, **YARN)}, scaled("yarn", **YARN), **WIDE),
    llama("rope-yarn-betas", "YaRN with both betas, `rope_parameters` spelling",
          {"betas": {"rope_parameters": {"rope_theta": 50.0, **scaled("yarn", **YARN)}}},
          scaled("yarn", beta_fast=1.0, beta_slow=0.1, **YARN), rope_theta=50.0, spelling="v5", **WIDE,
          gguf_note="the converter writes yarn_beta_fast and yarn_beta_slow, llama.cpp does not read them for Llama: given as options",
          peer_options={24: {"yarn_beta_fast": 1.0, "yarn_beta_slow": 0.1}}),
    llama("rope-yarn-mscale", "YaRN with mscale and mscale_all_dim, bounds not rounded",
          {"mscale": other("yarn", beta_fast=1.0, beta_slow=0.1, truncate=False, **YARN, rope_theta=50.0),
           "truncate": other("yarn", beta_fast=1.0, beta_slow=0.1, mscale=2.0, mscale_all_dim=0.5, **YARN, rope_theta=50.0)},
          scaled("yarn", mscale=2.0, mscale_all_dim=0.5, truncate=False, beta_fast=1.0, beta_slow=0.1, **YARN), rope_theta=50.0,
          gguf=False, gguf_note="the converter drops mscale and truncate, so a twin would be another model", **WIDE),
    llama("rope-yarn-attention", "YaRN with its own attention_factor",
          {"derived factor": other("yarn", **YARN)}, scaled("yarn", attention_factor=0.6, **YARN),
          gguf_note="the converter writes yarn_attn_factor = attention_factor, llama.cpp does not read it: given as attn_factor / (1 + 0.1 ln 4)",
          peer_options={24: {"kv_overrides": {"llama.rope.scaling.attn_factor": 0.6 / (1 + 0.1 * log(4))}}}, **WIDE),
    llama("rope-longrope", "longrope: 48 positions take the long factors, 14 (and what greedy adds) the short ones",
          {"short for long": other("longrope", original=40, factor=4.0, short_factor=SHORT, long_factor=SHORT),
           "rope default": other("default"),
           "no attention factor": other("longrope", original=40, factor=4.0, short_factor=SHORT, long_factor=LONG, attention_factor=1.0)},
          scaled("longrope", 40, factor=4.0, short_factor=SHORT, long_factor=LONG),
          gguf_patch=longrope, gguf_note="factor tensors and attn_factor added as the Phi-3 converter writes them: Llama's does not",
          peer_options={14: {"kv_overrides": {"llama.rope.scaling.original_context_length": 4096}}}, **{**WIDE, "max_position_embeddings": 160, "rows": (48, 14)}),

    llama("rope-proportional", "only the first pairs of a head rotate, as fast as if all did, and slower by a factor",
          {"rope default": other("default", rope_theta=50.0), "factor": other("proportional", partial_rotary_factor=0.5, rope_theta=50.0),
           "share": other("proportional", partial_rotary_factor=0.25, factor=2.0, rope_theta=50.0)},
          {"rope_type": "proportional", "partial_rotary_factor": 0.5, "factor": 2.0}, rope_theta=50.0, spelling="v5", gguf=False,
          gguf_note="the converter writes no rope_freqs for it", **WIDE),

    llama("rope-llama3-trained", "original_max_position_embeddings twice: that of the top level counts",
          {"the inner one": {"original_max_position_embeddings": 40}},
          scaled("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0), rope_theta=500.0, original_max_position_embeddings=16,
          respell={"rope_scaling": scaled("llama3", 40, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)}, **TWICE),
    llama("rope-yarn-trained", "the same for YaRN, `rope_parameters` spelling",
          {"the inner one": {"original_max_position_embeddings": 40}}, scaled("yarn", factor=4.0), original_max_position_embeddings=12,
          spelling="v5", respell={"rope_parameters": {**scaled("yarn", 40, factor=4.0), "rope_theta": 10000.0}}, **TWICE),
    llama("rope-longrope-trained", "the same for longrope: 24 positions are more than the top level's 20",
          {"the inner one": {"original_max_position_embeddings": 40}},
          scaled("longrope", factor=4.0, short_factor=SHORT, long_factor=LONG), original_max_position_embeddings=20,
          respell={"rope_scaling": scaled("longrope", 40, factor=4.0, short_factor=SHORT, long_factor=LONG)}, **TWICE),
    llama("rope-both", "rope_scaling and rope_parameters that differ: rope_scaling counts",
          {"rope default": other("default")}, scaled("linear", factor=4.0), spelling="v5",
          respell={"rope_scaling": {"rope_type": "linear", "factor": 4.0}, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
          **TWICE),
    llama("rope-empty", "a rope_scaling without members says nothing", {"theta": other("default", rope_theta=500.0)},
          respell={"rope_scaling": {}}, **TWICE),

    llama("bf16", "BF16 storage, norms and biases too", {}, dtype="BF16", rows=(12,), attention_bias=True,
          tie_word_embeddings=True, drop=("head_dim",)),
    llama("f16", "F16 storage", {"kv modulo": kv_modulo}, dtype="F16", rows=(12,), drop=("head_dim",)),
    llama("sharded", "several files and an index, BF16, `rope_parameters` spelling", {"kv modulo": kv_modulo}, dtype="BF16",
          shard_bytes=20_000, spelling="v5", rows=(12,), vocab_size=257, bos_token_id=0, eos_token_id=256),
    llama("old-file", "a tied model that stores its head and its rotary tables all the same", {"another head": other_head},
          tie_word_embeddings=True, extra=old_extras, rows=(12,), drop=("head_dim",)),
    llama("one-token", "T = 1", {}, rows=(1,), tie_word_embeddings=True, drop=("head_dim",)),
    llama("unequal", "sequences of 5, 13 and 13 tokens, three layers", {"kv modulo": kv_modulo}, rows=(13, 5, 13),
          num_hidden_layers=3, hidden_size=24, intermediate_size=40, tie_word_embeddings=True),
]

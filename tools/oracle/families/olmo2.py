"""OLMo 2: norms after attention and MLP, q and k normalised over all heads. OLMo 3: windows, in whose layers nothing scales the rotation."""

from transformers import Olmo2Config, Olmo2ForCausalLM, Olmo3Config, Olmo3ForCausalLM

from case import Case
from reference import kv_modulo, no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=128, rms_norm_eps=1e-6, bos_token_id=130, eos_token_id=130, pad_token_id=1,
            rope_parameters={"rope_type": "default", "rope_theta": 500000.0})


PLAIN = {k: {"rope_type": "default", "rope_theta": 500000.0} for k in ("full_attention", "sliding_attention")}
YARN = {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 4.0, "original_max_position_embeddings": 12, "attention_factor": 1.1386294361119891,
        "beta_fast": 32.0, "beta_slow": 1.0}


def by_head(model):
    """Normalise q and k per head."""
    import torch
    for layer in model.model.layers:
        for norm in (layer.self_attn.q_norm, layer.self_attn.k_norm):
            def forward(x, norm=norm, d=layer.self_attn.head_dim):
                y = x.unflatten(-1, (-1, d))
                y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
                return norm.weight * y.flatten(-2)
            norm.forward = forward


def case(name, shows, flips, family="olmo2", **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    config, model = (Olmo2Config, Olmo2ForCausalLM) if family == "olmo2" else (Olmo3Config, Olmo3ForCausalLM)
    return Case(name=name, family=family, config=config, model=model, shows=shows,
                flips={"attention uniform": uniform_attention, "norms of heads": by_head, **flips}, kwargs={**BASE, **kw}, **options)


CASES = [
    case("gqa", "grouped queries, untied", {"kv modulo": kv_modulo}, rows=(12,)),
    case("mha-biases", "as many key-value heads as heads, biases of attention, tied, YaRN past the trained length; F16", {
        "no biases": no_bias("self_attn"), "default": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}},
        num_key_value_heads=4, attention_bias=True, tie_word_embeddings=True, dtype="F16", max_position_embeddings=48,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 12}, gguf=False,
        gguf_note="llama.cpp loads no biases of this family"),
    case("windows", "a window of 5 keys in three of four layers, whose rotation is not scaled; YaRN past the trained length in the fourth", {
        "no window": {"layer_types": ["full_attention"] * 4}, "window in all": {"layer_types": ["sliding_attention"] * 4},
        "default": {"rope_parameters": PLAIN}, "scaled everywhere": {"rope_parameters": {k: YARN for k in PLAIN}}}, family="olmo3",
        num_hidden_layers=4, hidden_size=16, intermediate_size=24, vocab_size=131, bos_token_id=130, eos_token_id=130, rows=(16,), sliding_window=5, rms_norm_eps=1e-5, rope_parameters={**PLAIN, "full_attention": YARN},
        max_position_embeddings=48, drop=("layer_types", "rope_local_base_freq")),
    case("two-bases", "two bases, grouped queries in every other layer a window, biases, tied, BF16", {
        "one base": {"rope_parameters": {**PLAIN, "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0}}},
        "no biases": no_bias("self_attn"), "window in all": {"layer_types": ["sliding_attention"] * 2}}, family="olmo3", spelling="v5",
        rows=(14,), sliding_window=4, layer_types=["full_attention", "sliding_attention"], attention_bias=True, tie_word_embeddings=True,
        dtype="BF16", rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 500000.0},
                                       "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}, gguf=False,
        gguf_note="llama.cpp loads no biases of this family"),
]

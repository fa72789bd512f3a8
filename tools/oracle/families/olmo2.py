"""OLMo 2: norms after attention and MLP, q and k normalised over all heads."""

from transformers import Olmo2Config, Olmo2ForCausalLM

from case import Case
from reference import kv_modulo, no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=128, rms_norm_eps=1e-6, bos_token_id=130, eos_token_id=130, pad_token_id=1,
            rope_parameters={"rope_type": "default", "rope_theta": 500000.0})


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


def case(name, shows, flips, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="olmo2", config=Olmo2Config, model=Olmo2ForCausalLM, shows=shows,
                flips={"attention uniform": uniform_attention, "norms of heads": by_head, **flips}, kwargs={**BASE, **kw}, **options)


CASES = [
    case("gqa", "grouped queries, untied", {"kv modulo": kv_modulo}, rows=(12,)),
    case("mha-biases", "as many key-value heads as heads, biases of attention, tied, YaRN past the trained length; F16", {
        "no biases": no_bias("self_attn"), "default": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}},
        num_key_value_heads=4, attention_bias=True, tie_word_embeddings=True, dtype="F16", max_position_embeddings=48,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 12}, gguf=False,
        gguf_note="llama.cpp loads no biases of this family"),
]

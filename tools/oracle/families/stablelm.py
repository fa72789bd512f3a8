"""StableLM: Llama's attention and MLP with LayerNorm, partial rotary embedding; biases on q, k, v, norms of heads, parallel blocks."""

from transformers import StableLmConfig, StableLmForCausalLM

from case import BARE, Case
from reference import kv_modulo, no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
            max_position_embeddings=48, bos_token_id=130, eos_token_id=130)


def rope(part):
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": part}}


def other_heads(model):
    """Give the norms of all heads the weights of the first."""
    for layer in model.model.layers:
        for norms in (layer.self_attn.q_layernorm.norms, layer.self_attn.k_layernorm.norms):
            for norm in norms:
                norm.weight = norms[0].weight


def case(name, shows, flips, part=0.25, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="stablelm", config=StableLmConfig, model=StableLmForCausalLM, shows=shows,
                flips={"attention uniform": uniform_attention, "all lanes": rope(1.0), **flips}, kwargs={**BASE, **rope(part), **kw}, **options)


CASES = [
    case("plain", "a quarter of each head rotates, no biases but the norms', untied (3B, Zephyr)",
         {"parallel": lambda m: [setattr(l, "use_parallel_residual", True) for l in m.model.layers] and None}, rows=(24,)),
    case("biases", "biases on q, k, v, half of each head rotates, grouped keys (StableLM 2 1.6B)",
         {"no qkv bias": no_bias("_proj"), "kv modulo": kv_modulo}, part=0.5, use_qkv_bias=True, num_key_value_heads=2, rows=(12,)),
    case("head-norms", "a norm of its own for every head, parallel parts, grouped keys (StableLM 2 12B)",
         {"one norm for all heads": other_heads, "kv modulo": kv_modulo}, qk_layernorm=True, use_parallel_residual=True,
         num_key_value_heads=2, rows=(12,)),
    case("bare", "saved without its head, a norm of its own for every head", {"one norm for all heads": other_heads}, qk_layernorm=True,
         rows=(12,), **BARE),
]

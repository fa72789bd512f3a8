"""GLM-4, the models of 2024 (glm) and of 2025 (glm4, norms after attention and MLP): half of a head's lanes rotate, in adjacent pairs."""

from transformers import Glm4Config, Glm4ForCausalLM, GlmConfig, GlmForCausalLM

from case import Case
from reference import no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=16, max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=130, eos_token_id=[130, 129], pad_token_id=0)


def rope(part=0.5, theta=10000.0):
    return {"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": part}


def case(name, family, shows, flips, **kw):
    options = {"plain_vocab": True} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    config, model = (GlmConfig, GlmForCausalLM) if family == "glm" else (Glm4Config, Glm4ForCausalLM)
    return Case(name=name, family=family, config=config, model=model, shows=shows,
                flips={"attention uniform": uniform_attention, **flips}, kwargs={**BASE, "rope_parameters": rope(), **kw}, **options)


CASES = [
    case("half", "glm", "half of the lanes, biases on q, k and v and none on o; partial_rotary_factor left out", {
        "all lanes": {"rope_parameters": rope(1.0)}, "no bias": no_bias("self_attn")}, drop=("partial_rotary_factor",), rows=(12,), hidden_size=64),
    case("quarter", "glm", "a quarter of the lanes, no biases, one key-value head, tied", {"half": {"rope_parameters": rope(0.5)}},
         rope_parameters=rope(0.25), attention_bias=False, num_key_value_heads=1, tie_word_embeddings=True, rows=(12,), gguf=False,
         gguf_note="the converter writes half of the lanes whatever the file says"),
    case("sandwich", "glm4", "norms behind attention and MLP, half of the lanes, biases", {
        "all lanes": {"rope_parameters": rope(1.0)}, "no bias": no_bias("self_attn")}, rows=(12,)),
    case("plain", "glm4", "three heads on one, three quarters of the lanes, no biases, tied, BF16", {"half": {"rope_parameters": rope(0.5)}},
         rope_parameters=rope(0.75), num_attention_heads=3, num_key_value_heads=1, attention_bias=False, tie_word_embeddings=True,
         hidden_size=36, dtype="BF16", rows=(12,)),
]

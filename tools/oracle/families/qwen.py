"""Qwen2 and Qwen3, dense: biases on q, k, v; head norms; windows in the upper layers."""

from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from case import Case
from reference import no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=128, rms_norm_eps=1e-6, bos_token_id=130, eos_token_id=130,
            rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})
YARN = {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 12}


def case(name, shows, flips, family="qwen2", **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    config, model = (Qwen2Config, Qwen2ForCausalLM) if family == "qwen2" else (Qwen3Config, Qwen3ForCausalLM)
    return Case(name=name, family=family, config=config, model=model, shows=shows,
                flips={"attention uniform": uniform_attention, **flips}, kwargs={**BASE, "tie_word_embeddings": True, **kw}, **options)


CASES = [
    case("biases", "biases on q, k and v and none on o; six heads on two, tied", {"no qkv bias": no_bias("self_attn")},
         hidden_size=36, num_attention_heads=6, rows=(12,)),
    case("windows", "the upper layers of three see six keys", {"no window": {"use_sliding_window": False}},
         num_hidden_layers=3, use_sliding_window=True, sliding_window=6, max_window_layers=1, gguf=False, drop=("layer_types",),
         gguf_note="the converter writes no window key: the file would be another model"),
    case("yarn", "YaRN past the trained length, untied", {"default": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}},
         rope_parameters=YARN, max_position_embeddings=48, tie_word_embeddings=False),
    case("head-norm", "each head of q and k normalised, heads of 12 on a hidden size of 32", {}, family="qwen3", head_dim=12, rows=(12,)),
    case("bias", "biases on q, k, v and o beside the head norms, untied", {"no bias": no_bias("self_attn")}, family="qwen3", head_dim=8,
         attention_bias=True, tie_word_embeddings=False, rows=(12,)),
]

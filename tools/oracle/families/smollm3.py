"""SmolLM3: layers without rotary embedding, and windows in them."""

from transformers import SmolLM3Config, SmolLM3ForCausalLM

from case import Case
from reference import no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=40, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=128, rms_norm_eps=1e-6, bos_token_id=130, eos_token_id=130, pad_token_id=1,
            rope_parameters={"rope_type": "default", "rope_theta": 2000000.0})


def case(name, shows, flips, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="smollm3", config=SmolLM3Config, model=SmolLM3ForCausalLM, shows=shows,
                flips={"attention uniform": uniform_attention, **flips}, kwargs={**BASE, **kw}, **options)


CASES = [
    case("every-fourth", "the fourth of four layers does not rotate, though the file does not say so; tied, rope_theta left out", {
        "all rotate": {"no_rope_layers": [1, 1, 1, 1]}, "another layer": {"no_rope_layers": [1, 1, 0, 1]}},
        drop=("no_rope_layers", "tie_word_embeddings", "rope_theta"), rows=(12,)),
    case("windows", "windows of 5 keys in the layers that do not rotate; biases; untied", {
        "no window": {"use_sliding_window": False}, "all rotate": {"no_rope_layers": [1, 1, 1]}, "no bias": no_bias("self_attn"),
        "no bias of MLP": no_bias("mlp")}, num_hidden_layers=3,
        no_rope_layers=[0, 1, 0], use_sliding_window=True, sliding_window=5, attention_bias=True, mlp_bias=True, tie_word_embeddings=False,
        drop=("layer_types",), gguf=False, gguf_note="GGUF has no keys for layers that rotate or have windows"),
]

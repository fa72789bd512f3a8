"""StarCoder2: grouped rotary attention, LayerNorm and biases everywhere, a plain tanh-GELU MLP, a window."""

from transformers import Starcoder2Config, Starcoder2ForCausalLM

from case import Case
from reference import kv_modulo, no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=128, bos_token_id=130, eos_token_id=130,
            rope_parameters={"rope_type": "default", "rope_theta": 100000.0})
FLIPS = {"attention uniform": uniform_attention, "kv modulo": kv_modulo, "theta": {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}}

CASES = [
    Case(name="window", family="starcoder2", config=Starcoder2Config, model=Starcoder2ForCausalLM, rows=(24,), gguf=False,
         kwargs={**BASE, "sliding_window": 7}, gguf_note="the converter writes no window key: the file would be another model",
         flips={**FLIPS, "biases": no_bias("proj"), "no window": {"sliding_window": None}, "window of 8": {"sliding_window": 8}},
         shows="a sliding window of 7 keys in a sequence of 24, biases everywhere, tied head"),
    Case(name="no-window", family="starcoder2", config=Starcoder2Config, model=Starcoder2ForCausalLM, rows=(12,),
         kwargs={**BASE, "tie_word_embeddings": False}, flips={**FLIPS, "biases": no_bias("proj")},
         shows="every key is seen, an untied head"),
    Case(name="no-bias", family="starcoder2", config=Starcoder2Config, model=Starcoder2ForCausalLM, rows=(12,), dtype="BF16",
         kwargs={**BASE, "use_bias": False}, flips=FLIPS, peer=False, gguf_note="llama.cpp refuses it without biases",
         shows="projections without biases, BF16 storage"),
]

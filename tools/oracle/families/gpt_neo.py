"""GPT-Neo: alternating layers with full attention and with a window, scores not scaled."""

from transformers import GPTNeoConfig, GPTNeoForCausalLM

from case import Case
from reference import no_bias

NO_GGUF = dict(gguf=False, gguf_note="llama.cpp does not know the family")
BASE = dict(vocab_size=131, hidden_size=32, num_layers=2, num_heads=4, max_position_embeddings=48, bos_token_id=130, eos_token_id=130)

CASES = [
    Case(name="turns", family="gpt_neo", config=GPTNeoConfig, model=GPTNeoForCausalLM, rows=(12,), **NO_GGUF,
         kwargs={**BASE, "attention_types": [[["global", "local"], 1]], "window_size": 5},
         shows="a global and a local layer, a window of 5 keys in a sequence of 12, no 1/sqrt(D)",
         flips={"window of 6": {"window_size": 6}, "relu": {"activation_function": "relu"}, "biases": no_bias("out_proj")}),
    Case(name="groups", family="gpt_neo", config=GPTNeoConfig, model=GPTNeoForCausalLM, rows=(12,), **NO_GGUF,
         kwargs={**BASE, "num_layers": 3, "attention_types": [[["local"], 2], [["global"], 1]], "window_size": 3, "intermediate_size": 40},
         shows="layers given in two groups, an inner width of its own",
         flips={"other order": {"attention_types": [[["global"], 1], [["local"], 2]]}}),
]

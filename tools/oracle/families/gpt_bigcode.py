"""GPT-BigCode: GPT-2's block with one key-value head, or with q, k, v fused per head."""

from transformers import GPTBigCodeConfig, GPTBigCodeForCausalLM

from case import Case
from reference import no_bias, uniform_attention

BASE = dict(vocab_size=131, n_embd=32, n_layer=2, n_head=4, n_positions=48, bos_token_id=130, eos_token_id=130)
FLIPS = {"attention uniform": uniform_attention, "biases": no_bias("c_attn")}

CASES = [
    Case(name="multi-query", family="gpt_bigcode", config=GPTBigCodeConfig, model=GPTBigCodeForCausalLM, rows=(12,), kwargs=BASE,
         flips=FLIPS, shows="one key-value head behind four queries, tanh GELU, learned positions"),
    Case(name="multi-head", family="gpt_bigcode", config=GPTBigCodeConfig, model=GPTBigCodeForCausalLM, rows=(12,),
         kwargs={**BASE, "multi_query": False, "n_inner": 40, "scale_attn_weights": False}, gguf=False,
         gguf_note="the converter always writes one key-value head",
         flips={**FLIPS, "scaled": {"scale_attn_weights": True}}, shows="q, k and v of one head after another, scores not scaled"),
]

"""GPT-2: learned positions, LayerNorm, Conv1D storage, fused q, k, v."""

from transformers import GPT2Config, GPT2LMHeadModel

from case import Case
from reference import uniform_attention

BASE = dict(vocab_size=131, n_embd=32, n_layer=2, n_head=4, n_positions=256, layer_norm_epsilon=1e-5, bos_token_id=130, eos_token_id=130)

CASES = [
    Case(name="plain", family="gpt2", config=GPT2Config, model=GPT2LMHeadModel, rows=(12,), kwargs=BASE, respell={"n_ctx": 256},
         shows="transposed projections, tied head, tanh GELU, every bias and norm away from its default",
         flips={"attention uniform": uniform_attention, "relu": {"activation_function": "relu"}}),
    Case(name="by-layer", family="gpt2", config=GPT2Config, model=GPT2LMHeadModel, rows=(12,),
         kwargs={**BASE, "n_inner": 40, "scale_attn_by_inverse_layer_idx": True}, gguf=False,
         gguf_note="GGUF has no key for scores divided by layer + 1",
         shows="scores divided by layer + 1, an inner width of its own", flips={"by layer": {"scale_attn_by_inverse_layer_idx": False}}),
]

"""BLOOM: ALiBi, a norm over the embedding, q, k, v fused per head."""

from transformers import BloomConfig, BloomForCausalLM

from case import Case
from reference import no_bias

BASE = dict(vocab_size=131, hidden_size=32, n_layer=2, n_head=4, bos_token_id=130, eos_token_id=130)


def no_alibi(model):
    """Ignore the distance of keys."""
    for module in model.modules():
        if hasattr(module, "inv_norm_factor"):
            module.beta = 0.0


FLIPS = {"no ALiBi": no_alibi, "biases": no_bias("query_key_value")}

CASES = [
    Case(name="alibi", family="bloom", config=BloomConfig, model=BloomForCausalLM, rows=(12,), kwargs=BASE, flips=FLIPS,
         respell={"seq_length": 48}, shows="ALiBi over four heads, fused projections per head, the embedding's norm"),
    Case(name="six-heads", family="bloom", config=BloomConfig, model=BloomForCausalLM, rows=(12,),
         kwargs={**BASE, "hidden_size": 36, "n_head": 6, "apply_residual_connection_post_layernorm": True}, gguf=False,
         gguf_note="GGUF has no key for residuals after the norm",
         shows="a head count that is no power of two, residuals taken after the norm",
         flips={**FLIPS, "residual before the norm": {"apply_residual_connection_post_layernorm": False}}),
]

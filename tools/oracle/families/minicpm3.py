"""MiniCPM 3: latent attention in a dense decoder, scaled embedding, branches and logits; LongRoPE on both sides of its switch."""

from transformers import MiniCPM3Config, MiniCPM3ForCausalLM

from case import Case
from reference import no_bias, scale_of, uniform_attention

PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 16, "short_factor": [1.0, 1.2], "long_factor": [1.3, 4.0]}
BASE = dict(vocab_size=131, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=3,
            kv_lora_rank=12, q_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, max_position_embeddings=128, rms_norm_eps=1e-5,
            bos_token_id=130, eos_token_id=130, pad_token_id=130, tie_word_embeddings=False, rope_parameters=PLAIN)


def small(case, model, g):
    """Make the logits smaller: those of the published model are divided by ten."""
    for name, p in model.named_parameters():
        if "lm_head" in name:
            p.data.mul_(0.2)


def case(name, shows, flips, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="minicpm3", config=MiniCPM3Config, model=MiniCPM3ForCausalLM, shows=shows, flips={
        "attention uniform": uniform_attention, "scale of the unrotated lanes": scale_of(6), "another embedding": {"scale_emb": 1.0},
        "another depth": {"scale_depth": 0.5}, **flips}, kwargs={**BASE, **kw}, plain_vocab=True, **options)


CASES = [
    case("plain", "values as wide as the model by its heads, the published factors, untied", {}, rows=(12,), init=small,
         gguf_note="llama.cpp normalises latents with the epsilon of the other norms"),
    case("longrope", "18 positions take the long factors, 10 the short ones; wide values, no latent of queries, other factors, biases, tied, BF16",
         {"short for long": {"rope_parameters": {**LONG, "long_factor": LONG["short_factor"]}}, "no biases": no_bias("self_attn")},
         rows=(18, 10), greedy=5, rope_parameters=LONG, original_max_position_embeddings=16, max_position_embeddings=64, q_lora_rank=None,
         v_head_dim=10, scale_emb=2.0, scale_depth=2.0, dim_model_base=12, attention_bias=True, tie_word_embeddings=True, dtype="BF16", gguf=False,
         gguf_note="llama.cpp has the published factors only, and requires a latent of queries"),
]

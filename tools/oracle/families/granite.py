"""Granite 3 dense: four multipliers, each different from 1."""

from transformers import GraniteConfig, GraniteForCausalLM

from case import Case
from reference import uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=130, eos_token_id=130, tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
FLIPS = {"attention uniform": uniform_attention, "embedding": {"embedding_multiplier": 1.0}, "residual": {"residual_multiplier": 1.0},
         "scores": {"attention_multiplier": 8 ** -0.5}, "logits": {"logits_scaling": 1.0}}

CASES = [
    Case(name="multipliers", family="granite", config=GraniteConfig, model=GraniteForCausalLM, rows=(12,), flips=FLIPS,
         shows="embedding, residual, score and logit multipliers",
         kwargs={**BASE, "embedding_multiplier": 3.0, "residual_multiplier": 0.4, "attention_multiplier": 0.2, "logits_scaling": 0.5}),
    Case(name="defaults", family="granite", config=GraniteConfig, model=GraniteForCausalLM, rows=(12,), gguf=False,
         gguf_note="GGUF readers fall back to 1/sqrt(D) where transformers multiplies scores by 1",
         shows="the class's own defaults: scores are not scaled at all", flips={"scores": {"attention_multiplier": 8 ** -0.5}},
         kwargs={**BASE, "tie_word_embeddings": False}),
]

"""Gemma 4's unified models (12B), text: the dense model, with its own class and other defaults."""

from transformers import Gemma4UnifiedForCausalLM, Gemma4UnifiedTextConfig

from case import Case
from families.gemma4 import BASE, buffers_at_one, calm, unscaled
from reference import uniform_attention

PLAIN = {k: v for k, v in BASE.items() if "per_layer_input" not in k}

CASES = [
    Case(name="values", family="gemma4_unified", config=Gemma4UnifiedTextConfig, model=Gemma4UnifiedForCausalLM,
         shows="without a window: values from the projection of keys, one head of keys; a cap, the sizes as the published file spells them",
         flips={"attention uniform": uniform_attention, "embedding not scaled": unscaled, "factors of layers at 1": buffers_at_one,
                "no windows": {"sliding_window": 100}, "no cap": {"final_logit_softcapping": None}},
         kwargs=PLAIN | dict(attention_k_eq_v=True, num_global_key_value_heads=1, num_hidden_layers=2, layer_types=BASE["layer_types"][:2],
                             final_logit_softcapping=3.0),
         init=calm, plain_vocab=True, spelling="v5", rows=(9,), drop=("per_layer_config",),
         respell={"global_head_dim": 8, "num_global_key_value_heads": 1, "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 131,
                  "enable_moe_block": False, "num_experts": None, "top_k_experts": None, "moe_intermediate_size": None},
         gguf=False, gguf_note="llama.cpp converts the wrapper only, to the files of gemma4"),
]

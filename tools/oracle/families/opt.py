"""OPT: learned positions from row 2, ReLU; norms before attention and MLP, or after them with projections of the embedding."""

from transformers import OPTConfig, OPTForCausalLM

from case import Case
from reference import no_bias

NO_GGUF = dict(gguf=False, gguf_note="llama.cpp does not know the family")
BASE = dict(vocab_size=131, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=40, max_position_embeddings=48,
            pad_token_id=1, bos_token_id=2, eos_token_id=2)


def shifted(model):
    """Read the table of positions from row 0."""
    for module in model.modules():
        if hasattr(module, "offset"):
            module.offset = 0


FLIPS = {"positions from row 0": shifted, "biases": no_bias("proj"), "gelu": {"activation_function": "gelu"}}

CASES = [
    Case(name="pre-norm", family="opt", config=OPTConfig, model=OPTForCausalLM, rows=(12,), kwargs=BASE, **NO_GGUF,
         shows="norms before each part, positions from row 2, ReLU", flips={**FLIPS, "post-norm": {"do_layer_norm_before": False}}),
    Case(name="post-norm", family="opt", config=OPTConfig, model=OPTForCausalLM, rows=(12,), **NO_GGUF,
         kwargs={**BASE, "do_layer_norm_before": False, "word_embed_proj_dim": 16},
         shows="norms after each part and none at the end, an embedding half as wide", flips=FLIPS),
]

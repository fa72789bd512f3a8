"""XGLM: sinusoids in fairseq's layout from row 2, a scaled embedding. No GGUF converter supports it."""

from transformers import XGLMConfig, XGLMForCausalLM

from case import Case
from reference import no_bias, uniform_attention

BASE = dict(vocab_size=131, d_model=32, num_layers=2, attention_heads=4, ffn_dim=40, max_position_embeddings=48,
            pad_token_id=1, bos_token_id=0, eos_token_id=2)
NO_GGUF = dict(gguf=False, gguf_note="llama.cpp does not know the family")


def shifted(model):
    """Read the positions from row 0."""
    model.model.embed_positions.offset = 0


def paper(model):
    """Use the frequencies of the paper: the divisor is half the width."""
    import math
    import torch
    module = model.model.embed_positions
    def table(n, d, padding=None):
        angle = torch.arange(n).float()[:, None] * torch.exp(torch.arange(d // 2).float() * -math.log(10000) / (d // 2))
        return torch.cat([angle.sin(), angle.cos()], 1)
    module.get_embedding = table
    module.weights = table(module.weights.shape[0], module.embedding_dim)


FLIPS = {"positions from row 0": shifted, "the paper's frequencies": paper, "biases": no_bias("proj")}

CASES = [
    Case(name="scaled", family="xglm", config=XGLMConfig, model=XGLMForCausalLM, rows=(64,), kwargs=BASE, **NO_GGUF,
         flips={**FLIPS, "unscaled": {"scale_embedding": False}},
         shows="sines before cosines, divisor d/2 - 1, offset 2, embedding times the root of 32, past max_position_embeddings"),
    Case(name="unscaled", family="xglm", config=XGLMConfig, model=XGLMForCausalLM, rows=(12,), **NO_GGUF,
         kwargs={**BASE, "scale_embedding": False, "activation_function": "relu", "tie_word_embeddings": False},
         shows="an embedding as it is, ReLU, an untied head", flips={**FLIPS, "scaled": {"scale_embedding": True}}),
]

"""CTRL: sinusoids with the paper's frequencies, sines before cosines. No GGUF converter supports it."""

from transformers import CTRLConfig, CTRLLMHeadModel

from case import Case
from reference import no_bias, uniform_attention

BASE = dict(vocab_size=131, n_embd=32, n_layer=2, n_head=4, dff=40, n_positions=96, bos_token_id=130, eos_token_id=130,
            layer_norm_epsilon=1e-6)
NO_GGUF = dict(gguf=False, gguf_note="llama.cpp does not know the family")


def interleaved(model):
    """Interleave sines and cosines."""
    table = model.transformer.pos_encoding
    sines, cosines = table.chunk(2, -1)
    import torch
    model.transformer.pos_encoding = torch.stack([sines, cosines], -1).flatten(-2)


def spread(model):
    """Use the divisor d/2 - 1 of other layouts."""
    import math
    import torch
    n, d = model.transformer.pos_encoding.shape
    angle = torch.arange(n).float()[:, None] * torch.exp(torch.arange(d // 2).float() * -math.log(10000) / (d // 2 - 1))
    model.transformer.pos_encoding = torch.cat([angle.sin(), angle.cos()], 1)


def block_eps(model):
    """Give the norms of blocks the eps of the last norm."""
    for layer in model.transformer.h:
        layer.layernorm1.eps = layer.layernorm2.eps = model.transformer.layernorm.eps


FLIPS = {"attention uniform": uniform_attention, "interleaved": interleaved, "other frequencies": spread, "biases": no_bias("dense"),
         "no head bias": no_bias("lm_head")}

CASES = [
    Case(name="tied", family="ctrl", config=CTRLConfig, model=CTRLLMHeadModel, rows=(60,), kwargs=BASE, flips=FLIPS, **NO_GGUF,
         shows="sines before cosines, embedding times the root of 32, biases everywhere, a tied head with a bias"),
    Case(name="eps", family="ctrl", config=CTRLConfig, model=CTRLLMHeadModel, rows=(12,), **NO_GGUF, dtype="BF16",
         kwargs={**BASE, "layer_norm_epsilon": 0.5, "n_head": 2, "tie_word_embeddings": False},
         shows="an eps of its own for the last norm alone, an untied head, BF16", flips={**FLIPS, "eps in blocks": block_eps}),
]

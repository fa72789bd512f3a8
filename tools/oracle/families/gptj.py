"""GPT-J: one norm before attention and MLP, rotary pairs on the first lanes, a head with a bias. No GGUF converter supports it."""

from transformers import GPTJConfig, GPTJForCausalLM

from case import Case
from reference import no_bias

BASE = dict(vocab_size=131, n_embd=32, n_layer=2, n_head=4, n_positions=48, rotary_dim=4, bos_token_id=130, eos_token_id=130)
NO_GGUF = dict(gguf=False, gguf_note="llama.cpp does not know the family")


def unrotated(model):
    """Set all rotary angles to zero."""
    for block in model.transformer.h:
        table = block.attn.embed_positions
        table[:, : table.shape[1] // 2] = 0
        table[:, table.shape[1] // 2 :] = 1


def halves(model):
    """Rotate lane i with lane i + n/2 instead of adjacent pairs."""
    from transformers.models.gptj import modeling_gptj as home
    import torch
    right = home.apply_rotary_pos_emb
    def apply(x, sin, cos):
        sin, cos = (torch.cat([t, t], -1)[:, :, None, :] for t in (sin, cos))
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin
    home.apply_rotary_pos_emb = apply
    def undo():
        home.apply_rotary_pos_emb = right
    return undo


FLIPS = {"no positions": unrotated, "halves": halves, "biases": no_bias("mlp"), "no head bias": no_bias("lm_head")}

CASES = [
    Case(name="partial", family="gptj", config=GPTJConfig, model=GPTJForCausalLM, rows=(24,), kwargs=BASE, flips=FLIPS, **NO_GGUF,
         shows="half of each head rotates in pairs, parallel parts, tanh GELU, an untied head with a bias"),
    Case(name="whole", family="gptj", config=GPTJConfig, model=GPTJForCausalLM, rows=(12,), **NO_GGUF,
         kwargs={**BASE, "rotary_dim": 8, "n_inner": 40, "tie_word_embeddings": True}, dtype="F16",
         shows="every lane rotates, a tied head with a bias, an inner width of its own, F16 storage", flips=FLIPS),
]

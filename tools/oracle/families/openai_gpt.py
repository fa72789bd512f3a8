"""GPT: learned positions, norms after attention and MLP. No GGUF converter supports it."""

from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

from case import Case
from reference import no_bias

BASE = dict(vocab_size=131, n_embd=32, n_layer=2, n_head=4, n_positions=256, bos_token_id=130, eos_token_id=130)
NO_GGUF = dict(gguf=False, gguf_note="llama.cpp does not know the family")


def uniform(model):
    """Set q to zero, so that attention is uniform."""
    for block in model.transformer.h:
        block.attn.c_attn.weight.data[:, :32] = 0
        block.attn.c_attn.bias.data[:32] = 0


def pre_norm(model):
    """Put the norms before attention and MLP."""
    from transformers.models.openai import modeling_openai as home
    right = home.Block.forward
    def forward(self, x, attention_mask=None, output_attentions=False):
        x = x + self.attn(self.ln_1(x), attention_mask=attention_mask)[0]
        return [x + self.mlp(self.ln_2(x))]
    home.Block.forward = forward
    def undo():
        home.Block.forward = right
    return undo


FLIPS = {"attention uniform": uniform, "pre-norm": pre_norm, "biases": no_bias("c_attn"), "relu": {"afn": "relu"}}

CASES = [
    Case(name="post-norm", family="openai-gpt", config=OpenAIGPTConfig, model=OpenAIGPTLMHeadModel, rows=(12,), kwargs=BASE, flips=FLIPS,
         respell={"n_ctx": 256, "n_special": 0, "predict_special_tokens": True}, **NO_GGUF,
         shows="norms after each part and none at the end, transposed projections, learned positions, tied head"),
    Case(name="silu", family="openai-gpt", config=OpenAIGPTConfig, model=OpenAIGPTLMHeadModel, rows=(12,), **NO_GGUF, dtype="F16",
         kwargs={**BASE, "afn": "silu", "n_layer": 3, "tie_word_embeddings": False}, flips=FLIPS,
         shows="another activation, three layers, an untied head, F16 storage"),
]

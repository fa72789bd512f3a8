"""Gemma 4, text: plain norms, normalised values, wider heads in layers without a window, shared keys and values, inputs of each layer, a mixture beside the MLP."""

import torch
from transformers import Gemma4ForCausalLM, Gemma4TextConfig

from case import Case
from reference import uniform_attention

ROPES = {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 1000.0},
         "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}
PAIR = ["sliding_attention", "full_attention"]
BASE = dict(vocab_size=131, hidden_size=16, intermediate_size=20, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
            head_dim=4, global_head_dim=8, hidden_size_per_layer_input=0, vocab_size_per_layer_input=131, max_position_embeddings=128,
            sliding_window=6, layer_types=PAIR * 2, rope_parameters=ROPES, bos_token_id=130, eos_token_id=130, pad_token_id=0,
            tie_word_embeddings=True)
EDGE = dict(head_dim=8, global_head_dim=16, hidden_size=24, hidden_size_per_layer_input=8, num_kv_shared_layers=2)
MIXED = dict(enable_moe_block=True, num_experts=6, top_k_experts=2, moe_intermediate_size=12)


def calm(case, model, g):
    """Embeddings times sqrt(D) as large as in other families, heads of scale 1 not saturated, factors of layers and experts off 1."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "embed_tokens." in name:
                p.div_(case.kwargs["hidden_size"] ** 0.5)
            if name.endswith(("q_norm.weight", "k_norm.weight")):
                p.mul_(0.5)
            if name.endswith("embed_tokens_per_layer.weight"):
                p.div_(case.kwargs["hidden_size_per_layer_input"] ** 0.5)
            if name.endswith("router.proj.weight"):
                p.mul_(case.kwargs["hidden_size"] ** 0.5)
            if name.endswith("per_expert_scale"):
                p.copy_(0.5 + torch.rand(p.shape, generator=g))
        for name, b in model.named_buffers():
            if name.endswith("layer_scalar"):
                b.copy_((0.6 + 0.6 * torch.rand(b.shape, generator=g)).mul(128).round() / 128)     # exact in BF16


def buffers_at_one(model):
    for name, b in model.named_buffers():
        if name.endswith("layer_scalar"):
            b.fill_(1.0)


def unscaled(model):
    model.model.embed_tokens.embed_scale.fill_(1.0)


def zeroed(part):
    """A function that zeroes every parameter whose name has this part."""
    def apply(model):
        with torch.no_grad():
            for name, p in model.named_parameters():
                if part in name:
                    p.zero_()
    return apply


def case(name, shows, flips, **kw):
    options = {"init": calm, "plain_vocab": True, "spelling": "v5"} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="gemma4", config=Gemma4TextConfig, model=Gemma4ForCausalLM, shows=shows,
                flips={"attention uniform": uniform_attention, "embedding not scaled": unscaled, "factors of layers at 1": buffers_at_one,
                       **flips}, kwargs={**BASE, **kw}, **options)


CASES = [
    case("edge", "inputs of each layer from a table and the embedding; the last layers read the caches of earlier ones",
         {"no inputs": zeroed("per_layer_projection.weight"), "own rows only": zeroed("per_layer_model_projection"),
          "projection only": zeroed("embed_tokens_per_layer")}, rows=(9,), **EDGE),
    case("dense", "wider heads without a window, a rotation of a part of their pairs, values normalised, factors of layers, a cap",
         {"no cap": {"final_logit_softcapping": None}, "no windows": {"sliding_window": 100},
          "all pairs rotate": {"rope_parameters": ROPES | {"full_attention": ROPES["full_attention"] | {"partial_rotary_factor": 1.0}}}},
         final_logit_softcapping=3.0, rows=(14,), taps=False),
    case("k-is-v", "without a window: values from the projection of keys, one head of keys; untied, biases",
         {"no windows": {"sliding_window": 100}}, attention_k_eq_v=True, num_global_key_value_heads=1, attention_bias=True,
         tie_word_embeddings=False, rows=(9,), taps=False, gguf=False, gguf_note="llama.cpp reads no biases"),
    case("values", "the same without biases, BF16, the sizes as published files spell them",
         {"no windows": {"sliding_window": 100}}, attention_k_eq_v=True, num_global_key_value_heads=1, dtype="BF16", rows=(9,), taps=False,
         drop=("per_layer_config",), respell={"global_head_dim": 8, "num_global_key_value_heads": 1}),
    case("edge-wide", "the MLPs of the layers that read earlier caches are twice as wide; three of five layers have no own keys",
         {"no windows": {"sliding_window": 100}, "SiLU": {"hidden_activation": "silu"}}, hidden_size_per_layer_input=4,
         num_kv_shared_layers=3, num_hidden_layers=5, layer_types=["full_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
         use_double_wide_mlp=True, dtype="BF16", rows=(9,), taps=False),
    case("mixture", "two of six experts beside the MLP, norms around both, factors of experts",
         {"one expert": {"top_k_experts": 1}, "factors of experts at 1": lambda m: [p.data.fill_(1) for n, p in m.named_parameters() if "per_expert" in n] and None},
         rows=(9,), attention_k_eq_v=True, num_global_key_value_heads=1, num_hidden_layers=2, layer_types=PAIR, dtype="BF16", **MIXED),
]

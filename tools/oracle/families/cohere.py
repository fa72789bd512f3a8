"""Command-R and Command R7B: one LayerNorm without bias before attention and MLP, rotary pairs, a factor on the logits."""

from transformers import Cohere2Config, Cohere2ForCausalLM, CohereConfig, CohereForCausalLM

from case import Case
from reference import kv_modulo, no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=128, bos_token_id=130, eos_token_id=130, pad_token_id=0, logit_scale=0.25,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
ONE, TWO = ("cohere", CohereConfig, CohereForCausalLM), ("cohere2", Cohere2Config, Cohere2ForCausalLM)


def other_heads(model):
    """Give the norms of all heads the weights of the first."""
    for layer in model.model.layers:
        for norm in (layer.self_attn.q_norm, layer.self_attn.k_norm):
            norm.weight.data[:] = norm.weight.data[:1].clone()


def norms_of_heads(case, model, g):
    """Initialise the norm weights of heads near one: as matrices, they do not get the values of other norms."""
    import torch
    for name, p in model.named_parameters():
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            p.data.copy_(1 + 0.35 * torch.randn(p.shape, generator=g))


def case(which, name, shows, flips, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    family, config, model = which
    return Case(name=name, family=family, config=config, model=model, shows=shows, init=norms_of_heads,
                flips={"attention uniform": uniform_attention, "kv modulo": kv_modulo, "logits unscaled": {"logit_scale": 1.0}, **flips},
                kwargs={**BASE, **kw}, **options)


HUB = {"layer_switch": 4, "order_of_interleaved_layers": "local_attn_first", "position_embedding_type": "rope_gptj",
       "rotary_pct": 1.0, "use_embedding_sharing": True, "use_gated_activation": True, "use_parallel_block": True,
       "use_parallel_embedding": True}

CASES = [
    case(ONE, "command-r", "parallel parts behind one norm without bias, rotary pairs, logits times 0.25, tied",
         {"theta": {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}}, rows=(24,)),
    case(ONE, "head-norms", "a norm of its own for every head (Command-R+), biases, rope_theta missing: 500000",
         {"one norm for all heads": other_heads, "biases": no_bias("_proj"), "theta": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}},
         use_qk_norm=True, attention_bias=True, rope_parameters={"rope_type": "default", "rope_theta": 500000.0}, drop=("rope_theta",),
         rows=(12,), peer=False, gguf_note="llama.cpp has no biases in this family, and norms of heads only from 64 layers on"),
    case(TWO, "interleaved", "three layers of four see six keys and rotate, the fourth sees all and does not",
         {"windows only": {"layer_types": ["sliding_attention"] * 4}, "no window": {"sliding_window": 64}},
         num_hidden_layers=4, sliding_window=6, rows=(24,), drop=("layer_types",), raw_config=True,
         respell={**HUB, "sliding_window_pattern": 4}),
    case(TWO, "layer-types", "`layer_types` names each kind of layer, `rope_parameters` spelling",
         {"the other way round": {"layer_types": ["sliding_attention", "full_attention"]}}, sliding_window=5, spelling="v5",
         layer_types=["full_attention", "sliding_attention"], rows=(24,), gguf=False,
         gguf_note="the converter writes no kinds of layers: the file would be another model"),
]

"""Granite 3 MoE, with and without a shared MLP: Granite's multipliers around routed experts."""

from transformers import GraniteMoeConfig, GraniteMoeForCausalLM, GraniteMoeSharedConfig, GraniteMoeSharedForCausalLM

from case import BARE, Case
from reference import no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            num_local_experts=6, num_experts_per_tok=2, max_position_embeddings=128, rms_norm_eps=1e-6, bos_token_id=130, eos_token_id=130,
            embedding_multiplier=3.0, residual_multiplier=0.6, attention_multiplier=0.4, logits_scaling=2.0,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0})


def routers(case, model, g):
    for name, p in model.named_parameters():
        if name.endswith("router.weight"):
            p.data.mul_(1.5)


def no_shared(model):
    for name, p in model.named_parameters():
        if "shared_mlp" in name:
            p.data.zero_()


def case(name, shows, flips, shared=False, **kw):
    options = {"init": routers} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    config, model = (GraniteMoeSharedConfig, GraniteMoeSharedForCausalLM) if shared else (GraniteMoeConfig, GraniteMoeForCausalLM)
    return Case(name=name, family="granitemoe", config=config, model=model, shows=shows,
                flips={"attention uniform": uniform_attention, "one expert": {"num_experts_per_tok": 1},
                       "residual": {"residual_multiplier": 1.0}, **flips}, kwargs={**BASE, **kw}, **options)


CASES = [
    case("experts", "two of six experts whose gates and factors are one tensor, four multipliers, tied",
         {"logits": {"logits_scaling": 1.0}, "embedding": {"embedding_multiplier": 1.0}, "scores": {"attention_multiplier": 1.0}},
         tie_word_embeddings=True, rows=(12,)),
    case("shared", "a shared MLP beside the experts, untied, F16", {"no shared MLP": no_shared}, shared=True, shared_intermediate_size=20,
         dtype="F16", rows=(12,)),
    case("bare", "saved without its head", {}, rows=(12,), **BARE),
    case("biases", "biases of attention, all experts, no shared MLP although the kind has one", {"no bias": no_bias("self_attn")}, shared=True,
         shared_intermediate_size=0, attention_bias=True, num_experts_per_tok=6, rows=(12,), gguf=False,
         gguf_note="llama.cpp loads no biases of this family"),
]

"""OLMo: LayerNorm without weights, clamped q, k, v. OLMoE: q and k normalised over all heads, experts whose weights need not sum to one."""

from transformers import OlmoConfig, OlmoeConfig, OlmoeForCausalLM, OlmoForCausalLM

from case import Case
from families.olmo2 import by_head
from reference import kv_modulo, no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
            max_position_embeddings=128, bos_token_id=130, eos_token_id=130, pad_token_id=1,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
EXPERTS = dict(num_experts=6, num_experts_per_tok=3, intermediate_size=8, rms_norm_eps=1e-5)
KINDS = {"olmo": (OlmoConfig, OlmoForCausalLM, {}, {}),
         "olmoe": (OlmoeConfig, OlmoeForCausalLM, EXPERTS, {"two experts": {"num_experts_per_tok": 2}, "norms of heads": by_head})}
NO_CLIP = {"clip_qkv": None}


def routers(case, model, g):
    """Make router scores neither saturated nor tied."""
    for name, p in model.named_parameters():
        if name.endswith("mlp.gate.weight"):
            p.data.mul_(1.5)


def case(name, family, shows, flips, **kw):
    options = {"init": routers} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    config, model, more, wrong = KINDS[family]
    return Case(name=name, family=family, config=config, model=model, shows=shows,
                flips={"attention uniform": uniform_attention, **wrong, **flips}, kwargs={**BASE, **more, **kw}, **options)


CASES = [
    case("clipped", "olmo", "norms without weights, q, k and v clamped, untied", {"not clamped": NO_CLIP}, clip_qkv=0.8, rows=(12,)),
    case("gqa", "olmo", "grouped queries, biases, tied, BF16", {"kv modulo": kv_modulo, "no biases": no_bias("self_attn")}, rows=(14,),
         num_key_value_heads=2, attention_bias=True, tie_word_embeddings=True, dtype="BF16", gguf=False,
         gguf_note="the converter leaves biases in the order of the folder"),
    case("plain", "olmoe", "three of six experts, not renormalised", {"renormalised": {"norm_topk_prob": True}}, rows=(12,)),
    case("gqa", "olmoe", "grouped queries, clamped, renormalised, biases, tied, F16, sharded",
         {"not clamped": NO_CLIP, "not renormalised": {"norm_topk_prob": False}, "no biases": no_bias("self_attn"), "kv modulo": kv_modulo},
         rows=(14,), num_key_value_heads=2, clip_qkv=1.2, norm_topk_prob=True, attention_bias=True, tie_word_embeddings=True, dtype="F16",
         shard_bytes=24000, gguf=False, gguf_note="llama.cpp reads no grouped queries, clamps and renormalised weights in this family"),
]

"""Qwen2-MoE and Qwen3-MoE: routed experts, a shared expert with a gate, dense layers in between, windows."""

from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from case import BARE, Case
from convert import ones_dropped
from reference import no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=40, moe_intermediate_size=16, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, num_experts=8, num_experts_per_tok=3, max_position_embeddings=128, rms_norm_eps=1e-6,
            bos_token_id=130, eos_token_id=130, rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})
KINDS = {"qwen2_moe": (Qwen2MoeConfig, Qwen2MoeForCausalLM), "qwen3_moe": (Qwen3MoeConfig, Qwen3MoeForCausalLM)}
PLAIN = {"use_sliding_window": False}


def routers(case, model, g):
    """Make router scores neither saturated nor tied."""
    for name, p in model.named_parameters():
        if name.endswith("mlp.gate.weight"):
            p.data.mul_(1.5)


def without(part):
    def flip(model):
        for name, p in model.named_parameters():
            if part in name:
                p.data.zero_()
    return flip


def case(name, family, shows, flips, **kw):
    options = {"init": routers} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    config, model = KINDS[family]
    shared = {"shared_expert_intermediate_size": 24} if family == "qwen2_moe" else {"head_dim": 12}
    two = {"two experts": {"num_experts_per_tok": 2}} if kw.get("num_experts", 8) > 1 else {}
    return Case(name=name, family=family, config=config, model=model, shows=shows,
                flips={"attention uniform": uniform_attention, **two, **flips},
                kwargs={**BASE, **shared, **kw}, **options)


CASES = [
    case("shared", "qwen2_moe", "three of eight experts, not renormalised, a shared expert behind its gate, biases on q, k, v", {
        "renormalised": {"norm_topk_prob": True}, "gate at one half": without("shared_expert_gate"), "no shared expert": without("shared_expert.down_proj"),
        "no bias": no_bias("self_attn")}, rows=(12,)),
    case("one", "qwen2_moe", "one expert of one, a shared one, one key/value head", {
        "gate at one half": without("shared_expert_gate"), "no bias": no_bias("self_attn")},
        num_experts=1, num_experts_per_tok=1, num_key_value_heads=1, rows=(12,), gguf_patch=ones_dropped,
        gguf_note="without dimensions of one, as ggml writes tensors"),
    case("windows", "qwen2_moe", "windows of 5 keys in even layers below the third; plain MLPs in the last two of four layers, renormalised; tied", {
        "no window": PLAIN, "window in all": {"layer_types": ["sliding_attention"] * 4}, "not renormalised": {"norm_topk_prob": False}},
        num_hidden_layers=4, use_sliding_window=True, sliding_window=5, max_window_layers=3, mlp_only_layers=[2, 3], norm_topk_prob=True,
        hidden_size=24, tie_word_embeddings=True, drop=("layer_types",), gguf=False,
        gguf_note="GGUF has no keys for windows and plain layers of this family"),
    case("normalised", "qwen3_moe", "heads of q and k normalised, three of eight experts, renormalised, untied", {
        "not renormalised": {"norm_topk_prob": False}}, norm_topk_prob=True, rows=(12,), drop=("num_local_experts",),
        respell={"num_experts": 8}),
    case("bare", "qwen2_moe", "saved without its head", {}, rows=(12,), **BARE),
    case("sparse", "qwen3_moe", "a window in all layers, experts in every other layer, not renormalised, biases, BF16, sharded", {
        "no window": PLAIN, "renormalised": {"norm_topk_prob": True}, "no bias": no_bias("self_attn")},
        num_hidden_layers=3, use_sliding_window=True, sliding_window=6, decoder_sparse_step=2, attention_bias=True,
        tie_word_embeddings=True, dtype="BF16", shard_bytes=40_000, respell={"max_window_layers": 1}, gguf=False,
        gguf_note="GGUF has no keys for windows and plain layers of this family"),
]

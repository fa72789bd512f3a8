"""DeepSeek-V2, V2-Lite, V3: latent attention with and without a latent for queries, groups of experts, shared experts, dense first
layers, YaRN whose magnitude is in the scores."""

import torch
from transformers import DeepseekV2Config, DeepseekV2ForCausalLM, DeepseekV3Config, DeepseekV3ForCausalLM

from case import BARE, Case
from convert import rewrite
from reference import uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=40, moe_intermediate_size=16, num_hidden_layers=3, num_attention_heads=4,
            kv_lora_rank=24, q_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10, n_routed_experts=8,
            n_shared_experts=2, num_experts_per_tok=3, first_k_dense_replace=1, routed_scaling_factor=2.5, max_position_embeddings=48,
            rms_norm_eps=1e-6, bos_token_id=130, eos_token_id=130, tie_word_embeddings=False,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
V2, V3 = (DeepseekV2Config, DeepseekV2ForCausalLM), (DeepseekV3Config, DeepseekV3ForCausalLM)


def yarn(mscale, all_dim, **kw):
    return {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 12, "beta_fast": 32.0,
            "beta_slow": 1.0, "mscale": mscale, "mscale_all_dim": all_dim, **kw}


def routers(case, model, g):
    """Make router scores neither saturated nor tied, and the correction large enough to change choices."""
    for name, p in model.named_parameters():
        if name.endswith("mlp.gate.weight"):
            p.data.mul_(1.5)
    for name, b in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            b.data.copy_(0.25 * torch.randn(b.shape, generator=g))


def opened(case, model, g):
    """Round kv_b_proj to values that Q8_0 represents exactly."""
    from gguf import GGMLQuantizationType, quants
    routers(case, model, g)
    for name, p in model.named_parameters():
        if "kv_b_proj" in name:
            p.data.copy_(torch.from_numpy(quants.dequantize(quants.quantize(p.numpy(force=True), GGMLQuantizationType.Q8_0),
                                                            GGMLQuantizationType.Q8_0)))


def calm(case, model, g):
    """Make each of many layers add little, so that rounding errors do not grow."""
    routers(case, model, g)
    for name, p in model.named_parameters():
        if "o_proj" in name or "down_proj" in name:
            p.data.mul_(0.12)


def without(part):
    """Return a flip that sets parameters and buffers whose name contains `part` to zero."""
    def flip(model):
        for name, p in [*model.named_parameters(), *model.named_buffers()]:
            if part in name:
                p.data.zero_()
    return flip


def fused(case, path):
    """Rewrite the twin in the older layout: attn_kv_b as in the checkpoint (in Q8_0, without loss), head sizes without the latent."""
    import gguf as g
    from safetensors.numpy import load_file
    k, layers = case.kwargs, case.kwargs["num_hidden_layers"]
    stored = load_file(path.parent / "model.safetensors")
    u32, key = g.GGUFValueType.UINT32, "deepseek2.attention."
    joined = []
    for i in range(layers):
        value = stored[f"model.layers.{i}.self_attn.kv_b_proj.weight"]
        packed = g.quants.quantize(value, g.GGMLQuantizationType.Q8_0)
        assert (g.quants.dequantize(packed, g.GGMLQuantizationType.Q8_0) == value).all()
        joined.append((f"blk.{i}.attn_kv_b.weight", packed, g.GGMLQuantizationType.Q8_0))
    rewrite(path, keys=[(key + "head_count_kv", k["num_attention_heads"], u32),
                        (key + "key_length", k["qk_nope_head_dim"] + k["qk_rope_head_dim"], u32),
                        (key + "value_length", k["v_head_dim"], u32)],
            drop=[key + "key_length_mla", key + "value_length_mla"]
                 + [f"blk.{i}.attn_{x}_b.weight" for i in range(layers) for x in "kv"],
            tensors=joined)


def next_layer(model):
    """Return the tensors of an extra layer after the last one, as for prediction of the token after the next."""
    last = len(model.model.layers)
    return {f"model.layers.{last}.{name}": p.data.clone() for name, p in model.model.layers[-1].named_parameters()}


def case(name, family, shows, flips, **kw):
    options = {"init": routers} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    config, model = V2 if family == "deepseek_v2" else V3
    kw = {"num_key_value_heads": kw.get("num_attention_heads", BASE["num_attention_heads"]), **kw}
    return Case(name=name, family=family, config=config, model=model, shows=shows,
                flips={"attention uniform": uniform_attention, **flips}, kwargs={**BASE, **kw}, **options)


GROUPS = dict(topk_method="group_limited_greedy", n_group=4, topk_group=2)
V3_GROUPS = dict(n_group=4, topk_group=2)
CORRECTED = {"no correction": without("e_score_correction_bias"), "no shared experts": without("shared_experts.down_proj")}

CASES = [
    case("groups", "deepseek_v2", "latent queries, the best two of four groups by their best expert, YaRN with equal magnitudes", {
        "no groups": {"topk_method": "greedy"}, "one group": {"topk_group": 1}, "scale": {"routed_scaling_factor": 1.0},
        "no shared experts": without("shared_experts.down_proj"), "scores without magnitude": {"rope_parameters": yarn(0.707, 0.0)}},
        rope_parameters=yarn(0.707, 0.707), **GROUPS,
        gguf_note="llama.cpp scores groups by their best two experts, transformers by the best: it takes others"),
    case("magnitudes", "deepseek_v2", "mscale other than mscale_all_dim, biases, tied, no dense layer, one shared expert", {
        "equal magnitudes": {"rope_parameters": yarn(0.5, 0.5)}, "no magnitudes": {"rope_parameters": yarn(0.0, 0.0)},
        "biases": without("bias")}, rope_parameters=yarn(1.4, 0.5), attention_bias=True, tie_word_embeddings=True,
        first_k_dense_replace=0, n_shared_experts=1, gguf=False, gguf_note="the converter writes neither mscale nor biases of attention"),
    case("older-gguf", "deepseek_v2", "keys and values of a head in one tensor, as GGUF files had them before April 2025; latent queries, "
         "no groups, no scaling of positions; that tensor in Q8_0", {"fewer experts": {"num_experts_per_tok": 2}}, gguf_patch=fused, init=opened, kv_lora_rank=32, rows=(12,),
         gguf_note="attn_k_b and attn_v_b joined to attn_kv_b, key and value lengths without the latent"),
    case("lite", "deepseek_v2", "plain queries, greedy routing, YaRN; 26 layers because llama.cpp knows the kind by their number", {
        "no magnitude": {"rope_parameters": yarn(0.0, 0.0)}, "two experts": {"num_experts_per_tok": 2}},
        rope_parameters=yarn(0.707, 0.707), q_lora_rank=None, hidden_size=16, intermediate_size=24, moe_intermediate_size=8,
        num_hidden_layers=26, num_attention_heads=2, kv_lora_rank=16, n_routed_experts=4, routed_scaling_factor=1.0, taps=False, init=calm),
    case("lite-plain", "deepseek_v2", "plain queries, three heads, no scaling of positions, two dense layers, BF16, sharded",
         {"scale": {"routed_scaling_factor": 1.0}}, q_lora_rank=None, num_attention_heads=3, hidden_size=36, first_k_dense_replace=2,
         dtype="BF16", shard_bytes=40_000, rows=(12,), peer=False, gguf_note="llama.cpp takes plain queries only with 26, 27 or 48 layers"),
    case("corrected", "deepseek_v3", "sigmoid scores, corrected for the choice alone, groups by their best two, renormalised, YaRN", {
        **CORRECTED, "not renormalised": {"norm_topk_prob": False}, "no groups": {"n_group": 1, "topk_group": 1},
        "scale": {"routed_scaling_factor": 1.0}, "halves": {"rope_interleave": False},
        "scores without magnitude": {"rope_parameters": yarn(1.0, 0.0)}}, rope_parameters=yarn(1.0, 1.0), **V3_GROUPS,
        respell={"scoring_func": "sigmoid", "topk_method": "noaux_tc", "moe_layer_freq": 1}),
    case("halves", "deepseek_v3", "plain queries, lanes rotated as halves, weights not renormalised, no groups; a layer past the last", {
        **CORRECTED, "pairs": {"rope_interleave": True}, "renormalised": {"norm_topk_prob": True}}, q_lora_rank=None,
        rope_interleave=False, norm_topk_prob=False, n_group=1, topk_group=1, n_shared_experts=1, first_k_dense_replace=0,
        num_hidden_layers=2, extra=next_layer, rows=(12,), gguf=False, gguf_note="GGUF has no key for halves"),
    case("bare", "deepseek_v3", "saved without its head, the layer past the last left in", {}, n_group=2, topk_group=1, extra=next_layer,
         rows=(12,), **BARE),
    case("unsaid", "deepseek_v3", "what a file means that says nothing of groups, shared experts, dense layers and the factor", {
        "factor": {"routed_scaling_factor": 1.0}, "two groups": {"topk_group": 2}, "four groups": {"n_group": 4},
        "no correction": without("e_score_correction_bias")}, n_group=8, topk_group=4, n_routed_experts=16, num_experts_per_tok=8,
         n_shared_experts=1, first_k_dense_replace=3, num_hidden_layers=4, moe_intermediate_size=8, rows=(12,), gguf=False, gguf_note="GGUF says all of it", taps=False,
         drop=("routed_scaling_factor", "topk_group", "n_group", "first_k_dense_replace", "n_shared_experts", "norm_topk_prob", "rms_norm_eps",
               "num_experts_per_tok")),
]

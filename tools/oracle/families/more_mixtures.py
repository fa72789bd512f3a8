"""More families with mixtures of experts: FlexOlmo, A.X K1, Phi-3.5-MoE."""

import torch
from transformers import AXK1Config, AXK1ForCausalLM, FlexOlmoConfig, FlexOlmoForCausalLM, PhimoeConfig, PhimoeForCausalLM

from case import Case
from families.deepseek import without
from reference import kv_modulo, no_bias, uniform_attention

PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 6, "mscale": 1.0, "mscale_all_dim": 0.7}
BASE = dict(vocab_size=131, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64, rms_norm_eps=1e-5,
            bos_token_id=130, eos_token_id=130, pad_token_id=0, tie_word_embeddings=False, rope_parameters=PLAIN)
ONE = {"one expert": {"num_experts_per_tok": 1}}


def lively(case, model, g):
    """Make router scores neither saturated nor tied."""
    for name, p in model.named_parameters():
        if name.endswith(("mlp.gate.weight", "mlp.router.weight")):
            p.data.mul_(1.5)
    for name, b in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            b.data.copy_(torch.zeros(b.shape) if case.name == "published" else 0.25 * torch.randn(b.shape, generator=g))


def case(kind, name, shows, flips, **kw):
    family, config, model = kind
    options = {"init": lively, "rows": (14,)} | ({"module": MODULES[family]} if family in MODULES else {}) | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    twin = {} if family == "phimoe" else {"gguf": False, "gguf_note": "llama.cpp has no such architecture"}
    flips = {"attention uniform": uniform_attention, **({} if family == "phimoe" else ONE), **flips}
    return Case(name=name, family=family, config=config, model=model, shows=shows, flips=flips, kwargs={**BASE, **kw}, **{**twin, **options})


def uncorrected(tensors):
    """The tensors of published checkpoints: no corrections, and a norm also in layers without a mixture."""
    found = {k: v for k, v in tensors.items() if not k.endswith("e_score_correction_bias")}
    return found | {f"model.layers.{i}.post_mlp_layernorm.weight": torch.full((16,), 0.5) for i in range(2)
                    if f"model.layers.{i}.post_mlp_layernorm.weight" not in found}


PHI = ("phimoe", PhimoeConfig, PhimoeForCausalLM)
FLEX = ("flex_olmo", FlexOlmoConfig, FlexOlmoForCausalLM)
AXK1 = ("axk1", AXK1Config, AXK1ForCausalLM)


def beside(path):
    """Files have the norm behind a mixture beside it, transformers inside."""
    return path.replace("mlp.post_mlp_layernorm", "post_mlp_layernorm")


def mixtral(path):
    """Files have Mixtral's names."""
    return path.replace(".mlp.router", ".block_sparse_moe.gate").replace(".mlp", ".block_sparse_moe")


def wide(model):
    """Let all logits of the router be near the best, as in a plain softmax."""
    for layer in model.model.layers:
        layer.mlp.router.router_jitter_noise = 1e9


LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.3], "long_factor": [1.5, 4.0], "short_mscale": 1.2, "long_mscale": 1.2,
            "original_max_position_embeddings": 6}
MODULES = {"axk1": beside, "phimoe": mixtral}
SPARSE = dict(num_local_experts=5, num_experts_per_tok=2, intermediate_size=12, num_key_value_heads=2, router_jitter_noise=0.2)
EXPERTS = dict(num_experts=5, num_experts_per_tok=3, intermediate_size=12, num_key_value_heads=2)
LATENT = dict(num_key_value_heads=4, intermediate_size=20, moe_intermediate_size=8, n_routed_experts=6, num_experts_per_tok=2, n_group=3, topk_group=2,
              n_shared_experts=1, routed_scaling_factor=1.8, q_lora_rank=10, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5)

CASES = [
    case(FLEX, "experts", "norms behind attention and mixture, grouped queries; whether the weights of experts are renormalised hardly counts before a norm", {
         "kv modulo": kv_modulo, "wide eps": {"rms_norm_eps": 0.1}}, **EXPERTS),
    case(FLEX, "renormalised", "weights renormalised, which a wide eps of the norms shows, biases, tied, BF16, sharded", {
         "no biases": no_bias("self_attn"), "not renormalised": {"norm_topk_prob": False}}, norm_topk_prob=True, rms_norm_eps=0.3, attention_bias=True, tie_word_embeddings=True,
         dtype="BF16", shard_bytes=12000, taps=False, spelling="v5", **EXPERTS),
    case(AXK1, "corrected", "a norm behind the mixture, a plain MLP in the first layer, groups of experts, YaRN past the trained length", {
         "not corrected": without("e_score_correction_bias"), "one group": {"topk_group": 1}, "not scaled": {"routed_scaling_factor": 1.0},
         "no shared expert": without("shared_experts.down_proj"), "default": {"rope_parameters": PLAIN}}, rope_parameters=YARN, **LATENT),
    case(AXK1, "published", "no corrections in the file, a norm in plain layers that nothing uses; rotary halves, weights not renormalised, biases, tied, BF16", {
         "no biases": no_bias("self_attn"), "renormalised": {"norm_topk_prob": True}, "pairs": {"rope_interleave": True}}, rope_interleave=False,
         norm_topk_prob=False, attention_bias=True, tie_word_embeddings=True, dtype="BF16", taps=False, stored=uncorrected,
         drop=("mlp_layer_types",), respell={"first_k_dense_replace": 0, "moe_layer_freq": 1}, mlp_layer_types=["sparse", "sparse"], **LATENT),
    case(PHI, "biases", "LayerNorms, biases of attention and head, two experts chosen one after the other, each weighed against logits near its own", {
         "kv modulo": kv_modulo, "softmax": wide, "no biases": no_bias("self_attn"), "no bias of the head": no_bias("lm_head")}, attention_bias=True,
         lm_head_bias=True, router_jitter_noise=0.01, plain_vocab=True, peer=False, raw_config=True, respell={"original_max_position_embeddings": 64}, **{k: v for k, v in SPARSE.items() if k != "router_jitter_noise"}),
    case(PHI, "longrope", "short factors past the trained length, too, with the magnitude of the file; heads wider than hidden / heads, a window, far logits near, "
         "tied, BF16", {"kv modulo": kv_modulo, "softmax": wide, "no window": {"sliding_window": None}, "default": {"rope_parameters": PLAIN}},
         rope_parameters=LONGROPE, sliding_window=7, tie_word_embeddings=True, dtype="BF16", taps=False, gguf=False,
         gguf_note="the converter computes another magnitude, and llama.cpp requires an untied head", **SPARSE),
]

"""Kimi Linear: delta attention with a decay per row of the state, latent attention without a rotation, experts with a shared one."""

import torch
from transformers import KimiLinearConfig, KimiLinearForCausalLM

from case import Case
from families.qwen_next import changed
from reference import uniform_attention

BASE = dict(vocab_size=137, hidden_size=32, intermediate_size=40, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4,
            kv_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=12, linear_head_dim=8, linear_num_heads=4, linear_conv_kernel_dim=4,
            num_local_experts=8, num_experts_per_tok=3, moe_intermediate_size=16, n_shared_experts=1, routed_scaling_factor=1.7,
            layer_types=["linear_attention", "linear_attention", "linear_attention", "full_attention"],
            mlp_layer_types=["dense", "sparse", "sparse", "sparse"],
            max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=136, eos_token_id=136, pad_token_id=0)


def lively(case, model, g):
    """Decays from 0.3 to 0.98, and scores of routers that are neither saturated nor tied."""
    with torch.no_grad():
        for name, p in [*model.named_parameters(), *model.named_buffers()]:
            if name.endswith("A_log"):
                p.copy_(torch.linspace(-2.5, 0.5, p.numel())[torch.randperm(p.numel(), generator=g)].reshape(p.shape))
            if name.endswith("dt_bias"):
                p.copy_(torch.linspace(-1, 1, p.numel())[torch.randperm(p.numel(), generator=g)])
            if name.endswith("e_score_correction_bias"):
                p.copy_(0.4 * torch.randn(p.shape, generator=g))


def published(tensors):
    """The names of the published files: transformers writes a plain MLP as if it were a mixture."""
    return {n.replace("block_sparse_moe", "mlp") if "experts" not in n and ".gate." not in n else n: x for n, x in tensors.items()}


def as_published(kw):
    """The members of config.json that the published files have in place of transformers' own."""
    kinds = kw["layer_types"]
    return {"linear_attn_config": {"head_dim": kw["linear_head_dim"], "num_heads": kw["linear_num_heads"],
                                   "short_conv_kernel_size": kw["linear_conv_kernel_dim"],
                                   "kda_layers": [i + 1 for i, k in enumerate(kinds) if k == "linear_attention"],
                                   "full_attn_layers": [i + 1 for i, k in enumerate(kinds) if k == "full_attention"]},
            "first_k_dense_replace": kw["mlp_layer_types"].count("dense"), "moe_layer_freq": 1, "moe_router_activation_func": "sigmoid",
            "mla_use_nope": True, "use_grouped_topk": True, "num_nextn_predict_layers": 0, "head_dim": 72}


OWN = ("layer_types", "mlp_layer_types", "linear_head_dim", "linear_num_heads", "linear_conv_kernel_dim", "qk_head_dim")


def no_shared(model):
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "shared_experts.down_proj" in name:
                p.zero_()


def no_correction(model):
    for name, b in model.named_buffers():
        if "e_score_correction_bias" in name:
            b.zero_()


def sigmoid_to_silu(model):
    """Gate the output with SiLU, as the gated delta rule of Qwen3-Next does."""
    for m in model.modules():
        if type(m).__name__.endswith("RMSNormGated"):
            m.activation = "silu"


FLIPS = {"attention uniform": uniform_attention, "taps reversed": changed("conv1d", lambda w: w.flip(-1)),
         "no decay": changed("A_log", lambda w: w - 20), "no bias of steps": changed("dt_bias", torch.zeros_like),
         "one decay for a head": changed("dt_bias", lambda w: w.reshape(4, -1).mean(1, keepdim=True).expand(4, w.numel() // 4).reshape(-1)),
         "norm without weight": changed("o_norm", torch.ones_like), "gate of SiLU": sigmoid_to_silu,
         "no correction": no_correction, "no shared expert": no_shared,
         "weights not normalised": {"norm_topk_prob": False}, "scale": {"routed_scaling_factor": 1.0}}


def module(kinds):
    """Return a function from a path in transformers to that in the published files."""
    def renamed(path):
        words = path.replace(".forget_gate", "").split(".")
        if len(words) > 3 and words[3] == "mlp" and kinds[int(words[2])] == "sparse":
            words[3] = "block_sparse_moe"
        return ".".join(words)
    return renamed


def case(name, shows, flips={}, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    kw = {**BASE, **kw}
    return Case(name=name, family="kimi_linear", config=KimiLinearConfig, model=KimiLinearForCausalLM, shows=shows, init=lively,
                flips={k: f for k, f in {**FLIPS, **flips}.items() if f}, spelling="v5", module=module(kw["mlp_layer_types"]), kwargs=kw, **options)


CASES = [
    case("mixed", "the published spelling: two lists of layers that count from 1; separate convolutions of q, k and v, a decay for every row; "
         "latent attention without a rotation; experts with a correction of the choice and a shared one", rows=(24, 3), drop=OWN,
         respell=as_published(BASE), stored=published, raw_config=True),
    case("own", "transformers' own spelling; another width of heads and number of heads in the delta attention, queries with a latent, a plain "
         "MLP after a mixture, groups of experts, two shared experts, weights not normalised, biases, BF16",
         {"weights not normalised": None, "normalised": {"norm_topk_prob": True}, "all groups": {"topk_group": 4},
          "one decay for a head": None},
         rows=(12,), num_hidden_layers=3, layer_types=["full_attention", "linear_attention", "linear_attention"],
         mlp_layer_types=["sparse", "dense", "sparse"], linear_head_dim=12, linear_num_heads=3, linear_conv_kernel_dim=3, q_lora_rank=20,
         n_group=4, topk_group=2, n_shared_experts=2, norm_topk_prob=False, attention_bias=True, dtype="BF16", stored=published, gguf=False,
         gguf_note="GGUF has no keys for plain layers after a mixture, nor llama.cpp for other heads than those of attention"),
]

"""Nemotron-H: one mixer per layer: Mamba-2, attention without positions, an MLP with squared ReLU, or experts without gates."""

import torch
from transformers import NemotronHConfig, NemotronHForCausalLM

import mamba
from case import Case
from reference import uniform_attention

BASE = dict(vocab_size=144, hidden_size=32, intermediate_size=40, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
            max_position_embeddings=256, layer_norm_epsilon=1e-5, bos_token_id=143, eos_token_id=143, pad_token_id=0,
            ssm_state_size=16, mamba_num_heads=4, mamba_head_dim=16, n_groups=2, chunk_size=8, num_nextn_predict_layers=0)
EXPERTS = dict(n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=24, moe_shared_expert_intermediate_size=20, n_shared_experts=1,
               n_group=1, topk_group=1, routed_scaling_factor=1.7)


def init(case, model, g):
    mamba.decays(case, model, g)
    for m in model.modules():
        if hasattr(m, "e_score_correction_bias"):
            m.e_score_correction_bias.copy_(0.4 * torch.randn(m.e_score_correction_bias.shape, generator=g))


def without(name):
    """Return a flip that zeroes tensors whose name contains `name`."""
    def flip(model):
        for k, p in [*model.named_parameters(), *model.named_buffers()]:
            if name in k:
                p.data.zero_()
    return flip


def plain_relu(model):
    for m in model.modules():
        if hasattr(m, "act_fn"):
            m.act_fn = torch.nn.ReLU()


def case(name, shows, flips, pattern, respell=None, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="nemotron_h", config=NemotronHConfig, model=NemotronHForCausalLM, shows=shows, init=init, module=("model.", "backbone."),
                flips={**mamba.FLIPS, "attention uniform": uniform_attention, "plain ReLU": plain_relu, **flips}, raw_config=True,
                respell=respell or {"hybrid_override_pattern": pattern, "num_hidden_layers": len(pattern)},
                kwargs={**BASE, "hybrid_override_pattern": pattern, **kw}, **options)


MOE = {"one expert": {"num_experts_per_tok": 1}, "scale": {"routed_scaling_factor": 1.0}, "weights not normalised": {"norm_topk_prob": False},
       "no correction": without("e_score_correction_bias"), "no shared expert": without("shared_experts.down_proj")}
DENSE_KEYS = ("layers_block_type", "num_experts_per_tok", "n_routed_experts", "n_shared_experts", "moe_intermediate_size", "moe_latent_size",
              "moe_shared_expert_intermediate_size", "moe_shared_expert_overlap", "n_group", "topk_group", "norm_topk_prob",
              "routed_scaling_factor", "mtp_layers_block_type", "num_nextn_predict_layers")

CASES = [
    case("grouped", "experts of a latent chosen by groups; weights not normalised", {"all groups": {"topk_group": 4}, "one expert": {"num_experts_per_tok": 1}},
         "ME*", **{**EXPERTS, "n_group": 4, "topk_group": 2, "norm_topk_prob": False, "moe_latent_size": 12}, tie_word_embeddings=True, rows=(12,)),
    case("dense", "Mamba-2 with two groups, MLPs, attention; the layers as a pattern, as in files of Nemotron-H", mamba.GROUPS, "M-M*-",
         rows=(24, 3), drop=DENSE_KEYS),
    case("experts", "experts without gates, a correction of the choice, a shared expert; the layers as a list, BF16", MOE, "MEM*E",
         respell={"layers_block_type": ["mamba", "moe", "mamba", "attention", "moe"]}, rows=(20,), dtype="BF16", **EXPERTS),
    case("latent", "experts of a latent; one group; biases of the MLP",
         {"no latent": without("fc1_latent_proj"), **MOE}, "ME*E", **EXPERTS,
         n_groups=1, moe_latent_size=12, mlp_bias=True, rows=(12,), gguf=False, gguf_note="llama.cpp reads no biases of shared experts"),
]

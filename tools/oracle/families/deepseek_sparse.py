"""DeepSeek-V3.2 and GLM-5: queries see only the keys that an indexer chooses; in some layers of GLM-5 those of an earlier layer."""

import torch
from transformers import DeepseekV32Config, DeepseekV32ForCausalLM, GlmMoeDsaConfig, GlmMoeDsaForCausalLM

from case import Case
from families.deepseek import CORRECTED, yarn
from families.glm_moe import lively
from reference import uniform_attention

BASE = dict(vocab_size=131, hidden_size=16, intermediate_size=20, moe_intermediate_size=8, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=4, kv_lora_rank=16, q_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=7, n_routed_experts=8,
            n_shared_experts=1, num_experts_per_tok=3, routed_scaling_factor=2.5, n_group=2, topk_group=1, first_k_dense_replace=1,
            max_position_embeddings=256, rms_norm_eps=1e-6, bos_token_id=130, eos_token_id=130, index_n_heads=8, index_head_dim=8, index_topk=7,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0})


def indexed(case, model, g):
    """Make keys' scores differ widely, so that no choice depends on rounding; weights of both signs. Every second head is the opposite of the one
    before, so that no key has a score of 0 by all heads: which of those are chosen is undefined."""
    lively(case, model, g)
    for name, p in model.named_parameters():
        if "indexer.w" in name:
            p.data.mul_(3)
        if name.endswith("wq_b.weight"):
            heads = p.data.view(case.kwargs["index_n_heads"], case.kwargs["index_head_dim"], -1)
            heads[1::2] = -heads[::2]


def without_indexer(part):
    def flip(model):
        for name, p in model.named_parameters():
            if name.endswith(f"indexer.{part}"):
                p.data.zero_()
    return flip


FLIPS = {"attention uniform": uniform_attention, **CORRECTED, "all keys": {"index_topk": 64}, "fewer keys": {"index_topk": 5},
         "keys alike": without_indexer("wk.weight"), "no bias of keys": without_indexer("k_norm.bias")}


def case(name, config, model, shows, flips={}, **kw):
    options = {"init": indexed, "plain_vocab": True, "spelling": "v5"} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    flips = {k: f for k, f in {**FLIPS, **flips}.items() if f}
    return Case(name=name, config=config, model=model, shows=shows, flips=flips, kwargs={**BASE, **kw}, **options)


def deepseek(name, shows, flips={}, **kw):
    return case(name, DeepseekV32Config, DeepseekV32ForCausalLM, shows, flips, family="deepseek_v32", **kw)


def glm(name, shows, flips={}, **kw):
    return case(name, GlmMoeDsaConfig, GlmMoeDsaForCausalLM, shows, flips, family="glm_moe_dsa", **{"n_group": 1, "topk_group": 1, **kw})


PUBLISHED = {"first_k_dense_replace": 1, "num_nextn_predict_layers": 0, "scoring_func": "sigmoid", "topk_method": "noaux_tc"}
WIDE = dict(index_n_heads=4, index_head_dim=64, q_lora_rank=8)         # llama.cpp needs a multiple of 64
CASES = [
    deepseek("chosen", "the seven best of up to 24 keys by four heads, the indexer's halves beside pairs, groups of experts", rows=(24, 3),
             drop=("mlp_layer_types", "layer_types"), respell=PUBLISHED, raw_config=True, **WIDE),
    deepseek("yarn", "YaRN, a choice of two keys, biases, a plain MLP after a mixture, BF16", {"fewer keys": None, "one key": {"index_topk": 1}},
             rope_parameters=yarn(1.0, 1.0), index_topk=2, attention_bias=True, mlp_layer_types=["sparse", "dense"], rows=(12,), dtype="BF16",
             gguf=False, gguf_note="GGUF has no keys for plain layers after a mixture, and for biases"),
    glm("shared", "pairs in the indexer, too; the third layer uses the choice of the second",
        num_hidden_layers=3, indexer_types=["full", "full", "shared"], rows=(24, 3), drop=("mlp_layer_types", "layer_types"), respell=PUBLISHED,
        raw_config=True, **WIDE),
]

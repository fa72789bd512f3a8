"""MiniMax M3, the language model: each group of heads sees the blocks of keys that a head of the indexer chooses, in all layers but the first."""

import re

import torch
from transformers import MiniMaxM3VLForCausalLM, MiniMaxM3VLTextConfig
from transformers.conversion_mapping import get_checkpoint_conversion_mapping, register_checkpoint_conversion_mapping

from case import Case
from families.deepseek import without
from families.deepseek_sparse import without_indexer
from families.mixtures import lively
from reference import kv_modulo, uniform_attention

# published files have the names of the whole model, which transformers does not give the language model alone
register_checkpoint_conversion_mapping("minimax_m3_vl_text", [x for x in get_checkpoint_conversion_mapping("minimax_m3_vl") if not any(
    s.startswith("^") for s in x.source_patterns)], overwrite=True)

PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
HALF = {**PLAIN, "partial_rotary_factor": 0.5}
BASE = dict(vocab_size=131, hidden_size=16, intermediate_size=8, dense_intermediate_size=20, shared_intermediate_size=8, num_hidden_layers=3,
            num_attention_heads=4, num_key_value_heads=2, head_dim=8, rotary_dim=4, num_local_experts=6, num_experts_per_tok=2,
            routed_scaling_factor=2.0, max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=130, eos_token_id=130, pad_token_id=0,
            tie_word_embeddings=False, rope_parameters=HALF, index_n_heads=2, index_head_dim=8, index_block_size=4, index_topk_blocks=3,
            index_local_blocks=1, layer_types=["full_attention"] + 2 * ["minimax_m3_sparse"], mlp_layer_types=["dense", "sparse", "sparse"])


def indexed(case, model, g):
    """Store norms less one, let gates pass their limit, and make blocks' scores differ widely, so that no choice depends on rounding."""
    lively(case, model, g)
    for name, p in model.named_parameters():
        if "norm" in name:
            p.data.sub_(1)
        if name.endswith("gate_up_proj") or name.endswith("gate_up_proj.weight"):
            p.data.mul_(4)
        if name.endswith("down_proj") or name.endswith("down_proj.weight"):
            p.data.mul_(0.4)
        if name.endswith(("indexer.q_norm.weight", "indexer.k_norm.weight")):
            p.data.mul_(3)


def first_choice(model):
    """Let all heads see what the first head of the indexer chooses."""
    for layer in model.model.layers:
        if layer.self_attn.indexer is not None:
            layer.self_attn.indexer.register_forward_hook(lambda _m, _a, out: out[:, :1].expand_as(out))


FLIPS = {"attention uniform": uniform_attention, "kv modulo": kv_modulo, "not corrected": without("e_score_correction_bias"),
         "no shared expert": without("shared_experts.down_proj"), "not scaled": {"routed_scaling_factor": 1.0}, "one expert": {"num_experts_per_tok": 1},
         "no limit": {"swiglu_limit": 100.0}, "all keys": {"index_topk_blocks": 100}, "fewer blocks": {"index_topk_blocks": 1},
         "another last block": {"index_local_blocks": 0}, "one choice": first_choice, "keys alike": without_indexer("k_proj.weight"),
         "whole heads": {"rope_parameters": PLAIN}}


def in_files(path):
    """Return a module's path as published files spell it."""
    path = re.sub(r"\.mlp\.(experts|gate|shared_experts)\b", r".block_sparse_moe.\1", path)
    return path.replace(".indexer.", ".index_")


def case(name, shows, flips={}, **kw):
    options = {"init": indexed, "plain_vocab": True, "spelling": "v4", "module": in_files} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    flips = {k: f for k, f in {**FLIPS, **flips}.items() if f}
    return Case(name=name, family="minimax_m3_vl_text", config=MiniMaxM3VLTextConfig, model=MiniMaxM3VLForCausalLM, shows=shows, flips=flips,
                kwargs={**BASE, **kw}, **options)


FLAT = ("index_n_heads", "index_head_dim", "index_block_size", "index_topk_blocks", "index_local_blocks", "layer_types", "mlp_layer_types")
PUBLISHED = {"architectures": ["MiniMaxM3SparseForCausalLM"], "hidden_act": "swigluoai", "use_qk_norm": True, "qk_norm_type": "per_head",
             "use_gemma_norm": True, "attention_output_gate": False, "n_shared_experts": 1, "scoring_func": "sigmoid", "use_routing_bias": True,
             "moe_layer_freq": [0, 1], "num_mtp_modules": 7, "sparse_attention_config": {
                 "use_sparse_attention": True, "sparse_index_dim": 8, "sparse_num_index_heads": 2, "sparse_topk_blocks": 3, "sparse_block_size": 4,
                 "sparse_score_type": "max", "sparse_init_block": 0, "sparse_local_block": 1, "sparse_disable_index_value": [0, 1],
                 "sparse_attention_freq": [0, 1]}}
CASES = [
    case("blocks", "three of up to six blocks of four keys, the last one always, chosen for each key/value head; the published members of config.json",
         rows=(24, 3), drop=FLAT, respell=PUBLISHED, raw_config=True, num_hidden_layers=2, layer_types=["full_attention", "minimax_m3_sparse"],
         mlp_layer_types=["dense", "sparse"],
         peer_options={24: {"flash_attn": True}}, gguf_note="llama.cpp chooses blocks with flash attention alone, whose masks and products are in half "
         "precision"),
    case("odd", "blocks of five keys, none always, one choice for all heads; a plain MLP and attention to all keys in the last layer; limit of gates, "
         "YaRN, tied, BF16; names of transformers", {"another last block": {"index_local_blocks": 1}, "one choice": None, "whole heads": None,
                                                     "default": {"rope_parameters": PLAIN}},
         rows=(18,), taps=False, index_n_heads=1, index_block_size=5, index_topk_blocks=2, index_local_blocks=0, swiglu_limit=2.5, rotary_dim=8,
         layer_types=["minimax_m3_sparse", "minimax_m3_sparse", "full_attention"], mlp_layer_types=["sparse", "sparse", "dense"],
         rope_parameters={**PLAIN, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 6}, tie_word_embeddings=True, dtype="BF16",
         spelling="v5", gguf=False, gguf_note="GGUF has no keys for such layers and limits"),
    case("pages", "blocks of whole pages of a cache: two of 64 keys", {}, vocab_size=41, bos_token_id=40, eos_token_id=40, num_hidden_layers=2,
         layer_types=2 * ["minimax_m3_sparse"], mlp_layer_types=["dense", "sparse"], index_block_size=64, index_topk_blocks=2, rows=(200,), taps=False,
         greedy=8, gguf=False, gguf_note="the twin would show nothing more"),
]

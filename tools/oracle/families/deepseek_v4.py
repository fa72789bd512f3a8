"""DeepSeek-V4: hyper-connected streams, keys that are the values, grouped products, mixtures that list the experts of a token."""

import re

import torch
from transformers import DeepseekV4Config, DeepseekV4ForCausalLM

from case import Case
from families.deepseek import without
from families.mixtures import lively
from reference import uniform_attention

BASE = dict(vocab_size=131, hidden_size=16, moe_intermediate_size=8, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1, head_dim=8,
            q_lora_rank=12, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, routed_scaling_factor=1.8, max_position_embeddings=256,
            rms_norm_eps=1e-5, bos_token_id=130, eos_token_id=130, pad_token_id=0, layer_types=2 * ["sliding_attention"],
            mlp_layer_types=["hash_moe", "moe"], swiglu_limit=0.8, sliding_window=7, o_groups=2, o_lora_rank=6, hc_mult=3, hc_sinkhorn_iters=3,
            hc_eps=1e-3, partial_rotary_factor=0.5, rope_theta=100.0, index_n_heads=2, index_head_dim=8, index_topk=3)


def connected(case, model, g):
    """Let streams differ, sinks count, and every token have experts of its own."""
    lively(case, model, g)
    for name, p in model.named_parameters():
        if name.endswith(("hc.base", "hc_base")):
            p.data.copy_(0.9 * torch.randn(p.shape, generator=g))
        if name.endswith(("hc.scale", "hc_scale")):
            p.data.mul_(1.4)
        if name.endswith("experts.gate_up_proj"):
            p.data.mul_(2)
        if name.endswith("indexer.q_b_proj.weight"):     # no entry has a score of 0 by all heads: which of those are chosen is undefined
            heads = p.data.view(model.config.index_n_heads, model.config.index_head_dim, -1)
            heads[1::2] = -heads[::2]
    for name, b in model.named_buffers():
        if name.endswith("tid2eid"):
            n = model.config.n_routed_experts
            b.copy_(torch.stack([torch.randperm(n, generator=g)[:b.shape[1]] for _ in range(b.shape[0])]))


def published(tensors):
    """Name the tensors as published files do."""
    def name(x):
        x = x.removeprefix("model.").replace("embed_tokens.", "embed.").replace("lm_head.", "head.").replace(".attn.norm.", ".attn.kv_norm.")
        return x.replace("compressor.kv_norm.", "compressor.norm.").replace("hc_head.hc_", "hc_head_")
    return {name(k): x for k, x in tensors.items()}


def float_experts(kind):
    """Methods of the converter: experts are stored in F32, where the published ones are in four bits."""
    def write(self, bid, proj, tensor_key):
        names = [f"layers.{bid}.ffn.experts.{e}.{proj}.weight" for e in range(self.hparams["n_routed_experts"])]
        self.gguf_writer.add_tensor(self.format_tensor_name(tensor_key, bid), torch.stack([self.model_tensors[n]() for n in names]).numpy())
        return names
    return {"_write_mxfp4_expert_tensor": write}


def no_sinks(model):
    for layer in model.model.layers:
        layer.self_attn.sinks.data.fill_(-1e9)


def first_experts(model):
    for layer in model.model.layers:
        if layer.mlp.is_hash:
            layer.mlp.gate.tid2eid.copy_(torch.arange(layer.mlp.gate.top_k).expand_as(layer.mlp.gate.tid2eid))


def untransposed(model):
    """Mix the streams by the transpose of the matrix."""
    for layer in model.model.layers:
        for hc in (layer.attn_hc, layer.ffn_hc):
            hc.register_forward_hook(lambda _m, _a, out: (out[0], out[1].transpose(-1, -2), out[2]))


def turned_back(model):
    """Leave the output of attention turned."""
    from transformers.models.deepseek_v4 import modeling_deepseek_v4 as m
    real = m.apply_rotary_pos_emb
    m.apply_rotary_pos_emb = lambda x, cos, sin, **kw: x if sin.shape[1] > 1 and sin[0, 1, 0] < 0 else real(x, cos, sin, **kw)
    return lambda: setattr(m, "apply_rotary_pos_emb", real)


FLIPS = {"attention uniform": uniform_attention, "not corrected": without("e_score_correction_bias"), "no shared expert": without("shared_experts.down_proj"),
         "not scaled": {"routed_scaling_factor": 1.0}, "no limit": {"swiglu_limit": 100.0}, "another window": {"sliding_window": 4},
         "whole heads": {"partial_rotary_factor": 1.0}, "one round": {"hc_sinkhorn_iters": 1}, "another eps": {"hc_eps": 0.1}, "no sinks": no_sinks,
         "first experts": first_experts, "transposed": untransposed, "left turned": turned_back, "another base": {"rope_theta": 10000.0}}
LEGACY = {"num_hash_layers": 1, "qk_rope_head_dim": 4, "compress_ratios": [0, 0], "rope_scaling": None, "rope_theta": 100.0, "topk_method": "noaux_tc"}
NEWER = ("layer_types", "mlp_layer_types", "partial_rotary_factor", "rope_parameters", "compress_rates")


def case(name, shows, flips={}, **kw):
    options = {"init": connected, "plain_vocab": True, "spelling": "v5"} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    flips = {k: f for k, f in {**FLIPS, **flips}.items() if f}
    return Case(name=name, family="deepseek_v4", config=DeepseekV4Config, model=DeepseekV4ForCausalLM, shows=shows, flips=flips,
                kwargs={**BASE, **kw}, **options)


RATES = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 5}
COMPRESSED = {"another window": {"sliding_window": 3}, "no bias": without("compressor.position_bias"), "gates alike": without("compressor.gate_proj.weight"),
              "another base of entries": {"compress_rope_theta": 10.0}, "another rate": None}
CHOSEN = {"another base": None, "all entries": {"index_topk": 100}, "fewer entries": {"index_topk": 1}, "keys alike": without("indexer.kv_proj.weight"),
          "no bias of keys": without("indexer.position_bias"), "weights alike": without("scorer.weights_proj.weight")}
CASES = [
    case("window", "three streams, three rounds; a layer that lists experts, then one that chooses; the published names and members of config.json",
         rows=(9, 3), drop=NEWER, respell=LEGACY, raw_config=True, stored=published, converter=float_experts, peer=False,
         module=str, gguf_note="experts are in F32"),
    case("odd", "two streams, one round, one group wider than the model, one listed expert in the last layer; tied, BF16; the names of transformers",
         {"one round": None, "another eps": None, "transposed": None}, rows=(18,), taps=False, hc_mult=2, hc_sinkhorn_iters=1, hc_eps=1e-6, o_groups=1,
         o_lora_rank=20, num_attention_heads=3, head_dim=6, partial_rotary_factor=0.67, sliding_window=5, num_experts_per_tok=1,
         mlp_layer_types=["moe", "hash_moe"], tie_word_embeddings=True, dtype="BF16", gguf=False, gguf_note="GGUF lists experts in the first layers only"),
    case("entries", "all entries of blocks of five positions beside a window of four; blocks end within prompts", {"one round": None, **COMPRESSED}, rows=(24, 3),
         layer_types=["heavily_compressed_attention", "sliding_attention"], compress_rates=RATES, sliding_window=4, taps=False, gguf=False,
         gguf_note="GGUF has entries of 4 and of 128 positions alone"),
    case("chosen", "three of up to eight entries of four positions and the four before, chosen by an indexer; then all entries of six",
         {"one round": None, **COMPRESSED, **CHOSEN}, rows=(35, 3), layer_types=["compressed_sparse_attention", "heavily_compressed_attention"],
         compress_rates={**RATES, "heavily_compressed_attention": 6}, sliding_window=4, taps=False, gguf=False,
         gguf_note="GGUF has entries of 4 and of 128 positions alone"),
    case("published", "entries of 4 and of 128 positions, as published and in GGUF files; more positions than a page of the cache has",
         {**COMPRESSED, **CHOSEN, "another base": None, "one round": None}, rows=(129,), taps=False, hidden_size=8, n_routed_experts=3, moe_intermediate_size=4,
         hc_mult=2, num_hidden_layers=3, layer_types=["heavily_compressed_attention", "compressed_sparse_attention", "sliding_attention"],
         mlp_layer_types=["hash_moe", "moe", "moe"], drop=NEWER, raw_config=True, respell={**LEGACY, "compress_ratios": [128, 4, 0]}, stored=published,
         converter=float_experts, peer=False, gguf_note="experts are in F32"),
]

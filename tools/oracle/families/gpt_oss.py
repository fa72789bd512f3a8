"""gpt-oss: sinks, alternating windows, YaRN without rounded bounds, experts in four bits with clamped gates, biases everywhere."""

import torch
from transformers import GptOssConfig, GptOssForCausalLM

from case import BARE, Case, bare
from reference import no_bias, uniform_attention

YARN = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 20, "beta_fast": 32.0,
        "beta_slow": 1.0, "truncate": False}
BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=6, max_position_embeddings=80, rms_norm_eps=1e-5,
            bos_token_id=130, eos_token_id=130, pad_token_id=129, rope_parameters=YARN)
GRID = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def codes(w):
    """Quantise […, n] to codes […, n/32, 32] and exponents […, n/32]: the nearest four-bit values, scaled by a power of two per block."""
    x = w.unflatten(-1, (-1, 32))
    e = torch.floor(torch.log2(x.abs().amax(-1, keepdim=True))) - 2
    near = ((x / 2.0 ** e).abs().unsqueeze(-1) - GRID).abs().argmin(-1)
    return near + 8 * (x < 0), (e.squeeze(-1) + 127).to(torch.uint8)


def values(code, exponent):
    x = GRID[code & 7] * torch.where(code > 7, -1.0, 1.0) * 2.0 ** (exponent.float() - 127).unsqueeze(-1)
    return x.flatten(-2)


def sharp(case, model, g):
    """Make gates reach their limit, sinks matter and routers decide clearly."""
    for name, p in model.named_parameters():
        if name.endswith("gate_up_proj"):
            p.data.mul_(4)
        if name.endswith("sinks"):
            p.data.copy_(torch.randn(p.shape, generator=g))
        if name.endswith("router.weight"):
            p.data.mul_(1.5)
        if case.stored and name.endswith(("gate_up_proj", "down_proj")):
            p.data.copy_(values(*codes(p.data.mT.contiguous())).mT)


def four_bits(tensors):
    """Convert experts to the form of the published files: codes [experts, out, in/32, 16], two per byte, and exponents."""
    out = {}
    for name, w in tensors.items():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            code, exponent = codes(w.float().mT.contiguous())
            code = code.to(torch.uint8)
            out[name + "_blocks"], out[name + "_scales"] = (code[..., 0::2] | code[..., 1::2] << 4).contiguous(), exponent.contiguous()
        else:
            out[name] = w
    return out


def no_sinks(model):
    """Disable the sinks."""
    for layer in model.model.layers:
        layer.self_attn.sinks.data.fill_(-1e9)


def case(name, shows, flips, **kw):
    options = {"init": sharp} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="gpt_oss", config=GptOssConfig, model=GptOssForCausalLM, shows=shows, flips={
        "attention uniform": uniform_attention, "no sinks": no_sinks, "no limit": {"swiglu_limit": 1e4}, "no bias of router": no_bias("router"),
        "no bias of experts": no_bias("experts"), "one expert": {"num_experts_per_tok": 1}, **flips}, kwargs={**BASE, **kw}, **options)


QUANTISED = {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                                                         "model.embed_tokens", "lm_head"]}}

CASES = [
    case("mxfp4", "experts in four bits as the published files have them, a window of 6 keys in the first of two layers, YaRN without whole bounds", {
        "windows everywhere": {"layer_types": ["sliding_attention"] * 2}, "no windows": {"sliding_window": 100},
        "whole bounds": {"rope_parameters": {**YARN, "truncate": True}}}, stored=four_bits, respell=QUANTISED, drop=("layer_types",), rows=(30,),
        gguf_note="llama.cpp rounds YaRN's bounds and its activations to eight bits"),
    case("bare", "saved without its head, experts in four bits", {}, rows=(16,), respell=QUANTISED, drop=("layer_types",),
         **BARE | {"stored": lambda tensors: bare(four_bits(tensors))}),
    case("floats", "experts in floats [experts, in, out], rows of gates and factors in turns; BF16, no scaling of positions", {
        "other layers": {"layer_types": ["full_attention", "sliding_attention", "full_attention"]}}, num_hidden_layers=3,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, dtype="BF16", sliding_window=5, rows=(16,),
        spelling="v5"),
    case("plain", "YaRN that the file does not mention, another limit, no biases of attention, three of five experts", {"limit of 7": {"swiglu_limit": 7.0}, "no scaling": {"rope_parameters": {"rope_type": "default", "rope_theta": 150000.0}}},
         swiglu_limit=2.0, rope_parameters={**YARN, "rope_theta": 150000.0, "factor": 32.0, "original_max_position_embeddings": 4096},
         max_position_embeddings=131072, drop=("rope_scaling", "rope_theta"),
         attention_bias=False, num_local_experts=5, num_experts_per_tok=3, intermediate_size=20, rows=(16,), gguf=False,
         gguf_note="GGUF has no key for the limit"),
]

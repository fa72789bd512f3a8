"""BitNet b1.58: matrices of -1, 0 and 1 with a factor each, rows rounded to eight bits; norms before o_proj and down_proj, gates of squared ReLU.

The matrices of Llama's checkpoints may be such, too: their files have the inverse of the factor.
"""

import torch
from transformers import BitNetConfig, BitNetForCausalLM, BitNetQuantConfig, LlamaConfig, LlamaForCausalLM
from transformers.integrations import bitnet

from case import Case
from reference import DTYPES, kv_modulo, no_bias, uniform_attention

torch._dynamo.config.disable = True     # the functions of the integration are to be compiled

PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=1, pad_token_id=None, rope_parameters=PLAIN,
            tie_word_embeddings=False)


def quantised(base, **options):
    """Return a class of models whose products are those of transformers' quantiser."""
    class Model(base):
        def __init__(self, config):
            super().__init__(config)
            bitnet.replace_with_bitnet_linear(self, ["lm_head"], BitNetQuantConfig(**options))
            for module in self.modules():
                if isinstance(module, (bitnet.AutoBitLinear, bitnet.BitLinear)):
                    module.to_empty(device="cpu")
                    module.dtype = torch.float32

        @classmethod
        def from_pretrained(cls, *args, **kw):
            return torch.nn.Module.to(base.from_pretrained(*args, **kw), kw["dtype"])     # what is not quantised keeps the type of the file

    Model.__name__, Model.__module__ = base.__name__, base.__module__
    return Model


def ternary(case, model, g):
    """Round the matrices, each with a factor of its own."""
    louder(case, model, g)
    for module in model.modules():
        if isinstance(module, bitnet.AutoBitLinear) and not module.online_quant:
            scale = module.weight.data.abs().mean()
            module.weight.data.copy_((module.weight.data / scale).round().clamp(-1, 1))
            module.weight_scale.data.copy_(scale.to(DTYPES[case.dtype]).float().view(1))
        if isinstance(module, bitnet.BitLinear):
            codes = torch.randint(-1, 2, (module.out_features, module.in_features), generator=g)
            module.weight.data.copy_(bitnet.pack_weights(codes))
            module.weight_scale.data.copy_((0.5 + torch.rand(1, generator=g)) * module.in_features ** 0.5 / 1.6)
            if module.bias is not None:
                module.bias.data.copy_(0.3 * torch.randn(module.bias.shape, generator=g))


def louder(case, model, g):
    """Let layers add more than the embedding, whose tied row would win otherwise."""
    for name, p in model.named_parameters():
        if case.kwargs["tie_word_embeddings"] and "embed" in name:
            p.data.mul_(0.3)


def packed(tensors):
    """Pack the matrices as published files do: four rows in a row of bytes."""
    out = dict(tensors)
    for name in tensors:
        if name + "_scale" in tensors and tensors[name].dtype != torch.uint8:
            out[name] = bitnet.pack_weights(tensors[name].to(torch.int8))
    return out


def not_rounded(model):
    """Multiply the rows as they are."""
    right = bitnet.ActQuant.apply
    bitnet.ActQuant.apply = lambda x: x

    def undo():
        bitnet.ActQuant.apply = right
    return undo


def inputs_as_they_are(model):
    """Round the rows of BitLinear so finely that it does not show."""
    def finely(x):
        return x * 2.0 ** 20, torch.tensor(2.0 ** 20)
    for module in model.modules():
        if isinstance(module, bitnet.BitLinear):
            module.activation_quant = finely


def factors_are_one(model):
    for module in model.modules():
        if hasattr(module, "weight_scale"):
            module.weight_scale.fill_(1.0)


def without(norm):
    def flip(model):
        for name, module in model.named_modules():
            if name.endswith(norm):
                module.forward = lambda x: x
    return flip


FLIPS = {"attention uniform": uniform_attention, "kv modulo": kv_modulo, "no norm of attention": without("attn_sub_norm"),
         "no norm of gates": without("ffn_sub_norm"), "SiLU": {"hidden_act": "silu"}}
AUTO = {"quant_method": "bitnet", "linear_class": "autobitlinear", "modules_to_not_convert": None}


def case(name, shows, flips={}, family="bitnet", config=BitNetConfig, model=BitNetForCausalLM, **kw):
    options = {"init": ternary} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    flips = {k: f for k, f in {**(FLIPS if family == "bitnet" else {}), **flips}.items() if f}
    return Case(name=name, family=family, config=config, model=model, shows=shows, flips=flips, kwargs={**BASE, **kw}, gguf=False,
                gguf_note="llama.cpp has no form for rounded rows", **options)


OFFLINE = quantised(BitNetForCausalLM, linear_class="autobitlinear")
CASES = [
    case("packed", "matrices packed as in the published files, whole blocks of TQ2_0, tied", {
        "not rounded": not_rounded, "factors are one": factors_are_one}, model=OFFLINE, stored=packed, dtype="BF16",
        respell={"quantization_config": {**AUTO, "quantization_mode": "offline"}}, rows=(24,), taps=False, vocab_size=61, hidden_size=256,
        intermediate_size=256, num_hidden_layers=1, tie_word_embeddings=True),
    case("narrow", "the same with rows that are no whole blocks, three key/value heads, biases of attention that the factor multiplies, untied", {
        "not rounded": not_rounded, "factors are one": factors_are_one, "no biases": no_bias("self_attn")}, model=OFFLINE, stored=packed,
        respell={"quantization_config": {**AUTO, "quantization_mode": "offline"}}, rows=(12,), attention_bias=True, num_attention_heads=6,
        num_key_value_heads=3, hidden_size=48),
    case("online", "matrices of floats, which every pass rounds; biases of attention that no factor multiplies", {
        "not rounded": not_rounded, "no biases": no_bias("self_attn")}, attention_bias=True,
         model=quantised(BitNetForCausalLM, linear_class="autobitlinear", quantization_mode="online"),
         respell={"quantization_config": {**AUTO, "quantization_mode": "online"}}, rows=(12,), dtype="BF16"),
    case("floats", "no quantization_config: matrices are what they are, nothing is rounded; another epsilon, YaRN", {
        "default": {"rope_parameters": PLAIN}}, rows=(14,), rms_norm_eps=1e-3, vocab_size=61,
        rope_parameters={**PLAIN, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 6}),
    case("ternary", "Llama's decoder with packed matrices, the inverse of whose factor is in the file; biases that it does not multiply", {
        "attention uniform": uniform_attention, "kv modulo": kv_modulo, "not rounded": inputs_as_they_are, "factors are one": factors_are_one},
        family="llama", config=LlamaConfig, model=quantised(LlamaForCausalLM), rows=(12,), attention_bias=True,
        respell={"quantization_config": {"quant_method": "bitnet", "modules_to_not_convert": ["lm_head"]}}),
]

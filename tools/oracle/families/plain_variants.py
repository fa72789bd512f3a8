"""Decoders that differ from Llama's or Gemma's in few switches: Ministral, CWM, Helium, InternLM3, IQuest-Coder, VaultGemma, Jais 2."""

from transformers import (CwmConfig, CwmForCausalLM, HeliumConfig, HeliumForCausalLM, Jais2Config, Jais2ForCausalLM, LlamaForCausalLM, MinistralConfig, MinistralForCausalLM,
                          VaultGemmaConfig, VaultGemmaForCausalLM)
from transformers.models.internlm3.configuration_internlm3 import InternLM3Config
from transformers.models.iquestcoder.configuration_iquestcoder import IQuestCoderConfig

from case import Case
from families.gemma import calm, unscaled
from reference import kv_modulo, no_bias, uniform_attention

PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 16.0, "original_max_position_embeddings": 8, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 6.0}
BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
            max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=130, eos_token_id=130, pad_token_id=0, tie_word_embeddings=False,
            rope_parameters=PLAIN)
FULL, WINDOW = "full_attention", "sliding_attention"


def llama(config):
    """Return Llama's class for another configuration, as transformers' automatic class builds it."""
    return type("LlamaForCausalLM", (LlamaForCausalLM,), {"config_class": config, "__module__": LlamaForCausalLM.__module__})


KINDS = {"ministral": (MinistralConfig, MinistralForCausalLM), "cwm": (CwmConfig, CwmForCausalLM), "helium": (HeliumConfig, HeliumForCausalLM),
         "internlm3": (InternLM3Config, llama(InternLM3Config)), "iquestcoder": (IQuestCoderConfig, llama(IQuestCoderConfig)),
         "jais2": (Jais2Config, Jais2ForCausalLM), "vaultgemma": (VaultGemmaConfig, VaultGemmaForCausalLM)}
NO_CONVERTER = dict(gguf=False, gguf_note="llama.cpp's converter does not know the class")


def case(family, name, shows, flips, **kw):
    options = {"rows": (14,)} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family=family, config=KINDS[family][0], model=KINDS[family][1], shows=shows, flips={
        "attention uniform": uniform_attention, "kv modulo": kv_modulo, **flips}, kwargs={**{k: v for k, v in BASE.items() if (family, k) != ("jais2", "rms_norm_eps")}, **kw}, **options)


CASES = [
    case("ministral", "window", "a window in all layers, as the class has it without layer_types", {"no window": {"sliding_window": 60}},
         sliding_window=5, drop=("layer_types",), **NO_CONVERTER),
    case("ministral", "turns", "layers with a window and without, tied, BF16", {
         "windows everywhere": {"layer_types": [WINDOW] * 3}, "no window": {"sliding_window": 60}}, num_hidden_layers=3, sliding_window=5,
         layer_types=[WINDOW, FULL, WINDOW], head_dim=12, tie_word_embeddings=True, dtype="BF16", taps=False, **NO_CONVERTER),
    case("cwm", "turns", "a window in all layers but every fourth, from the first on; llama3's rotation past its trained length", {
         "no window": {"sliding_window": 60}, "default": {"rope_parameters": PLAIN}, "other layers": {"layer_types": [WINDOW] * 4 + [FULL]}},
         num_hidden_layers=5, hidden_size=16, intermediate_size=20, sliding_window=5, rope_parameters=LLAMA3, drop=("layer_types",), **NO_CONVERTER),
    case("cwm", "listed", "kinds of layers in a list, biases of MLPs, tied, BF16, sharded", {
         "windows everywhere": {"layer_types": [WINDOW] * 3}, "no biases": no_bias("mlp")}, num_hidden_layers=3, sliding_window=5,
         layer_types=[WINDOW, WINDOW, FULL], mlp_bias=True, tie_word_embeddings=True, dtype="BF16", shard_bytes=20000, taps=False, spelling="v5",
         **NO_CONVERTER),
    case("helium", "pairs", "adjacent lanes rotate together", {}, rows=(12,), hidden_size=24, intermediate_size=28, head_dim=6, **NO_CONVERTER),
    case("helium", "biases", "biases of q, k, v and of MLPs but not of o_proj, a wide eps, tied, BF16", {
         "no biases": no_bias("self_attn"), "no biases of MLPs": no_bias("mlp"), "eps": {"rms_norm_eps": 1e-8}}, attention_bias=True, mlp_bias=True,
         rms_norm_eps=0.1, tie_word_embeddings=True, dtype="BF16", taps=False, **NO_CONVERTER),
    case("internlm3", "plain", "heads wider than hidden / heads; the twin is Llama's", {}, hidden_size=24, intermediate_size=28, respell={"qkv_bias": False, "bias": False},
         drop=("attention_bias", "mlp_bias"), plain_vocab=True),
    case("internlm3", "dynamic-biases", "biases everywhere under their own names, dynamic scaling of the rotation, BF16", {
         "no biases": no_bias("self_attn"), "no biases of MLPs": no_bias("mlp"), "default": {"rope_parameters": PLAIN}}, attention_bias=True,
         mlp_bias=True, rope_parameters=DYNAMIC, max_position_embeddings=10, respell={"qkv_bias": True, "bias": True},
         drop=("attention_bias", "mlp_bias"), dtype="BF16", taps=False, gguf=False, gguf_note="the converter cannot write dynamic scaling"),
    case("iquestcoder", "plain", "Llama's decoder with published members of config.json", {"theta": {"rope_parameters": {**PLAIN, "rope_theta": 500000.0}}},
         hidden_size=24, intermediate_size=28, respell={"clip_qkv": None, "use_sliding_window": False, "sliding_window": None, "max_window_layers": 0}, **NO_CONVERTER),
    case("iquestcoder", "biases", "biases everywhere, tied, BF16", {"no biases": no_bias("self_attn"), "no biases of MLPs": no_bias("mlp")},
         attention_bias=True, mlp_bias=True, tie_word_embeddings=True, dtype="BF16", taps=False, **NO_CONVERTER),
    case("vaultgemma", "caps", "one norm before each part, soft caps on scores and logits, windows of 5 keys in layers 0 and 2, a scale of the scores of "
         "its own", {"no cap on scores": {"attn_logit_softcapping": None}, "no cap on logits": {"final_logit_softcapping": None},
                     "no windows": {"sliding_window": 100}, "scale of head_dim": {"query_pre_attn_scalar": 8}, "embedding not scaled": unscaled},
         num_hidden_layers=3, sliding_window=5, query_pre_attn_scalar=5, attn_logit_softcapping=2.5, final_logit_softcapping=3.0, init=calm,
         tie_word_embeddings=True, drop=("layer_types", "tie_word_embeddings"), **NO_CONVERTER),
    case("vaultgemma", "listed", "no caps, layer types as the file lists them, untied, biases of attention, BF16", {
         "caps": {"attn_logit_softcapping": 2.0}, "windows everywhere": {"layer_types": [WINDOW] * 3}, "no biases": no_bias("self_attn")},
         num_hidden_layers=3, sliding_window=6, query_pre_attn_scalar=8, attn_logit_softcapping=None, final_logit_softcapping=None, init=calm,
         layer_types=[FULL, FULL, WINDOW], attention_bias=True, spelling="v5", dtype="BF16", taps=False, **NO_CONVERTER),
    case("jais2", "biases", "LayerNorms, plain MLPs of squared ReLU, biases everywhere, as the class has them", {
         "no biases": no_bias("self_attn"), "no biases of MLPs": no_bias("mlp"), "ReLU": {"hidden_act": "relu"}}, rows=(12,), hidden_size=24, intermediate_size=28,
         head_dim=6, layer_norm_eps=1e-5, drop=("attention_bias", "mlp_bias", "layer_norm_eps"), plain_vocab=True),
    case("jais2", "bare", "no biases, a wide eps, heads wider than hidden / heads, llama3's rotation, tied, BF16", {
         "eps": {"layer_norm_eps": 1e-5}, "default": {"rope_parameters": PLAIN}}, attention_bias=False, mlp_bias=False, layer_norm_eps=0.1, head_dim=12,
         rope_parameters=LLAMA3, tie_word_embeddings=True, dtype="BF16", taps=False, gguf=False, gguf_note="llama.cpp requires biases in this family"),
]

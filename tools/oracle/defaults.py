#!/usr/bin/env python3
"""defaults.py: the values that transformers' configuration classes use for keys missing in config.json.

    tools/oracle/defaults.py >tests/golden/defaults/transformers.tsv

One case per class, and more if another key changes a default. The rows of a case are a whole description in which every value is
the class's own. `default`, `whole` (an object, its members follow): without this key, transformers builds the same configuration.
`set`, `object`: it does not, so the case needs the key. tests/unit/arch/defaults.c leaves out one key after the other.
"""
import json
import sys
from pathlib import Path

import transformers

sys.path.insert(0, str(Path(__file__).resolve().parent))

import store  # noqa: E402

# keys that no forward pass depends on
NOISE = {"transformers_version", "architectures", "model_type", "dtype", "torch_dtype", "id2label", "label2id", "problem_type", "_name_or_path",
         "return_dict", "output_hidden_states", "output_attentions", "output_router_logits", "chunk_size_feed_forward", "is_encoder_decoder",
         "is_decoder", "use_cache", "initializer_range", "init_std", "bos_token_id", "eos_token_id", "decoder_start_token_id",
         "add_cross_attention", "router_aux_loss_coef", "router_jitter_noise", "num_nextn_predict_layers"}

WINDOW = {"use_sliding_window": True}
CASES = {
    "llama": ("Llama", {}), "mistral": ("Mistral", {}), "mixtral": ("Mixtral", {}), "mixtral-window": ("Mixtral", {"sliding_window": 512}),
    "ministral": ("Ministral", {"num_hidden_layers": 5}), "cwm": ("Cwm", {"num_hidden_layers": 5}), "helium": ("Helium", {}), "internlm3": ("InternLM3", {}),
    "iquestcoder": ("IQuestCoder", {}), "vaultgemma": ("VaultGemma", {"num_hidden_layers": 4}),
    "ministral3": ("Ministral3", {}), "mistral4": ("Mistral4", {"num_hidden_layers": 2}), "qwen2": ("Qwen2", {}), "qwen2-window": ("Qwen2", WINDOW), "qwen3": ("Qwen3", {}), "qwen3_next": ("Qwen3Next", {}), "qwen3_5": ("Qwen3_5Text", {}),
    "qwen3_5_moe": ("Qwen3_5MoeText", {}), "qwen3-window": ("Qwen3", WINDOW),
    "granite": ("Granite", {}), "gpt2": ("GPT2", {}), "falcon": ("Falcon", {}), "falcon-heads": ("Falcon", {"multi_query": False, "alibi": True}),
    "falcon-sequential": ("Falcon", {"parallel_attn": False}),
    "falcon-new": ("Falcon", {"new_decoder_architecture": True}), "mpt": ("Mpt", {}), "gpt_neox": ("GPTNeoX", {}), "gptj": ("GPTJ", {}),
    "gpt_neo": ("GPTNeo", {}), "opt": ("OPT", {}), "opt-after": ("OPT", {"do_layer_norm_before": False}), "bloom": ("Bloom", {}),
    "gpt_bigcode": ("GPTBigCode", {}), "phi": ("Phi", {}), "phi3": ("Phi3", {}), "phimoe": ("Phimoe", {"num_hidden_layers": 2}), "starcoder2": ("Starcoder2", {}), "stablelm": ("StableLm", {}),
    "cohere": ("Cohere", {}), "cohere2": ("Cohere2", {}), "xglm": ("XGLM", {}), "ctrl": ("CTRL", {}), "openai-gpt": ("OpenAIGPT", {}),
    "gemma": ("Gemma", {}), "gemma2": ("Gemma2", {}), "gemma3": ("Gemma3Text", {}), "gemma4": ("Gemma4Text", {"num_hidden_layers": 8}),
    "gemma3n": ("Gemma3nText", {"num_hidden_layers": 20}),
    "gemma4_unified": ("Gemma4UnifiedText", {}),
    "gemma4-mixture": ("Gemma4Text", {"enable_moe_block": True, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 64, "num_kv_shared_layers": 6, "use_double_wide_mlp": True}),
    "olmo": ("Olmo", {}), "olmoe": ("Olmoe", {}), "olmo2": ("Olmo2", {}), "olmo3": ("Olmo3", {"num_hidden_layers": 4}),
    "exaone4": ("Exaone4", {"num_hidden_layers": 4}), "exaone_moe": ("ExaoneMoe", {"num_hidden_layers": 4}), "seed_oss": ("SeedOss", {}), "jais2": ("Jais2", {}), "flex_olmo": ("FlexOlmo", {}), "axk1": ("AXK1", {"num_hidden_layers": 3}), "arcee": ("Arcee", {}), "nemotron": ("Nemotron", {"num_key_value_heads": 8}),
    "hunyuan_v1_dense": ("HunYuanDenseV1", {"head_dim": 128}), "hunyuan_v1_moe": ("HunYuanMoEV1", {"head_dim": 128}),
    "hy_v3": ("HYV3", {"num_hidden_layers": 3}), "minimax_m2": ("MiniMaxM2", {"num_hidden_layers": 2}),
    "minimax_m3_vl_text": ("MiniMaxM3VLText", {"num_hidden_layers": 3, "layer_types": ["full_attention"] + 2 * ["minimax_m3_sparse"],
                                               "mlp_layer_types": ["dense", "sparse", "sparse"], "rope_parameters": {
                                                   "rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5}}),
    "ernie4_5_moe": ("Ernie4_5_Moe", {"num_hidden_layers": 3}), "llama4_text": ("Llama4Text", {"num_hidden_layers": 4}),
    "dots1": ("Dots1", {"num_hidden_layers": 3, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2}), "smollm3": ("SmolLM3", {}),
    "apertus": ("Apertus", {}), "nanochat": ("NanoChat", {}), "bitnet": ("BitNet", {}), "granite_swa": ("GraniteSWA", {"num_hidden_layers": 4}), "minicpm3": ("MiniCPM3", {}),
    "afmoe": ("Afmoe", {"num_hidden_layers": 5}), "laguna": ("Laguna", {"num_hidden_layers": 3}), "mimo_v2_flash": ("MiMoV2Flash", {"num_hidden_layers": 7}),
    "cohere2_moe": ("Cohere2Moe", {"num_hidden_layers": 5}), "granitemoe_swa": ("GraniteMoeSWA", {"num_hidden_layers": 5}),
    "smollm3-window": ("SmolLM3", WINDOW | {"sliding_window": 512}), "glm": ("Glm", {}), "glm4": ("Glm4", {}), "ernie4_5": ("Ernie4_5", {}),
    "qwen2_moe": ("Qwen2Moe", {}), "qwen2_moe-window": ("Qwen2Moe", WINDOW), "qwen2_moe-dense": ("Qwen2Moe", {"mlp_only_layers": [0, 3]}),
    "qwen3_moe": ("Qwen3Moe", {}), "qwen3_moe-window": ("Qwen3Moe", WINDOW), "qwen3_moe-dense": ("Qwen3Moe", {"decoder_sparse_step": 2}),
    "granitemoe": ("GraniteMoe", {}), "granitemoeshared": ("GraniteMoeShared", {}), "gpt_oss": ("GptOss", {}),
    "deepseek_v2": ("DeepseekV2", {"num_experts_per_tok": 6, "num_hidden_layers": 4}),
    "deepseek_v2-groups": ("DeepseekV2", {"num_experts_per_tok": 6, "num_hidden_layers": 4, "topk_method": "group_limited_greedy", "n_group": 8,
                                          "topk_group": 3}),
    "deepseek_v3": ("DeepseekV3", {"num_hidden_layers": 5}), "lfm2": ("Lfm2", {"num_hidden_layers": 4}),
    "lfm3": ("Lfm3", {"num_hidden_layers": 5}), "olmo_hybrid": ("OlmoHybrid", {"num_hidden_layers": 4}),
    "lfm2-listed": ("Lfm2", {"num_hidden_layers": 4, "full_attn_idxs": [1, 3]}),
    "granitemoehybrid": ("GraniteMoeHybrid", {"num_hidden_layers": 2, "layer_types": ["mamba", "attention"]}),
    "nemotron_h": ("NemotronH", {}), "falcon_h1": ("FalconH1", {"num_hidden_layers": 2}),
    "bamba": ("Bamba", {"num_hidden_layers": 2}), "mamba2": ("Mamba2", {"num_hidden_layers": 2}), "mamba": ("Mamba", {"num_hidden_layers": 2}),
    "falcon_mamba": ("FalconMamba", {"num_hidden_layers": 2}), "jamba": ("Jamba", {"num_hidden_layers": 10}), "recurrent_gemma": ("RecurrentGemma", {}),
    "kimi_linear": ("KimiLinear", {"num_hidden_layers": 5}), "bailing_hybrid": ("BailingHybrid", {"num_hidden_layers": 7}),
    "glm4_moe": ("Glm4Moe", {"num_hidden_layers": 3, "head_dim": 128}), "glm4_moe_lite": ("Glm4MoeLite", {"num_hidden_layers": 3}),
    "deepseek_v32": ("DeepseekV32", {"num_hidden_layers": 5}), "glm_moe_dsa": ("GlmMoeDsa", {"num_hidden_layers": 5}),
    "lfm2_moe": ("Lfm2Moe", {"num_hidden_layers": 4, "layer_types": ["conv", "full_attention", "conv", "full_attention"]}),
}
SCALED = {"yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024, "rope_theta": 10000.0},
          "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_theta": 10000.0,
                     "original_max_position_embeddings": 2048}}
CASES |= {"llama-" + k: ("Llama", {"rope_parameters": v}) for k, v in SCALED.items()}


def plain(config):
    """Return the configuration as in config.json, without keys that no forward pass depends on."""
    out = {}
    for key, value in json.loads(json.dumps(config.to_dict())).items():
        if key in NOISE or "pdrop" in key or "dropout" in key or key.startswith("summary_") or key.startswith("layerdrop"):
            continue
        if key == "attn_config":
            keep = ("attn_type", "alibi", "alibi_bias_max", "clip_qkv", "softmax_scale")
            value = {k: value[k] for k in keep}
        out[key] = value
    return out


def without(described, path):
    out = json.loads(json.dumps(described))
    *outer, last = path.split("/")
    at = out
    for name in outer:
        at = at[name]
    del at[last]
    return out


def paths(described, prefix=""):
    for key, value in described.items():
        yield prefix + key, value
        if isinstance(value, dict):
            yield from paths(value, prefix + key + "/")


def differs(kind, described, path, held):
    try:
        return plain(kind.from_dict(without(described, path))) != held
    except Exception:
        return True


def emit(name, kind, described, requested):
    held = plain(kind.from_dict(json.loads(json.dumps(described))))
    print(name, "model_type", "set", json.dumps(kind.model_type), sep="\t")
    for path, value in paths(described):
        whole = isinstance(value, dict)          # its members have separate rows
        kept = path in requested or differs(kind, described, path, held)
        how = ("object" if kept else "whole") if whole else "set" if kept else "default"
        print(name, path, how, "{}" if whole else json.dumps(value), sep="\t")


def main():
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    print("# case\tkey\thow\tvalue")
    for name, (stem, requested) in CASES.items():
        kind = getattr(transformers, stem + "Config")
        described = plain(kind(**json.loads(json.dumps(requested))))
        emit(name, kind, described, requested)
        if "layer_types" in described:           # the older spelling, without the list of layers with a window
            emit(name + " by-keys", kind, {k: v for k, v in described.items() if k != "layer_types"}, requested)
        rope = described.get("rope_parameters")
        if rope and "-" not in name and name not in ("lfm3", "gemma3n", "gemma4", "gemma4_unified", "laguna", "mimo_v2_flash"):      # which has no older spelling
            old = store.v4(described | {"dtype": None})
            emit(name + " v4", kind, {k: v for k, v in old.items() if k != "torch_dtype" and (name, k) != ("olmo3", "rope_local_base_freq")}, requested)


main()

#!/usr/bin/env python3
"""presets.py: how many parameters transformers counts for every published configuration.

    tools/oracle/presets.py >tests/golden/presets/transformers.tsv

Models are built on the meta device: shapes without memory. The correction of the router's choice in DeepSeek-V3 and LFM2-MoE is in their
checkpoints, a parameter in DeepSeek's code; transformers stores it as a buffer. It is counted, and so are the factors of Gemma 4's layers. GPT-3 is counted as GPT-2, which has the same
weights; "-" if its heads do not fill the width, which GPT-2 cannot represent. "-" for Ling with a latent of queries, which transformers' Ling lacks.
"""
import json
import pathlib

import torch
from transformers import AutoConfig, AutoModelForCausalLM, BitNetQuantConfig, Mistral4Config, Mistral4ForCausalLM
from transformers.integrations.bitnet import replace_with_bitnet_linear

ROOT = pathlib.Path(__file__).resolve().parents[2]


def on_meta(config):
    """Return the model of a configuration, without memory."""
    config = dict(config)
    config = AutoConfig.for_model(config.pop("model_type"), **config)
    with torch.device("meta"):
        if isinstance(config, Mistral4Config):          # which the automatic class builds only inside Mistral3
            return Mistral4ForCausalLM(config)
        model = AutoModelForCausalLM.from_config(config)
    if getattr(config, "quantization_config", {}).get("quant_method") == "bitnet":      # with the classes that loading gives it
        replace_with_bitnet_linear(model, ["lm_head"], BitNetQuantConfig(**config.quantization_config))
    return model


def count(config):
    config = dict(config)
    if config["model_type"] == "gpt3":
        if "head_dim" in config:
            return "-"
        config["model_type"] = "gpt2"
    if config["model_type"] == "bailing_hybrid" and config["q_lora_rank"]:
        return "-"
    model = on_meta(config)
    return model.num_parameters() + sum(b.numel() for n, b in model.named_buffers() if n.endswith(("e_score_correction_bias", "expert_bias", "layer_scalar")))


def main():
    for path in sorted((ROOT / "src/arch/presets").glob("*.json")):
        for preset in json.loads(path.read_text()):
            print(preset["name"], count(preset["config"]), sep="\t")


if __name__ == "__main__":
    main()

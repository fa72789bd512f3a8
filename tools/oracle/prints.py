#!/usr/bin/env python3
"""prints.py: what transformers prints of one published model of each family, for `lamina inspect --view tree`.

    tools/oracle/prints.py tests/golden/presets/prints

The first preset of each model_type, on the meta device, as in modules.py. Families are left out if their modules have other names in
checkpoints than in transformers, or if transformers puts their experts in one module.
"""
import json
import pathlib
import sys

from modules import ROOT, built

OTHERWISE = {
    "gpt_neox": "checkpoints say embed_out, transformers lm_head",
    "lfm3": "checkpoints say gate_proj, transformers g_proj",
    "olmo_hybrid": "checkpoints name norms in layers with a state otherwise",
    "gpt3": "transformers has no such model",
    "ctrl": "positions are no module in transformers",
    "mixtral": "experts", "exaone_moe": "experts", "olmoe": "experts", "qwen2_moe": "experts", "qwen3_moe": "experts", "granitemoe": "experts", "gpt_oss": "experts",
    "deepseek_v2": "experts", "deepseek_v3": "experts", "lfm2_moe": "experts", "qwen3_next": "experts",
    "qwen3_5_moe_text": "experts", "granitemoehybrid": "experts", "nemotron_h": "experts", "kimi_linear": "experts", "bailing_hybrid": "experts",
    "glm4_moe": "experts", "glm4_moe_lite": "experts", "mistral4": "experts", "deepseek_v32": "experts", "glm_moe_dsa": "experts", "minimax_m2": "experts", "minimax_m3_vl_text": "experts",
    "hunyuan_v1_moe": "experts", "hy_v3": "experts", "ernie4_5_moe": "experts", "dots1": "experts", "llama4_text": "experts",
    "flex_olmo": "experts", "phimoe": "experts", "axk1": "experts",
    "afmoe": "experts", "laguna": "experts", "mimo_v2_flash": "experts", "cohere2_moe": "experts", "granitemoe_swa": "experts",
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.txt"):
        old.unlink()
    seen = set()
    for path in sorted((ROOT / "src/arch/presets").glob("*.json")):
        for preset in json.loads(path.read_text()):
            kind = preset["config"]["model_type"]
            if kind in seen or kind in OTHERWISE:
                continue
            seen.add(kind)
            (folder / f"{preset['name']}.txt").write_text(repr(built(preset["config"])) + "\n")


main()

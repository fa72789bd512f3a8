#!/usr/bin/env python3
"""modules.py: how many parameters transformers counts in every module of one published model of each family.

    tools/oracle/modules.py >tests/golden/presets/modules.tsv

Per model_type, the first preset with the most kinds of layers; of these that with the shortest table. On the meta device, as in presets.py. Layers
with equal counts share a line: preset, path with "*" for the layer number, first layer, last layer, parameters; "-" outside the layers. OLMo
Hybrid's one convolution has no line, as checkpoints have three, nor have MiniMax M3's gates with up, which are two, and the container of its indexer, and A.X K1's MLPs with the norm behind them.
"""
import json
import pathlib
import re

from presets import count, on_meta

ROOT = pathlib.Path(__file__).resolve().parents[2]
APART = {"olmo_hybrid": ".conv1d", "minimax_m3_vl_text": (".gate_up_proj", ".indexer"),     # several modules in checkpoints
         "axk1": (".mlp", ".post_mlp_layernorm")}                # beside the MLP in checkpoints
LAYER = re.compile(r"(^|\.)(layers|h|blocks)\.(\d+)(?=\.|$)")


def built(config):
    config = dict(config)
    if config["model_type"] == "gpt3":
        config["model_type"] = "gpt2"               # its weights; see presets.py
    return on_meta(config)


def counts(model):
    """Return {(path with a star, layer or None): parameters}, without modules that have no parameters."""
    out = {}
    for path, module in model.named_modules():
        n = sum(p.numel() for p in module.parameters())
        n += sum(b.numel() for name, b in module.named_buffers() if name.endswith(("e_score_correction_bias", "expert_bias", "layer_scalar")))
        found = LAYER.search(path)
        key = (path[:found.start(3)] + "*" + path[found.end(3):], int(found[3])) if found else (path or ".", None)
        if n and not path.endswith(APART.get(model.config.model_type, ())):
            out[key] = n
    return out


def rows(counted):
    for star in dict.fromkeys(path for path, _ in counted):
        layers = sorted((i, n) for (path, i), n in counted.items() if path == star and i is not None)
        if not layers:
            yield star, "-", "-", counted[star, None]
        while layers:
            first, n = layers[0]
            last = first
            while layers and layers[0] == (last, n):
                layers.pop(0)
                last += 1
            yield star, first, last - 1, n


def main():
    print("# preset\tmodule\tfirst layer\tlast\tparameters that transformers counts")
    chosen = {}
    for path in sorted((ROOT / "src/arch/presets").glob("*.json")):
        for preset in json.loads(path.read_text()):
            if preset["config"]["model_type"] in ("gpt3", "bailing_hybrid") and count(preset["config"]) == "-":
                continue
            table = list(rows(counts(built(preset["config"]))))
            kind = preset["config"]["model_type"]
            order = -len({(row[0], row[3]) for row in table}), len(table)
            if kind not in chosen or order < chosen[kind][2]:
                chosen[kind] = preset["name"], table, order
    for name, table, _ in chosen.values():
        for row in table:
            print(name, *row, sep="\t")


if __name__ == "__main__":
    main()
